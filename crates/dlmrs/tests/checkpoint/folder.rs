//! Where the files are.

use std::fs;

use dlmrs::Error;
use dlmrs::checkpoint::{Folder, ModelConfig};

use crate::common::{Copy, golden, refused};

#[test]
fn missing_folder() {
    let error = refused(Folder::open("/no/such/model"), &["/no/such/model", "config.json", "safetensors"]);
    assert!(matches!(error, Error::NotFound { .. }));
    refused(Folder::open("no-such-model"), &["no-such-model"]);
    refused(Folder::open(""), &["not found"]);
    refused(Folder::open("a\0b"), &[]);
}

#[test]
fn unknown_bundled_name() {
    refused(Folder::open("bundled:tiny-gpt"), &["tiny-gpt"]);
}

#[test]
fn file_instead_of_a_folder() {
    let file = golden("sdar").join("config.json");
    refused(Folder::open(file.to_str().unwrap()), &["config.json", "is a file", "folder"]);
    // A path that goes on behind a file is just missing.
    refused(Folder::open(file.join("x").to_str().unwrap()), &["not found"]);
}

#[test]
fn reads_files_and_says_where_they_are() {
    let folder = Folder::open(golden("sdar").to_str().unwrap()).unwrap();
    assert!(folder.read("config.json").unwrap().unwrap().starts_with(b"{"));
    assert_eq!(folder.read("nothing.json").unwrap(), None);
    assert!(folder.describe("config.json").ends_with("golden/sdar/config.json"));
    assert_eq!(folder.name(), "sdar");
}

#[test]
fn a_folder_in_the_place_of_a_file() {
    let copy = Copy::config_only("sdar");
    fs::create_dir(copy.path("generation_config.json")).unwrap();
    refused(copy.folder().read("generation_config.json"), &["generation_config.json", "regular file"]);
}

#[test]
fn config_missing() {
    let copy = Copy::config_only("sdar");
    fs::remove_file(copy.path("config.json")).unwrap();
    let error = refused(ModelConfig::read(&copy.folder()), &["config.json not found"]);
    assert!(matches!(error, Error::NotFound { .. }));
}

#[test]
fn name_within_a_hugging_face_cache() {
    let temp = tempfile::tempdir().unwrap();
    let snapshot = temp.path().join("models--JetLM--SDAR-8B-Chat-b8/snapshots/0123abc");
    fs::create_dir_all(&snapshot).unwrap();
    assert_eq!(Folder::open(snapshot.to_str().unwrap()).unwrap().name(), "SDAR-8B-Chat-b8");
    assert_eq!(Folder::open(&format!("{}/", snapshot.parent().unwrap().display())).unwrap().name(), "snapshots");
    assert_eq!(Folder::open(snapshot.join("../..").to_str().unwrap()).unwrap().name(), "models--JetLM--SDAR-8B-Chat-b8");
}

#[cfg(feature = "bundled")]
#[test]
fn bundled_models_load_by_name() {
    use dlmrs::checkpoint::{Weights, bundled};
    for name in bundled::NAMES {
        for written in [name.to_string(), format!("bundled:{name}")] {
            let folder = Folder::open(&written).unwrap();
            assert!(matches!(folder, Folder::Bundled(found, _) if found == *name));
            assert_eq!(folder.name(), *name);
            let config = ModelConfig::read(&folder).unwrap();
            let weights = Weights::open(&folder, &config).unwrap();
            assert_eq!(weights.has_head(), !config.tied);
            assert_eq!(weights.parameters(), config.parameters());
            assert_eq!(weights.stored_dtypes(), ["BF16"]);
        }
    }
    refused(Folder::open("tiny-gpt"), &["tiny-gpt", "tiny-sdar, tiny-sdar-draft, tiny-llada"]);
    refused(Folder::open("bundled:tiny-gpt"), &["tiny-sdar"]);
    // Written as a path it is one.
    refused(Folder::open("./tiny-sdar"), &["not found"]);
}

/// Root may read everything, so a child that is not root looks at a folder of root's.
#[cfg(unix)]
mod permission {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    const FOLDER: &str = "DLMRS_TEST_FORBIDDEN_FOLDER";

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Not a test of its own: it does something only in the child.
    #[test]
    fn child_without_permission() {
        let Ok(base) = std::env::var(FOLDER) else { return };
        let error = refused(Folder::open(&format!("{base}/closed")), &["closed", "ermission denied"]);
        assert!(matches!(error, Error::Io { .. }));
        let folder = Folder::open(&format!("{base}/open")).unwrap();
        let error = refused(ModelConfig::read(&folder), &["open/config.json", "ermission denied"]);
        assert!(matches!(error, Error::Io { .. }));
    }

    #[test]
    fn folder_without_permission() {
        let temp = tempfile::tempdir().unwrap();
        allow(temp.path(), 0o755);
        for folder in ["closed", "open"] {
            let path = temp.path().join(folder);
            fs::create_dir(&path).unwrap();
            fs::copy(golden("sdar").join("config.json"), path.join("config.json")).unwrap();
        }
        allow(&temp.path().join("open/config.json"), 0o000);
        allow(&temp.path().join("closed"), 0o000);
        // The test program itself may lie where nobody else may go.
        let program = temp.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        allow(&program, 0o755);
        let mut child = Command::new(&program);
        child.args(["--exact", "folder::permission::child_without_permission"]).env(FOLDER, temp.path()).current_dir(temp.path());
        if fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
            child.uid(65534).gid(65534);
        }
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        allow(&temp.path().join("closed"), 0o755);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

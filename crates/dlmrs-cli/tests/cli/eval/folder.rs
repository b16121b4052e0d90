//! Folders that results cannot be written to.

use super::text;
use crate::common::run;

#[test]
fn what_is_somebody_elses_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    let args = ["eval", "tiny-sdar", "--limit", "1", "--out", text(folder.path())];
    for (more, wanted) in [(&[][..], "is not empty; --resume"), (&["--resume"], "has no manifest.json, so there is no run")] {
        let refused = run(&[&args[..], more].concat());
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
        assert!(refused.err.contains(wanted) && refused.err.lines().count() == 1, "{}", refused.err);
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["letter.txt"]);
    }
    let file = folder.path().join("letter.txt");
    let refused = run(&["eval", "tiny-sdar", "--limit", "1", "--out", text(&file)]);
    assert!(refused.err.contains("letter.txt: is a file; a folder is needed"), "{}", refused.err);
}

#[test]
fn a_manifest_that_is_broken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("manifest.json"), "{").unwrap();
    let refused = run(&["eval", "tiny-sdar", "--limit", "1", "--out", text(folder.path()), "--resume"]);
    assert!(refused.err.contains("manifest.json is not JSON"), "{}", refused.err);
}

/// As somebody who has no right to everything.
#[cfg(unix)]
#[test]
fn a_folder_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    let place = tempfile::tempdir().unwrap();
    let allow = |path: &std::path::Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let out = place.path().join("out");
    std::fs::create_dir(&out).unwrap();
    allow(place.path(), 0o755);
    allow(&out, 0o555);
    let id = Command::new("id").arg("-u").output().unwrap();
    // The binary may be where others cannot reach it.
    let binary = place.path().join("dlmrs");
    std::fs::copy(env!("CARGO_BIN_EXE_dlmrs"), &binary).unwrap();
    allow(&binary, 0o755);
    let mut words: Vec<&str> = vec![text(&binary)];
    if id.stdout == b"0\n" {
        words.splice(0..0, ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    for folder in [out.clone(), out.join("new")] {
        let args = ["eval", "tiny-sdar", "--limit", "1", "--out", text(&folder)];
        let refused = Command::new(words[0]).args(&words[1..]).args(args).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), &[][..]), "{said}");
        assert!(said.contains("--out ") && said.contains("cannot be written: Permission denied"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
    allow(&out, 0o755);
}

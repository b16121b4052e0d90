//! The folder of one run, which is removed whatever a program left in it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

/// A new empty folder that only this user may enter.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("dlmrs-").tempdir()?))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Removes it and says if that failed.
    pub(super) fn remove(self) -> io::Result<()> {
        clear(self.path())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed cannot be told here.
        let _ = clear(self.path());
    }
}

/// Empties a folder, however deep it is and whatever its permissions are: each folder in it is first moved to the top, so that no path
/// gets long and nothing is recursive.
fn clear(folder: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.is_dir() {
        return fs::remove_file(folder);
    }
    let top = tempfile::Builder::new().prefix("dlmrs-").tempdir()?;
    let mut waiting = vec![folder.to_path_buf()];
    let mut moved = 0_usize;
    while let Some(next) = waiting.pop() {
        allow(&next)?;
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let place = top.path().join(moved.to_string());
                moved += 1;
                // Whoever moves a folder changes its `..`.
                allow(&entry.path())?;
                fs::rename(entry.path(), &place)?;
                waiting.push(place);
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        fs::remove_dir(&next)?;
    }
    top.close()
}

fn allow(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)] // tests

    use super::*;

    #[test]
    fn a_deep_and_locked_tree_is_removed() {
        let folder = Folder::new().unwrap();
        let path = folder.path().to_path_buf();
        let mut deepest = path.clone();
        for _ in 0..300 {
            deepest.push("folder");
            fs::create_dir(&deepest).unwrap();
        }
        fs::write(deepest.join("file"), "text").unwrap();
        let locked = path.join("locked");
        fs::create_dir(&locked).unwrap();
        fs::write(locked.join("file"), "text").unwrap();
        fs::set_permissions(&locked, Permissions::from_mode(0o000)).unwrap();
        folder.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_link_is_removed_and_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let kept = outside.path().join("kept");
        fs::write(&kept, "text").unwrap();
        let folder = Folder::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        let path = folder.path().to_path_buf();
        drop(folder);
        assert!(!path.exists() && kept.exists());
    }

    #[test]
    fn a_folder_that_is_gone_is_no_error() {
        let folder = Folder::new().unwrap();
        fs::remove_dir(folder.path()).unwrap();
        folder.remove().unwrap();
    }
}

//! The folder of a run: a manifest first, then a line a problem, at the end a summary. It belongs to one process at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::lines;
use super::outcome::Outcome;
use crate::failure::Failure;

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const RESULTS: &str = "results.jsonl";
const SUMMARY: &str = "summary.json";
const LOCK: &str = ".lock";

/// What a file is called until it is complete.
const UNFINISHED: &str = ".unfinished";

/// A folder that this process may write.
pub(super) struct Results {
    folder: PathBuf,
    /// Held as long as the process works.
    _lock: File,
    /// What is taken away again unless a run begins.
    made: Made,
    lines: Option<File>,
    /// Of the lines that are whole.
    length: u64,
}

/// What was made while a folder was claimed.
#[derive(Default)]
struct Made {
    folder: bool,
    lock: bool,
}

impl Results {
    /// Claims a folder: makes it if need be, and refuses one that is not free.
    pub(super) fn claim(folder: &Path, resume: bool) -> Result<Self, Failure> {
        let cannot = |error: io::Error| Failure::Said(format!("--out {}: cannot be written: {error}", folder.display()));
        let mut made = Made::default();
        if !folder.exists() {
            fs::create_dir_all(folder).map_err(cannot)?;
            made.folder = true;
        } else if !folder.is_dir() {
            return Err(Failure::Said(format!("--out {}: is a file; a folder is needed", folder.display())));
        }
        let path = folder.join(LOCK);
        made.lock = !path.exists();
        // Before anything is written into a folder that may be somebody's own.
        if made.lock {
            check_free(folder, resume)?;
        }
        let lock = OpenOptions::new().create(true).append(true).open(&path).map_err(cannot)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "another process is writing its results there; wait for it, or give another folder";
                return Err(Failure::Said(format!("--out {}: {message}", folder.display())));
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        check_free(folder, resume)?;
        Ok(Self { folder: folder.to_path_buf(), _lock: lock, made, lines: None, length: 0 })
    }

    /// The manifest of the run that is resumed; None if there is none yet.
    pub(super) fn manifest(&self) -> Result<Option<Value>, Failure> {
        read_manifest(&self.folder)
    }

    /// Writes the manifest, unless it is there already, and gives back what was done before. What a killed process left of a line is
    /// cut off.
    pub(super) fn begin(&mut self, manifest: &Value, old: Option<&Value>) -> Result<Vec<Outcome>, Failure> {
        if old != Some(manifest) {
            self.write_whole(MANIFEST, manifest)?;
        }
        self.made = Made::default();
        let path = self.folder.join(RESULTS);
        let cannot = |error: io::Error| Failure::Said(format!("cannot write {}: {error}", path.display()));
        let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path).map_err(cannot)?;
        let (outcomes, length) = lines::read(&path)?;
        file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length))).map_err(cannot)?;
        (self.lines, self.length) = (Some(file), length);
        Ok(outcomes)
    }

    /// Adds a line, whole or not at all.
    pub(super) fn append(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        let path = self.folder.join(RESULTS);
        let cannot = |error: io::Error| Failure::Said(format!("cannot write {}: {error}; --resume goes on from there", path.display()));
        let line = serde_json::to_string(outcome).map_err(|error| cannot(error.into()))? + "\n";
        let Some(file) = &mut self.lines else { return Err(cannot(io::Error::other("the run has not begun"))) };
        if let Err(error) = file.write_all(line.as_bytes()) {
            // If that fails too, the next --resume does it.
            let _ = file.set_len(self.length);
            return Err(cannot(error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Writes the summary of a run that is complete.
    pub(super) fn finish(&self, summary: &Value) -> Result<(), Failure> {
        if let Some(file) = &self.lines {
            let path = self.folder.join(RESULTS);
            file.sync_all().map_err(|error| Failure::Said(format!("cannot write {}: {error}", path.display())))?;
        }
        self.write_whole(SUMMARY, summary)
    }

    /// Takes away the summary of a run that is not complete any more.
    pub(super) fn reopen(&self) -> Result<(), Failure> {
        let path = self.folder.join(SUMMARY);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::Said(format!("cannot remove {}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Writes a file under another name first, so that it is there as a whole or not at all.
    fn write_whole(&self, name: &str, value: &Value) -> Result<(), Failure> {
        let (path, unfinished) = (self.folder.join(name), self.folder.join(format!("{name}{UNFINISHED}")));
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(format!("{value:#}\n").as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|error: io::Error| {
            let _ = fs::remove_file(&unfinished);
            Failure::Said(format!("cannot write {}: {error}", path.display()))
        })
    }
}

/// A folder in which no run has begun is left as it was found.
impl Drop for Results {
    fn drop(&mut self) {
        if self.made.lock {
            let _ = fs::remove_file(self.folder.join(LOCK));
        }
        if self.made.folder {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Refuses a folder that holds something, unless it is a run that is to be resumed.
fn check_free(folder: &Path, resume: bool) -> Result<(), Failure> {
    let refuse = |message: &str| Err(Failure::Said(format!("--out {}: {message}", folder.display())));
    let ours = |name: &str| name == LOCK || name.ends_with(UNFINISHED);
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => return refuse(&format!("cannot be read: {error}")),
    };
    let names: Vec<_> = entries.iter().map(|name| name.to_string_lossy()).filter(|name| !ours(name)).collect();
    match (names.is_empty(), resume) {
        (true, _) => Ok(()),
        (false, true) if names.iter().any(|name| name == MANIFEST) => Ok(()),
        (false, true) => refuse(&format!("has no {MANIFEST}, so there is no run in it to resume; give another folder")),
        (false, false) => refuse("is not empty; --resume goes on with the run in it, or give another folder"),
    }
}

/// A folder's manifest; None if it has none.
pub(super) fn read_manifest(folder: &Path) -> Result<Option<Value>, Failure> {
    let path = folder.join(MANIFEST);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::Said(format!("cannot read {}: {error}", path.display()))),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| Failure::Said(format!("{} is not JSON: {error}", path.display())))
}

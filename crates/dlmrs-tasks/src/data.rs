//! Reading data sets in their published formats.

mod json;
mod parquet;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::{Error, Problem, Record, Result, Task};

/// Records one by one, so that a file of any size takes the memory of a record.
pub type Records = Box<dyn Iterator<Item = Result<Record>>>;

/// The records of a file, read as they are asked for: JSON lines, a JSON array or parquet, told apart by what the file begins with.
pub fn records(path: &Path) -> Result<Records> {
    let name = path.display().to_string();
    let unreadable = |e: std::io::Error| Error::at(&name, format!("cannot be read: {e}"));
    if path.is_dir() {
        return Err(Error::at(name, "is a folder; name a file of JSON lines or a parquet file in it"));
    }
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(unreadable)?);
    match reader.fill_buf().map_err(unreadable)? {
        [b'P', b'A', b'R', b'1', ..] => parquet::records(name, reader.into_inner()),
        start if start.starts_with(b"version https://git-lfs") => {
            Err(Error::at(name, "is the pointer that Git LFS left in place of the data; fetch the file itself with git lfs pull"))
        }
        _ if path.extension().is_some_and(|extension| extension == "parquet") => {
            Err(Error::at(name, "is no parquet file: it should begin with PAR1"))
        }
        [0x1f, 0x8b, ..] => Err(Error::at(name, "is compressed by gzip; unpack it first")),
        [b'P', b'K', 3, 4, ..] => Err(Error::at(name, "is a zip archive; unpack it first")),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(Error::at(name, "is UTF-16; it should be UTF-8")),
        _ => json::records(name, reader),
    }
}

/// All records of a file. A file without any is an error.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let found: Vec<_> = records(path)?.collect::<Result<_>>()?;
    if found.is_empty() { Err(Error::at(path.display().to_string(), "has no records")) } else { Ok(found) }
}

/// The records that come with a task.
pub fn bundled(task: &dyn Task) -> Result<Vec<Record>> {
    let Some(text) = task.bundled() else {
        return Err(Error::at(task.name(), format!("no data is built in: give a file. {}", task.about())));
    };
    json::records(format!("the bundled {}", task.name()), text.as_bytes())?.collect()
}

/// Reads all records as problems of a task, so that a wrong one is named before any work is done.
pub fn problems(task: &dyn Task, records: &[Record]) -> Result<Vec<Box<dyn Problem>>> {
    records.iter().map(|record| task.read(record)).collect()
}

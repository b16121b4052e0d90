//! Parquet, the format of the Hugging Face hub.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use serde_json::Value;

use super::Records;
use crate::{Error, Record, Result};

/// The records of a parquet file. A page of each column is in memory at a time.
pub(super) fn records(name: String, file: File) -> Result<Records> {
    let reader = guarded(|| SerializedFileReader::new(file)).map_err(|reason| Error::at(&name, reason))?;
    let rows = rows(&reader).map_err(|reason| Error::at(&name, reason))?;
    let iter = guarded(|| Ok(RowIter::from_file_into(Box::new(reader)))).map_err(|reason| Error::at(&name, reason))?;
    Ok(Box::new(Rows { name, iter, read: 0, rows, ended: false }))
}

/// How many rows there are. Every column of a row group must have a value for each of its rows, or a damaged count would ask for rows
/// without end.
fn rows(reader: &SerializedFileReader<File>) -> Result<u64, String> {
    let metadata = reader.metadata();
    let mut rows = 0_i64;
    for group in metadata.row_groups() {
        let fits = group.columns().iter().all(|column| column.num_values() >= group.num_rows());
        if group.num_rows() < 0 || !fits {
            return Err(damaged("a row group holds less than its number of rows"));
        }
        rows = rows.saturating_add(group.num_rows());
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(damaged("its row groups do not add up to its number of rows"));
    }
    Ok(rows.unsigned_abs())
}

fn damaged(reason: impl std::fmt::Display) -> String {
    format!("is no parquet file, or damaged: {reason}")
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs what may panic over a damaged file: the parquet crate trusts some of what it reads. Such a panic becomes an error and is not
/// printed; all others, and those of other threads, go to the hook that was there.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                before(panic);
            }
        }));
    });
    GUARDED.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    match done {
        Ok(done) => done.map_err(damaged),
        Err(_) => Err(damaged("its pages contradict each other")),
    }
}

struct Rows {
    name: String,
    iter: RowIter<'static>,
    read: u64,
    rows: u64,
    ended: bool,
}

impl Rows {
    fn record(&mut self) -> Result<Option<Record>> {
        let place = format!("row {} of {}", self.read + 1, self.name);
        let row = guarded(|| self.iter.next().transpose().map(|row| row.map(|row| row.to_json_value())));
        match row.map_err(|reason| Error::at(&place, reason))? {
            Some(Value::Object(fields)) => {
                self.read += 1;
                Ok(Some(Record { place, fields }))
            }
            _ if self.read == self.rows => Ok(None),
            _ => Err(Error::at(place, damaged(format!("{} rows are promised", self.rows)))),
        }
    }
}

impl Iterator for Rows {
    type Item = Result<Record>;

    /// Nothing follows an error: after one the row iterator gives the same for ever.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.record();
        self.ended = !matches!(record, Ok(Some(_)));
        record.transpose()
    }
}

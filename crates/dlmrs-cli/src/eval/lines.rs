//! Reading `results.jsonl`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::outcome::Outcome;
use crate::failure::Failure;

/// No answer makes a longer line; it keeps an endless file from filling the memory.
const MAX_LINE: u64 = 64 << 20;

/// The lines of a file, and how many bytes they take. The last line may be torn: then it does not count.
pub(super) fn read(path: &Path) -> Result<(Vec<Outcome>, u64), Failure> {
    let cannot = |error: io::Error| Failure::Said(format!("cannot read {}: {error}", path.display()));
    let mut reader = BufReader::new(File::open(path).map_err(cannot)?);
    let (mut outcomes, mut length, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let read = (&mut reader).take(MAX_LINE + 1).read_until(b'\n', &mut line).map_err(cannot)?;
        if read as u64 > MAX_LINE {
            let place = format!("line {} of {}", outcomes.len() + 1, path.display());
            return Err(Failure::at(&place, format!("is no line of results: it has more than {MAX_LINE} bytes")));
        }
        match serde_json::from_slice(&line) {
            Ok(outcome) if line.ends_with(b"\n") => outcomes.push(outcome),
            // A write that was cut off, or blocks of a file that never reached the disk.
            _ if reader.fill_buf().map_err(cannot)?.is_empty() => return Ok((outcomes, length)),
            Ok(_) => {}
            Err(error) => {
                let place = format!("line {} of {}", outcomes.len() + 1, path.display());
                return Err(Failure::at(&place, format!("is no line of results: {error}")));
            }
        }
        length += read as u64;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn line(index: usize) -> String {
        format!(
            r#"{{"index":{index},"place":"","prompt_sha256":"","answer":"","scores":{{}},"tokens":0,"passes":{{}},"rows":{{}},"seconds":0.1,"wall_seconds":0.1,"finish_reason":"stop","seed":0}}"#
        )
    }

    fn read_text(text: &str) -> Result<(Vec<Outcome>, u64), Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn a_torn_last_line_does_not_count() {
        let whole = format!("{}\n{}\n", line(0), line(1));
        for torn in ["", "{", "{\"index\":2", &line(2), "\0\0\0\0", "{}\n"] {
            let (outcomes, length) = read_text(&format!("{whole}{torn}")).unwrap();
            assert_eq!((outcomes.len(), length), (2, whole.len() as u64), "{torn:?}");
        }
    }

    #[test]
    fn a_torn_line_in_the_middle_is_an_error() {
        let message = read_text(&format!("{}\n{{\n{}\n", line(0), line(1))).unwrap_err().message().unwrap();
        assert!(message.starts_with("line 2 of ") && message.contains("is no line of results"), "{message}");
    }
}

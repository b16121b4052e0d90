//! SHA-256 of texts and of files, which are read in a stream.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// How much is read at a time.
const PIECE: usize = 1 << 20;

/// Of some bytes, in hexadecimal.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// Of a regular file. `progress` is told how many bytes were read, piece by piece, and ends the work by returning false.
pub(super) fn of_file(path: &Path, progress: &mut dyn FnMut(u64) -> bool) -> Result<String, Failure> {
    let cannot = |error: io::Error| Failure::Said(format!("cannot read {}: {error}", path.display()));
    // A pipe could be read only once, and perhaps never ends.
    if !path.metadata().map_err(cannot)?.is_file() {
        return Err(Failure::Said(format!("cannot read {}: it is not a regular file", path.display())));
    }
    let mut file = File::open(path).map_err(cannot)?;
    let (mut digest, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hex(digest.finalize().as_slice())),
            Ok(read) => {
                digest.update(&piece[..read]);
                if !progress(read as u64) {
                    return Err(Failure::Interrupted);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot(error)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn bytes_and_files() {
        assert_eq!(of_bytes(b"abc"), ABC);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(of_file(file.path(), &mut |read| read == 3).unwrap(), ABC);
        assert!(matches!(of_file(file.path(), &mut |_| false), Err(Failure::Interrupted)));
    }

    #[test]
    fn folders_are_refused() {
        let message = of_file(&std::env::temp_dir(), &mut |_| true).unwrap_err().message().unwrap();
        assert!(message.ends_with("it is not a regular file"), "{message}");
    }
}

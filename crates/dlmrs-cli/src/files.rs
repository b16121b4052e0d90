//! What users hand over in files: texts, and JSON line by line.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;

/// No file of a user's is larger; it keeps an endless one from filling the memory.
const MAX_BYTES: u64 = 1 << 30;

/// A file's name in errors. `-` is standard input.
pub(crate) fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_string() } else { path.display().to_string() }
}

/// A file's text without a byte order mark.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let name = name(path);
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::Said(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::at(&name, format!("has more than {MAX_BYTES} bytes; split it")));
    }
    let text = utf8(bytes).map_err(|message| Failure::at(&name, message))?;
    Ok(text.strip_prefix('\u{FEFF}').map(str::to_string).unwrap_or(text))
}

/// Bytes as text; an error tells where they are none.
pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(offset).copied().unwrap_or_default();
        format!("is not UTF-8: byte 0x{byte:02X} at offset {offset}; convert it to UTF-8")
    })
}

/// What `parse` makes of each line that is not blank, with the line's place.
pub(crate) fn parse<T>(text: &str, name: &str, parse: impl Fn(Value) -> Result<T, String>) -> Result<Vec<(String, T)>, Failure> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let place = format!("line {} of {name}", number + 1);
            match value(line).and_then(&parse) {
                Ok(item) => Ok((place, item)),
                Err(message) => Err(Failure::at(&place, message)),
            }
        })
        .collect()
}

/// The value of one line.
pub(crate) fn value(line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|error| {
        let position = format!(" at line {} column {}", error.line(), error.column());
        format!("not valid JSON at column {}: {}", error.column(), error.to_string().replace(&position, ""))
    })
}

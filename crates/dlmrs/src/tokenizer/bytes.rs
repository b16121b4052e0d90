//! Bytes as byte-level vocabularies write them, and bytes that become text as soon as they can.

/// The byte behind a character of a byte-level token. Printable Latin-1 characters stand for themselves; the other 68 bytes, in
/// order, are the characters from U+0100 on.
fn byte_of(c: char) -> Option<u8> {
    let n = match c as u32 {
        n @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => n,
        n @ 0x100..=0x120 => n - 0x100,
        0x121 => 0x7F,
        n @ 0x122..=0x142 => n - 0x122 + 0x80,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(n).ok()
}

/// The bytes of a byte-level token. One with other characters in it was not written so, and stands for itself.
pub(super) fn token_bytes(token: &str) -> Vec<u8> {
    token.chars().map(byte_of).collect::<Option<Vec<u8>>>().unwrap_or_else(|| token.as_bytes().to_vec())
}

/// Bytes on their way to text. What comes out adds up to `String::from_utf8_lossy` of all that went in.
#[derive(Debug, Clone, Default)]
pub(super) struct Utf8Buffer {
    /// At most the first three bytes of a character.
    pending: Vec<u8>,
}

impl Utf8Buffer {
    /// Takes bytes and appends every character that is now complete to `text`.
    pub(super) fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.pending.extend_from_slice(bytes);
        let mut rest = self.pending.as_slice();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            text.push_str(std::str::from_utf8(valid).unwrap_or_default());
            rest = after;
            // No length means that the bytes end within a character, which the next token may complete.
            let Some(wrong) = error.error_len() else { break };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[wrong..];
        }
        let kept = rest.len();
        self.pending.drain(..self.pending.len() - kept);
    }

    /// Ends the text: an incomplete character is replaced.
    pub(super) fn finish(&mut self, text: &mut String) {
        if !std::mem::take(&mut self.pending).is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_has_one_character() {
        let bytes: std::collections::BTreeSet<u8> = (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        assert_eq!(bytes.len(), 256);
        assert_eq!((0..0x200).filter_map(char::from_u32).filter_map(byte_of).count(), 256);
        assert_eq!(token_bytes("Ġthe"), b" the");
        assert_eq!(token_bytes("Ċ"), b"\n");
        assert_eq!(token_bytes("<｜x｜>"), "<｜x｜>".as_bytes());
    }

    proptest! {
        #[test]
        fn pieces_are_the_lossy_whole(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), 0..20)) {
            let (mut buffer, mut text) = (Utf8Buffer::default(), String::new());
            for chunk in &chunks {
                buffer.push(chunk, &mut text);
            }
            buffer.finish(&mut text);
            prop_assert_eq!(text, String::from_utf8_lossy(&chunks.concat()).into_owned());
        }

        #[test]
        fn characters_come_out_whole(text in ".*", size in 1_usize..5) {
            let (mut buffer, mut out) = (Utf8Buffer::default(), String::new());
            for chunk in text.as_bytes().chunks(size) {
                buffer.push(chunk, &mut out);
                prop_assert!(text.starts_with(&out), "{out:?} is no beginning of {text:?}");
            }
            prop_assert_eq!(out, text);
        }
    }
}

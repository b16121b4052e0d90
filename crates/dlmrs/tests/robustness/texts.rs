//! Any text and any ids through the bundled tokenizer and the real one.

use std::sync::OnceLock;

use dlmrs::Folder;
use dlmrs::tokenizer::{ChatOptions, Message, Specials, Tokenizer};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{alone, at, is_sentence, measured, tried};

const MEMORY: usize = 4 << 20;

fn tokenizers() -> &'static [Tokenizer; 2] {
    static BOTH: OnceLock<[Tokenizer; 2]> = OnceLock::new();
    BOTH.get_or_init(|| {
        ["bundled/tiny-sdar", "../../tests/data/sdar-tokenizer"]
            .map(|path| Tokenizer::from_files(&Folder::Disk(at(path))).unwrap().unwrap())
    })
}

#[test]
fn any_text_is_encoded() {
    let _alone = alone();
    let part = prop_oneof![
        any::<String>(),
        "\\PC{0,30}",
        "[ -~\n]{0,60}",
        Just("<|MASK|>".to_owned()),
        Just("a".repeat(3000)),
        "[\u{300}-\u{36f}]{0,200}"
    ];
    tried(vec(part, 0..4), |parts| {
        let text = parts.concat();
        for tokenizer in tokenizers() {
            for specials in [Specials::AsText, Specials::Parse] {
                let (ids, risen) = measured(|| tokenizer.encode(&text, specials).unwrap());
                prop_assert!(risen < MEMORY + 2000 * text.len(), "{risen} bytes for {}", text.len());
                prop_assert!(ids.iter().all(|id| *id < tokenizer.vocab_size()));
                let messages = [Message::new(parts.first().map_or("user", String::as_str), text.as_str())];
                tokenizer.encode_chat(&messages, &ChatOptions::default(), specials).unwrap();
            }
        }
        Ok(())
    });
}

#[test]
fn any_ids_are_decoded_or_refused() {
    let _alone = alone();
    let id = prop_oneof![3 => 0_u32..700, 3 => 0_u32..152_000, 1 => any::<u32>()];
    tried((vec(id, 0..40), any::<bool>(), 1_usize..5), |(ids, skip, size)| {
        for tokenizer in tokenizers() {
            let whole = tokenizer.decode(&ids, skip);
            let mut stream = tokenizer.stream(skip);
            let pieces: Result<String, _> = ids.chunks(size).map(|chunk| stream.push(chunk)).collect();
            match (whole, pieces) {
                (Ok(whole), Ok(pieces)) => prop_assert_eq!(whole, pieces + &stream.finish().unwrap()),
                (Err(whole), Err(pieces)) => {
                    let wrong = ids.iter().find(|id| tokenizer.id_to_token(**id).is_none()).unwrap();
                    is_sentence(&whole, &[&wrong.to_string()]);
                    is_sentence(&pieces, &[&wrong.to_string()]);
                }
                (whole, pieces) => prop_assert!(false, "{whole:?} and {pieces:?}"),
            }
        }
        Ok(())
    });
}

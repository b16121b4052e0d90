//! The files of a tokenizer, of every kind that the library knows.

use std::collections::BTreeMap;
use std::fs;

use dlmrs::Result;
use dlmrs::tokenizer::{ChatOptions, Files, Message, Specials, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{alone, at, is_sentence, measured, tried};
use crate::mutations::{Edit, Slip, edited, edits, slipped, slips};

/// For tables that are made whatever a file holds, and for texts and ids.
const MEMORY: usize = 32 << 20;

#[derive(Clone, Default)]
struct Made(BTreeMap<&'static str, Vec<u8>>);

impl Made {
    fn with(mut self, name: &'static str, content: impl ToString) -> Self {
        self.0.insert(name, content.to_string().into_bytes());
        self
    }

    fn size(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// One file changed; a JSON file in its tree first.
    fn changed(mut self, which: usize, edits: &[Edit], slips: &[Slip]) -> Self {
        let which = which % self.0.len();
        let content = self.0.values_mut().nth(which).unwrap();
        if let Ok(tree) = serde_json::from_slice(content) {
            *content = edited(tree, edits).to_string().into_bytes();
        }
        *content = slipped(std::mem::take(content), slips);
        self
    }
}

impl Files for Made {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(name).cloned())
    }

    fn describe(&self, name: &str) -> String {
        format!("made/{name}")
    }
}

fn bundled() -> Made {
    ["tokenizer.json", "tokenizer_config.json"]
        .into_iter()
        .fold(Made::default(), |made, name| made.with(name, fs::read_to_string(at("bundled/tiny-sdar").join(name)).unwrap()))
}

/// A vocabulary of a few letters in the older files.
fn pair() -> Made {
    let vocab = json!({"<": 0, "m": 1, ">": 2, "a": 3, "b": 4, "ab": 5, "Ġ": 6, "|": 7});
    let config = json!({
        "added_tokens_decoder": {
            "8": {"content": "<m>", "special": true, "normalized": false, "lstrip": false},
            "10": {"content": "<think>", "special": false, "single_word": true, "rstrip": true},
        },
        "mask_token": "<m>", "eos_token": {"content": "<think>"}, "additional_special_tokens": ["<m>"], "extra_special_tokens": {"x": "ab"},
        "chat_template": [{"name": "default", "template": "{{ messages[0].content }}"}, {"name": "tool_use", "template": "{{ tools }}"}],
    });
    Made::default()
        .with("vocab.json", vocab)
        .with("merges.txt", "#version: 0.2\na b\n")
        .with("tokenizer_config.json", config)
        .with("added_tokens.json", json!({"<m>": 8, "<x>": 11, "<y>": 12}))
        .with("special_tokens_map.json", json!({"pad_token": "<x>", "unk_token": {"content": "a", "lstrip": false}}))
}

fn added(id: u32, content: &str, normalized: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": normalized, "special": true})
}

fn whole(model: Value, normalizer: Value, pre_tokenizer: Value, decoder: Value) -> Made {
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [added(0, "<unk>", false), added(8, "<m>", true)],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": decoder, "model": model,
    });
    Made::default().with("tokenizer.json", file).with("tokenizer_config.json", json!({"mask_token": "<m>", "unk_token": "<unk>"}))
}

/// One tokenizer for each model of the library, and every step of it in one of them.
fn zoo() -> Vec<Made> {
    let words = ["<unk>", "a", "b", "ab", "##b", "▁a", "▁", "<0x41>"];
    let vocab: Value = words.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect::<serde_json::Map<_, _>>().into();
    let scores: Vec<Value> = words.iter().enumerate().map(|(id, word)| json!([word, -(id as f64)])).collect();
    let regex = |regex: &str| json!({"Regex": regex});
    vec![
        whole(
            json!({"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
                "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": vocab, "merges": [["a", "b"], ["▁", "a"]]}),
            json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Lowercase"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": "Replace", "pattern": regex(" {2,}"), "content": " "}]}),
            json!({"type": "Split", "pattern": regex("(?=\\s)a|\\p{L}+|\\s+(?!\\S)"), "behavior": "MergedWithPrevious", "invert": false}),
            json!({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]}),
        ),
        whole(
            json!({"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": false}),
            json!({"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, {"type": "StripAccents"}, {"type": "ByteLevel"}]}),
            json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "FixedLength", "length": 3},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}]}),
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
        ),
        whole(
            json!({"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}),
            json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}),
            json!({"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, {"type": "Digits", "individual_digits": true},
                {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "UnicodeScripts"}, {"type": "CharDelimiterSplit", "delimiter": "-"}]}),
            json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        ),
        whole(
            json!({"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}),
            json!({"type": "Strip", "strip_left": true, "strip_right": true}),
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
            json!({"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": true}),
        ),
    ]
}

/// What a tokenizer is for, on a few texts; where it loads it works or says why not.
fn used(tokenizer: &Tokenizer) {
    let sentence = |error: dlmrs::Error| is_sentence(&error, &["tokenizer", "messages", "chat template"]);
    for text in ["", "ab <m> a-b", " \u{e9}\u{301} 12 扩\n<think>", "aaaaaaaaaaaaaaaa"] {
        for specials in [Specials::AsText, Specials::Parse] {
            match tokenizer.encode(text, specials) {
                Ok(ids) => drop(tokenizer.decode(&ids, true).map_err(sentence)),
                Err(error) => sentence(error),
            }
            drop(tokenizer.encode_chat(&[Message::new("user", text)], &ChatOptions::default(), specials).map_err(sentence));
        }
    }
    let ids: Vec<u32> = (0..tokenizer.vocab_size().min(30)).filter(|id| tokenizer.id_to_token(*id).is_some()).collect();
    let mut stream = tokenizer.stream(false);
    for id in &ids {
        drop(stream.push(&[*id]).map_err(sentence));
    }
    drop(stream.finish().map_err(sentence));
    drop(tokenizer.decode(&ids, false).map_err(sentence));
}

fn tried_on(bases: Vec<Made>) {
    for made in &bases {
        used(&Tokenizer::from_files(made).unwrap().unwrap());
    }
    let change = (any::<usize>(), edits(), slips());
    tried((0..bases.len(), proptest::collection::vec(change, 1..3)), |(base, changes)| {
        let mut made = bases[base].clone();
        for (which, edits, slips) in &changes {
            made = made.changed(*which, edits, slips);
        }
        let ((), risen) = measured(|| match Tokenizer::from_files(&made) {
            Ok(Some(tokenizer)) => used(&tokenizer),
            Ok(None) => (),
            Err(error) => is_sentence(&error, &["made/", "tokenizer: "]),
        });
        prop_assert!(risen < MEMORY + 500 * made.size(), "{risen} bytes for {}", made.size());
        Ok(())
    });
}

#[test]
fn changed_files_of_the_bundled_tokenizer() {
    let _alone = alone();
    tried_on(vec![bundled()]);
}

#[test]
fn changed_files_of_small_tokenizers() {
    let _alone = alone();
    tried_on(zoo().into_iter().chain([pair(), pair()]).collect());
}

fn error(made: &Made) -> String {
    Tokenizer::from_files(made).unwrap_err().to_string()
}

fn set(made: Made, pointer: &str, value: Value) -> Made {
    let mut tree: Value = serde_json::from_slice(&made.0["tokenizer.json"]).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match tree.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        parent => parent[key] = value,
    }
    made.with("tokenizer.json", tree)
}

/// The library counts on from the highest id, and panicked or began at 0 again.
#[test]
fn ids_beyond_any_vocabulary_are_refused() {
    let _alone = alone();
    for id in [4_u64 << 20, u64::from(u32::MAX)] {
        let config = json!({"added_tokens_decoder": {(id.to_string()): {"content": "<m>"}}});
        assert!(error(&pair().with("tokenizer_config.json", config)).contains("made/tokenizer_config.json: added_tokens_decoder"));
        assert!(error(&pair().with("added_tokens.json", json!({"<x>": id}))).contains("made/added_tokens.json: the id of"));
        assert!(error(&pair().with("vocab.json", json!({"a": 0, "b": 1, "ab": id}))).contains("must be below 4194304"));
        let made = set(zoo().remove(0), "/added_tokens/1/id", json!(id));
        assert!(error(&made).contains("made/tokenizer.json: the added token \"<m>\" has the id"), "{}", error(&made));
    }
}

/// Each of 40 replacements doubles the text.
#[test]
fn steps_that_blow_a_text_up_are_refused() {
    let _alone = alone();
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let normalizer = json!({"type": "Sequence", "normalizers": vec![double.clone(); 40]});
    assert!(error(&set(zoo().remove(0), "/normalizer", normalizer)).starts_with("made/tokenizer.json: normalizer can make a text"));
    let decoder = json!({"type": "Sequence", "decoders": vec![double; 40]});
    assert!(error(&set(zoo().remove(0), "/decoder", decoder)).starts_with("made/tokenizer.json: decoder can make a text"));
    let split =
        json!({"type": "Split", "pattern": {"Regex": "(?:(?:(?:(?=a)a){1000}){1000}){1000}"}, "behavior": "Isolated", "invert": false});
    assert!(error(&set(zoo().remove(0), "/pre_tokenizer", split)).contains("counts multiply"));
}

/// The library would cut "é" in half and take the rest for text.
#[test]
fn a_prefix_that_cuts_characters_is_refused() {
    let _alone = alone();
    let made = set(zoo().remove(0), "/model/vocab/é", json!(8));
    let made = set(set(made, "/model/merges", json!([["a", "é"]])), "/model/continuing_subword_prefix", json!("#"));
    assert!(error(&made).contains("continuing_subword_prefix"), "{}", error(&made));
}

/// The library panics in these, at loading and at use.
#[test]
fn what_the_library_panics_at_is_an_error() {
    let _alone = alone();
    let merge = set(zoo().remove(0), "/model/merges", json!([["a", "▁a"]]));
    assert!(error(&merge).starts_with("made/tokenizer.json: "));
    let precompiled = json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"});
    assert!(error(&set(zoo().remove(0), "/normalizer", precompiled)).starts_with("made/tokenizer.json: "));
    let strip = json!({"type": "Strip", "content": "a", "start": 0, "stop": 100});
    let tokenizer = Tokenizer::from_files(&set(zoo().remove(0), "/decoder", strip)).unwrap().unwrap();
    let message = tokenizer.decode(&[1, 1], false).unwrap_err().to_string();
    assert!(message.contains("contradict each other, so it fails at decoding ids"), "{message}");
    let length = json!({"type": "FixedLength", "length": 0});
    let tokenizer = Tokenizer::from_files(&set(zoo().remove(0), "/pre_tokenizer", length)).unwrap().unwrap();
    for specials in [Specials::AsText, Specials::Parse] {
        let message = tokenizer.encode("ab", specials).unwrap_err().to_string();
        assert!(message.contains("fails at encoding a text"), "{message}");
    }
}

/// Looking each added token up among all the others took 20 seconds for 100,000.
#[test]
fn many_added_tokens_are_no_trouble() {
    let _alone = alone();
    let many: serde_json::Map<String, Value> = (0..100_000).map(|i| (format!("<{i}>"), json!(i + 20))).collect();
    let tokenizer = Tokenizer::from_files(&pair().with("added_tokens.json", Value::from(many))).unwrap().unwrap();
    assert_eq!(tokenizer.encode("<99999>", Specials::Parse).unwrap(), [100_019]);
}

#[test]
fn many_named_templates_are_refused() {
    let _alone = alone();
    let one = json!({"name": "default", "template": "x"});
    let config = |n: usize| json!({"chat_template": vec![one.clone(); n]});
    assert!(Tokenizer::from_files(&pair().with("tokenizer_config.json", config(32))).is_ok());
    assert!(
        error(&pair().with("tokenizer_config.json", config(33))).contains("made/tokenizer_config.json: chat_template lists 33 templates")
    );
}

/// An error shows a part of what it found, and on one line.
#[test]
fn messages_stay_short() {
    let _alone = alone();
    let long = "x\n".repeat(1_000_000);
    for made in [
        pair().with("merges.txt", &long),
        pair().with("added_tokens.json", json!({(long.clone()): "y"})),
        pair().with("tokenizer_config.json", json!({"added_tokens_decoder": {(long.clone()): {"content": "y"}}})),
        pair().with("tokenizer_config.json", json!({"added_tokens_decoder": {"3": {"content": long}}})),
        set(zoo().remove(0), "/normalizer", json!({"type": long})),
        set(zoo().remove(0), "/added_tokens/1", json!({"id": 4, "content": long})),
    ] {
        is_sentence(&Tokenizer::from_files(&made).unwrap_err(), &["made/"]);
    }
}

//! What stands between the `tokenizers` library and files that it takes on trust.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::{Error, Result};

/// The highest id + 1 that a token may have. No model has so many rows, and the library counts on from the highest without a check.
pub(super) const MAX_ID: u32 = 4 << 20;
/// How many times longer the steps of a normalizer or decoder together may make a text.
const MAX_GROWTH: usize = 1000;
/// How many steps they may have.
const MAX_STEPS: usize = 64;
/// Characters of a pattern.
const MAX_PATTERN: usize = 10_000;
/// How often the counts in a pattern may multiply what they repeat; the library writes repetitions out.
const MAX_REPEATS: usize = 10_000;

/// Runs a part of the library's work. It panics where a file's parts contradict each other (a merge whose result is not in the
/// vocabulary, a decoder that strips more than there is, ...), in too many places to check each beforehand.
///
/// Nothing is left half changed: the work either builds a tokenizer, which is then dropped, or only reads one.
pub(super) fn guarded<T>(broken: impl FnOnce() -> Error, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(broken()))
}

/// The error for a tokenizer that loads but cannot do its work.
pub(super) fn failed(doing: &str) -> Error {
    Error::Tokenizer(format!("its files contradict each other, so it fails at {doing}; a sound tokenizer.json is needed"))
}

/// Refuses a normalizer, pre-tokenizer or decoder that could turn a short text into one that fills the memory. What is malformed is
/// left to the library, which says so.
pub(super) fn check_steps(part: &str, value: &Value) -> Result<(), String> {
    let (mut steps, mut growth) = (0, 1_usize);
    check_step(part, value, &mut steps, &mut growth)
}

fn check_step(part: &str, value: &Value, steps: &mut usize, growth: &mut usize) -> Result<(), String> {
    let map = match value {
        Value::Array(items) => return items.iter().try_for_each(|item| check_step(part, item, steps, growth)),
        Value::Object(map) => map,
        _ => return Ok(()),
    };
    *steps += 1;
    if *steps > MAX_STEPS {
        return Err(format!("{part} has more than {MAX_STEPS} steps"));
    }
    let pattern = map.get("pattern").and_then(Value::as_object);
    let string = |name: &str| pattern.and_then(|pattern| pattern.get(name)?.as_str());
    if let Some(regex) = string("Regex") {
        check_pattern(part, regex)?;
    }
    // What replaces a match, or what is set before a piece: these may be as short as nothing.
    let inserted =
        ["content", "prepend", "prefix", "replacement"].iter().filter_map(|name| map.get(*name)?.as_str()).map(str::len).sum::<usize>();
    let factor = match string("String") {
        Some(replaced) if !replaced.is_empty() => inserted.div_ceil(replaced.len()),
        _ => inserted + 1,
    };
    *growth = growth.saturating_mul(factor.max(1));
    if *growth > MAX_GROWTH {
        return Err(format!("{part} can make a text more than {MAX_GROWTH} times longer, which no tokenizer needs"));
    }
    map.iter().filter(|(name, _)| *name != "pattern").try_for_each(|(_, value)| match value {
        Value::Array(_) | Value::Object(_) => check_step(part, value, steps, growth),
        _ => Ok(()),
    })
}

fn check_pattern(part: &str, regex: &str) -> Result<(), String> {
    if regex.len() > MAX_PATTERN {
        return Err(format!("{part} has a pattern of {} bytes, but at most {MAX_PATTERN} are read", regex.len()));
    }
    let counts = regex.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(count, _)| count);
    let most = |count: &str| count.split(',').filter_map(|n| n.trim().parse::<usize>().ok()).max();
    let repeats = counts.filter_map(most).fold(1_usize, |all, n| all.saturating_mul(n.max(1)));
    match repeats > MAX_REPEATS {
        true => Err(format!("{part} has a pattern whose counts multiply to more than {MAX_REPEATS}")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_real_tokenizers_do_is_let_through() {
        for value in [
            json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}),
            json!({"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "``"}, "content": "\""}, {"type": "NFKD"},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}),
            json!({"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}| ?[^\\s\\p{L}]+"}, "behavior": "Isolated", "invert": false}),
            json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
            Value::Null,
        ] {
            assert_eq!(check_steps("the normalizer", &value), Ok(()), "{value}");
        }
    }

    #[test]
    fn what_fills_the_memory_is_not() {
        let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let sequence = |n: usize| json!({"type": "Sequence", "normalizers": vec![double.clone(); n]});
        let refused = |value: &Value, words: &str| {
            assert!(check_steps("the normalizer", value).is_err_and(|error| error.contains(words)), "{words}");
        };
        refused(&sequence(40), "1000 times longer");
        refused(&json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFC"}); 100]}), "more than 64 steps");
        refused(&json!({"type": "Split", "pattern": {"Regex": "(?:(?:(?=a)a){1000}){1000}"}}), "counts");
        refused(&json!({"type": "Split", "pattern": {"Regex": "a".repeat(20_000)}}), "20000 bytes");
        refused(&json!({"type": "Prepend", "prepend": "x".repeat(2000)}), "1000 times longer");
    }
}

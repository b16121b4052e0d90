//! A byte-level BPE tokenizer from `vocab.json` and `merges.txt`, as Qwen2 defines it.

use std::collections::{BTreeMap, HashMap};

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior};

use super::config::malformed;
use super::load::Loaded;
use super::{Files, added, library};
use crate::{Error, Result};

pub(super) const VOCAB: &str = "vocab.json";
pub(super) const MERGES: &str = "merges.txt";

/// How Qwen2 cuts text into words: contractions, letters with one leading sign, single digits, signs, and whitespace.
pub(crate) const WORDS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Builds the tokenizer. The added tokens enter the model's vocabulary too, which fixes their ids even where they leave gaps; as no
/// merge makes them, text still reaches them by their literal only.
pub(super) fn build(files: &dyn Files, vocab: &[u8], merges: &[u8], tokens: BTreeMap<u32, AddedToken>) -> Result<Loaded> {
    let mut vocab: HashMap<String, u32> = serde_json::from_slice(vocab).map_err(|error| malformed(files, VOCAB, &error))?;
    let merges = read_merges(merges, &vocab, &files.describe(MERGES))?;
    let outside = tokens.iter().filter(|(_, token)| !vocab.contains_key(&token.content)).map(|(id, _)| *id).collect();
    place(&mut vocab, &tokens, &files.describe(VOCAB))?;
    let vocab: Vocab = vocab.into_iter().collect();
    let model = BPE::builder().vocab_and_merges(vocab, merges).build().map_err(library)?;
    let mut inner = tokenizers::Tokenizer::new(model);
    let split = Split::new(SplitPattern::Regex(WORDS.to_owned()), SplitDelimiterBehavior::Isolated, false).map_err(library)?;
    let bytes = ByteLevel::new(false, false, false);
    inner.with_normalizer(Some(NFC)).map_err(library)?;
    inner.with_pre_tokenizer(Some(Sequence::new(vec![split.into(), bytes.into()]))).with_decoder(Some(bytes));
    added::add(&mut inner, &tokens)?;
    match added::misplaced(&inner, &tokens) {
        Some((id, content, found)) => Err(added::conflict(&files.describe(VOCAB), id, content, found)),
        None => Ok(Loaded { inner, outside }),
    }
}

fn place(vocab: &mut HashMap<String, u32>, tokens: &BTreeMap<u32, AddedToken>, file: &str) -> Result<()> {
    if let Some((holder, id)) = vocab.iter().find(|(text, id)| tokens.get(id).is_some_and(|token| token.content != **text)) {
        return Err(added::taken(file, *id, &tokens[id].content, holder));
    }
    for (&id, token) in tokens {
        match vocab.insert(token.content.clone(), id) {
            Some(other) if other != id => return Err(added::conflict(file, id, &token.content, Some(other))),
            _ => (),
        }
    }
    Ok(())
}

/// One merge a line, best first. Each is checked here, for the library takes it on trust that a merge's result is in the vocabulary.
fn read_merges(bytes: &[u8], vocab: &HashMap<String, u32>, file: &str) -> Result<Vec<(String, String)>> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Error::checkpoint(file, format!("the file is not UTF-8 text: byte {} is wrong", error.valid_up_to())))?;
    let (mut merges, mut result) = (Vec::new(), String::new());
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || (index == 0 && line.starts_with("#version")) {
            continue;
        }
        let bad = |message: String| Error::checkpoint(file, format!("line {}: {message}", index + 1));
        let (left, right) = line
            .split_once(' ')
            .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
            .ok_or_else(|| bad(format!("{line:?} is no merge, which is two tokens with one space between them")))?;
        result.clear();
        result.extend([left, right]);
        if let Some(token) = [left, right, &result].into_iter().find(|token| !vocab.contains_key(*token)) {
            return Err(bad(format!("the merge {line:?} needs {token:?}, which {VOCAB} does not have")));
        }
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(merges)
}

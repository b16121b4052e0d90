//! Where prompts come from: the command line, files, or lines of JSON.

use std::path::PathBuf;

use dlmrs::tokenizer::Message;
use serde_json::Value;

use crate::args::GenerateArgs;
use crate::failure::Failure;
use crate::{files, messages};

/// A prompt as the user gave it.
pub(crate) struct Source {
    /// Where it stands, for errors; empty for the command line.
    pub(crate) place: String,
    /// The `id` of a line of JSON, which its output carries too.
    pub(crate) id: Option<Value>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Text(String),
    TokenIds(Vec<u32>),
    Messages(Vec<Message>),
}

/// All prompts, at least one.
pub(super) fn read(args: &GenerateArgs) -> Result<Vec<Source>, Failure> {
    if let Some(prompt) = &args.prompt {
        return Ok(vec![Source { place: String::new(), id: None, content: Content::Text(prompt.clone()) }]);
    }
    files(&args.prompt_files, args.jsonl)
}

/// The prompts of files: one in each, or one in each line of JSON.
pub(crate) fn files(paths: &[PathBuf], jsonl: bool) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for path in paths {
        let (name, text) = (files::name(path), files::text(path)?);
        if jsonl {
            sources.extend(lines(&text, &name)?);
        } else {
            let text = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
            sources.push(Source { place: name, id: None, content: Content::Text(text.to_string()) });
        }
    }
    Ok(sources)
}

fn lines(text: &str, name: &str) -> Result<Vec<Source>, Failure> {
    let sources = files::parse(text, name, from_json)?;
    match sources.is_empty() {
        false => Ok(sources.into_iter().map(|(place, source)| Source { place, ..source }).collect()),
        true => Err(Failure::at(name, "holds no prompts; one JSON object a line is expected")),
    }
}

const FORMS: &str = r#"{"prompt": ...} or {"messages": [...]} is expected"#;

/// The prompt of one line; the place is left to the caller.
fn from_json(value: Value) -> Result<Source, String> {
    let Value::Object(mut object) = value else { return Err(format!("is not an object; {FORMS}")) };
    let id = object.remove("id");
    let content = match (object.remove("prompt"), object.remove("messages")) {
        (Some(Value::String(text)), None) => Content::Text(text),
        (Some(Value::Array(ids)), None) => Content::TokenIds(token_ids(&ids)?),
        (None, Some(Value::Array(list))) => Content::Messages(list.into_iter().map(messages::from_json).collect::<Result<_, _>>()?),
        (Some(_), None) => return Err("\"prompt\" must be a text or a list of token ids".into()),
        (None, Some(_)) => return Err("\"messages\" must be a list".into()),
        (Some(_), Some(_)) => return Err(format!("has both \"prompt\" and \"messages\"; {FORMS}")),
        (None, None) => return Err(format!("has no prompt; {FORMS}")),
    };
    match object.keys().next() {
        Some(key) => Err(format!("{} is not known; besides \"id\", {FORMS}", short(&format!("{key:?}")))),
        None => Ok(Source { place: String::new(), id, content }),
    }
}

fn token_ids(values: &[Value]) -> Result<Vec<u32>, String> {
    let id = |value: &Value| {
        value.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| format!("{} is not a token id", short(&value.to_string())))
    };
    values.iter().map(id).collect()
}

/// What stands in a line, cut short: a message must stay readable whatever the file holds.
fn short(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

    use super::*;

    #[test]
    fn forms_of_a_line() {
        let content = |line: &str| files::value(line).and_then(from_json).map(|source| source.content);
        assert!(matches!(content(r#"{"prompt": "a", "id": 7}"#), Ok(Content::Text(text)) if text == "a"));
        assert!(matches!(content(r#"{"prompt": [1, 2]}"#), Ok(Content::TokenIds(ids)) if ids == [1, 2]));
        let Ok(Content::Messages(messages)) = content(r#"{"messages": [{"role": "user", "content": "a", "name": "b"}]}"#) else { panic!() };
        assert_eq!((messages[0].content.as_str(), messages[0].extra["name"].as_str()), ("a", Some("b")));
    }

    #[test]
    fn wrong_lines_say_why() {
        for (line, why) in [
            ("{", "not valid JSON at column 1"),
            ("[]", "is not an object"),
            ("{}", "has no prompt"),
            (r#"{"prompt": 3}"#, "must be a text"),
            (r#"{"prompt": [-1]}"#, "-1 is not a token id"),
            (r#"{"prompt": [4294967296]}"#, "not a token id"),
            (r#"{"prompt": "a", "messages": []}"#, "both"),
            (r#"{"prompt": "a", "max_tokens": 3}"#, "\"max_tokens\" is not known"),
            (r#"{"messages": [{"content": "a"}]}"#, "no \"role\""),
            (r#"{"messages": [{"role": "user"}]}"#, "no \"content\""),
            (r#"{"messages": ["a"]}"#, "must be an object"),
        ] {
            let error = files::value(line).and_then(from_json).err().unwrap();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    /// How often the reader is tried, from a fixed seed; `PROPTEST_CASES` sets another number.
    const TRIES: u32 = 2000;

    /// Lines that are right, nearly right, or anything.
    fn line() -> impl Strategy<Value = Vec<u8>> {
        let right = proptest::sample::select(vec![
            r#"{"prompt": "a", "id": 7}"#,
            r#"{"prompt": [1, 2, 4294967295]}"#,
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "name": "b"}]}"#,
            "",
            " \t",
        ]);
        let wrong =
            proptest::sample::select(vec!["{", "\"", "[", ",", "null", "1e999", "-1", "\u{0}", "\\", "\u{feff}", "\r", "\"prompt\": 1,"]);
        let right = right.prop_map(str::as_bytes).prop_map(<[u8]>::to_vec);
        let nearly = (right.clone(), wrong, any::<usize>(), 0_usize..6).prop_map(|(mut line, wrong, at, gone)| {
            let at = at % (line.len() + 1);
            let end = (at + gone).min(line.len());
            drop(line.splice(at..end, wrong.bytes()));
            line
        });
        let long = Just(format!("{{\"prompt\": [{}]}}", "\"x\",".repeat(5000)).into_bytes());
        let deep = (1_usize..5000).prop_map(|depth| format!("{{\"id\": {}", "[".repeat(depth)).into_bytes());
        prop_oneof![8 => right, 4 => nearly, 1 => proptest::collection::vec(any::<u8>(), 0..40), 1 => long, 1 => deep]
    }

    #[test]
    fn any_file_of_lines_is_read_or_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cases = std::env::var("PROPTEST_CASES").ok().map_or(TRIES, |cases| cases.parse().unwrap());
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let result = runner.run(&proptest::collection::vec(line(), 0..4), |all| {
            let bytes = all.join(&b'\n');
            std::fs::write(file.path(), &bytes).unwrap();
            let name = files::name(file.path());
            let place = format!(" of {name}");
            match files::text(file.path()).and_then(|text| Ok((lines(&text, &name)?, text))) {
                Ok((sources, text)) => {
                    prop_assert_eq!(sources.len(), text.lines().filter(|line| !line.trim().is_empty()).count());
                    prop_assert!(sources.iter().all(|source| source.place.ends_with(&place)));
                }
                Err(failure) => {
                    let message = failure.message().unwrap();
                    prop_assert!(message.contains(&name) && !message.contains('\n') && message.len() < 400, "{message}");
                }
            }
            Ok(())
        });
        result.unwrap();
    }
}

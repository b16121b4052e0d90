//! Where prompts come from: the command line, files, or lines of JSON.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use dlmrs::tokenizer::Message;
use serde_json::{Map, Value};

use crate::args::GenerateArgs;
use crate::failure::Failure;

/// No file of prompts is larger; it keeps an endless one from filling the memory.
const MAX_BYTES: u64 = 1 << 30;

/// A prompt as the user gave it.
pub(super) struct Source {
    /// Where it stands, for errors; empty for the command line.
    pub(super) place: String,
    /// The `id` of a line of JSON, which its output carries too.
    pub(super) id: Option<Value>,
    pub(super) content: Content,
}

pub(super) enum Content {
    Text(String),
    TokenIds(Vec<u32>),
    Messages(Vec<Message>),
}

/// All prompts, at least one.
pub(super) fn read(args: &GenerateArgs) -> Result<Vec<Source>, Failure> {
    if let Some(prompt) = &args.prompt {
        return Ok(vec![Source { place: String::new(), id: None, content: Content::Text(prompt.clone()) }]);
    }
    let mut sources = Vec::new();
    for path in &args.prompt_files {
        let name = if path.as_os_str() == "-" { "standard input".to_string() } else { path.display().to_string() };
        let text = text(path, &name)?;
        if args.jsonl {
            lines(&text, &name, &mut sources)?;
        } else {
            let text = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
            sources.push(Source { place: name, id: None, content: Content::Text(text.to_string()) });
        }
    }
    Ok(sources)
}

/// A file's text without a byte order mark.
fn text(path: &Path, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::Said(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::at(name, format!("has more than {MAX_BYTES} bytes; split it")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(offset).copied().unwrap_or_default();
        Failure::at(name, format!("is not UTF-8: byte 0x{byte:02X} at offset {offset}; convert it to UTF-8"))
    })?;
    Ok(text.strip_prefix('\u{FEFF}').map(str::to_string).unwrap_or(text))
}

fn lines(text: &str, name: &str, sources: &mut Vec<Source>) -> Result<(), Failure> {
    let before = sources.len();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("line {} of {name}", number + 1);
        let source = from_json(line).map_err(|message| Failure::at(&place, message))?;
        sources.push(Source { place, ..source });
    }
    match sources.len() > before {
        true => Ok(()),
        false => Err(Failure::at(name, "holds no prompts; one JSON object a line is expected")),
    }
}

const FORMS: &str = r#"{"prompt": ...} or {"messages": [...]} is expected"#;

/// The prompt of one line; the place is left to the caller.
fn from_json(line: &str) -> Result<Source, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| {
        let position = format!(" at line {} column {}", error.line(), error.column());
        format!("not valid JSON at column {}: {}", error.column(), error.to_string().replace(&position, ""))
    })?;
    let Value::Object(mut object) = value else { return Err(format!("is not an object; {FORMS}")) };
    let id = object.remove("id");
    let content = match (object.remove("prompt"), object.remove("messages")) {
        (Some(Value::String(text)), None) => Content::Text(text),
        (Some(Value::Array(ids)), None) => Content::TokenIds(token_ids(&ids)?),
        (None, Some(Value::Array(messages))) => Content::Messages(messages.into_iter().map(message).collect::<Result<_, _>>()?),
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

fn message(value: Value) -> Result<Message, String> {
    let Value::Object(mut fields) = value else { return Err("a message must be an object with \"role\" and \"content\"".into()) };
    let Some(Value::String(role)) = fields.remove("role") else { return Err("a message has no \"role\", or it is not a text".into()) };
    let content = match fields.remove("content") {
        Some(Value::String(content)) => content,
        // Parts or null, for templates that know them.
        Some(other) => {
            fields.insert("content".into(), other);
            String::new()
        }
        None if fields.is_empty() => return Err("a message has no \"content\"".into()),
        None => String::new(),
    };
    let extra: Map<String, Value> = fields;
    Ok(Message { extra, ..Message::new(role, content) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

    use super::*;

    #[test]
    fn forms_of_a_line() {
        let content = |line: &str| from_json(line).map(|source| source.content);
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
            let error = from_json(line).err().unwrap();
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
            let mut sources = Vec::new();
            match text(file.path(), "the file").and_then(|text| lines(&text, "the file", &mut sources).map(|()| text)) {
                Ok(text) => {
                    prop_assert_eq!(sources.len(), text.lines().filter(|line| !line.trim().is_empty()).count());
                    prop_assert!(sources.iter().all(|source| source.place.ends_with(" of the file")));
                }
                Err(failure) => {
                    let message = failure.message().unwrap();
                    prop_assert!(message.contains("the file") && !message.contains('\n') && message.len() < 400, "{message}");
                }
            }
            Ok(())
        });
        result.unwrap();
    }
}

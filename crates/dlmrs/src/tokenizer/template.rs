//! Chat templates: where they are, how they are run, and what their errors say.

use std::error::Error as _;
use std::thread::Builder;

use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

use super::Files;
use super::jinja::{Raised, environment, syntax, without_generation_tags};
use super::limits::{Bounded, Exceeded, FUEL, MAX_NAMED, MAX_SOURCE, STACK};
use super::metered::metered;
use super::values::map_to_jinja;
use crate::{Error, Result};

const FILE: &str = "chat_template.jinja";
const NAME: &str = "chat";

/// A compiled chat template.
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// Compiles a template; a malformed one is an error that names the line.
    pub fn new(source: impl Into<String>) -> Result<Self> {
        let source = source.into();
        if source.len() > MAX_SOURCE {
            return Err(Error::Template(format!("it has {} bytes, but at most {MAX_SOURCE} are read", source.len())));
        }
        let environment = aside(|| compiled(&source))?;
        Ok(Self { source, environment })
    }

    /// The template as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Runs the template with these variables. What it may cost is bounded: the work, the length of the prompt, the nesting.
    pub fn render(&self, variables: &Map<String, Value>) -> Result<String> {
        aside(|| self.run(variables))
    }

    fn run(&self, variables: &Map<String, Value>) -> Result<String, minijinja::Error> {
        let mut output = Bounded::default();
        self.environment.get_template(NAME)?.render_captured_to(map_to_jinja(variables), &mut output)?;
        String::from_utf8(output.0).map_err(|error| minijinja::Error::new(ErrorKind::WriteFailure, error.to_string()))
    }
}

/// Works on a stack of its own, which is large enough for whatever the limits let through.
fn aside<T: Send>(work: impl FnOnce() -> Result<T, minijinja::Error> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = Builder::new().name("chat template".to_owned()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || work().map_err(|error| explain(&error)));
        let thread = thread.map_err(|error| Error::Template(format!("no thread can be started to run it: {error}")))?;
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::Template("the template engine failed at something that it does not support".to_owned())))
    })
}

fn compiled(source: &str) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = environment()?;
    environment.add_template_owned(NAME, metered(&without_generation_tags(source), NAME, syntax()?)?)?;
    Ok(environment)
}

/// Characters of an error's own words: a template can raise any text.
const MAX_WORDS: usize = 1000;

/// "line 3: ...". What a template raises is its own sentence and stands alone, and so does a limit.
fn explain(error: &minijinja::Error) -> Error {
    let cause = error.source();
    let limit = cause.and_then(|cause| match cause.downcast_ref::<std::io::Error>() {
        Some(error) => error.get_ref()?.downcast_ref::<Exceeded>(),
        None => cause.downcast_ref(),
    });
    let what = match (error.detail(), limit) {
        (_, Some(limit)) => limit.to_string(),
        (None, None) if error.kind() == ErrorKind::OutOfFuel => format!("the template does more work than its limit of {FUEL} steps"),
        (Some(detail), None) if cause.is_some_and(|cause| cause.is::<Raised>()) => detail.to_owned(),
        (Some(detail), None) => format!("{}: {detail}", error.kind()),
        (None, None) => error.kind().to_string(),
    };
    let what = match what.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}...", what.get(..end).unwrap_or_default()),
        None => what,
    };
    Error::Template(match error.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    })
}

/// The templates of a checkpoint by name. A malformed one is an error only where it is used: the model can still complete text.
#[derive(Default)]
pub(super) struct StoredTemplate {
    templates: Vec<(String, Result<ChatTemplate, String>)>,
}

impl StoredTemplate {
    /// `chat_template.jinja`, or else the entry of `tokenizer_config.json`: a template, or a list of named ones.
    pub(super) fn read(files: &dyn Files, entry: Option<Value>) -> Result<Self> {
        if let Some(bytes) = files.read(FILE)? {
            let source = String::from_utf8(bytes).map_err(|_| Error::checkpoint(files.describe(FILE), "the file must be UTF-8 text"))?;
            return Ok(Self::named([("default".to_owned(), source)]));
        }
        let file = files.describe("tokenizer_config.json");
        let wrong = || Error::checkpoint(&file, "chat_template must be a string or a list of objects with a name and a template");
        match entry {
            None => Ok(Self::default()),
            Some(Value::String(source)) => Ok(Self::named([("default".to_owned(), source)])),
            Some(Value::Array(list)) if list.len() > MAX_NAMED => {
                Err(Error::checkpoint(&file, format!("chat_template lists {} templates, but at most {MAX_NAMED} are read", list.len())))
            }
            Some(Value::Array(list)) => {
                let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
                let pairs: Option<Vec<_>> = list.iter().map(|item| Some((text(item, "name")?, text(item, "template")?))).collect();
                pairs.map(Self::named).ok_or_else(wrong)
            }
            Some(_) => Err(wrong()),
        }
    }

    fn named(sources: impl IntoIterator<Item = (String, String)>) -> Self {
        let compiled = |source| ChatTemplate::new(source).map_err(|error| error.to_string());
        Self { templates: sources.into_iter().map(|(name, source)| (name, compiled(source))).collect() }
    }

    /// Only this template.
    pub(super) fn one(template: ChatTemplate) -> Self {
        Self { templates: vec![("default".to_owned(), Ok(template))] }
    }

    /// The template for a conversation: the one for tools if there is such a one and there are tools.
    pub(super) fn get(&self, with_tools: bool) -> Result<&ChatTemplate> {
        let find = |wanted: &str| self.templates.iter().find(|(name, _)| name == wanted).map(|(_, template)| template);
        let found = with_tools.then(|| find("tool_use")).flatten().or_else(|| find("default"));
        match found {
            Some(Ok(template)) => Ok(template),
            // The message has the prefix of its group already.
            Some(Err(message)) => Err(Error::Template(message.trim_start_matches("chat template: ").to_owned())),
            None if self.templates.is_empty() => {
                Err(Error::Template("the model has none, so it cannot chat; use generate() with a plain prompt".to_owned()))
            }
            None => {
                let names: Vec<_> = self.templates.iter().map(|(name, _)| name.as_str()).collect();
                Err(Error::Template(format!("none is named \"default\", only {}", names.join(", "))))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(source: &str, variables: Value) -> Result<String> {
        ChatTemplate::new(source)?.render(variables.as_object().unwrap())
    }

    #[test]
    fn templates_speak_python() {
        let ok = |source: &str, variables: Value| render(source, variables).unwrap();
        assert_eq!(ok("{{ x | tojson }}", json!({"x": {"b": "<é'>", "a": [1e-7, null]}})), r#"{"b": "<é'>", "a": [1e-07, null]}"#);
        assert_eq!(ok("{{ x | tojson(indent=2) }}", json!({"x": [1]})), "[\n  1\n]");
        assert_eq!(
            ok("{{ x | tojson(ensure_ascii=true, sort_keys=true) }}", json!({"x": {"b": "é", "a": 1}})),
            r#"{"a": 1, "b": "\u00e9"}"#
        );
        assert_eq!(ok("{{ x.items() | list | tojson(separators=(',', ':')) }}", json!({"x": {"k": 1}})), r#"[["k",1]]"#);
        assert_eq!(ok("{{ {1: x, true: none} | tojson }}", json!({"x": 18446744073709551615_u64})), r#"{"1": null}"#);
        assert_eq!(ok("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", json!({})), "01");
        assert_eq!(
            ok("{{ 'a.b'.removeprefix('a.') }}{{ '  x'.lstrip() }}{{ 'x' * 2 if x }}{{ none }}{{ x }}", json!({"x": true})),
            "bxxxNoneTrue"
        );
        assert_eq!(ok("{{ strftime_now('%Y') | length }}", json!({})), "4");
        assert_eq!(ok("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m('é'[::-1] ~ x[-1:]) }}\n", json!({"x": "ab"})), "<éb>");
    }

    #[test]
    fn generation_tags_mean_nothing() {
        let source = "{% for m in x %}\n  {% generation %}\n{{ m }}\n  {%- endgeneration -%}\n{% endfor %}\n{%+ if x %}{% endif %}";
        assert_eq!(render(source, json!({"x": ["a", "b"]})).unwrap(), "ab");
        assert_eq!(without_generation_tags("a {% b"), "a {% b");
    }

    #[test]
    fn errors_name_the_line() {
        let error = |source: &str| render(source, json!({"x": 1})).unwrap_err().to_string();
        assert_eq!(error("\n\n{{ raise_exception('Roles must alternate') }}"), "chat template: line 3: Roles must alternate");
        for (source, line, what) in [
            ("a\n{% if %}", "line 2: syntax error", ""),
            ("\n{{ x.y.z }}", "line 2: ", "undefined"),
            ("{{ 'a'.nothing() }}", "line 1: ", "nothing"),
            ("{{ x | unknown }}", "line 1: ", "unknown"),
            ("{{ x | tojson(wrong=1) }}", "line 1: ", "wrong"),
            ("{{ x", "line 1: ", ""),
        ] {
            let message = error(source);
            assert!(message.starts_with(&format!("chat template: {line}")) && message.contains(what), "{message}");
        }
    }
}

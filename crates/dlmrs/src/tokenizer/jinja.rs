//! The Jinja dialect of Hugging Face chat templates.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use super::clock;
use super::pyjson::{Style, dump};
use super::values::to_json;

/// An environment with everything that templates expect from transformers.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_unknown_method_callback(method);
    environment.add_function("raise_exception", raise);
    environment.add_function("strftime_now", |format: String| clock::now(&format));
    environment.add_filter("tojson", tojson);
    Ok(environment)
}

/// Marks an error as the template's own words.
#[derive(Debug, thiserror::Error)]
#[error("raised by the template")]
pub(super) struct Raised;

fn raise(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message).with_source(Raised))
}

/// Python's methods of strings, lists and dictionaries.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), name, args.first().and_then(Value::as_str)) {
        (Some(text), "removeprefix", Some(prefix)) => Ok(text.strip_prefix(prefix).unwrap_or(text).into()),
        (Some(text), "removesuffix", Some(suffix)) => Ok(text.strip_suffix(suffix).unwrap_or(text).into()),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// transformers' own filter, which keeps `<` and `é` as they are. The first positional argument is `ensure_ascii` there and `indent`
/// in plain Jinja; their types tell which was meant.
fn tojson(value: &Value, first: Option<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let first_is_flag = first.as_ref().is_some_and(|value| value.kind() == ValueKind::Bool);
    let (flag, indent) = if first_is_flag { (first, None) } else { (None, first) };
    let indent = indent.or(kwargs.get("indent")?).filter(|value| !value.is_none() && !value.is_undefined());
    let indent = match indent {
        Some(value) if value.as_str().is_some() => value.as_str().map(str::to_owned),
        Some(value) => Some(" ".repeat(usize::try_from(value)?.min(64))),
        None => None,
    };
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let mut separators = separators.unwrap_or_default().into_iter();
    let style = Style {
        between_items: separators.next().unwrap_or_else(|| if indent.is_some() { "," } else { ", " }.to_owned()),
        after_key: separators.next().unwrap_or_else(|| ": ".to_owned()),
        indent,
        ascii: flag.or(kwargs.get("ensure_ascii")?).is_some_and(|value| value.is_true()),
        sorted: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    Ok(dump(&to_json(value)?, &style))
}

/// `{% generation %}` marks the assistant's part for training. It means nothing here, so it becomes a condition that always holds,
/// which leaves line numbers and whitespace control as they are.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            continue;
        };
        let inside = &tag[..end];
        let word = inside.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        match word {
            "generation" => out.push_str(&inside.replacen(word, "if true", 1)),
            "endgeneration" => out.push_str(&inside.replacen(word, "endif", 1)),
            _ => out.push_str(inside),
        }
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

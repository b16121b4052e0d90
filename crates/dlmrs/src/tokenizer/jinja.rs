//! The Jinja dialect of Hugging Face chat templates.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter};

use super::limits::{FUEL, charge_bytes, count, keep, trim, weigh};
use super::metered::{COUNTED, KEPT, WEIGHED};
use super::pyjson::{Style, dump};
use super::values::to_json;
use super::{clock, methods};

/// The dialect's signs.
pub(super) fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()
}

/// An environment with everything that templates expect from transformers, and with a bound on what they may cost.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax()?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(|out, state, value| {
        weigh(state, value)?;
        escape_formatter(out, state, value)
    });
    environment.add_function("raise_exception", raise);
    environment.add_function("strftime_now", |format: &str| clock::now(format));
    environment.add_filter("tojson", tojson);
    environment.add_filter(WEIGHED, |state: &State, value: Value| weigh(state, &value).map(|()| value));
    environment.add_filter(COUNTED, count);
    environment.add_filter(KEPT, keep);
    environment.add_filter("trim", trim);
    // Transformers has none of these. The first prints every variable, the others make promises of promises.
    environment.remove_global("debug");
    environment.remove_filter("chain");
    environment.remove_filter("zip");
    Ok(environment)
}

/// Marks an error as the template's own words.
#[derive(Debug, thiserror::Error)]
#[error("raised by the template")]
pub(super) struct Raised;

fn raise(state: &State, message: &Value) -> Result<Value, Error> {
    weigh(state, message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.to_string()).with_source(Raised))
}

/// transformers' own filter, which keeps `<` and `é` as they are. The first positional argument is `ensure_ascii` there and `indent`
/// in plain Jinja; their types tell which was meant.
fn tojson(state: &State, value: &Value, first: Option<Value>, kwargs: Kwargs) -> Result<String, Error> {
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
    weigh(state, value)?;
    // As dear as the engine's own serialisation.
    dump(&to_json(value)?, &style, &|bytes| charge_bytes(state, bytes.saturating_mul(16)))
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

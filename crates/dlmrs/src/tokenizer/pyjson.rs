//! JSON as Python's `json.dumps` writes it: models were trained on tool descriptions in that form, so every space counts.

use serde_json::{Map, Number, Value};

/// The arguments of `json.dumps`.
pub(super) struct Style {
    /// What one level is indented by; with it every item stands on a line of its own.
    pub(super) indent: Option<String>,
    pub(super) between_items: String,
    pub(super) after_key: String,
    pub(super) ascii: bool,
    pub(super) sorted: bool,
}

/// `charge` is asked before an indentation or a separator is written, with its length: these can be as long as a caller likes.
pub(super) fn dump<E>(value: &Value, style: &Style, charge: &dyn Fn(usize) -> Result<(), E>) -> Result<String, E> {
    let mut out = String::new();
    style.value(value, 0, &mut out, charge)?;
    Ok(out)
}

impl Style {
    fn value<E>(&self, value: &Value, depth: usize, out: &mut String, charge: &dyn Fn(usize) -> Result<(), E>) -> Result<(), E> {
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(number) => out.push_str(&python_number(number)),
            Value::String(text) => self.string(text, out),
            Value::Array(items) if items.is_empty() => out.push_str("[]"),
            Value::Object(map) if map.is_empty() => out.push_str("{}"),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    charge(self.space(depth + 1))?;
                    self.separate(index, depth + 1, out);
                    self.value(item, depth + 1, out, charge)?;
                }
                self.line(depth, out);
                out.push(']');
            }
            Value::Object(map) => self.object(map, depth, out, charge)?,
        }
        Ok(())
    }

    /// The most bytes that stand before an item.
    fn space(&self, depth: usize) -> usize {
        let indent = self.indent.as_ref().map_or(0, |indent| indent.len().saturating_mul(depth));
        indent.saturating_add(self.between_items.len() + self.after_key.len())
    }

    fn object<E>(
        &self,
        map: &Map<String, Value>,
        depth: usize,
        out: &mut String,
        charge: &dyn Fn(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut entries: Vec<_> = map.iter().collect();
        if self.sorted {
            entries.sort_by_key(|(key, _)| *key);
        }
        out.push('{');
        for (index, (key, value)) in entries.into_iter().enumerate() {
            charge(self.space(depth + 1))?;
            self.separate(index, depth + 1, out);
            self.string(key, out);
            out.push_str(&self.after_key);
            self.value(value, depth + 1, out, charge)?;
        }
        self.line(depth, out);
        out.push('}');
        Ok(())
    }

    fn separate(&self, index: usize, depth: usize, out: &mut String) {
        if index > 0 {
            out.push_str(&self.between_items);
        }
        self.line(depth, out);
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        let quoted = Value::from(text).to_string();
        if !self.ascii {
            return out.push_str(&quoted);
        }
        for c in quoted.chars() {
            // DEL is ASCII, but json.dumps leaves only what can be printed or was escaped above.
            match c {
                ' '..='\x7f' => out.push(c),
                _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            }
        }
    }
}

/// A number as Python's `repr`: shortest digits, an exponent below 1e-4 and from 1e16 on, and ".0" after a whole float.
fn python_number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e').and_then(|(digits, e)| Some((digits, e.parse::<i32>().ok()?))) else {
        return scientific;
    };
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = float.to_string();
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dump(value: &Value, style: &Style) -> String {
        super::dump(value, style, &|_| Ok::<_, std::convert::Infallible>(())).unwrap_or_else(|never| match never {})
    }

    fn style(indent: Option<&str>) -> Style {
        let between = if indent.is_some() { "," } else { ", " };
        Style { indent: indent.map(str::to_owned), between_items: between.into(), after_key: ": ".into(), ascii: false, sorted: false }
    }

    #[test]
    fn as_python_writes_it() {
        let value = json!({"b": [1, 2.5, 1.0, 1e-5, 1e16, 123456789.0, -0.0], "a": {"é\n\u{1}\"": null, "<&'>": true}, "e": [], "o": {}});
        let expected =
            r#"{"b": [1, 2.5, 1.0, 1e-05, 1e+16, 123456789.0, -0.0], "a": {"é\n\u0001\"": null, "<&'>": true}, "e": [], "o": {}}"#;
        assert_eq!(dump(&value, &style(None)), expected);
    }

    #[test]
    fn indented_sorted_and_ascii() {
        let value = json!({"b": [1, {"x": "é🙂"}], "a": []});
        let style = Style { ascii: true, sorted: true, ..style(Some("  ")) };
        assert_eq!(
            dump(&value, &style),
            "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n      \"x\": \"\\u00e9\\ud83d\\ude42\"\n    }\n  ]\n}"
        );
    }
}

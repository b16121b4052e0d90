//! Values between JSON and templates.

use minijinja::value::{Value as Jinja, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::{Map, Number, Value as Json};

pub(super) fn to_jinja(value: &Json) -> Jinja {
    match value {
        Json::Null => Jinja::from(()),
        Json::Bool(value) => Jinja::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Jinja::from(value),
            (None, Some(value)) => Jinja::from(value),
            (None, None) => Jinja::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Jinja::from(text.as_str()),
        Json::Array(items) => Jinja::from(items.iter().map(to_jinja).collect::<Vec<_>>()),
        Json::Object(map) => map_to_jinja(map),
    }
}

pub(super) fn map_to_jinja(map: &Map<String, Json>) -> Jinja {
    Jinja::from_pairs(map.iter().map(|(key, value)| (key.as_str(), to_jinja(value))))
}

pub(super) fn to_json(value: &Jinja) -> Result<Json, Error> {
    Ok(match value.kind() {
        ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => Json::Number(number(value)?),
        ValueKind::String => Json::String(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq | ValueKind::Iterable => Json::Array(value.try_iter()?.map(|item| to_json(&item)).collect::<Result<_, _>>()?),
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter()? {
                map.insert(key_text(&key), to_json(&value.get_item(&key)?)?);
            }
            Json::Object(map)
        }
        other => return Err(Error::new(ErrorKind::BadSerialization, format!("tojson was given a value of the kind {other}"))),
    })
}

fn number(value: &Jinja) -> Result<Number, Error> {
    let whole = || {
        let value = i128::try_from(value.clone()).ok()?;
        i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from)).ok()
    };
    let float = || Number::from_f64(f64::try_from(value.clone()).ok()?);
    let found = if value.is_integer() { whole() } else { float() };
    found.ok_or_else(|| Error::new(ErrorKind::BadSerialization, format!("tojson was given the number {value}, which JSON cannot hold")))
}

/// As `json.dumps` writes a key that is no string.
fn key_text(key: &Jinja) -> String {
    match key.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => key.is_true().to_string(),
        _ => key.to_string(),
    }
}

//! Messages of a conversation as JSON objects.

use dlmrs::tokenizer::Message;
use serde_json::{Map, Value, json};

/// The message of an object with `role` and `content`; further fields go to the template.
pub(crate) fn from_json(value: Value) -> Result<Message, String> {
    let Value::Object(mut fields) = value else { return Err("a message must be an object with \"role\" and \"content\"".into()) };
    let Some(Value::String(role)) = fields.remove("role") else { return Err("a message has no \"role\", or it is not a text".into()) };
    let content = match fields.remove("content") {
        Some(Value::String(content)) => content,
        // Parts or null, for templates that know them.
        Some(other) => {
            fields.insert("content".into(), other);
            String::new()
        }
        // An assistant's turn may hold nothing else.
        None if fields.contains_key("tool_calls") => String::new(),
        None => return Err("a message has no \"content\"".into()),
    };
    let extra: Map<String, Value> = fields;
    Ok(Message { extra, ..Message::new(role, content) })
}

/// The object of a message.
pub(crate) fn to_json(message: &Message) -> Value {
    let mut fields = Map::from_iter([("role".to_string(), json!(message.role)), ("content".to_string(), json!(message.content))]);
    fields.extend(message.extra.clone());
    Value::Object(fields)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        for line in [
            r#"{"role":"user","content":"a\nb"}"#,
            r#"{"role":"assistant","content":"","tool_calls":[{"name":"f"}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#,
            r#"{"role":"assistant","content":null}"#,
        ] {
            let value: Value = serde_json::from_str(line).unwrap();
            assert_eq!(to_json(&from_json(value.clone()).unwrap()), value);
        }
    }
}

//! Random templates from a grammar of what templates use, and real ones with wrong bytes.

use dlmrs::Error;
use dlmrs::tokenizer::ChatTemplate;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{alone, at, measured, tried};
use crate::mutations::{Slip, slipped};

/// What fuel pays for, and what the engine needs beside.
const MEMORY: usize = 400 << 20;

fn variables() -> Value {
    json!({
        "messages": [
            {"role": "system", "content": "Be brief. <|im_end|>"},
            {"role": "user", "content": "What is 2 + 2? é🙂"},
            {"role": "assistant", "content": "<think>\nhm\n</think>\n\n4", "tool_calls": [{"name": "f", "arguments": {"x": 1.5}}]},
            {"role": "tool", "content": null},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [1, {"b": null}]}}}],
        "add_generation_prompt": true, "n": 3, "text": "a b c",
    })
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "messages",
        "messages[0]",
        "message",
        "message.content",
        "message['role']",
        "tools",
        "n",
        "text",
        "ns.x",
        "loop.index0",
        "loop.last",
        "true",
        "none",
        "undefined_name",
        "'</think>'",
        "'é'",
        "''",
        "0",
        "-1",
        "2.5",
        "10**9",
        "[1, 2]",
        "{'a': 1}",
        "(1, 'b')",
        "range(5)",
        "namespace(a=1)",
        "m('z')",
        "strftime_now('%Y')",
        "m",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 20, 3, |inner| {
        let operator =
            proptest::sample::select(vec!["+", "~", "*", "-", "/", "//", "%", "**", "==", "!=", "<", ">=", "in", "not in", "and", "or"]);
        let filter = proptest::sample::select(vec![
            "tojson",
            "tojson(indent=2)",
            "trim",
            "length",
            "list",
            "join(',')",
            "upper",
            "first",
            "last",
            "string",
            "int",
            "items",
            "sort",
            "unique",
            "reverse",
            "replace('a', 'bb')",
            "map(attribute='role')",
            "selectattr('role', 'equalto', 'user')",
            "default('d')",
            "batch(2)",
            "slice(2)",
            "dictsort",
            "indent(4)",
            "max",
            "sum",
            "round",
            "capitalize",
            "safe",
            "format(1)",
            "groupby('role')",
        ]);
        let method = proptest::sample::select(vec![
            "strip()",
            "split('</think>')",
            "split()",
            "startswith('a')",
            "lstrip('\\n')",
            "replace('a', 'b')",
            "items()",
            "get('a')",
            "keys()",
            "join(['a', 'b'])",
            "format(1, 2)",
            "count('a')",
            "upper()",
            "splitlines()",
            "find('a')",
            "removeprefix('a')",
            "title()",
            "x()",
        ]);
        let test =
            proptest::sample::select(vec!["defined", "none", "string", "mapping", "iterable", "not defined", "odd", "eq(1)", "in [1]"]);
        prop_oneof![
            3 => (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            2 => (inner.clone(), filter).prop_map(|(a, filter)| format!("{a} | {filter}")),
            2 => (inner.clone(), method).prop_map(|(a, method)| format!("({a}).{method}")),
            1 => (inner.clone(), test).prop_map(|(a, test)| format!("({a}) is {test}")),
            1 => inner.clone().prop_map(|a| format!("({a})")),
            1 => inner.clone().prop_map(|a| format!("not {a}")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            1 => (inner.clone(), any::<i8>(), any::<i8>()).prop_map(|(a, from, to)| format!("({a})[{from}:{to}]")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("{a} if {b} else {c}")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
        ]
    })
}

fn template() -> impl Strategy<Value = String> {
    let plain = prop_oneof![Just("<|im_start|>".to_owned()), "[a-z\n ]{0,6}", "\\PC{0,4}"];
    let statement = prop_oneof![
        3 => expression().prop_map(|e| format!("{{{{- {e} }}}}")),
        2 => plain,
        1 => expression().prop_map(|e| format!("{{%- set x = {e} %}}")),
        2 => expression().prop_map(|e| format!("{{% set ns.x = {e} %}}")),
        1 => expression().prop_map(|e| format!("{{% if {e} %}}{{% break %}}{{% endif %}}")),
    ];
    let body = statement.prop_recursive(3, 12, 3, |inner| {
        let bodies = vec(inner, 0..4).prop_map(|parts| parts.concat());
        prop_oneof![
            (expression(), bodies.clone()).prop_map(|(e, body)| format!("{{%- for message in {e} -%}}{body}{{% endfor %}}")),
            (expression(), bodies.clone(), bodies.clone()).prop_map(|(e, a, b)| format!("{{% if {e} %}}{a}{{% else %}}{b}{{% endif %}}")),
            bodies.clone().prop_map(|body| format!("{{% generation %}}{body}{{% endgeneration %}}")),
            bodies.clone().prop_map(|body| format!("{{% set x %}}{body}{{% endset %}}")),
            bodies.prop_map(|body| format!("{{% for message in messages recursive %}}{body}{{{{ loop([1]) if n > 5 }}}}{{% endfor %}}")),
        ]
    });
    let head = "{% macro m(a) %}<{{ a }}>{% endmacro %}{% set ns = namespace(x=1) %}{% for message in messages %}";
    vec(body, 0..5).prop_map(move |parts| format!("{head}{}{{% endfor %}}", parts.concat()))
}

/// The text, or an error of a template in one sentence.
fn rendered(source: &str, variables: &Value) -> Option<String> {
    let (result, risen) = measured(|| ChatTemplate::new(source).and_then(|template| template.render(variables.as_object().unwrap())));
    assert!(risen < MEMORY, "{risen} bytes: {source}");
    match result {
        Ok(text) => Some(text),
        Err(error) => {
            assert!(matches!(error, Error::Template(_)) && error.to_string().len() < 5000, "{error}");
            None
        }
    }
}

#[test]
fn random_templates_are_rendered_or_refused() {
    let _alone = alone();
    let variables = variables();
    let good = std::cell::Cell::new(0);
    tried(template(), |source| {
        good.set(good.get() + u32::from(rendered(&source, &variables).is_some()));
        Ok(())
    });
    assert!(good.get() > 50, "the grammar makes hardly any template that can be rendered: {}", good.get());
}

#[test]
fn real_templates_with_wrong_bytes_are_rendered_or_refused() {
    let _alone = alone();
    let variables = variables();
    let real = std::fs::read(at("../../tests/data/sdar-tokenizer/chat_template.jinja")).unwrap();
    assert!(rendered(std::str::from_utf8(&real).unwrap(), &json!({"messages": [{"role": "user", "content": "x"}]})).is_some());
    let place = || any::<u32>().prop_map(|place| place as usize);
    let signs =
        proptest::sample::select(vec!["{%", "%}", "{{", "}}", "{#", "'", "\"", "(", ")", "[", "|", "-", "not ", " if ", ".", "é", "\0"]);
    let slip = prop_oneof![
        (place(), 32_u8..127).prop_map(|(at, byte)| Slip::Byte(at, byte)),
        (place(), signs).prop_map(|(at, sign)| Slip::Insert(at, sign.as_bytes().to_vec())),
        (place(), 1_usize..40).prop_map(|(at, length)| Slip::Remove(at, length)),
        (place(), 1_usize..80).prop_map(|(at, length)| Slip::Again(at, length)),
        place().prop_map(Slip::Cut),
    ];
    tried(vec(slip, 1..4), |slips| {
        let source = String::from_utf8_lossy(&slipped(real.clone(), &slips)).into_owned();
        rendered(&source, &variables);
        Ok(())
    });
}

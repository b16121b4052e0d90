//! Templates that would not end or would fill the memory, and long conversations that must pass.

use dlmrs::Error;
use dlmrs::tokenizer::ChatTemplate;
use serde_json::{Map, Value, json};

use crate::common::{alone, at, measured};

/// What fuel pays for, and what the engine needs beside.
const MEMORY: usize = 400 << 20;

fn render(source: &str) -> Result<String, Error> {
    let variables = json!({"messages": [{"role": "user", "content": "hi"}], "x": 1});
    let (result, risen) = measured(|| ChatTemplate::new(source)?.render(variables.as_object().unwrap()));
    assert!(risen < MEMORY, "{risen} bytes: {source}");
    result
}

#[track_caller]
fn refused(source: &str, limit: &str) {
    let error = render(source).expect_err(source);
    let message = error.to_string();
    assert!(matches!(error, Error::Template(_)) && message.contains(limit), "{source}: {message}");
    assert!(!message.contains('\n') && message.len() < 1200, "{message}");
}

const WORK: &str = "does more work than its limit of 4000000 steps";
const NESTING: &str = "nested deeper than 64 levels";

#[test]
fn endless_loops_and_recursions() {
    let _alone = alone();
    for (source, limit) in [
        ("{% for i in range(10**9) %}{% endfor %}", "range has too many elements"),
        ("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", WORK),
        ("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "recursion limit"),
        ("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recursion limit"),
        ("{% for x in 'a' * 90000000 %}{% endfor %}", WORK),
    ] {
        refused(source, limit);
    }
}

#[test]
fn long_strings() {
    let _alone = alone();
    for source in [
        "{{ 'x' * 10**9 }}",
        "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
        "{% set a = 'x' * 1000000 %}{{ a.replace('x', a) }}",
        "{% set a = 'x' * 1000000 %}{{ a | replace('x', a) }}",
        "{% set a = 'x' * 1000000 %}{{ ''.join([a] * 100000) }}",
        "{% set a = 'x' * 1000000 %}{{ ([a] * 100000) | join }}",
        "{{ '%0999999999d' | format(1) }}",
        "{{ x | indent(10**9) }}",
        "{{ range(90000) | list | tojson(indent='          ' * 1000) }}",
        "{{ range(90000) | list | tojson(separators=('x' * 100000, ':')) }}",
        "{% set a = 'x' * 30000000 %}{{ a.split('x') | length }}",
        "{% set a = 'x\n' * 30000000 %}{{ a.splitlines() | length }}",
        "{% set a = 'x' * 30000000 %}{{ a | list | length }}",
    ] {
        refused(source, WORK);
    }
    refused("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", "longer than 67108864 bytes");
    refused("{{ '{:>999999999}'.format(1) }}", "wider than 10000 characters");
    refused("{{ '{:{}}'.format(1, 999999999) }}", "wider than 10000 characters");
    refused("{{ '{:.999999999f}'.format(1.5) }}", "wider than 10000 characters");
    refused("{{ '%0999999999d' % 1 }}", "operator");
    refused("{{ raise_exception('x' * 100000) }}", "xxx...");
    refused(&"x".repeat((256 << 10) + 1), "at most 262144 are read");
}

#[test]
fn slow_searches() {
    let _alone = alone();
    for source in [
        "{% set a = 'x' * 1000000 %}{{ a.strip(('y' * 1000000) ~ 'x') }}",
        "{% set a = 'x' * 1000000 %}{{ a | trim(('y' * 1000000) ~ 'x') }}",
        "{% set a = 'x' * 30000000 %}{% set b = 'x' * 30000000 %}{% for i in range(100000) %}{% if a == b %}{% endif %}{% endfor %}",
        "{% set a = range(100000) | list %}{% set b = [a] * 100000 %}{{ b.count(range(100000) | list) }}",
        "{% set a = 'x' * 1000000 %}{% set b = [a] * 100000 %}{{ a.startswith(b) }}",
    ] {
        refused(source, WORK);
    }
}

/// Forty levels of a list that holds the one before twice: small to keep, endless to walk through.
#[test]
fn lists_that_hold_each_other_many_times() {
    let _alone = alone();
    let twice = "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}";
    for end in [
        "{{ ns.s }}",
        "{{ ns.s ~ 'x' }}",
        "{{ 'x' ~ (ns.s if x else 1) }}",
        "{{ ns.s == ns.t }}",
        "{{ 1 < ns.s < ns.t }}",
        "{{ [ns.t] + [1] == ns.s }}",
        "{{ (ns.s, 1) == (ns.t, 1) }}",
        "{{ ns.s in [ns.t] }}",
        "{{ ns.s not in [ns.t] }}",
        "{{ ns.s is eq(ns.t) }}",
        "{{ {ns.s: 1} }}",
        "{{ {1: 1}[ns.s] }}",
        "{{ {1: 1}.get(ns.s) }}",
        "{{ ns.s | tojson }}",
        "{{ ns.s | string }}",
        "{{ ns.s | upper }}",
        "{{ [ns.s, ns.t] | sort }}",
        "{{ [ns.s, ns.t] | unique | list | length }}",
        "{{ [ns.s] | map('upper') | list | length }}",
        "{{ 'a' | replace('a', ns.s) }}",
        "{{ 'a%s' | format(ns.s) }}",
        "{{ '{}'.format(ns.s) }}",
        "{{ ', '.join(ns.s) }}",
        "{{ raise_exception(ns.s) }}",
        "{% filter replace('a', ns.s) %}a{% endfilter %}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(ns.s) }}",
        "{% call m(ns.s) %}{% endcall %}{% macro m(a) %}{% if a == ns.t %}{% endif %}{% endmacro %}{{ m(ns.s) }}",
    ] {
        let error = render(&format!("{twice}{end}")).expect_err(end).to_string();
        // Which one depends on the order of things; what counts is that one of them speaks.
        assert!(error.contains(WORK) || error.contains(NESTING) || end.contains("call"), "{end}: {error}");
    }
    refused("{% macro m(a, n) %}{% if n %}{{ m([a, a], n - 1) }}{% else %}{{ a == [[a]] }}{% endif %}{% endmacro %}{{ m([1], 40) }}", WORK);
}

#[test]
fn long_lists() {
    let _alone = alone();
    let grow = |step: &str| {
        format!("{{% set ns = namespace(s=[1]) %}}{{% for i in range(60) %}}{{% set ns.s = {step} %}}{{% endfor %}}{{{{ ns.s | length }}}}")
    };
    for step in ["ns.s + ns.s", "ns.s * 2", "(ns.s + [1]) + ns.s", "[ns.s + ns.s][0]"] {
        refused(&grow(step), WORK);
    }
    refused("{% macro m(a, n) %}{% if n %}{{ m(a + a, n - 1) }}{% else %}{{ a | length }}{% endif %}{% endmacro %}{{ m([1], 40) }}", WORK);
    refused("{{ ([1] * 100000000) | list | length }}", WORK);
    refused("{{ range(100000) | batch(1) | list | length }}{{ [1] | slice(10**9) | list | length }}", WORK);
    refused("{{ [1] | chain([2]) }}", "chain");
    refused("{{ [1] | zip([2]) }}", "zip");
}

/// Dropping a value takes stack for each level, and so does compiling a long sum.
#[test]
fn deep_values_and_long_sums() {
    let _alone = alone();
    let nest = |step: &str, times: usize, end: &str| {
        let loops = format!("{{% for i in range(100000) %}}{{% set ns.s = {step} %}}{{% endfor %}}").repeat(times);
        format!("{{% set ns = namespace(s=1) %}}{loops}{end}")
    };
    for step in ["[ns.s]", "{'a': ns.s}", "(ns.s, 1)", "namespace(a=ns.s)"] {
        match render(&nest(step, 4, "ok")) {
            Ok(text) => assert_eq!(text, "ok"),
            Err(error) => assert!(error.to_string().contains(WORK), "{step}: {error}"),
        }
    }
    refused(&nest("[ns.s]", 1, "{{ ns.s }}"), NESTING);
    refused("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", NESTING);
    refused("{% set ns = namespace() %}{% set ns.a = ns %}{{ [ns] == [namespace()] }}", NESTING);
    assert_eq!(render(&nest("ns.s | reverse if i else [1]", 1, "ok{{ ns.s[0:] | list }}")).unwrap(), "ok[1]");
    let long = |part: &str, times: usize| format!("{{{{ x{} }}}}", part.repeat(times));
    assert_eq!(render(&long("+1", 900)).unwrap(), "901");
    for part in ["+1", "~x", ".a", "[0]", "|e", " if x", " or x", ".a()"] {
        let error = render(&long(part, (250 << 10) / part.len())).unwrap_err().to_string();
        assert!(error.contains("more than 1000 operators in a row") || error.contains("recursion"), "{part}: {error}");
    }
    for part in ["{{ (", "{% if x %}", "{{ not ", "{{ [", "{{ -", "{{ m(", "{% for x in y %}", "{{ {1: "] {
        let inner = part.trim_start_matches("{{ ").repeat((250 << 10) / part.len());
        let message = render(&if part.starts_with("{{") { format!("{{{{ {inner}") } else { inner }).unwrap_err().to_string();
        assert!(message.contains("line 1: ") && message.len() < 200, "{part}: {message}");
    }
}

fn long_conversation(messages: usize) -> Map<String, Value> {
    let text = "A sentence of a certain length, and then one more. ".repeat(40);
    let message = |i: usize| match i % 2 {
        0 => json!({"role": "user", "content": text}),
        _ => {
            json!({"role": "assistant", "content": text, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2, {"y": "z"}]}}}]})
        }
    };
    let messages: Vec<Value> = (0..messages).map(message).collect();
    Map::from_iter([("messages".to_owned(), messages.into()), ("add_generation_prompt".to_owned(), true.into())])
}

#[test]
fn a_thousand_messages_pass_through_real_templates() {
    let _alone = alone();
    let conversation = long_conversation(1000);
    let real = std::fs::read_to_string(at("../../tests/data/sdar-tokenizer/chat_template.jinja")).unwrap();
    let config: Value = serde_json::from_slice(&std::fs::read(at("bundled/tiny-sdar/tokenizer_config.json")).unwrap()).unwrap();
    let bundled = config["chat_template"].as_str().unwrap().to_owned();
    // As some templates do it: a list is copied message by message.
    let copying = "{% set ns = namespace(all=[]) %}{% for m in messages %}{% set ns.all = ns.all + [m] %}{% endfor %}\
                   {% for m in ns.all %}{{ m.role ~ ': ' ~ m.content | trim }}{% endfor %}";
    for template in [&real, &bundled, copying] {
        let text = ChatTemplate::new(template).unwrap().render(&conversation).unwrap();
        assert!(text.len() > 2_000_000);
    }
}

/// What is put into the source shows nowhere.
#[test]
fn prices_change_no_result() {
    let _alone = alone();
    for (source, expected) in [
        ("{{ [1, 2, 3][::-1][0] }}{{ 'abc'[1:] ~ (1 + 2) }}", "3bc3"),
        ("{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set t = (1, 2) %}{{ t }}{{ 3 if (t == (1, 2)) else 4 }}", "1[2](1, 2)3"),
        ("{{ not x == 2 and 1 < x + 1 <= 2 }}{{ 'a' in ['a'] + ['b'] }}{{ -x ~ '' }}{{ x is eq 1 }}{{ x if x else 2 }}", "TrueTrue-1True1"),
        ("{{ ('a' ~ 'b') * 2 }}{{ [0] * 2 }}{{ {'k' ~ 1: 'v'}['k' ~ 1] }}{{ messages[x - 1].role | upper | lower }}", "abab[0, 0]vuser"),
        ("{% set s %}a{{ x }}{% endset %}{{ s | trim }}{% filter upper %}b{% endfilter %}{% with y = x + 1 %}{{ y }}{% endwith %}", "a1B2"),
        ("{% macro m(a, b=x + 1) %}{{ a ~ b }}{% endmacro %}{{ m('é' ~ 'ü') }}{{ m(a=1, b=2) }}{{ m(*[1, 2]) }}", "éü21212"),
        (
            "{{ messages | map(attribute='role') | join(',') }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
            "user1",
        ),
        ("\n\n{{ x }}\n", "\n\n1"),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
    refused("\n\n{{ x ~ y.z.w }}", "line 3: ");
}

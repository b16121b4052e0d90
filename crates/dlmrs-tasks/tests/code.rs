//! HumanEval and MBPP: reading, prompts, and which answers pass. The records are written for these tests.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::Path;

use dlmrs_tasks::{Context, Problem, Record, task};
use serde_json::{Value, json};

fn allowed() -> Context<'static> {
    Context { python: Some(Path::new("python3")) }
}

fn record(fields: &Value) -> Record {
    Record { place: "line 1 of own.jsonl".into(), fields: fields.as_object().unwrap().clone() }
}

fn problem(name: &str, fields: &Value) -> Box<dyn Problem> {
    task(name).unwrap().read(&record(fields)).unwrap()
}

fn refusal(name: &str, fields: &Value) -> String {
    task(name).unwrap().read(&record(fields)).err().unwrap().to_string()
}

/// A record without one field, or with another value for it.
fn changed(fields: &Value, name: &str, value: Option<Value>) -> Value {
    let mut fields = fields.clone();
    match value {
        Some(value) => fields[name] = value,
        None => drop(fields.as_object_mut().unwrap().remove(name)),
    }
    fields
}

fn gap() -> Value {
    json!({
        "task_id": "Own/0",
        "prompt": "from typing import List\n\n\ndef smallest_gap(values: List[int]) -> int:\n    \"\"\"The smallest distance of two of the values.\n    \
                   >>> smallest_gap([9, 1, 4])\n    3\n    \"\"\"\n",
        "canonical_solution": "    ordered = sorted(values)\n    return min(b - a for a, b in zip(ordered, ordered[1:]))\n",
        "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate([9, 1, 4]) == 3\n    assert candidate([5, 5]) == 0\n",
        "entry_point": "smallest_gap",
    })
}

const BODY: &str = "    ordered = sorted(values)\n    return min(b - a for a, b in zip(ordered, ordered[1:]))";
const WHOLE: &str = "def smallest_gap(values: List[int]) -> int:\n    ordered = sorted(values)\n    \
                     return min(b - a for a, b in zip(ordered, ordered[1:]))";

#[test]
fn humaneval_prompts() {
    let prompt = gap()["prompt"].as_str().unwrap().to_string();
    let base = problem("humaneval", &gap());
    assert_eq!(base.question(), prompt);
    assert_eq!(base.worked(), format!("{prompt}{BODY}\n"));
    let instruct = problem("humaneval_instruct", &gap());
    assert_eq!(
        instruct.question(),
        format!(
            "Write a solution to the following problem and make sure that it passes the tests:\n```python\n{}\n```\n",
            prompt.trim_end()
        )
    );
    assert!(instruct.worked().ends_with(&format!("{prompt}{BODY}\n```")));
    let settings = task("humaneval").unwrap().prompting();
    assert_eq!((settings.shots, settings.stop), (0, ["\nclass", "\ndef", "\n#", "\nif", "\nprint"].as_slice()));
}

#[test]
fn humaneval_answers_that_pass() {
    let unindented = "ordered = sorted(values)\nreturn min(b - a for a, b in zip(ordered, ordered[1:]))";
    let first_line = "ordered = sorted(values)\n    return min(b - a for a, b in zip(ordered, ordered[1:]))";
    for answer in [
        format!("{BODY}\n"),
        format!("{BODY}\n\nThis sorts the values."),
        format!("{BODY}\n```\nThis sorts the values:\n- first"),
        WHOLE.to_string(),
        format!("Sure, here it is:\n\n{WHOLE}\n\nIt sorts them."),
        format!("Here it is:\n```python\n{WHOLE}\n```\nUse it so:\n```python\n\n\nx = [1, 2]\ny = x\nz = y\nprint(smallest_gap(z))\n```"),
        format!("```python\n{BODY}\n```"),
        format!("```python\n{unindented}\n```"),
        format!("```\n{WHOLE}\n\nprint(smallest_gap(input()))\n"),
        format!("{WHOLE}\n\nif __name__ == '__main__':\n    smallest_gap(input())\n"),
        unindented.to_string(),
        first_line.to_string(),
    ] {
        for name in ["humaneval", "humaneval_instruct"] {
            assert_eq!(problem(name, &gap()).score(&answer, allowed()).unwrap(), [true], "{name}: {answer}");
        }
    }
}

#[test]
fn humaneval_answers_that_fail() {
    for answer in [
        "",
        "    return 3\n",
        "I do not know.",
        "```python\n```",
        "    pass\n",
        "import sys; sys.exit(0)",
        "    import os; os._exit(0)\n",
        "\u{0}",
    ] {
        assert_eq!(problem("humaneval", &gap()).score(answer, allowed()).unwrap(), [false], "{answer:?}");
    }
}

#[test]
fn humaneval_keeps_what_the_prompt_brings() {
    let fields = json!({
        "task_id": "Own/1",
        "prompt": "def half(x):\n    return x / 2\n\n\ndef quarter(x):\n    \"\"\"A quarter of it.\"\"\"\n",
        "canonical_solution": "    return half(half(x))\n",
        "test": "def check(candidate):\n    assert candidate(8) == 2\n",
        "entry_point": "quarter",
    });
    for answer in
        ["    return half(half(x))", "```python\ndef quarter(x):\n    return half(half(x))\n```", "quarter = lambda x: half(half(x))"]
    {
        assert_eq!(problem("humaneval", &fields).score(answer, allowed()).unwrap(), [true], "{answer}");
    }
}

#[test]
fn humaneval_records_that_are_refused() {
    assert_eq!(
        refusal("humaneval", &changed(&gap(), "test", None)),
        "line 1 of own.jsonl: the field \"test\" is missing (a string); the fields here are: task_id, prompt, canonical_solution, entry_point"
    );
    assert_eq!(
        refusal("humaneval", &changed(&gap(), "entry_point", Some(json!("a gap")))),
        "line 1 of own.jsonl: the field \"entry_point\" is \"a gap\", it should be the name of a function"
    );
    assert!(refusal("humaneval", &changed(&gap(), "test", Some(json!("assert True")))).contains("does not define the function check"));
    assert!(task("humaneval").unwrap().read(&record(&changed(&gap(), "canonical_solution", None))).is_ok());
}

fn twice() -> Value {
    json!({
        "task_id": 11,
        "text": "Write a function that doubles each number of a list.",
        "code": "def twice(numbers):\r\n    return [2 * number for number in numbers]",
        "test_list": ["assert twice([1, 2]) == [2, 4]", "assert twice([]) == []", "assert twice([-1]) == [-2]"],
        "test_setup_code": "",
        "challenge_test_list": [],
    })
}

/// The same in the sanitized layout, with a test that needs an import.
fn twice_sanitized() -> Value {
    json!({
        "source_file": "own",
        "task_id": 11,
        "prompt": "Write a function that doubles each number of a list.",
        "code": "def twice(numbers):\n    return [2 * number for number in numbers]",
        "test_imports": ["import math"],
        "test_list": [
            "assert twice([1, 2]) == [2, 4]", "assert twice([]) == []", "assert twice([-1]) == [-2]", "assert math.prod(twice([1, 1])) == 4",
        ],
    })
}

const QUESTION: &str = "You are an expert Python programmer, and here is your task: Write a function that doubles each number of a list. Your code should \
    pass these tests:\n\nassert twice([1, 2]) == [2, 4]\nassert twice([]) == []\nassert twice([-1]) == [-2]\n[BEGIN]\n";
const SOLUTION: &str = "def twice(numbers):\n    return [2 * number for number in numbers]";

#[test]
fn mbpp_prompts() {
    for fields in [twice(), twice_sanitized()] {
        let problem = problem("mbpp", &fields);
        assert_eq!(problem.question(), QUESTION);
        assert_eq!(problem.worked(), format!("{QUESTION}{SOLUTION}\n[DONE]"));
    }
    let (task, shot) = (task("mbpp").unwrap(), problem("mbpp", &twice()));
    assert_eq!(task.prompt(&[&*shot], &*shot), format!("{QUESTION}{SOLUTION}\n[DONE]\n\n{QUESTION}"));
    assert_eq!((task.prompting().shots, task.prompting().stop), (3, ["[DONE]"].as_slice()));
}

#[test]
fn mbpp_answers() {
    for fields in [twice(), twice_sanitized()] {
        let problem = problem("mbpp", &fields);
        for answer in [
            SOLUTION.to_string(),
            format!("{SOLUTION}\n"),
            format!("[BEGIN]\n{SOLUTION}\n[DONE]\nmore ["),
            format!("Of course.\n```python\n{SOLUTION}\n```\nThat is all."),
            format!("{SOLUTION}\nprint(twice([3]))"),
        ] {
            assert_eq!(problem.score(&answer, allowed()).unwrap(), [true], "{answer}");
        }
        for answer in ["", "def twice(numbers):\n    return numbers", "def double(numbers): pass", "raise SystemExit(0)", "Sorry."] {
            assert_eq!(problem.score(answer, allowed()).unwrap(), [false], "{answer}");
        }
    }
}

#[test]
fn mbpp_setup_runs_between_the_program_and_its_tests() {
    let fields = changed(&twice(), "test_setup_code", Some(json!("expected = twice([7])")));
    let fields = changed(&fields, "test_list", Some(json!(["assert expected == [14]"])));
    assert_eq!(problem("mbpp", &fields).score(SOLUTION, allowed()).unwrap(), [true]);
}

#[test]
fn mbpp_records_that_are_refused() {
    assert!(refusal("mbpp", &changed(&twice(), "text", None)).contains("the field \"text\" is missing"));
    assert!(refusal("mbpp", &changed(&twice(), "code", Some(json!(1)))).contains("the field \"code\" is a number"));
    assert!(refusal("mbpp", &changed(&twice(), "test_list", Some(json!([])))).contains("it should hold assert statements"));
    assert!(refusal("mbpp", &changed(&twice(), "test_setup_code", Some(json!(1)))).contains("\"test_setup_code\" should be a string"));
    assert!(refusal("mbpp", &changed(&twice_sanitized(), "test_imports", Some(json!("import math")))).contains("a list of strings"));
}

#[test]
fn nothing_runs_without_permission_or_without_python() {
    for (name, fields) in [("humaneval", gap()), ("humaneval_instruct", gap()), ("mbpp", twice())] {
        assert!(task(name).unwrap().runs_code());
        let problem = problem(name, &fields);
        let error = problem.score(SOLUTION, Context::default()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{name}: an answer is judged by running it as a program, which was not allowed; --allow-code-execution allows it")
        );
        let error = problem.score(SOLUTION, Context { python: Some(Path::new("/no/such/python")) }).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/python: cannot be run"), "{error}");
    }
}

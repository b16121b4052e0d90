//! MBPP: small programs to be written from a sentence and three tests.

use crate::code_answer::{passes, texts};
use crate::execute::{Program, Reading};
use crate::{Context, Problem, Prompting, Record, Result, Task};

/// MBPP (Austin et al. 2021), in the original layout and in the sanitized one.
pub(crate) struct Mbpp;

const NAME: &str = "mbpp";

/// A prompt shows so many tests; all are run.
const SHOWN_TESTS: usize = 3;

impl Task for Mbpp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "500 small programs (task_id 11 to 510; worked examples are 2, 3 and 4); MBPP, github.com/google-research/google-research (mbpp.jsonl) \
         or google-research-datasets/mbpp on the hub (full, sanitized)"
    }

    fn prompting(&self) -> Prompting {
        Prompting { shots: 3, max_tokens: 256, stop: &["[DONE]"] }
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["pass@1"]
    }

    fn runs_code(&self) -> bool {
        true
    }

    fn read(&self, record: &Record) -> Result<Box<dyn Problem>> {
        let sanitized = !record.fields.contains_key("text") && record.fields.contains_key("prompt");
        let text = record.text(if sanitized { "prompt" } else { "text" })?;
        let optional = |name: &str| record.fields.get(name).is_some_and(|value| !value.is_null());
        let setup = match (optional("test_setup_code"), optional("test_imports")) {
            (true, _) => setup_code(record)?,
            (false, true) => record.texts("test_imports")?.join("\n"),
            (false, false) => String::new(),
        };
        let tests = record.texts("test_list")?;
        if tests.is_empty() {
            return Err(record.error("the field \"test_list\" is empty, it should hold assert statements"));
        }
        Ok(Box::new(SmallProgram {
            text: text.trim().into(),
            code: record.text("code")?.replace("\r\n", "\n"),
            setup: setup.replace("\r\n", "\n"),
            tests: tests.into_iter().map(|test| test.trim().replace("\r\n", "\n")).collect(),
        }))
    }
}

/// Empty in most records, so it is no text that must be there.
fn setup_code(record: &Record) -> Result<String> {
    let value = record.field("test_setup_code", "a string")?;
    value.as_str().map(str::to_string).ok_or_else(|| record.error("the field \"test_setup_code\" should be a string"))
}

struct SmallProgram {
    text: String,
    code: String,
    setup: String,
    tests: Vec<String>,
}

impl Problem for SmallProgram {
    fn question(&self) -> String {
        let tests: String = self.tests.iter().take(SHOWN_TESTS).map(|test| format!("{test}\n")).collect();
        let text = &self.text;
        format!("You are an expert Python programmer, and here is your task: {text} Your code should pass these tests:\n\n{tests}[BEGIN]\n")
    }

    fn worked(&self) -> String {
        format!("{}{}\n[DONE]", self.question(), self.code)
    }

    fn score(&self, answer: &str, context: Context<'_>) -> Result<Vec<bool>> {
        // Models that follow instructions repeat the marks, which may also come after the stop string was lifted.
        let answer = answer.split("[DONE]").next().unwrap_or_default();
        let answer = answer.rsplit("[BEGIN]").next().unwrap_or_default();
        let readings = texts(answer).into_iter().map(|text| Reading { given: String::new(), answer: text }).collect();
        let tests = format!("{}\n{}\n", self.setup, self.tests.join("\n"));
        Ok(vec![passes(NAME, &Program { readings, entry_point: None, tests }, context)?])
    }
}

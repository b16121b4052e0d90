//! HumanEval: functions to be written from their signature and docstring.

use serde_json::Value;

use crate::code_answer::{indented, passes, texts};
use crate::execute::{Program, Reading};
use crate::{Context, Problem, Prompting, Record, Result, Task};

/// HumanEval (Chen et al. 2021), in the two forms of the common harness.
pub(crate) struct HumanEval {
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The prompt is the beginning of the file, which a model continues.
    Base,
    /// The prompt asks for the function, and the answer is free.
    Instruct,
}

impl HumanEval {
    /// The beginning of a file is continued; the answer ends where the function does.
    pub(crate) const BASE: Self = Self { form: Form::Base };

    /// The harness puts the beginning of the answer into the model's turn, with the prompt in a fence. Here a prompt is the user's turn
    /// alone, so the model writes the fence and the whole function itself; the words of the question are the harness's.
    pub(crate) const INSTRUCT: Self = Self { form: Form::Instruct };
}

impl Task for HumanEval {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Base => "humaneval",
            Form::Instruct => "humaneval_instruct",
        }
    }

    fn about(&self) -> &'static str {
        match self.form {
            Form::Base => {
                "164 functions to complete, by models that continue text; HumanEval, github.com/openai/human-eval (HumanEval.jsonl) or \
                 openai/openai_humaneval on the hub"
            }
            Form::Instruct => "the same 164 functions, by models that follow instructions; the files of humaneval",
        }
    }

    fn prompting(&self) -> Prompting {
        let stop: &[&str] = match self.form {
            Form::Base => &["\nclass", "\ndef", "\n#", "\nif", "\nprint"],
            Form::Instruct => &[],
        };
        Prompting { shots: 0, max_tokens: 512, stop }
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["pass@1"]
    }

    fn runs_code(&self) -> bool {
        true
    }

    fn read(&self, record: &Record) -> Result<Box<dyn Problem>> {
        let entry_point = record.text("entry_point")?;
        let letters = |rest: &str| rest.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        if !letters(entry_point) || entry_point.starts_with(|first: char| first.is_numeric()) {
            return Err(record.error(format!("the field \"entry_point\" is {entry_point:?}, it should be the name of a function")));
        }
        let test = record.text("test")?;
        if !test.contains("def check(") {
            return Err(record.error("the field \"test\" does not define the function check, which takes the function to be tested"));
        }
        Ok(Box::new(Function {
            form: self.form,
            task: self.name(),
            prompt: record.text("prompt")?.into(),
            // Only a worked example needs it.
            solution: record.fields.get("canonical_solution").and_then(Value::as_str).unwrap_or_default().into(),
            tests: format!("{test}\ncheck({entry_point})\n"),
            entry_point: entry_point.into(),
        }))
    }
}

struct Function {
    form: Form,
    task: &'static str,
    prompt: String,
    solution: String,
    tests: String,
    entry_point: String,
}

impl Problem for Function {
    fn question(&self) -> String {
        match self.form {
            Form::Base => self.prompt.clone(),
            Form::Instruct => {
                format!(
                    "Write a solution to the following problem and make sure that it passes the tests:\n```python\n{}\n```\n",
                    self.prompt.trim_end()
                )
            }
        }
    }

    fn worked(&self) -> String {
        match self.form {
            Form::Base => format!("{}{}", self.prompt, self.solution),
            Form::Instruct => format!("{}```python\n{}{}\n```", self.question(), self.prompt, self.solution.trim_end()),
        }
    }

    fn score(&self, answer: &str, context: Context<'_>) -> Result<Vec<bool>> {
        let mut texts = texts(answer);
        // Where the function is written out, no other text is its body.
        let whole = |text: &String| text.contains(&format!("def {}(", self.entry_point));
        if texts.iter().any(whole) {
            texts.retain(whole);
        }
        let readings = texts.into_iter().flat_map(|text| self.readings(text)).collect();
        let program = Program { readings, entry_point: Some(self.entry_point.clone()), tests: self.tests.clone() };
        Ok(vec![passes(self.task, &program, context)?])
    }
}

impl Function {
    /// A text goes on where the prompt ends, or is a whole function, which then replaces the prompt's; or it is a body that lost its
    /// indentation, that of all lines or that of the first.
    fn readings(&self, text: String) -> Vec<Reading> {
        let prompt = &self.prompt;
        let line = if prompt.ends_with('\n') { prompt.clone() } else { format!("{prompt}\n") };
        let body = Reading { given: line.clone(), answer: indented(&text) };
        let first = Reading { given: format!("{line}    "), answer: text.clone() };
        let next_line = (line != *prompt).then(|| Reading { given: line, answer: text.clone() });
        [Some(Reading { given: prompt.clone(), answer: text }), next_line, Some(body), Some(first)].into_iter().flatten().collect()
    }
}

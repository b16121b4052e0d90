//! TriviaQA: short facts, answered without a text to look in.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::{Context, Problem, Prompting, Record, Result, Task};

/// TriviaQA (Joshi et al. 2017), closed book.
pub(crate) struct TriviaQa;

impl Task for TriviaQa {
    fn name(&self) -> &'static str {
        "triviaqa"
    }

    fn about(&self) -> &'static str {
        "17,944 questions about facts, with no text to look in; TriviaQA, mandarjoshi/trivia_qa on the hub \
         (rc.nocontext/validation-*.parquet, shots from rc.nocontext/train-*.parquet)"
    }

    fn prompting(&self) -> Prompting {
        Prompting { shots: 5, max_tokens: 32, stop: &["\n", ".", ","] }
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["exact_match"]
    }

    fn read(&self, record: &Record) -> Result<Box<dyn Problem>> {
        let question = record.text("question")?.into();
        let wanted = "an object with value, aliases and normalized_aliases";
        let fields: &Map<_, _> = match record.field("answer", wanted)? {
            Value::Object(fields) => fields,
            other => {
                let kind = crate::record::kind(other);
                return Err(record.error(format!("the field \"answer\" is {kind}, it should be {wanted}")));
            }
        };
        let answer = Record { place: format!("{}, field \"answer\"", record.place), fields: fields.clone() };
        let value = answer.text("value")?;
        // Not every published file has both lists.
        let mut accepted = HashSet::from([normal(value)]);
        for name in ["aliases", "normalized_aliases"] {
            if fields.get(name).is_some_and(|list| !list.is_null()) {
                accepted.extend(answer.texts(name)?.into_iter().map(normal));
            }
        }
        accepted.remove("");
        if accepted.is_empty() {
            return Err(answer.error(format!("nothing is left of {value:?} and its aliases without articles and punctuation")));
        }
        Ok(Box::new(Fact { question, value: value.into(), accepted }))
    }
}

struct Fact {
    question: String,
    value: String,
    accepted: HashSet<String>,
}

impl Problem for Fact {
    /// The question mark is added to the one that most questions end in, as the common harness does.
    fn question(&self) -> String {
        format!("Question: {}?\nAnswer:", self.question)
    }

    fn worked(&self) -> String {
        format!("{} {}", self.question(), self.value)
    }

    fn score(&self, answer: &str, _: Context<'_>) -> Result<Vec<bool>> {
        Ok(vec![self.accepted.contains(&normal(answer))])
    }
}

/// As the data set's own normalised aliases: lower case, no articles, no punctuation, single spaces.
fn normal(text: &str) -> String {
    let lower = text.to_lowercase();
    // Quotation marks that are not ASCII count too; an underscore is a space already by being punctuation.
    let words = lower.split(|c: char| c.is_whitespace() || c.is_ascii_punctuation() || matches!(c, '\u{2018}' | '\u{2019}' | '\u{b4}'));
    let words: Vec<_> = words.filter(|word| !matches!(*word, "" | "a" | "an" | "the")).collect();
    words.join(" ")
}

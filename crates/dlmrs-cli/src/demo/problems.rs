//! Word problems and their answers.

use serde_json::Value;

use crate::failure::Failure;

/// The first of the project's test problems, which the bundled models have not seen in training.
const PROBLEMS: &str = include_str!("problems.jsonl");

/// A problem.
pub(crate) struct Problem {
    /// What is asked.
    pub(crate) question: String,
    /// The right number.
    pub(crate) answer: String,
}

/// The first problems.
pub(crate) fn first(count: usize) -> Result<Vec<Problem>, Failure> {
    PROBLEMS.lines().take(count).map(parse).collect::<Option<_>>().ok_or_else(|| Failure::Said("the demo's problems are malformed".into()))
}

fn parse(line: &str) -> Option<Problem> {
    let value: Value = serde_json::from_str(line).ok()?;
    let answer = number(value["answer"].as_str()?)?.to_string();
    Some(Problem { question: value["question"].as_str()?.to_string(), answer })
}

/// The number after `####`.
pub(super) fn number(answer: &str) -> Option<&str> {
    let (_, number) = answer.rsplit_once("####")?;
    Some(number.trim()).filter(|number| !number.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_well_formed() {
        assert_eq!(first(20).unwrap().len(), 20);
        assert_eq!(first(1).unwrap()[0].answer, "47");
    }

    #[test]
    fn numbers() {
        assert_eq!(number("3 + 4 = 7. #### 7"), Some("7"));
        assert_eq!(number("#### 1 #### 2 "), Some("2"));
        assert_eq!(number("7"), None);
        assert_eq!(number("####"), None);
    }
}

//! The first of the word problems that come with dlmrs; the bundled models have not seen them in training.

use dlmrs_tasks::{Context, data, task};

use crate::failure::Failure;

/// A word problem.
pub(crate) struct Problem {
    pub(crate) question: String,
    /// The right number.
    pub(super) answer: String,
    judge: Box<dyn dlmrs_tasks::Problem>,
}

impl Problem {
    /// Whether an answer gives the right number.
    pub(super) fn is_right(&self, answer: &str) -> Result<bool, Failure> {
        Ok(self.judge.score(answer, Context::default())?.first().copied().unwrap_or_default())
    }
}

/// The first problems.
pub(crate) fn first(count: usize) -> Result<Vec<Problem>, Failure> {
    let task = task("word_problems")?;
    let problem = |record: &dlmrs_tasks::Record| {
        let judge = task.read(record)?;
        let answer = record.text("answer")?.rsplit("####").next().unwrap_or_default().trim().to_string();
        Ok(Problem { question: judge.question(), answer, judge })
    };
    data::bundled(task)?.iter().take(count).map(problem).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_problem() {
        let problems = first(20).unwrap();
        assert_eq!((problems.len(), problems[0].answer.as_str()), (20, "47"));
        for (answer, right) in [("so #### 47", true), ("#### 48", false), ("47", false), ("", false)] {
            assert_eq!(problems[0].is_right(answer).unwrap(), right, "{answer}");
        }
    }
}

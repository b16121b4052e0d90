//! What of an answer may be a program, and whether it passes its tests.

use crate::execute::{Limits, Outcome, Program, Python};
use crate::{Context, Error, Result};

/// Whether a program passes its tests; an error if nobody allowed to run it or it could not be run.
pub(crate) fn passes(task: &str, program: &Program, context: Context<'_>) -> Result<bool> {
    let Some(python) = context.python else {
        return Err(Error::at(
            task,
            "an answer is judged by running it as a program, which was not allowed; --allow-code-execution allows it",
        ));
    };
    match Python::find(python)?.run(program, Limits::default())?.outcome {
        Outcome::Refused(why) => Err(Error::at(task, format!("an answer could not be judged: {why}"))),
        outcome => Ok(outcome == Outcome::Passed),
    }
}

/// The texts of an answer that may be the program: its fenced blocks of Python and what stands before the first fence, or, without
/// fences, the whole of it and what begins at its first definition or import.
pub(crate) fn texts(answer: &str) -> Vec<String> {
    let lines: Vec<&str> = answer.lines().collect();
    let Some(first) = lines.iter().position(|line| fence(line).is_some()) else {
        let code = lines
            .iter()
            .position(|line| ["def ", "async def ", "class ", "import ", "from ", "@"].iter().any(|start| line.starts_with(start)));
        return [Some(0), code.filter(|start| *start > 0)].into_iter().flatten().map(|start| lines[start..].join("\n")).collect();
    };
    let mut texts = Vec::new();
    let mut rest = &lines[first..];
    while let Some((opening, inside)) = rest.split_first() {
        let end = inside.iter().position(|line| fence(line).is_some()).unwrap_or(inside.len());
        let language = fence(opening).unwrap_or_default().to_lowercase();
        if ["", "python", "python3", "py"].contains(&language.as_str()) {
            texts.push(inside[..end].join("\n"));
        }
        rest = inside.get(end + 1..).unwrap_or_default();
        let next = rest.iter().position(|line| fence(line).is_some()).unwrap_or(rest.len());
        rest = &rest[next..];
    }
    texts.push(lines[..first].join("\n"));
    texts
}

/// What follows three backticks at the beginning of a line.
fn fence(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("```").map(str::trim)
}

/// Every line of a text four spaces further in.
pub(crate) fn indented(text: &str) -> String {
    text.lines().map(|line| if line.trim().is_empty() { String::new() } else { format!("    {line}") }).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences() {
        assert_eq!(texts("    return 1\n"), ["    return 1"]);
        assert_eq!(texts("Sure:\ndef f():\n    pass"), ["Sure:\ndef f():\n    pass", "def f():\n    pass"]);
        assert_eq!(texts("Sure:\n```python\nx = 1\n```\nand\n```sh\nls\n```\n```\ny = 2"), ["x = 1", "y = 2", "Sure:"]);
        assert_eq!(texts("    return 1\n```\nThat is all."), ["That is all.", "    return 1"]);
        assert_eq!(texts(""), [""]);
    }

    #[test]
    fn empty_lines_stay_empty() {
        assert_eq!(indented("a\n\n  b"), "    a\n\n      b");
    }
}

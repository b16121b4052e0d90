//! Where the answer stands in a solution.

/// What goes before the answer in Minerva's sentence.
pub(super) const SENTENCE: &str = "Final Answer: The final answer is";

/// What goes behind the answer and a full stop.
pub(super) const SENTENCE_END: &str = "I hope it is correct.";

/// The answer in the first sentence of Minerva's form. Its end may be missing, where the answer was cut off or ended too early.
pub(super) fn sentence(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(SENTENCE)?;
    let line = rest.lines().next()?;
    let answer = line.split_once(SENTENCE_END).map_or(line, |(answer, _)| answer).trim();
    let answer = answer.strip_suffix('.').unwrap_or(answer).trim();
    (!answer.is_empty()).then_some(answer)
}

/// What the last `\boxed` or `\fbox` holds: a group in braces, or without braces what follows up to a dollar sign or the end of the line.
pub(super) fn boxed(text: &str) -> Option<&str> {
    let after = |command: &str| text.rfind(command).map(|at| at + command.len());
    let rest = &text[after("\\boxed").max(after("\\fbox"))?..];
    match rest.trim_start().strip_prefix('{') {
        Some(rest) => group(rest),
        None => rest.split(['$', '\n']).next().map(str::trim).filter(|answer| !answer.is_empty()),
    }
}

/// Up to the brace that closes one before the text. A brace behind a backslash is a sign, not a group.
pub(super) fn group(text: &str) -> Option<&str> {
    let mut depth = 1;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {}
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[..at]);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

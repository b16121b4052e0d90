//! Patterns of text.

use regex::Regex;

/// A pattern that is written in the code, for a `LazyLock`.
#[expect(clippy::expect_used, reason = "the patterns are constants, and the tests use each of them")]
pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

//! What the terminal can do.

use std::borrow::Cow;
use std::io::IsTerminal;

use unicode_width::UnicodeWidthChar;

/// A terminal that text can be drawn on in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns that are used; the last one is not, for terminals differ in when a full line ends.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// Whether colours are wanted. Nothing is said by colour alone.
    pub(crate) colour: bool,
}

impl Screen {
    /// The terminal at standard output, if there is one.
    pub(crate) fn of_stdout() -> Option<Self> {
        if !std::io::stdout().is_terminal() || !can_draw() {
            return None;
        }
        let (width, height) = terminal_size::terminal_size().map_or((80, 24), |(width, height)| (width.0, height.0));
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Some(Self { width: usize::from(width).saturating_sub(1), height: height.into(), colour })
    }
}

/// Whether standard error is a terminal on which a line can be drawn over.
pub(crate) fn stderr_can_draw() -> bool {
    std::io::stderr().is_terminal() && can_draw()
}

/// Columns of the terminal at standard error that are used.
pub(crate) fn stderr_width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(79, |(width, _)| usize::from(width.0).saturating_sub(1))
}

/// The part of a line that fits.
pub(crate) fn cut(line: &str, width: usize) -> &str {
    let mut columns = 0;
    let end = line.char_indices().find(|(_, c)| {
        columns += c.width().unwrap_or(0);
        columns > width
    });
    end.map_or(line, |(end, _)| &line[..end])
}

/// A model's text for a terminal, which is told nothing but text, lines and tabs.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    match text.contains(control) {
        true => Cow::Owned(text.replace(control, "\u{FFFD}")),
        false => Cow::Borrowed(text),
    }
}

fn can_draw() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_columns() {
        assert_eq!(cut("loading", 4), "load");
        assert_eq!(cut("loading", 7), "loading");
        assert_eq!(cut("漢字", 3), "漢");
        assert_eq!(cut("a", 0), "");
    }

    #[test]
    fn a_terminal_is_told_nothing_but_text() {
        assert_eq!(printable("a\tb\nc"), "a\tb\nc");
        assert_eq!(printable("\u{1b}[2Ja\r\u{9b}1A"), "\u{FFFD}[2Ja\u{FFFD}\u{FFFD}1A");
    }
}

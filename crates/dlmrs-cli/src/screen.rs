//! What the terminal can do.

use std::io::IsTerminal;

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

fn can_draw() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

//! Where the groups of a quantised panel stand.

use super::WeightType;

/// Bytes of a word of x: so many inputs meet a lane at once.
pub(super) const IN_WORD: usize = 4;

/// The inputs of a quantised weight, in groups that share a scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    k: usize,
    group: usize,
    /// Inputs that a line holds of each output.
    pub(super) in_line: usize,
}

impl Groups {
    pub(super) fn of(kind: WeightType, k: usize) -> Groups {
        let in_line = if matches!(kind, WeightType::Int4 { .. }) { 2 * IN_WORD } else { IN_WORD };
        Groups { k, group: kind.group().unwrap_or(k.max(1)), in_line }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.k.div_ceil(self.group)
    }

    /// The inputs of group `g`; the last one may be short.
    pub(super) fn inputs(&self, g: usize) -> std::ops::Range<usize> {
        g * self.group..((g + 1) * self.group).min(self.k)
    }

    /// Lines with weights of group `g`.
    pub(super) fn lines_of(&self, g: usize) -> usize {
        self.inputs(g).len().div_ceil(self.in_line)
    }

    /// The first line with weights of group `g`. The scales of groups `g` and `g + 1`, for even g, are the line before.
    pub(super) fn line(&self, g: usize) -> usize {
        g / 2 + 1 + g * (self.group / self.in_line)
    }

    /// Lines of a panel.
    pub(super) fn lines(&self) -> usize {
        match self.count() {
            0 => 0,
            count => self.line(count - 1) + self.lines_of(count - 1),
        }
    }

    /// Words of x before group `g`.
    pub(super) fn word(&self, g: usize) -> usize {
        g * (self.group / IN_WORD)
    }

    /// Words of x that the lines of all groups meet.
    pub(super) fn words(&self) -> usize {
        match self.count() {
            0 => 0,
            count => self.word(count - 1) + self.lines_of(count - 1) * (self.in_line / IN_WORD),
        }
    }
}

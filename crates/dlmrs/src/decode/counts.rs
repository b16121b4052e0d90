//! Numbers by kind of pass.

use std::ops::AddAssign;

use super::{How, Revealed};

/// What a pass is for. Rows are counted by what each serves, so a pass that also commits a block counts as one denoising pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PassKind {
    /// Puts given tokens into the cache; nothing is read.
    Prefill,
    /// Computes keys and values of everything anew for the passes that follow, and decides slots too.
    Refresh,
    /// Decides slots.
    Denoise,
    /// Guesses slots that a verification will judge.
    Draft,
    /// Judges guessed slots.
    Verify,
    /// Makes a finished block permanent; nothing is read.
    Commit,
}

impl PassKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Prefill, Self::Refresh, Self::Denoise, Self::Draft, Self::Verify, Self::Commit];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Refresh => "refresh",
            Self::Denoise => "denoise",
            Self::Draft => "draft",
            Self::Verify => "verify",
            Self::Commit => "commit",
        }
    }
}

/// A number for each kind: of passes, or of rows by what each served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([usize; PassKind::ALL.len()]);

impl Counts {
    /// So many of one kind.
    pub fn of(kind: PassKind, count: usize) -> Self {
        Self::default().and(kind, count)
    }

    /// And so many of another.
    pub fn and(mut self, kind: PassKind, count: usize) -> Self {
        self.0[kind as usize] += count;
        self
    }

    /// Those of one kind.
    pub fn get(&self, kind: PassKind) -> usize {
        self.0[kind as usize]
    }

    /// Those of all kinds.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// Every kind with its number.
    pub fn iter(&self) -> impl Iterator<Item = (PassKind, usize)> + '_ {
        PassKind::ALL.into_iter().map(|kind| (kind, self.get(kind)))
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}

/// What became of the slots that were guessed before the target judged them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Target passes that judged guesses.
    pub rounds: usize,
    /// Slots that were guessed for them, counted again each time.
    pub drafted: usize,
    /// Slots that hold what was guessed, because the target confirmed it.
    pub accepted: usize,
    /// Slots in which the target put its own token where a guess ended.
    pub corrections: usize,
    /// Guesses that came to nothing: drafted and not accepted.
    pub wasted: usize,
    /// S2D2: passes if the prompt and each finished block took one of their own, as in the reference; 0 elsewhere.
    pub unfolded_passes: usize,
}

impl Tally {
    /// One more round.
    pub fn round(&mut self, drafted: usize, accepted: usize, corrections: usize) {
        self.rounds += 1;
        self.drafted += drafted;
        self.accepted += accepted;
        self.corrections += corrections;
        self.wasted += drafted.saturating_sub(accepted);
    }

    /// One more round, whose guesses came to these slots.
    pub(crate) fn judged<'a>(&mut self, drafted: usize, slots: impl IntoIterator<Item = &'a Revealed>) {
        let (mut accepted, mut corrections) = (0, 0);
        for slot in slots {
            accepted += usize::from(slot.how == How::Accepted);
            corrections += usize::from(slot.how == How::Corrected);
        }
        self.round(drafted, accepted, corrections);
    }

    /// Accepted of drafted, 0 without a draft.
    pub fn acceptance(&self) -> f64 {
        self.accepted as f64 / self.drafted.max(1) as f64
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
        self.corrections += other.corrections;
        self.wasted += other.wasted;
        self.unfolded_passes += other.unfolded_passes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_number() {
        let mut counts = Counts::default();
        for (i, kind) in PassKind::ALL.into_iter().enumerate() {
            counts += Counts::of(kind, 1 << i);
        }
        assert_eq!(counts.total(), 63);
        assert!(counts.iter().enumerate().all(|(i, (kind, count))| count == 1 << i && counts.get(kind) == count));
        let names: std::collections::HashSet<_> = PassKind::ALL.map(PassKind::name).into();
        assert_eq!(names.len(), PassKind::ALL.len());
    }
}

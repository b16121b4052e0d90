//! The layouts of a verification pass: which copies of a block's slots are fed, and who sees whom.
//!
//! All of them let every row see what stands before the block, and of each slot of the block exactly one copy. They differ in what that
//! copy has seen itself, which is what decides whether a pass of several layers is exact.
//!
//! - [`states`]: whole copies of the block, one for each state, which see nothing of each other. Exact at any depth.
//! - [`paired`] (SimSD, section 3): a data row and a mask row for each slot. Exact for one layer, or where one step reveals everything;
//!   beyond that a mask row learns of later drafts, and of its own, through rows that were told of them.
//! - [`no_leak`]: data, mask, and masks that never learn of a draft. Exact for the first step; later ones belong to a slightly different
//!   model, but no row depends on a draft that is revealed with it or after it, at any depth.

use crate::pass::{Bits, Keep, Pass, Sees};

/// The step of a slot that was known before the round.
pub const KNOWN: u32 = 0;
/// The step of a slot that was not drafted: after everything.
pub const UNDRAFTED: u32 = u32::MAX;

/// What stands before the block: `base` cached entries, and rows that go into the cache with this pass (the rest of a prompt, a finished
/// block). Block-causal with blocks of `block_length`.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'a> {
    /// Entries of the cache that count.
    pub base: usize,
    /// Tokens at the positions from `base` on.
    pub tokens: &'a [u32],
    /// B, which with 1 makes the prefix token-causal.
    pub block_length: usize,
}

impl Prefix<'_> {
    /// Where the block begins.
    pub(super) fn end(&self) -> usize {
        self.base + self.tokens.len()
    }

    /// Whether prefix row `row` sees key `key`.
    pub(super) fn sees(&self, row: usize, key: usize) -> bool {
        key < self.end() && key / self.block_length <= (self.base + row) / self.block_length
    }
}

/// A block in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Place of its first slot.
    pub start: usize,
    /// `[B]` tokens; the mask where the state has not decided.
    pub tokens: Vec<u32>,
}

impl Copy {
    /// Whether nothing is masked.
    pub fn finished(&self, mask_token_id: u32) -> bool {
        !self.tokens.contains(&mask_token_id)
    }
}

/// A block with drafts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drafted {
    /// Place of its first slot.
    pub start: usize,
    /// `[B]` tokens: what is known, what was drafted, and anything where nothing was.
    pub tokens: Vec<u32>,
    /// `[B]` steps: [`KNOWN`], from 1 on for drafts (equal where one step revealed several), [`UNDRAFTED`].
    pub tau: Vec<u32>,
    /// What a mask row holds.
    pub mask_token_id: u32,
}

/// A pass and what its rows are for.
#[derive(Clone, Debug, PartialEq)]
pub struct Laid {
    /// The pass. It appends the prefix rows (and in [`states`] the finished copies) to the cache.
    pub pass: Pass,
    /// Of each row that is read, in the order of `pass.read`: the copy (for [`paired`] and [`no_leak`] always 0), and the place of its slot.
    pub read: Vec<(usize, usize)>,
    /// How many entries the cache has after the pass, if what it keeps is confirmed.
    pub kept: usize,
}

/// Copies of one block or several, in the order of their blocks; all masked slots are read. A copy sees the prefix, the **last** copy of each
/// block before its own, and itself. The last copies stay in the cache up to the first that is not finished; the next pass's
/// `base` cuts off those that the walk does not confirm.
pub fn states(prefix: &Prefix<'_>, copies: &[Copy], mask_token_id: u32) -> Laid {
    let before = prefix.tokens.len();
    let rows: Vec<(usize, usize)> = copies.iter().enumerate().flat_map(|(c, copy)| (0..copy.tokens.len()).map(move |i| (c, i))).collect();
    let last = |c: usize| copies.get(c + 1).is_none_or(|next| next.start != copies[c].start);
    let visible = |row: usize, key: usize| match (row.checked_sub(before), key.checked_sub(prefix.end())) {
        (None, _) => prefix.sees(row, key),
        (Some(_), None) => true,
        (Some(row), Some(key)) => {
            let (own, other) = (rows[row].0, rows[key].0);
            own == other || copies[other].start < copies[own].start && last(other)
        }
    };
    let mut keep: Vec<u32> = (0..before as u32).collect();
    let mut open = false;
    for (row, &(c, _)) in rows.iter().enumerate().filter(|(_, (c, _))| last(*c)) {
        open |= !copies[c].finished(mask_token_id);
        if !open {
            keep.push((before + row) as u32);
        }
    }
    let masked = |row: &usize| copies[rows[*row].0].tokens[rows[*row].1] == mask_token_id;
    let read: Vec<usize> = (0..rows.len()).filter(masked).collect();
    let place = |row: usize| copies[rows[row].0].start + rows[row].1;
    let n = before + rows.len();
    let pass = Pass {
        tokens: prefix.tokens.iter().copied().chain(rows.iter().map(|&(c, i)| copies[c].tokens[i])).collect(),
        positions: (prefix.base..prefix.end()).chain((0..rows.len()).map(place)).map(|p| p as u32).collect(),
        base: prefix.base,
        sees: Sees::Mask(Bits::from_fn(n, prefix.base + n, visible)),
        keep: Keep::Append(keep),
        read: read.iter().map(|&row| (before + row) as u32).collect(),
        tap: None,
    };
    let kept = pass.kept_len();
    Laid { pass, read: read.into_iter().map(|row| (rows[row].0, place(row))).collect(), kept }
}

/// What a block of a canvas finds in a cache that holds everything but the block as it is now (a dual cache).
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Entries of the cache.
    pub base: usize,
    /// The first of the block's own entries, one a slot. Nobody sees them: they belong to a state that has passed.
    pub own: usize,
    /// Entries that nobody sees either, rising.
    pub dropped: &'a [usize],
    /// Places of the block's slots, rising.
    pub places: &'a [usize],
    /// Whether the prediction for a slot is read at the row of the place in front (Dream).
    pub shift: bool,
}

/// Copies of one block of a canvas, whose slots are numbered from 0 (`start` is 0): [`states`] over a cache with a hole. All masked slots are
/// read, and named by their numbers. The first copy, the present state, takes the place of the block's entries, as it does without guesses.
///
/// With `shift` no slot may be masked whose place in front is not the block's (but for place 0, which has none).
pub fn inside(around: &Around<'_>, copies: &[Copy], mask_token_id: u32) -> Laid {
    let length = around.places.len();
    let Laid { mut pass, read, .. } = states(&Prefix { base: around.base, tokens: &[], block_length: 1 }, copies, mask_token_id);
    let row_of = |slot: usize| match around.places[slot].checked_sub(1) {
        Some(front) if around.shift => around.places.binary_search(&front).unwrap_or(slot),
        _ => slot,
    };
    pass.positions = copies.iter().flat_map(|_| around.places).map(|&place| place as u32).collect();
    pass.read = read.iter().map(|&(copy, slot)| (copy * length + row_of(slot)) as u32).collect();
    pass.keep = Keep::Overwrite {
        rows: (0..length as u32).collect(),
        slots: (around.own..around.own + length).map(|entry| entry as u32).collect(),
    };
    let seen = |row: usize, key: usize| match key.checked_sub(around.base) {
        None => around.dropped.binary_search(&key).is_err(),
        Some(other) => row / length == other / length,
    };
    pass.sees = Sees::Mask(Bits::from_fn(copies.len() * length, around.base + copies.len() * length, seen));
    Laid { pass, read, kept: around.base }
}

/// Which copy of a slot a row is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The token.
    Data,
    /// The mask, told of the drafts before it.
    Mask,
    /// The mask, told of no draft.
    Blind,
}

/// A data row for each slot that has a token, a mask row for each slot that was not known; the mask rows are read. With `aligned` a
/// mask row stands at its slot's position (as it must to mean anything); otherwise behind the block, for comparison.
pub fn paired(prefix: &Prefix<'_>, drafted: &Drafted, aligned: bool) -> Laid {
    let tau = &drafted.tau;
    let sees = |(kind, i): (Kind, usize), (other, j): (Kind, usize)| match (kind, other) {
        (Kind::Data, Kind::Data) => tau[j] <= tau[i],
        (Kind::Data, _) => tau[j] > tau[i],
        (_, Kind::Data) => tau[j] < tau[i],
        (_, _) => tau[j] >= tau[i],
    };
    lay(prefix, drafted, &[Kind::Data, Kind::Mask], aligned, sees)
}

/// As [`paired`], and a third row for each slot that was not known, a mask that never learns of a draft and stands for the slot where a
/// row has to see it masked.
pub fn no_leak(prefix: &Prefix<'_>, drafted: &Drafted) -> Laid {
    let tau = &drafted.tau;
    let sees = |(kind, i): (Kind, usize), (other, j): (Kind, usize)| match (kind, other) {
        (Kind::Data, Kind::Data) => tau[j] <= tau[i],
        (Kind::Data, Kind::Blind) => tau[j] > tau[i],
        (Kind::Mask, Kind::Data) => tau[j] < tau[i],
        (Kind::Mask, Kind::Mask) => tau[j] == tau[i],
        (Kind::Mask, Kind::Blind) => tau[j] > tau[i],
        (Kind::Blind, Kind::Data) => tau[j] == KNOWN,
        (Kind::Blind, Kind::Blind) => tau[j] > KNOWN,
        (_, _) => false,
    };
    lay(prefix, drafted, &[Kind::Data, Kind::Mask, Kind::Blind], true, sees)
}

/// Rows of these kinds for the slots that need them: data where there is a token, masks where nothing was known.
fn lay(prefix: &Prefix<'_>, drafted: &Drafted, kinds: &[Kind], aligned: bool, sees: impl Fn((Kind, usize), (Kind, usize)) -> bool) -> Laid {
    let (before, length) = (prefix.tokens.len(), drafted.tokens.len());
    let fed = |kind: Kind, i: usize| if kind == Kind::Data { drafted.tau[i] != UNDRAFTED } else { drafted.tau[i] != KNOWN };
    let rows: Vec<(Kind, usize)> =
        kinds.iter().flat_map(|&kind| (0..length).filter(move |&i| fed(kind, i)).map(move |i| (kind, i))).collect();
    let visible = |row: usize, key: usize| match (row.checked_sub(before), key.checked_sub(prefix.end())) {
        (None, _) => prefix.sees(row, key),
        (Some(_), None) => true,
        (Some(row), Some(key)) => sees(rows[row], rows[key]),
    };
    let position = |&(kind, i): &(Kind, usize)| drafted.start + i + if aligned || kind == Kind::Data { 0 } else { length };
    let token = |&(kind, i): &(Kind, usize)| if kind == Kind::Data { drafted.tokens[i] } else { drafted.mask_token_id };
    let read: Vec<usize> = (0..rows.len()).filter(|&row| rows[row].0 == Kind::Mask).collect();
    let n = before + rows.len();
    let pass = Pass {
        tokens: prefix.tokens.iter().copied().chain(rows.iter().map(token)).collect(),
        positions: (prefix.base..prefix.end()).chain(rows.iter().map(position)).map(|p| p as u32).collect(),
        base: prefix.base,
        sees: Sees::Mask(Bits::from_fn(n, prefix.base + n, visible)),
        keep: Keep::Append((0..before as u32).collect()),
        read: read.iter().map(|&row| (before + row) as u32).collect(),
        tap: None,
    };
    Laid { pass, read: read.into_iter().map(|row| (0, drafted.start + rows[row].1)).collect(), kept: prefix.end() }
}

/// The block before each step of the draft, and at the end behind the last step: the copies for [`states`], and
/// where [`states`] reads the row by which each step is judged (step t at copy t - 1).
pub fn copies_of(drafted: &Drafted) -> Vec<Copy> {
    let steps = drafted.tau.iter().filter(|&&t| t != UNDRAFTED).max().copied().unwrap_or(KNOWN);
    let token =
        |t: u32, i: usize| if drafted.tau[i] <= t && drafted.tau[i] != UNDRAFTED { drafted.tokens[i] } else { drafted.mask_token_id };
    let copy = |t: u32| Copy { start: drafted.start, tokens: (0..drafted.tokens.len()).map(|i| token(t, i)).collect() };
    (0..=steps).map(copy).collect()
}

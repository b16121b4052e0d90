//! Which weights are fetched while others are multiplied.

use crate::simd::{Simd, Words};

/// How far ahead the weights of one row tile are fetched, in lines. A guess that measures well; past the end of the weight it is harmless.
const LINES: usize = 24;

/// Lines that come from memory and are needed soon.
///
/// Where one row tile is all there is, they are those a little ahead of the ones at work. Where more tiles follow, the lines at work come from
/// a cache in all tiles but the first, and memory would be idle meanwhile: so every tile fetches its share of what is next after all of them.
#[derive(Clone, Copy)]
pub(super) struct Ahead<const P: usize> {
    from: [*const Words; P],
    /// Of so many lines
    every: usize,
    /// this one is fetched.
    turn: usize,
}

impl<const P: usize> Ahead<P> {
    /// For tile `turn` of `tiles` over the lines `now`, after which come `next`.
    #[inline(always)]
    pub(super) fn new(now: [&[Words]; P], next: [&[Words]; P], turn: usize, tiles: usize) -> Self {
        let mut from = [std::ptr::null(); P];
        for p in 0..P {
            from[p] = if tiles == 1 { now[p].as_ptr().wrapping_add(LINES) } else { next[p].as_ptr() };
        }
        Ahead { from, every: tiles, turn }
    }

    /// To be called once for each line in turn; `until` counts, and begins as [`Ahead::start`] says.
    #[inline(always)]
    pub(super) fn fetch<S: Simd>(&self, s: S, line: usize, until: &mut usize) {
        if *until == 0 {
            *until = self.every;
            for p in 0..P {
                s.prefetch(self.from[p].wrapping_add(line).cast());
            }
        }
        *until -= 1;
    }

    /// What the counter begins with.
    #[inline(always)]
    pub(super) fn start(&self) -> usize {
        self.turn
    }
}

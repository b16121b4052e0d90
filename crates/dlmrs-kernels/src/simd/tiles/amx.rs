//! Tiles by AMX. Its instructions have no intrinsics in stable Rust, so they are written out.
//!
//! No tile lives from one `asm!` block to the next: each block loads what it needs and stores what it has. Only the sizes of the tiles do,
//! and they are of no interest to compiled code, which has no such instructions.

use std::arch::asm;
use std::marker::PhantomData;

use super::{Fetch, Shape, TILE_ROWS, Tiles, TilesSet};
use crate::simd::{Line, Words};

/// Exists only where the CPU has AMX and the system allows it.
#[derive(Clone, Copy)]
pub(crate) struct Amx(());

impl Amx {
    /// # Safety
    /// The CPU has AMX, and the system lets this process use it.
    #[inline(always)]
    pub(in crate::simd) unsafe fn new() -> Amx {
        Amx(())
    }
}

/// The sizes of this thread's tiles, as `ldtilecfg` reads them: 0 to 3 are sums (tile of x by panel), 4 and 5 are x, 6 and 7 weights.
#[repr(C, align(64))]
struct Sizes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

const _: () = assert!(size_of::<Sizes>() == 64);

/// Bytes from one row of sums or weights to the next.
const LINE: usize = size_of::<Words>();

impl Tiles for Amx {
    type Set = Set;

    #[inline(always)]
    fn set(self, shape: Shape) -> Set {
        let Shape { rows: [first, second], words } = shape;
        assert!((1..=TILE_ROWS).contains(&first) && second <= TILE_ROWS && (words == 8 || words == 16), "{shape:?}");
        let mut sizes = Sizes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let mut size = |tile: usize, rows: usize, words: usize| {
            // A tile without rows has no bytes either, or the instruction fails.
            (sizes.rows[tile], sizes.row_bytes[tile]) = (rows as u8, if rows == 0 { 0 } else { 4 * words as u16 });
        };
        for (tile, rows, words) in [(0, first, 16), (1, first, 16), (2, second, 16), (3, second, 16)] {
            size(tile, rows, words);
        }
        for (tile, rows, words) in [(4, first, words), (5, second, words), (6, words, 16), (7, words, 16)] {
            size(tile, rows, words);
        }
        // SAFETY: `self` is the proof that AMX is there, and the sizes are ones that it has.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const sizes, options(nostack, readonly)) };
        Set { shape, on_this_thread: PhantomData }
    }
}

/// This thread's tiles, set to sizes.
pub(crate) struct Set {
    shape: Shape,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for Set {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a `Set` exists only where AMX is there. A thread without tiles is cheaper to switch from.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

impl Set {
    /// Fails unless there are R tiles of x, and all slices are the same whole number of steps; that number.
    #[inline(always)]
    fn steps<const R: usize, const P: usize>(&self, x: [&[Words]; R], w: [&[Words]; P]) -> usize {
        let (len, words) = (x[0].len(), self.shape.words);
        assert!(R == 1 || R == 2 && self.shape.rows[1] > 0, "{R} tiles of x");
        assert!(P == 1 || P == 2, "{P} panels");
        assert!(len.is_multiple_of(words) && x.iter().chain(&w).all(|lines| lines.len() == len), "lengths of steps of {words} words");
        len / words
    }
}

/// One block over all steps: `first` before them, `each` in each of them with the pointers moved on afterwards, `last` after them. `line`,
/// `steps`, `x0`, `x1`, `w0`, `w1` and `sums` are there; `step`, the bytes of one, is among the further operands.
macro_rules! over_steps {
    ($x:ident, $w:ident, $sums:ident, $steps:ident, [$($first:literal),*] [$($each:literal),*] [$($last:literal),*] $($operands:tt)*) => {
        asm!(
            $($first,)*
            "2:",
            $($each,)*
            "add {x0}, {step}",
            "add {x1}, {step}",
            "add {w0}, {step}",
            "add {w1}, {step}",
            "dec {steps}",
            "jnz 2b",
            $($last,)*
            line = in(reg) LINE,
            steps = inout(reg) $steps => _,
            x0 = inout(reg) $x[0].as_ptr() => _,
            x1 = inout(reg) $x[R - 1].as_ptr() => _,
            w0 = inout(reg) $w[0].as_ptr() => _,
            w1 = inout(reg) $w[P - 1].as_ptr() => _,
            sums = in(reg) $sums.as_mut_ptr(),
            $($operands)*
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        )
    };
}

impl TilesSet for Set {
    #[inline(always)]
    fn add_pairs<const R: usize, const P: usize>(
        &self,
        x: [&[Words]; R],
        w: [&[Words]; P],
        sums: &mut [[[Line; TILE_ROWS]; P]; R],
        fetch: Fetch<P>,
    ) {
        let steps = self.steps(x, w);
        assert!(self.shape.words == 16 && fetch.lines > 0, "{} words and {} lines", self.shape.words, fetch.lines);
        if steps == 0 {
            return;
        }
        macro_rules! add {
            ($first:tt [$($each:literal),*] $last:tt) => {
                over_steps!(
                    x, w, sums, steps, $first
                    [
                        $($each,)*
                        "mov {left}, {lines}",
                        "3:",
                        "prefetcht0 [{f0}]",
                        "prefetcht0 [{f1}]",
                        "add {f0}, {line}",
                        "add {f1}, {line}",
                        "dec {left}",
                        "jnz 3b"
                    ]
                    $last
                    step = const 16 * LINE,
                    lines = in(reg) fetch.lines,
                    left = out(reg) _,
                    f0 = inout(reg) fetch.from[0] => _,
                    f1 = inout(reg) fetch.from[P - 1] => _,
                )
            };
        }
        // SAFETY: this thread's tiles are set to 16 words a step. `steps` says that x and w hold as many rows and lines as are read, 1024 bytes a
        // step each; `sums` holds R times P tiles of 1024 bytes. A prefetch may have any address.
        unsafe {
            match (R, P) {
                (1, 1) => add!(
                    ["tileloadd tmm0, [{sums} + {line}*1]"]
                    ["tileloadd tmm4, [{x0} + {line}*1]", "tileloadd tmm6, [{w0} + {line}*1]", "tdpbf16ps tmm0, tmm4, tmm6"]
                    ["tilestored [{sums} + {line}*1], tmm0"]
                ),
                (1, _) => add!(
                    ["tileloadd tmm0, [{sums} + {line}*1]", "tileloadd tmm1, [{sums} + {line}*1 + 1024]"]
                    [
                        "tileloadd tmm4, [{x0} + {line}*1]",
                        "tileloadd tmm6, [{w0} + {line}*1]",
                        "tdpbf16ps tmm0, tmm4, tmm6",
                        "tileloadd tmm7, [{w1} + {line}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm7"
                    ]
                    ["tilestored [{sums} + {line}*1], tmm0", "tilestored [{sums} + {line}*1 + 1024], tmm1"]
                ),
                (_, 1) => add!(
                    ["tileloadd tmm0, [{sums} + {line}*1]", "tileloadd tmm2, [{sums} + {line}*1 + 1024]"]
                    [
                        "tileloadd tmm6, [{w0} + {line}*1]",
                        "tileloadd tmm4, [{x0} + {line}*1]",
                        "tdpbf16ps tmm0, tmm4, tmm6",
                        "tileloadd tmm5, [{x1} + {line}*1]",
                        "tdpbf16ps tmm2, tmm5, tmm6"
                    ]
                    ["tilestored [{sums} + {line}*1], tmm0", "tilestored [{sums} + {line}*1 + 1024], tmm2"]
                ),
                _ => add!(
                    [
                        "tileloadd tmm0, [{sums} + {line}*1]",
                        "tileloadd tmm1, [{sums} + {line}*1 + 1024]",
                        "tileloadd tmm2, [{sums} + {line}*1 + 2048]",
                        "tileloadd tmm3, [{sums} + {line}*1 + 3072]"
                    ]
                    [
                        "tileloadd tmm4, [{x0} + {line}*1]",
                        "tileloadd tmm6, [{w0} + {line}*1]",
                        "tdpbf16ps tmm0, tmm4, tmm6",
                        "tileloadd tmm7, [{w1} + {line}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm7",
                        "tileloadd tmm5, [{x1} + {line}*1]",
                        "tdpbf16ps tmm2, tmm5, tmm6",
                        "tdpbf16ps tmm3, tmm5, tmm7"
                    ]
                    [
                        "tilestored [{sums} + {line}*1], tmm0",
                        "tilestored [{sums} + {line}*1 + 1024], tmm1",
                        "tilestored [{sums} + {line}*1 + 2048], tmm2",
                        "tilestored [{sums} + {line}*1 + 3072], tmm3"
                    ]
                ),
            }
        }
    }

    #[inline(always)]
    fn dot_bytes<const R: usize, const P: usize>(&self, x: [&[Words]; R], w: [&[Words]; P], sums: &mut [[[Words; TILE_ROWS]; P]; R]) {
        let steps = self.steps(x, w);
        assert!(steps > 0, "no steps");
        macro_rules! dot {
            ($first:tt $each:tt $last:tt) => {
                over_steps!(
                    x, w, sums, steps, $first $each $last
                    row = in(reg) 4 * self.shape.words,
                    step = in(reg) self.shape.words * LINE,
                )
            };
        }
        // SAFETY: this thread's tiles are set to `words` words a step. `steps` says that x and w hold as many rows and lines as are read,
        // 64 bytes a word and step each; `sums` holds R times P tiles of 1024 bytes.
        unsafe {
            match (R, P) {
                (1, 1) => dot!(
                    ["tilezero tmm0"]
                    ["tileloadd tmm4, [{x0} + {row}*1]", "tileloadd tmm6, [{w0} + {line}*1]", "tdpbssd tmm0, tmm4, tmm6"]
                    ["tilestored [{sums} + {line}*1], tmm0"]
                ),
                (1, _) => dot!(
                    ["tilezero tmm0", "tilezero tmm1"]
                    [
                        "tileloadd tmm4, [{x0} + {row}*1]",
                        "tileloadd tmm6, [{w0} + {line}*1]",
                        "tdpbssd tmm0, tmm4, tmm6",
                        "tileloadd tmm7, [{w1} + {line}*1]",
                        "tdpbssd tmm1, tmm4, tmm7"
                    ]
                    ["tilestored [{sums} + {line}*1], tmm0", "tilestored [{sums} + {line}*1 + 1024], tmm1"]
                ),
                (_, 1) => dot!(
                    ["tilezero tmm0", "tilezero tmm2"]
                    [
                        "tileloadd tmm6, [{w0} + {line}*1]",
                        "tileloadd tmm4, [{x0} + {row}*1]",
                        "tdpbssd tmm0, tmm4, tmm6",
                        "tileloadd tmm5, [{x1} + {row}*1]",
                        "tdpbssd tmm2, tmm5, tmm6"
                    ]
                    ["tilestored [{sums} + {line}*1], tmm0", "tilestored [{sums} + {line}*1 + 1024], tmm2"]
                ),
                _ => dot!(
                    ["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3"]
                    [
                        "tileloadd tmm4, [{x0} + {row}*1]",
                        "tileloadd tmm6, [{w0} + {line}*1]",
                        "tdpbssd tmm0, tmm4, tmm6",
                        "tileloadd tmm7, [{w1} + {line}*1]",
                        "tdpbssd tmm1, tmm4, tmm7",
                        "tileloadd tmm5, [{x1} + {row}*1]",
                        "tdpbssd tmm2, tmm5, tmm6",
                        "tdpbssd tmm3, tmm5, tmm7"
                    ]
                    [
                        "tilestored [{sums} + {line}*1], tmm0",
                        "tilestored [{sums} + {line}*1 + 1024], tmm1",
                        "tilestored [{sums} + {line}*1 + 2048], tmm2",
                        "tilestored [{sums} + {line}*1 + 3072], tmm3"
                    ]
                ),
            }
        }
    }
}

//! How a product is cut into tasks for the threads. No cut changes the order of a sum.

use std::ops::Range;

use crate::Team;
use crate::simd::LANES;

/// Below this many multiplications the other threads are not woken.
pub(super) const SMALL: usize = 1 << 16;

/// Calls `f(rows, panels)` for blocks of at most `block` rows by chunks of panels, all of them together the whole product.
/// `k` inputs only say how much work there is.
pub(super) fn share(team: &Team, rows: usize, block: usize, panels: Range<usize>, k: usize, f: impl Fn(Range<usize>, Range<usize>) + Sync) {
    let blocks = rows.div_ceil(block);
    let (count, small) = (panels.len(), rows * k * panels.len() * LANES < SMALL);
    let chunk = if team.threads() == 1 || small {
        count
    } else {
        // Several chunks a thread, so that a thread that is late costs little; whole register tiles where there are enough.
        let even = count.div_ceil(4 * team.threads());
        if even > 4 { even.next_multiple_of(4) } else { even }
    };
    let chunks = count.div_ceil(chunk);
    let work = |task: usize| {
        // Neighbours share a chunk of weights.
        let (from, row) = (panels.start + task / blocks * chunk, task % blocks * block);
        f(row..(row + block).min(rows), from..(from + chunk).min(panels.end));
    };
    if small {
        (0..chunks * blocks).for_each(work);
    } else {
        team.run(chunks * blocks, work);
    }
}

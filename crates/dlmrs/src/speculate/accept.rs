//! Acceptance of drafted tokens, one slot at a time, as pure functions.

use crate::decode::{How, Revealed};
use crate::error::Result;
use crate::sample::RowStat;

/// What the target says of a drafted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Accepted,
    /// This one takes its place.
    Replaced(u32),
}

impl Verdict {
    /// The slot with what it holds now; `stat` is what the target's row said.
    pub(crate) fn reveal(self, position: usize, draft: u32, stat: RowStat) -> Revealed {
        let (token, how) = match self {
            Self::Accepted => (draft, How::Accepted),
            Self::Replaced(token) => (token, How::Corrected),
        };
        Revealed { position, stat: RowStat { token, ..stat }, how }
    }
}

/// Judges drafts in the order of their steps, up to the first step with a rejection; drafts of one step are judged each on its own.
/// `judge` gives None where the target has said nothing of a draft: then nothing behind it is judged either.
pub(crate) fn up_to_rejection<D>(
    drafts: impl IntoIterator<Item = D>,
    step: impl Fn(&D) -> u32,
    mut judge: impl FnMut(&D) -> Result<Option<Revealed>>,
) -> Result<Vec<Revealed>> {
    let (mut revealed, mut rejected) = (Vec::new(), None);
    for draft in drafts {
        if rejected.is_some_and(|rejected| rejected != step(&draft)) {
            break;
        }
        let Some(slot) = judge(&draft)? else { break };
        if slot.how == How::Corrected {
            rejected = Some(step(&draft));
        }
        revealed.push(slot);
    }
    Ok(revealed)
}

/// Whether the target would have put the same token there.
pub fn greedy(draft: u32, target: u32) -> Verdict {
    if draft == target { Verdict::Accepted } else { Verdict::Replaced(target) }
}

/// Speculative sampling (Leviathan et al. 2023, algorithm 1): `draft`, which was drawn from `q`, stays with probability min(1, p/q); otherwise
/// the token is drawn from the positive part of p - q. What comes out is distributed as `p`.
///
/// `p` and `q` are `[V]`, each of sum 1; `accept` and `residual` are uniform numbers in (0, 1).
pub fn rejection(draft: u32, p: &[f32], q: &[f32], accept: f64, residual: f64) -> Verdict {
    let at = |row: &[f32]| f64::from(row.get(draft as usize).copied().unwrap_or(0.0));
    let (p_draft, q_draft) = (at(p), at(q));
    // Not a quotient: q may be 0 where it was rounded, and a token that p cannot draw is never kept.
    if p_draft > 0.0 && accept * q_draft < p_draft {
        return Verdict::Accepted;
    }
    let positive = |(p, q): (&f32, &f32)| (f64::from(*p) - f64::from(*q)).max(0.0);
    let rest: Vec<f64> = p.iter().zip(q).map(positive).collect();
    let plain = || p.iter().map(|&p| f64::from(p));
    // Without a residual p and q are the same up to rounding, and then p itself is right.
    let token = draw(rest.iter().copied(), residual).or_else(|| draw(plain(), residual));
    token.map_or(Verdict::Accepted, Verdict::Replaced)
}

/// The index that a uniform number in (0, 1) picks from weights, which need not add up to 1; None if there is no weight.
pub fn draw(weights: impl Iterator<Item = f64> + Clone, uniform: f64) -> Option<u32> {
    let total: f64 = weights.clone().sum();
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let wanted = uniform * total;
    let (mut sum, mut last) = (0.0, None);
    for (i, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
        sum += weight;
        last = Some(i as u32);
        if sum > wanted {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_masses() {
        let p = [0.5, 0.5, 0.0];
        assert_eq!(rejection(2, &p, &[0.0, 0.0, 1.0], 1e-9, 0.3), Verdict::Replaced(0), "p cannot draw it");
        assert_eq!(rejection(2, &p, &[0.0, 0.0, 1.0], 1e-9, 0.7), Verdict::Replaced(1));
        assert_eq!(rejection(0, &p, &[0.0, 1.0, 0.0], 0.999, 0.1), Verdict::Accepted, "q was rounded to 0");
        assert_eq!(rejection(2, &[1.0, 0.0, 0.0], &[1.0, 0.0, 0.0], 0.5, 0.5), Verdict::Replaced(0), "no residual: from p");
        assert_eq!(rejection(9, &p, &p, 0.5, 0.7), Verdict::Replaced(1), "an id that no row has");
        assert_eq!(draw([0.0, 0.0].into_iter(), 0.5), None);
        assert_eq!(draw([0.0, 1.0, 0.0].into_iter(), 1.0 - 1e-12), Some(1), "never an index without weight");
    }

    #[test]
    fn equal_rows_accept_everything() {
        let p = [0.1, 0.2, 0.7];
        assert!((0..3).all(|t| rejection(t, &p, &p, 0.999_999, 0.5) == Verdict::Accepted));
    }

    /// The law of what comes out is p, summed over a fine grid of uniform numbers.
    #[test]
    fn the_law_is_the_targets() {
        let (p, q) = ([0.5, 0.2, 0.3, 0.0], [0.1, 0.6, 0.2, 0.1]);
        let n = 400;
        let mut mass = [0.0; 4];
        for (draft, &weight) in q.iter().enumerate() {
            for a in 0..n {
                for r in 0..n {
                    let at = |i: i32| (f64::from(i) + 0.5) / f64::from(n);
                    let token = match rejection(draft as u32, &p, &q, at(a), at(r)) {
                        Verdict::Accepted => draft,
                        Verdict::Replaced(token) => token as usize,
                    };
                    mass[token] += f64::from(weight) / f64::from(n * n);
                }
            }
        }
        assert!(mass.iter().zip(p).all(|(m, p)| (m - f64::from(p)).abs() < 3e-3), "{mass:?}");
    }
}

//! How each slot of a request came to be decided.

use crate::decode::{How, Revealed};

/// A slot as it was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// Its place in the canvas, prompt included.
    pub position: usize,
    /// What it holds.
    pub token: u32,
    /// The pass of the request that decided it, from 1.
    pub pass: usize,
    /// The token's probability, as the method's rule took it.
    pub probability: f32,
    /// Entropy of its row, in nats.
    pub entropy: f32,
    /// Probability of the row's first token minus that of its second.
    pub margin: f32,
    /// By which rule.
    pub how: How,
}

/// How a request came to its tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Every decided slot by its place, the unused ones included; of one that was decided more than once, the last time.
    pub slots: Vec<Traced>,
    /// Of each block of a canvas that was begun, the places behind it that its passes fed.
    pub kept_suffix: Vec<Vec<u32>>,
}

impl Trace {
    pub(super) fn add(&mut self, pass: usize, slots: &[Revealed]) {
        let traced = |slot: &Revealed| Traced {
            position: slot.position,
            token: slot.stat.token,
            pass,
            probability: slot.stat.probability,
            entropy: slot.stat.entropy,
            margin: slot.stat.margin,
            how: slot.how,
        };
        self.slots.extend(slots.iter().map(traced));
    }

    /// In order, with what was kept.
    pub(super) fn finish(self, kept_suffix: &[Vec<u32>]) -> Self {
        let mut slots = self.slots;
        slots.reverse();
        slots.sort_by_key(|slot| slot.position);
        slots.dedup_by_key(|slot| slot.position);
        Self { slots, kept_suffix: kept_suffix.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::RowStat;

    fn revealed(position: usize, token: u32) -> Revealed {
        Revealed { position, stat: RowStat { token, probability: 0.5, entropy: 1.0, margin: 0.1 }, how: How::Ranked }
    }

    #[test]
    fn by_place_and_the_last_time_counts() {
        let mut trace = Trace::default();
        trace.add(1, &[revealed(7, 1), revealed(4, 2)]);
        trace.add(2, &[revealed(5, 3), revealed(7, 4)]);
        let slots: Vec<_> = trace.finish(&[]).slots.iter().map(|slot| (slot.position, slot.token, slot.pass)).collect();
        assert_eq!(slots, [(4, 2, 1), (5, 3, 2), (7, 4, 2)]);
    }
}

//! How each slot of a request came to be decided.

use std::collections::HashMap;

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
    /// Every decided slot by its place, the unused ones included; of one that was edited, the last time.
    pub slots: Vec<Traced>,
    /// What edited slots held before, in the order in which it was decided. Empty without editing.
    pub replaced: Vec<Traced>,
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
        let last: HashMap<usize, usize> = self.slots.iter().enumerate().map(|(i, slot)| (slot.position, i)).collect();
        let (mut slots, mut replaced) = (Vec::with_capacity(last.len()), Vec::new());
        for (i, slot) in self.slots.into_iter().enumerate() {
            let to = if last.get(&slot.position) == Some(&i) { &mut slots } else { &mut replaced };
            to.push(slot);
        }
        slots.sort_by_key(|slot| slot.position);
        Self { slots, replaced, kept_suffix: kept_suffix.to_vec() }
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
        let Trace { slots, replaced, .. } = trace.finish(&[]);
        let shown = |slots: &[Traced]| slots.iter().map(|slot| (slot.position, slot.token, slot.pass)).collect::<Vec<_>>();
        assert_eq!(shown(&slots), [(4, 2, 1), (5, 3, 2), (7, 4, 2)]);
        assert_eq!(shown(&replaced), [(7, 1, 1)]);
    }
}

//! Counter-based random numbers: a function of (seed, purpose, step, position, index) and of nothing else, so that neither the batch
//! nor the order of work can change a result. The generator is ChaCha with 8 rounds: the seed is its key, (purpose, step, position)
//! its stream and the index its place in the stream.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a number is drawn for. Draws for different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Which token a slot gets (Gumbel noise, one number for each token). Fixed by seed and position: a slot looked at in several
    /// steps meets the same noise.
    Token = 1,
    /// Which slots LLaDA's `random` strategy reveals.
    Remask = 2,
    /// Whether Dream's `origin` schedule reveals a slot.
    Origin = 3,
    /// The draw without replacement of Dream's `alg_temp`.
    AlgTemp = 4,
    /// Whether a mask behind a block is kept (suffix dropout); the step is the number of the block.
    Suffix = 5,
    /// Drafted tokens for rejection sampling, drawn anew each round.
    Draft = 6,
    /// Whether rejection sampling keeps a drafted token.
    Accept = 7,
    /// What rejection sampling puts in place of one.
    Residual = 8,
}

/// The largest value that [`gumbel`] can take: numbers are drawn on a grid of 2^32 points.
pub const GUMBEL_MAX: f64 = 22.9;

/// Numbers for one (seed, purpose, step, position). Steps beyond 2^24 and positions beyond 2^32 would repeat.
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// `step` is 0 where the noise does not depend on it.
    pub fn new(seed: u64, purpose: Purpose, step: u32, position: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream((purpose as u64) << 56 | u64::from(step & 0xff_ffff) << 32 | u64::from(position));
        Self(rng)
    }

    /// Goes to number `index` of the stream.
    pub fn seek(&mut self, index: u32) {
        self.0.set_word_pos(u128::from(index));
    }

    /// The next number, in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }
}

/// Standard Gumbel noise from a uniform number: argmax(z + gumbel) is a draw from softmax(z).
pub fn gumbel(uniform: f64) -> f64 {
    -(-uniform.ln()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_the_key_alone() {
        let mut a = Stream::new(7, Purpose::Token, 0, 3);
        let first: Vec<f64> = (0..100).map(|_| a.uniform()).collect();
        let mut b = Stream::new(7, Purpose::Token, 0, 3);
        b.seek(40);
        assert_eq!(b.uniform(), first[40]);
        for other in [
            Stream::new(8, Purpose::Token, 0, 3),
            Stream::new(7, Purpose::Remask, 0, 3),
            Stream::new(7, Purpose::Token, 1, 3),
            Stream::new(7, Purpose::Token, 0, 4),
        ] {
            let mut other = other;
            assert_ne!(other.uniform(), first[0]);
        }
    }

    #[test]
    fn gumbel_is_bounded_and_has_the_right_mean() {
        assert!(gumbel((f64::from(u32::MAX) + 0.5) / 4_294_967_296.0) <= GUMBEL_MAX);
        let mut s = Stream::new(1, Purpose::Token, 0, 0);
        let mean = (0..20_000).map(|_| gumbel(s.uniform())).sum::<f64>() / 20_000.0;
        assert!((mean - 0.5772).abs() < 0.04, "{mean}");
    }
}

//! How many slots a step reveals.

/// Slots to reveal at each of `steps` steps when `masks` are to be decided: `masks / steps` each, the remainder first, one by one.
/// Used by SDAR for a block of B slots and by LLaDA for the masks of a block (SDAR's and LLaDA's generation scripts).
pub fn quotas(masks: usize, steps: usize) -> Vec<usize> {
    let steps = steps.max(1);
    (0..steps).map(|step| masks / steps + usize::from(step < masks % steps)).collect()
}

/// Steps for each block of a canvas, in proportion to its length, at least one each; what is left over goes to the first blocks.
/// Where all blocks are equal and their number divides `steps` this is the references' `steps / blocks`.
pub fn steps_by_block(lengths: &[usize], steps: usize) -> Vec<usize> {
    let total: usize = lengths.iter().sum();
    if total == 0 {
        return vec![0; lengths.len()];
    }
    let mut table: Vec<usize> = lengths.iter().map(|n| steps * n / total).collect();
    let left = steps - table.iter().sum::<usize>();
    table.iter_mut().take(left).for_each(|steps| *steps += 1);
    table.iter_mut().for_each(|steps| *steps = (*steps).max(1));
    table
}

/// Dream's time line: t falls in a straight line from 1 to `eps` in `steps` steps, and step i reveals the share 1 - `t[i+1]` / `t[i]` of the
/// masks that are left, rounded down; the last step reveals all. In f32, as the reference computes it (Dream's generation code).
pub fn dream_share(step: usize, steps: usize, eps: f32) -> f32 {
    if step + 1 >= steps {
        return 1.0;
    }
    let t = |i: usize| timeline(i, steps, eps);
    1.0 - t(step + 1) / t(step)
}

/// Like torch.linspace(1, eps, steps + 1) in f32: from both ends towards the middle.
fn timeline(i: usize, steps: usize, eps: f32) -> f32 {
    let stride = (eps - 1.0) / steps as f32;
    if i < steps.div_ceil(2) { 1.0 + stride * i as f32 } else { eps - stride * (steps - i) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn remainder_first() {
        assert_eq!(quotas(8, 3), [3, 3, 2]);
        assert_eq!(quotas(4, 6), [1, 1, 1, 1, 0, 0]);
        assert_eq!(steps_by_block(&[32, 32, 32], 96), [32, 32, 32]);
        assert_eq!(steps_by_block(&[8, 8, 3], 10), [5, 4, 1]);
    }

    proptest! {
        #[test]
        fn a_schedule_reveals_every_slot_once(masks in 0usize..200, steps in 1usize..300) {
            let q = quotas(masks, steps);
            prop_assert_eq!(q.iter().sum::<usize>(), masks);
            prop_assert!(q.windows(2).all(|w| w[0] >= w[1]) && q.len() == steps);
        }

        #[test]
        fn steps_are_shared_out(lengths in proptest::collection::vec(1usize..64, 1..12), steps in 0usize..500) {
            let table = steps_by_block(&lengths, steps);
            prop_assert!(table.iter().all(|&s| s >= 1));
            prop_assert!(steps < lengths.len() || table.iter().sum::<usize>() <= steps + lengths.len());
            if steps >= lengths.iter().sum() {
                prop_assert_eq!(table.iter().sum::<usize>(), steps);
            }
        }

        #[test]
        fn dream_reveals_everything(masks in 1usize..100, steps in 1usize..100) {
            let mut left = masks;
            for step in 0..steps {
                left -= ((left as f32 * dream_share(step, steps, 1e-3)) as usize).min(left);
            }
            prop_assert_eq!(left, 0);
        }
    }
}

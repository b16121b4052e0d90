//! An even schedule: after step i of n the share i / n of the masks is decided (RND1's sampler).

/// Slots to reveal at each of `steps` steps when `masks` are to be decided: behind step i stay `masks * (steps - i) / steps`, rounded down, so
/// what does not divide is decided early. Evenly spread where [`super::schedule::quotas`] puts the remainder first.
pub fn even_quotas(masks: usize, steps: usize) -> Vec<usize> {
    let steps = steps.max(1);
    let left = |step: usize| masks * (steps - step) / steps;
    (0..steps).map(|step| left(step) - left(step + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spread_out() {
        assert_eq!(even_quotas(8, 4), [2, 2, 2, 2]);
        assert_eq!(even_quotas(7, 4), [2, 2, 2, 1]); // 7 -> 5 -> 3 -> 1 -> 0
        assert_eq!(even_quotas(3, 6), [1, 0, 1, 0, 1, 0]);
        assert_eq!(even_quotas(5, 1), [5]);
    }

    proptest! {
        #[test]
        fn every_slot_once_and_never_two_more_than_another_step(masks in 0usize..300, steps in 1usize..300) {
            let quotas = even_quotas(masks, steps);
            prop_assert_eq!(quotas.iter().sum::<usize>(), masks);
            prop_assert!(quotas.iter().all(|&n| n == masks / steps || n == masks.div_ceil(steps)));
        }
    }
}

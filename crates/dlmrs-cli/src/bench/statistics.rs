//! Medians, percentiles and ratios.

/// A median with what it lies between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

/// A quotient; 0 where there is nothing to divide by.
pub(super) fn per(amount: f64, by: f64) -> f64 {
    if by > 0.0 { amount / by } else { 0.0 }
}

/// The middle value, or between the two in the middle. None without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// The smallest value that so many of a hundred do not exceed. None without values.
pub(super) fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let rank = (values.len() * percent).div_ceil(100).max(1);
    sorted(values).get(rank - 1).copied()
}

/// One series over another, pair by pair. None without pairs, or where something would be divided by zero.
pub(super) fn ratios(own: &[f64], base: &[f64]) -> Option<Spread> {
    let quotients: Vec<f64> = own.iter().zip(base).map(|(own, base)| own / base).collect();
    if !quotients.iter().all(|quotient| quotient.is_finite()) {
        return None;
    }
    let sorted = sorted(&quotients);
    Some(Spread { median: median(&quotients)?, lowest: *sorted.first()?, highest: *sorted.last()? })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 95), Some(95.0));
        assert_eq!(percentile(&[5.0, 7.0], 50), Some(5.0));
        assert_eq!(percentile(&[5.0, 7.0], 95), Some(7.0));
        assert_eq!(percentile(&[5.0, 7.0], 0), Some(5.0));
        assert_eq!(percentile(&[], 95), None);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // The ratio of the medians would be 1.
        let spread = Spread { median: 2.0, lowest: 0.25, highest: 2.0 };
        assert_eq!(ratios(&[2.0, 8.0, 4.0], &[1.0, 4.0, 16.0]), Some(spread));
        assert_eq!(ratios(&[3.0, 7.0], &[3.0, 7.0]), Some(Spread { median: 1.0, lowest: 1.0, highest: 1.0 }));
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!(per(3.0, 0.0), 0.0);
        assert_eq!(per(3.0, 2.0), 1.5);
        assert_eq!(ratios(&[1.0, 2.0], &[1.0, 0.0]), None);
        assert_eq!(ratios(&[0.0], &[0.0]), None);
        assert_eq!(ratios(&[], &[]), None);
    }
}

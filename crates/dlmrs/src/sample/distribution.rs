//! The whole distribution from which a row's token is drawn, for rejection sampling.

use dlmrs_kernels::Isa;

use super::row::{NoToken, RowState, keep};
use super::rule::RowRule;

/// Probabilities `[V]` of a row of logits `[V]` under a rule: after edits, temperature and filters, the mask and what is not drawable left
/// out. For a greedy rule all mass is on the argmax, the lowest id among equals.
pub(crate) fn distribution(rule: &RowRule, mut row: Vec<f32>) -> Result<Vec<f32>, NoToken> {
    let state = RowState::new(rule, Isa::detect());
    state.edit(0, &mut row);
    if row.iter().any(|l| l.is_nan() || *l == f32::INFINITY) {
        return Err(NoToken::NotFinite);
    }
    state.hide(0, &mut row);
    let mut best: Option<usize> = None;
    for (i, &logit) in row.iter().enumerate() {
        if logit > best.map_or(f32::NEG_INFINITY, |b| row[b]) {
            best = Some(i);
        }
    }
    let Some(best) = best else { return Err(NoToken::AllBanned) };
    let mut probabilities = vec![0.0; row.len()];
    if rule.is_greedy() {
        probabilities[best] = 1.0;
        return Ok(probabilities);
    }
    row.iter_mut().for_each(|l| *l /= rule.temperature);
    let kept = keep(&row, rule);
    let weight = |&t: &u32| (f64::from(row[t as usize]) - f64::from(row[best])).exp();
    let total: f64 = kept.iter().map(weight).sum();
    kept.iter().for_each(|t| probabilities[*t as usize] = (weight(t) / total) as f32);
    Ok(probabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_from() {
        let logits: Vec<f32> = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].iter().map(|p| p.ln()).collect();
        let rule = |temperature, top_k, top_p| RowRule { temperature, top_k, top_p, ..RowRule::greedy(1, 0) };
        let close = |rule: &RowRule, wanted: [f32; 5]| {
            let found = distribution(rule, logits.clone()).unwrap();
            assert!(found.iter().zip(wanted).all(|(f, w)| (f - w).abs() < 1e-6), "{found:?} {wanted:?}");
        };
        close(&rule(0.0, 0, 1.0), [1.0, 0.0, 0.0, 0.0, 0.0]);
        close(&rule(1.0, 0, 1.0), [2.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0, 1.0 / 12.0]);
        close(&rule(1.0, 2, 1.0), [0.8, 0.0, 0.2, 0.0, 0.0]);
        close(&rule(0.5, 0, 1.0), [32.0 / 35.0, 0.0, 2.0 / 35.0, 0.5 / 35.0, 0.5 / 35.0]);
        assert_eq!(distribution(&rule(1.0, 0, 1.0), vec![f32::NAN; 3]), Err(NoToken::NotFinite));
        assert_eq!(distribution(&RowRule { drawable: 0, ..rule(1.0, 0, 1.0) }, vec![0.0; 3]), Err(NoToken::AllBanned));
    }
}

//! Attention in obvious loops.

use super::AttentionPass;

/// What [`attention`](crate::attention) computes, `[R, H, D]`, one row and one head after the other and in f64.
pub fn attention_reference(pass: &AttentionPass<'_>) -> Vec<f32> {
    let d = pass.head_dim;
    let mut out = vec![0.0; pass.q.len()];
    for row in 0..pass.rows {
        let keys = &pass.sight.classes[pass.sight.class_of_row[row] as usize];
        for head in 0..pass.heads {
            let g = head / (pass.heads / pass.kv_heads);
            let at = (row * pass.heads + head) * d;
            let q = &pass.q[at..at + d];
            let score = |key: &u32| {
                let k = pass.key(g, *key);
                f64::from(pass.scale) * q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>()
            };
            let scores: Vec<f64> = keys.iter().map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exps: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let sum: f64 = exps.iter().sum();
            for i in 0..d {
                let weighted: f64 = keys.iter().zip(&exps).map(|(key, e)| e * f64::from(pass.value(g, *key)[i])).sum();
                if !keys.is_empty() {
                    out[at + i] = (weighted / sum) as f32;
                }
            }
        }
    }
    out
}

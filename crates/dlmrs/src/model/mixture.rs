//! A mixture of experts: a router chooses a few experts for each row, and each chosen expert's weights are read once for all the rows
//! that chose it. Those of the others are not touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::Tensor;

use super::router::Chooser;
use crate::arithmetic::{Arithmetic, Product};
use crate::error::Result;

/// SwiGLU with one expert's matrices: `down(silu(gate(x)) * up(x))`.
pub(crate) struct Expert {
    pub(crate) gate: Arc<dyn Product>, // [F, C]
    pub(crate) up: Arc<dyn Product>,   // [F, C]
    pub(crate) down: Arc<dyn Product>, // [C, F]
}

impl Expert {
    /// x [R, C] -> [R, C]
    pub(crate) fn forward(&self, arithmetic: &dyn Arithmetic, x: &Tensor) -> Result<Tensor> {
        self.down.forward(&arithmetic.silu_mul(self.gate.forward(x)?, &self.up.forward(x)?)?)
    }
}

/// The experts of one layer with their router.
pub(crate) struct Mixture {
    /// [E, C], in f32 whatever the activations are.
    pub(crate) router: Arc<dyn Product>,
    pub(crate) chooser: Chooser,
    pub(crate) experts: Vec<Expert>,
    /// The expert that every row goes through besides.
    pub(crate) shared: Option<Expert>,
    /// How often an expert's weights have been read.
    pub(crate) reads: AtomicU64,
}

impl Mixture {
    /// x [R, C] -> [R, C]. A row's sum goes over its experts by their number, whatever other rows chose.
    pub(crate) fn forward(&self, arithmetic: &dyn Arithmetic, x: &Tensor) -> Result<Tensor> {
        let (rows, width) = x.dims2()?;
        let count = self.experts.len();
        let scores = self.router.columns(x, 0, count)?; // [R, E]
        let mut by_expert: Vec<(Vec<u32>, Vec<f32>)> = vec![Default::default(); count];
        for (row, scores) in scores.chunks(count).enumerate() {
            for (expert, weight) in self.chooser.choose(scores) {
                let (rows, weights) = &mut by_expert[expert];
                rows.push(row as u32);
                weights.push(weight);
            }
        }
        let mut sum = arithmetic.weighted_sum(rows, width)?;
        for (expert, (rows, weights)) in self.experts.iter().zip(&by_expert).filter(|(_, (rows, _))| !rows.is_empty()) {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let own = arithmetic.select(x, rows)?; // [own, C]
            sum.add(&expert.forward(arithmetic, &own)?, rows, weights)?;
        }
        let routed = sum.finish()?; // [R, C]
        match &self.shared {
            Some(shared) => arithmetic.add(routed, &shared.forward(arithmetic, x)?),
            None => Ok(routed),
        }
    }
}

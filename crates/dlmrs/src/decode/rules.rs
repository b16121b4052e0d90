//! The sampling rule of each slot of one request.

use std::ops::Range;
use std::sync::Arc;

use super::method::Task;
use crate::sample::{Edit, RowRule};

/// Makes row rules; what all rows share is made once.
pub(crate) struct Rules {
    template: RowRule,
    base: Vec<(u32, Edit)>,
    penalty: f32,
    stop_token_ids: Arc<[u32]>,
    none: Arc<[u32]>,
    /// Where stop ids are banned (`min_tokens`): the first places of the answer, not the masks of the prompt.
    no_stops: Range<usize>,
}

impl Rules {
    /// `banned` besides those of the parameters.
    pub(crate) fn new(task: &Task, banned: &[u32]) -> Self {
        let params = &task.params;
        let bias = params.logit_bias.iter().map(|(&id, &bias)| (id, Edit::Add(bias)));
        let bans = params.banned_token_ids.iter().chain(banned).map(|&id| (id, Edit::Add(f32::NEG_INFINITY)));
        let base: Vec<_> = bias.chain(bans).collect();
        let none: Arc<[u32]> = Arc::from([]);
        let template = RowRule {
            temperature: params.temperature,
            top_k: params.top_k,
            top_p: params.top_p,
            filter_order: task.filter_order,
            confidence: task.confidence,
            mask_token_id: task.mask_token_id,
            drawable: task.drawable,
            seed: task.seed,
            position: 0,
            edits: base.clone().into(),
            banned: none.clone(),
        };
        Self {
            template,
            base,
            penalty: params.repetition_penalty,
            stop_token_ids: task.stop_token_ids.clone().into(),
            none,
            no_stops: if params.ignore_eos { 0..0 } else { task.prompt.len()..task.prompt.len() + params.min_tokens },
        }
    }

    /// Whether [`Self::update`] can change a rule.
    pub(crate) fn go_by_canvas(&self) -> bool {
        self.penalty != 1.0
    }

    /// Looks at the canvas again: the repetition penalty goes by what it holds now.
    pub(crate) fn update(&mut self, canvas: &[u32]) {
        if !self.go_by_canvas() {
            return;
        }
        let mut held: Vec<u32> = canvas.iter().copied().filter(|&id| id != self.template.mask_token_id).collect();
        held.sort_unstable();
        held.dedup();
        let penalties = held.into_iter().map(|id| (id, Edit::Penalty(self.penalty)));
        self.template.edits = penalties.chain(self.base.iter().copied()).collect();
    }

    /// The rule for the slot at `position`.
    pub(crate) fn at(&self, position: usize) -> RowRule {
        let banned = if self.no_stops.contains(&position) { &self.stop_token_ids } else { &self.none };
        RowRule { position: position as u32, banned: banned.clone(), ..self.template.clone() }
    }
}

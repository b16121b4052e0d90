//! A line of `results.jsonl`: what came of a problem.

use std::collections::BTreeMap;

use dlmrs::Output;
use dlmrs::decode::Counts;
use dlmrs_tasks::Task;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problems::Asked;

/// What came of a problem.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// The record's place in the data, from 0.
    pub(super) index: usize,
    /// The record's own name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Value>,
    /// Where it stands, for people.
    pub(super) place: String,
    /// Of the prompt's text, before the chat template.
    pub(super) prompt_sha256: String,
    /// What the model wrote, up to the stop.
    pub(super) answer: String,
    /// Whether that is right, by metric.
    pub(super) scores: BTreeMap<String, bool>,
    /// Up to the stop.
    pub(super) tokens: usize,
    /// By kind.
    pub(super) passes: BTreeMap<String, usize>,
    /// By what they served.
    pub(super) rows: BTreeMap<String, usize>,
    /// In forwards and scans that the problem took part in; those of a batch are shared.
    pub(super) seconds: f64,
    /// That the run took from the line before to this one, without judging: these add up to the run.
    pub(super) wall_seconds: f64,
    /// "stop" or "length"; "error" where there is no answer.
    pub(super) finish_reason: String,
    /// Of this problem alone.
    pub(super) seed: u64,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Outcome {
    /// What a model's output is worth.
    pub(super) fn new(asked: &Asked, output: &Output, scores: BTreeMap<String, bool>, wall_seconds: f64) -> Self {
        let stats = &output.stats;
        let by_kind = |counts: &Counts| counts.iter().map(|(kind, count)| (kind.name().to_string(), count)).collect();
        Self {
            index: asked.index,
            id: asked.id.clone(),
            place: asked.place.clone(),
            prompt_sha256: asked.prompt_sha256.clone(),
            answer: output.text.clone(),
            scores,
            tokens: stats.tokens,
            passes: by_kind(&stats.both_passes()),
            rows: by_kind(&stats.both_rows()),
            seconds: (stats.forward + stats.scan).as_secs_f64(),
            wall_seconds,
            finish_reason: output.finish_reason.name().into(),
            seed: output.seed,
            error: None,
        }
    }

    /// A problem that got no answer counts as wrong.
    pub(super) fn failed(asked: &Asked, task: &dyn Task, error: String, seed: u64, wall_seconds: f64) -> Self {
        Self {
            index: asked.index,
            id: asked.id.clone(),
            place: asked.place.clone(),
            prompt_sha256: asked.prompt_sha256.clone(),
            answer: String::new(),
            scores: task.metrics().iter().map(|metric| ((*metric).to_string(), false)).collect(),
            tokens: 0,
            passes: BTreeMap::new(),
            rows: BTreeMap::new(),
            seconds: 0.0,
            wall_seconds,
            finish_reason: "error".into(),
            seed,
            error: Some(error),
        }
    }

    /// Whether it is right by this metric.
    pub(super) fn right(&self, metric: &str) -> bool {
        self.scores.get(metric).copied().unwrap_or_default()
    }
}

//! The sums of a run.

use std::collections::BTreeMap;

use dlmrs_tasks::Task;
use dlmrs_tasks::statistics::{Interval, interval};
use serde_json::{Map, Value, json};

use super::outcome::Outcome;

/// The sums of a run.
pub(super) struct Summary {
    model: String,
    task: &'static str,
    problems: usize,
    errors: usize,
    accuracies: Vec<Accuracy>,
    seconds: Seconds,
    wall_seconds: f64,
    tokens: usize,
    passes: BTreeMap<String, usize>,
    rows: BTreeMap<String, usize>,
}

/// How often answers were right by a metric.
struct Accuracy {
    metric: &'static str,
    right: usize,
    of: usize,
}

/// Of a problem.
pub(super) struct Seconds {
    pub(super) mean: f64,
    p50: f64,
    p95: f64,
}

impl Accuracy {
    fn share(&self) -> f64 {
        self.right as f64 / self.of.max(1) as f64
    }
}

impl Seconds {
    pub(super) fn new(outcomes: &[&Outcome]) -> Self {
        let mut sorted: Vec<f64> = outcomes.iter().map(|outcome| outcome.seconds).collect();
        sorted.sort_by(f64::total_cmp);
        // The smallest value that is not below this share of them.
        let rank = |share: f64| sorted.get(((share * sorted.len() as f64).ceil() as usize).saturating_sub(1)).copied().unwrap_or_default();
        Self { mean: sorted.iter().sum::<f64>() / sorted.len().max(1) as f64, p50: rank(0.5), p95: rank(0.95) }
    }
}

/// Tokens for each pass of any kind.
pub(super) fn tokens_per_pass(outcomes: &[&Outcome]) -> f64 {
    let tokens: usize = outcomes.iter().map(|outcome| outcome.tokens).sum();
    let passes: usize = outcomes.iter().flat_map(|outcome| outcome.passes.values()).sum();
    tokens as f64 / passes.max(1) as f64
}

impl Summary {
    pub(super) fn new(model: &str, task: &dyn Task, outcomes: &[Outcome]) -> Self {
        let all: Vec<&Outcome> = outcomes.iter().collect();
        let accuracy = |metric: &&'static str| Accuracy {
            metric,
            right: outcomes.iter().filter(|outcome| outcome.right(metric)).count(),
            of: outcomes.len(),
        };
        let sum = |of: fn(&Outcome) -> &BTreeMap<String, usize>| {
            let mut sums = BTreeMap::new();
            outcomes.iter().flat_map(of).for_each(|(kind, count)| *sums.entry(kind.clone()).or_default() += count);
            sums
        };
        Self {
            model: model.to_string(),
            task: task.name(),
            problems: outcomes.len(),
            errors: outcomes.iter().filter(|outcome| outcome.error.is_some()).count(),
            accuracies: task.metrics().iter().map(accuracy).collect(),
            seconds: Seconds::new(&all),
            wall_seconds: outcomes.iter().map(|outcome| outcome.wall_seconds).sum(),
            tokens: outcomes.iter().map(|outcome| outcome.tokens).sum(),
            passes: sum(|outcome| &outcome.passes),
            rows: sum(|outcome| &outcome.rows),
        }
    }

    fn tokens_per_second(&self) -> f64 {
        if self.wall_seconds > 0.0 { self.tokens as f64 / self.wall_seconds } else { 0.0 }
    }

    fn tokens_per_pass(&self) -> f64 {
        self.tokens as f64 / total(&self.passes).max(1) as f64
    }

    /// As it is written into `summary.json`.
    pub(super) fn json(&self) -> Value {
        let accuracy = |accuracy: &Accuracy| {
            let Interval { low, high } = interval(accuracy.right, accuracy.of);
            let value = json!({"right": accuracy.right, "share": accuracy.share(), "low": low, "high": high});
            (accuracy.metric.to_string(), value)
        };
        json!({
            "model": self.model,
            "task": self.task,
            "problems": self.problems,
            "errors": self.errors,
            "accuracy": self.accuracies.iter().map(accuracy).collect::<Map<_, _>>(),
            "seconds": {"mean": self.seconds.mean, "p50": self.seconds.p50, "p95": self.seconds.p95},
            "wall_seconds": self.wall_seconds,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second(),
            "passes": with_total(&self.passes),
            "tokens_per_pass": self.tokens_per_pass(),
            "rows": with_total(&self.rows),
        })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![format!("{} on {}, {} problems\n", self.model, self.task, self.problems)];
        for accuracy in &self.accuracies {
            let Interval { low, high } = interval(accuracy.right, accuracy.of);
            let (share, low, high) = (100.0 * accuracy.share(), 100.0 * low, 100.0 * high);
            lines.push(row(
                accuracy.metric,
                &format!("{share:.1} %, {} right; with 95 % confidence {low:.1} to {high:.1} %", accuracy.right),
            ));
        }
        if self.errors > 0 {
            lines.push(row("errors", &format!("{} problems got no answer and count as wrong", self.errors)));
        }
        let Seconds { mean, p50, p95 } = self.seconds;
        lines.push(row("seconds", &format!("{mean:.3} a problem, half of them up to {p50:.3}, 95 % up to {p95:.3}")));
        lines.push(row("tokens", &format!("{}, {:.1} a second", self.tokens, self.tokens_per_second())));
        lines.push(row("passes", &format!("{}, {:.2} tokens a pass", counts(&self.passes), self.tokens_per_pass())));
        lines.push(row("rows", &counts(&self.rows)));
        lines.concat()
    }
}

/// A line of the text: what, and how much.
pub(super) fn row(name: &str, value: &str) -> String {
    format!("{name:<16}{value}\n")
}

fn total(counts: &BTreeMap<String, usize>) -> usize {
    counts.values().sum()
}

fn with_total(counts: &BTreeMap<String, usize>) -> Value {
    let own = counts.iter().map(|(kind, count)| (kind.clone(), json!(count)));
    own.chain([("total".to_string(), json!(total(counts)))]).collect::<Map<_, _>>().into()
}

fn counts(counts: &BTreeMap<String, usize>) -> String {
    let kinds: Vec<String> = counts.iter().filter(|(_, count)| **count > 0).map(|(kind, count)| format!("{count} {kind}")).collect();
    if kinds.is_empty() { "0".into() } else { format!("{} ({})", total(counts), kinds.join(", ")) }
}

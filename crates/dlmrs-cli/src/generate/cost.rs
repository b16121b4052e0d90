//! What an output cost, in a sentence.

use dlmrs::engine::StopCause;
use dlmrs::{FinishReason, Output};

/// A line for people.
pub(crate) fn sentence(output: &Output) -> String {
    let stats = &output.stats;
    let passes = stats.passes.iter().filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = passes.map(|(kind, count)| format!("{count} {}", kind.name())).collect();
    let rows = stats.rows.total();
    let end = match (&output.stop_cause, output.finish_reason) {
        (Some(StopCause::Token(id)), _) => format!("ended by token {id}"),
        (Some(StopCause::Text(text)), _) => format!("ended before {text:?}"),
        (None, FinishReason::Length) => "ended at the largest length".into(),
        (None, reason) => reason.name().into(),
    };
    format!(
        "{} tokens in {} passes ({}), {:.2} tokens a pass, {rows} rows, {:.2} s, seed {}, {end}",
        stats.tokens,
        stats.total_passes(),
        kinds.join(", "),
        stats.tokens_per_pass(),
        stats.total.as_secs_f64(),
        output.seed,
    )
}

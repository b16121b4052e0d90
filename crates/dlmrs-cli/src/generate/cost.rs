//! What an output cost, in a sentence.

use dlmrs::decode::{Counts, Tally};
use dlmrs::engine::StopCause;
use dlmrs::{FinishReason, Output};

/// A line for people.
pub(crate) fn sentence(output: &Output) -> String {
    let stats = &output.stats;
    let of = |counts: &Counts, model: &str| {
        let passes = counts.iter().filter(|(_, count)| *count > 0);
        passes.map(|(kind, count)| format!("{count} {}{model}", kind.name())).collect::<Vec<_>>()
    };
    let mut kinds = of(&stats.passes, "");
    kinds.extend(of(&stats.draft_passes, " by the draft model"));
    let rows = stats.rows.total() + stats.draft_rows.total();
    let guessed = match stats.speculation {
        Tally { rounds: 0, .. } => String::new(),
        tally => format!(", {} of {} guesses accepted, {} corrected", tally.accepted, tally.drafted, tally.corrections),
    };
    let edited = if stats.edited > 0 { format!(", {} tokens rewritten", stats.edited) } else { String::new() };
    let end = match (&output.stop_cause, output.finish_reason) {
        (Some(StopCause::Token(id)), _) => format!("ended by token {id}"),
        (Some(StopCause::Text(text)), _) => format!("ended before {text:?}"),
        (None, FinishReason::Length) => "ended at the largest length".into(),
        (None, reason) => reason.name().into(),
    };
    format!(
        "{} tokens in {} passes ({}), {:.2} tokens a pass, {rows} rows{guessed}{edited}, {:.2} s, seed {}, {end}",
        stats.tokens,
        stats.total_passes(),
        kinds.join(", "),
        stats.tokens_per_pass(),
        stats.total.as_secs_f64(),
        output.seed,
    )
}

//! An output as a JSON object.

use dlmrs::decode::Counts;
use dlmrs::engine::{Stats, StopCause};
use dlmrs::{Llm, Output};
use serde_json::{Map, Value, json};

/// The object of the output with this number. `id` is the user's name for its prompt; `has_masks` says that the prompt had slots to fill.
pub(crate) fn object(number: usize, id: Option<&Value>, has_masks: bool, output: &Output, llm: &Llm) -> Value {
    let mut object = Map::new();
    object.insert("index".into(), json!(number));
    if let Some(id) = id {
        object.insert("id".into(), id.clone());
    }
    object.insert("text".into(), json!(output.text));
    object.insert("token_ids".into(), json!(output.token_ids));
    object.insert("finish_reason".into(), json!(output.finish_reason.name()));
    object.insert("stop_cause".into(), stop_cause(output));
    object.insert("seed".into(), json!(output.seed));
    object.insert("prompt_token_ids".into(), json!(output.prompt_token_ids));
    if has_masks {
        object.insert("filled_prompt".into(), json!(filled_prompt(output, llm)));
        object.insert("canvas_token_ids".into(), json!(output.canvas_token_ids));
    }
    object.insert("stats".into(), stats(&output.stats));
    object.insert("warnings".into(), json!(output.warnings));
    Value::Object(object)
}

/// The prompt's text with its masks filled in; None without a tokenizer.
pub(super) fn filled_prompt(output: &Output, llm: &Llm) -> Option<String> {
    let filled = output.canvas_token_ids.get(..output.prompt_token_ids.len())?;
    llm.tokenizer()?.decode(filled, true).ok()
}

fn stop_cause(output: &Output) -> Value {
    match &output.stop_cause {
        Some(StopCause::Token(id)) => json!({"token_id": id}),
        Some(StopCause::Text(text)) => json!({"text": text}),
        None => Value::Null,
    }
}

/// What it cost.
pub(crate) fn stats(stats: &Stats) -> Value {
    let by_kind = |counts: &Counts| counts.iter().map(|(kind, count)| (kind.name().to_string(), json!(count))).collect::<Map<_, _>>();
    let mut passes = by_kind(&stats.passes);
    passes.insert("total".into(), json!(stats.total_passes()));
    json!({
        "tokens": stats.tokens,
        "passes": passes,
        "tokens_per_pass": stats.tokens_per_pass(),
        "rows": by_kind(&stats.rows),
        "keys": by_kind(&stats.keys),
        "scanned_rows": stats.scanned_rows,
        "revealed": stats.revealed,
        "edited": stats.edited,
        "blocks": stats.blocks,
        "mean_kept_suffix": stats.mean_kept_suffix(),
        "draft_passes": by_kind(&stats.draft_passes),
        "draft_rows": by_kind(&stats.draft_rows),
        "tokens_per_target_pass": stats.tokens_per_target_pass(),
        "speculation": {
            "rounds": stats.speculation.rounds,
            "drafted": stats.speculation.drafted,
            "accepted": stats.speculation.accepted,
            "corrections": stats.speculation.corrections,
            "wasted": stats.speculation.wasted,
        },
        "seconds": {
            "forward": stats.forward.as_secs_f64(),
            "scan": stats.scan.as_secs_f64(),
            "total": stats.total.as_secs_f64(),
        },
    })
}

//! The settings of a run, as JSON.

use dlmrs::decode::{Amount, DreamAlg, Remasking, Strategy};
use dlmrs::speculate::route::Policy;
use dlmrs::{BlockDiffusion, Canvas, Decoding, S2D2, SamplingParams, SimSD, SubBlockDiffusion};
use serde_json::{Map, Value, json};

/// What is drawn and when it ends.
pub(super) fn sampling(params: &SamplingParams) -> Value {
    let biases: Map<String, Value> = params.logit_bias.iter().map(|(id, bias)| (id.to_string(), number(*bias))).collect();
    json!({
        "max_tokens": params.max_tokens,
        "min_tokens": params.min_tokens,
        "temperature": number(params.temperature),
        "top_p": number(params.top_p),
        "top_k": params.top_k,
        "seed": params.seed,
        "stop": params.stop,
        "stop_token_ids": params.stop_token_ids,
        "ignore_eos": params.ignore_eos,
        "repetition_penalty": number(params.repetition_penalty),
        "logit_bias": biases,
        "banned_token_ids": params.banned_token_ids,
    })
}

/// How the canvas is filled. Null is the method's own default.
pub(super) fn decoding(decoding: &Decoding) -> Value {
    let mut settings = match decoding {
        Decoding::Block(block) => rule(block),
        Decoding::Editing(editing) => {
            let own = [("editing_threshold", number(editing.editing_threshold)), ("max_post_steps", json!(editing.max_post_steps))];
            with(rule(&editing.block), own)
        }
        Decoding::Canvas(canvas) => of_canvas(canvas),
        Decoding::Lookahead(lookahead) => {
            let max_rows = match lookahead.max_rows {
                Some(Amount::All) => json!("off"),
                rows => rows.map_or(Value::Null, amount),
            };
            let settings = match &lookahead.canvas {
                Some(canvas) => of_canvas(canvas),
                None => with(rule(&lookahead.block), [("blocks", json!(lookahead.blocks)), ("probes", json!(lookahead.probes))]),
            };
            with(settings, [("alternatives", json!(lookahead.alternatives)), ("max_rows", max_rows)])
        }
        Decoding::SimSD(simsd) => with(rule(&simsd.block), of_simsd(simsd)),
        Decoding::S2D2(s2d2) => of_s2d2(s2d2),
        Decoding::SubBlock(sub_block) => of_sub_block(sub_block),
    };
    settings.insert("method".into(), decoding.name().into());
    settings.into()
}

fn with<const N: usize>(mut settings: Map<String, Value>, more: [(&str, Value); N]) -> Map<String, Value> {
    settings.extend(more.map(|(name, value)| (name.to_string(), value)));
    settings
}

fn rule(block: &BlockDiffusion) -> Map<String, Value> {
    let settings = [
        ("block_length", json!(block.block_length)),
        ("steps", json!(block.steps)),
        ("strategy", json!(strategy(block.strategy))),
        ("threshold", json!(block.threshold.map(number))),
        ("entropy_bound", json!(block.entropy_bound.map(number))),
    ];
    with(Map::new(), settings)
}

fn of_canvas(canvas: &Canvas) -> Map<String, Value> {
    let settings = [
        ("block_length", json!(canvas.block_length)),
        ("steps", json!(canvas.steps)),
        ("strategy", json!(remasking(canvas.strategy))),
        ("threshold", json!(canvas.threshold.map(number))),
        ("factor", json!(canvas.factor.map(number))),
        ("factor_compat", json!(canvas.factor_compat)),
        ("max_reveals", json!(canvas.max_reveals)),
        ("cache", json!(canvas.cache.name())),
        ("refresh", json!(canvas.refresh.name())),
        ("suffix", json!(canvas.suffix.text())),
        ("early_stop", json!(canvas.early_stop.name())),
        ("cfg_scale", number(canvas.cfg_scale)),
        ("alg", json!(canvas.alg.map(alg))),
        ("eps", number(canvas.eps)),
        ("alg_temp", number(canvas.alg_temp)),
        ("logits_eos_inf", json!(canvas.logits_eos_inf)),
        ("confidence_eos_eot_inf", json!(canvas.confidence_eos_eot_inf)),
    ];
    with(Map::new(), settings)
}

fn of_simsd(simsd: &SimSD) -> [(&'static str, Value); 11] {
    [
        ("gamma", amount(simsd.gamma)),
        ("blocks", json!(simsd.blocks)),
        ("draft_steps", json!(simsd.draft_steps)),
        ("own_guesses", json!(simsd.own_guesses)),
        ("alternatives", json!(simsd.alternatives)),
        ("max_rows", amount(simsd.max_rows)),
        ("layout", json!(simsd.layout.name())),
        ("accept", json!(simsd.accept.name())),
        ("align_positions", json!(simsd.align_positions)),
        ("overlap", json!(simsd.overlap)),
        ("fallback", json!(simsd.fallback.name())),
    ]
}

/// Null is no limit.
fn amount(amount: Amount) -> Value {
    if amount.is_auto() { json!("auto") } else { json!(amount.limit()) }
}

fn of_s2d2(s2d2: &S2D2) -> Map<String, Value> {
    let settings = with(rule(&s2d2.block), [("variant", json!(s2d2.variant.name())), ("ar_cache", json!(s2d2.ar_cache))]);
    let settings = match &s2d2.policy {
        Policy::MinSpan(least) => with(settings, [("policy", json!("min_span")), ("min_span", json!(least))]),
        Policy::ScoreThreshold { threshold, .. } => {
            with(settings, [("policy", json!("score_threshold")), ("score_threshold", number(*threshold))])
        }
        Policy::Hysteresis { on, off, .. } => {
            with(settings, [("policy", json!("hysteresis")), ("score_on", number(*on)), ("score_off", number(*off))])
        }
    };
    let Some(score) = s2d2.policy.score() else { return settings };
    let of_score = [
        ("estimator", json!(score.estimator.name())),
        ("estimator_value", number(score.estimator.value())),
        ("penalty", number(score.penalty)),
        ("dynamic_score", json!(score.dynamic)),
    ];
    with(settings, of_score)
}

fn of_sub_block(sub_block: &SubBlockDiffusion) -> Map<String, Value> {
    let settings = [
        ("block_length", json!(sub_block.block_length)),
        ("sub_block", json!(sub_block.sub_block)),
        ("threshold", json!(sub_block.threshold.map(number))),
        ("sub_block_cache", json!(sub_block.sub_block_cache)),
    ];
    with(Map::new(), settings)
}

/// As it was typed, not as the f64 that lies nearest to the f32.
fn number(value: f32) -> Value {
    match value.to_string().parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(value.to_string()),
    }
}

fn strategy(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Sequential => "sequential",
        Strategy::LowConfidenceStatic => "low_confidence_static",
        Strategy::LowConfidenceDynamic => "low_confidence_dynamic",
        Strategy::EntropyBounded => "entropy_bounded",
        Strategy::Margin => "margin",
    }
}

fn remasking(remasking: Remasking) -> &'static str {
    match remasking {
        Remasking::LowConfidence => "low_confidence",
        Remasking::Random => "random",
    }
}

fn alg(alg: DreamAlg) -> &'static str {
    match alg {
        DreamAlg::Origin => "origin",
        DreamAlg::MaskgitPlus => "maskgit_plus",
        DreamAlg::TopkMargin => "topk_margin",
        DreamAlg::Entropy => "entropy",
        DreamAlg::EvenEntropy => "even_entropy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_typed() {
        for typed in ["sequential", "low_confidence_static", "low_confidence_dynamic", "entropy_bounded", "margin"] {
            assert_eq!(typed.parse().map(strategy).ok(), Some(typed));
        }
        for typed in ["low_confidence", "random"] {
            assert_eq!(typed.parse().map(remasking).ok(), Some(typed));
        }
        for typed in ["origin", "maskgit_plus", "topk_margin", "entropy", "even_entropy"] {
            assert_eq!(typed.parse().map(alg).ok(), Some(typed));
        }
    }

    #[test]
    fn sub_blocks_by_their_names() {
        let settings = SubBlockDiffusion { sub_block: Some(4), threshold: Some(0.9), ..SubBlockDiffusion::default() };
        let wanted =
            json!({"method": "SubBlockDiffusion", "block_length": null, "sub_block": 4, "threshold": 0.9, "sub_block_cache": false});
        assert_eq!(decoding(&Decoding::SubBlock(settings)), wanted);
    }

    #[test]
    fn editing_is_told() {
        let settings = decoding(&Decoding::Editing(dlmrs::Editing { editing_threshold: 0.85, ..dlmrs::Editing::default() }));
        assert_eq!(settings["editing_threshold"].to_string(), "0.85");
        assert_eq!((&settings["max_post_steps"], &settings["method"]), (&json!(16), &json!("BlockDiffusion")));
        assert_eq!(decoding(&Decoding::Block(BlockDiffusion::default())).get("editing_threshold"), None);
    }

    #[test]
    fn numbers_are_those_that_are_typed() {
        assert_eq!(number(0.85).to_string(), "0.85");
        assert_eq!(number(0.0).to_string(), "0.0");
        assert_eq!(number(f32::NEG_INFINITY), json!("-inf"));
    }
}

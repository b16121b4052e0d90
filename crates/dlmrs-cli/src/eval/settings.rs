//! The settings of a run, as JSON.

use dlmrs::decode::{DreamAlg, Remasking, Strategy};
use dlmrs::{Decoding, SamplingParams};
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
    match decoding {
        Decoding::Block(block) => json!({
            "method": decoding.name(),
            "block_length": block.block_length,
            "steps": block.steps,
            "strategy": strategy(block.strategy),
            "threshold": block.threshold.map(number),
            "entropy_bound": block.entropy_bound.map(number),
        }),
        Decoding::Canvas(canvas) => json!({
            "method": decoding.name(),
            "block_length": canvas.block_length,
            "steps": canvas.steps,
            "strategy": remasking(canvas.strategy),
            "threshold": canvas.threshold.map(number),
            "factor": canvas.factor.map(number),
            "factor_compat": canvas.factor_compat,
            "max_reveals": canvas.max_reveals,
            "cache": canvas.cache.name(),
            "refresh": canvas.refresh.name(),
            "suffix": canvas.suffix.text(),
            "early_stop": canvas.early_stop.name(),
            "cfg_scale": number(canvas.cfg_scale),
            "alg": canvas.alg.map(alg),
            "eps": number(canvas.eps),
            "alg_temp": number(canvas.alg_temp),
            "logits_eos_inf": canvas.logits_eos_inf,
            "confidence_eos_eot_inf": canvas.confidence_eos_eot_inf,
        }),
    }
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
        for typed in ["origin", "maskgit_plus", "topk_margin", "entropy"] {
            assert_eq!(typed.parse().map(alg).ok(), Some(typed));
        }
    }

    #[test]
    fn numbers_are_those_that_are_typed() {
        assert_eq!(number(0.85).to_string(), "0.85");
        assert_eq!(number(0.0).to_string(), "0.0");
        assert_eq!(number(f32::NEG_INFINITY), json!("-inf"));
    }
}

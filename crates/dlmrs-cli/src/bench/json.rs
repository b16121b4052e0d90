//! The report as JSON. The keys are documented in docs/bench.md.

use serde_json::{Value, json};

use super::report::{Measured, Report};
use super::statistics::Spread;
use super::turn::Turn;
use crate::generate;

/// Everything.
pub(super) fn object(report: &Report<'_>) -> Value {
    let (bench, machine) = (report.bench, &report.machine);
    let lengths: Vec<usize> = bench.prompts.iter().map(|prompt| prompt.ids.len()).collect();
    let settings: Vec<Value> = (0..report.measured.len()).map(|index| setting(report, index)).collect();
    json!({
        "model": bench.llm.name(),
        "version": env!("CARGO_PKG_VERSION"),
        "build": machine.build,
        "machine": {
            "cpu": machine.cpu,
            "system": machine.system,
            "device": machine.device,
            "threads": machine.threads,
            "isa": machine.isa,
            "dtype": machine.dtype,
            "backend": machine.backend,
        },
        "prompt_tokens": lengths,
        "batch": bench.batch,
        "rounds": report.rounds.len(),
        "complete": report.rounds.len() == bench.rounds,
        "settings": settings,
        "differing_prompts": differences(report),
    })
}

fn setting(report: &Report<'_>, index: usize) -> Value {
    let measured = &report.measured[index];
    let setting = measured.setting;
    let rounds: Vec<Value> = report.rounds.iter().zip(&measured.turns).map(|(round, turn)| one(turn, &round.order, index)).collect();
    let mut counters = generate::stats(&measured.first().stats);
    // Times are not counters: they differ from round to round.
    counters.as_object_mut().and_then(|counters| counters.remove("seconds"));
    json!({
        "name": setting.name,
        "options": setting.options,
        "method": setting.decoding.name(),
        "max_tokens": setting.params.max_tokens,
        "seed": setting.params.seed,
        "counters": counters,
        "forwards": measured.first().forwards,
        "tokens_per_second": measured.median(Turn::tokens_per_second),
        "revealed_per_second": measured.median(Turn::revealed_per_second),
        "ms_per_pass": measured.median(Turn::ms_per_pass),
        "latency_ms": {"p50": measured.latency_ms(50), "p95": measured.latency_ms(95)},
        "seconds": seconds(measured),
        "peak_resident_bytes": measured.peak(),
        "ratios": {
            "tokens_per_second": spread(report.ratio(measured, Turn::tokens_per_second)),
            "revealed_per_second": spread(report.ratio(measured, Turn::revealed_per_second)),
            "ms_per_pass": spread(report.ratio(measured, Turn::ms_per_pass)),
            "seconds": spread(report.ratio(measured, Turn::seconds)),
        },
        "same_outputs_as": report.same_as(index),
        "same_outputs_in_every_round": measured.is_steady(),
        "rounds": rounds,
    })
}

fn seconds(measured: &Measured<'_>) -> Value {
    json!({
        "total": measured.median(Turn::seconds),
        "forward": measured.median(Turn::forward),
        "scan": measured.median(Turn::scan),
        "rest": measured.median(Turn::rest),
    })
}

fn one(turn: &Turn, order: &[usize], index: usize) -> Value {
    json!({
        "place": order.iter().position(|&setting| setting == index),
        "stats": generate::stats(&turn.stats),
        "forwards": turn.forwards,
        "latency_seconds": turn.latencies,
        "peak_resident_bytes": turn.peak,
    })
}

fn spread(spread: Option<Spread>) -> Value {
    match spread {
        Some(Spread { median, lowest, highest }) => json!({"median": median, "lowest": lowest, "highest": highest}),
        None => Value::Null,
    }
}

/// Every pair of settings.
fn differences(report: &Report<'_>) -> Vec<Value> {
    let name = |index: usize| &report.measured[index].setting.name;
    let pairs = (0..report.measured.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
    pairs.map(|(one, other)| json!({"settings": [name(one), name(other)], "prompts": report.differing(one, other)})).collect()
}

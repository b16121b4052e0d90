//! The bundled pair in the engine: batches, stops, counters, and what is refused.

use std::sync::Arc;

use dlmrs::decode::{Acceptance, Amount, BlockDiffusion, Decoding, Fallback, Lookahead, PassKind, S2D2, SimSD, Strategy, VerifyLayout};
use dlmrs::speculate::route::Policy;
use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{DraftSource, Error, Llm, LoadOptions, Output, Overrides, Request, SamplingParams};

use crate::common::{bundled_folder, bundled_pair, golden_pair, options};

fn questions() -> Vec<String> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../dlmrs-tasks/data/word_problems.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let question = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["question"].as_str().unwrap().to_string();
    text.lines().take(10).map(question).collect()
}

fn requests(llm: &Llm, params: &SamplingParams, decoding: &Decoding) -> Vec<Request> {
    let prompt = |question: &String| {
        llm.tokenizer().unwrap().encode_chat(&[Message::new("user", question)], &ChatOptions::default(), Specials::AsText).unwrap()
    };
    questions().iter().map(|q| Request { prompt: prompt(q), params: params.clone(), decoding: Some(decoding.clone()) }).collect()
}

fn run(llm: &Arc<Llm>, params: &SamplingParams, decoding: &Decoding) -> Vec<Output> {
    llm.generate(requests(llm, params, decoding), |_, _| true).unwrap()
}

fn target_passes(outputs: &[Output]) -> usize {
    outputs.iter().map(|output| output.stats.target_passes()).sum()
}

fn fixed() -> SamplingParams {
    SamplingParams { max_tokens: 40, ignore_eos: true, ..SamplingParams::default() }
}

fn rule(length: usize, dynamic: bool) -> BlockDiffusion {
    let strategy = if dynamic { Strategy::LowConfidenceDynamic } else { Strategy::LowConfidenceStatic };
    BlockDiffusion { block_length: Some(length), strategy, threshold: dynamic.then_some(0.9), ..BlockDiffusion::default() }
}

/// Target passes for the first ten word problems: at most as many as a plain prototype of the same method, without alternatives, needs.
#[test]
fn passes_are_at_most_the_prototypes() {
    let llm = bundled_pair();
    let lookahead = |blocks, probes, block: &BlockDiffusion| {
        Decoding::Lookahead(Lookahead { block: block.clone(), blocks, probes, ..Lookahead::default() })
    };
    let simsd = |blocks, draft_steps, own_guesses, block: &BlockDiffusion| {
        Decoding::SimSD(SimSD { block: block.clone(), blocks, draft_steps, own_guesses, ..SimSD::default() })
    };
    let check = |block: BlockDiffusion, alone: usize, bars: &[(Decoding, usize)]| {
        let wanted = run(&llm, &fixed(), &Decoding::Block(block.clone()));
        assert_eq!(target_passes(&wanted), alone, "{block:?}");
        for (decoding, bar) in bars {
            let found = run(&llm, &fixed(), decoding);
            let same = found.iter().zip(&wanted).all(|(a, b)| a.canvas_token_ids == b.canvas_token_ids);
            assert!(same, "{decoding:?}");
            let passes = target_passes(&found);
            assert!(passes <= *bar, "{decoding:?}: {passes} passes, the prototype needs {bar}");
        }
    };
    let b = rule(4, false);
    let bars = [
        (simsd(1, None, false, &b), 231),
        (simsd(2, None, false, &b), 156),
        (simsd(4, None, false, &b), 142),
        (lookahead(1, 0, &b), 244),
        (lookahead(2, 0, &b), 144),
        (lookahead(2, 1, &b), 108),
        (lookahead(4, 1, &b), 93),
        (simsd(2, None, true, &b), 108),
        (simsd(2, Some(1), true, &b), 112),
        (simsd(4, None, true, &b), 71),
        (simsd(4, Some(1), false, &b), 142),
        (simsd(4, Some(1), true, &b), 80),
    ];
    check(b, 412, &bars);
    let b = rule(4, true);
    let bars = [
        (simsd(1, None, false, &b), 123),
        (simsd(2, None, false, &b), 74),
        (simsd(4, None, false, &b), 48),
        (lookahead(1, 0, &b), 136),
        (lookahead(2, 0, &b), 117),
        (lookahead(2, 1, &b), 82),
        (lookahead(4, 1, &b), 77),
        (simsd(2, None, true, &b), 74),
        (simsd(2, Some(1), true, &b), 78),
        (simsd(4, None, true, &b), 45),
        (simsd(4, Some(1), false, &b), 53),
        (simsd(4, Some(1), true, &b), 52),
    ];
    check(b, 144, &bars);
    let b = rule(8, true);
    let bars = [
        (simsd(1, None, false, &b), 82),
        (simsd(2, None, false, &b), 55),
        (lookahead(1, 0, &b), 92),
        (lookahead(2, 0, &b), 76),
        (lookahead(2, 1, &b), 64),
        (simsd(2, None, true, &b), 52),
        (simsd(4, Some(1), true, &b), 46),
    ];
    check(b, 102, &bars);
}

/// Every kind of speculation in one batch, each as alone; identical ones as the target alone, up to the stop and with seeds.
#[test]
fn mixed_batches() {
    let llm = bundled_pair();
    let kinds = [
        Decoding::Lookahead(Lookahead { block: rule(4, true), ..Lookahead::default() }),
        Decoding::SimSD(SimSD { block: rule(4, true), blocks: 2, ..SimSD::default() }),
        Decoding::SimSD(SimSD { block: rule(4, true), layout: VerifyLayout::Paired, accept: Acceptance::Greedy, ..SimSD::default() }),
        Decoding::SimSD(SimSD { block: rule(4, true), layout: VerifyLayout::NoLeak, accept: Acceptance::Rejection, ..SimSD::default() }),
        Decoding::SimSD(SimSD {
            block: rule(4, true),
            layout: VerifyLayout::States,
            accept: Acceptance::Greedy,
            gamma: Amount::AtMost(2),
            ..SimSD::default()
        }),
        Decoding::SimSD(SimSD {
            block: rule(4, true),
            layout: VerifyLayout::Sequential,
            accept: Acceptance::Rejection,
            fallback: Fallback::Target,
            gamma: Amount::AtMost(3),
            ..SimSD::default()
        }),
        Decoding::S2D2(S2D2 { block: rule(4, true), ..S2D2::default() }),
        Decoding::Block(rule(4, true)),
    ];
    for temperature in [0.0, 1.0] {
        let params = SamplingParams { max_tokens: 40, temperature, seed: Some(5), ..SamplingParams::default() };
        let mixed: Vec<Request> = kinds.iter().enumerate().map(|(i, kind)| requests(&llm, &params, kind).remove(i)).collect();
        let together = llm.generate(mixed.clone(), |_, _| true).unwrap();
        for (request, output) in mixed.into_iter().zip(&together) {
            let decoding = request.decoding.clone().unwrap();
            let exact = match &decoding {
                Decoding::Lookahead(_) => true,
                Decoding::SimSD(simsd) => simsd.accept == Acceptance::Identical,
                _ => false,
            };
            let own = Request { decoding: Some(Decoding::Block(rule(4, true))), ..request.clone() };
            let alone = llm.generate(vec![request], |_, _| true).unwrap().remove(0);
            assert_eq!((&alone.canvas_token_ids, &alone.text), (&output.canvas_token_ids, &output.text), "{decoding:?}");
            assert_eq!((alone.stats.passes, alone.stats.draft_passes), (output.stats.passes, output.stats.draft_passes));
            assert_eq!(alone.stats.speculation, output.stats.speculation);
            if exact {
                let target = llm.generate(vec![own], |_, _| true).unwrap().remove(0);
                assert_eq!((target.token_ids, target.text), (alone.token_ids, alone.text), "{decoding:?}");
            }
        }
    }
}

/// Draft and target at the same time: the same tokens and the same passes of the target, alone and in a batch.
#[test]
fn overlap_changes_nothing() {
    let llm = bundled_pair();
    for (block, blocks, draft_steps) in [(rule(4, true), 1, None), (rule(4, false), 2, Some(1)), (rule(8, true), 2, None)] {
        for temperature in [0.0, 1.0] {
            let params = SamplingParams { temperature, seed: Some(4), ..fixed() };
            let of = |overlap| {
                let settings = SimSD { block: block.clone(), blocks, draft_steps, overlap, ..SimSD::default() };
                run(&llm, &params, &Decoding::SimSD(settings))
            };
            let (off, on) = (of(false), of(true));
            for (off, on) in off.iter().zip(&on) {
                assert_eq!(off.canvas_token_ids, on.canvas_token_ids);
                assert_eq!((off.stats.passes, off.stats.rows), (on.stats.passes, on.stats.rows));
                assert_eq!(off.stats.speculation, on.stats.speculation);
            }
            // A pass that went ahead in vain comes on top; one that did not is one that the round need not run.
            let forwards = |overlap| {
                let settings = SimSD { block: block.clone(), blocks, draft_steps, overlap, ..SimSD::default() };
                let mut engine = llm.engine();
                engine.submit(requests(&llm, &params, &Decoding::SimSD(settings)).remove(0)).unwrap();
                while !engine.is_idle() {
                    engine.step().unwrap();
                }
                engine.work().forwards
            };
            assert!(forwards(true) < forwards(false), "{} {}", forwards(true), forwards(false));
        }
    }
}

/// States judged one a pass give what they give in one pass, for every way to accept.
#[test]
fn sequential_is_the_oracle_of_states() {
    let llm = bundled_pair();
    for (accept, temperature) in
        [(Acceptance::Identical, 0.0), (Acceptance::Greedy, 0.0), (Acceptance::Greedy, 0.8), (Acceptance::Rejection, 0.8)]
    {
        let params = SamplingParams { temperature, seed: Some(2), ..fixed() };
        let of = |layout| {
            let settings = SimSD { block: rule(4, true), layout, accept, own_guesses: false, ..SimSD::default() };
            let outputs = run(&llm, &params, &Decoding::SimSD(settings));
            outputs.into_iter().map(|output| (output.canvas_token_ids, output.stats.speculation)).collect::<Vec<_>>()
        };
        assert!(of(VerifyLayout::States) == of(VerifyLayout::Sequential), "{accept:?} {temperature}");
    }
}

/// The same weights as a draft with a cache of their own: everything is accepted.
#[test]
fn the_target_drafts_for_itself() {
    let llm =
        Llm::load_pair(&bundled_folder("tiny-sdar"), &DraftSource::Itself, &options(), &Overrides::default(), &mut |_, _| true).unwrap();
    let settings = SimSD { block: rule(4, false), own_guesses: false, ..SimSD::default() };
    for output in run(&llm, &fixed(), &Decoding::SimSD(settings)) {
        let tally = output.stats.speculation;
        assert_eq!((tally.accepted, tally.corrections, tally.wasted), (tally.drafted, 0, 0));
        assert_eq!(output.stats.passes.get(PassKind::Verify), tally.rounds);
        assert!(output.stats.draft_passes.get(PassKind::Draft) >= 40 && output.stats.passes.get(PassKind::Denoise) == 0);
    }
    assert_eq!(llm.draft_name(), Some("tiny-sdar"));
}

fn message(error: Error) -> String {
    error.to_string()
}

#[test]
fn drafts_that_do_not_fit_are_refused() {
    let load = |target: &str, draft: &str| {
        let draft = DraftSource::Model { name: bundled_folder(draft), options: options() };
        let loaded = Llm::load_pair(&bundled_folder(target), &draft, &options(), &Overrides::default(), &mut |_, _| true);
        message(loaded.err().expect("refused"))
    };
    let found = load("tiny-sdar", "tiny-llada");
    assert!(found.contains("tiny-llada has no block mode"), "{found}");
    let found = load("tiny-llada", "tiny-sdar");
    assert!(found.contains("needs a block-causal target, and tiny-llada is bidirectional"), "{found}");
    let draft = DraftSource::Model { name: crate::common::golden_folder("sdar").to_str().unwrap().into(), options: options() };
    let overrides = Overrides { mask_token_id: Some(7), ..Overrides::default() };
    let found = Llm::load_pair(&bundled_folder("tiny-sdar"), &draft, &options(), &overrides, &mut |_, _| true);
    let found = message(found.err().expect("refused"));
    assert!(found.contains("the vocabulary size 320"), "{found}");
    assert!(golden_pair("sdar", "sdar_onelayer").is_ok());
}

/// A tokenizer that differs in one token is told by that token.
#[test]
fn tokenizers_are_compared_token_by_token() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json"] {
        std::fs::copy(format!("{}/{name}", bundled_folder("tiny-sdar-draft")), folder.path().join(name)).unwrap();
    }
    let text = std::fs::read_to_string(format!("{}/tokenizer.json", bundled_folder("tiny-sdar-draft"))).unwrap();
    let mut tokenizer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let vocab = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    let (one, other) = {
        let mut found = vocab.iter().filter(|(token, _)| token.chars().count() == 1 && token.chars().all(|c| c.is_ascii_alphabetic()));
        (found.next().unwrap().0.clone(), found.next().unwrap().0.clone())
    };
    let (a, b) = (vocab[&one].clone(), vocab[&other].clone());
    let first = a.as_u64().min(b.as_u64()).unwrap();
    vocab.insert(one, b);
    vocab.insert(other, a);
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let draft = DraftSource::Model { name: folder.path().to_str().unwrap().into(), options: LoadOptions { ..options() } };
    let loaded = Llm::load_pair(&bundled_folder("tiny-sdar"), &draft, &options(), &Overrides::default(), &mut |_, _| true);
    let found = message(loaded.err().expect("refused"));
    assert!(found.contains(&format!("another tokenizer: id {first} is")), "{found}");
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let pair = bundled_pair();
    let alone = Llm::load(&bundled_folder("tiny-sdar"), &options(), &Overrides::default()).unwrap();
    let canvas = Llm::load(&bundled_folder("tiny-llada"), &options(), &Overrides::default()).unwrap();
    let refused = |llm: &Arc<Llm>, decoding: Decoding, words: &str| {
        let found = llm.engine().submit(Request { prompt: vec![5], decoding: Some(decoding.clone()), ..Request::default() });
        let found = message(found.err().unwrap_or_else(|| panic!("{decoding:?} was taken")));
        assert!(found.contains(words), "{found}");
    };
    let simsd = |change: fn(&mut SimSD)| {
        let mut settings = SimSD::default();
        change(&mut settings);
        Decoding::SimSD(settings)
    };
    refused(&alone, simsd(|_| {}), "was loaded without a draft model");
    refused(&canvas, simsd(|_| {}), "is bidirectional");
    refused(&canvas, Decoding::S2D2(S2D2::default()), "is S2D2, but tiny-llada is bidirectional");
    refused(&canvas, Decoding::Lookahead(Lookahead::default()), "is bidirectional");
    refused(&pair, simsd(|s| s.gamma = Amount::AtMost(0)), "gamma");
    refused(&pair, simsd(|s| (s.gamma, s.block.block_length) = (Amount::AtMost(5), Some(4))), "a block has 4 slots");
    refused(&pair, simsd(|s| s.block.block_length = Some(0)), "block_length");
    refused(&pair, simsd(|s| s.block.block_length = Some(1 << 20)), "block_length");
    refused(&pair, simsd(|s| s.blocks = 0), "blocks");
    refused(&pair, simsd(|s| s.blocks = 65), "blocks");
    refused(&pair, simsd(|s| s.layout = VerifyLayout::Paired), "identical needs the target's own rows");
    refused(
        &pair,
        simsd(|s| (s.layout, s.accept, s.blocks) = (VerifyLayout::Paired, Acceptance::Greedy, 2)),
        "above 1 needs layout states",
    );
    refused(&pair, simsd(|s| (s.accept, s.draft_steps) = (Acceptance::Greedy, Some(1))), "draft_steps");
    refused(&pair, simsd(|s| (s.accept, s.max_rows) = (Acceptance::Greedy, Amount::AtMost(9))), "max_rows");
    refused(&pair, simsd(|s| (s.accept, s.gamma) = (Acceptance::Greedy, Amount::Auto)), "auto goes by the clock");
    refused(&pair, simsd(|s| (s.accept, s.overlap) = (Acceptance::Greedy, true)), "overlap: needs layout states");
    refused(&pair, simsd(|s| s.align_positions = false), "align_positions");
    refused(&pair, simsd(|s| s.draft_steps = Some(0)), "draft_steps");
    refused(&pair, Decoding::Lookahead(Lookahead { max_rows: Some(Amount::AtMost(0)), ..Lookahead::default() }), "max_rows");
    refused(&pair, Decoding::Lookahead(Lookahead { probes: 65, ..Lookahead::default() }), "probes");
    refused(&pair, Decoding::S2D2(S2D2 { policy: Policy::MinSpan(0), ..S2D2::default() }), "min_span");
}

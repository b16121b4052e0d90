//! Mixtures of experts in speculation: random tiny ones, with themselves and with dense models as drafts.

use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};
use dlmrs::decode::{Acceptance, Amount, BlockDiffusion, Decoding, Lookahead, S2D2, SimSD, Strategy, VerifyLayout};
use dlmrs::sample::noise::{Purpose, Stream};
use dlmrs::{DraftSource, Llm, Output, Overrides, Request, SamplingParams};
use proptest::prelude::*;
use serde_json::json;

use crate::common::{Garble, MASK, drive, golden_folder, golden_pair, options, task};
use crate::identical::{params, prompt, rule, simsd};

/// Random weights that depend on the seed and the tensor's number alone.
struct Weights {
    seed: u64,
    tensors: std::collections::HashMap<String, Tensor>,
}

impl Weights {
    fn add(&mut self, name: impl Into<String>, shape: &[usize], centre: f64, width: f64) {
        let mut noise = Stream::new(self.seed, Purpose::Token, 1, self.tensors.len() as u32);
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| (centre + width * (noise.uniform() - 0.5)) as f32).collect();
        self.tensors.insert(name.into(), Tensor::from_vec(values, shape, &Device::Cpu).unwrap());
    }
}

/// The checkpoint of a mixture in SDAR-MoE's layout or LLaDA2's, with so many experts of which a token gets so many.
fn random_mixture(llada2: bool, seed: u64, experts: usize, per_token: usize) -> tempfile::TempDir {
    let (vocab, hidden, heads, kv, dim, expert, dense) = (320, 32, 4, 2, 16, 16, 40);
    let groups = if experts.is_multiple_of(2) && experts >= 4 && per_token <= experts / 2 { 2 } else { 1 };
    let mut config = json!({
        "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": dense, "num_hidden_layers": 2, "num_attention_heads": heads,
        "num_key_value_heads": kv, "head_dim": dim, "num_experts": experts, "num_experts_per_tok": per_token, "moe_intermediate_size": expert,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 1024, "tie_word_embeddings": false, "norm_topk_prob": true,
        "architectures": [if llada2 { "LLaDA2MoeModelLM" } else { "SDARMoeForCausalLM" }], "hidden_act": "silu",
    });
    let mut w = Weights { seed, tensors: Default::default() };
    w.add(if llada2 { "model.word_embeddings.weight" } else { "model.embed_tokens.weight" }, &[vocab, hidden], 0.0, 2.0);
    let mlp = |w: &mut Weights, at: String, size: usize| {
        w.add(format!("{at}.gate_proj.weight"), &[size, hidden], 0.0, 1.0);
        w.add(format!("{at}.up_proj.weight"), &[size, hidden], 0.0, 1.0);
        w.add(format!("{at}.down_proj.weight"), &[hidden, size], 0.0, 1.0);
    };
    for layer in 0..2 {
        let at = format!("model.layers.{layer}");
        w.add(format!("{at}.input_layernorm.weight"), &[hidden], 1.0, 0.4);
        w.add(format!("{at}.post_attention_layernorm.weight"), &[hidden], 1.0, 0.4);
        let (attention, q_norm, k_norm) = match llada2 {
            true => {
                w.add(format!("{at}.attention.query_key_value.weight"), &[(heads + 2 * kv) * dim, hidden], 0.0, 0.8);
                w.add(format!("{at}.attention.dense.weight"), &[hidden, heads * dim], 0.0, 0.8);
                ("attention", "query_layernorm", "key_layernorm")
            }
            false => {
                for (name, n) in [("q", heads), ("k", kv), ("v", kv)] {
                    w.add(format!("{at}.self_attn.{name}_proj.weight"), &[n * dim, hidden], 0.0, 0.8);
                }
                w.add(format!("{at}.self_attn.o_proj.weight"), &[hidden, heads * dim], 0.0, 0.8);
                ("self_attn", "q_norm", "k_norm")
            }
        };
        w.add(format!("{at}.{attention}.{q_norm}.weight"), &[dim], 1.0, 0.4);
        w.add(format!("{at}.{attention}.{k_norm}.weight"), &[dim], 1.0, 0.4);
        if llada2 && layer == 0 {
            mlp(&mut w, format!("{at}.mlp"), dense);
            continue;
        }
        w.add(format!("{at}.mlp.gate.weight"), &[experts, hidden], 0.0, 1.0);
        (0..experts).for_each(|e| mlp(&mut w, format!("{at}.mlp.experts.{e}"), expert));
        if llada2 {
            w.add(format!("{at}.mlp.gate.expert_bias"), &[experts], 0.0, 0.6);
            mlp(&mut w, format!("{at}.mlp.shared_experts"), expert);
        }
    }
    w.add("model.norm.weight", &[hidden], 1.0, 0.4);
    w.add("lm_head.weight", &[vocab, hidden], 0.0, 1.5);
    if llada2 {
        let more = json!({
            "num_shared_experts": 1, "n_group": groups, "topk_group": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
            "partial_rotary_factor": 0.5, "score_function": "sigmoid", "moe_router_enable_expert_bias": true, "router_dtype": "fp32",
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    candle_core::safetensors::save(&w.tensors, folder.path().join("model.safetensors")).unwrap();
    folder
}

fn known_mask() -> Overrides {
    Overrides { mask_token_id: Some(MASK), ..Overrides::default() }
}

/// Three of each layout: few experts and many, one a token and all.
fn models() -> &'static [Arc<Llm>] {
    static MODELS: OnceLock<Vec<Arc<Llm>>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let made = [(1, 2, 1), (2, 5, 3), (3, 8, 4)].into_iter().flat_map(|of| [(true, of), (false, of)]);
        let load = |(llada2, (seed, experts, per_token))| {
            let folder = random_mixture(llada2, seed, experts, per_token);
            Llm::load(folder.path().to_str().unwrap(), &options(), &known_mask()).unwrap()
        };
        made.map(load).collect()
    })
}

const QUIET: Garble = Garble { percent: 0, seed: 0 };

/// The random models are not degenerate: they say different things, and many.
#[test]
fn random_mixtures_have_something_to_say() {
    let block = || BlockDiffusion { block_length: Some(4), ..BlockDiffusion::default() };
    let params = || SamplingParams { max_tokens: 40, ignore_eos: true, ..SamplingParams::default() };
    let said = |llm: &Arc<Llm>| drive(llm, &Decoding::Block(block()), task(vec![5, 6, 7], params(), 3), QUIET).canvas;
    let all: Vec<Vec<u32>> = models().iter().map(said).collect();
    for (i, canvas) in all.iter().enumerate() {
        let different: std::collections::HashSet<_> = canvas.iter().collect();
        assert!(different.len() > 8, "model {i}: {canvas:?}");
        assert!(all[..i].iter().all(|other| other != canvas), "model {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn identical_with_a_draft(
        model in 0usize..6, settings in simsd(), prompt in prompt(), params in params(), seed in 0u64..100, percent in prop_oneof![Just(0u64), 5u64..40]
    ) {
        let llm = &models()[model];
        let task = || task(prompt.clone(), params.clone(), seed);
        let wanted = drive(llm, &Decoding::Block(settings.block.clone()), task(), QUIET);
        let sequential = settings.layout == VerifyLayout::Sequential;
        let found = drive(llm, &Decoding::SimSD(settings), task(), Garble { percent, seed });
        prop_assert_eq!(&found.canvas, &wanted.canvas);
        prop_assert!(sequential || found.passes <= wanted.passes, "{} passes, {} alone", found.passes, wanted.passes);
    }

    #[test]
    fn identical_with_own_guesses(
        model in 0usize..6, block in rule(), blocks in 1usize..4, probes in 0usize..3, prompt in prompt(), params in params(), seed in 0u64..100
    ) {
        let llm = &models()[model];
        let task = || task(prompt.clone(), params.clone(), seed);
        let wanted = drive(llm, &Decoding::Block(block.clone()), task(), QUIET);
        let settings = Lookahead { block, blocks, probes, alternatives: seed % 2 == 0, max_rows: Some(Amount::All), canvas: None };
        let found = drive(llm, &Decoding::Lookahead(settings), task(), QUIET);
        prop_assert_eq!(&found.canvas, &wanted.canvas);
        prop_assert!(found.passes <= wanted.passes, "{} passes, {} alone", found.passes, wanted.passes);
    }
}

/// The mixtures with what drafts for them: themselves, and dense models with the same tokens.
fn pairs() -> Vec<(String, Arc<Llm>)> {
    let itself = |family: &str| {
        let folder = golden_folder(family);
        Llm::load_pair(folder.to_str().unwrap(), &DraftSource::Itself, &options(), &known_mask(), &mut |_, _| true).unwrap()
    };
    let mut pairs = Vec::new();
    for target in ["sdar_moe", "llada2_moe"] {
        pairs.push((format!("{target} for itself"), itself(target)));
        for draft in ["sdar", "sdar_onelayer"] {
            pairs.push((format!("{draft} for {target}"), golden_pair(target, draft).unwrap()));
        }
    }
    // And the other way round.
    pairs.push(("sdar_moe for sdar".into(), golden_pair("sdar", "sdar_moe").unwrap()));
    pairs
}

fn block(strategy: Strategy) -> BlockDiffusion {
    let threshold = (strategy == Strategy::LowConfidenceDynamic).then_some(0.2);
    BlockDiffusion { block_length: Some(4), strategy, threshold, ..BlockDiffusion::default() }
}

fn request(i: usize, temperature: f32, decoding: Decoding) -> Request {
    let prompt = (0..3 + 2 * i as u32).map(|p| (p * 37 + 11) % 300).collect();
    let params = SamplingParams { max_tokens: 19, temperature, ignore_eos: true, seed: Some(5), ..SamplingParams::default() };
    Request { prompt, params, decoding: Some(decoding) }
}

/// Every layout with every acceptance that it can have, for every reveal rule: each alone as in the batch of all, `identical` as the target alone.
#[test]
fn every_layout_and_acceptance() {
    let arranged = [
        (VerifyLayout::States, Acceptance::Identical),
        (VerifyLayout::Sequential, Acceptance::Identical),
        (VerifyLayout::States, Acceptance::Greedy),
        (VerifyLayout::Sequential, Acceptance::Greedy),
        (VerifyLayout::Paired, Acceptance::Greedy),
        (VerifyLayout::NoLeak, Acceptance::Greedy),
        (VerifyLayout::States, Acceptance::Rejection),
        (VerifyLayout::Sequential, Acceptance::Rejection),
        (VerifyLayout::Paired, Acceptance::Rejection),
        (VerifyLayout::NoLeak, Acceptance::Rejection),
    ];
    let strategies =
        [Strategy::Sequential, Strategy::LowConfidenceStatic, Strategy::LowConfidenceDynamic, Strategy::EntropyBounded, Strategy::Margin];
    let one = |llm: &Arc<Llm>, request: Request| llm.generate(vec![request], |_, _| true).unwrap().remove(0);
    for (name, llm) in pairs() {
        let mut requests = Vec::new();
        let mut wanted: Vec<Option<Output>> = Vec::new();
        for (i, (layout, accept)) in arranged.into_iter().enumerate() {
            for (j, strategy) in strategies.into_iter().enumerate() {
                let temperature = [0.0, 0.8][(i + j) % 2];
                let settings = SimSD { block: block(strategy), layout, accept, ..SimSD::default() };
                requests.push(request(j, temperature, Decoding::SimSD(settings)));
                let alone = || one(&llm, request(j, temperature, Decoding::Block(block(strategy))));
                wanted.push((accept == Acceptance::Identical).then(alone));
            }
        }
        let s2d2 = |strategy| request(2, 0.0, Decoding::S2D2(S2D2 { block: block(strategy), ..S2D2::default() }));
        requests.extend(strategies.map(s2d2));
        wanted.resize(requests.len(), None);
        let together = llm.generate(requests.clone(), |_, _| true).unwrap();
        for ((asked, wanted), found) in requests.into_iter().zip(wanted).zip(&together) {
            let settings = format!("{name}: {:?}", asked.decoding);
            assert_eq!(found.token_ids.len(), 19, "{settings}");
            assert_eq!(one(&llm, asked).canvas_token_ids, found.canvas_token_ids, "{settings}: alone");
            if let Some(wanted) = wanted {
                assert_eq!(found.canvas_token_ids, wanted.canvas_token_ids, "{settings}: as the target alone");
            }
        }
        let rounds: usize = together.iter().map(|output| output.stats.speculation.rounds).sum();
        assert!(rounds > 100, "{name}: {rounds} rounds");
    }
}

/// States are exact in a mixture as anywhere: greedy in the draft's order is the same with one pass for all states and with a pass for each.
#[test]
fn states_are_the_sequential_ones() {
    for (name, llm) in pairs() {
        let run = |layout| {
            let settings = SimSD { block: block(Strategy::LowConfidenceStatic), layout, accept: Acceptance::Greedy, ..SimSD::default() };
            let requests = (0..4).map(|i| request(i, 0.0, Decoding::SimSD(settings.clone()))).collect();
            llm.generate(requests, |_, _| true).unwrap().into_iter().map(|o| o.canvas_token_ids).collect::<Vec<_>>()
        };
        assert_eq!(run(VerifyLayout::States), run(VerifyLayout::Sequential), "{name}");
    }
}

/// A draft that is its target is never wrong, whatever experts are chosen for the rows of the one or the other.
#[test]
fn a_mixture_accepts_its_own_draft_whole() {
    for (name, llm) in pairs().into_iter().filter(|(name, _)| name.contains("itself")) {
        let settings = SimSD { block: block(Strategy::LowConfidenceStatic), own_guesses: false, ..SimSD::default() };
        let output = llm.generate(vec![request(1, 0.0, Decoding::SimSD(settings))], |_, _| true).unwrap().remove(0);
        let tally = output.stats.speculation;
        assert_eq!((tally.accepted, tally.wasted, tally.corrections), (tally.drafted, 0, 0), "{name}");
        assert!(tally.drafted > 10, "{name}");
    }
}

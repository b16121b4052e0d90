//! Mixtures of experts: rows do not depend on what else is in the batch or on threads, experts that nobody chose are not read, and fused
//! experts are the same model.

use std::sync::Arc;

use dlmrs::cache::KvCache;
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::{Backend, Llm, LoadOptions, Overrides};

use crate::common::{cases, folder, ids};

/// With what a row sees, the experts of a layer, those of a token, and the mixture layers.
const MIXTURES: [(&str, Sees, usize, usize, usize); 4] = [
    ("sdar_moe", Sees::Blocks(4), 12, 3, 3),
    ("llada_moe", Sees::Full, 12, 3, 3),
    ("rnd1", Sees::Full, 12, 3, 2),
    ("llada2_moe", Sees::Blocks(4), 16, 4, 2),
];

pub(crate) fn load_at(path: &str, threads: usize) -> Arc<Llm> {
    let options = LoadOptions { device: "cpu".into(), backend: Backend::Kernels, threads: Some(threads), ..LoadOptions::default() };
    Llm::load(path, &options, &Overrides { mask_token_id: Some(317), ..Overrides::default() }).unwrap()
}

fn load(family: &str, threads: usize) -> Arc<Llm> {
    load_at(folder(family).to_str().unwrap(), threads)
}

fn pass(tokens: &[u32], sees: &Sees) -> Pass {
    let n = tokens.len() as u32;
    Pass {
        tokens: tokens.to_vec(),
        positions: (0..n).collect(),
        base: 0,
        sees: sees.clone(),
        keep: Keep::Nothing,
        read: (0..n).collect(),
        tap: None,
    }
}

fn run(llm: &Llm, passes: Vec<Pass>) -> Vec<Vec<f32>> {
    let mut caches: Vec<KvCache> = passes.iter().map(|_| llm.model().new_cache()).collect();
    let mut passes: Vec<_> = passes.into_iter().zip(&mut caches).collect();
    llm.model().forward(&mut passes).unwrap().rows().unwrap()
}

#[test]
fn rows_are_equal_to_the_bit_alone_batched_and_with_any_threads() {
    for (family, sees, ..) in MIXTURES {
        let cases: Vec<_> = cases(family, "cases.json", "forward").iter().map(|c| ids(&c["input_ids"])).collect();
        let one = load(family, 1);
        let alone: Vec<Vec<f32>> = cases.iter().flat_map(|tokens| run(&one, vec![pass(tokens, &sees)])).collect();
        for threads in 1..=3 {
            let llm = load(family, threads);
            let batch = run(&llm, cases.iter().map(|tokens| pass(tokens, &sees)).collect());
            assert!(batch == alone, "{family}, {threads} threads");
            // Which rows are read narrows the last layer.
            let mut few = pass(&cases[2], &sees);
            few.read = vec![7, 30];
            let rows = run(&llm, vec![few]);
            let from = cases[0].len() + cases[1].len();
            assert!(rows[0] == alone[from + 7] && rows[1] == alone[from + 30], "{family}, {threads} threads");
        }
    }
}

#[test]
fn an_expert_is_read_once_for_all_its_rows_and_not_at_all_without() {
    for (family, sees, experts, per_token, layers) in MIXTURES {
        let llm = load(family, 2);
        let reads = |passes| {
            let before = llm.model().expert_reads();
            run(&llm, passes);
            (llm.model().expert_reads() - before) as usize
        };
        let one = pass(&[5], &sees);
        assert_eq!(reads(vec![one.clone()]), layers * per_token, "{family}: one row");
        assert_eq!(reads(vec![one.clone(), one.clone(), one]), layers * per_token, "{family}: the same row three times");
        let many: Vec<u32> = (0..64).map(|i| i * 37 % 300).collect();
        let all = reads(vec![pass(&many, &sees)]);
        assert!(all > layers * per_token && all <= layers * experts, "{family}: {all} reads");
    }
}

/// What is counted is what matters: an expert's weights have an effect on a forward if and only if they are among its reads. Each expert in turn
/// gets other weights, and the logits change for exactly as many as were read.
#[test]
fn reads_are_the_experts_that_have_an_effect() {
    for (family, sees, _, per_token, layers) in MIXTURES {
        let llm = load(family, 2);
        let tensors = candle_core::safetensors::load(folder(family).join("model.safetensors"), &candle_core::Device::Cpu).unwrap();
        let downs: Vec<&String> = tensors.keys().filter(|name| name.contains(".experts.") && name.contains("down_proj")).collect();
        let passes = [pass(&[5], &sees), pass(&[5, 9, 200, 31], &sees)];
        let mut effects = [0; 2];
        let plain = passes.clone().map(|pass| {
            let before = llm.model().expert_reads();
            let rows = run(&llm, vec![pass]);
            (rows, llm.model().expert_reads() - before)
        });
        for name in downs {
            let mut changed = tensors.clone();
            changed.insert(name.clone(), (&tensors[name] * 3.0).unwrap());
            let copy = tempfile::tempdir().unwrap();
            std::fs::copy(folder(family).join("config.json"), copy.path().join("config.json")).unwrap();
            candle_core::safetensors::save(&changed, copy.path().join("model.safetensors")).unwrap();
            let other = load_at(copy.path().to_str().unwrap(), 2);
            for ((pass, (rows, _)), effects) in passes.iter().zip(&plain).zip(&mut effects) {
                *effects += u64::from(run(&other, vec![pass.clone()]) != *rows);
            }
        }
        assert_eq!(plain.each_ref().map(|(_, reads)| *reads), effects, "{family}");
        assert_eq!(effects[0] as usize, layers * per_token, "{family}");
        assert!(effects[1] > effects[0] && effects[1] as usize <= 4 * layers * per_token, "{family}: {effects:?}");
    }
}

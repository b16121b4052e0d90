//! Bad input: one clear sentence that names the thing.

use std::path::Path;
use std::sync::Arc;

use dlmrs::decode::{Canvas, Decoding, Lookahead, S2D2, SimSD, SubBlockDiffusion};
use dlmrs::{Backend, BlockDiffusion, DraftSource, Error, Llm, LoadOptions, Overrides, Request};

use crate::common::{MASK, folder, load, load_with, params};

fn refused(llm: &Arc<Llm>, decoding: Decoding, name: &str, says: &str) {
    match llm.engine().submit(Request { prompt: vec![1, 2, 3], params: params(8), decoding: Some(decoding) }) {
        Err(Error::Input { name: found, message }) => {
            assert_eq!(found, name, "{message}");
            assert!(message.contains(says), "{name}: {message}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("{name} was taken"),
    }
}

fn of(change: impl Fn(&mut SubBlockDiffusion)) -> Decoding {
    let mut settings = SubBlockDiffusion::default();
    change(&mut settings);
    Decoding::SubBlock(settings)
}

#[test]
fn values() {
    let llm = load();
    for (threshold, says) in [(-0.1, "is -0.1; a number from 0"), (1.5, "is 1.5; a number from 0"), (f32::NAN, "is NaN; a number")] {
        refused(&llm, of(|s| s.threshold = Some(threshold)), "threshold", says);
    }
    refused(&llm, of(|s| s.block_length = Some(0)), "block_length", "is 0; at least 1 is needed");
    refused(&llm, of(|s| s.sub_block = Some(0)), "sub_block", "is 0; at least 1 is needed");
    refused(&llm, of(|s| s.block_length = Some(2048)), "block_length", "is 2048, but the model takes at most 1024");
}

#[test]
fn a_sub_block_divides_its_block() {
    let llm = load();
    for wrong in [3, 5, 16] {
        refused(&llm, of(|s| s.sub_block = Some(wrong)), "sub_block", "does not divide the block length 8");
    }
    let both = of(|s| (s.block_length, s.sub_block) = (Some(12), Some(8)));
    refused(&llm, both.clone(), "sub_block", "is 8, which does not divide the block length 12");
    assert!(both.validate().is_err(), "no model is needed to see it");
    assert!(of(|s| s.sub_block = Some(3)).validate().is_ok(), "which block it is about is not known yet");
}

#[test]
fn settings_without_effect() {
    let llm = load();
    refused(&llm, of(|s| (s.sub_block, s.threshold) = (Some(1), Some(0.5))), "threshold", "no effect with sub-blocks of one slot");
    for (sub_block, has) in [(Some(1), "it has 1"), (Some(8), "it has 8"), (None, "it has 8")] {
        let cached = of(|s| (s.sub_block, s.sub_block_cache) = (sub_block, true));
        refused(&llm, cached, "sub_block_cache", "more than one slot and less than the 8 of the block");
        refused(&llm, of(|s| (s.sub_block, s.sub_block_cache) = (sub_block, true)), "sub_block_cache", has);
    }
}

#[test]
fn other_ways_of_decoding_are_not_for_this_model() {
    let llm = load();
    let others = [
        Decoding::Block(BlockDiffusion::default()),
        Decoding::Canvas(Canvas::default()),
        Decoding::Lookahead(Lookahead::default()),
        Decoding::SimSD(SimSD::default()),
        Decoding::S2D2(S2D2::default()),
    ];
    for other in others {
        let says = format!("is {}, but fast_dllm_v2 is block-causal, its predictions shifted by one; use SubBlockDiffusion", other.name());
        refused(&llm, other, "decoding", &says);
    }
}

#[test]
fn this_way_is_not_for_other_models() {
    for (family, says) in [
        ("sdar", "is SubBlockDiffusion, but sdar is block-causal, its predictions not shifted; use BlockDiffusion"),
        ("llada2_moe", "is SubBlockDiffusion, but llada2_moe is block-causal, its predictions not shifted; use BlockDiffusion"),
        ("llada", "is SubBlockDiffusion, but llada is bidirectional; use Canvas"),
        ("dream", "is SubBlockDiffusion, but dream is bidirectional; use Canvas"),
    ] {
        let llm = load_with(&folder(family), Backend::Kernels, 1, MASK);
        refused(&llm, of(|_| {}), "decoding", says);
    }
}

#[test]
fn a_draft_model_is_of_no_use() {
    let path = |folder: &Path| folder.to_str().unwrap().to_string();
    let options = LoadOptions { device: "cpu".into(), threads: Some(1), ..LoadOptions::default() };
    let overrides = Overrides { mask_token_id: Some(MASK), ..Overrides::default() };
    let name = path(&folder("fast_dllm_v2"));
    let other = DraftSource::Model { name: name.clone(), options: options.clone() };
    for draft in [DraftSource::Itself, other] {
        let error = Llm::load_pair(&name, &draft, &options, &overrides, &mut |_, _| true).err().unwrap().to_string();
        assert!(error.contains("draft: needs a target whose predictions are not shifted, and those of fast_dllm_v2 are"), "{error}");
    }
}

//! The same tokens in the same number of passes as the slow obvious version, on random models.

use dlmrs::{Output, SamplingParams};
use proptest::prelude::*;

use crate::common::{one, params, request, settings};
use crate::random::{MASK, VOCAB, model};
use crate::slow::Asked;

fn run(asked: &Asked, layers: usize, weights: u64, sub_block_cache: bool) -> Output {
    let sampling = SamplingParams { temperature: asked.temperature, seed: Some(asked.seed), ..params(asked.max_tokens) };
    let mut with = settings(asked.sub_block, asked.threshold);
    with.sub_block_cache = sub_block_cache;
    if asked.sub_block == 1 {
        with.threshold = None; // it would have no effect
    }
    one(&model(layers, asked.block, weights), request(&asked.prompt, sampling, with))
}

fn prompts(masks: u32) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(prop_oneof![6 => 0u32..VOCAB as u32 - 1, masks => Just(MASK)], 1..30)
}

/// B and a sub-block that divides it.
fn lengths() -> impl Strategy<Value = (usize, usize)> {
    (1usize..5, 1usize..5).prop_map(|(sub_blocks, sub_block)| (sub_blocks * sub_block, sub_block))
}

fn thresholds() -> impl Strategy<Value = f32> {
    prop_oneof![0.02f32..0.6, Just(0.0), Just(1.0)]
}

fn temperatures() -> impl Strategy<Value = f32> {
    prop_oneof![2 => Just(0.0f32), 1 => 0.3f32..1.5]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn without_the_sub_block_cache_it_is_the_obvious_version(
        prompt in prompts(1), (block, sub_block) in lengths(), threshold in thresholds(), temperature in temperatures(),
        max_tokens in 0usize..24, weights in any::<u64>(), seed in any::<u64>(), layers in 1usize..4,
    ) {
        let asked = Asked { prompt, max_tokens, block, sub_block, threshold, temperature, seed, mask: MASK };
        let found = run(&asked, layers, weights, false);
        let (canvas, passes) = asked.run(&model(layers, block, weights));
        prop_assert_eq!(&found.canvas_token_ids, &canvas);
        prop_assert_eq!(found.stats.total_passes(), passes);
        prop_assert!(found.token_ids.len() == max_tokens && canvas[asked.prompt.len()..].starts_with(&found.token_ids));
    }

    #[test]
    fn with_it_a_pass_sees_the_rest_of_the_block_as_it_was(
        prompt in prompts(1), block in 2usize..5, sub_block in 2usize..5, threshold in 0.02f32..0.6, temperature in temperatures(),
        max_tokens in 1usize..24, weights in any::<u64>(), seed in any::<u64>(),
    ) {
        let asked = Asked { prompt, max_tokens, block: block * sub_block, sub_block, threshold, temperature, seed, mask: MASK };
        let found = run(&asked, 3, weights, true);
        let (canvas, passes) = asked.run_cached(&model(3, asked.block, weights));
        prop_assert_eq!(&found.canvas_token_ids, &canvas);
        prop_assert_eq!(found.stats.total_passes(), passes);
    }

    /// Keys and values of the first layer depend on their own token alone, so with one layer nothing is ever stale.
    #[test]
    fn with_one_layer_the_sub_block_cache_is_exact(
        prompt in prompts(1), block in 2usize..5, sub_block in 2usize..5, threshold in 0.02f32..0.6, max_tokens in 1usize..24,
        weights in any::<u64>(),
    ) {
        let (block, temperature) = (block * sub_block, 0.0);
        let asked = Asked { prompt, max_tokens, block, sub_block, threshold, temperature, seed: 1, mask: MASK };
        let (exact, cached) = (run(&asked, 1, weights, false), run(&asked, 1, weights, true));
        prop_assert_eq!(&exact.canvas_token_ids, &cached.canvas_token_ids);
        prop_assert_eq!(exact.stats.total_passes(), cached.stats.total_passes());
        prop_assert!(cached.stats.rows.total() <= exact.stats.rows.total());
    }
}

/// The cache is no empty promise: it saves rows, and with several layers it does change tokens somewhere.
#[test]
fn the_sub_block_cache_saves_rows_and_is_approximate() {
    let (mut changed, mut rows) = (0, [0, 0]);
    for weights in 0..12 {
        let prompt = vec![1 + weights as u32, 7, 30];
        let asked = Asked { prompt, max_tokens: 61, block: 16, sub_block: 4, threshold: 1.0, temperature: 0.0, seed: 1, mask: MASK };
        let (exact, cached) = (run(&asked, 3, weights, false), run(&asked, 3, weights, true));
        changed += usize::from(exact.canvas_token_ids != cached.canvas_token_ids);
        assert_eq!(exact.stats.total_passes(), cached.stats.total_passes(), "one token a pass");
        rows[0] += exact.stats.rows.total();
        rows[1] += cached.stats.rows.total();
    }
    assert!(changed > 0, "no text changed");
    assert!(rows[1] < rows[0], "{rows:?}");
}

//! Where a text ends.

use dlmrs::engine::StopCause;
use dlmrs::{FinishReason, Request, SamplingParams};

use crate::common::{QUESTION, block, bundled, canvas, chat, golden, one, params, request};

#[test]
fn a_stop_id_ends_the_text_and_later_blocks_are_never_computed() {
    for (model, decoding) in [("tiny-sdar", block(4)), ("tiny-llada", canvas(8))] {
        let llm = bundled(model);
        let prompt = chat(&llm, QUESTION);
        let out = one(&llm, Request { decoding: decoding.clone(), ..request(prompt.clone(), params(96)) });
        assert_eq!(out.finish_reason, FinishReason::Stop, "{model}");
        assert_eq!(out.stop_cause, Some(StopCause::Token(2)), "{model}: <|im_end|>");
        assert!(out.text.ends_with("#### 47"), "{model}: {}", out.text);
        assert!(!out.token_ids.contains(&2) && out.stats.tokens == out.token_ids.len());
        assert!(out.canvas_token_ids.contains(&3), "{model}: what lies behind was left masked");
        // The same text as a run that never stops, cut at the same place.
        let whole = one(&llm, Request { decoding, ..request(prompt, SamplingParams { ignore_eos: true, ..params(96) }) });
        assert_eq!(whole.finish_reason, FinishReason::Length);
        assert_eq!(whole.token_ids.len(), 96);
        assert_eq!(whole.token_ids[..out.token_ids.len()], out.token_ids[..], "{model}");
        assert_eq!(whole.token_ids[out.token_ids.len()], 2);
        assert!(whole.stats.total_passes() > out.stats.total_passes());
    }
}

#[test]
fn stop_strings_cut_the_text_and_may_cross_tokens() {
    let llm = bundled("tiny-sdar");
    let prompt = chat(&llm, QUESTION);
    let whole = one(&llm, request(prompt.clone(), params(96)));
    for (stop, nth) in [("####", 0), ("cost 6", 0), ("dollar nonsense", usize::MAX), (". The", 0)] {
        let with = SamplingParams { stop: vec!["never there".into(), stop.into()], ..params(96) };
        let out = one(&llm, request(prompt.clone(), with));
        match whole.text.match_indices(stop).nth(nth) {
            Some((at, _)) => {
                assert_eq!(out.text, whole.text[..at], "{stop}");
                assert_eq!(out.stop_cause, Some(StopCause::Text(stop.into())));
                let kept = llm.tokenizer().unwrap().decode(&out.token_ids, true).unwrap();
                assert!(kept.starts_with(&out.text), "{kept:?} {:?}", out.text);
                assert!(out.token_ids.len() < whole.token_ids.len());
            }
            None => assert_eq!(out.text, whole.text),
        }
    }
}

#[test]
fn max_tokens_is_a_cap_exactly() {
    for (model, decoding) in [("tiny-sdar", block(4)), ("tiny-llada", canvas(8))] {
        let llm = bundled(model);
        let prompt = chat(&llm, QUESTION);
        for max_tokens in [0, 1, 3, 4, 5, 13] {
            let out = one(&llm, Request { decoding: decoding.clone(), ..request(prompt.clone(), params(max_tokens)) });
            assert_eq!(out.token_ids.len(), max_tokens, "{model}");
            assert_eq!(out.finish_reason, FinishReason::Length);
            assert_eq!(out.stop_cause, None);
            assert_eq!(out.text, llm.tokenizer().unwrap().decode(&out.token_ids, true).unwrap());
            assert!(max_tokens > 0 || out.stats.total_passes() == 0);
        }
    }
}

#[test]
fn no_stop_before_min_tokens() {
    let llm = bundled("tiny-sdar");
    let prompt = chat(&llm, QUESTION);
    let short = one(&llm, request(prompt.clone(), params(96)));
    let min_tokens = short.token_ids.len() + 10;
    let long = one(&llm, request(prompt.clone(), SamplingParams { min_tokens, ..params(96) }));
    assert!(long.token_ids.len() >= min_tokens && !long.token_ids[..min_tokens].iter().any(|id| [0, 2].contains(id)));
    let stop = SamplingParams { stop: vec!["The".into()], min_tokens: 5, ..params(40) };
    let out = one(&llm, request(prompt, stop));
    assert!(out.token_ids.len() >= 5, "{}", out.text);
}

#[test]
fn a_block_larger_than_the_generation_is_computed_whole_and_cut() {
    let llm = golden("sdar");
    let out = one(&llm, Request { decoding: block(16), ..request(vec![1, 2, 3], SamplingParams { ignore_eos: true, ..params(5) }) });
    assert_eq!((out.token_ids.len(), out.canvas_token_ids.len()), (5, 16));
    assert!(out.warnings[0].contains("block_length 16 differs from 4"), "{:?}", out.warnings);
    assert!(one(&llm, Request { decoding: block(4), ..request(vec![1, 2, 3], params(5)) }).warnings.is_empty());
}

#[test]
fn a_mask_in_the_prompt_holds_a_stop_back_until_it_is_filled() {
    for (family, decoding) in [("sdar", block(4)), ("llada", canvas(8)), ("dream", canvas(8))] {
        let llm = golden(family);
        let prompt = vec![5, 317, 7, 8, 9, 317, 11];
        let out = one(&llm, Request { decoding, ..request(prompt.clone(), params(12)) });
        for (place, id) in prompt.iter().enumerate() {
            match id {
                317 => assert_ne!(out.canvas_token_ids[place], 317, "{family}"),
                id => assert_eq!(out.canvas_token_ids[place], *id, "{family}: the prompt is never touched"),
            }
        }
        assert_eq!(out.prompt_token_ids, prompt);
    }
}

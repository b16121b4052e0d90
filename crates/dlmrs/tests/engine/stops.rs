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

/// Slots of the prompt may hold a stop id: only `min_tokens` bans them, and only in the answer.
#[test]
fn masks_of_a_prompt_may_be_filled_with_stop_ids() {
    for model in ["tiny-sdar", "tiny-llada"] {
        let llm = bundled(model);
        let prompt = [chat(&llm, QUESTION), vec![3; 60]].concat();
        let out = one(&llm, request(prompt.clone(), params(0)));
        let free = one(&llm, request(prompt, SamplingParams { ignore_eos: true, ..params(0) }));
        assert_eq!(out.canvas_token_ids, free.canvas_token_ids, "{model}");
        assert!(out.canvas_token_ids[out.canvas_token_ids.len() - 8..].iter().any(|id| [0, 2].contains(id)), "{model}");
    }
}

/// Random stop strings against decoding the whole and searching in it, at every block length; and what is committed adds up.
#[test]
fn stop_strings_against_a_plain_search() {
    use dlmrs::Event;
    for temperature in [0.0, 1.5] {
        let llm = bundled("tiny-sdar");
        let tokenizer = llm.tokenizer().unwrap();
        for (seed, block_length) in [1, 2, 3, 4, 7, 16].into_iter().cycle().take(48).enumerate() {
            let free = SamplingParams { temperature, seed: Some(seed as u64), ignore_eos: true, ..params(48) };
            let r = |params| Request { decoding: block(block_length), ..request(chat(&llm, QUESTION), params) };
            let whole = one(&llm, r(free.clone()));
            let chars: Vec<char> = whole.text.chars().collect();
            let from = seed * 7 % (chars.len() - 6);
            let mut stop: String = chars[from..from + 1 + seed % 5].iter().collect();
            if seed % 3 == 0 {
                stop.push('@'); // begins, and then is not there
            }
            let with = SamplingParams { ignore_eos: false, stop: vec![stop.clone()], ..free };
            let (mut text, mut tokens) = (String::new(), Vec::new());
            let mut requests = vec![r(with)];
            let out = llm
                .generate(std::mem::take(&mut requests), |_, event| {
                    if let Event::Committed { text: piece, token_ids, .. } = event {
                        text += piece;
                        tokens.extend(token_ids);
                    }
                    true
                })
                .unwrap()
                .remove(0);
            assert_eq!((&text, &tokens), (&out.text, &out.token_ids), "what is committed adds up, stop {stop:?} at B {block_length}");
            let decoded = tokenizer.decode(&out.token_ids, true).unwrap();
            assert!(decoded.starts_with(out.text.trim_end_matches('\u{FFFD}')), "{decoded:?} {:?}", out.text);
            match out.stop_cause {
                Some(StopCause::Text(found)) => {
                    assert_eq!((&found, whole.text.find(&stop)), (&stop, Some(out.text.len())), "{:?}", whole.text);
                    assert_eq!(out.text, whole.text[..out.text.len()]);
                }
                _ => assert!(!out.text.contains(&stop)),
            }
        }
    }
}

#[test]
fn the_callers_stop_ids_replace_the_checkpoints() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("bundled/tiny-sdar");
    let load = |ids: &[u32]| {
        let overrides = dlmrs::Overrides { stop_token_ids: Some(ids.to_vec()), ..dlmrs::Overrides::default() };
        let options = dlmrs::LoadOptions { device: "cpu".into(), ..dlmrs::LoadOptions::default() };
        dlmrs::Llm::load(folder.to_str().unwrap(), &options, &overrides)
    };
    let plain = bundled("tiny-sdar");
    let answer = one(&plain, request(chat(&plain, QUESTION), params(96)));
    let word = answer.token_ids[5];
    let llm = load(&[word]).unwrap();
    let out = one(&llm, request(chat(&llm, QUESTION), params(96)));
    let first = answer.token_ids.iter().position(|&id| id == word).unwrap();
    assert_eq!((out.token_ids.len(), out.stop_cause), (first, Some(StopCause::Token(word))));
    let never = load(&[]).unwrap();
    assert_eq!(one(&never, request(chat(&never, QUESTION), params(96))).finish_reason, FinishReason::Length);
    let error = load(&[640]).err().unwrap().to_string();
    assert!(error.contains("stop_token_ids") && error.contains("640"), "{error}");
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

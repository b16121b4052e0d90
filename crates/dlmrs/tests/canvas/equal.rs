//! Equalities between whole runs.

use dlmrs::Backend;
use dlmrs::decode::{CacheMode, Canvas, PassKind, Refresh, Suffix, SuffixDropout, WindowTail};

use crate::common::*;

/// The trace holds every probability, so equal traces are equal bits.
fn assert_same(name: &str, a: &dlmrs::Output, b: &dlmrs::Output) {
    assert_eq!(a.canvas_token_ids, b.canvas_token_ids, "{name}: tokens");
    assert_eq!(a.trace, b.trace, "{name}: trace");
}

/// Policies that keep everything equal no policy, in every cache mode.
#[test]
fn keeping_all_equals_no_policy() {
    let sure = Suffix::Dropout(SuffixDropout { window: Some(64), k: Some(3.0), a: Some(226.0), ..SuffixDropout::default() });
    let far = Suffix::WindowTail(WindowTail { window: Some(1000), tail: 0 });
    let tail = Suffix::WindowTail(WindowTail { window: Some(1), tail: 1000 });
    for family in FAMILIES {
        let llm = golden(family);
        for cache in CACHES {
            for threshold in [Some(0.4), None] {
                let run = |suffix: &Suffix| run(&llm, Canvas { threshold, steps: Some(20), ..with(cache, suffix.clone()) });
                let plain = run(&Suffix::Off);
                for suffix in [&Suffix::KeepAll, &sure, &far, &tail] {
                    let kept = run(suffix);
                    assert_same(&format!("{family} {cache:?} {suffix:?}"), &plain, &kept);
                    assert_eq!((kept.stats.rows, kept.stats.passes), (plain.stats.rows, plain.stats.passes));
                }
            }
        }
    }
}

/// Behind the last block there is nothing to drop.
#[test]
fn with_one_block_nothing_is_dropped() {
    for family in FAMILIES {
        let llm = golden(family);
        for cache in CACHES {
            let run = |suffix| one(&llm, request(prompt(9), 16, Canvas { block_length: Some(16), ..with(cache, suffix) }));
            assert_same(family, &run(Suffix::Off), &run(Suffix::DropAll));
            assert_same(family, &run(Suffix::Off), &run(half()));
        }
    }
}

/// Without any suffix a canvas is a chain of canvases of one block each.
#[test]
fn dropping_all_equals_block_after_block() {
    let zero = Suffix::Dropout(SuffixDropout { window: Some(16), a: Some(0.0), ..SuffixDropout::default() });
    for family in FAMILIES {
        let llm = golden(family);
        for cache in CACHES {
            let whole = run(&llm, with(cache, Suffix::DropAll));
            assert_eq!(whole.canvas_token_ids, run(&llm, with(cache, zero.clone())).canvas_token_ids);
            let mut canvas = prompt(9);
            for _ in 0..5 {
                let block = request(canvas, 8, Canvas { block_length: Some(8), ..with(cache, Suffix::Off) });
                canvas = one(&llm, block).canvas_token_ids;
            }
            assert_eq!(canvas, whole.canvas_token_ids, "{family} {cache:?}");
        }
    }
}

/// A cache that is computed anew in every step is none.
#[test]
fn refreshing_every_step_equals_no_cache() {
    for family in FAMILIES {
        let llm = golden(family);
        for suffix in [Suffix::Off, half(), Suffix::DropAll] {
            for threshold in [Some(0.4), None] {
                let plain = run(&llm, Canvas { threshold, steps: Some(20), ..with(CacheMode::None, suffix.clone()) });
                for cache in CACHED {
                    let settings = Canvas { threshold, steps: Some(20), refresh: Refresh::Step, ..with(cache, suffix.clone()) };
                    let fresh = run(&llm, settings);
                    assert_same(&format!("{family} {cache:?}"), &plain, &fresh);
                    assert_eq!(fresh.stats.passes.get(PassKind::Refresh), plain.stats.total_passes());
                    assert_eq!(fresh.stats.rows.total(), plain.stats.rows.total());
                }
            }
        }
    }
}

/// One pass a block is the refresh alone (LLaDA: Dream's decides the first slot only), so all modes are equal.
#[test]
fn one_pass_a_block_is_the_same_in_all_modes() {
    let llm = golden("llada");
    let once = [
        Canvas { steps: Some(5), ..Canvas::default() },
        Canvas { threshold: Some(0.0), ..Canvas::default() },
        Canvas { threshold: Some(-1.0), ..Canvas::default() },
    ];
    for rule in once {
        for suffix in [Suffix::Off, half()] {
            let run = |cache| run(&llm, Canvas { cache, suffix: suffix.clone(), ..rule.clone() });
            let plain = run(CacheMode::None);
            assert_eq!(plain.stats.total_passes(), 5);
            for cache in CACHED {
                let cached = run(cache);
                assert_same(&format!("{cache:?}"), &plain, &cached);
                assert_eq!((cached.stats.total_passes(), cached.stats.passes.get(PassKind::Refresh)), (5, 5));
            }
        }
    }
}

/// A threshold that nothing reaches, a factor next to nothing, and a cap of 1 are the schedule of one token a step.
#[test]
fn one_token_a_step_three_ways() {
    let llm = golden("llada");
    for cache in CACHES {
        for suffix in [Suffix::Off, half()] {
            let run = |rule: Canvas| run(&llm, Canvas { cache, suffix: suffix.clone(), ..rule });
            let fixed = run(Canvas::default());
            assert_eq!((fixed.stats.total_passes(), fixed.stats.revealed), (40, 40));
            for rule in [
                Canvas { threshold: Some(1.5), ..Canvas::default() },
                Canvas { factor: Some(1e-6), ..Canvas::default() },
                Canvas { threshold: Some(0.0), max_reveals: Some(1), ..Canvas::default() },
                Canvas { factor: Some(100.0), max_reveals: Some(1), ..Canvas::default() },
            ] {
                assert_same(&format!("{cache:?} {rule:?}"), &fixed, &run(rule.clone()));
            }
        }
    }
}

/// In the first layer keys and values depend on their own token alone, so that nothing is stale in a model of one layer: no cache, prefix
/// and dual cache agree for every rule, refresh and policy (with Dream no cache differs: there the first slot of a block waits its turn).
#[test]
fn with_one_layer_all_modes_agree() {
    let spotlight = Suffix::Spotlight(dlmrs::decode::Spotlight { distance: 3, count: 5 });
    for family in FAMILIES {
        let llm = one_layer(family);
        for rule in
            [Canvas { threshold: Some(0.2), ..Canvas::default() }, Canvas { steps: Some(20), ..Canvas::default() }, Canvas::default()]
        {
            for suffix in
                [Suffix::Off, half(), Suffix::DropAll, Suffix::WindowTail(WindowTail { window: Some(3), tail: 2 }), spotlight.clone()]
            {
                let run = |cache, refresh| run(&llm, Canvas { cache, refresh, suffix: suffix.clone(), ..rule.clone() });
                let wanted = match family {
                    "llada" => run(CacheMode::None, Refresh::default()),
                    _ => run(CacheMode::Prefix, Refresh::default()),
                };
                for cache in CACHED {
                    for refresh in [Refresh::Blocks(1), Refresh::Blocks(2), Refresh::Blocks(9)] {
                        assert_same(&format!("{family} {cache:?} {refresh:?} {suffix:?}"), &wanted, &run(cache, refresh));
                    }
                }
            }
        }
    }
}

/// And with three layers they do not, or the test before would prove nothing.
#[test]
fn with_three_layers_caches_are_stale() {
    for family in FAMILIES {
        let llm = golden(family);
        let run = |cache, refresh| run(&llm, Canvas { refresh, ..with(cache, Suffix::Off) }).trace;
        let block = Refresh::Blocks(1);
        assert_ne!(run(CacheMode::None, block), run(CacheMode::Prefix, block), "{family}");
        assert_ne!(run(CacheMode::Prefix, block), run(CacheMode::Dual, block), "{family}");
        assert_ne!(run(CacheMode::Dual, block), run(CacheMode::Dual, Refresh::Blocks(3)), "{family}");
    }
}

/// What dropout draws, given as a list, is the same run; and the draw depends on the seed.
#[test]
fn a_draw_is_its_list() {
    for family in FAMILIES {
        let llm = golden(family);
        for cache in CACHES {
            let drawn = run(&llm, with(cache, half()));
            let lists = drawn.trace.as_ref().unwrap().kept_suffix.clone();
            assert_eq!(lists.len(), 5);
            assert!(lists[0].len() > 2 && lists[0].len() < 14 && lists[4].is_empty(), "{lists:?}");
            assert_same(family, &drawn, &run(&llm, with(cache, Suffix::Kept(lists.clone()))));
            let mut other = request(prompt(9), 40, Canvas { block_length: Some(8), ..with(cache, half()) });
            other.params.seed = Some(8);
            assert_ne!(one(&llm, other).trace.unwrap().kept_suffix, lists);
        }
    }
}

/// Alone, in a crowd, in another order, with other threads: the same.
#[test]
fn neither_batch_nor_order_nor_threads_matter() {
    for family in FAMILIES {
        let llm = golden(family);
        let mut requests = Vec::new();
        for (i, cache) in CACHES.into_iter().enumerate() {
            for (j, refresh) in [Refresh::Blocks(1), Refresh::Blocks(2)].into_iter().enumerate() {
                let suffix =
                    [half(), Suffix::Off, Suffix::Spotlight(dlmrs::decode::Spotlight { distance: 2, count: 3 })][(i + j) % 3].clone();
                let refresh = if cache == CacheMode::None { Refresh::Blocks(1) } else { refresh };
                let canvas = Canvas { block_length: Some(8), refresh, ..with(cache, suffix) };
                requests.push(request(prompt(5 + 4 * i + j), 30 + i, canvas.clone()));
                requests.push(request(prompt(5 + 4 * i + j), 30 + i, canvas)); // a twin
            }
        }
        let alone: Vec<_> = requests.iter().map(|r| one(&llm, r.clone())).collect();
        let together = llm.generate(requests.clone(), |_, _| true).unwrap();
        let backwards = llm.generate(requests.iter().rev().cloned().collect(), |_, _| true).unwrap();
        let threads = golden_with(family, 1, Backend::Kernels).generate(requests.clone(), |_, _| true).unwrap();
        for (i, wanted) in alone.iter().enumerate() {
            for found in [&together[i], &backwards[alone.len() - 1 - i], &threads[i]] {
                assert_same(&format!("{family} {i}"), wanted, found);
                assert_eq!(found.stats.rows, wanted.stats.rows);
            }
        }
        for twins in alone.chunks(2) {
            assert_same("twins", &twins[0], &twins[1]);
        }
    }
}

/// Guidance runs over two caches.
#[test]
fn guidance_goes_with_caches() {
    let guided = |cache, refresh, suffix| Canvas { cfg_scale: 0.7, refresh, ..with(cache, suffix) };
    for family in FAMILIES {
        let llm = golden(family);
        for suffix in [Suffix::Off, half()] {
            let plain = run(&llm, guided(CacheMode::None, Refresh::default(), suffix.clone()));
            for cache in CACHED {
                assert_same(family, &plain, &run(&llm, guided(cache, Refresh::Step, suffix.clone())));
            }
        }
        let llm = one_layer(family);
        let [prefix, dual] = CACHED.map(|cache| run(&llm, guided(cache, Refresh::default(), half())));
        assert_same(family, &prefix, &dual);
        assert!(prefix.stats.total_passes() % 2 == 0);
    }
}

/// All masks of a prompt are filled, in every mode; with one layer with the same tokens.
#[test]
fn prompts_with_masks() {
    let mut masked = prompt(20);
    for place in [0, 3, 4, 11, 19] {
        masked[place] = 317;
    }
    for family in FAMILIES {
        for (llm, alike) in [(golden(family), false), (one_layer(family), true)] {
            for suffix in [Suffix::Off, half()] {
                let run = |cache| one(&llm, request(masked.clone(), 20, Canvas { block_length: Some(8), ..with(cache, suffix.clone()) }));
                let found = CACHES.map(run);
                for output in &found {
                    assert!(!output.canvas_token_ids.contains(&317) && output.stats.revealed == 25);
                    assert!(masked.iter().zip(&output.canvas_token_ids).all(|(was, is)| *was == 317 || was == is));
                }
                if alike {
                    assert_same(family, &found[1], &found[2]);
                }
                if alike && family == "llada" {
                    assert_same(family, &found[0], &found[1]);
                }
            }
        }
    }
}

/// Schedules reveal every slot once: more steps than slots, steps that do not divide, a short last block, an answer shorter than a block.
#[test]
fn every_slot_is_revealed_once() {
    for family in FAMILIES {
        let llm = golden(family);
        for cache in CACHES {
            for (length, steps) in [(40, 100), (40, 7), (37, 37), (37, 5), (5, 3), (1, 1), (0, 1)] {
                let settings = Canvas { block_length: Some(8), steps: Some(steps), threshold: None, ..with(cache, half()) };
                let output = one(&llm, request(prompt(3), length, settings));
                assert_eq!((output.stats.revealed, output.token_ids.len()), (length, length), "{family} {cache:?} {length} {steps}");
                assert!(output.stats.total_passes() <= length);
            }
        }
    }
}

/// Above temperature 0 tokens follow softmax(logits / T), and a seed repeats them.
#[test]
fn tokens_are_drawn_from_the_tempered_softmax() {
    let llm = golden("llada");
    let (n, temperature) = (3000u64, 4.0);
    // One step: both slots are decided by the refresh of a dual cache.
    let settings = Canvas { block_length: Some(2), steps: Some(1), threshold: None, ..with(CacheMode::Dual, Suffix::DropAll) };
    let draw = |seed: u64| {
        let mut r = request(prompt(4), 2, settings.clone());
        (r.params.temperature, r.params.seed, r.params.trace) = (temperature, Some(seed), false);
        r
    };
    let outputs = llm.generate((0..n).map(draw).collect(), |_, _| true).unwrap();
    assert_eq!(outputs[5].token_ids, one(&llm, draw(5)).token_ids);
    let mut canvas = prompt(4);
    canvas.extend([317, 317]);
    let logits = llm.logits(&canvas, None, None, Some(vec![4])).unwrap().remove(0);
    let most = logits.iter().copied().fold(f32::MIN, f32::max);
    let mut weights: Vec<f64> = logits.iter().map(|l| f64::from((l - most) / temperature).exp()).collect();
    weights[317] = 0.0; // the mask is never drawn
    let total: f64 = weights.iter().sum();
    let mut counts = vec![0f64; logits.len()];
    outputs.iter().for_each(|output| counts[output.token_ids[0] as usize] += 1.0);
    // Chi-square over tokens with at least 8 expected, the others together.
    let (mut chi, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
    for (count, weight) in counts.iter().zip(&weights) {
        let expected = n as f64 * weight / total;
        match expected >= 8.0 {
            true => (chi, cells) = (chi + (count - expected).powi(2) / expected, cells + 1),
            false => rest = (rest.0 + count, rest.1 + expected),
        }
    }
    chi += (rest.0 - rest.1).powi(2) / rest.1.max(1.0);
    // Mean = cells, variance = 2 cells; five standard deviations.
    assert!(cells > 5 && chi < cells as f64 + 5.0 * (2.0 * cells as f64).sqrt(), "{chi} of {cells} cells");
}

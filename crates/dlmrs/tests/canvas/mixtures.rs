//! Mixtures of experts on a canvas: LLaDA-MoE decodes as LLaDA does, with every cache and suffix policy; RND1 by its own schedule, and as Dream does.

use std::sync::Arc;

use dlmrs::decode::{CacheMode, Canvas, DreamAlg, EarlyStop, PassKind, Refresh, Spotlight, Suffix, WindowTail};
use dlmrs::model::RowScan;
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::sample::{Confidence, RowRule, RowStat};
use dlmrs::{Backend, Llm, Output};

use crate::common::*;

const MIXTURES: [&str; 2] = ["llada_moe", "rnd1"];
const MASK: u32 = 317;

fn policies() -> [Suffix; 5] {
    [
        Suffix::Off,
        half(),
        Suffix::DropAll,
        Suffix::WindowTail(WindowTail { window: Some(3), tail: 2 }),
        Suffix::Spotlight(Spotlight { distance: 2, count: 3 }),
    ]
}

fn assert_same(name: &str, a: &Output, b: &Output) {
    assert_eq!(a.canvas_token_ids, b.canvas_token_ids, "{name}: tokens");
    assert_eq!(a.trace, b.trace, "{name}: trace");
}

/// The statistics of these slots, from one pass over these places of the canvas (rising) and nothing cached.
fn look(llm: &Llm, canvas: &[u32], places: &[usize], slots: &[usize], shift: bool, temperature: f32) -> Vec<RowStat> {
    let row_of = |place: usize| places.iter().position(|&p| p == place).unwrap();
    let pass = Pass {
        tokens: places.iter().map(|&p| canvas[p]).collect(),
        positions: places.iter().map(|&p| p as u32).collect(),
        base: 0,
        sees: Sees::Full,
        keep: Keep::Nothing,
        read: slots.iter().map(|&p| row_of(if shift { p.saturating_sub(1) } else { p }) as u32).collect(),
        tap: None,
    };
    let hidden = llm.model().forward(&mut [(pass, &mut llm.model().new_cache())]).unwrap();
    let confidence = if shift { Confidence::Shaped } else { Confidence::Raw };
    let rule = |&p: &usize| RowRule { temperature, confidence, seed: 7, ..RowRule::greedy(MASK, p as u32) };
    let scans: Vec<_> = slots.iter().enumerate().map(|(row, p)| RowScan { row, guide: None, rule: rule(p) }).collect();
    hidden.scan(&scans).unwrap()
}

/// LLaDA's sampler as it is written: block after block, the whole canvas in each pass (but for the masks behind the block that a policy drops),
/// everything at least as sure as `threshold`, or else the surest of each step's share. The canvas and its passes.
fn llada_plainly(llm: &Llm, kept: &[Vec<u32>], threshold: Option<f32>, steps: usize, temperature: f32) -> (Vec<u32>, usize) {
    let (from, slots, length) = (9, 40, 8);
    let mut canvas = prompt(from);
    canvas.resize(from + slots, MASK);
    let mut passes = 0;
    for (block, kept) in kept.iter().enumerate() {
        let end = from + (block + 1) * length;
        let places: Vec<usize> = (0..end).chain(kept.iter().map(|&p| p as usize)).collect();
        let share = steps / (slots / length);
        for step in 0.. {
            let masked: Vec<usize> = (end - length..end).filter(|&p| canvas[p] == MASK).collect();
            if masked.is_empty() {
                break;
            }
            let stats = look(llm, &canvas, &places, &masked, false, temperature);
            passes += 1;
            let mut order: Vec<usize> = (0..masked.len()).collect();
            order.sort_by(|&a, &b| stats[b].probability.total_cmp(&stats[a].probability));
            let n = match threshold {
                Some(threshold) => order.iter().filter(|&&i| stats[i].probability >= threshold).count().max(1),
                None => length / share + usize::from(step < length % share),
            };
            for &i in &order[..n] {
                canvas[masked[i]] = stats[i].token;
            }
        }
    }
    (canvas, passes)
}

#[test]
fn llada_moe_is_the_plain_sampler() {
    let llm = golden("llada_moe");
    for temperature in [0.0, 0.7] {
        // A spotlight's first passes see more than the places that it keeps; with one layer it is compared below.
        for suffix in policies().into_iter().filter(|policy| !matches!(policy, Suffix::Spotlight(_))) {
            for (threshold, steps) in [(Some(0.3), 0), (Some(0.05), 0), (None, 40), (None, 15)] {
                let canvas = Canvas {
                    threshold,
                    steps: (steps > 0).then_some(steps),
                    block_length: Some(8),
                    suffix: suffix.clone(),
                    ..Canvas::default()
                };
                let mut asked = request(prompt(9), 40, canvas);
                asked.params.temperature = temperature;
                let found = one(&llm, asked);
                let name = format!("{suffix:?} {threshold:?} {steps} {temperature}");
                let kept = &found.trace.as_ref().unwrap().kept_suffix;
                let wanted = llada_plainly(&llm, kept, threshold, steps, temperature);
                assert_eq!((found.canvas_token_ids, found.stats.total_passes()), wanted, "{name}");
            }
        }
    }
}

/// RND1's sampler as it is written: after each of n passes but the last `total * step / n` masks of highest entropy stay, the rest is written.
fn rnd1_plainly(llm: &Llm, given: &[u32], slots: usize, steps: usize, temperature: f32) -> (Vec<u32>, usize) {
    let mut canvas = given.to_vec();
    canvas.resize(given.len() + slots, MASK);
    let places: Vec<usize> = (0..canvas.len()).collect();
    let total = canvas.iter().filter(|id| **id == MASK).count();
    let mut passes = 0;
    for step in (0..steps).rev() {
        let masked: Vec<usize> = places.iter().copied().filter(|&p| canvas[p] == MASK).collect();
        let stay = total * step / steps;
        if stay == masked.len() {
            continue; // nothing would change
        }
        let stats = look(llm, &canvas, &places, &masked, true, temperature);
        passes += 1;
        let mut order: Vec<usize> = (0..masked.len()).collect();
        order.sort_by(|&a, &b| stats[a].entropy.total_cmp(&stats[b].entropy));
        for &i in &order[..masked.len() - stay] {
            canvas[masked[i]] = stats[i].token;
        }
    }
    (canvas, passes)
}

#[test]
fn rnd1_is_its_plain_sampler() {
    let llm = golden("rnd1");
    let mut holes = prompt(11);
    (holes[0], holes[4], holes[10]) = (MASK, MASK, MASK);
    for temperature in [0.0, 0.1, 1.2] {
        for (given, slots) in [(prompt(7), 20), (holes.clone(), 17), (prompt(1), 1)] {
            for steps in [1, 3, 7, 16, 20, 50] {
                let mut asked = request(given.clone(), slots, Canvas { steps: Some(steps), ..Canvas::default() });
                asked.params.temperature = temperature;
                let found = one(&llm, asked.clone());
                let wanted = rnd1_plainly(&llm, &given, slots, steps, temperature);
                assert_eq!((&found.canvas_token_ids, found.stats.total_passes()), (&wanted.0, wanted.1), "{steps} {temperature}");
                // It is RND1's own schedule, and anybody may ask for it by name.
                asked.decoding =
                    Some(dlmrs::Decoding::Canvas(Canvas { steps: Some(steps), alg: Some(DreamAlg::EvenEntropy), ..Canvas::default() }));
                assert_same("by name", &found, &one(&llm, asked));
            }
        }
    }
    // Dream's time line spreads its steps otherwise.
    let passes = |alg| one(&llm, request(prompt(7), 20, Canvas { steps: Some(6), alg, ..Canvas::default() })).trace.unwrap().slots;
    assert_ne!(passes(Some(DreamAlg::Entropy)), passes(None));
}

/// RND1 decodes as any canvas too: by threshold, in blocks, with every cache; each is what it should be where something equals it.
#[test]
fn caches_and_policies() {
    for family in MIXTURES {
        let llm = golden(family);
        for suffix in policies() {
            for threshold in [Some(0.4), None] {
                let settings = |cache, refresh| Canvas { threshold, steps: Some(20), refresh, ..with(cache, suffix.clone()) };
                let plain = run(&llm, settings(CacheMode::None, Refresh::default()));
                assert_eq!((plain.stats.revealed, plain.token_ids.len()), (40, 40));
                for cache in CACHED {
                    let name = format!("{family} {cache:?} {suffix:?} {threshold:?}");
                    let fresh = run(&llm, settings(cache, Refresh::Step));
                    assert_same(&name, &plain, &fresh);
                    assert_eq!(fresh.stats.passes.get(PassKind::Refresh), plain.stats.total_passes(), "{name}");
                    for refresh in [Refresh::Blocks(1), Refresh::Blocks(2)] {
                        let cached = run(&llm, settings(cache, refresh));
                        assert_eq!((cached.stats.revealed, cached.canvas_token_ids.contains(&MASK)), (40, false), "{name}");
                        let rows_a_pass = |output: &Output| output.stats.rows.total() as f64 / output.stats.total_passes() as f64;
                        assert!(rows_a_pass(&cached) < rows_a_pass(&fresh), "{name}");
                    }
                }
            }
        }
        // A cache is stale with several layers, or the equalities of one layer below would prove nothing.
        let [none, prefix, dual] = CACHES.map(|cache| run(&llm, with(cache, Suffix::Off)).trace);
        assert!(none != prefix && prefix != dual, "{family}");
    }
}

/// With one layer nothing is stale, so all cache modes are the plain sampler.
#[test]
fn with_one_layer_every_cache_is_exact() {
    let llm = one_layer("llada_moe");
    for suffix in policies() {
        for rule in [Canvas { threshold: Some(0.2), ..Canvas::default() }, Canvas { steps: Some(20), ..Canvas::default() }] {
            let run = |cache, refresh| run(&llm, Canvas { cache, refresh, suffix: suffix.clone(), ..rule.clone() });
            let plain = run(CacheMode::None, Refresh::default());
            for cache in CACHED {
                for refresh in [Refresh::Blocks(1), Refresh::Blocks(3)] {
                    assert_same(&format!("{cache:?} {refresh:?} {suffix:?}"), &plain, &run(cache, refresh));
                }
            }
        }
    }
}

#[test]
fn neither_batch_nor_threads_matter() {
    for family in MIXTURES {
        let llm = golden(family);
        let mut requests = Vec::new();
        for (i, suffix) in policies().into_iter().enumerate() {
            for cache in CACHES {
                let early_stop = [EarlyStop::Strict, EarlyStop::Compat, EarlyStop::Off][i % 3];
                let canvas = Canvas { block_length: Some(8), early_stop, ..with(cache, suffix.clone()) };
                let mut asked = request(prompt(4 + 3 * i), 21 + i, canvas);
                asked.params.ignore_eos = i % 2 == 0;
                requests.push(asked);
            }
        }
        let alone: Vec<Output> = requests.iter().map(|r| one(&llm, r.clone())).collect();
        let together = llm.generate(requests.clone(), |_, _| true).unwrap();
        let one_thread: Arc<Llm> = golden_with(family, 1, Backend::Kernels);
        let single = one_thread.generate(requests.into_iter().rev().collect(), |_, _| true).unwrap();
        for (i, wanted) in alone.iter().enumerate() {
            assert_same(&format!("{family} {i}"), wanted, &together[i]);
            assert_same(&format!("{family} {i} with one thread"), wanted, &single[alone.len() - 1 - i]);
        }
    }
}

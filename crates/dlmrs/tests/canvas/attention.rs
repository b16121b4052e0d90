//! The tap, and the spotlight that goes by it.

use dlmrs::Backend;
use dlmrs::decode::{CacheMode, Spotlight, Suffix, suffix};
use dlmrs::pass::{Bits, Keep, Pass, Sees, Tap};

use crate::common::*;

fn total(row: &[f32]) -> f32 {
    row.iter().sum()
}

/// A row's shares add up to 1, those of keys it does not see are 0, both backends agree, and the logits are what they are without.
#[test]
fn shares_of_attention() {
    let tokens = prompt(12);
    for family in FAMILIES.into_iter().chain(["sdar"]) {
        let mask = Bits::from_fn(12, 12, |row, key| key <= row || key == 11);
        let mut by_backend = Vec::new();
        for backend in [Backend::Kernels, Backend::Plain] {
            let llm = golden_with(family, 2, backend);
            let mass = llm.attention_mass(&tokens, None, Some(mask.clone()), vec![4, 0, 11], (0..12).collect()).unwrap();
            assert_eq!((mass.len(), mass[0].len()), (3, 12));
            assert!(mass.iter().all(|row| (total(row) - 1.0).abs() < 1e-5), "{family} {mass:?}");
            assert!(mass[0][5..11].iter().all(|m| *m == 0.0) && mass[0][..5].iter().all(|m| *m > 0.0) && mass[0][11] > 0.0);
            assert!(mass[2].iter().all(|m| *m > 0.0));
            by_backend.push(mass);
        }
        for (a, b) in by_backend[0].iter().flatten().zip(by_backend[1].iter().flatten()) {
            assert!((a - b).abs() < 1e-4, "{family}");
        }
    }
}

/// A pass over a cache finds the attention that the whole pass finds, and a tap changes no logit.
#[test]
fn a_tap_reaches_into_the_cache() {
    for family in FAMILIES {
        let llm = golden(family);
        let tokens = prompt(14);
        let whole = |tap| Pass {
            tokens: tokens.clone(),
            positions: (0..14).collect(),
            base: 0,
            sees: Sees::Full,
            keep: Keep::Append((0..9).collect()),
            read: (9..14).collect(),
            tap,
        };
        let mut cache = llm.model().new_cache();
        let plain = llm.model().forward(&mut [(whole(None), &mut cache)]).unwrap();
        assert!(plain.tapped(0).is_empty());
        let wanted = llm.attention_mass(&tokens, None, None, vec![9, 13], (0..14).collect()).unwrap();
        let rest = Pass {
            tokens: tokens[9..].to_vec(),
            positions: (9..14).collect(),
            base: 9,
            keep: Keep::Nothing,
            read: (0..5).collect(),
            ..whole(Some(Tap { queries: vec![0, 4], keys: (0..14).collect() }))
        };
        let found = llm.model().forward(&mut [(rest, &mut cache)]).unwrap();
        assert_eq!(found.tapped(0), wanted, "{family}");
        assert!(found.rows().unwrap() == plain.rows().unwrap(), "{family}");
    }
}

#[test]
fn the_most_attention_from_afar_goes() {
    let kept = [20, 22, 23, 27, 30, 31];
    let attention = [9.0, 1.0, 5.0, 7.0, 7.0, 0.5];
    let left = |distance, count| suffix::without_spotlights(&Spotlight { distance, count }, &kept, &attention, 20);
    assert_eq!(left(0, 1), [22, 23, 27, 30, 31], "the mask right behind the block has distance 1");
    assert_eq!(left(1, 1), [20, 22, 23, 30, 31], "the nearer of equals");
    assert_eq!(left(3, 3), [20, 22, 31]);
    assert_eq!(left(100, 3), kept);
    assert_eq!(left(0, 100), [0u32; 0]);
}

/// The first pass of a block sees all masks behind it, later ones do not see those that it drops.
#[test]
fn a_spotlight_drops_what_the_first_pass_looked_at() {
    let policy = Spotlight { distance: 4, count: 3 };
    for family in FAMILIES {
        let llm = golden(family);
        for cache in CACHES {
            let output = run(&llm, with(cache, Suffix::Spotlight(policy)));
            let kept = output.trace.unwrap().kept_suffix;
            assert_eq!(kept.iter().map(Vec::len).collect::<Vec<_>>(), [29, 21, 13, 5, 0], "{family} {cache:?}: the block's 4 nearest stay");
            assert!(kept[..4].iter().enumerate().all(|(b, kept)| kept[..4] == [0, 1, 2, 3].map(|j| 17 + 8 * b as u32 + j)));
            if cache == CacheMode::None {
                let mut canvas = prompt(9);
                canvas.resize(49, 317);
                let mass = llm.attention_mass(&canvas, None, None, (9..17).collect(), (17..49).collect()).unwrap();
                let mean: Vec<f32> = (0..32).map(|key| mass.iter().map(|row| row[key]).sum::<f32>() / 8.0).collect();
                let all: Vec<u32> = (17..49).collect();
                assert_eq!(kept[0], suffix::without_spotlights(&policy, &all, &mean, 17), "{family}");
            }
        }
    }
}

/// In all modes the dropped masks are really gone: with one layer the modes agree, and not with the run that keeps all.
#[test]
fn dropped_masks_are_invisible_in_a_dual_cache() {
    let llm = one_layer("llada");
    let spotlight = Suffix::Spotlight(Spotlight { distance: 1, count: 12 });
    let [none, prefix, dual] = CACHES.map(|cache| run(&llm, with(cache, spotlight.clone())).trace);
    assert_eq!(none, prefix);
    assert_eq!(none, dual);
    assert_ne!(none.unwrap().slots, run(&llm, with(CacheMode::Dual, Suffix::Off)).trace.unwrap().slots);
}

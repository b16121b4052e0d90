//! Attention: right under any sight, and the same for a row wherever it stands.
#![allow(clippy::unwrap_used)]

mod common;

use common::{PLACES, assert_close, assert_same, noise, teams};
use dlmrs_kernels::{AttentionPass, Isa, Sight, Team, attention, attention_reference};
use proptest::prelude::*;

/// A pass that owns its data.
#[derive(Clone)]
struct Case {
    heads: usize,
    kv_heads: usize,
    d: usize,
    cached: usize,
    capacity: usize,
    rows: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    cache_k: Vec<f32>,
    cache_v: Vec<f32>,
    sight: Sight,
}

impl Case {
    fn new(kv_heads: usize, group: usize, d: usize, cached: usize, rows: usize, sight: Sight) -> Case {
        let (heads, capacity) = (kv_heads * group, if cached == 0 { 0 } else { cached + 3 });
        // Large scores, so that the softmax is not flat.
        let q = noise(1, rows * heads * d).iter().map(|q| 4.0 * q).collect();
        let (k, v) = (noise(2, rows * kv_heads * d), noise(3, rows * kv_heads * d));
        let (cache_k, cache_v) = (noise(4, kv_heads * capacity * d), noise(5, kv_heads * capacity * d));
        Case { heads, kv_heads, d, cached, capacity, rows, q, k, v, cache_k, cache_v, sight }
    }

    fn pass(&self) -> AttentionPass<'_> {
        AttentionPass {
            q: &self.q,
            cache_k: &self.cache_k,
            cache_v: &self.cache_v,
            capacity: self.capacity,
            cached: self.cached,
            k: &self.k,
            v: &self.v,
            rows: self.rows,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.d,
            scale: (self.d as f32).powf(-0.5),
            sight: &self.sight,
        }
    }

    fn run(&self, team: &Team) -> Vec<f32> {
        let mut out = vec![f32::NAN; self.q.len()];
        attention(team, &mut [(self.pass(), &mut out)]);
        out
    }

    #[track_caller]
    fn check(&self) {
        let want = attention_reference(&self.pass());
        for team in teams() {
            assert_close(&self.run(&team), &want, 3e-5);
        }
    }
}

/// All rows see all keys.
fn full(cached: usize, rows: usize) -> Sight {
    Sight { class_of_row: vec![0; rows], classes: vec![(0..(cached + rows) as u32).collect()] }
}

/// Classes by chance: each sees some of the keys in some order, one sees nothing.
fn chance(cached: usize, rows: usize, seed: u64) -> Sight {
    let dice: Vec<u32> = noise(seed, rows + 4 * (cached + rows) + 9).iter().map(|x| (x.abs() * 1e6) as u32).collect();
    let class_of_row = dice[..rows].iter().map(|die| die % 4).collect();
    let mut classes = vec![Vec::new()];
    for class in 1..4 {
        let dice = &dice[rows + class * (cached + rows)..][..cached + rows];
        let mut keys: Vec<u32> = (0..).zip(dice).filter(|(_, die)| *die % 3 > 0).map(|(key, _)| key).collect();
        keys.sort_by_key(|key| if class == 1 { *key } else { dice[*key as usize] });
        classes.push(keys);
    }
    Sight { class_of_row, classes }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_the_reference(
        kv_heads in 1usize..4, group in 1usize..6, d in 1usize..70, cached in 0usize..90, rows in 0usize..40, seed: u64
    ) {
        Case::new(kv_heads, group, d, cached, rows, chance(cached, rows, seed)).check();
    }
}

#[test]
fn sizes_at_the_edges() {
    for (kv_heads, group, d, cached, rows) in
        [(1, 1, 1, 0, 1), (2, 1, 128, 0, 65), (1, 40, 16, 0, 3), (2, 4, 80, 700, 4), (1, 8, 33, 64, 1), (3, 2, 48, 128, 17)]
    {
        Case::new(kv_heads, group, d, cached, rows, full(cached, rows)).check();
    }
}

#[test]
fn a_row_that_sees_nothing_gets_zeros() {
    let sight = Sight { class_of_row: vec![0, 1, 0], classes: vec![vec![], vec![1, 0]] };
    let case = Case::new(2, 2, 24, 0, 3, sight);
    case.check();
    for team in teams() {
        let out = case.run(&team);
        assert_same(&out[..4 * 24], &[0.0; 4 * 24]);
        assert_same(&out[8 * 24..], &[0.0; 4 * 24]);
    }
}

#[test]
fn no_rows_and_no_passes() {
    for team in teams() {
        attention(&team, &mut []);
        assert!(Case::new(1, 1, 4, 5, 0, Sight::default()).run(&team).is_empty());
    }
}

/// The row of a case whose only row sees `cached` keys and itself, put among other rows that it does not see.
fn among(alone: &Case, rows: usize, at: usize, together: bool) -> Case {
    let mut keys = alone.sight.classes[0].clone();
    *keys.last_mut().unwrap() += at as u32;
    let mut sight = Sight { class_of_row: vec![0; rows], classes: vec![keys, (0..alone.cached as u32 + 1).rev().collect()] };
    if !together {
        sight.class_of_row = (0..rows).map(|row| u32::from(row != at)).collect();
    }
    let mut case = Case::new(alone.kv_heads, alone.heads / alone.kv_heads, alone.d, alone.cached, rows, sight);
    case.q[at * alone.q.len()..][..alone.q.len()].copy_from_slice(&alone.q);
    case.k[at * alone.k.len()..][..alone.k.len()].copy_from_slice(&alone.k);
    case.v[at * alone.v.len()..][..alone.v.len()].copy_from_slice(&alone.v);
    case
}

#[test]
fn a_row_has_the_same_bits_everywhere() {
    for (group, d, cached) in [(1, 64, 30), (4, 40, 150), (3, 17, 7)] {
        let alone = Case::new(2, group, d, cached, 1, full(cached, 1));
        for isa in Isa::available() {
            let want = alone.run(&Team::with_isa(1, isa).unwrap());
            for threads in [1, 2] {
                let team = Team::with_isa(threads, isa).unwrap();
                for ((rows, at), together) in PLACES.into_iter().flat_map(|place| [(place, true), (place, false)]) {
                    let out = among(&alone, rows, at, together).run(&team);
                    assert_same(&out[at * want.len()..][..want.len()], &want);
                }
            }
        }
    }
}

#[test]
fn a_key_counts_alike_in_the_cache_and_in_the_pass() {
    let (kv_heads, group, d, rows) = (2, 3, 20, 12);
    let pass = Case::new(kv_heads, group, d, 0, rows, full(0, rows));
    // The first 5 rows go to the cache, the last 7 remain.
    let mut split = Case::new(kv_heads, group, d, 5, 7, full(5, 7));
    split.q = pass.q[5 * kv_heads * group * d..].to_vec();
    split.k = pass.k[5 * kv_heads * d..].to_vec();
    split.v = pass.v[5 * kv_heads * d..].to_vec();
    for (g, row) in (0..kv_heads).flat_map(|g| (0..5).map(move |row| (g, row))) {
        let (to, from) = ((g * split.capacity + row) * d, (row * kv_heads + g) * d);
        split.cache_k[to..to + d].copy_from_slice(&pass.k[from..from + d]);
        split.cache_v[to..to + d].copy_from_slice(&pass.v[from..from + d]);
    }
    for team in teams() {
        assert_same(&split.run(&team), &pass.run(&team)[5 * kv_heads * group * d..]);
    }
}

#[test]
fn passes_together_are_as_passes_alone() {
    let cases = [
        Case::new(2, 2, 32, 10, 6, chance(10, 6, 1)),
        Case::new(1, 5, 16, 0, 40, chance(0, 40, 2)),
        Case::new(2, 2, 32, 200, 1, full(200, 1)),
    ];
    for team in teams() {
        let mut outs: Vec<Vec<f32>> = cases.iter().map(|case| vec![f32::NAN; case.q.len()]).collect();
        let mut passes: Vec<_> = cases.iter().zip(&mut outs).map(|(case, out)| (case.pass(), out.as_mut_slice())).collect();
        attention(&team, &mut passes);
        for (case, out) in cases.iter().zip(&outs) {
            assert_same(out, &case.run(&team));
        }
    }
}

#[test]
#[should_panic(expected = "sight.classes")]
fn a_key_that_does_not_exist_is_named() {
    let sight = Sight { class_of_row: vec![0], classes: vec![vec![0, 3]] };
    Case::new(1, 1, 4, 2, 1, sight).run(&Team::new(Some(1)).unwrap());
}

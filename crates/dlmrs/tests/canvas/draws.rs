//! What suffix dropout keeps: expectations against the published numbers, and draws against the expectations.

use dlmrs::decode::suffix::kept;
use dlmrs::decode::{DropoutKind, Suffix, SuffixDropout, WindowTail, preset, presets};

fn gaussian(window: usize, k: f32, a: f32) -> SuffixDropout {
    SuffixDropout { window: Some(window), k: Some(k), a: Some(a), ..SuffixDropout::default() }
}

/// What a whole window keeps on average, its standard deviation, and the first probability, as computed from DPad's settings.
#[test]
fn presets_keep_what_was_published() {
    for (name, kept, deviation, first) in [
        ("llada-instruct-gsm8k", 64.1, 5.3, 0.80),
        ("llada-instruct-math", 64.1, 5.3, 0.80),
        ("llada-instruct-humaneval", 195.8, 8.3, 0.92),
        ("llada-instruct-mbpp", 49.0, 4.1, 0.92),
        ("llada-1.5-gsm8k", 68.1, 6.1, 0.64),
        ("llada-1.5-math", 68.1, 6.1, 0.64),
        ("llada-1.5-humaneval", 34.1, 4.3, 0.64),
        ("llada-1.5-humaneval-parallel", 49.0, 4.1, 0.92),
        ("llada-1.5-mbpp", 136.2, 8.6, 0.64),
        ("llada-1.5-gsm8k-1024", 68.1, 6.1, 0.64),
        ("dream-base-gsm8k", 51.3, 5.3, 0.64),
        ("dream-base-math", 25.7, 3.7, 0.64),
        ("dream-base-humaneval", 49.0, 4.1, 0.92),
        ("dream-base-mbpp", 34.1, 4.3, 0.64),
        ("dream-base-humaneval-long", 49.0, 4.1, 0.92),
    ] {
        let p = preset(name).unwrap().probabilities(1024);
        let sum: f64 = p.iter().sum();
        let variance: f64 = p.iter().map(|p| p * (1.0 - p)).sum();
        assert!((sum - kept).abs() < 0.06, "{name}: {sum}");
        assert!((variance.sqrt() - deviation).abs() < 0.06, "{name}: {}", variance.sqrt());
        assert!((p[0] - first).abs() < 0.006, "{name}: {}", p[0]);
    }
    assert_eq!(presets().len(), 15);
}

/// The mean over the blocks of a whole answer, where the canvas's end cuts the window.
#[test]
fn the_end_of_the_canvas_cuts_the_window() {
    for (name, slots, mean) in [
        ("llada-instruct-gsm8k", 256, 47.1),
        ("llada-instruct-humaneval", 512, 137.9),
        ("llada-instruct-mbpp", 512, 44.1),
        ("llada-1.5-gsm8k", 256, 45.7),
        ("llada-1.5-mbpp", 512, 96.0),
        ("llada-1.5-gsm8k-1024", 1024, 62.5),
        ("dream-base-humaneval-long", 2048, 47.8),
    ] {
        let dropout = preset(name).unwrap();
        let blocks = slots / 32;
        let found = (1..=blocks).map(|b| dropout.expected(slots, slots - 32 * b)).sum::<f64>() / blocks as f64;
        assert!((found - mean).abs() < 0.06, "{name}: {found}");
        assert_eq!(dropout.expected(slots, 0), 0.0);
    }
}

/// The distribution function of the standard normal (Abramowitz and Stegun 26.2.17, to 1e-7).
fn phi(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.2316419 * x);
    let poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    1.0 - (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly
}

#[test]
fn the_sum_is_near_its_closed_form() {
    for (window, k, a) in [(256, 4.0, 2.0), (512, 3.0, 2.3), (128, 3.0, 1.6), (256, 3.0, 3.4), (512, 3.0, 34.9), (256, 3.0, 13.1)] {
        let saturated = if a > 2.5066 { (2.0 * (a / 2.5066f64).ln()).sqrt() } else { 0.0 };
        let closed = (window - 1) as f64 / k * (saturated + a * (phi(k) - phi(saturated)));
        let sum: f64 = gaussian(window, k as f32, a as f32).probabilities(1024).iter().sum();
        assert!((sum / closed - 1.0).abs() < 0.015, "{window} {k} {a}: {sum} {closed}");
    }
}

/// Cells of DPad's ablation of window and budget, k 3: their comments say what they aim at, to a decimal of `a`.
#[test]
fn the_ablation_hits_its_budgets() {
    for (budget, window, a) in
        [(32, 128, 1.6), (64, 128, 3.4), (128, 256, 3.4), (192, 256, 13.1), (256, 512, 3.4), (448, 512, 34.9), (32, 384, 0.6)]
    {
        let sum: f64 = gaussian(window, 3.0, a).probabilities(512).iter().sum();
        assert!((sum / f64::from(budget) - 1.0).abs() < 0.2, "{budget} {window} {a}: {sum}");
        // And a budget that is asked for is met.
        let asked = SuffixDropout { a: None, budget: Some(budget as usize), ..gaussian(window, 3.0, a) };
        let sum: f64 = asked.probabilities(512).iter().sum();
        assert!((sum - f64::from(budget)).abs() < 1e-6, "{budget} {window}: {sum}");
    }
}

const KINDS: [DropoutKind; 5] =
    [DropoutKind::Gaussian, DropoutKind::Uniform, DropoutKind::Exponential, DropoutKind::Linear, DropoutKind::Step];

/// Every curve keeps as many as it is asked for, or as many as the Gaussian would.
#[test]
fn curves_are_matched_by_their_expectation() {
    let own: f64 = gaussian(128, 3.0, 2.3).probabilities(512).iter().sum();
    for kind in KINDS {
        for budget in [5, 40, 100] {
            let dropout = SuffixDropout { window: Some(128), kind, budget: Some(budget), ..SuffixDropout::default() };
            assert!((dropout.expected(512, 512) - budget as f64).abs() < 1e-6, "{kind:?} {budget}");
        }
        let dropout = SuffixDropout { window: Some(128), kind, ..SuffixDropout::default() };
        assert!((dropout.expected(512, 512) - own).abs() < 0.51, "{kind:?}");
        let p = dropout.probabilities(512);
        assert!(p.windows(2).all(|pair| pair[0] >= pair[1]) && p.iter().all(|p| (0.0..=1.0).contains(p)), "{kind:?}");
    }
    let step = SuffixDropout { window: Some(10), kind: DropoutKind::Step, k: Some(4.0), a: Some(0.8), ..SuffixDropout::default() };
    let p = step.probabilities(512);
    assert!((p[4] - 0.8).abs() < 1e-6 && (p[5] - 0.2).abs() < 1e-6);
}

/// Over many blocks each mask is kept as often as its probability says, none beyond the window, and the number that is kept has the
/// right mean: bounds of 5 and 4 standard deviations, seeds fixed.
#[test]
fn draws_follow_the_probabilities() {
    const N: usize = 4000;
    for kind in KINDS {
        let dropout = SuffixDropout { window: Some(48), kind, budget: Some(20), ..SuffixDropout::default() };
        let policy = Suffix::Dropout(dropout);
        let p: Vec<f64> = match kind {
            DropoutKind::Uniform => vec![20.0 / 48.0; 48],
            _ => dropout.probabilities(512),
        };
        let mut counts = vec![0f64; 60];
        let mut sum = 0;
        for n in 0..N {
            let found = kept(&policy, 512, 100 + n as u64 / 50, n % 50, 1000, 1060);
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(kind != DropoutKind::Uniform || found.len() == 20);
            found.iter().for_each(|place| counts[*place as usize - 1000] += 1.0);
            sum += found.len();
        }
        assert!(counts[48..].iter().all(|count| *count == 0.0), "{kind:?}: nothing beyond the window");
        for (j, (count, p)) in counts.iter().zip(&p).enumerate() {
            let deviation = (N as f64 * p * (1.0 - p)).sqrt();
            assert!((count - N as f64 * p).abs() <= 5.0 * deviation + 1e-9, "{kind:?} {j}: {count} of {}", N as f64 * p);
        }
        let variance: f64 = if kind == DropoutKind::Uniform { 0.0 } else { p.iter().map(|p| p * (1.0 - p)).sum() };
        let mean = sum as f64 / N as f64;
        assert!((mean - 20.0).abs() <= 4.0 * (variance / N as f64).sqrt() + 1e-6, "{kind:?}: {mean}");
    }
}

/// A place is drawn by (seed, block, place): another window or another end does not move the others.
#[test]
fn a_place_is_drawn_by_itself() {
    let policy = Suffix::Dropout(gaussian(64, 3.0, 2.0));
    let long = kept(&policy, 512, 5, 2, 100, 400);
    let short = kept(&policy, 512, 5, 2, 100, 120);
    assert_eq!(short, long.iter().copied().filter(|place| *place < 120).collect::<Vec<_>>());
    assert_ne!(long, kept(&policy, 512, 5, 3, 100, 400), "another block");
    assert_ne!(long, kept(&policy, 512, 6, 2, 100, 400), "another seed");
    assert_eq!(long, kept(&policy, 512, 5, 2, 100, 400));
}

#[test]
fn windows_are_cut_and_chosen() {
    let tail = |window, tail| kept(&Suffix::WindowTail(WindowTail { window, tail }), 512, 0, 0, 10, 20);
    assert_eq!(tail(Some(3), 1), [10, 11, 12, 19]);
    assert_eq!(tail(Some(3), 0), [10, 11, 12]);
    assert_eq!(tail(Some(8), 4), (10..20).collect::<Vec<u32>>(), "they overlap");
    assert_eq!(tail(None, 1), (10..20).collect::<Vec<u32>>());
    assert_eq!(kept(&Suffix::DropAll, 512, 0, 0, 10, 20), [0u32; 0]);
    assert_eq!(kept(&Suffix::Off, 512, 0, 0, 20, 20), [0u32; 0]);
    let window = |slots| SuffixDropout::default().window_for(slots);
    assert_eq!([1, 128, 256, 512, 1024, 4096].map(window), [64, 64, 64, 128, 256, 256]);
    let roomy = SuffixDropout { budget: Some(100), ..SuffixDropout::default() };
    assert_eq!(roomy.window_for(256), 100, "a window that is chosen has room for the budget");
    let one = gaussian(1, 3.0, 2.0).probabilities(64);
    assert!(one.len() == 1 && (one[0] - 0.7979).abs() < 1e-3, "a window of one");
}

//! How a property is tried, and what must hold for every error.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmrs::Error;
use peak_alloc::PeakAlloc;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// How often each reader is tried.
pub(crate) const TRIES: u32 = 2000;

/// The same values in the same order each time; `PROPTEST_CASES` says how many.
pub(crate) fn tried<S: Strategy>(strategy: S, test: impl Fn(S::Value) -> TestCaseResult) {
    let cases = std::env::var("PROPTEST_CASES").ok().map_or(TRIES, |cases| cases.parse().expect("PROPTEST_CASES is a number"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(error) = TestRunner::new_with_rng(config, random).run(&strategy, test) {
        panic!("{error}");
    }
}

/// Held by each test from beginning to end, as the allocator sees every thread.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // A panic that the library under test catches may print itself, but a backtrace would take 50 MB.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    one
}

/// The result, and how far the allocations rose above what was there before.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work();
    (result, ALLOCATOR.peak_usage().saturating_sub(before))
}

/// One sentence that names what it is about.
#[track_caller]
pub(crate) fn is_sentence(error: &Error, names: &[&str]) {
    let message = error.to_string();
    assert!(names.iter().any(|name| message.contains(name)), "none of {names:?} is named in: {message}");
    assert!(!message.contains(['\n', '\0']) && message.len() < 5000, "not one sentence: {message}");
}

pub(crate) fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Golden mixtures of experts.
pub(crate) const MIXTURES: [&str; 4] =
    ["../../tests/golden/sdar_moe", "../../tests/golden/llada_moe", "../../tests/golden/llada2_moe", "../../tests/golden/rnd1"];

/// A golden or a bundled checkpoint.
pub(crate) const CHECKPOINTS: [&str; 11] = [
    "../../tests/golden/sdar",
    "../../tests/golden/sdar_tied",
    "../../tests/golden/llada",
    "../../tests/golden/dream",
    "../../tests/golden/fast_dllm_v2",
    "bundled/tiny-sdar-draft",
    "bundled/tiny-llada",
    MIXTURES[0],
    MIXTURES[1],
    MIXTURES[2],
    MIXTURES[3],
];

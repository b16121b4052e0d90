//! Suffix dropout as DPad's scripts set it for each model and task. All decode blocks of 32 greedily, with a threshold of 0.9 where
//! they decode in parallel.

use super::suffix::SuffixDropout;
use crate::error::{Error, Result};

/// Name, window, k, a.
const PRESETS: [(&str, usize, f32, f32); 15] = [
    ("llada-instruct-gsm8k", 256, 4.0, 2.0),
    ("llada-instruct-math", 256, 4.0, 2.0),
    ("llada-instruct-humaneval", 512, 3.0, 2.3),
    ("llada-instruct-mbpp", 128, 3.0, 2.3),
    ("llada-1.5-gsm8k", 256, 3.0, 1.6),
    ("llada-1.5-math", 256, 3.0, 1.6),
    ("llada-1.5-humaneval", 128, 3.0, 1.6),
    ("llada-1.5-humaneval-parallel", 128, 3.0, 2.3),
    ("llada-1.5-mbpp", 512, 3.0, 1.6),
    ("llada-1.5-gsm8k-1024", 256, 3.0, 1.6),
    ("dream-base-gsm8k", 256, 4.0, 1.6),
    ("dream-base-math", 128, 4.0, 1.6),
    ("dream-base-humaneval", 128, 3.0, 2.3),
    ("dream-base-mbpp", 128, 3.0, 1.6),
    ("dream-base-humaneval-long", 128, 3.0, 2.3),
];

/// The published setting of this name.
pub fn preset(name: &str) -> Result<SuffixDropout> {
    match PRESETS.iter().find(|(known, ..)| *known == name) {
        Some(&(_, window, k, a)) => Ok(SuffixDropout { window: Some(window), k: Some(k), a: Some(a), ..SuffixDropout::default() }),
        None => Err(Error::input("preset", format!("'{name}' is unknown; use one of {}", presets().join(", ")))),
    }
}

/// All names.
pub fn presets() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, ..)| *name).collect()
}

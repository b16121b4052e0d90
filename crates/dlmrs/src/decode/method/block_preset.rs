//! Published settings of block diffusion.

use super::{BlockDiffusion, Decoding, Editing};
use crate::error::{Error, Result};

/// A published setting of block diffusion, with editing or without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockPreset {
    /// As it is asked for.
    pub name: &'static str,
    /// Of the reveal rule.
    pub threshold: f32,
    /// The editing threshold, and the passes at most over a block without masks.
    pub editing: Option<(f32, usize)>,
}

/// The first two are the defaults of the generation code of LLaDA2.0 and 2.1, the others what LLaDA2.1's authors recommend.
const PRESETS: [BlockPreset; 4] = [
    BlockPreset { name: "llada2.0", threshold: 0.95, editing: None },
    BlockPreset { name: "llada2.1", threshold: 0.95, editing: Some((0.9, 16)) },
    BlockPreset { name: "llada2.1-quality", threshold: 0.7, editing: Some((0.5, 16)) },
    BlockPreset { name: "llada2.1-speed", threshold: 0.5, editing: None },
];

impl BlockPreset {
    /// The setting of this name.
    pub fn named(name: &str) -> Result<Self> {
        let found = PRESETS.into_iter().find(|preset| preset.name == name);
        found.ok_or_else(|| Error::input("preset", format!("'{name}' is unknown; use one of {}", Self::names().join(", "))))
    }

    /// All names.
    pub fn names() -> [&'static str; 4] {
        PRESETS.map(|preset| preset.name)
    }

    /// Its reveal rule.
    pub fn block(&self) -> BlockDiffusion {
        BlockDiffusion { threshold: Some(self.threshold), ..BlockDiffusion::default() }
    }

    /// The method.
    pub fn decoding(&self) -> Decoding {
        match self.editing {
            Some((editing_threshold, max_post_steps)) => {
                Decoding::Editing(Editing { block: self.block(), editing_threshold, max_post_steps })
            }
            None => Decoding::Block(self.block()),
        }
    }
}

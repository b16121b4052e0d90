//! Settings of caches on a canvas, and of when a canvas is left.

use crate::error::{Error, Result};

/// What of a canvas is taken from a cache after a block's first pass.
///
/// On a bidirectional model every decided slot changes the keys and values of all others, so a cache is stale from the second layer on.
/// Source: Fast-dLLM (arXiv 2505.22618), its prefix cache and its dual cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// Nothing: every pass feeds everything.
    #[default]
    None,
    /// What stands before the block; later passes feed the block and the suffix.
    Prefix,
    /// What stands before and behind the block; later passes feed the block alone.
    Dual,
}

impl CacheMode {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Prefix => "prefix",
            Self::Dual => "dual",
        }
    }
}

impl std::str::FromStr for CacheMode {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "none" => Ok(Self::None),
            "prefix" => Ok(Self::Prefix),
            "dual" => Ok(Self::Dual),
            other => Err(Error::input("cache", format!("'{other}' is unknown; use none, prefix or dual"))),
        }
    }
}

/// When a cache is computed anew. The pass that does it is the first of a block, or every one, and decides slots too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// In every pass: nothing is stale and nothing is saved. The slow form that the others are compared with.
    Step,
    /// At the first block and at every so manieth after it. The first passes of the blocks in between append the finished block's keys
    /// and values, and with a dual cache those of the new suffix.
    Blocks(usize),
}

impl Default for Refresh {
    fn default() -> Self {
        Self::Blocks(1)
    }
}

impl Refresh {
    /// As it is typed.
    pub fn name(self) -> String {
        match self {
            Self::Step => "step".into(),
            Self::Blocks(1) => "block".into(),
            Self::Blocks(n) => n.to_string(),
        }
    }
}

impl std::str::FromStr for Refresh {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "step" => Ok(Self::Step),
            "block" => Ok(Self::Blocks(1)),
            other => match other.parse() {
                Ok(blocks) => Ok(Self::Blocks(blocks)),
                Err(_) => {
                    Err(Error::input("refresh", format!("'{other}' is unknown; use block, step, or a number (every so many blocks)")))
                }
            },
        }
    }
}

/// What a stop id in a canvas does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStop {
    /// The request ends at the first stop id with no mask before it, be it in the middle of a block.
    #[default]
    Strict,
    /// As DPad's code: a finished block with a stop id anywhere in it is the last; the rest of the canvas is filled with that id.
    Compat,
    /// The whole canvas is decided, and the text is cut afterwards.
    Off,
}

impl EarlyStop {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Compat => "compat",
            Self::Off => "off",
        }
    }
}

impl std::str::FromStr for EarlyStop {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "strict" => Ok(Self::Strict),
            "compat" => Ok(Self::Compat),
            "off" => Ok(Self::Off),
            other => Err(Error::input("early_stop", format!("'{other}' is unknown; use strict, compat or off"))),
        }
    }
}

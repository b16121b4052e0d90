//! Settings of suffix policies: which of the masks behind the current block are there at all.

use crate::error::{Error, Result};

/// Which masks behind the current block are fed. Those that are not have no row in any pass of the block; positions stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Suffix {
    /// All of them, always.
    #[default]
    Off,
    /// All of them, through the policy: the corner case that must equal [`Self::Off`].
    KeepAll,
    /// None of them: the block sees what stands before it, and itself.
    DropAll,
    /// A random draw, thinner with distance, anew for each block.
    Dropout(SuffixDropout),
    /// The nearest, and the last.
    WindowTail(WindowTail),
    /// All but those that a block's first pass looks at most from afar.
    Spotlight(Spotlight),
    /// These places of the canvas, a list a block.
    Kept(Vec<Vec<u32>>),
}

/// How the probability that a mask is kept falls with its distance d = j / (window - 1), j = 0 right behind the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DropoutKind {
    /// a * phi(k d), phi the density of the standard normal distribution (DPad's code).
    #[default]
    Gaussian,
    /// Exactly `budget` masks of the window, all equally likely, without replacement.
    Uniform,
    /// a * exp(-k d)
    Exponential,
    /// a * (1 - d)
    Linear,
    /// a in the nearer half of the window, a / k in the other.
    Step,
}

/// Suffix dropout (DPad, arXiv 2508.14148). Values that are not given are chosen: the window from the canvas's length, `a` so that as many
/// masks are kept on average as the Gaussian would keep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SuffixDropout {
    /// Masks behind the block that may be kept. A window beyond the canvas's end is cut there. None: a quarter of the answer's slots,
    /// at least 64 and at most 256.
    pub window: Option<usize>,
    /// Where the window ends on the curve. None: 3 (for `Step` 4).
    pub k: Option<f32>,
    /// Height of the curve; probabilities above 1 count as 1. None: 2.3 for the Gaussian; for the others what `budget` asks for.
    pub a: Option<f32>,
    /// The curve.
    pub kind: DropoutKind,
    /// How many masks a whole window keeps on average (uniform: exactly); settles `a`. None: what the Gaussian of 3 and 2.3 keeps.
    pub budget: Option<usize>,
}

/// The nearest masks and the last ones (Streaming-dLLM, arXiv 2601.17917).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowTail {
    /// So many right behind the block. None: a quarter of the answer's slots, at least 64 and at most 256.
    pub window: Option<usize>,
    /// And so many at the canvas's end.
    pub tail: usize,
}

impl Default for WindowTail {
    fn default() -> Self {
        Self { window: None, tail: 1 }
    }
}

/// DPad's ablation: after a block's first pass the suffix masks that the block's rows give the most attention to, mean over layers, heads
/// and rows, are dropped. It needs attention maps, so the first pass of each block is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spotlight {
    /// Only masks farther from the block than this; the one right behind it has distance 1.
    pub distance: usize,
    /// So many.
    pub count: usize,
}

impl Default for Spotlight {
    fn default() -> Self {
        Self { distance: 128, count: 10 }
    }
}

impl DropoutKind {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::Uniform => "uniform",
            Self::Exponential => "exponential",
            Self::Linear => "linear",
            Self::Step => "step",
        }
    }
}

impl std::str::FromStr for DropoutKind {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        Ok(match s {
            "gaussian" => Self::Gaussian,
            "uniform" => Self::Uniform,
            "exponential" => Self::Exponential,
            "linear" => Self::Linear,
            "step" => Self::Step,
            other => {
                return Err(Error::input("kind", format!("'{other}' is unknown; use gaussian, uniform, exponential, linear or step")));
            }
        })
    }
}

impl Suffix {
    /// Refuses values that are wrong whatever the canvas.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Off | Self::KeepAll | Self::DropAll => Ok(()),
            Self::Dropout(dropout) => dropout.validate(),
            Self::WindowTail(policy) => policy.validate(),
            Self::Spotlight(policy) => policy.validate(),
            Self::Kept(lists) => match lists.iter().position(|list| !list.windows(2).all(|pair| pair[0] < pair[1])) {
                Some(block) => {
                    Err(Error::input("suffix", format!("the places of block {block} do not rise; each is listed once, in order")))
                }
                None => Ok(()),
            },
        }
    }

    /// Refuses lists that do not fit the canvas: `suffixes` are the first place behind each block, `end` is the canvas's end.
    pub(crate) fn fits(&self, suffixes: &[usize], end: usize) -> Result<()> {
        let Self::Kept(lists) = self else { return Ok(()) };
        if lists.len() != suffixes.len() {
            let message = format!("has {} lists, but the canvas has {} blocks; one list a block is needed", lists.len(), suffixes.len());
            return Err(Error::input("suffix", message));
        }
        for (block, (list, &from)) in lists.iter().zip(suffixes).enumerate() {
            if let Some(place) = list.iter().find(|&&place| (place as usize) < from || place as usize >= end) {
                let range = if from == end { "has nothing behind it".into() } else { format!("is followed by {from} to {}", end - 1) };
                return Err(Error::input("suffix", format!("keeps place {place} for block {block}, which {range}")));
            }
        }
        Ok(())
    }
}

impl SuffixDropout {
    /// Refuses values that are wrong whatever the canvas.
    pub fn validate(&self) -> Result<()> {
        window(self.window)?;
        match self.k {
            Some(k) if !(k > 0.0 && k.is_finite()) => return Err(Error::input("k", format!("is {k}; a number above 0 is needed"))),
            Some(_) if matches!(self.kind, DropoutKind::Uniform | DropoutKind::Linear) => return self.useless("k"),
            _ => {}
        }
        match self.a {
            Some(a) if !(a >= 0.0 && a.is_finite()) => {
                return Err(Error::input("a", format!("is {a}; a finite number of at least 0 is needed (0 drops all)")));
            }
            Some(_) if self.kind == DropoutKind::Uniform => return self.useless("a"),
            Some(_) if self.budget.is_some() => return Err(Error::input("budget", "settles a; leave one of them out")),
            _ => {}
        }
        match (self.budget, self.window) {
            (Some(budget), Some(window)) if budget > window => Err(Error::input(
                "budget",
                format!("is {budget}, more than the window of {window} holds; give at most {window}, or a larger window"),
            )),
            _ => Ok(()),
        }
    }

    fn useless(&self, name: &str) -> Result<()> {
        Err(Error::input(name, format!("has no effect with kind=\"{}\"; leave one of them out", self.kind.name())))
    }
}

impl WindowTail {
    fn validate(&self) -> Result<()> {
        window(self.window)
    }
}

impl Spotlight {
    fn validate(&self) -> Result<()> {
        match self.count {
            0 => Err(Error::input("count", "is 0, which drops nothing; at least 1 is needed")),
            _ => Ok(()),
        }
    }
}

fn window(window: Option<usize>) -> Result<()> {
    match window {
        Some(0) => Err(Error::input("window", "is 0; at least 1 is needed (suffix=\"drop_all\" keeps nothing)")),
        _ => Ok(()),
    }
}

//! Which methods a model can be decoded with, and how far each one's tokens can be trusted.

use serde::Serialize;

use super::{
    BlockDiffusion, CacheMode, Canvas, Decoding, Editing, Lookahead, S2D2, SimSD, SubBlockDiffusion, Subject, Suffix, SuffixDropout,
};

/// How a method's tokens relate to those of the model alone, with the same settings and seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Grade {
    /// The same tokens.
    Identical,
    /// Something stale is read, or something left out.
    Approximate,
}

impl Grade {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Approximate => "approximate",
        }
    }
}

/// A way of decoding, with the settings that decide whether a model can have it.
#[derive(Clone, Debug, Serialize)]
pub struct Offer {
    /// As the Python class is called.
    pub method: &'static str,
    /// What is set; empty where all is as by default.
    pub setting: &'static str,
    /// How its tokens relate to those of the model alone.
    pub grade: Grade,
    /// Whether it needs a second model.
    pub needs_draft: bool,
    /// The settings themselves.
    #[serde(skip)]
    pub decoding: Decoding,
}

impl Offer {
    fn new(decoding: Decoding, setting: &'static str, grade: Grade) -> Self {
        let needs_draft = matches!(decoding, Decoding::SimSD(_));
        Self { method: decoding.name(), setting, grade, needs_draft, decoding }
    }

    /// Every one, whatever the model.
    pub fn all() -> Vec<Self> {
        use Grade::{Approximate, Identical};
        let canvas = |canvas: Canvas, setting, grade| Self::new(Decoding::Canvas(canvas), setting, grade);
        vec![
            Self::new(Decoding::Block(BlockDiffusion::default()), "", Identical),
            Self::new(Decoding::Editing(Editing::default()), "editing_threshold=0.9", Identical),
            Self::new(Decoding::Lookahead(Lookahead::default()), "", Identical),
            Self::new(Decoding::SimSD(SimSD::default()), "", Identical),
            Self::new(Decoding::S2D2(S2D2::default()), "", Approximate),
            Self::new(Decoding::SubBlock(SubBlockDiffusion::default()), "", Identical),
            Self::new(
                Decoding::SubBlock(SubBlockDiffusion { sub_block_cache: true, ..SubBlockDiffusion::default() }),
                "sub_block_cache=True",
                Approximate,
            ),
            canvas(Canvas::default(), "", Identical),
            canvas(Canvas { cache: CacheMode::Prefix, ..Canvas::default() }, "cache=\"prefix\"", Approximate),
            canvas(Canvas { cache: CacheMode::Dual, ..Canvas::default() }, "cache=\"dual\"", Approximate),
            canvas(
                Canvas { suffix: Suffix::Dropout(SuffixDropout::default()), ..Canvas::default() },
                "suffix=SuffixDropout()",
                Approximate,
            ),
            Self::new(
                Decoding::Lookahead(Lookahead {
                    canvas: Some(Canvas { cache: CacheMode::Dual, ..Canvas::default() }),
                    ..Lookahead::default()
                }),
                "canvas=Canvas(cache=\"dual\")",
                Approximate,
            ),
        ]
    }

    /// Those that a model can have; what needs a draft model counts as if there were one.
    pub fn of(subject: &Subject<'_>) -> Vec<Self> {
        let subject = Subject { has_draft: true, ..*subject };
        Self::all().into_iter().filter(|offer| offer.decoding.suits(&subject).is_ok()).collect()
    }
}

impl std::fmt::Display for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, setting, grade, .. } = self;
        let call = if setting.is_empty() { (*method).to_string() } else { format!("{method}({setting})") };
        let draft = if self.needs_draft { ", with a draft model" } else { "" };
        write!(f, "{call}: {}{draft}", grade.name())
    }
}

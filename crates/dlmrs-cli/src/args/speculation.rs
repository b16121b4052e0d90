//! Options about speculation: the same text in fewer passes, or nearly the same.

use clap::Args;
use dlmrs::decode::{Amount, CacheMode, estimator};
use dlmrs::speculate::route::{Policy, Score};
use dlmrs::{BlockDiffusion, Canvas, Decoding, Lookahead, S2D2, SimSD};

use crate::failure::Failure;

/// The settings of `simsd`, `lookahead` and `s2d2`. None is the method's own default.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Speculation (SDAR, LLaDA2; LLaDA and Dream: lookahead with --cache dual)")]
pub(crate) struct SpeculationArgs {
    /// How blocks are decided. block: pass by pass (default). lookahead: the model's own guesses judged many at a time, the same tokens; for
    /// a canvas it needs --cache dual.
    /// simsd: guesses of a draft model (--draft), by default the same tokens. s2d2: the model verifies itself from left to right, not the
    /// same tokens
    #[arg(long, value_name = "NAME", value_parser = ["block", "lookahead", "simsd", "s2d2"])]
    method: Option<String>,
    /// lookahead and simsd: blocks that a pass may confirm [default: 2 for lookahead, 1 for simsd]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    blocks: Option<usize>,
    /// lookahead: further blocks, all masked, that ride along to be guessed from [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    probes: Option<usize>,
    /// lookahead and simsd: guesses without the runner-up beside each step: fewer rows, more passes
    #[arg(long)]
    no_alternatives: bool,
    /// lookahead and simsd: rows of guesses in a pass at most; auto goes by what rows cost [default: off, no limit; for a canvas four
    /// copies of a block]
    #[arg(long, value_name = "ROWS", value_parser = amount)]
    max_rows: Option<Amount>,
    /// simsd: slots of a block that a round drafts at most; auto drafts what has paid [default: the whole block]
    #[arg(long, value_name = "N", value_parser = amount)]
    gamma: Option<Amount>,
    /// simsd: passes of the draft model a block at most; the rest is guessed from the last [default: all it takes]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    draft_steps: Option<usize>,
    /// simsd: the draft model's guesses alone, without the target's own
    #[arg(long)]
    no_own_guesses: bool,
    /// simsd: what the target's pass looks like: states (default), paired, no_leak, sequential
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// simsd: when a drafted token stays: identical (default), greedy, rejection
    #[arg(long, value_name = "NAME")]
    accept: Option<String>,
    /// simsd with --layout paired: mask rows stand behind the block instead of at their slots' positions, to see what that is good for
    #[arg(long)]
    unaligned: bool,
    /// simsd: what happens when fewer than --gamma slots are left: draft (default) or target
    #[arg(long, value_name = "NAME")]
    fallback: Option<String>,
    /// simsd: the draft model begins the next round while the target judges this one
    #[arg(long)]
    overlap: bool,
    /// s2d2: what makes a draft stay: greedy (default), paper, exact
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// s2d2: prefix and decided slots see their whole blocks, as in block diffusion, and not their left only
    #[arg(long)]
    block_cache: bool,
    /// s2d2: verify runs of at least so many masked slots [default: 1, always]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min_span: Option<usize>,
    /// s2d2: verify where the score is at least this, in place of --min-span
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, conflicts_with = "min_span")]
    score_threshold: Option<f32>,
    /// s2d2: verify from a score above ON until it falls below OFF, in place of --min-span
    #[arg(long, value_names = ["ON", "OFF"], num_args = 2, allow_negative_numbers = true, conflicts_with_all = ["min_span", "score_threshold"])]
    hysteresis: Option<Vec<f32>>,
    /// s2d2 with a score: how the chance of each draft is estimated [default: soft_entropy_negexp]
    #[arg(long, value_name = "NAME")]
    estimator: Option<String>,
    /// s2d2 with a score: the number of the estimator [default: the reference's]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    estimator_value: Option<f32>,
    /// s2d2 with a score: what a verification costs, in tokens [default: 1]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    penalty: Option<f32>,
    /// s2d2 with a score: the penalty counts once for each draft above the threshold
    #[arg(long)]
    dynamic_score: bool,
}

/// A number, auto or off.
fn amount(text: &str) -> Result<Amount, String> {
    text.parse().map_err(|_| "a number, 'auto' or 'off' is needed".into())
}

/// The options of s2d2 that need a score.
const SCORE: [&str; 4] = ["--estimator", "--estimator-value", "--penalty", "--dynamic-score"];

impl SpeculationArgs {
    /// The first option that was typed and is not `allowed`.
    fn other_than(&self, allowed: &[&str]) -> Option<&'static str> {
        let given = [
            ("--method", self.method.is_some()),
            ("--blocks", self.blocks.is_some()),
            ("--probes", self.probes.is_some()),
            ("--no-alternatives", self.no_alternatives),
            ("--max-rows", self.max_rows.is_some()),
            ("--gamma", self.gamma.is_some()),
            ("--draft-steps", self.draft_steps.is_some()),
            ("--no-own-guesses", self.no_own_guesses),
            ("--layout", self.layout.is_some()),
            ("--accept", self.accept.is_some()),
            ("--unaligned", self.unaligned),
            ("--fallback", self.fallback.is_some()),
            ("--overlap", self.overlap),
            ("--variant", self.variant.is_some()),
            ("--block-cache", self.block_cache),
            ("--min-span", self.min_span.is_some()),
            ("--score-threshold", self.score_threshold.is_some()),
            ("--hysteresis", self.hysteresis.is_some()),
            ("--estimator", self.estimator.is_some()),
            ("--estimator-value", self.estimator_value.is_some()),
            ("--penalty", self.penalty.is_some()),
            ("--dynamic-score", self.dynamic_score),
        ];
        given.into_iter().find(|(option, given)| *given && !allowed.contains(option)).map(|(option, _)| option)
    }

    /// Refuses options that were typed and are not `allowed`.
    fn refuse(&self, allowed: &[&str], because: &str) -> Result<(), Failure> {
        match self.other_than(allowed) {
            Some(option) => Err(Failure::Said(format!("{option} {because}"))),
            None => Ok(()),
        }
    }

    /// The first option that was given.
    pub(super) fn option(&self) -> Option<&'static str> {
        self.other_than(&[])
    }

    /// Canvas diffusion as it was asked for: plain, or with lookahead. All other speculation is for block diffusion.
    pub(super) fn on_canvas(&self, canvas: Canvas, model: &str) -> Result<Decoding, Failure> {
        if self.method.as_deref() != Some("lookahead") {
            self.refuse(&[], &format!("belongs to block diffusion, but {model} decodes by canvas diffusion; leave it out"))?;
            return Ok(Decoding::Canvas(canvas));
        }
        self.refuse(
            &["--method", "--no-alternatives", "--max-rows"],
            "has no meaning for --method lookahead on a canvas, which looks ahead inside a block; leave it out",
        )?;
        if canvas.cache != CacheMode::Dual {
            let message = "--method lookahead needs --cache dual on a canvas, so that a pass feeds a block alone; add it";
            return Err(Failure::Said(message.into()));
        }
        let own = Lookahead::default();
        let lookahead = Lookahead { canvas: Some(canvas), alternatives: !self.no_alternatives, max_rows: self.max_rows, ..own };
        Ok(Decoding::Lookahead(lookahead))
    }

    /// The method that was asked for, with this reveal rule.
    pub(super) fn decoding(&self, block: BlockDiffusion) -> Result<Decoding, Failure> {
        match self.method.as_deref() {
            Some("lookahead") => {
                self.refuse(
                    &["--method", "--blocks", "--probes", "--no-alternatives", "--max-rows"],
                    "has no meaning for --method lookahead; leave it out",
                )?;
                Ok(Decoding::Lookahead(self.lookahead(block)))
            }
            Some("simsd") => {
                let allowed = [
                    "--method",
                    "--blocks",
                    "--no-alternatives",
                    "--max-rows",
                    "--gamma",
                    "--draft-steps",
                    "--no-own-guesses",
                    "--layout",
                    "--accept",
                    "--unaligned",
                    "--fallback",
                    "--overlap",
                ];
                self.refuse(&allowed, "has no meaning for --method simsd; leave it out")?;
                Ok(Decoding::SimSD(self.simsd(block)?))
            }
            Some("s2d2") => {
                let mut allowed = vec!["--method", "--variant", "--block-cache", "--min-span", "--score-threshold", "--hysteresis"];
                allowed.extend(SCORE);
                self.refuse(&allowed, "has no meaning for --method s2d2; leave it out")?;
                Ok(Decoding::S2D2(self.s2d2(block)?))
            }
            _ => {
                self.refuse(&["--method"], "belongs to speculation; add --method lookahead, simsd or s2d2")?;
                Ok(Decoding::Block(block))
            }
        }
    }

    fn lookahead(&self, block: BlockDiffusion) -> Lookahead {
        let own = Lookahead::default();
        Lookahead {
            block,
            blocks: self.blocks.unwrap_or(own.blocks),
            probes: self.probes.unwrap_or(own.probes),
            alternatives: !self.no_alternatives,
            max_rows: self.max_rows,
            ..own
        }
    }

    fn simsd(&self, block: BlockDiffusion) -> Result<SimSD, Failure> {
        let own = SimSD::default();
        Ok(SimSD {
            block,
            gamma: self.gamma.unwrap_or(own.gamma),
            blocks: self.blocks.unwrap_or(own.blocks),
            draft_steps: self.draft_steps.or(own.draft_steps),
            own_guesses: !self.no_own_guesses,
            alternatives: !self.no_alternatives,
            max_rows: self.max_rows.unwrap_or(own.max_rows),
            layout: self.layout.as_deref().map(str::parse).transpose()?.unwrap_or(own.layout),
            accept: self.accept.as_deref().map(str::parse).transpose()?.unwrap_or(own.accept),
            align_positions: !self.unaligned,
            fallback: self.fallback.as_deref().map(str::parse).transpose()?.unwrap_or(own.fallback),
            overlap: self.overlap,
        })
    }

    fn s2d2(&self, block: BlockDiffusion) -> Result<S2D2, Failure> {
        let own = S2D2::default();
        let variant = self.variant.as_deref().map(str::parse).transpose()?.unwrap_or(own.variant);
        Ok(S2D2 { block, variant, ar_cache: !self.block_cache, policy: self.policy()? })
    }

    fn policy(&self) -> Result<Policy, Failure> {
        let estimator = estimator(self.estimator.as_deref().unwrap_or("soft_entropy_negexp"), self.estimator_value)?;
        let score = Score { estimator, penalty: self.penalty.unwrap_or(1.0), dynamic: self.dynamic_score };
        match (self.score_threshold, self.hysteresis.as_deref()) {
            (Some(threshold), _) => Ok(Policy::ScoreThreshold { score, threshold }),
            (None, Some(&[on, off])) => Ok(Policy::Hysteresis { score, on, off }),
            _ => {
                let given = [self.estimator.is_some(), self.estimator_value.is_some(), self.penalty.is_some(), self.dynamic_score];
                match SCORE.iter().zip(given).find(|(_, given)| *given) {
                    Some((option, _)) => {
                        let message = format!("{option} has an effect with a score only; add --score-threshold or --hysteresis");
                        Err(Failure::Said(message))
                    }
                    None => Ok(Policy::MinSpan(self.min_span.unwrap_or(1))),
                }
            }
        }
    }
}

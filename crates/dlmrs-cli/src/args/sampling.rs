//! Options about what is drawn and when it ends.

use clap::Args;
use dlmrs::SamplingParams;

/// Values are checked by the library, which names them.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// At most this many tokens [default: 256; eval: the task's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<usize>,
    /// Do not end before so many tokens
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    min_tokens: usize,
    /// 0 always takes the most probable token; more draws at random
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Draw among the most probable tokens that hold this much probability; 1 is off
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// Draw among so many most probable tokens; 0 is off
    #[arg(long, value_name = "K", default_value_t = 0, allow_negative_numbers = true)]
    top_k: usize,
    /// The same seed and settings give the same output [default: a new one each time, told by --stats and --json; eval: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// End before this text (may be repeated)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Go on to --max-tokens whatever comes, --stop included
    #[arg(long)]
    ignore_eos: bool,
    /// Above 1 makes tokens that are there already less probable; 1 is off
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f32,
    /// Adds to the logit of a token, as in 42=-1.5 (may be repeated)
    #[arg(long, value_name = "ID=BIAS", value_parser = bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    /// A token that is never drawn (may be repeated)
    #[arg(long = "ban-token-id", value_name = "ID")]
    banned_token_ids: Vec<u32>,
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let parts = text.split_once('=').and_then(|(id, bias)| Some((id.parse().ok()?, bias.parse().ok()?)));
    parts.ok_or_else(|| "a token id, an equals sign and a number are needed, as in 42=-1.5".into())
}

impl SamplingArgs {
    /// As the library wants them.
    pub(crate) fn params(&self) -> SamplingParams {
        let own = SamplingParams::default();
        SamplingParams {
            max_tokens: self.max_tokens.unwrap_or(own.max_tokens),
            min_tokens: self.min_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            seed: self.seed,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            repetition_penalty: self.repetition_penalty,
            logit_bias: self.logit_bias.iter().copied().collect(),
            banned_token_ids: self.banned_token_ids.clone(),
            ..own
        }
    }
}

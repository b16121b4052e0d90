//! What is compared: a name and options of `dlmrs generate`.

use std::sync::Arc;

use clap::Parser;
use dlmrs::{Decoding, Llm, Request, SamplingParams};

use crate::args::{BenchArgs, SettingArgs};
use crate::batch;
use crate::failure::Failure;
use crate::generate::Prompt;

/// The only setting, where none is given.
const OWN: &str = "default";

/// A setting as it was typed.
pub(super) struct Choice {
    name: String,
    options: String,
    args: SettingArgs,
}

/// A setting for the model at hand.
pub(super) struct Setting {
    pub(super) name: String,
    /// As it was typed.
    pub(super) options: String,
    pub(super) params: SamplingParams,
    pub(super) decoding: Decoding,
}

/// All settings, with names of their own.
pub(super) fn choices(args: &BenchArgs) -> Result<Vec<Choice>, Failure> {
    let mut choices: Vec<Choice> = Vec::new();
    for text in &args.settings {
        let choice = Choice::parse(text, args)?;
        if choices.iter().any(|other| other.name == choice.name) {
            return Err(Failure::Said(format!("--setting: two are named {:?}; give each a name of its own", choice.name)));
        }
        choices.push(choice);
    }
    if choices.is_empty() {
        choices.push(Choice::new(OWN, "", args)?);
    }
    Ok(choices)
}

impl Choice {
    fn parse(text: &str, args: &BenchArgs) -> Result<Self, Failure> {
        let parts = text.split_once(':').map(|(name, options)| (name.trim(), options.trim())).filter(|(name, _)| !name.is_empty());
        let Some((name, options)) = parts else {
            let message =
                format!("--setting: {text:?} has no name; a name, a colon and options are needed, as in \"bold: --threshold 0.5\"");
            return Err(Failure::Said(message));
        };
        if name.contains(char::is_control) {
            return Err(Failure::Said(format!("--setting: the name {name:?} has a control character; leave it out")));
        }
        Self::new(name, options, args)
    }

    fn new(name: &str, options: &str, args: &BenchArgs) -> Result<Self, Failure> {
        let own = shell_words::split(options).map_err(|error| Failure::at(&place(name), error))?;
        let common = ["--max-tokens".into(), args.max_tokens().to_string(), "--seed".into(), args.seed.to_string()];
        let ignore_eos = args.ignore_eos.then(|| "--ignore-eos".to_string());
        let words = common.into_iter().chain(ignore_eos).chain(own);
        let args = SettingArgs::try_parse_from(words).map_err(|error| Failure::at(&place(name), sentence(&error)))?;
        Ok(Self { name: name.to_string(), options: options.to_string(), args })
    }

    /// Asks the model, and the engine for every prompt.
    pub(super) fn ready(self, llm: &Arc<Llm>, prompts: &[Prompt]) -> Result<Setting, Failure> {
        let Self { name, options, args } = self;
        let named = |failure: Failure| match failure.message() {
            Some(message) => Failure::at(&place(&name), message),
            None => failure,
        };
        let (params, decoding) = (args.sampling.params(), args.decoding.decoding(llm).map_err(named)?);
        prompts.iter().try_for_each(|prompt| prompt.check(params.max_tokens)).map_err(named)?;
        let setting = Setting { name: name.clone(), options, params, decoding };
        batch::check(llm, &setting.requests(prompts), &places(prompts)).map_err(named)?;
        Ok(setting)
    }
}

impl Setting {
    /// One for each prompt.
    pub(super) fn requests(&self, prompts: &[Prompt]) -> Vec<Request> {
        let request =
            |prompt: &Prompt| Request { prompt: prompt.ids.clone(), params: self.params.clone(), decoding: Some(self.decoding.clone()) };
        prompts.iter().map(request).collect()
    }
}

/// Where prompts stand, for errors.
pub(super) fn places(prompts: &[Prompt]) -> Vec<&str> {
    prompts.iter().map(|prompt| prompt.place.as_str()).collect()
}

fn place(name: &str) -> String {
    format!("setting {name:?}")
}

/// What clap says, without what it says about the whole command.
fn sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let paragraphs =
        text.trim_start_matches("error: ").split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let said = |paragraph: &String| !["Usage:", "For more information", "tip: to pass"].iter().any(|start| paragraph.starts_with(start));
    paragraphs.filter(said).collect::<Vec<_>>().join("; ")
}

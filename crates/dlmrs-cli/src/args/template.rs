//! Options about the model's chat template.

use clap::Args;
use dlmrs::tokenizer::{ChatOptions, Tokenizer};
use serde_json::Value;

use crate::failure::Failure;

/// The template's own variables.
#[derive(Args, Debug)]
#[command(next_help_heading = "Chat template")]
pub(crate) struct TemplateArgs {
    /// Set a variable of the model's chat template, as in enable_thinking=false (may be repeated)
    #[arg(long = "template-option", value_name = "KEY=JSON", value_parser = option)]
    options: Vec<(String, Value)>,
    /// Ask for answers without thinking aloud first: short for --template-option enable_thinking=false
    #[arg(long)]
    no_think: bool,
}

/// Variables that the command itself sets.
const OWN: [&str; 2] = ["messages", "add_generation_prompt"];

fn option(text: &str) -> Result<(String, Value), String> {
    let (key, json) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("KEY=JSON is needed, as in enable_thinking=false")?;
    if OWN.contains(&key) {
        return Err(format!("{key} is set by the command itself"));
    }
    let value =
        serde_json::from_str(json).map_err(|_| format!("{json:?} is not JSON; a text stands in quotes, as in {key}='\"a text\"'"))?;
    Ok((key.to_string(), value))
}

impl TemplateArgs {
    /// The first option that was given, to say that it has no effect.
    pub(crate) fn given(&self) -> Option<&'static str> {
        if self.no_think {
            return Some("--no-think");
        }
        (!self.options.is_empty()).then_some("--template-option")
    }

    /// As the library wants them.
    pub(crate) fn options(&self) -> Result<ChatOptions, Failure> {
        let mut options = ChatOptions::default();
        let no_think = self.no_think.then(|| ("enable_thinking".to_string(), Value::Bool(false)));
        for (key, value) in self.options.iter().cloned().chain(no_think) {
            let before = match key.as_str() {
                "tools" => options.tools.replace(value),
                _ => options.extra.insert(key.clone(), value),
            };
            if before.is_some() {
                return Err(Failure::Said(format!("--template-option {key}: is set twice; leave one of them out")));
            }
        }
        Ok(options)
    }

    /// What the user should know: variables that the template does not look at.
    pub(crate) fn warnings(&self, tokenizer: &Tokenizer) -> Result<Vec<String>, Failure> {
        let ChatOptions { tools, extra, .. } = self.options()?;
        let template = tokenizer.chat_template().unwrap_or_default();
        let keys = extra.keys().map(String::as_str).chain(tools.as_ref().map(|_| "tools"));
        let unused = keys.filter(|key| !template.contains(key));
        Ok(unused.map(|key| format!("the chat template has no variable {key}, so that setting it has no effect")).collect())
    }
}

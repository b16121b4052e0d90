//! A conversation with a model: what messages and commands do.

use std::path::Path;
use std::sync::Arc;

use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Decoding, FinishReason, Llm, Output, Request, SamplingParams};
use serde_json::json;

use super::answer::{Answers, View};
use super::command::{Command, HELP};
use super::conversation::Conversation;
use crate::args::ChatArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::generate;

/// The state of a chat.
pub(super) struct Session<'a> {
    args: &'a ChatArgs,
    llm: &'a Arc<Llm>,
    answers: Answers<'a>,
    template: ChatOptions,
    params: SamplingParams,
    decoding: Decoding,
    conversation: Conversation,
    /// What the last answer cost.
    cost: Option<String>,
    /// Turns that were answered or failed.
    turns: usize,
    /// How often the last message was answered again.
    retries: u64,
    /// Whether the last answer was cut off by Ctrl-C.
    stopped: bool,
}

impl<'a> Session<'a> {
    /// Checks everything that can be checked before the first message.
    pub(super) fn new(
        args: &'a ChatArgs,
        llm: &'a Arc<Llm>,
        conversation: Conversation,
        is_terminal: bool,
        console: &mut Console<'_>,
    ) -> Result<Self, Failure> {
        let Some(tokenizer) = llm.tokenizer() else {
            return Err(Failure::Said(format!(
                "{} has no tokenizer, so one cannot chat with it; `dlmrs generate` takes token ids",
                llm.name()
            )));
        };
        if tokenizer.chat_template().is_none() {
            let message = "has no chat template, so one cannot chat with it; `dlmrs generate --raw` continues a text";
            return Err(Failure::Said(format!("{} {message}", llm.name())));
        }
        if args.sampling.max_tokens == Some(0) {
            return Err(Failure::Said("max_tokens: is 0, so that there are no answers; at least 1 is needed".into()));
        }
        console.warn(&args.template.warnings(tokenizer)?);
        let view = match (args.json, args.watch, console.screen) {
            (true, ..) => View::Nothing,
            (false, true, Some(screen)) => View::Canvas(screen),
            _ => View::Text,
        };
        let session = Self {
            args,
            llm,
            answers: Answers { llm, view, is_terminal },
            template: args.template.options()?,
            params: args.sampling.params(),
            decoding: args.decoding.decoding(llm)?,
            conversation,
            cost: None,
            turns: 0,
            retries: 0,
            stopped: false,
        };
        let checked = session.check(&session.conversation);
        match &args.conversation {
            Some(path) => checked.map_err(|failure| of_file(path, failure))?,
            None => checked?,
        }
        Ok(session)
    }

    /// Whether the template and the model take a conversation and one more answer.
    fn check(&self, conversation: &Conversation) -> Result<(), Failure> {
        let probe = match conversation.waits_for_answer() {
            true => conversation.clone(),
            false => conversation.with_message("?".into()),
        };
        self.llm.engine().submit(self.request(&probe)?)?;
        Ok(())
    }

    /// Answers a message.
    pub(super) fn message(&mut self, text: String, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
        self.retries = 0;
        self.answer(self.conversation.with_message(text), console, interrupt)?;
        Ok(())
    }

    /// Says why a message cannot be answered; that is its turn.
    pub(super) fn refuse(&mut self, message: &str, console: &mut Console<'_>) -> Result<(), Failure> {
        self.turns += 1;
        self.fail(self.turns - 1, message, console)
    }

    fn fail(&self, number: usize, message: &str, console: &mut Console<'_>) -> Result<(), Failure> {
        if self.args.json {
            console.print(&format!("{}\n", json!({"index": number, "error": message})))?;
        }
        console.say("error", message);
        Ok(())
    }

    /// Does what a command says.
    pub(super) fn command(&mut self, command: Command, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
        let done = match command {
            Command::Help => Ok(HELP.to_string()),
            Command::Reset => {
                self.conversation.reset();
                Ok("The conversation is forgotten.".into())
            }
            Command::System(text) => Ok(self.system(text.as_deref())),
            Command::Retry => return self.retry(console, interrupt),
            Command::Stats => self.stats(),
            Command::Save { path, replace } => self.conversation.save(&path, replace).map(|()| {
                let count = messages(self.conversation.len());
                format!("Saved {count} in {}.", path.display())
            }),
            Command::Load(path) => {
                let loaded = Conversation::load(&path).and_then(|conversation| {
                    self.check(&conversation).map_err(|failure| of_file(&path, failure))?;
                    Ok(conversation)
                });
                match loaded {
                    Ok(conversation) => Ok(self.load(conversation)),
                    Err(failure) => Err(failure.message().unwrap_or_default()),
                }
            }
        };
        match done {
            Ok(line) => console.note(&line),
            Err(message) => console.say("error", &message),
        }
        Ok(())
    }

    fn system(&mut self, text: Option<&str>) -> String {
        let before = match self.conversation.set_system(text) {
            Some(before) => format!("; before, it was {before:?}"),
            None => String::new(),
        };
        match text {
            Some(_) => format!("The system message is set{before}."),
            None => format!("There is no system message now{before}."),
        }
    }

    fn load(&mut self, conversation: Conversation) -> String {
        self.conversation = conversation;
        let count = messages(self.conversation.len());
        match self.conversation.waits_for_answer() {
            true => format!("Loaded {count}; /retry answers the last one."),
            false => format!("Loaded {count}."),
        }
    }

    fn stats(&self) -> Result<String, String> {
        let last = self.cost.as_deref().unwrap_or("no answer yet");
        let messages = messages(self.conversation.len());
        let tokens = match self.conversation.len() {
            0 => Ok(0),
            _ => self.encode(&self.conversation.messages(), false).map(|ids| ids.len()),
        };
        let limit = self.llm.facts().max_model_len;
        tokens.map(|tokens| format!("Last answer: {last}\nConversation: {messages}, {tokens} of {limit} tokens")).map_err(|e| e.to_string())
    }

    fn retry(&mut self, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
        let Some((asked, before)) = self.conversation.before_answer() else {
            console.say("error", "/retry: there is no message that could be answered again");
            return Ok(());
        };
        self.retries += 1;
        let was_stopped = self.stopped;
        let answer = self.answer(asked, console, interrupt)?;
        if answer.is_some() && answer == before && self.params.temperature == 0.0 && !was_stopped && !self.stopped {
            console.note("The answer is the same: at --temperature 0 nothing is drawn, so that the seed changes nothing.");
        }
        Ok(())
    }

    /// Answers the last message of a conversation, which becomes the one that goes on; if that fails, nothing has been said.
    fn answer(&mut self, asked: Conversation, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<Option<String>, Failure> {
        let number = self.turns;
        self.turns += 1;
        let answered = self.request(&asked).and_then(|request| self.answers.run(request, console, interrupt));
        let output = match answered {
            Ok(output) => output,
            // What is wrong with one message does not end the chat.
            Err(Failure::Said(message)) => return self.fail(number, &message, console).map(|()| None),
            Err(failure) => return Err(failure),
        };
        self.report(number, &output, console)?;
        self.cost = Some(generate::cost(&output));
        self.stopped = output.finish_reason == FinishReason::Cancelled;
        self.conversation = asked.with_answer(&output.text);
        Ok(Some(output.text))
    }

    fn report(&self, number: usize, output: &Output, console: &mut Console<'_>) -> Result<(), Failure> {
        if self.args.json {
            console.print(&format!("{}\n", generate::output_json(number, None, false, output, self.llm)))?;
        }
        if output.finish_reason == FinishReason::Cancelled {
            console.note("Stopped. What was said so far stays in the conversation; /retry answers again.");
        }
        console.warn(&output.warnings);
        if self.args.stats {
            console.note(&generate::cost(output));
        }
        Ok(())
    }

    fn request(&self, conversation: &Conversation) -> Result<Request, Failure> {
        // A seed of the user's must not give the same answer again either.
        let seed = self.params.seed.map(|seed| seed.wrapping_add(self.retries));
        let prompt = self.encode(&conversation.messages(), true)?;
        Ok(Request { prompt, params: SamplingParams { seed, ..self.params.clone() }, decoding: Some(self.decoding.clone()) })
    }

    fn encode(&self, messages: &[Message], add_generation_prompt: bool) -> dlmrs::Result<Vec<u32>> {
        let options = ChatOptions { add_generation_prompt, ..self.template.clone() };
        self.llm.require_tokenizer()?.encode_chat(messages, &options, Specials::AsText)
    }
}

/// Says which file a failure is about.
fn of_file(path: &Path, failure: Failure) -> Failure {
    match failure.message() {
        Some(message) => Failure::at(&path.display().to_string(), message),
        None => failure,
    }
}

fn messages(count: usize) -> String {
    match count {
        1 => "1 message".into(),
        count => format!("{count} messages"),
    }
}

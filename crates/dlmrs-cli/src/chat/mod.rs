//! `dlmrs chat`: one conversation, answer by answer.

mod answer;
mod command;
mod conversation;
mod input;
mod session;

use crate::args::ChatArgs;
use crate::console::Console;
use crate::ctrl_c;
use crate::failure::Failure;
use command::Entry;
use conversation::Conversation;
use input::Input;
use session::Session;

/// Reads messages and commands to the end of the input.
pub(crate) fn run(args: &ChatArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    let mut conversation = match &args.conversation {
        Some(path) => Conversation::load(path)?,
        None => Conversation::default(),
    };
    if let Some(text) = &args.system {
        conversation.set_system(Some(text));
    }
    let llm = console.load(&args.model, &args.load, &args.overrides.overrides(), interrupt)?;
    let mut input = Input::new()?;
    let mut session = Session::new(args, &llm, conversation, input.is_terminal(), console)?;
    if input.is_terminal() {
        ctrl_c::do_not_hurry();
        console.note(&format!("{} is ready. /help lists the commands, Ctrl-D ends.", llm.name()));
    }
    while let Some(line) = input.next(console)? {
        match line.map(|line| command::parse(&line)) {
            Ok(Ok(Entry::Nothing)) => {}
            Ok(Ok(Entry::Message(text))) => session.message(text, console, interrupt)?,
            Ok(Ok(Entry::Quit)) => break,
            Ok(Ok(Entry::Command(command))) => session.command(command, console, interrupt)?,
            Ok(Err(message)) => console.say("error", &message),
            Err(message) => session.refuse(&message, console)?,
        }
    }
    Ok(())
}

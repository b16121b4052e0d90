//! What a line of the user's means: a message, or a command that begins with a slash.

use std::path::PathBuf;

/// What `/help` says.
pub(super) const HELP: &str = "\
/help         this list
/reset        forget the conversation; the system message stays
/system TEXT  give the model this system message; without TEXT, none
/retry        answer the last message again, with another seed
/stats        what the last answer cost, and how long the conversation is
/save FILE    write the conversation, one JSON message a line
/save! FILE   the same, in place of a file that exists
/load FILE    go on with a conversation that was saved
/quit         end; so does Ctrl-D
//TEXT        a message that begins with one slash
A backslash at the end of a line continues the message on the next line.
Ctrl-C stops an answer; at the prompt it clears the line, and twice in a row it ends.";

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Nothing,
    Message(String),
    Command(Command),
    Quit,
}

/// What can be done with a conversation besides going on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Reset,
    System(Option<String>),
    Retry,
    Stats,
    Save { path: PathBuf, replace: bool },
    Load(PathBuf),
}

/// Reads a line; an error is a sentence for the user.
pub(super) fn parse(line: &str) -> Result<Entry, String> {
    if line.trim().is_empty() {
        return Ok(Entry::Nothing);
    }
    let Some(command) = line.strip_prefix('/') else { return Ok(Entry::Message(line.to_string())) };
    if command.starts_with('/') {
        return Ok(Entry::Message(command.to_string()));
    }
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    let file = || match rest {
        "" => Err(format!("/{name}: no file is named; write one behind it, as in /{name} chat.jsonl")),
        rest => Ok(PathBuf::from(rest)),
    };
    let command = match name {
        "system" => Command::System((!rest.is_empty()).then(|| rest.to_string())),
        "save" => Command::Save { path: file()?, replace: false },
        "save!" => Command::Save { path: file()?, replace: true },
        "load" => Command::Load(file()?),
        "help" | "reset" | "retry" | "stats" | "quit" if !rest.is_empty() => {
            return Err(format!("/{name}: stands alone, but {rest:?} follows it; leave that out"));
        }
        "help" => Command::Help,
        "reset" => Command::Reset,
        "retry" => Command::Retry,
        "stats" => Command::Stats,
        "quit" => return Ok(Entry::Quit),
        _ => return Err(format!("/{name} is no command; /help lists them, and //{name} is a message that begins with /{name}")),
    };
    Ok(Entry::Command(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_commands() {
        let message = |text: &str| Ok(Entry::Message(text.into()));
        assert_eq!(parse("  \t"), Ok(Entry::Nothing));
        assert_eq!(parse(" a /b "), message(" a /b "));
        assert_eq!(parse("//usr/bin"), message("/usr/bin"));
        assert_eq!(parse(" /reset"), message(" /reset"));
        assert_eq!(parse("/reset "), Ok(Entry::Command(Command::Reset)));
        assert_eq!(parse("/quit"), Ok(Entry::Quit));
        assert_eq!(parse("/system be\nshort"), Ok(Entry::Command(Command::System(Some("be\nshort".into())))));
        assert_eq!(parse("/system "), Ok(Entry::Command(Command::System(None))));
        let path = PathBuf::from("a b.jsonl");
        assert_eq!(parse("/load  a b.jsonl "), Ok(Entry::Command(Command::Load(path.clone()))));
        assert_eq!(parse("/save! a b.jsonl"), Ok(Entry::Command(Command::Save { path, replace: true })));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, why) in [
            ("/nonsense", "/nonsense is no command; /help lists them"),
            ("/", "/ is no command"),
            ("/Reset", "/Reset is no command"),
            ("/reset now", "\"now\" follows it"),
            ("/save", "as in /save chat.jsonl"),
            ("/load ", "no file is named"),
        ] {
            assert!(parse(line).is_err_and(|message| message.contains(why)), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn help_names_every_command_and_fits_a_page() {
        for name in ["help", "reset", "system", "retry", "stats", "save", "save!", "load", "quit"] {
            assert!(HELP.lines().any(|line| line.split_whitespace().next() == Some(&format!("/{name}"))), "{name}");
        }
        assert!(HELP.lines().all(|line| line.len() < 100));
    }
}

//! The messages so far, and their file.

use std::io::Write;
use std::path::{Path, PathBuf};

use dlmrs::tokenizer::Message;

use crate::failure::Failure;
use crate::{files, messages};

/// A system message, if there is one, and what was said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    system: Option<Message>,
    said: Vec<Message>,
}

impl Conversation {
    /// All messages, as the template takes them.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.system.iter().chain(&self.said).cloned().collect()
    }

    /// How many messages there are.
    pub(super) fn len(&self) -> usize {
        self.said.len() + usize::from(self.system.is_some())
    }

    /// Gives it this system message and returns the one before.
    pub(super) fn set_system(&mut self, text: Option<&str>) -> Option<String> {
        let before = std::mem::replace(&mut self.system, text.map(|text| Message::new("system", text)));
        before.map(|message| message.content)
    }

    /// Forgets what was said.
    pub(super) fn reset(&mut self) {
        self.said.clear();
    }

    /// The conversation with one more message of the user's.
    pub(super) fn with_message(&self, text: String) -> Self {
        let said = self.said.iter().cloned().chain([Message::new("user", text)]).collect();
        Self { said, ..self.clone() }
    }

    /// The conversation with an answer.
    pub(super) fn with_answer(mut self, text: &str) -> Self {
        self.said.push(Message::new("assistant", text));
        self
    }

    /// The conversation up to the last message that can be answered (again), and the answer that it has.
    pub(super) fn before_answer(&self) -> Option<(Self, Option<String>)> {
        let mut said = self.said.clone();
        let answer = said.pop_if(|message| message.role == "assistant").map(|message| message.content);
        match said.is_empty() {
            true => None,
            false => Some((Self { said, ..self.clone() }, answer)),
        }
    }

    /// Whether its last message has no answer.
    pub(super) fn waits_for_answer(&self) -> bool {
        self.said.last().is_some_and(|message| message.role != "assistant")
    }

    /// Reads a file of messages, one a line.
    pub(super) fn load(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Err(Failure::Said("-: is no file of messages, and standard input holds what is said next; name a file".into()));
        }
        let name = files::name(path);
        let lines = files::parse(&files::text(path)?, &name, messages::from_json)?;
        let mut said: Vec<Message> = lines.into_iter().map(|(_, message)| message).collect();
        let system = (said.first().is_some_and(|message| message.role == "system")).then(|| said.remove(0));
        match (&system, said.is_empty()) {
            (None, true) => Err(Failure::at(&name, "holds no messages; one JSON object with \"role\" and \"content\" a line is expected")),
            _ => Ok(Self { system, said }),
        }
    }

    /// Writes all messages, one a line: the whole file or nothing.
    pub(super) fn save(&self, path: &Path, replace: bool) -> Result<(), String> {
        let name = path.display();
        match path.symlink_metadata() {
            Ok(found) if !found.is_file() => return Err(format!("{name} is there and is no plain file; choose another name")),
            Ok(_) if !replace => return Err(exists(path)),
            _ => {}
        }
        let text: String = self.messages().iter().map(|message| format!("{}\n", messages::to_json(message))).collect();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        let write = || {
            let mut file = new_file(&folder)?;
            if let Ok(found) = path.metadata() {
                file.as_file().set_permissions(found.permissions())?;
            }
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            match replace {
                true => file.persist(path),
                false => file.persist_noclobber(path),
            }
            .map_err(|error| error.error)
        };
        match write() {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(format!("cannot write {name}: there is no folder {}", folder.display()))
            }
            // The library names its own temporary file, which says nothing to the user.
            Err(error) => Err(format!("cannot write {name}: {}", std::io::Error::from(error.kind()))),
        }
    }
}

/// A file beside the one that it will become, as readable as any that the user writes.
fn new_file(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The system takes away what the user's umask says.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

fn exists(path: &Path) -> String {
    let name = path.display();
    format!("{name} is there already; choose another name, or replace it with /save! {name}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn example() -> Conversation {
        let mut conversation = Conversation::default();
        conversation.set_system(Some("Be short."));
        conversation.with_message("a\n\"b\"".into()).with_answer("c")
    }

    #[test]
    fn files_come_back_and_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat.jsonl");
        example().save(&path, false).unwrap();
        assert_eq!(Conversation::load(&path).unwrap(), example());
        let other = Conversation::default().with_message("d".into());
        assert!(other.save(&path, false).unwrap_err().contains("is there already"));
        assert_eq!(Conversation::load(&path).unwrap(), example());
        other.save(&path, true).unwrap();
        assert_eq!(Conversation::load(&path).unwrap(), other);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_or_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        assert!(example().save(folder.path(), true).unwrap_err().contains("is no plain file"));
        let lost = folder.path().join("no/such/folder.jsonl");
        let message = example().save(&lost, false).unwrap_err();
        assert!(message.starts_with("cannot write ") && message.contains("no/such/folder.jsonl: there is no folder"), "{message}");
        assert!(Conversation::load(Path::new("-")).unwrap_err().message().unwrap().contains("name a file"));
        let path = folder.path().join("wrong.jsonl");
        for (text, why) in [
            ("{\"role\": \"user\", \"contents\": \"a\"}", "no \"content\""),
            ("", "holds no messages"),
            ("\n{}\n", "line 2 of "),
            ("{\"role\": \"user\"}", "no \"content\""),
        ] {
            std::fs::write(&path, text).unwrap();
            let message = Conversation::load(&path).unwrap_err().message().unwrap();
            assert!(message.contains(why) && message.contains("wrong.jsonl"), "{message}");
        }
    }

    #[test]
    fn what_can_be_answered_again() {
        assert!(Conversation::default().before_answer().is_none());
        let (asked, answer) = example().before_answer().unwrap();
        assert_eq!(answer.as_deref(), Some("c"));
        assert!(asked.waits_for_answer() && !example().waits_for_answer());
        assert_eq!(asked.before_answer().unwrap(), (asked.clone(), None));
    }
}

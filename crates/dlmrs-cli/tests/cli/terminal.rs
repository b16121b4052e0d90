//! The command on a terminal: what is on the screen, and which keys do what.

use crate::common::{ANSWER, PROBLEM, objects};
use crate::pty::{NARROW, Terminal};

const CTRL_C: &str = "\x03";
/// Clears the screen.
const CLEAR: &str = "\x0c";
const CTRL_D: &str = "\x04";

/// A canvas that takes minutes; its first block does not, and has text.
const LONG: [&str; 8] = ["chat", "tiny-llada", "--block-length", "4", "--max-tokens", "1500", "--ignore-eos", "--logits-eos-inf"];

fn has_colour(written: &[u8]) -> bool {
    ["\x1b[4;36m", "\x1b[7;32m", "\x1b[32m", "\x1b[31m"].iter().any(|code| written.windows(code.len()).any(|w| w == code.as_bytes()))
}

/// The editor ends some full rows itself.
fn one_line(screen: &str) -> String {
    screen.replace('\n', "")
}

#[test]
fn chat_on_a_narrow_terminal() {
    let mut terminal = Terminal::start(&["chat", "tiny-sdar"], 40, NARROW, &[]);
    terminal.wait_for_prompt();
    terminal.press(&format!("{PROBLEM}\r"));
    terminal.wait_for("#### 47");
    // What is typed before the prompt is there is echoed twice.
    terminal.wait_for_prompt();
    terminal.press("/nonsense\r");
    terminal.wait_for("is no command");
    terminal.wait_for_prompt();
    terminal.press("/stats\r");
    terminal.wait_for("2 messages");
    terminal.wait_for_prompt();
    terminal.press(CTRL_D);
    let (code, screen, written) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.starts_with("tiny-sdar is ready. /help lists the commands, Ctrl-D ends.\n> Hugo"), "{screen}");
    assert!(one_line(&screen).contains(&format!("> {PROBLEM}{ANSWER}> /nonsense")), "{screen}");
    assert!(!has_colour(&written));
}

#[test]
fn watching_on_a_narrow_terminal() {
    for (model, options) in [("tiny-sdar", &[][..]), ("tiny-llada", &["--threshold", "0.9", "--max-tokens", "64"])] {
        for (no_colour, environment) in [(false, &[][..]), (true, &[("NO_COLOR", "1")])] {
            let mut terminal = Terminal::start(&[&["chat", model, "--watch"], options].concat(), 30, NARROW, environment);
            terminal.wait_for_prompt();
            terminal.press(&format!("{PROBLEM}\r"));
            terminal.wait(|screen| one_line(screen).contains(&format!("> {PROBLEM}{ANSWER}>")));
            terminal.press("/quit\r");
            let (code, screen, written) = terminal.end();
            assert_eq!(code, Some(0));
            assert!(!screen.contains("decided") && !screen.contains('·'), "{screen}");
            assert!(String::from_utf8_lossy(&written).contains("pass "));
            assert_eq!(has_colour(&written), !no_colour, "{model}");
        }
    }
}

#[test]
fn generate_on_a_narrow_terminal() {
    for options in [&[][..], &["--watch"]] {
        let terminal = Terminal::start(&[&["generate", "tiny-sdar", PROBLEM], options].concat(), 24, NARROW, &[("NO_COLOR", "1")]);
        let (code, screen, written) = terminal.end();
        assert_eq!((code, screen.trim_end()), (Some(0), ANSWER), "{options:?}");
        assert!(!has_colour(&written));
    }
}

#[test]
fn demo_on_a_narrow_terminal() {
    let terminal = Terminal::start(&["demo", "--problems", "2", "--model", "tiny-sdar"], 60, NARROW, &[]);
    let (code, screen, written) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    for text in [&format!("1. {PROBLEM}\n   {ANSWER}\n   right (45 tokens in "), "2 of 2 right"] {
        assert!(screen.contains(text), "{screen}");
    }
    assert!(!screen.contains("slots decided") && has_colour(&written), "{screen}");
}

/// Whether the last answer has text, or its canvas is drawn.
fn has_begun(screen: &str, watch: bool) -> bool {
    let answer = screen.rsplit_once("spend?").map_or("", |(_, answer)| answer);
    answer.contains(char::is_alphabetic) && answer.contains("slots decided") == watch
}

#[test]
fn ctrl_c_stops_an_answer_and_keeps_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.jsonl");
    for watch in [false, true] {
        let options: &[&str] = if watch { &["--watch"] } else { &[] };
        let mut terminal = Terminal::start(&[&LONG[..], options].concat(), 24, 100, &[]);
        for _ in 0..2 {
            terminal.wait_for_prompt();
            terminal.press(&format!("/reset\r{PROBLEM}\r"));
            terminal.wait(|screen| has_begun(screen, watch));
            terminal.press(CTRL_C);
            terminal.wait_for("Stopped. What was said so far stays in the conversation");
            terminal.wait_for_prompt();
            terminal.press(CLEAR);
            terminal.wait(|screen| !screen.contains("Stopped."));
        }
        terminal.press(&format!("/save! {}\r", path.display()));
        terminal.wait_for("Saved 2 messages");
        terminal.wait_for_prompt();
        terminal.press(CTRL_D);
        let (code, screen, _) = terminal.end();
        assert_eq!(code, Some(0), "{watch}: {screen}");
        let messages = objects(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(messages[0]["content"], PROBLEM);
        // The canvas may have been decided elsewhere first.
        assert!(watch || !messages[1]["content"].as_str().unwrap().is_empty(), "{messages:?}");
    }
}

#[test]
fn ctrl_c_at_the_prompt_clears_the_line_and_then_ends() {
    let mut terminal = Terminal::start(&["chat", "tiny-sdar"], 24, 80, &[]);
    terminal.wait_for_prompt();
    terminal.press("half a mess");
    terminal.wait_for("> half a mess");
    terminal.press(CTRL_C);
    terminal.wait_for("Ctrl-C once more ends.");
    // What is typed in between counts.
    terminal.press("/stats\r");
    terminal.wait_for("0 messages");
    terminal.wait_for_prompt();
    terminal.press(CTRL_C);
    terminal.wait(|screen| screen.matches("Ctrl-C once more ends.").count() == 2);
    terminal.wait_for_prompt();
    terminal.press(CTRL_C);
    let (code, screen, _) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn lines_are_edited_recalled_and_continued() {
    let mut terminal = Terminal::start(&["chat", "tiny-sdar", "--max-tokens", "4"], 24, 80, &[]);
    terminal.wait_for_prompt();
    // Left twice, and a letter that was missing.
    terminal.press("/sats\x1b[D\x1b[D\x1b[Dt\r");
    terminal.wait_for("0 messages");
    terminal.wait_for_prompt();
    // The line before.
    terminal.press("\x1b[A\r");
    terminal.wait(|screen| screen.matches("0 messages").count() == 2);
    terminal.wait_for_prompt();
    terminal.press("beads and \\\r");
    terminal.wait(|screen| screen.lines().last().is_some_and(|line| line.trim_end() == "."));
    terminal.press("marbles\r/stats\r");
    terminal.wait_for("2 messages");
    terminal.wait_for_prompt();
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, Some(0));
}

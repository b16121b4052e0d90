//! The canvas of one request on a terminal, drawn over itself after each pass.
//!
//! Undecided slots are dots, slots of the last pass are reversed (bold where a guess was corrected, underlined where a token was rewritten),
//! other slots that are not final yet are underlined, and the rest is plain; colours only add to that.

use std::io::{self, Write};
use std::time::Duration;

use dlmrs::decode::How;
use dlmrs::tokenizer::Tokenizer;
use dlmrs::{Event, Llm};
use unicode_width::UnicodeWidthChar;

use crate::screen::Screen;

/// Undecided slots at the end of the canvas that are drawn at most; the others are counted.
const OPEN_SLOTS: usize = 120;

/// A token that ends the answer.
const END: char = '∎';

/// What a character of the drawing stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Final,
    Decided,
    New,
    /// New, in place of a guess.
    Corrected,
    /// New, in place of a token that was decided before.
    Edited,
    Open,
    Note,
}

impl Look {
    /// The codes that switch it on.
    fn codes(self, colour: bool) -> &'static str {
        match (self, colour) {
            (Self::Final, _) => "",
            (Self::Decided, true) => "\x1b[4;36m",
            (Self::Decided, false) => "\x1b[4m",
            (Self::New, true) => "\x1b[7;32m",
            (Self::New, false) => "\x1b[7m",
            (Self::Corrected, true) => "\x1b[1;7;33m",
            (Self::Corrected, false) => "\x1b[1;7m",
            (Self::Edited, true) => "\x1b[4;7;35m",
            (Self::Edited, false) => "\x1b[4;7m",
            (Self::Open | Self::Note, _) => "\x1b[2m",
        }
    }
}

/// A decided slot.
#[derive(Clone, Copy)]
struct Slot {
    token: u32,
    pass: usize,
    how: How,
}

/// The answer's slots as far as they are known.
pub(crate) struct CanvasView {
    screen: Screen,
    tokenizer: Tokenizer,
    stop_token_ids: Vec<u32>,
    /// Where the answer begins in the canvas.
    from: usize,
    slots: Vec<Option<Slot>>,
    committed: usize,
    pass: usize,
    /// Lines of the last drawing.
    drawn: usize,
    /// How long each drawing stays at least.
    pause: Duration,
}

impl CanvasView {
    /// For a request with a prompt of `from` tokens and an answer of `slots`.
    pub(crate) fn new(screen: Screen, llm: &Llm, from: usize, slots: usize, pause: Duration) -> dlmrs::Result<Self> {
        Ok(Self {
            screen,
            tokenizer: llm.require_tokenizer()?.clone(),
            stop_token_ids: llm.facts().stop_token_ids.clone(),
            from,
            slots: vec![None; slots],
            committed: 0,
            pass: 0,
            drawn: 0,
            pause,
        })
    }

    /// Takes an event of the request, and draws what a pass has decided.
    pub(crate) fn event(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match event {
            Event::Revealed { pass, slots, .. } => {
                self.pass = *pass;
                for revealed in slots {
                    // Slots before are masks of the prompt, slots behind are the rest of a last block.
                    let slot = revealed.position.checked_sub(self.from).and_then(|index| self.slots.get_mut(index));
                    if let Some(slot) = slot {
                        *slot = Some(Slot { token: revealed.stat.token, pass: *pass, how: revealed.how });
                    }
                }
                self.draw(out)
            }
            Event::Committed { token_ids, .. } => {
                self.committed += token_ids.len();
                Ok(())
            }
            Event::Finished { .. } | Event::Failed { .. } => Ok(()),
        }
    }

    /// Takes the drawing away.
    pub(crate) fn erase(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.drawn > 0 {
            write!(out, "\x1b[{}A\r\x1b[J", std::mem::take(&mut self.drawn))?;
        }
        out.flush()
    }

    fn draw(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut lines = wrap(&self.pieces(), self.screen);
        let decided = self.slots.iter().flatten().count();
        let status = format!("pass {}: {decided} of {} slots decided{}", self.pass, self.slots.len(), self.judged());
        lines.lines.extend(wrap(&[(Look::Note, status)], self.screen).lines);
        // The cursor stands below the drawing, so a row of the screen stays free.
        let height = self.screen.height.saturating_sub(1).max(1);
        let first = lines.frontier.saturating_sub(height / 2).min(lines.lines.len().saturating_sub(height));
        let shown: Vec<_> = lines.lines.iter().skip(first).take(height).collect();
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\r\x1b[J", self.drawn));
        }
        for line in &shown {
            text.push_str(line);
            text.push('\n');
        }
        self.drawn = shown.len();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        std::thread::sleep(self.pause);
        Ok(())
    }

    /// What became of guesses in the last pass, and how many tokens it rewrote; nothing where there were none.
    fn judged(&self) -> String {
        let of = |how| self.slots.iter().flatten().filter(|slot| slot.pass == self.pass && slot.how == how).count();
        match (of(How::Accepted), of(How::Corrected)) {
            (0, 0) if of(How::Edited) > 0 => format!(", {} rewritten", of(How::Edited)),
            (0, 0) => String::new(),
            (accepted, corrected) => format!(", {accepted} accepted, {corrected} corrected"),
        }
    }

    /// The slots' looks and texts; neighbours that look alike are decoded together, for a character may take several tokens.
    fn pieces(&self) -> Vec<(Look, String)> {
        let known = self.slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let shown = self.slots.len().min(known + OPEN_SLOTS);
        let mut pieces = Vec::new();
        let mut from = 0;
        while from < shown {
            let look = self.look(from);
            let to = (from..shown).find(|&index| self.look(index) != look).unwrap_or(shown);
            pieces.push((look, self.text(from, to)));
            from = to;
        }
        if shown < self.slots.len() {
            pieces.push((Look::Note, format!(" and {} more", self.slots.len() - shown)));
        }
        pieces
    }

    fn look(&self, index: usize) -> Look {
        match self.slots[index] {
            None => Look::Open,
            Some(_) if index < self.committed => Look::Final,
            Some(slot) if slot.pass == self.pass && slot.how == How::Corrected => Look::Corrected,
            Some(slot) if slot.pass == self.pass && slot.how == How::Edited => Look::Edited,
            Some(slot) if slot.pass == self.pass => Look::New,
            Some(_) => Look::Decided,
        }
    }

    fn text(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        let mut run = Vec::new();
        for slot in &self.slots[from..to] {
            match slot {
                Some(slot) if !self.stop_token_ids.contains(&slot.token) => run.push(slot.token),
                other => {
                    text.push_str(&self.decode(&std::mem::take(&mut run)));
                    text.push(if other.is_some() { END } else { '·' });
                }
            }
        }
        text.push_str(&self.decode(&run));
        text
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, false).unwrap_or_else(|_| char::REPLACEMENT_CHARACTER.to_string())
    }
}

/// Text cut into lines of the screen.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    /// Columns of the last line.
    columns: usize,
    /// The line with the first undecided slot.
    frontier: usize,
}

impl Lines {
    fn push(&mut self, c: char, width: usize, on: &str, off: &str, limit: usize) {
        if self.lines.is_empty() || self.columns + width > limit.max(2) {
            self.next_line(on, off);
        }
        self.columns += width;
        if let Some(line) = self.lines.last_mut() {
            line.push(c);
        }
    }

    fn next_line(&mut self, on: &str, off: &str) {
        if let Some(line) = self.lines.last_mut() {
            line.push_str(off);
        }
        self.lines.push(on.to_string());
        self.columns = 0;
    }
}

fn wrap(pieces: &[(Look, String)], screen: Screen) -> Lines {
    let mut lines = Lines::default();
    let mut frontier = None;
    for (look, text) in pieces {
        let on = look.codes(screen.colour);
        let off = if on.is_empty() { "" } else { "\x1b[0m" };
        if let Some(line) = lines.lines.last_mut() {
            line.push_str(on);
        }
        for c in text.chars() {
            match c.width() {
                Some(width) => lines.push(c, width, on, off, screen.width),
                None if c == '\n' => {
                    lines.push('↵', 1, on, off, screen.width);
                    lines.next_line(on, off);
                }
                None if c == '\t' => lines.push(' ', 1, on, off, screen.width),
                // A terminal is not told anything else by a model.
                None => lines.push(char::REPLACEMENT_CHARACTER, 1, on, off, screen.width),
            }
            if *look == Look::Open {
                frontier.get_or_insert(lines.lines.len() - 1);
            }
        }
        if let Some(line) = lines.lines.last_mut() {
            line.push_str(off);
        }
    }
    Lines { frontier: frontier.unwrap_or(lines.lines.len()), ..lines }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SCREEN: Screen = Screen { width: 6, height: 10, colour: false };

    #[test]
    fn lines_fit_the_screen_and_each_look_is_switched_off() {
        let lines = wrap(&[(Look::Final, "abcd".into()), (Look::New, "efgh".into()), (Look::Open, "··".into())], SCREEN);
        assert_eq!(lines.lines, ["abcd\x1b[7mef\x1b[0m", "\x1b[7mgh\x1b[0m\x1b[2m··\x1b[0m"]);
        assert_eq!(lines.frontier, 1);
    }

    #[test]
    fn wide_and_control_characters() {
        let lines = wrap(&[(Look::Final, "a漢字漢b\n\x1bc".into())], SCREEN);
        assert_eq!(lines.lines, ["a漢字", "漢b↵", "\u{FFFD}c"]);
        assert_eq!(wrap(&[], SCREEN).lines.len(), 0);
    }

    #[test]
    fn looks_differ_without_colour() {
        for colour in [false, true] {
            let codes = [Look::Final, Look::Decided, Look::New, Look::Corrected, Look::Edited, Look::Open].map(|look| look.codes(colour));
            assert_eq!(codes.iter().collect::<std::collections::HashSet<_>>().len(), codes.len());
        }
    }

    /// The line below the canvas tells what became of guesses.
    #[cfg(feature = "bundled")]
    #[test]
    fn accepted_and_corrected_are_told_apart() {
        let llm = Llm::load("tiny-sdar", &dlmrs::LoadOptions::default(), &dlmrs::Overrides::default()).unwrap();
        let prompt = llm.tokenizer().unwrap().encode("The beads cost", dlmrs::tokenizer::Specials::AsText).unwrap();
        let screen = Screen { width: 200, height: 40, colour: false };
        let mut view = CanvasView::new(screen, &llm, prompt.len(), 60, Duration::ZERO).unwrap();
        let params = dlmrs::SamplingParams { max_tokens: 60, ignore_eos: true, ..Default::default() };
        let request = dlmrs::Request { prompt, params, decoding: Some(dlmrs::Decoding::Lookahead(dlmrs::Lookahead::default())) };
        let mut shown = Vec::new();
        let mut draw = |_: usize, event: &Event| view.event(event, &mut shown).is_ok();
        llm.generate(vec![request], &mut draw).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains(" accepted, 0 corrected") && shown.contains(" 0 accepted, ") && shown.contains("\x1b[1;7m"), "{shown}");
        assert!(shown.contains("slots decided\x1b"), "the first pass had nothing to judge: {shown}");
    }

    /// A token that was rewritten is told from one that was decided first, until it is final.
    #[cfg(feature = "bundled")]
    #[test]
    fn rewritten_tokens_are_told_apart() {
        use dlmrs::decode::Revealed;
        use dlmrs::sample::RowStat;
        let llm = Llm::load("tiny-sdar", &dlmrs::LoadOptions::default(), &dlmrs::Overrides::default()).unwrap();
        let ids = llm.tokenizer().unwrap().encode("apples and pears", dlmrs::tokenizer::Specials::AsText).unwrap();
        let id = llm.engine().submit(dlmrs::Request { prompt: ids.clone(), ..Default::default() }).unwrap();
        let screen = Screen { width: 200, height: 40, colour: false };
        let mut view = CanvasView::new(screen, &llm, 4, 4, Duration::ZERO).unwrap();
        let mut draw = |pass, position, token, how| {
            let stat = RowStat { token, probability: 0.5, entropy: 1.0, margin: 0.1 };
            let mut shown = Vec::new();
            view.event(&Event::Revealed { id, pass, slots: vec![Revealed { position, stat, how }] }, &mut shown).unwrap();
            String::from_utf8(shown).unwrap()
        };
        draw(1, 4, ids[0], How::Bound);
        let shown = draw(2, 4, ids[1], How::Edited);
        let text = llm.tokenizer().unwrap().decode(&ids[1..2], false).unwrap();
        assert!(shown.contains(&format!("\x1b[4;7m{text}\x1b[0m")) && shown.contains("1 of 4 slots decided, 1 rewritten"), "{shown}");
        let shown = draw(3, 5, ids[0], How::Ranked);
        assert!(shown.contains(&format!("\x1b[4m{text}\x1b[0m")) && !shown.contains("rewritten"), "{shown}");
    }

    /// A whole answer on a screen that is too small for it.
    #[cfg(feature = "bundled")]
    #[test]
    fn drawings_fit_and_are_taken_away() {
        let llm = Llm::load("tiny-sdar", &dlmrs::LoadOptions::default(), &dlmrs::Overrides::default()).unwrap();
        let prompt = llm.tokenizer().unwrap().encode("The beads cost", dlmrs::tokenizer::Specials::AsText).unwrap();
        let screen = Screen { width: 10, height: 5, colour: true };
        let mut view = CanvasView::new(screen, &llm, prompt.len(), 300, Duration::ZERO).unwrap();
        let params = dlmrs::SamplingParams { max_tokens: 300, ignore_eos: true, ..Default::default() };
        let request = dlmrs::Request { prompt, params, decoding: None };
        let mut frames = Vec::new();
        let mut draw = |_: usize, event: &Event| {
            let mut frame = Vec::new();
            view.event(event, &mut frame).unwrap();
            frames.push(String::from_utf8(frame).unwrap());
            true
        };
        llm.generate(vec![request], &mut draw).unwrap();
        let mut erased = Vec::new();
        view.erase(&mut erased).unwrap();
        assert!(frames.len() > 50);
        assert!(frames.iter().all(|frame| frame.lines().count() <= 4), "{frames:?}");
        assert!(frames[0].contains('·') && frames[0].starts_with("\x1b[7;32m"), "{}", frames[0]);
        assert_eq!(String::from_utf8(erased).unwrap(), "\x1b[4A\r\x1b[J");
        assert_eq!(view.slots.iter().flatten().count(), 300);
    }
}

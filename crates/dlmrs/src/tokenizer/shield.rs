//! Keeping what users write apart from the template's own control tokens.
//!
//! A rendered chat is one string, in which `<|im_end|>` from the template and `<|im_end|>` from a user look the same. So before
//! rendering, the first character of each literal that a user spells is replaced by a private-use character that occurs nowhere else.
//! The template carries it through, no literal is found there, and it is changed back before the text is cut into words.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Private-use characters with what they stand for.
#[derive(Default)]
pub(super) struct Substitutes {
    of: HashMap<char, char>,
    back: HashMap<char, char>,
}

fn is_private(c: char) -> bool {
    ('\u{E000}'..='\u{F8FF}').contains(&c)
}

impl Substitutes {
    /// One substitute for each character of `literals`, none of which occurs in `texts`.
    pub(super) fn new<'a>(literals: &[String], texts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut used: HashSet<char> = texts.into_iter().flat_map(str::chars).filter(|c| is_private(*c)).collect();
        let wanted: BTreeSet<char> = literals.iter().flat_map(|literal| literal.chars()).collect();
        used.extend(wanted.iter().copied());
        let mut free = ('\u{E000}'..='\u{F8FF}').filter(|c| !used.contains(c));
        let mut substitutes = Self::default();
        for c in wanted {
            let Some(other) = free.next() else {
                return Err(Error::input("messages", "the text uses up all private-use characters; take them out or use Specials::Parse"));
            };
            substitutes.of.insert(c, other);
            substitutes.back.insert(other, c);
        }
        Ok(substitutes)
    }

    /// How many substitutes a text has.
    pub(super) fn count(&self, text: &str) -> usize {
        text.chars().filter(|c| is_private(*c) && self.back.contains_key(c)).count()
    }

    pub(super) fn restore_char(&self, c: char) -> char {
        if is_private(c) { self.back.get(&c).copied().unwrap_or(c) } else { c }
    }

    pub(super) fn restore(&self, text: &str) -> String {
        text.chars().map(|c| self.restore_char(c)).collect()
    }
}

/// Which literals may not be in a text.
pub(super) struct Banned<'a> {
    by_first: HashMap<char, Vec<&'a str>>,
}

impl<'a> Banned<'a> {
    pub(super) fn new(literals: impl IntoIterator<Item = &'a str>) -> Self {
        let mut by_first: HashMap<char, Vec<&str>> = HashMap::new();
        for literal in literals {
            if let Some(first) = literal.chars().next() {
                by_first.entry(first).or_default().push(literal);
            }
        }
        Self { by_first }
    }

    /// Where literals start in a text.
    fn inside(&self, text: &str) -> BTreeSet<usize> {
        let starts = |(at, c): &(usize, char)| self.by_first.get(c).is_some_and(|list| list.iter().any(|l| text[*at..].starts_with(l)));
        text.char_indices().filter(starts).map(|(at, _)| at).collect()
    }

    /// Where a text may be one half of a literal whose other half comes from the template or from the next text. Templates often trim
    /// what they are given, so that whitespace may not be what separates the halves.
    fn at_edges(&self, text: &str) -> BTreeSet<usize> {
        let (head, tail) = (text.trim_start(), text.trim_end());
        let skipped = text.len() - head.len();
        let mut found = BTreeSet::new();
        for literal in self.by_first.values().flatten() {
            for (cut, _) in literal.char_indices().skip(1) {
                let (first, second) = literal.split_at(cut);
                found.extend([text, tail].iter().filter(|text| text.ends_with(first)).map(|text| text.len() - cut));
                found.extend([(text, 0), (head, skipped)].iter().filter(|(text, _)| text.starts_with(second)).map(|(_, at)| *at));
            }
        }
        found
    }
}

/// Shields values and remembers what it found in them.
pub(super) struct Shield<'a> {
    pub(super) substitutes: &'a Substitutes,
    /// A whole literal was spelled.
    pub(super) spelled: bool,
    /// A half of one was found at an edge.
    pub(super) edges: bool,
}

impl Shield<'_> {
    /// Shields every string in a value, names of fields included.
    pub(super) fn value(&mut self, value: &mut Value, banned: &Banned) {
        match value {
            Value::String(text) => self.text(text, banned, true),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, banned)),
            Value::Object(map) => self.map(map, banned),
            _ => (),
        }
    }

    fn map(&mut self, map: &mut Map<String, Value>, banned: &Banned) {
        for (mut key, mut value) in std::mem::take(map) {
            self.text(&mut key, banned, true);
            self.value(&mut value, banned);
            map.insert(key, value);
        }
    }

    /// Shields one string; without `edges` only whole literals.
    pub(super) fn text(&mut self, text: &mut String, banned: &Banned, edges: bool) {
        let mut at = banned.inside(text);
        self.spelled |= !at.is_empty();
        if edges {
            let halves = banned.at_edges(text);
            self.edges |= !halves.is_empty();
            at.extend(halves);
        }
        if !at.is_empty() {
            let of = &self.substitutes.of;
            *text = text.char_indices().map(|(i, c)| if at.contains(&i) { of.get(&c).copied().unwrap_or(c) } else { c }).collect();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_broken_and_come_back() {
        let literals = ["<|end|>".to_owned(), "<|end".to_owned(), "é".to_owned()];
        let banned = Banned::new(literals.iter().map(String::as_str));
        let taken = "\u{E000} is taken";
        let substitutes = Substitutes::new(&literals, [taken]).unwrap();
        for text in ["<|end|>", "a<|end<|end|>b", "é", "ends in <|e", "|> starts", "<", ">", taken] {
            let mut shield = Shield { substitutes: &substitutes, spelled: false, edges: false };
            let mut covered = text.to_owned();
            shield.text(&mut covered, &banned, true);
            assert!(!literals.iter().any(|literal| covered.contains(literal)), "{covered:?}");
            assert_eq!(substitutes.restore(&covered), text);
            assert_eq!(shield.spelled || shield.edges, substitutes.count(&covered) > 0);
            assert_eq!(covered.chars().count(), text.chars().count());
        }
    }

    #[test]
    fn names_of_fields_are_shielded_too() {
        let literals = ["<m>".to_owned()];
        let banned = Banned::new(["<m>"]);
        let substitutes = Substitutes::new(&literals, []).unwrap();
        let mut value = serde_json::json!({"a<m>": [1, {"b": "<m>"}], "c": null});
        Shield { substitutes: &substitutes, spelled: false, edges: false }.value(&mut value, &banned);
        assert!(!value.to_string().contains("<m>"));
        assert_eq!(substitutes.restore(&value.to_string()), r#"{"a<m>":[1,{"b":"<m>"}],"c":null}"#);
    }
}

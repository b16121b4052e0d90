//! Whether two answers mean the same.

use std::sync::LazyLock;

use regex::Regex;

use super::normal::normal;
use super::value::value;
use crate::pattern::pattern;

/// Longer answers are compared as text alone.
const LONGEST: usize = 1000;

/// Two values are equal if they differ by less than this part of them: rounding of a few operations.
const TOLERANCE: f64 = 1e-12;

/// Whether two answers in LaTeX mean the same: the same text in one spelling, the same number, the same expression at some numbers in
/// place of its letters, or brackets, lists and inequalities of such.
pub(super) fn equal(a: &str, b: &str) -> bool {
    if a.len().max(b.len()) > LONGEST {
        return a.trim() == b.trim();
    }
    let (a, b) = (normal(a), normal(b));
    !a.is_empty() && same(&a, &b)
}

fn same(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if let (Some((left_a, sign_a, right_a)), Some((left_b, sign_b, right_b))) = (relation(a), relation(b)) {
        return sign_a == sign_b && same(left_a, left_b) && same(right_a, right_b);
    }
    let (unions_a, unions_b) = (split(a, "\\cup"), split(b, "\\cup"));
    if unions_a.len() > 1 || unions_b.len() > 1 {
        return in_any_order(&unions_a, &unions_b);
    }
    match (bracketed(a), bracketed(b)) {
        (Some((kind_a, inner_a)), Some((kind_b, inner_b))) => {
            let (items_a, items_b) = (split(inner_a, ","), split(inner_b, ","));
            if kind_a == "\\{" && kind_b == "\\{" {
                return in_any_order(&items_a, &items_b);
            }
            kind_a == kind_b && items_a.len() == items_b.len() && items_a.iter().zip(&items_b).all(|(a, b)| same(a, b))
        }
        // A set may be written without its braces, in any order, and an expression with brackets around it.
        (Some(("\\{", inner)), None) => in_any_order(&items(inner), &items(b)),
        (None, Some(("\\{", inner))) => in_any_order(&items(a), &items(inner)),
        (Some(("()", inner)), None) if split(inner, ",").len() == 1 => same(inner, b),
        (None, Some(("()", inner))) if split(inner, ",").len() == 1 => same(a, inner),
        (Some(_), None) | (None, Some(_)) => false,
        (None, None) => match (items(a), items(b)) {
            (items_a, items_b) if items_a.len() > 1 || items_b.len() > 1 => in_any_order(&items_a, &items_b),
            _ => same_expression(a, b),
        },
    }
}

/// Words without regard to case, decimals digit by digit, all else by value.
fn same_expression(a: &str, b: &str) -> bool {
    if word(a) || word(b) {
        return a.eq_ignore_ascii_case(b);
    }
    if let (Some(a), Some(b)) = (decimal(a), decimal(b)) {
        return a == b;
    }
    // Two expressions that agree at three arbitrary points are the same one, but for a chance that needs no counting.
    let mut compared = false;
    for point in 1..=3_u32 {
        let letter = |name: &str| {
            let code = name.bytes().fold(point, |code, byte| code.wrapping_mul(2_654_435_761).wrapping_add(u32::from(byte) * 40_503));
            0.5 + f64::from(code % 10_007) / 5_000.0
        };
        match (value(a, &letter), value(b, &letter)) {
            (Some(x), Some(y)) if (x - y).abs() <= TOLERANCE * x.abs().max(y.abs()) => compared = true,
            (None, None) => {}
            _ => return false,
        }
    }
    compared
}

/// Whether a text has a word that is no command: its letters are no factors.
fn word(text: &str) -> bool {
    static COMMAND: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\[A-Za-z]+"));
    static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z]{3,}"));
    WORD.is_match(&COMMAND.replace_all(text, " "))
}

/// A plain number without what its value does not need: sign, whole part, decimals.
fn decimal(text: &str) -> Option<(bool, &str, &str)> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + part.len() == 0 || !plain(whole) || !plain(part) {
        return None;
    }
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    Some((negative && whole.len() + part.len() > 0, whole, part))
}

/// The brackets around all of a text, as "()", "[)" or "\{", and what is inside.
fn bracketed(text: &str) -> Option<(&'static str, &str)> {
    let (open, rest) = if let Some(rest) = text.strip_prefix("\\{") { ("\\{", rest) } else { (text.get(..1)?, text.get(1..)?) };
    let close = closing(rest)?;
    let (inner, end) = rest.split_at(close);
    let kind = match (open, end) {
        ("\\{", "\\}") => "\\{",
        ("(", ")") => "()",
        ("[", "]") => "[]",
        ("(", "]") => "(]",
        ("[", ")") => "[)",
        _ => return None,
    };
    Some((kind, inner))
}

/// Where the bracket that closes one before the text stands.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return Some(if text[..at].ends_with('\\') { at - 1 } else { at }),
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Where a separator stands outside of brackets.
fn outside<'a>(text: &'a str, separator: &'a str) -> impl Iterator<Item = usize> + 'a {
    let mut depth = 0;
    text.char_indices().filter_map(move |(at, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        (depth == 0 && text[at..].starts_with(separator)).then_some(at)
    })
}

fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in outside(text, separator) {
        parts.push(text[start..at].trim());
        start = at + separator.len();
    }
    parts.push(text[start..].trim());
    parts
}

/// The items of a list; one with a plus-minus sign is two.
fn items(text: &str) -> Vec<String> {
    let signs = |item: &str| ["+", "-"].map(|sign| item.replacen("\\pm", sign, 1).replace(' ', ""));
    let both = |item: &&str| if item.contains("\\pm") { signs(item).to_vec() } else { vec![(*item).to_string()] };
    split(text, ",").iter().flat_map(both).collect()
}

/// The first relation outside of brackets, with its sides.
fn relation(text: &str) -> Option<(&str, &str, &str)> {
    const SIGNS: [&str; 6] = ["=", "<", ">", "\\leq", "\\geq", "\\neq"];
    let first = |sign: &'static str| outside(text, sign).next().map(|at| (at, sign));
    let (at, sign) = SIGNS.into_iter().filter_map(first).min_by_key(|(at, _)| *at)?;
    Some((text[..at].trim(), sign, text[at + sign.len()..].trim()))
}

/// Whether each has an equal one in the other list.
fn in_any_order<A: AsRef<str>, B: AsRef<str>>(a: &[A], b: &[B]) -> bool {
    let mut left: Vec<&str> = b.iter().map(AsRef::as_ref).collect();
    a.len() == b.len()
        && a.iter().all(|item| {
            let found = left.iter().position(|other| same(item.as_ref(), other));
            found.map(|at| left.swap_remove(at)).is_some()
        })
}

//! One spelling for what LaTeX and people write in many.

use std::sync::LazyLock;

use regex::Regex;

use super::extract::group;
use crate::pattern::pattern;

/// An answer without what does not change its meaning: dollar signs, spaces, sizes of brackets, units, thousands separators, degrees,
/// percent signs, `x =`. A single space is left between a command and a letter.
pub(super) fn normal(text: &str) -> String {
    let mut out = String::new();
    spell(text.trim(), &mut out);
    let joined = without_units(&out).replace('"', " ");
    let joined = replaced(&joined, &LISTED, ",");
    let joined = replaced(joined.trim(), &NAMED, "");
    let tight = tight(&joined);
    let tight = tight.trim_end_matches(['.', ',']);
    braced(if THOUSANDS.is_match(tight) { tight.replace(',', "") } else { tight.replace("{,}", "") })
}

/// "and" and "or" between the items of a list.
static LISTED: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\s,]*,\s*(?:and|or)\s|\s(?:and|or)\s"));
/// What is equated with the answer, if there is one equals sign; the set that it lies in.
static NAMED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[A-Za-z](?:_\w|\([a-z]\))?\s*(?:=\s*([^=]*)$|\\in\s+)"));
static THOUSANDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?$"));

fn replaced(text: &str, what: &Regex, by: &str) -> String {
    what.replace_all(text, |found: &regex::Captures<'_>| found.get(1).map_or(by, |kept| kept.as_str()).to_string()).into_owned()
}

/// Copies LaTeX in one spelling. Words of `\text` are put in quotation marks, which no formula has.
fn spell(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = command(rest, out),
            '$' | '%' | '"' | '°' => {}
            '~' => out.push(' '),
            '−' | '–' => out.push('-'),
            '×' | '·' => out.push('*'),
            '÷' => out.push('/'),
            'π' => out.push_str("\\pi "),
            '∞' => out.push_str("\\infty "),
            '≤' => out.push_str("\\leq "),
            '≥' => out.push_str("\\geq "),
            '√' => out.push_str("\\sqrt "),
            '∪' => out.push_str("\\cup "),
            c => out.push(c),
        }
    }
    for degrees in ["^{\\circ }", "^\\circ "] {
        *out = out.replace(degrees, " ");
    }
}

/// What follows a backslash; returns what follows the command.
fn command<'a>(text: &'a str, out: &mut String) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let inner = || rest.trim_start().strip_prefix('{').and_then(group);
    match name {
        "" => {
            let Some(sign) = rest.chars().next() else { return rest };
            match sign {
                '{' | '}' | '\\' => out.extend(['\\', sign]),
                // Spaces, brackets around formulas, and signs that need a backslash.
                ',' | ';' | ':' | '!' | ' ' | '(' | ')' | '[' | ']' | '$' | '%' => {}
                sign => out.push(sign),
            }
            return &rest[sign.len_utf8()..];
        }
        "left" | "right" | "big" | "Big" | "bigl" | "bigr" | "Bigl" | "Bigr" | "displaystyle" | "degree" | "degrees" => {}
        "quad" | "qquad" => out.push(' '),
        "dfrac" | "tfrac" | "cfrac" => out.push_str("\\frac "),
        "cdot" | "times" | "ast" => out.push('*'),
        "div" => out.push('/'),
        "le" => out.push_str("\\leq "),
        "ge" => out.push_str("\\geq "),
        "ne" => out.push_str("\\neq "),
        "lt" => out.push('<'),
        "gt" => out.push('>'),
        "text" | "textbf" | "textit" | "textrm" | "mbox" | "mathrm" | "operatorname" | "mathbf" | "boxed" | "fbox" => {
            if let Some(inner) = inner() {
                let quote = if matches!(name, "boxed" | "fbox" | "mathbf") { "" } else { "\"" };
                out.push_str(quote);
                spell(inner, out);
                out.push_str(quote);
                return rest.trim_start().get(inner.len() + 2..).unwrap_or_default();
            }
        }
        name => out.extend(["\\", name, " "]),
    }
    rest
}

/// The text without the words that follow its number, and without a power of them: "5 cm", "12 square units", "3 in^2".
fn without_units(text: &str) -> &str {
    // Two letters side by side may be factors, so that short units are a list.
    static UNITS: LazyLock<Regex> = LazyLock::new(|| {
        let word = r#"\s*"[^"0-9]*"|\s+(?:[A-Za-z]{3,}|cm|mm|km|in|ft|mi|kg|lb|oz|hr)\.?"#;
        pattern(&format!(r#"^([^"]*(?:[0-9)}}]|\\pi))(?:{word})+\s*(?:\^\s*(?:[23]|\{{[23]\}}))?\s*\.?$"#))
    });
    UNITS.captures(text).and_then(|found| found.get(1)).map_or(text, |value| value.as_str())
}

/// Without spaces but for one between a command and a letter.
fn tight(text: &str) -> String {
    static SPACE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\\[A-Za-z]+) *(\s[A-Za-z])|\s"));
    let kept = |found: &regex::Captures<'_>| match (found.get(1), found.get(2)) {
        (Some(command), Some(letter)) => format!("{} {}", command.as_str(), letter.as_str().trim_start()),
        _ => String::new(),
    };
    SPACE.replace_all(text, kept).into_owned()
}

/// Braces around the arguments of `\frac` and `\sqrt`, none around single exponents and indices.
fn braced(text: String) -> String {
    static ABOVE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\frac ?([0-9A-Za-z])"));
    static BELOW: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\frac(\{[^{}]*\})([0-9A-Za-z])"));
    static ROOT: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\sqrt(\[[^\]]*\])? ?([0-9A-Za-z])"));
    static SINGLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"([\^_])\{(.)\}"));
    let text = ABOVE.replace_all(&text, r"\frac{$1}").into_owned();
    let text = BELOW.replace_all(&text, r"\frac$1{$2}").into_owned();
    let text = ROOT.replace_all(&text, r"\sqrt$1{$2}").into_owned();
    SINGLE.replace_all(&text, "$1$2").into_owned()
}

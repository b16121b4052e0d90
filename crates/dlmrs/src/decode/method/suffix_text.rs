//! Suffix policies as text, for the command line: a name, and behind a colon its values, as in `gaussian:window=128,k=3,a=1.6`.

use std::str::FromStr;

use super::preset::preset;
use super::suffix::{DropoutKind, Spotlight, Suffix, SuffixDropout, WindowTail};
use crate::error::{Error, Result};

const KNOWN: &str = "off, keep_all, drop_all, gaussian, uniform, exponential, linear, step, window_tail, spotlight, kept or preset";

impl FromStr for Suffix {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        let (name, values) = s.split_once(':').map_or((s, None), |(name, values)| (name, Some(values)));
        let bare = |policy: Self| match values {
            Some(_) => Err(Error::input("suffix", format!("'{name}' takes no values; leave out what follows the colon"))),
            None => Ok(policy),
        };
        let policy = match name {
            "off" => bare(Self::Off)?,
            "keep_all" => bare(Self::KeepAll)?,
            "drop_all" => bare(Self::DropAll)?,
            "window_tail" => {
                let mut fields = Fields::read(name, values, &["window", "tail"])?;
                let default = WindowTail::default();
                Self::WindowTail(WindowTail { window: fields.take("window")?, tail: fields.take("tail")?.unwrap_or(default.tail) })
            }
            "spotlight" => {
                let mut fields = Fields::read(name, values, &["distance", "count"])?;
                let default = Spotlight::default();
                Self::Spotlight(Spotlight {
                    distance: fields.take("distance")?.unwrap_or(default.distance),
                    count: fields.take("count")?.unwrap_or(default.count),
                })
            }
            "kept" => Self::Kept(lists(values.unwrap_or_default())?),
            "preset" => Self::Dropout(preset(values.unwrap_or_default())?),
            _ => Self::Dropout(dropout(name, values)?),
        };
        policy.validate()?;
        Ok(policy)
    }
}

fn dropout(name: &str, values: Option<&str>) -> Result<SuffixDropout> {
    let kind: DropoutKind = name.parse().map_err(|_| Error::input("suffix", format!("'{name}' is unknown; use {KNOWN}")))?;
    let mut fields = Fields::read(name, values, &["window", "k", "a", "budget"])?;
    Ok(SuffixDropout { window: fields.take("window")?, k: fields.take("k")?, a: fields.take("a")?, kind, budget: fields.take("budget")? })
}

/// `17 18 21/25 26/` is three blocks, the last of which keeps nothing.
fn lists(text: &str) -> Result<Vec<Vec<u32>>> {
    let place = |word: &str| {
        word.parse()
            .map_err(|_| Error::input("suffix", format!("'{word}' is no place of a canvas; whole numbers are needed, blocks parted by /")))
    };
    text.split('/').map(|block| block.split_whitespace().map(place).collect()).collect()
}

/// `name=value` pairs.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    fn read(policy: &str, values: Option<&'a str>, known: &[&str]) -> Result<Self> {
        let pairs = values.into_iter().flat_map(|values| values.split(',')).map(|pair| {
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong(policy, pair, known))?;
            if known.contains(&name) { Ok((name, value)) } else { Err(wrong(policy, pair, known)) }
        });
        let pairs: Vec<_> = pairs.collect::<Result<_>>()?;
        match pairs.iter().enumerate().find(|(i, (name, _))| pairs[..*i].iter().any(|(other, _)| other == name)) {
            Some((_, (name, _))) => Err(Error::input("suffix", format!("gives {name} twice; once is enough"))),
            None => Ok(Self(pairs)),
        }
    }

    fn take<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let Some((_, value)) = self.0.iter().find(|(given, _)| *given == name) else { return Ok(None) };
        match value.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::input(name, format!("is '{value}'; a number is needed"))),
        }
    }
}

fn wrong(policy: &str, pair: &str, known: &[&str]) -> Error {
    let pairs: Vec<String> = known.iter().map(|name| format!("{name}=...")).collect();
    Error::input("suffix", format!("'{pair}' is unknown to {policy}; use {}", pairs.join(",")))
}

impl Suffix {
    /// As [`FromStr`] reads it.
    pub fn text(&self) -> String {
        match self {
            Self::Off => "off".into(),
            Self::KeepAll => "keep_all".into(),
            Self::DropAll => "drop_all".into(),
            Self::Dropout(d) => joined(
                d.kind.name(),
                [
                    ("window", d.window.map(|v| v.to_string())),
                    ("k", d.k.map(|v| v.to_string())),
                    ("a", d.a.map(|v| v.to_string())),
                    ("budget", d.budget.map(|v| v.to_string())),
                ],
            ),
            Self::WindowTail(p) => joined("window_tail", [("window", p.window.map(|v| v.to_string())), ("tail", Some(p.tail.to_string()))]),
            Self::Spotlight(p) => joined("spotlight", [("distance", Some(p.distance.to_string())), ("count", Some(p.count.to_string()))]),
            Self::Kept(lists) => {
                let block = |list: &Vec<u32>| list.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
                format!("kept:{}", lists.iter().map(block).collect::<Vec<_>>().join("/"))
            }
        }
    }
}

fn joined<const N: usize>(name: &str, values: [(&str, Option<String>); N]) -> String {
    let given: Vec<String> = values.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect();
    if given.is_empty() { name.into() } else { format!("{name}:{}", given.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in [
            "off",
            "keep_all",
            "drop_all",
            "gaussian",
            "gaussian:window=128,k=3,a=1.6",
            "uniform:window=64,budget=32",
            "exponential:window=64,k=2.5,budget=20",
            "linear:budget=9",
            "step:k=2,a=0.5",
            "window_tail:window=96,tail=2",
            "spotlight:distance=32,count=5",
            "kept:17 18 21/25 26/",
        ] {
            assert_eq!(text.parse::<Suffix>().unwrap().text(), text);
        }
        assert_eq!("preset:llada-1.5-gsm8k".parse::<Suffix>().unwrap().text(), "gaussian:window=256,k=3,a=1.6");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("normal", "suffix: 'normal' is unknown; use off, keep_all"),
            ("off:window=3", "suffix: 'off' takes no values"),
            ("gaussian:sigma=3", "suffix: 'sigma=3' is unknown to gaussian; use window=...,k=...,a=...,budget=..."),
            ("gaussian:window", "suffix: 'window' is unknown to gaussian"),
            ("gaussian:k=3,k=4", "suffix: gives k twice"),
            ("gaussian:window=-3", "window: is '-3'; a number is needed"),
            ("gaussian:window=0", "window: is 0; at least 1"),
            ("gaussian:k=-1", "k: is -1; a number above 0"),
            ("gaussian:k=0", "k: is 0; a number above 0"),
            ("gaussian:a=-1", "a: is -1; a finite number"),
            ("gaussian:a=NaN", "a: is NaN; a finite number"),
            ("gaussian:a=inf", "a: is inf; a finite number"),
            ("gaussian:a=1,budget=3", "budget: settles a"),
            ("uniform:window=8,budget=9", "budget: is 9, more than the window of 8 holds"),
            ("uniform:k=3", "k: has no effect with kind=\"uniform\""),
            ("uniform:a=3", "a: has no effect with kind=\"uniform\""),
            ("linear:k=3", "k: has no effect with kind=\"linear\""),
            ("spotlight:count=0", "count: is 0"),
            ("kept:1 x", "suffix: 'x' is no place"),
            ("kept:2 1", "suffix: the places of block 0 do not rise"),
            ("preset:gpt", "preset: 'gpt' is unknown; use one of llada-instruct-gsm8k"),
        ] {
            let found = text.parse::<Suffix>().unwrap_err().to_string();
            assert!(found.starts_with(says), "{text}: {found}");
        }
    }
}

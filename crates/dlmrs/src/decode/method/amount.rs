//! A number that may be left open.

use crate::error::{Error, Result};

/// How many, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// As many as there are.
    #[default]
    All,
    /// At most so many.
    AtMost(usize),
    /// What has paid so far, by the time that passes took. Allowed only where it cannot change a result.
    Auto,
}

impl Amount {
    /// The limit, if it is a number.
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::AtMost(limit) => Some(limit),
            Self::All | Self::Auto => None,
        }
    }

    /// Whether it goes by what was measured.
    pub fn is_auto(self) -> bool {
        self == Self::Auto
    }
}

impl From<Option<usize>> for Amount {
    fn from(limit: Option<usize>) -> Self {
        limit.map_or(Self::All, Self::AtMost)
    }
}

impl std::str::FromStr for Amount {
    type Err = Error;
    /// "off", "auto" or a number.
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "off" => Ok(Self::All),
            "auto" => Ok(Self::Auto),
            number => match number.parse() {
                Ok(limit) => Ok(Self::AtMost(limit)),
                Err(_) => Err(Error::input("number", format!("is '{number}'; a number, 'auto' or 'off' is needed"))),
            },
        }
    }
}

//! Values of settings: how they are read and shown.

use super::file::{length, permissions};
use super::{Limit, Pooling, SessionState};
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For a length of time that is switched off where there has to be one.
const FOREVER: Duration = Duration::from_hours(24 * 365 * 100);

/// The type of a setting.
pub(super) trait Value: Sized {
    /// How the TOML file has it.
    type Toml: DeserializeOwned;
    /// Whether it is written in quotes there.
    const QUOTED: bool = true;

    /// Relative paths start at `folder`.
    fn of_toml(given: Self::Toml, folder: &Path) -> Result<Self, String>;

    /// From `pgbouncer.ini` or `SET`.
    fn of_text(text: &str, folder: &Path) -> Result<Self, String>;

    /// As the TOML file would have it, without quotes.
    fn show(&self) -> String;

    /// Refuses a number that is too small.
    fn at_least(self, _: usize) -> Result<Self, String> {
        Ok(self)
    }
}

impl Value for usize {
    type Toml = Self;
    const QUOTED: bool = false;

    fn of_toml(given: Self, _: &Path) -> Result<Self, String> {
        Ok(given)
    }

    fn of_text(text: &str, _: &Path) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("{text}: expected a number"))
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn at_least(self, least: usize) -> Result<Self, String> {
        if self < least {
            return Err(format!("{self}: expected at least {least}"));
        }
        Ok(self)
    }
}

impl Value for bool {
    type Toml = Self;
    const QUOTED: bool = false;

    fn of_toml(given: Self, _: &Path) -> Result<Self, String> {
        Ok(given)
    }

    fn of_text(text: &str, _: &Path) -> Result<Self, String> {
        match text {
            "0" | "off" | "false" | "no" => Ok(false),
            "1" | "on" | "true" | "yes" => Ok(true),
            _ => Err(format!("{text}: expected 0 or 1")),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Option<Duration> {
    type Toml = Limit;

    fn of_toml(given: Limit, _: &Path) -> Result<Self, String> {
        Ok(given.0)
    }

    /// A length of time with its unit, or a number of seconds, of which 0 is none.
    fn of_text(text: &str, _: &Path) -> Result<Self, String> {
        if let Some(length) = length(text) {
            return Ok(length);
        }
        let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
        let Some(Ok(length)) = seconds else {
            return Err(format!("{text}: expected a number of seconds"));
        };
        Ok((!length.is_zero()).then_some(length))
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "off".to_owned(), Value::show)
    }
}

impl Value for Duration {
    type Toml = Limit;

    fn of_toml(given: Limit, _: &Path) -> Result<Self, String> {
        Ok(given.0.unwrap_or(FOREVER))
    }

    fn of_text(text: &str, folder: &Path) -> Result<Self, String> {
        let given = <Option<Self> as Value>::of_text(text, folder)?;
        Ok(given.unwrap_or(FOREVER))
    }

    fn show(&self) -> String {
        let units = [
            (3_600_000_000, "h"),
            (60_000_000, "min"),
            (1_000_000, "s"),
            (1000, "ms"),
        ];
        let length_us = self.as_micros();
        let fits =
            |(unit_us, _): &&(u128, &str)| length_us > 0 && length_us.is_multiple_of(*unit_us);
        match units.iter().find(fits) {
            _ if *self >= FOREVER => "off".to_owned(),
            Some((unit_us, unit)) => format!("{}{unit}", length_us / unit_us),
            None => format!("{length_us}us"),
        }
    }
}

impl Value for String {
    type Toml = Self;

    fn of_toml(given: Self, _: &Path) -> Result<Self, String> {
        Ok(given)
    }

    fn of_text(text: &str, _: &Path) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for Vec<String> {
    type Toml = Self;

    fn of_toml(given: Self, _: &Path) -> Result<Self, String> {
        Ok(given)
    }

    fn of_text(text: &str, _: &Path) -> Result<Self, String> {
        let words = text.split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty());
        Ok(words.map(str::to_owned).collect())
    }

    fn show(&self) -> String {
        self.join(", ")
    }
}

impl Value for Option<PathBuf> {
    type Toml = PathBuf;

    fn of_toml(given: PathBuf, folder: &Path) -> Result<Self, String> {
        Ok(Some(folder.join(given)))
    }

    fn of_text(text: &str, folder: &Path) -> Result<Self, String> {
        Ok((!text.is_empty()).then(|| folder.join(text)))
    }

    fn show(&self) -> String {
        let path = self.as_ref().map(|path| path.display().to_string());
        path.unwrap_or_default()
    }
}

/// Permissions of a file, as octal digits.
impl Value for Option<u32> {
    type Toml = String;

    fn of_toml(given: String, folder: &Path) -> Result<Self, String> {
        Self::of_text(&given, folder)
    }

    fn of_text(text: &str, _: &Path) -> Result<Self, String> {
        permissions(text).map(Some)
    }

    fn show(&self) -> String {
        self.map_or_else(String::new, |mode| format!("{mode:04o}"))
    }
}

/// Settings whose values are names.
macro_rules! named {
    ($type:ty { $($name:literal: $value:ident),+ }) => {
        impl Value for $type {
            type Toml = Self;

            fn of_toml(given: Self, _: &Path) -> Result<Self, String> {
                Ok(given)
            }

            fn of_text(text: &str, _: &Path) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$value),)+
                    _ => Err(format!("{text}: expected {}", [$($name),+].join(", "))),
                }
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $name,)+
                })
            }
        }
    };
}

named!(Pooling { "session": Session, "transaction": Transaction, "statement": Statement });
named!(SessionState { "pin": Pin, "reset": Reset });

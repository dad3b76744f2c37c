//! `PostgreSQL` version numbers as its users write them.

use std::fmt;
use std::str::FromStr;

/// The majors tenbin knows, oldest first. Everything it does on a server is written for these.
pub const KNOWN: [Major; 10] = [
    Major(90_600),
    Major(100_000),
    Major(110_000),
    Major(120_000),
    Major(130_000),
    Major(140_000),
    Major(150_000),
    Major(160_000),
    Major(170_000),
    Major(180_000),
];

/// The newest major tenbin knows.
pub const NEWEST: Major = KNOWN[KNOWN.len() - 1];

/// [`KNOWN`] for a message: `9.6, 10, …, 18`.
#[must_use]
pub fn known() -> String {
    let names: Vec<String> = KNOWN.iter().map(Major::to_string).collect();
    names.join(", ")
}

/// A release, kept as `server_version_num` counts it: 9.6.24 is 90624, 18.6 is 180006.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u32);

impl Version {
    /// From `server_version_num`.
    #[must_use]
    pub fn from_num(version_num: u32) -> Self {
        Self(version_num)
    }

    /// `server_version_num`.
    #[must_use]
    pub fn num(self) -> u32 {
        self.0
    }

    /// The major it belongs to.
    #[must_use]
    pub fn major(self) -> Major {
        if self.0 >= 100_000 {
            Major(self.0 / 10_000 * 10_000)
        } else {
            Major(self.0 / 100 * 100)
        }
    }

    /// A note for users of a version newer than those tenbin was made for.
    pub(crate) fn beyond_known(self) -> Option<String> {
        (self.major() > NEWEST).then(|| {
            format!(
                "PostgreSQL {self} is newer than the versions tenbin was made for, up to {NEWEST}"
            )
        })
    }

    /// Reads the number from what `postgres --version` and `pg_config --version` print:
    /// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`, `PostgreSQL 19devel`.
    #[must_use]
    pub fn from_banner(banner: &str) -> Option<Self> {
        banner
            .split_ascii_whitespace()
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            .and_then(|word| {
                // A build from a development branch (`19devel`, `18beta2`) counts as its .0.
                let end = word
                    .find(|c: char| !c.is_ascii_digit() && c != '.')
                    .unwrap_or(word.len());
                let number = &word[..end];
                if number.contains('.') {
                    number.parse().ok()
                } else {
                    number.parse::<Major>().ok().map(|major| Self(major.0))
                }
            })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match numbers_of(self.0) {
            (major, minor, _) if major >= 10 => write!(f, "{major}.{minor}"),
            (first, second, patch) => write!(f, "{first}.{second}.{patch}"),
        }
    }
}

impl FromStr for Version {
    type Err = ();

    /// `18.6` or `9.6.24`; a major alone is not a version.
    fn from_str(text: &str) -> Result<Self, ()> {
        let parts = numbers(text)?;
        match parts[..] {
            [first, second, patch] if first < 10 => Ok(Self(first * 10_000 + second * 100 + patch)),
            [major, minor] if major >= 10 => Ok(Self(major * 10_000 + minor)),
            _ => Err(()),
        }
    }
}

/// A major release: 9.6, or 10 and later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Major(u32);

impl Major {
    /// Its `.0` as `server_version_num`: 90600, 180000.
    #[must_use]
    pub fn num(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match numbers_of(self.0) {
            (major, _, _) if major >= 10 => write!(f, "{major}"),
            (first, second, _) => write!(f, "{first}.{second}"),
        }
    }
}

impl FromStr for Major {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match numbers(text)?[..] {
            [major] if major >= 10 => Ok(Self(major * 10_000)),
            [first, second] if first < 10 => Ok(Self(first * 10_000 + second * 100)),
            _ => Err(()),
        }
    }
}

/// First, second and third number behind `server_version_num`: 9, 6, 24; 18, 6, 0.
fn numbers_of(num: u32) -> (u32, u32, u32) {
    if num >= 100_000 {
        (num / 10_000, num % 10_000, 0)
    } else {
        (num / 10_000, num / 100 % 100, num % 100)
    }
}

/// Dot-separated numbers below 100, one to three of them.
fn numbers(text: &str) -> Result<Vec<u32>, ()> {
    text.split('.')
        .map(|part| match part.parse::<u32>() {
            Ok(number) if number < 100 && part.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
            _ => Err(()),
        })
        .collect()
}

/// Which release is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The newest known major.
    Newest,
    /// The newest release of a major.
    Major(Major),
    /// Exactly this release.
    Exact(Version),
}

impl Request {
    /// Whether `version` is what is asked for.
    #[must_use]
    pub fn accepts(self, version: Version) -> bool {
        match self {
            Self::Newest => KNOWN.contains(&version.major()),
            Self::Major(major) => version.major() == major,
            Self::Exact(exact) => version == exact,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => write!(f, "the newest"),
            Self::Major(major) => write!(f, "{major}"),
            Self::Exact(version) => write!(f, "{version}"),
        }
    }
}

/// `18`, `17.5`, `9.6`, `9.6.24`; majors that tenbin does not know are refused by name.
impl FromStr for Request {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, crate::Error> {
        let known = |major: &Major| KNOWN.contains(major);
        if let Some(major) = text.parse().ok().filter(known) {
            Ok(Self::Major(major))
        } else if let Some(version) = text.parse().ok().filter(|v: &Version| known(&v.major())) {
            Ok(Self::Exact(version))
        } else {
            Err(crate::Error::UnknownVersion {
                asked: text.to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_writes_both_ways_of_counting() {
        for (text, num) in [("9.6.24", 90_624), ("10.0", 100_000), ("18.6", 180_006)] {
            let version: Version = text.parse().unwrap();
            assert_eq!(version.num(), num);
            assert_eq!(version.to_string(), text);
        }
        assert_eq!(
            "9.6.24".parse::<Version>().unwrap().major().to_string(),
            "9.6"
        );
        assert_eq!("17.5".parse::<Version>().unwrap().major().to_string(), "17");
        for bad in [
            "", "18", "9.6", "18.6.0", "18.x", "+18.6", "18.", "1.2.3.4", "18.100",
        ] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }

    #[test]
    fn reads_what_the_programs_print() {
        for (banner, num) in [
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                150_018,
            ),
            ("postgres (PostgreSQL) 9.6.24", 90_624),
            ("PostgreSQL 19devel", 190_000),
            ("postgres (PostgreSQL) 18beta2", 180_000),
        ] {
            assert_eq!(Version::from_banner(banner), Some(Version(num)), "{banner}");
        }
        assert_eq!(Version::from_banner("bash: postgres: not found"), None);
    }

    #[test]
    fn requests_name_a_known_major() {
        assert_eq!(
            "18".parse::<Request>().unwrap(),
            Request::Major(Major(180_000))
        );
        assert_eq!(
            "9.6".parse::<Request>().unwrap(),
            Request::Major(Major(90_600))
        );
        assert_eq!(
            "17.5".parse::<Request>().unwrap(),
            Request::Exact(Version(170_005))
        );
        for bad in [
            "8.4", "9.5", "9.5.1", "9", "19", "19.1", "latest", "", "18.1.2",
        ] {
            let message = bad.parse::<Request>().unwrap_err().to_string();
            assert!(message.contains("9.6, 10, 11"), "{bad}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_version_or_an_error(text in ".{0,12}") {
            if let Ok(version) = text.parse::<Version>() {
                prop_assert_eq!(version.to_string().parse::<Version>(), Ok(version));
            }
            let _ = text.parse::<Request>();
            let _ = Version::from_banner(&text);
        }
    }
}

//! Lines to standard error, and to a file if there is one: a time, a level, what happened, and to whom, as `key=value`.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warning,
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "INFO",
            Self::Warning => "WARN",
            Self::Error => "ERROR",
        })
    }
}

/// The file, for all monitors of the process.
static FILE: Mutex<Option<File>> = Mutex::new(None);

/// Appends what is logged from now on to this file, too, if one is given. A file that has been moved is created again.
pub(crate) fn append_to(path: Option<&Path>) -> std::io::Result<()> {
    let open = |path| File::options().append(true).create(true).open(path);
    let file = path.map(open).transpose()?;
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = file;
    Ok(())
}

/// Writes one line. A standard error that is gone is no reason to stop.
pub(crate) fn line(level: Level, what: &str, about: &[(&str, &dyn fmt::Display)]) {
    let mut text = format!("{} {level} {what}", Utc(SystemTime::now()));
    for (name, value) in about {
        let value = value.to_string();
        let plain = !value.is_empty()
            && !value.contains(|c: char| c.is_whitespace() || c.is_control() || "\"=".contains(c));
        if plain {
            let _ = write!(text, " {name}={value}");
        } else {
            let _ = write!(text, " {name}={value:?}");
        }
    }
    text.push('\n');
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    if let Some(file) = &mut *FILE.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = file.write_all(text.as_bytes());
    }
}

/// A moment as RFC 3339 with milliseconds.
pub(crate) struct Utc(pub(crate) SystemTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
        let z = days + 719_468;
        let (era, doe) = (z / 146_097, z % 146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + u64::from(month <= 2);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            since.subsec_millis()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_written_as_dates() {
        let at = |ms| Utc(UNIX_EPOCH + Duration::from_millis(ms)).to_string();
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
    }
}

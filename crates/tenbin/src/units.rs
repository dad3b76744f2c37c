//! Reading durations from the command line and writing quantities for people.

use std::time::Duration;

/// `90`, `90s`, `5m`, `1h30m`: seconds unless it says otherwise.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("{text} is not a duration"));
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 90, 90s, 5m or 1h30m"))
}

/// Bytes in binary units, one decimal.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}

/// The nearest whole number, for showing a rate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is right for display"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        for bad in ["", "-1", "abc", "nan", "inf", "5 parsecs"] {
            assert!(duration(bad).is_err(), "{bad} was taken for a duration");
        }
    }
}

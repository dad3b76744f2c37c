//! Moments as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// RFC 3339 in UTC with milliseconds: `2026-11-21T04:08:00.250Z`. Moments before 1970 read as 1970.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    let ([year, month, day, hour, minute, second], ms) = civil(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// For names: `20261121T040800Z`.
pub(crate) fn compact(at: SystemTime) -> String {
    let ([year, month, day, hour, minute, second], _) = civil(at);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month, day, hour, minute, second, and milliseconds, in UTC.
fn civil(at: SystemTime) -> ([u64; 6], u32) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years from March, in eras of 400 years: H. Hinnant, "chrono-compatible low-level date
    // algorithms", civil_from_days.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (
        [
            year,
            month,
            day,
            second / 3600,
            second / 60 % 60,
            second % 60,
        ],
        since.subsec_millis(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    /// Expected values from GNU date.
    #[test]
    fn moments_are_as_date_prints_them() {
        let moments = [
            0,
            951_782_399,
            951_782_400,
            951_868_800,
            1_709_164_800,
            1_798_761_599,
            4_107_542_400,
            253_402_300_799,
        ];
        for s in moments {
            let date = Command::new("date")
                .args(["-u", "-d", &format!("@{s}"), "+%Y-%m-%dT%H:%M:%S.250Z"])
                .output()
                .unwrap();
            let at = UNIX_EPOCH + Duration::from_secs(s) + Duration::from_millis(250);
            assert_eq!(rfc3339(at), String::from_utf8(date.stdout).unwrap().trim());
        }
        assert_eq!(
            compact(UNIX_EPOCH + Duration::from_secs(951_782_399)),
            "20000228T235959Z"
        );
    }
}

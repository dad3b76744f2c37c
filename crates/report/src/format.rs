//! Numbers as people read them; a no-break space keeps a number and its unit on one line.

/// Fixed decimals, thousands set apart, a true minus sign; `–` for what is no number.
pub(crate) fn decimal(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let negative = value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let mut out = String::from(if negative { "−" } else { "" });
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// A count.
pub(crate) fn count(value: u64) -> String {
    decimal(value as f64, 0)
}

/// Three significant digits, never fewer than the whole part has.
pub(crate) fn significant(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        _ if magnitude == 0.0 || magnitude >= 99.95 => 0,
        _ if magnitude >= 9.995 => 1,
        _ if magnitude >= 0.9995 => 2,
        _ if magnitude >= 0.0005 => 3,
        _ => 5,
    };
    decimal(value, decimals)
}

/// An interval with as many digits as its width allows: two of it. `6.1 to 8.9`, `12,300 to 17,300`.
pub(crate) fn interval(low: f64, high: f64) -> String {
    let width = high - low;
    if width <= 0.0 {
        return significant(low);
    }
    let digits = 1.0 - width.log10().floor();
    let decimals = (0..8)
        .find(|decimals| f64::from(*decimals) >= digits)
        .unwrap_or(8);
    let step = 10_f64.powf(-digits);
    let shown = |value: f64| {
        decimal(
            (value / step).round() * step,
            usize::try_from(decimals).unwrap_or(0),
        )
    };
    let (low, high) = (shown(low), shown(high));
    format!("{low}\u{a0}to\u{a0}{high}")
}

/// A response time with its unit: `412 µs`, `3.20 ms`, `1.5 s`.
pub(crate) fn response(ms: f64) -> String {
    let trimmed = |value: f64| {
        let text = significant(value);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    };
    match ms.abs() {
        magnitude if magnitude < 0.9995 && magnitude > 0.0 => {
            format!("{}\u{a0}µs", trimmed(ms * 1e3))
        }
        magnitude if magnitude < 999.5 => format!("{}\u{a0}ms", trimmed(ms)),
        _ => format!("{}\u{a0}s", trimmed(ms / 1e3)),
    }
}

/// A length of time with its unit: `450 ms`, `58.3 s`, `5 min`, `2 h 30 min`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 120.0 {
        return response(seconds * 1e3);
    }
    let whole = seconds.round();
    let (hours, minutes, rest) = (
        (whole / 3600.0).floor(),
        (whole / 60.0).floor() % 60.0,
        whole % 60.0,
    );
    let parts = [(hours, "h"), (minutes, "min"), (rest, "s")];
    let parts = parts.iter().filter(|(value, _)| *value > 0.0);
    let parts: Vec<String> = parts
        .map(|(value, unit)| format!("{value}\u{a0}{unit}"))
        .collect();
    parts.join(" ")
}

/// A size with its unit: `512 B`, `3.2 GiB`.
pub(crate) fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if unit == 0 {
        decimal(value, 0)
    } else {
        significant(value)
    };
    format!("{text}\u{a0}{}", UNITS[unit])
}

/// A share from 0 to 1 as percent: `43.2 %`.
pub(crate) fn share(value: f64) -> String {
    let decimals = if value.abs() < 0.0995 { 2 } else { 1 };
    format!("{}\u{a0}%", decimal(value * 100.0, decimals))
}

/// A number of things in words: `1 error`, `2 errors`, `no errors`.
pub(crate) fn counted(value: u64, one: &str, many: &str) -> String {
    match value {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        _ => format!("{} {many}", count(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(decimal(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(decimal(-12.5, 1), "−12.5");
        assert_eq!(decimal(-0.04, 1), "0.0");
        assert_eq!(decimal(f64::NAN, 1), "–");
        assert_eq!(count(999), "999");
        let shown: Vec<String> = [0.0, 0.001_234, 0.412, 1.234, 12.34, 123.4, 12_345.6]
            .map(significant)
            .into();
        assert_eq!(
            shown,
            ["0", "0.001", "0.412", "1.23", "12.3", "123", "12,346"]
        );
    }

    #[test]
    fn an_interval_has_the_digits_that_its_width_allows() {
        for (low, high, shown) in [
            (6.08, 9.22, "6.1 to 9.2"),
            (6.881, 6.923, "6.881 to 6.923"),
            (12_345.6, 17_345.6, "12,300 to 17,300"),
            (5.0, 85.0, "5 to 85"),
            (0.0012, 0.0043, "0.0012 to 0.0043"),
            (7.0, 7.0, "7.00"),
        ] {
            assert_eq!(interval(low, high).replace('\u{a0}', " "), shown);
        }
    }

    #[test]
    fn units_follow_the_size() {
        let response = |ms| response(ms).replace('\u{a0}', " ");
        let duration = |s| duration(s).replace('\u{a0}', " ");
        let shown: Vec<String> = [0.0412, 0.412, 3.2, 45.0, 999.0, 1500.0]
            .map(response)
            .into();
        assert_eq!(
            shown,
            ["41.2 µs", "412 µs", "3.2 ms", "45 ms", "999 ms", "1.5 s"]
        );
        let shown: Vec<String> = [0.5, 60.0, 300.0, 9000.0, 3661.0].map(duration).into();
        assert_eq!(
            shown,
            ["500 ms", "60 s", "5 min", "2 h 30 min", "1 h 1 min 1 s"]
        );
        assert_eq!(bytes(512.0), "512\u{a0}B");
        assert_eq!(bytes(25_769_803_776.0), "24.0\u{a0}GiB");
        assert_eq!(
            (share(0.4321), share(0.0098)),
            ("43.2\u{a0}%".into(), "0.98\u{a0}%".into())
        );
        assert_eq!(counted(0, "error", "errors"), "no errors");
    }
}

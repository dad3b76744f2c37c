//! From values to places on paper: linear and logarithmic axes with round ticks.

use crate::format::{decimal, response};

/// Where an axis has a line and what it says there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    /// In the units of the data.
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// What the numbers of an axis count, which decides their round steps and the unit they are shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Anything counted in tens.
    Plain,
    /// Seconds, shown in s, min or h.
    ElapsedS,
    /// Milliseconds, shown in µs, ms or s.
    ResponseMs,
    /// Bytes, shown in B, KiB, MiB …
    Bytes,
    /// A share from 0 to 1, shown in percent.
    Share,
    /// Sectors of a disk, shown in thousands, millions or thousand millions.
    Sectors,
}

/// One axis: the values it spans, its ticks and the unit they are in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    pub(crate) ticks: Vec<Tick>,
    /// Symbol of the ticks' unit; empty when the numbers are plain or say it themselves.
    pub(crate) unit: &'static str,
}

const TENS: &[f64] = &[1.0, 2.0, 5.0, 10.0];
const SIXTIES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0];
const TWOS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// A unit to show values in.
struct Shown {
    /// The smallest largest value it is used for, in units of the data.
    from: f64,
    symbol: &'static str,
    /// Units of the data in one of it.
    size: f64,
    /// Round steps, of which powers of ten go on where the list ends.
    steps: &'static [f64],
}

const fn shown(from: f64, symbol: &'static str, size: f64, steps: &'static [f64]) -> Shown {
    Shown {
        from,
        symbol,
        size,
        steps,
    }
}

const KIB: f64 = 1024.0;
const PLAIN: &[Shown] = &[shown(0.0, "", 1.0, TENS)];
const SHARE: &[Shown] = &[shown(0.0, "%", 0.01, TENS)];
const ELAPSED: &[Shown] = &[
    shown(0.0, "s", 1.0, SIXTIES),
    shown(180.0, "min", 60.0, SIXTIES),
    shown(10_800.0, "h", 3600.0, TENS),
];
const RESPONSE: &[Shown] = &[
    shown(0.0, "µs", 0.001, TENS),
    shown(1.0, "ms", 1.0, TENS),
    shown(2000.0, "s", 1000.0, TENS),
];
const SECTORS: &[Shown] = &[
    shown(0.0, "", 1.0, TENS),
    shown(1e4, "10³", 1e3, TENS),
    shown(1e6, "10⁶", 1e6, TENS),
    shown(1e10, "10⁹", 1e9, TENS),
];
const BYTES: &[Shown] = &[
    shown(0.0, "B", 1.0, TWOS),
    shown(2.0 * KIB, "KiB", KIB, TWOS),
    shown(2.0 * KIB * KIB, "MiB", KIB * KIB, TWOS),
    shown(2.0 * KIB * KIB * KIB, "GiB", KIB * KIB * KIB, TWOS),
];

impl Unit {
    fn shown_up_to(self, high: f64) -> &'static Shown {
        let table = match self {
            Self::Plain => PLAIN,
            Self::ElapsedS => ELAPSED,
            Self::ResponseMs => RESPONSE,
            Self::Bytes => BYTES,
            Self::Share => SHARE,
            Self::Sectors => SECTORS,
        };
        let fits = |shown: &&Shown| high >= shown.from;
        table.iter().rev().find(fits).unwrap_or(&table[0])
    }
}

/// The smallest round number not below `raw`: one of `steps` where they reach, else 1, 2 or 5 times a power of ten.
fn round_step(raw: f64, steps: &[f64]) -> f64 {
    // A raw step that is round but for its last bits stays what it is.
    let raw = raw * (1.0 - 1e-9);
    let listed = steps.iter().copied().find(|step| *step >= raw);
    if let (Some(step), true) = (listed, raw > 0.5) {
        return step;
    }
    let power = 10_f64.powf(raw.log10().floor());
    let within = TENS
        .iter()
        .map(|step| step * power)
        .find(|step| *step >= raw);
    within.unwrap_or(10.0 * power)
}

/// Finite bounds with room between them.
fn sane(low: f64, high: f64) -> (f64, f64) {
    let finite = |value: f64| {
        if value.is_finite() {
            value.clamp(-1e15, 1e15)
        } else {
            0.0
        }
    };
    let (low, high) = (finite(low), finite(high));
    let least = (low.abs().max(high.abs()) * 1e-6).max(1e-6);
    if high - low >= least {
        (low, high)
    } else if low == 0.0 {
        (0.0, 1.0)
    } else {
        (low, low + least.max(low.abs() * 0.1))
    }
}

impl Axis {
    /// Spans exactly `low..=high`, with at most about `wanted` ticks: for time, where empty ends mislead.
    pub(crate) fn exact(low: f64, high: f64, wanted: u32, unit: Unit) -> Self {
        let (low, high) = sane(low, high);
        let shown = unit.shown_up_to(low.abs().max(high));
        let step = round_step((high - low) / shown.size / f64::from(wanted), shown.steps);
        Self::linear(low, high, shown, step)
    }

    /// Spans from zero to the first round value that `high` does not pass.
    pub(crate) fn from_zero(high: f64, wanted: u32, unit: Unit) -> Self {
        let (_, high) = sane(0.0, high.max(0.0));
        let rounded_in = |shown: &'static Shown| {
            let step = round_step(high / shown.size / f64::from(wanted), shown.steps);
            let end = (high / shown.size / step - 1e-9).ceil() * step * shown.size;
            (end, shown, step)
        };
        // The round end may be where the next unit begins: 2036 B end at 2 KiB.
        let (end, ..) = rounded_in(unit.shown_up_to(high));
        let (end, shown, step) = rounded_in(unit.shown_up_to(end));
        Self::linear(0.0, end, shown, step)
    }

    /// Spans `low..=high` with a tick at every multiple of `step`, which is in `shown`'s unit.
    fn linear(low: f64, high: f64, shown: &Shown, step: f64) -> Self {
        let decimals = decimals_of(step);
        let first = (low / shown.size / step - 1e-9).ceil();
        let count = whole((high / shown.size / step + 1e-9).floor() - first);
        let ticks = (0..=count).map(|i| {
            let value = (first + i as f64) * step;
            Tick {
                value: value * shown.size,
                label: decimal(value, decimals),
            }
        });
        Self {
            low,
            high,
            log: false,
            ticks: ticks.collect(),
            unit: shown.symbol,
        }
    }

    /// Logarithmic over response times in milliseconds; its labels carry their unit.
    pub(crate) fn log_response(low_ms: f64, high_ms: f64) -> Self {
        let bound = |value: f64| {
            if value.is_finite() {
                value.clamp(1e-6, 1e9)
            } else {
                1.0
            }
        };
        let (low, high) = (bound(low_ms), bound(high_ms));
        let first = low.log10().floor();
        let last = high.log10().ceil().max(first + 1.0);
        let fine: &[f64] = if last - first <= 2.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let decades = whole(last - first);
        let ticks = (0..=decades).flat_map(|decade| {
            let power = 10_f64.powf(first + decade as f64);
            let fine = if decade == decades { &fine[..1] } else { fine };
            fine.iter().map(move |step| Tick {
                value: step * power,
                label: response(step * power),
            })
        });
        Self {
            low: 10_f64.powf(first),
            high: 10_f64.powf(last),
            log: true,
            ticks: ticks.collect(),
            unit: "",
        }
    }

    /// Logarithmic over ratios, with ticks at round ratios and at 1, which it always spans.
    pub(crate) fn ratios(low: f64, high: f64) -> Self {
        const WIDE: &[f64] = &[0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0];
        const NARROW: &[f64] = &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0];
        const FINE: &[f64] = &[
            0.9, 0.92, 0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06, 1.08, 1.1,
        ];
        let (low, high) = (low.clamp(0.005, 1.0 / 1.02), high.clamp(1.02, 200.0));
        let inside = |steps: &[f64]| low >= steps[0] && high <= steps[steps.len() - 1];
        let steps = [FINE, NARROW]
            .into_iter()
            .find(|steps| inside(steps))
            .unwrap_or(WIDE);
        let spanned = steps.iter().filter(|step| (low..=high).contains(*step));
        let ticks = spanned.map(|step| Tick {
            value: *step,
            label: decimal(*step, decimals_of(*step)),
        });
        Self {
            low,
            high,
            log: true,
            ticks: ticks.collect(),
            unit: "",
        }
    }

    /// A place for each name, the first at the high end: the first at `names.len() - 1`, the last at 0.
    pub(crate) fn names(names: &[String]) -> Self {
        let last = names.len().saturating_sub(1);
        let ticks = names.iter().enumerate().map(|(place, name)| Tick {
            value: (last - place) as f64,
            label: name.clone(),
        });
        Self {
            low: -0.5,
            high: last as f64 + 0.5,
            log: false,
            ticks: ticks.collect(),
            unit: "",
        }
    }

    /// Where a value lies, from 0 at the low end to 1 at the high end; beyond the ends, the end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            let span = self.high.log10() - self.low.log10();
            (value.max(self.low).log10() - self.low.log10()) / span
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if place.is_finite() {
            place.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// `title [unit]`, or the title alone when the numbers say their unit.
    pub(crate) fn titled(&self, title: &str) -> String {
        if self.unit.is_empty() {
            title.to_owned()
        } else {
            format!("{title} [{}]", self.unit)
        }
    }
}

/// Decimals that tell multiples of a round step apart.
fn decimals_of(step: f64) -> usize {
    let tells = |decimals: &usize| {
        let scaled = step * 10_f64.powf(*decimals as f64);
        (scaled - scaled.round()).abs() < 1e-6 && scaled.round() > 0.0
    };
    (0..15).find(tells).unwrap_or(0)
}

/// The whole part of a number; 0 for what is below or none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
pub(crate) fn whole(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn a_minute_with_its_warm_up_has_a_tick_every_ten_seconds() {
        let axis = Axis::exact(-10.0, 60.0, 8, Unit::ElapsedS);
        assert_eq!(
            labels(&axis),
            ["−10", "0", "10", "20", "30", "40", "50", "60"]
        );
        assert_eq!(axis.titled("time"), "time [s]");
        assert_eq!(
            (axis.place(-10.0), axis.place(25.0), axis.place(60.0)),
            (0.0, 0.5, 1.0)
        );
    }

    #[test]
    fn long_runs_are_told_in_minutes_and_hours() {
        let minutes = Axis::exact(0.0, 3600.0, 8, Unit::ElapsedS);
        assert_eq!(
            (labels(&minutes), minutes.unit),
            (vec!["0", "10", "20", "30", "40", "50", "60"], "min")
        );
        let hours = Axis::exact(0.0, 36_000.0, 10, Unit::ElapsedS);
        assert_eq!((hours.ticks.len(), hours.unit), (11, "h"));
    }

    #[test]
    fn an_axis_from_zero_ends_on_a_tick() {
        let axis = Axis::from_zero(18_450.0, 4, Unit::Plain);
        assert_eq!(labels(&axis), ["0", "5,000", "10,000", "15,000", "20,000"]);
        let bytes = Axis::from_zero(5.5 * 1024.0 * 1024.0, 4, Unit::Bytes);
        assert_eq!(
            (labels(&bytes), bytes.unit),
            (vec!["0", "2", "4", "6"], "MiB")
        );
        // Rounded up, the end is in the next unit.
        let kibibytes = Axis::from_zero(2036.0, 3, Unit::Bytes);
        assert_eq!(
            (labels(&kibibytes), kibibytes.unit),
            (vec!["0", "1", "2"], "KiB")
        );
        let share = Axis::from_zero(0.33, 4, Unit::Share);
        assert_eq!(
            (labels(&share), share.unit),
            (vec!["0", "10", "20", "30", "40"], "%")
        );
    }

    #[test]
    fn a_logarithmic_axis_spans_whole_decades() {
        let axis = Axis::log_response(0.3, 900.0);
        assert_eq!(
            labels(&axis),
            [
                "100\u{a0}µs",
                "1\u{a0}ms",
                "10\u{a0}ms",
                "100\u{a0}ms",
                "1\u{a0}s"
            ]
        );
        assert!((axis.place(10.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn nonsense_still_gives_an_axis() {
        for (low, high) in [
            (f64::NAN, f64::NAN),
            (0.0, 0.0),
            (5.0, 5.0),
            (3.0, -3.0),
            (0.0, f64::INFINITY),
        ] {
            assert!(!Axis::exact(low, high, 5, Unit::Plain).ticks.is_empty());
            assert!(Axis::from_zero(high, 5, Unit::Bytes).ticks.len() >= 2);
            assert!(Axis::log_response(low, high).ticks.len() >= 2);
        }
    }

    fn unit() -> impl Strategy<Value = Unit> {
        prop::sample::select(vec![
            Unit::Plain,
            Unit::ElapsedS,
            Unit::ResponseMs,
            Unit::Bytes,
            Unit::Share,
        ])
    }

    proptest! {
        #[test]
        fn ticks_are_even_distinct_and_within(
            low in -1e6..1e6, span_exp in -3.0..9.0, wanted in 3_u32..12, unit in unit(),
        ) {
            let high = low + 10_f64.powf(span_exp);
            let axis = Axis::exact(low, high, wanted, unit);
            let values: Vec<f64> = axis.ticks.iter().map(|tick| tick.value).collect();
            prop_assert!(values.len() <= wanted as usize + 1);
            let slack = (axis.high - axis.low) * 1e-6;
            prop_assert!(values.iter().all(|v| *v >= axis.low - slack && *v <= axis.high + slack));
            if let [first, second, ..] = values.as_slice() {
                let step = second - first;
                prop_assert!(step > 0.0);
                for pair in values.windows(2) {
                    prop_assert!((pair[1] - pair[0] - step).abs() < step * 1e-3);
                }
            }
            let mut seen: Vec<&str> = axis.ticks.iter().map(|tick| tick.label.as_str()).collect();
            seen.dedup();
            prop_assert_eq!(seen.len(), axis.ticks.len());
        }

        #[test]
        fn an_axis_from_zero_covers_its_data_without_wasting_half(
            high_exp in -3.0..14.0, wanted in 3_u32..12, unit in unit(),
        ) {
            let high = 10_f64.powf(high_exp);
            let axis = Axis::from_zero(high, wanted, unit);
            prop_assert!(axis.high >= high * (1.0 - 1e-6));
            prop_assert!(axis.ticks.len() >= 2);
            prop_assert!(axis.ticks[0].value.abs() < f64::EPSILON);
            prop_assert!(axis.place(high) > 0.29, "{} of {}", high, axis.high);
            prop_assert!((axis.place(axis.ticks.last().unwrap().value) - 1.0).abs() < 1e-6);
        }

        #[test]
        fn places_keep_order_and_stay_inside(
            low in 1e-3..1e3, factor in 1.0..1e5, a in 1e-6..1e9, b in 1e-6..1e9,
        ) {
            for axis in [Axis::log_response(low, low * factor), Axis::exact(low, low * factor, 5, Unit::Plain)] {
                let (a, b) = if a <= b { (a, b) } else { (b, a) };
                prop_assert!(axis.place(a) <= axis.place(b));
                prop_assert!((0.0..=1.0).contains(&axis.place(a)) && (0.0..=1.0).contains(&axis.place(b)));
            }
        }
    }
}

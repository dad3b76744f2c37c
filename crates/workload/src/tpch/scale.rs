//! The scale factor and the rows that follow from it (clause 4.2.5.1).

use super::Table;

/// Largest scale factor: beyond it the keys of PART leave the range of an `integer`.
const LARGEST: u32 = 10_000;

/// Whether the four suppliers that dbgen gives each part (clause 4.2.3, `PS_SUPPKEY`) differ. They
/// are a step apart, counted round the suppliers; where there are few of these the step may come
/// back to its start, and PARTSUPP's primary key does not hold.
fn has_unique_keys(thousandths: u32) -> bool {
    let suppliers = 10 * thousandths;
    let parts = 200 * thousandths;
    (0..parts.div_ceil(suppliers)).all(|round| {
        let step = suppliers / 4 + round;
        (1..=3).all(|steps| !(steps * step).is_multiple_of(suppliers))
    })
}

/// A scale factor that dbgen can make with unique keys: a whole number, or most of 0.008 to 0.999
/// by thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale {
    /// 1,000 for scale 1.
    thousandths: u32,
}

impl Scale {
    /// The scale of the validation database (clause 2.3.1).
    pub const ONE: Self = Self { thousandths: 1_000 };

    /// From thousandths, as the marker keeps it.
    #[must_use]
    pub fn of_thousandths(thousandths: u32) -> Option<Self> {
        let whole =
            thousandths.is_multiple_of(1_000) && (1..=LARGEST).contains(&(thousandths / 1_000));
        let known = whole || (matches!(thousandths, 1..=999) && has_unique_keys(thousandths));
        known.then_some(Self { thousandths })
    }

    /// 1,000 for scale 1.
    #[must_use]
    pub fn thousandths(self) -> u32 {
        self.thousandths
    }

    /// As a factor.
    #[must_use]
    pub fn factor(self) -> f64 {
        f64::from(self.thousandths) / 1_000.0
    }

    /// Whether results at this scale may be published (clause 4.1.3.1); others are for trying out.
    #[must_use]
    pub fn is_standard(self) -> bool {
        const STANDARD: [u32; 9] = [1, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000];
        STANDARD.contains(&(self.thousandths / 1_000)) && self.thousandths.is_multiple_of(1_000)
    }

    /// Rows of `table`; LINEITEM's are drawn (1 to 7 an order), so that they are the expected ones.
    #[must_use]
    pub fn rows(self, table: Table) -> u64 {
        let scaled = |base: u64| base * u64::from(self.thousandths) / 1_000;
        match table {
            Table::Region => 5,
            Table::Nation => 25,
            Table::Supplier => scaled(10_000),
            Table::Part => scaled(200_000),
            Table::PartSupp => scaled(800_000),
            Table::Customer => scaled(150_000),
            Table::Orders => scaled(1_500_000),
            Table::LineItem => 4 * scaled(1_500_000),
        }
    }

    /// Orders that a refresh function inserts or deletes: 0.1 % of them (clause 2.5.2), one at least.
    #[must_use]
    pub fn refresh_orders(self) -> u64 {
        (self.rows(Table::Orders) / 1_000).max(1)
    }

    /// Query streams that a throughput test has at the least (clause 5.3.4, table 11).
    #[must_use]
    pub fn streams(self) -> u32 {
        match self.thousandths / 1_000 {
            0..10 => 2,
            10..30 => 3,
            30..100 => 4,
            100..300 => 5,
            300..1_000 => 6,
            1_000..3_000 => 7,
            3_000..10_000 => 8,
            _ => 9,
        }
    }
}

impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.factor())
    }
}

impl std::str::FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor: f64 = text.parse().unwrap_or(f64::NAN);
        if factor > f64::from(LARGEST) {
            let gigabytes = factor * super::plan::BYTES_AT_ONE as f64 / 1e9;
            return Err(format!(
                "a scale of {text} would need about {gigabytes:.0} GB of disk; at most {LARGEST}"
            ));
        }
        let thousandths = (factor * 1_000.0).round();
        if !(thousandths >= 1.0 && (thousandths - factor * 1_000.0).abs() < 1e-6) {
            return Err(MEND.to_owned());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number from 1 to 10,000,000"
        )]
        Self::of_thousandths(thousandths as u32).ok_or_else(|| MEND.to_owned())
    }
}

const MEND: &str = "give a whole number from 1 to 10000, or for a try 0.025 to 0.999, 0.02 or 0.01 (dbgen's keys are not unique at all the smaller ones)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_those_of_dbgen_and_others_are_refused() {
        for (text, thousandths) in [
            ("1", 1_000),
            ("0.008", 8),
            ("0.01", 10),
            ("10000", 10_000_000),
        ] {
            assert_eq!(text.parse::<Scale>().unwrap().thousandths(), thousandths);
            assert_eq!(text.parse::<Scale>().unwrap().to_string(), text);
        }
        for bad in [
            "0", "-1", "1.5", "0.0001", "0.001", "0.009", "0.021", "two", "nan", "inf", "", "1e-9",
        ] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
        let huge = "1000000".parse::<Scale>().unwrap_err();
        assert!(huge.contains("GB of disk"), "{huge}");
    }

    /// From 0.025 on there is no exception.
    #[test]
    fn keys_are_unique_at_every_larger_scale() {
        assert!((25..=1_000).all(has_unique_keys));
        let small: Vec<u32> = (1..25).filter(|&t| has_unique_keys(t)).collect();
        assert_eq!(small, [8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 24]);
    }

    /// Clause 4.2.5.1, table 3, and its values times the scale.
    #[test]
    fn rows_are_those_of_clause_4_2_5_1() {
        let rows = |text: &str| Table::ALL.map(|table| text.parse::<Scale>().unwrap().rows(table));
        assert_eq!(
            rows("1"),
            [
                5, 25, 200_000, 10_000, 800_000, 150_000, 1_500_000, 6_000_000
            ]
        );
        assert_eq!(
            rows("100"),
            [
                5,
                25,
                20_000_000,
                1_000_000,
                80_000_000,
                15_000_000,
                150_000_000,
                600_000_000
            ]
        );
        assert_eq!(
            rows("0.01"),
            [5, 25, 2_000, 100, 8_000, 1_500, 15_000, 60_000]
        );
        assert_eq!("1".parse::<Scale>().unwrap().refresh_orders(), 1_500);
    }
}

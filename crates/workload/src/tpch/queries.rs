//! The queries (clause 2.4) with values for their substitution parameters.

use super::Scale;
use tpchgen::distribution::{Distribution, Distributions};
use tpchgen::random::RowRandomInt;

/// Texts of the queries, each after a line with its number and its name.
const TEXTS: &str = include_str!("queries.sql");
/// How many queries there are.
pub const QUERIES: u8 = 22;

/// Nations and the regions that they are in (clause 4.2.3), by their keys.
const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];
const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
/// Words of query 13 (clause 2.4.13.3).
const Q13_FIRST: [&str; 4] = ["special", "pending", "unusual", "express"];
const Q13_SECOND: [&str; 4] = ["packages", "requests", "accounts", "deposits"];

/// The values of the standard's validation runs (clause 2.4.n.4).
const VALIDATION: [&[&str]; QUERIES as usize] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY", "0.0001"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &[
        "Brand#45",
        "MEDIUM POLISHED",
        "49",
        "14",
        "23",
        "45",
        "19",
        "3",
        "36",
        "9",
    ],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

/// A query with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// 1 to 22.
    pub number: u8,
    /// Its values, in the order of clause 2.4.n.3.
    pub values: Vec<String>,
}

impl Query {
    /// The query as the standard validates it (clause 2.3). At other scales than 1, query 11's
    /// fraction is of that scale, as for random values.
    #[must_use]
    pub fn validation(number: u8, scale: Scale) -> Option<Self> {
        let values = VALIDATION.get(usize::from(number).checked_sub(1)?)?;
        let mut values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        if number == 11 {
            values[1] = fraction(scale);
        }
        Some(Self { number, values })
    }

    /// Query text, ready for the server; empty for a number that is none.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = statement(self.number).unwrap_or_default().to_owned();
        // :10 before :1, which it begins with.
        for (index, value) in self.values.iter().enumerate().rev() {
            text = text.replace(&format!(":{}", index + 1), value);
        }
        text
    }
}

/// The text of a query, its parameters still in it.
fn statement(number: u8) -> Option<&'static str> {
    let (_, rest) = TEXTS.split_once(&format!("\n-- {number} "))?;
    let (_, rest) = rest.split_once('\n')?;
    Some(rest.split("\n-- ").next().unwrap_or(rest).trim_end())
}

/// Query 11's share of the stock's value: 0.0001 / SF (clause 2.4.11.3).
fn fraction(scale: Scale) -> String {
    format!("{:.10}", 0.0001 / scale.factor())
}

/// The values of all queries of a stream, as QGEN draws them from `seed` (clause 2.1.3.3): each
/// query has a generator of its own. Query n is at n - 1.
#[must_use]
pub fn draw(seed: u32, scale: Scale) -> Vec<Query> {
    let mut seeds = RowRandomInt::new(i64::from(seed % 0x7fff_ffff), 1);
    (1..=QUERIES)
        .map(|number| {
            let mut dice = Dice(RowRandomInt::new(seeds.next_rand(), 1));
            Query {
                number,
                values: dice.values(number, scale),
            }
        })
        .collect()
}

/// QGEN's generator of one query.
struct Dice(RowRandomInt);

impl Dice {
    fn number(&mut self, low: i32, high: i32) -> i32 {
        self.0.next_int(low, high)
    }

    /// One of `list`, each as likely as the others, and where it stands.
    fn index(&mut self, count: usize) -> usize {
        let last = i32::try_from(count).unwrap_or(1);
        usize::try_from(self.number(1, last) - 1).unwrap_or(0)
    }

    fn of(&mut self, list: &[&str]) -> String {
        list[self.index(list.len())].to_owned()
    }

    fn nation(&mut self) -> usize {
        self.index(NATIONS.len())
    }

    fn word(&mut self, of: &Distribution) -> String {
        of.random_value(&mut self.0).to_owned()
    }

    /// Every member of `all` in a random order.
    fn shuffled(&mut self, mut all: Vec<i32>) -> Vec<i32> {
        let last = i32::try_from(all.len()).unwrap_or(1) - 1;
        for at in 0..=last {
            let with = self.number(at, last);
            let place = |index: i32| usize::try_from(index).unwrap_or(0);
            all.swap(place(at), place(with));
        }
        all
    }

    /// The first of a month, counted from January 1993.
    fn month(&mut self, first: i32, last: i32) -> String {
        let month = self.number(first, last);
        format!("19{:02}-{:02}-01", 93 + month / 12, month % 12 + 1)
    }

    fn year(&mut self) -> String {
        format!("19{:02}-01-01", self.number(93, 97))
    }

    fn brand(&mut self) -> String {
        let first = self.number(1, 5);
        format!("Brand#{first}{}", self.number(1, 5))
    }

    /// Two of `list` that differ.
    fn two(&mut self, list: &[&str]) -> [String; 2] {
        let first = self.index(list.len());
        loop {
            let second = self.index(list.len());
            if second != first {
                return [list[first].to_owned(), list[second].to_owned()];
            }
        }
    }

    /// Clause 2.4.n.3.
    fn values(&mut self, query: u8, scale: Scale) -> Vec<String> {
        let lists = Distributions::static_default();
        match query {
            1 => vec![self.number(60, 120).to_string()],
            2 => {
                let size = self.number(1, 50).to_string();
                let of = self.word(lists.part_types());
                let metal = of.rsplit(' ').next().unwrap_or_default().to_owned();
                vec![size, metal, self.of(&REGIONS)]
            }
            3 => {
                let segment = self.word(lists.market_segments());
                vec![segment, format!("1995-03-{:02}", self.number(0, 30) + 1)]
            }
            4 | 15 => vec![self.month(0, 57)],
            5 => vec![self.of(&REGIONS), self.year()],
            6 => {
                let (year, discount) = (self.year(), self.number(2, 9));
                vec![
                    year,
                    format!("0.{discount:02}"),
                    self.number(24, 25).to_string(),
                ]
            }
            7 => self.two(&NATIONS.map(|(name, _)| name)).into(),
            8 => {
                let (nation, region) = NATIONS[self.nation()];
                let of = self.word(lists.part_types());
                vec![nation.to_owned(), REGIONS[region].to_owned(), of]
            }
            9 => vec![self.word(lists.part_colors())],
            10 => vec![self.month(1, 24)],
            11 => vec![NATIONS[self.nation()].0.to_owned(), fraction(scale)],
            12 => {
                let modes: Vec<&str> = lists.ship_modes().get_values().to_vec();
                let mut values = self.two(&modes).to_vec();
                values.push(self.year());
                values
            }
            13 => vec![self.of(&Q13_FIRST), self.of(&Q13_SECOND)],
            14 => vec![self.month(0, 59)],
            16 => {
                let (brand, of) = (self.brand(), self.word(lists.part_types()));
                let two_words = of.rsplit_once(' ').map_or(of.as_str(), |(words, _)| words);
                let sizes = self.shuffled((1..=50).collect());
                let sizes = sizes.iter().take(8).map(ToString::to_string);
                [brand, two_words.to_owned()]
                    .into_iter()
                    .chain(sizes)
                    .collect()
            }
            17 => vec![self.brand(), self.word(lists.part_containers())],
            18 => vec![self.number(312, 315).to_string()],
            19 => {
                let brands = [self.brand(), self.brand(), self.brand()];
                let quantities = [(1, 10), (10, 20), (20, 30)];
                let quantities = quantities.map(|(low, high)| self.number(low, high).to_string());
                brands.into_iter().chain(quantities).collect()
            }
            20 => {
                let (color, year) = (self.word(lists.part_colors()), self.year());
                vec![color, year, NATIONS[self.nation()].0.to_owned()]
            }
            21 => vec![NATIONS[self.nation()].0.to_owned()],
            _ => {
                let codes = self.shuffled((0..25).collect());
                codes
                    .iter()
                    .take(7)
                    .map(|code| (10 + code).to_string())
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha1::Digest as _;

    #[test]
    fn every_query_has_a_text_that_takes_all_its_values() {
        for number in 1..=QUERIES {
            let query = Query::validation(number, Scale::ONE).unwrap();
            let (raw, text) = (statement(number).unwrap(), query.text());
            for index in 1..=query.values.len() {
                assert!(raw.contains(&format!(":{index}")), "{number} :{index}");
            }
            assert!(!text.contains(':') && !text.contains("--"), "{text}");
            assert!(
                text.starts_with("SELECT") || text.starts_with("WITH"),
                "{text}"
            );
        }
        assert_eq!(statement(23), None);
    }

    /// Known answers: SHA-1 of `ref_data/1/subparam_n` of the TPC's reference data, tools 2.17.3,
    /// with the seeds that `reference/cmd_qgen_sf1` gives QGEN.
    #[test]
    fn values_are_those_that_qgen_draws() {
        for (seed, expected) in [
            (101_000_000, "a62bc2d363b10e7ab78c5c92413d8307c52ffe0b"),
            (8_204_031, "fc213ad7686059f0d8df63c3915a178cb8a9d845"),
            (16_408_062, "e689eb2ba1d6b40dea715fa075d05f75dc988d71"),
            (73_836_279, "e6c4d886de260e5374042bc070a574f5cc895d64"),
            (1_231_235_959, "52f83c4dca2cfb40af43f77b3b92faf5b3ec0d9d"),
        ] {
            let line = |query: Query| format!("{}\t{}\n", query.number, query.values.join("\t"));
            let drawn: String = draw(seed, Scale::ONE).into_iter().map(line).collect();
            let hash = sha1::Sha1::digest(&drawn);
            let hash: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hash.concat(), expected, "seed {seed}:\n{drawn}");
        }
    }

    #[test]
    fn one_seed_gives_one_stream_and_the_fraction_follows_the_scale() {
        let scale = "0.01".parse().unwrap();
        assert_eq!(draw(7, scale), draw(7, scale));
        assert_ne!(draw(7, scale), draw(8, scale));
        assert_eq!(draw(7, scale)[10].values[1], "0.0100000000");
    }
}

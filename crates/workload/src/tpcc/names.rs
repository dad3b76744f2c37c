//! Customers' last names (clause 4.3.2.3).

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// The longest last name, bytes (`CALLYCALLYCALLY`; the column holds 16).
const LONGEST: usize = 15;

/// A last name on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastName {
    bytes: [u8; LONGEST],
    length: u8,
    number: u16,
}

impl LastName {
    /// The name made of the three decimal digits of `number` modulo 1,000.
    #[must_use]
    pub fn new(number: u32) -> Self {
        let mut name = Self {
            bytes: [0; LONGEST],
            length: 0,
            number: u16::try_from(number % 1_000).unwrap_or_default(),
        };
        for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
            for &byte in SYLLABLES[digit as usize].as_bytes() {
                name.bytes[usize::from(name.length)] = byte;
                name.length += 1;
            }
        }
        name
    }

    /// The number it was made of, below 1,000.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_two_examples() {
        assert_eq!(LastName::new(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(LastName::new(40).as_str(), "BARPRESBAR");
    }

    #[test]
    fn a_thousand_names_all_differ() {
        let names: std::collections::BTreeSet<_> = (0..1000)
            .map(|number| LastName::new(number).as_str().to_owned())
            .collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() <= LONGEST));
    }
}

//! A terminal between transactions: where it is, its cards, its random numbers.

use super::rules::Rules;
use crate::Cycle;
use crate::random::{Purpose, Stream};
use crate::think::nanoseconds;

/// Numbers of the kinds, the places of their names in [`KINDS`]; Stock-Level is 4.
pub(super) const NEW_ORDER: u8 = 0;
pub(super) const PAYMENT: u8 = 1;
pub(super) const ORDER_STATUS: u8 = 2;
pub(super) const DELIVERY: u8 = 3;

/// Names of the kinds, in the order of their numbers.
pub const KINDS: [&str; 5] = [
    "new_order",
    "payment",
    "order_status",
    "delivery",
    "stock_level",
];

/// Most cards of a deck; the standard's has 23.
const CARDS_MAX: usize = 32;

/// How the next transaction is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mix {
    /// From a shuffled deck with the cards of [`Rules::deck`] (clause 5.2.4.2).
    Deck,
    /// At random by these weights, 0 or more and not all 0 (clause 5.2.4.1).
    Weights([f64; 5]),
}

/// What a terminal keeps between transactions.
#[derive(Debug, Clone)]
pub struct Terminal {
    pub(super) stream: Stream,
    /// Home warehouse, fixed for the run (clause 2.4.1.1).
    pub(super) warehouse: u32,
    /// The district of its Stock-Levels, fixed for the run (clause 2.8.1.1).
    pub(super) district: u8,
    cards: [u8; CARDS_MAX],
    card_count: u8,
    dealt: u8,
}

impl Terminal {
    /// Terminal `id` of `terminals`, spread evenly over `warehouses` and in each over the districts.
    #[must_use]
    pub fn new(rules: &Rules, seed: u64, id: u32, warehouses: u32) -> Self {
        let mut terminal = Self {
            stream: Stream::new(seed, Purpose::Terminal, id, 0),
            warehouse: id % warehouses + 1,
            district: u8::try_from(id / warehouses % u32::from(rules.districts_per_warehouse))
                .unwrap_or(0)
                + 1,
            cards: [0; CARDS_MAX],
            card_count: 0,
            dealt: 0,
        };
        for (kind, &count) in (0_u8..).zip(&rules.deck) {
            for _ in 0..count {
                if usize::from(terminal.card_count) < CARDS_MAX {
                    terminal.cards[usize::from(terminal.card_count)] = kind;
                    terminal.card_count += 1;
                }
            }
        }
        terminal.join();
        terminal
    }

    /// Chooses the next transaction and draws its times.
    pub fn choose(&mut self, rules: &Rules, mix: &Mix) -> Cycle {
        let kind = match mix {
            Mix::Deck => self.card(),
            Mix::Weights(weights) => self.weighed(weights),
        };
        let keying_s = rules.keying_s[usize::from(kind)];
        let mean_s = rules.think_mean_s[usize::from(kind)];
        let think_s = rules.think_time.draw(&mut self.stream, mean_s);
        Cycle {
            kind,
            keying_ns: nanoseconds(keying_s),
            think_ns: nanoseconds(think_s),
        }
    }

    /// Takes over a deck somewhere in the middle, as if the terminal had long been at work. A whole deck
    /// lasts eight minutes at the standard's pace; while all terminals are in their first, those that drew
    /// slow transactions are behind the others, and New-Orders come 1 % too fast.
    fn join(&mut self) {
        self.dealt = self.card_count;
        self.card();
        let dealt = self.stream.uniform(0, u32::from(self.card_count) - 1);
        self.dealt = u8::try_from(dealt).unwrap_or(0);
    }

    fn card(&mut self) -> u8 {
        if self.dealt == self.card_count {
            self.stream
                .shuffle(&mut self.cards[..usize::from(self.card_count)]);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[usize::from(self.dealt - 1)]
    }

    fn weighed(&mut self, weights: &[f64; 5]) -> u8 {
        let mut left = self.stream.unit() * weights.iter().sum::<f64>();
        for (kind, weight) in (0_u8..).zip(weights) {
            left -= weight;
            if left <= 0.0 && *weight > 0.0 {
                return kind;
            }
        }
        // Rounding left a crumb: it belongs to the last kind that has a weight.
        weights
            .iter()
            .rposition(|&weight| weight > 0.0)
            .and_then(|kind| u8::try_from(kind).ok())
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(terminal: &mut Terminal, mix: &Mix, cycles: usize) -> [usize; 5] {
        let rules = Rules::default();
        let mut counts = [0; 5];
        for _ in 0..cycles {
            counts[usize::from(terminal.choose(&rules, mix).kind)] += 1;
        }
        counts
    }

    #[test]
    fn every_deck_holds_its_cards() {
        let mut terminal = Terminal::new(&Rules::default(), 1, 0, 1);
        let left = terminal.card_count - terminal.dealt;
        counts(&mut terminal, &Mix::Deck, left.into());
        for _ in 0..50 {
            assert_eq!(counts(&mut terminal, &Mix::Deck, 23), [10, 10, 1, 1, 1]);
        }
    }

    #[test]
    fn weights_are_shares() {
        let mut terminal = Terminal::new(&Rules::default(), 1, 0, 1);
        let counts = counts(
            &mut terminal,
            &Mix::Weights([0.0, 3.0, 0.0, 1.0, 0.0]),
            40_000,
        );
        assert_eq!((counts[0], counts[2], counts[4]), (0, 0, 0));
        assert!(counts[1].abs_diff(30_000) < 400, "{counts:?}");
    }

    #[test]
    fn terminals_are_spread_over_warehouses_and_districts() {
        let rules = Rules::default();
        let places: std::collections::BTreeSet<_> = (0..40)
            .map(|id| Terminal::new(&rules, 1, id, 4))
            .map(|t| (t.warehouse, t.district))
            .collect();
        assert_eq!(places.len(), 40);
        assert!(
            places
                .iter()
                .all(|(w, d)| (1..=4).contains(w) && (1..=10).contains(d))
        );
    }

    #[test]
    fn think_times_are_exponential_and_cut_off() {
        let rules = Rules {
            deck: [0, 1, 0, 0, 0],
            ..Rules::default()
        };
        let mut terminal = Terminal::new(&rules, 1, 0, 1);
        let times: Vec<f64> = (0..100_000)
            .map(|_| terminal.choose(&rules, &Mix::Deck).think_ns as f64 / 1e9)
            .collect();
        let mean = times.iter().sum::<f64>() / 1e5;
        assert!((mean - 12.0).abs() < 0.2, "{mean}");
        assert!(times.iter().all(|&time| time <= 120.0));
        // P(T > mean) = 1/e.
        let over = times.iter().filter(|&&time| time > 12.0).count() as f64 / 1e5;
        assert!((over - (-1.0_f64).exp()).abs() < 0.01, "{over}");
    }

    #[test]
    fn a_terminal_is_small() {
        assert!(size_of::<Terminal>() <= 80, "{}", size_of::<Terminal>());
    }
}

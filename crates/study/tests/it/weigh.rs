//! Weighing, with trials that are drawn instead of measured.

use std::convert::Infallible;
use std::time::Duration;
use tenbin_study::weigh::{
    Executor, StoppedBy, Stopping, Trialed, Weighed, WeighedPair, WeighedSide, Weighing, interval,
    weigh,
};

const STOPPING: Stopping = Stopping {
    pairs: 20,
    budget_s: 600.0,
    same_within: 0.02,
    precision: None,
};

/// Trials whose logarithms are normal, of ten seconds each, on a machine that grows slower from trial to trial.
struct Drawn {
    random: u64,
    /// B's true throughput divided by A's.
    ratio: f64,
    noise: f64,
    ran: Vec<(WeighedSide, u32)>,
    told: usize,
    interrupt_after: usize,
    fail_after: usize,
}

impl Drawn {
    fn new(seed: u64, ratio: f64, noise: f64) -> Self {
        Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            ratio,
            noise,
            ran: Vec::new(),
            told: 0,
            interrupt_after: usize::MAX,
            fail_after: usize::MAX,
        }
    }

    fn uniform(&mut self) -> f64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let bits = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

impl Executor for Drawn {
    type Error = Infallible;

    fn trial(&mut self, side: WeighedSide, pair: u32) -> Result<Trialed, Infallible> {
        if self.ran.len() == self.interrupt_after {
            return Ok(Trialed::Interrupted);
        }
        if self.ran.len() == self.fail_after {
            return Ok(Trialed::Failed("7 transactions failed".to_owned()));
        }
        self.ran.push((side, pair));
        let drift = 0.99_f64.powi(i32::try_from(self.ran.len()).unwrap());
        let ratio = match side {
            WeighedSide::A => 1.0,
            WeighedSide::B => self.ratio,
        };
        let value = 1000.0 * ratio * drift * (self.noise * self.normal()).exp();
        Ok(Trialed::Done(value, format!("{side:?}-{pair}")))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(10 * self.ran.len() as u64)
    }

    fn paired(&mut self, pairs: &[WeighedPair]) {
        self.told = pairs.len();
    }
}

fn weighed(stopping: Stopping, drawn: &mut Drawn) -> Weighing {
    let Ok(ended) = weigh(&stopping, drawn);
    let sides = ["run tpcb", "", "--set jit=off"].map(str::to_owned);
    Weighing::of(sides, "tps".to_owned(), stopping, ended)
}

#[test]
fn sides_alternate_and_values_stay_with_their_side() {
    let mut drawn = Drawn::new(1, 2.0, 0.0);
    let stopping = Stopping {
        precision: Some(1e-9),
        pairs: 4,
        ..STOPPING
    };
    let weighing = weighed(stopping, &mut drawn);
    let sides: Vec<WeighedSide> = drawn.ran.iter().map(|(side, _)| *side).collect();
    let (a, b) = (WeighedSide::A, WeighedSide::B);
    assert_eq!(sides, [a, b, b, a, a, b, b, a]);
    assert_eq!((weighing.pairs.len(), drawn.told), (4, 4));
    for (number, pair) in weighing.pairs.iter().enumerate() {
        assert_eq!(pair.a_directory, format!("A-{}", number + 1));
        assert_eq!(pair.b_directory, format!("B-{}", number + 1));
        assert_eq!(pair.first == WeighedSide::A, number % 2 == 0);
        assert!((pair.ratio() - 2.0).abs() < 0.05, "{}", pair.ratio());
    }
    // A drift that is even in logarithms leaves two pairs, of either order, without bias.
    assert!((weighing.ratio.unwrap() - 2.0).abs() < 1e-9);
    assert_eq!(weighing.stopped_by, StoppedBy::Pairs);
}

#[test]
fn equal_sides_are_called_different_in_at_most_one_of_twenty_weighings() {
    const WEIGHINGS: u64 = 2_000;
    let stopping = Stopping {
        pairs: 40,
        budget_s: f64::INFINITY,
        ..STOPPING
    };
    let (mut different, mut same) = (0, 0);
    for seed in 1..=WEIGHINGS {
        match weighed(stopping, &mut Drawn::new(seed, 1.0, 0.015)).answer {
            Weighed::Faster | Weighed::Slower => different += 1,
            Weighed::Same => same += 1,
            Weighed::NotDecided => {}
        }
    }
    assert!(different <= WEIGHINGS / 20, "{different}");
    assert!(same > WEIGHINGS / 4, "{same}");
}

#[test]
fn a_difference_is_found_and_its_direction_is_right() {
    let mut right = 0;
    for seed in 1..=200 {
        let (ratio, wanted, wrong) = match seed % 2 {
            0 => (1.06, Weighed::Faster, Weighed::Slower),
            _ => (0.94, Weighed::Slower, Weighed::Faster),
        };
        let weighing = weighed(STOPPING, &mut Drawn::new(seed, ratio, 0.02));
        assert_ne!(weighing.answer, wrong, "{seed}");
        if weighing.answer == wanted {
            right += 1;
            assert_eq!(weighing.stopped_by, StoppedBy::Answer);
        }
    }
    assert!(right >= 190, "{right} of 200");
}

#[test]
fn it_stops_at_what_is_asked_for() {
    let asked = |stopping: Stopping, drawn: &mut Drawn| weighed(stopping, drawn).stopped_by;
    let budget = Stopping {
        budget_s: 90.0,
        precision: Some(1e-9),
        ..STOPPING
    };
    let mut drawn = Drawn::new(1, 1.0, 0.1);
    assert_eq!(asked(budget, &mut drawn), StoppedBy::Budget);
    assert_eq!(drawn.ran.len(), 8, "a fifth pair would end after 100 s");
    // One pair is run even where the budget is shorter.
    let mut drawn = Drawn::new(1, 1.0, 0.1);
    let none = Stopping {
        budget_s: 0.0,
        ..STOPPING
    };
    assert_eq!(asked(none, &mut drawn), StoppedBy::Budget);
    assert_eq!(drawn.ran.len(), 2);

    let precision = Stopping {
        precision: Some(0.03),
        ..STOPPING
    };
    let weighing = weighed(precision, &mut Drawn::new(2, 3.0, 0.02));
    assert_eq!(weighing.stopped_by, StoppedBy::Precision);
    assert!(weighing.high.unwrap() / weighing.ratio.unwrap() <= 1.03);
    let before = interval(&weighing.pairs[..weighing.pairs.len() - 1]).unwrap();
    assert!(before.high / before.ratio > 1.03);

    let mut drawn = Drawn::new(1, 1.0, 0.1);
    drawn.interrupt_after = 3;
    let weighing = weighed(STOPPING, &mut drawn);
    assert_eq!(weighing.stopped_by, StoppedBy::Interrupt);
    assert_eq!(weighing.pairs.len(), 1, "half a pair is no pair");

    // However clear the pairs before it were.
    let mut drawn = Drawn::new(1, 3.0, 0.001);
    drawn.fail_after = 8;
    let failing = Stopping {
        precision: Some(1e-9),
        ..STOPPING
    };
    let weighing = weighed(failing, &mut drawn);
    assert_eq!(weighing.stopped_by, StoppedBy::Failure);
    assert_eq!(
        (weighing.pairs.len(), weighing.answer),
        (4, Weighed::NotDecided)
    );
    assert_eq!(weighing.sentence(), "Not decided: 7 transactions failed.");
}

#[test]
fn the_answer_is_a_sentence() {
    let faster = weighed(STOPPING, &mut Drawn::new(4, 1.5, 0.005));
    let sentence = faster.sentence();
    assert!(
        sentence.starts_with("B is ") && sentence.contains(" % faster than A (B/A 1.5"),
        "{sentence}"
    );
    let many = weighed(STOPPING, &mut Drawn::new(4, 2.5, 0.005)).sentence();
    assert!(
        many.starts_with("B is 2.5") && many.contains(" times as fast as A (B/A 2.5"),
        "{many}"
    );
    let same = Stopping {
        same_within: 0.5,
        ..STOPPING
    };
    let same = weighed(same, &mut Drawn::new(3, 1.0, 0.02)).sentence();
    assert!(
        same.starts_with("A and B are the same within 50 %"),
        "{same}"
    );
    let short = Stopping {
        pairs: 2,
        ..STOPPING
    };
    let short = weighed(short, &mut Drawn::new(3, 1.0, 0.02)).sentence();
    assert!(short.starts_with("Not decided after 2 pairs: "), "{short}");
    let open = Stopping {
        pairs: 5,
        ..STOPPING
    };
    let open = weighed(open, &mut Drawn::new(3, 1.0, 0.1));
    let more = open.more_pairs.unwrap();
    let sentence = open.sentence();
    assert!(
        sentence.ends_with(&format!("About {more} more pairs would decide it.")),
        "{sentence}"
    );
}

//! Weighing, with trials that are drawn instead of measured.

use std::convert::Infallible;
use std::time::Duration;
use tenbin_study::weigh::{
    Asked, By, Evidence, Executor, Round, StoppedBy, Stopping, Trialed, Weighed, WeighedSide,
    WeighedTrial, Weighing, order, weigh,
};

const STOPPING: Stopping = Stopping {
    rounds: 20,
    budget_s: 600.0,
    same_within: 0.02,
    precision: None,
    limit: None,
};

/// Trials whose logarithms are normal, of ten seconds each, on a machine that grows slower from trial to trial.
struct Drawn {
    random: u64,
    /// True throughput of each side, divided by the first's.
    ratios: Vec<f64>,
    noise: f64,
    ran: Vec<(usize, u32)>,
    told: usize,
    interrupt_after: usize,
    /// Trials that fail, by their number.
    failing: fn(usize) -> bool,
}

impl Drawn {
    fn new(seed: u64, ratio: f64, noise: f64) -> Self {
        Self::of(seed, &[1.0, ratio], noise)
    }

    fn of(seed: u64, ratios: &[f64], noise: f64) -> Self {
        Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            ratios: ratios.to_vec(),
            noise,
            ran: Vec::new(),
            told: 0,
            interrupt_after: usize::MAX,
            failing: |_| false,
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

    fn trial(&mut self, side: usize, round: u32, attempt: u32) -> Result<Trialed, Infallible> {
        let number = self.ran.len();
        if number == self.interrupt_after {
            return Ok(Trialed::Interrupted);
        }
        self.ran.push((side, round));
        let directory = format!("{side}-{round}-{attempt}");
        if (self.failing)(number) {
            return Ok(Trialed::Failed(
                "7 transactions failed".to_owned(),
                Some(directory),
            ));
        }
        let drift = 0.99_f64.powi(i32::try_from(self.ran.len()).unwrap());
        let value = 1000.0 * self.ratios[side] * drift * (self.noise * self.normal()).exp();
        Ok(Trialed::Done(value, directory))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(10 * self.ran.len() as u64)
    }

    fn after_round(&mut self, _: &[WeighedTrial], evidence: &Evidence) {
        self.told = evidence.rounds.len();
    }
}

/// What these rounds of trials say, if there were so many questions.
fn evidence(rounds: &[Round], sides: usize) -> Evidence {
    Evidence {
        by: By::Trials,
        sides,
        rounds: rounds.to_vec(),
        taken: Vec::new(),
    }
}

fn weighed(stopping: Stopping, drawn: &mut Drawn) -> Weighing {
    let sides = drawn.ratios.len();
    let Ok(ended) = weigh(sides, 42, &stopping, drawn);
    let side = |number: usize| WeighedSide {
        name: ["A", "B", "C", "D"][number].to_owned(),
        ..WeighedSide::default()
    };
    let asked = Asked {
        command: "run tpcb".to_owned(),
        sides: (0..sides).map(side).collect(),
        metric: "tps".to_owned(),
        why_by: String::new(),
        stopping,
    };
    Weighing::of(asked, ended)
}

/// The answer of a weighing of two sides.
fn answer(weighing: &Weighing) -> Weighed {
    weighing.contrasts[0].answer
}

/// The sentence of a weighing of two sides.
fn sentence(weighing: &Weighing) -> String {
    let sentences = weighing.sentences();
    assert_eq!(sentences.len(), 1);
    sentences.concat()
}

#[test]
fn sides_alternate_and_values_stay_with_their_side() {
    let mut drawn = Drawn::new(1, 2.0, 0.0);
    let stopping = Stopping {
        precision: Some(1e-9),
        rounds: 4,
        ..STOPPING
    };
    let weighing = weighed(stopping, &mut drawn);
    let sides: Vec<usize> = drawn.ran.iter().map(|(side, _)| *side).collect();
    assert_eq!(sides, [0, 1, 1, 0, 0, 1, 1, 0]);
    assert_eq!((weighing.rounds.len(), drawn.told), (4, 4));
    for (number, round) in weighing.rounds.iter().enumerate() {
        let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
        assert_eq!(round.order, order);
        assert!((round.ratio(1, 0) - 2.0).abs() < 0.05);
        for side in 0..2 {
            let trial =
                &weighing.trials[2 * number + order.iter().position(|s| *s == side).unwrap()];
            assert_eq!((trial.side, trial.round as usize), (side, number + 1));
            assert_eq!(trial.throughput, Some(round.throughput[side]));
            let directory = format!("{side}-{}-1", number + 1);
            assert_eq!(trial.directory.as_ref(), Some(&directory));
        }
    }
    // A drift that is even in logarithms leaves two pairs, of either order, without bias.
    assert!((weighing.contrasts[0].ratio.unwrap() - 2.0).abs() < 1e-9);
    assert_eq!(weighing.stopped_by, StoppedBy::Rounds);
}

#[test]
fn the_order_of_more_sides_is_drawn_and_every_second_round_reverses_it() {
    let mut firsts = [0_u32; 4];
    let mut orders = std::collections::BTreeSet::new();
    for round in (0..4_800).step_by(2) {
        let drawn = order(4, round, 42);
        let mut reversed = order(4, round + 1, 42);
        reversed.reverse();
        assert_eq!(drawn, reversed);
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3], "each side runs once a round");
        firsts[drawn[0]] += 1;
        orders.insert(drawn);
    }
    assert_eq!(orders.len(), 24, "every order occurs");
    // 600 are expected of each, with a standard deviation of 21.
    assert!(
        firsts.iter().all(|count| (500..700).contains(count)),
        "{firsts:?}"
    );
    assert_ne!(
        (0..40).map(|round| order(4, round, 1)).collect::<Vec<_>>(),
        (0..40).map(|round| order(4, round, 2)).collect::<Vec<_>>()
    );
}

/// A drift of the machine that is even moves no side of four, whatever the order of the first round of each two.
#[test]
fn an_even_drift_leaves_more_sides_without_bias() {
    let stopping = Stopping {
        precision: Some(1e-9),
        rounds: 6,
        ..STOPPING
    };
    let weighing = weighed(stopping, &mut Drawn::of(1, &[1.0, 1.5, 0.5, 1.0], 0.0));
    let ratios: Vec<f64> = weighing
        .contrasts
        .iter()
        .map(|c| c.ratio.unwrap())
        .collect();
    for (ratio, truth) in ratios.into_iter().zip([1.5, 0.5, 1.0]) {
        assert!((ratio - truth).abs() < 1e-9, "{ratio} for {truth}");
    }
}

#[test]
fn three_questions_at_once_do_not_add_errors() {
    const WEIGHINGS: u64 = 1_000;
    let stopping = Stopping {
        rounds: 30,
        budget_s: f64::INFINITY,
        same_within: 1e-9,
        precision: None,
        limit: None,
    };
    let (mut any, mut uncorrected) = (0, 0);
    for seed in 1..=WEIGHINGS {
        // To the end, to see what one who looks after each round would have seen.
        let endless = Stopping {
            precision: Some(1e-9),
            ..stopping
        };
        let weighing = weighed(endless, &mut Drawn::of(seed, &[1.0; 4], 0.015));
        let different = |sides: usize| {
            (3..=weighing.rounds.len()).any(|done| {
                (1..4).any(|side| {
                    let at = evidence(&weighing.rounds[..done], sides).contrast(side, 0);
                    at.is_some_and(|at| at.low > 1.0 || at.high < 1.0)
                })
            })
        };
        any += u64::from(different(4));
        // As if each were the only question.
        uncorrected += u64::from(different(2));
    }
    assert!(any <= WEIGHINGS / 20, "{any}");
    assert!(uncorrected > any, "{uncorrected} and {any}");
}

#[test]
fn equal_sides_are_called_different_in_at_most_one_of_twenty_weighings() {
    const WEIGHINGS: u64 = 2_000;
    let stopping = Stopping {
        rounds: 40,
        budget_s: f64::INFINITY,
        ..STOPPING
    };
    let (mut different, mut same) = (0, 0);
    for seed in 1..=WEIGHINGS {
        match answer(&weighed(stopping, &mut Drawn::new(seed, 1.0, 0.015))) {
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
        assert_ne!(answer(&weighing), wrong, "{seed}");
        if answer(&weighing) == wanted {
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
    let at = weighing.contrasts[0];
    assert!(at.high.unwrap() / at.ratio.unwrap() <= 1.03);
    let before = &weighing.rounds[..weighing.rounds.len() - 1];
    let before = evidence(before, 2).contrast(1, 0).unwrap();
    assert!(before.high / before.ratio > 1.03);

    let mut drawn = Drawn::new(1, 1.0, 0.1);
    drawn.interrupt_after = 3;
    let weighing = weighed(STOPPING, &mut drawn);
    assert_eq!(weighing.stopped_by, StoppedBy::Interrupt);
    assert_eq!(weighing.rounds.len(), 1, "half a pair is no pair");
    assert_eq!(weighing.trials.len(), 3, "and no trial is thrown away");

    // However clear the pairs before it were.
    let mut drawn = Drawn::new(1, 3.0, 0.001);
    drawn.failing = |number| number >= 8;
    let endless = Stopping {
        precision: Some(1e-9),
        ..STOPPING
    };
    let weighing = weighed(endless, &mut drawn);
    assert_eq!(weighing.stopped_by, StoppedBy::Failure);
    assert_eq!(
        (weighing.rounds.len(), answer(&weighing)),
        (4, Weighed::NotDecided)
    );
    assert_eq!(sentence(&weighing), "Not decided: 7 transactions failed.");
}

#[test]
fn a_failed_trial_is_kept_marked_and_repeated() {
    let mut drawn = Drawn::new(1, 1.5, 0.001);
    drawn.failing = |number| number == 3;
    let weighing = weighed(STOPPING, &mut drawn);
    assert_eq!(weighing.stopped_by, StoppedBy::Answer);
    assert_eq!(weighing.trials.len(), 2 * weighing.rounds.len() + 1);
    let (failed, again) = (&weighing.trials[3], &weighing.trials[4]);
    assert_eq!(failed.failed.as_deref(), Some("7 transactions failed"));
    assert_eq!((failed.side, failed.round), (again.side, again.round));
    assert_eq!(failed.throughput, None);
    assert_eq!(failed.directory.as_deref(), Some("0-2-1"));
    assert_eq!(again.directory.as_deref(), Some("0-2-2"));
    assert_eq!(again.throughput, Some(weighing.rounds[1].throughput[0]));
}

#[test]
fn the_answer_is_a_sentence() {
    let of = |stopping, mut drawn| sentence(&weighed(stopping, &mut drawn));
    let faster = of(STOPPING, Drawn::new(4, 1.5, 0.005));
    assert!(
        faster.starts_with("B is ") && faster.contains(" % faster than A (B/A 1.5"),
        "{faster}"
    );
    let many = of(STOPPING, Drawn::new(4, 2.5, 0.005));
    assert!(
        many.starts_with("B is 2.5") && many.contains(" times as fast as A (B/A 2.5"),
        "{many}"
    );
    let same = Stopping {
        same_within: 0.5,
        ..STOPPING
    };
    let same = of(same, Drawn::new(3, 1.0, 0.02));
    assert!(
        same.starts_with("A and B are the same within 50 %"),
        "{same}"
    );
    let most = |rounds| Stopping { rounds, ..STOPPING };
    let short = of(most(2), Drawn::new(3, 1.0, 0.02));
    assert!(short.starts_with("Not decided after 2 pairs: "), "{short}");
    let open = weighed(most(5), &mut Drawn::new(3, 1.0, 0.1));
    let more = open.contrasts[0].more_rounds.unwrap();
    let said = sentence(&open);
    assert!(
        said.ends_with(&format!("About {more} more pairs would decide it.")),
        "{said}"
    );
    let three = weighed(STOPPING, &mut Drawn::of(5, &[1.0, 1.5, 0.7], 0.005));
    let said = three.sentences();
    assert!(
        said[0].contains("B is ") && said[0].contains(" rounds)."),
        "{said:?}"
    );
    assert!(
        said[1].contains("C is ") && said[1].contains(" % slower than A (C/A 0."),
        "{said:?}"
    );
}

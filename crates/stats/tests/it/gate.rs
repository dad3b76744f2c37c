use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use tenbin_stats::{CONFIDENCE, Noise, Outcome, Ratio, ratio, ratio_given};

/// How often each experiment is done.
const TIMES: u32 = 10_000;
/// How much a trial's throughput varies, as a share.
const SPREAD: f64 = 0.03;

/// Draws trials.
struct Trials(Xoshiro256PlusPlus);

impl Trials {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / 2_f64.powi(53)
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Now and then much slower, as a trial is that a checkpoint or a neighbour disturbed.
    fn disturbed(&mut self) -> f64 {
        let slower = if self.uniform() < 0.1 { -4.0 } else { 0.0 };
        self.normal() + slower
    }

    fn side(&mut self, count: usize, level: f64, noise: fn(&mut Self) -> f64) -> Vec<f64> {
        (0..count)
            .map(|_| level * (SPREAD * noise(self)).exp())
            .collect()
    }
}

/// Share of the experiments of which something is true.
fn share(seed: u64, mut of: impl FnMut(&mut Trials) -> bool) -> f64 {
    let mut trials = Trials::new(seed);
    let hits = (0..TIMES).filter(|_| of(&mut trials)).count();
    hits as f64 / f64::from(TIMES)
}

fn decided(ratio: Option<Ratio>) -> bool {
    ratio.is_none_or(|ratio| 1.0 < ratio.low || ratio.high < 1.0)
}

fn gate(ratio: Option<Ratio>, loss: f64) -> Outcome {
    Outcome::of_ratio(ratio.map(|ratio| (ratio.low, ratio.high)), 1.0 - loss)
}

#[test]
fn equal_sides_are_told_apart_in_at_most_5_of_100_comparisons() {
    for (name, noise) in [
        ("normal", Trials::normal as fn(&mut Trials) -> f64),
        ("disturbed", Trials::disturbed),
    ] {
        for count in [2, 3, 5, 10] {
            let found = share(1, |trials| {
                let (a, b) = (
                    trials.side(count, 1000.0, noise),
                    trials.side(count, 1000.0, noise),
                );
                decided(ratio(&a, &b, CONFIDENCE))
            });
            println!("{name}, {count} against {count}: {found}");
            // Three standard errors of 10,000 experiments beyond 5 %.
            assert!(found <= 0.0565, "{name}, {count}: {found}");
        }
    }
}

#[test]
fn equal_sides_break_no_limit() {
    for count in [2, 5] {
        for loss in [0.0, 0.03] {
            let found = share(2, |trials| {
                let (a, b) = (
                    trials.side(count, 1000.0, Trials::normal),
                    trials.side(count, 1000.0, Trials::normal),
                );
                gate(ratio(&a, &b, CONFIDENCE), loss) == Outcome::Exceeded
            });
            println!("{count} against {count}, limit {loss}: exceeded {found}");
            // One side of the interval; three standard errors beyond 2.5 %.
            assert!(found <= 0.03, "{count}, {loss}: {found}");
        }
    }
}

#[test]
fn a_loss_beyond_the_limit_is_seldom_called_kept_and_a_large_one_is_found() {
    let of = |loss: f64, outcome: Outcome| {
        share(3, |trials| {
            let (a, b) = (
                trials.side(5, 1000.0, Trials::normal),
                trials.side(5, 1000.0 * (1.0 - loss), Trials::normal),
            );
            gate(ratio(&a, &b, CONFIDENCE), 0.03) == outcome
        })
    };
    let (kept, found, equal) = (
        of(0.031, Outcome::Kept),
        of(0.12, Outcome::Exceeded),
        of(-0.05, Outcome::Kept),
    );
    println!("loss of 3.1 % kept {kept}; of 12 % exceeded {found}; gain of 5 % kept {equal}");
    assert!(kept <= 0.03, "{kept}");
    assert!(found >= 0.95, "{found}");
    assert!(equal >= 0.9, "{equal}");
}

#[test]
fn intervals_hold_the_truth_95_times_of_100() {
    let held = |ratio: Option<Ratio>| ratio.is_some_and(|r| r.low <= 0.9 && 0.9 <= r.high);
    let of = |count_a, count_b| {
        share(4, |trials| {
            let (a, b) = (
                trials.side(count_a, 1000.0, Trials::normal),
                trials.side(count_b, 900.0, Trials::normal),
            );
            held(ratio(&a, &b, CONFIDENCE))
        })
    };
    // Welch's test errs by a hundredth where one side has few trials and the other many.
    for (count_a, count_b, least) in [(2, 2, 0.943), (5, 5, 0.943), (1, 5, 0.943), (3, 8, 0.933)] {
        let found = of(count_a, count_b);
        println!("{count_a} against {count_b}: {found}");
        assert!(found >= least, "{count_a}, {count_b}: {found}");
    }
    // One against one, beside three and two earlier runs of two configurations.
    let found = share(5, |trials| {
        let groups = [
            trials.side(3, 700.0, Trials::normal),
            trials.side(2, 1200.0, Trials::normal),
        ];
        let (a, b) = (
            trials.side(1, 1000.0, Trials::normal),
            trials.side(1, 900.0, Trials::normal),
        );
        held(Noise::of(&groups).and_then(|noise| ratio_given(&a, &b, noise, CONFIDENCE)))
    });
    println!("one against one, noise of five earlier runs: {found}");
    assert!((0.943..0.957).contains(&found), "{found}");
}

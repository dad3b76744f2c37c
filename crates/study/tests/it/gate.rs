//! The limit on the loss, by runs of which only `run.json` counts.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use tenbin_record::{Run, RunDir, RunWriter};
use tenbin_study::comparison::{Change, Comparison, MethodKind};
use tenbin_study::{CompareError, Outcome, compare};

const RUN: &str = include_str!("../../../record/tests/it/run.json");

/// A run with this throughput.
fn run(
    home: &tempfile::TempDir,
    name: &str,
    throughput: f64,
    change: impl FnOnce(&mut Run),
) -> RunDir {
    let mut run: Run = serde_json::from_str(RUN).unwrap();
    run.result.throughput.value = throughput;
    change(&mut run);
    let mut writer = RunWriter::create(&home.path().join(name)).unwrap();
    writer.write(&run).unwrap();
    RunDir::open(&writer.finish().unwrap()).unwrap()
}

fn runs(home: &tempfile::TempDir, name: &str, throughputs: &[f64]) -> Vec<RunDir> {
    let run =
        |(number, value): (usize, &f64)| run(home, &format!("{name}{number}"), *value, |_| {});
    throughputs.iter().enumerate().map(run).collect()
}

fn sentence(comparison: &Comparison) -> &str {
    &comparison.verdict.sentence
}

/// Intervals from `scipy.stats.ttest_ind(equal_var=False)` of the logarithms, `SciPy` 1.17.1.
#[test]
fn a_limit_is_kept_exceeded_or_not_decided_by_the_interval() {
    let home = tempfile::tempdir().unwrap();
    let a = runs(&home, "a", &[1010.0, 990.0, 1005.0]);
    let b = runs(&home, "b", &[950.0, 980.0, 940.0, 961.0]);
    let of = |limit| compare(&a, &b, &[], Some(limit)).unwrap();
    let exceeded = of(1.0);
    assert_eq!(exceeded.outcome(), Some(Outcome::Exceeded));
    assert_eq!(
        sentence(&exceeded),
        "B did 957.6 NOPM, 4.39 % less than A's 1,002 (B/A 0.956, 0.930 to 0.983). The loss of 4.39 % is beyond the limit of 1 %."
    );
    let undecided = of(5.0);
    assert_eq!(undecided.outcome(), Some(Outcome::NotDecided));
    assert!(
        sentence(&undecided).ends_with(
            "The limit of 5 % is not decided: the interval reaches from a loss of 1.69 % to a loss of 7.02 %. More trials narrow it."
        ),
        "{}",
        sentence(&undecided)
    );
    let kept = of(8.0);
    assert_eq!(kept.outcome(), Some(Outcome::Kept));
    assert!(
        sentence(&kept).ends_with("That is within the limit of 8 %."),
        "{}",
        sentence(&kept)
    );
    assert_eq!(
        compare(&b, &a, &[], Some(0.0)).unwrap().outcome(),
        Some(Outcome::Kept)
    );
}

/// Interval as in the test of the statistics themselves, from `SciPy`.
#[test]
fn one_run_each_is_decided_by_earlier_runs() {
    let home = tempfile::tempdir().unwrap();
    let (a, b) = (runs(&home, "a", &[1003.0]), runs(&home, "b", &[961.0]));
    let mut earlier = runs(&home, "old", &[1010.0, 990.0, 1005.0]);
    for (number, value) in [950.0, 980.0, 940.0, 961.0].into_iter().enumerate() {
        // Another configuration of the server, with a level of its own.
        earlier.push(run(&home, &format!("other{number}"), value, |run| {
            run.server.settings.get_mut("shared_buffers").unwrap().value = "1GB".into();
            run.run.seed = 77;
        }));
    }
    let comparison = compare(&a, &b, &earlier, Some(1.0)).unwrap();
    assert_eq!(comparison.method.kind, MethodKind::EarlierRuns);
    assert!(
        comparison.method.sentence.contains(
            "7 earlier runs of this load on this machine, by which throughput varies by 1.53 % from run to run (standard deviation, 5 degrees of freedom)"
        ),
        "{}",
        comparison.method.sentence
    );
    let row = &comparison.rows[0];
    assert_eq!(row.change, Change::NotShown);
    assert!(
        (row.ratio_low.unwrap() - 0.906_261_07).abs() < 1e-7,
        "{row:?}"
    );
    assert!(
        (row.ratio_high.unwrap() - 1.012_958_34).abs() < 1e-7,
        "{row:?}"
    );
    assert_eq!(comparison.outcome(), Some(Outcome::NotDecided));
    assert_eq!(comparison.earlier.len(), 7);
    let lost = runs(&home, "lost", &[800.0]);
    let outcome = compare(&a, &lost, &earlier, Some(3.0)).unwrap().outcome();
    assert_eq!(outcome, Some(Outcome::Exceeded));
}

#[test]
fn earlier_runs_that_say_nothing_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let (a, b) = (
        runs(&home, "a", &[1003.0, 1001.0]),
        runs(&home, "b", &[961.0]),
    );
    let one = &a[..1];
    let earlier = runs(&home, "old", &[1010.0, 990.0]);
    let refused = |earlier: &[RunDir]| compare(one, &b, earlier, None).unwrap_err();
    assert!(matches!(
        compare(&a, &b, &earlier, None),
        Err(CompareError::NotNeeded)
    ));
    assert!(matches!(refused(&earlier[..1]), CompareError::NoRepetition));
    let same = RunDir::open(&home.path().join("./a0")).unwrap();
    assert!(matches!(refused(&[same]), CompareError::Twice { .. }));
    let shorter = run(&home, "shorter", 1000.0, |run| run.run.duration_s = 1.0);
    let message = refused(&[shorter]).to_string();
    assert!(
        message.contains("they differ in run.duration_s"),
        "{message}"
    );
    let moved = run(&home, "moved", 1000.0, |run| run.host.cores += 1);
    let message = refused(&[moved]).to_string();
    assert!(message.contains("they differ in host.cores"), "{message}");
}

/// 200 comparisons of equal sides, five runs each, all through run directories.
#[test]
fn of_200_comparisons_of_equal_sides_few_are_decided() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(20);
    // A sum of twelve uniform numbers: mean 0, variance 1.
    let mut noise = || {
        let uniform = |_| (random.next_u64() >> 11) as f64 / 2_f64.powi(53);
        (0..12).map(uniform).sum::<f64>() - 6.0
    };
    let (mut decided, mut exceeded) = (0, 0);
    for _ in 0..200 {
        let home = tempfile::tempdir().unwrap();
        let mut side = |name| {
            let throughputs: Vec<f64> = (0..5).map(|_| 1000.0 * (0.03 * noise()).exp()).collect();
            runs(&home, name, &throughputs)
        };
        let (a, b) = (side("a"), side("b"));
        let comparison = compare(&a, &b, &[], Some(3.0)).unwrap();
        decided += u32::from(comparison.verdict.throughput != Change::NotShown);
        exceeded += u32::from(comparison.outcome() == Some(Outcome::Exceeded));
    }
    assert!(decided <= 10, "{decided} of 200");
    assert_eq!(exceeded, 0);
}

//! Runs whose truth is known, because they are drawn here.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers"
)]

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::path::Path;
use tenbin_record::result::Times;
use tenbin_record::samples::{CPU, DRIVER, LSN_BYTES, SYSTEM_S, USER_S, WAL};
use tenbin_record::{Outcome, Run, RunDir, RunWriter, SampleRow, TransactionRow};

/// A run with something in every part of it, which the record's own tests use too.
const RUN: &str = include_str!("../../../record/tests/it/run.json");

/// What is true of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    pub(crate) seconds: u32,
    /// Transactions a second.
    pub(crate) rate: f64,
    /// Mean response, exponentially distributed.
    pub(crate) response_ms: f64,
    /// CPU of the server for a transaction.
    pub(crate) server_cpu_us: f64,
    /// How much whole seconds differ from each other, as a share.
    pub(crate) unsteadiness: f64,
    pub(crate) seed: u64,
}

pub(crate) const TRUTH: Truth = Truth {
    seconds: 60,
    rate: 100.0,
    response_ms: 5.0,
    server_cpu_us: 800.0,
    unsteadiness: 0.05,
    seed: 1,
};

struct Drawn(Xoshiro256PlusPlus);

impl Drawn {
    /// Above 0 and up to 1.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 1.0) / 2_f64.powi(53)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
}

/// Writes the directory of a run with this truth, changed by `change`.
pub(crate) fn run(path: &Path, truth: Truth, change: impl FnOnce(&mut Run)) -> RunDir {
    let mut run: Run = serde_json::from_str(RUN).unwrap();
    let (rows, samples) = draw(truth, &run);
    let kinds: Vec<String> = run
        .workload
        .kinds
        .iter()
        .map(|kind| kind.name.clone())
        .collect();
    let mut writer = RunWriter::create(path).unwrap();
    let transactions = writer.transactions(&kinds).unwrap();
    transactions.write(&rows).unwrap();
    transactions.finish().unwrap();
    let file = writer.samples().unwrap();
    file.write(&samples).unwrap();
    file.finish().unwrap();
    figures(&mut run, truth, &rows, &samples);
    change(&mut run);
    writer.write(&run).unwrap();
    RunDir::open(&writer.finish().unwrap()).unwrap()
}

fn draw(truth: Truth, run: &Run) -> (Vec<TransactionRow>, Vec<SampleRow>) {
    let mut random = Drawn(Xoshiro256PlusPlus::seed_from_u64(truth.seed));
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    let mut at_s = -5.0;
    let mut weather = 1.0;
    for second in -5..i32::try_from(truth.seconds).unwrap() {
        // Neighbouring seconds are alike.
        let push = truth.unsteadiness * (random.uniform() - 0.5) * 2.0;
        weather = 1.0 + 0.5 * (weather - 1.0) + push;
        let before = rows.len();
        while at_s < f64::from(second + 1) {
            let kind = (random.uniform() * 100.0) as u8;
            rows.push(TransactionRow {
                start_ns: (at_s * 1e9) as i64,
                response_ns: (random.exponential(truth.response_ms / weather) * 1e6) as u64
                    + 200_000,
                wait_ns: 0,
                terminal: 0,
                kind: match kind {
                    0..45 => 0,
                    45..88 => 1,
                    88..92 => 2,
                    92..96 => 3,
                    _ => 4,
                },
                outcome: if run.workload.kinds[3].deferred && (92..96).contains(&kind) {
                    Outcome::Deferred
                } else {
                    Outcome::Committed
                },
                retries: 0,
            });
            at_s += random.exponential(1.0 / (truth.rate * weather));
        }
        let transactions = (rows.len() - before) as f64;
        let sample = |source: &'static str,
                      name: &'static str,
                      label: Option<&'static str>,
                      value: f64| SampleRow {
            offset_s: f64::from(second) + 1.0,
            source: source.into(),
            name: name.into(),
            label: label.map(Into::into),
            value: Some(value),
        };
        samples.extend([
            sample(
                CPU,
                USER_S,
                Some("client_backend"),
                0.75 * transactions * truth.server_cpu_us / 1e6,
            ),
            sample(
                CPU,
                SYSTEM_S,
                Some("wal_writer"),
                0.25 * transactions * truth.server_cpu_us / 1e6,
            ),
            sample(CPU, USER_S, Some(DRIVER), transactions * 60e-6),
            sample(WAL, LSN_BYTES, None, transactions * 4000.0),
        ]);
    }
    (rows, samples)
}

/// Makes `run.json` say what the rows and samples do.
fn figures(run: &mut Run, truth: Truth, rows: &[TransactionRow], samples: &[SampleRow]) {
    let end_ns = i64::from(truth.seconds) * 1_000_000_000;
    let inside = |ns: i64| (0..end_ns).contains(&ns);
    let completed = |row: &&TransactionRow| inside(row.start_ns + row.response_ns.cast_signed());
    let all = rows.iter().filter(completed).count() as f64;
    let new_orders = rows
        .iter()
        .filter(completed)
        .filter(|row| row.kind == 0)
        .count() as f64;
    run.run.duration_s = f64::from(truth.seconds);
    run.run.measured_s = run.run.duration_s;
    run.run.seed = truth.seed;
    run.result.throughput.value = new_orders * 60.0 / f64::from(truth.seconds);
    for (number, kind) in run.workload.kinds.iter().enumerate() {
        let of = rows
            .iter()
            .filter(|row| usize::from(row.kind) == number && inside(row.start_ns));
        let mut ms: Vec<f64> = of.map(|row| row.response_ns as f64 / 1e6).collect();
        ms.sort_by(f64::total_cmp);
        let mean = ms.iter().sum::<f64>() / ms.len() as f64;
        let at = |share: f64| ms[((ms.len() - 1) as f64 * share) as usize];
        let transaction = run.result.transactions.get_mut(&kind.name).unwrap();
        transaction.response_ms = Times::of(ms.len() as u64, mean, at(1.0), at);
        transaction.errors = 0;
    }
    run.result.checks.clear();
    let sum = |source: &str, driver: bool| -> f64 {
        let of = samples
            .iter()
            .filter(|s| s.source == source && s.offset_s > 0.0);
        of.filter(|s| (s.label.as_deref() == Some(DRIVER)) == driver)
            .filter_map(|s| s.value)
            .sum()
    };
    let observation = run.observation.as_mut().unwrap();
    observation.gaps.clear();
    observation.per_transaction.driver_cpu_us = Some(sum(CPU, true) * 1e6 / all);
    observation.per_transaction.server_cpu_us = Some(sum(CPU, false) * 1e6 / all);
    observation.per_transaction.wal_bytes = Some(sum(WAL, false) / all);
}

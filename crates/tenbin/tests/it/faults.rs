//! Is the audit worth its name? Twelve faults are planted, each must be caught by the item that
//! is there for it, and a faultless run must raise none.
//!
//! Faults are other values of `Rules` or another text among the `Statements`: what a wrong
//! implementation would do, through the same code. Data and times are scaled down alike for the
//! workload and for the rules it is judged by.

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_record::{AuditItem, Verdict};
use tenbin_rte::{Driven, Options, Pacing, Point};
use tenbin_server::{Embedded, Source};
use tenbin_workload::audit::Durations;
use tenbin_workload::check::Verdict as Found;
use tenbin_workload::think::ThinkTime;
use tenbin_workload::tpcc::audit::{KindMeasured, Measured, audit};
use tenbin_workload::tpcc::checks::check;
use tenbin_workload::tpcc::load::{LoadOptions, load, mark_ran};
use tenbin_workload::tpcc::random::NuRandC;
use tenbin_workload::tpcc::{Rules, Tpcc, TpccTally};

const WAREHOUSES: u32 = 2;
const SEED: u64 = 20_261_121;
/// The standard's keying and think times take 22 s a cycle; these a hundredth.
const PACE: f64 = 0.01;

/// The standard on small tables and with short pauses.
fn rules() -> Rules {
    let standard = Rules::default();
    Rules {
        customers_per_district: 300,
        open_orders_per_district: 90,
        items: 5_000,
        last_names: 300,
        keying_s: standard.keying_s.map(|seconds| seconds * PACE),
        think_mean_s: standard.think_mean_s.map(|seconds| seconds * PACE),
        tpmc_per_warehouse: 9.0 / PACE..=12.86 / PACE,
        ..standard
    }
}

struct Laboratory {
    server: Embedded,
    c_load: NuRandC,
}

impl Laboratory {
    fn new() -> Self {
        let options = tenbin_server::Options {
            source: Source::bin("/usr/lib/postgresql/15/bin"),
            connections: 40,
            // The faults are in the workload; waiting for a slow disk would only cost samples.
            settings: vec![("synchronous_commit".into(), "off".into())],
            ..tenbin_server::Options::default()
        };
        let server = Embedded::start(options).unwrap();
        let c_load = NuRandC {
            last: 0,
            customer: 0,
            item: 0,
        };
        let mut laboratory = Self { server, c_load };
        laboratory.load();
        laboratory
    }

    fn load(&mut self) {
        let options = LoadOptions {
            warehouses: WAREHOUSES,
            seed: SEED,
            replace: true,
            rules: rules(),
            ..LoadOptions::default()
        };
        let config = self.server.target().config();
        let loaded = load(
            &options,
            || config.connect(postgres::NoTls),
            &AtomicBool::new(false),
            &mut |_| {},
        )
        .unwrap();
        self.c_load = loaded.meta.c;
        assert_eq!(self.broken(), [""; 0]);
        mark_ran(&mut self.server.connect().unwrap(), "public").unwrap();
    }

    fn tpcc(&self, rules: Rules) -> Tpcc {
        let c_run = NuRandC::run(&rules, self.c_load, SEED);
        Tpcc {
            rules,
            c_run,
            ..Tpcc::new(WAREHOUSES, SEED, self.c_load)
        }
    }

    fn drive(&self, tpcc: &Tpcc, options: &Options) -> Driven<TpccTally> {
        tenbin_rte::drive(
            tpcc,
            &self.server.target(),
            options,
            None,
            &mut |_| {},
            &AtomicBool::new(false),
        )
        .unwrap()
    }

    fn audit(&self, tpcc: &Tpcc, options: &Options, driven: &Driven<TpccTally>) -> Vec<AuditItem> {
        audit(
            &rules(),
            &driven.tally,
            &measured(driven, options, self.c_load),
            tpcc.c_run,
        )
    }

    /// Conditions that do not hold.
    fn broken(&self) -> Vec<&'static str> {
        let config = self.server.target().config();
        let stop = AtomicBool::new(false);
        let results = check(
            "public",
            &rules(),
            2,
            || config.connect(postgres::NoTls),
            &stop,
        )
        .unwrap();
        results
            .into_iter()
            .filter(|result| result.verdict == Found::Fail)
            .map(|result| result.condition)
            .collect()
    }

    /// Drives and returns the ids of the audit items that fail.
    fn failing(&self, tpcc: &Tpcc, options: &Options) -> Vec<String> {
        let driven = self.drive(tpcc, options);
        failing(&self.audit(tpcc, options, &driven))
    }
}

fn failing(items: &[AuditItem]) -> Vec<String> {
    items
        .iter()
        .filter(|item| item.verdict == Verdict::Fail)
        .map(|item| item.id.clone())
        .collect()
}

fn unpaced() -> Options {
    Options {
        warm_up: Duration::from_millis(500),
        ..Options::new(20, 4, Duration::from_secs(3))
    }
}

fn paced() -> Options {
    Options {
        pacing: Pacing::Spec,
        ramp_up: Duration::from_millis(500),
        warm_up: Duration::from_secs(1),
        ..Options::new(20, 20, Duration::from_secs(8))
    }
}

fn measured(driven: &Driven<TpccTally>, options: &Options, c_load: NuRandC) -> Measured {
    let inside = |point: &&Point| point.at_s >= 0 && (point.at_s as f64) < driven.measured_s;
    Measured {
        pacing: (options.pacing == Pacing::Spec).then_some(1.0),
        terminals: options.terminals,
        warehouses: WAREHOUSES,
        measured_s: driven.measured_s,
        kinds: driven
            .kinds
            .iter()
            .map(|kind| KindMeasured {
                due: kind.due(),
                errors: kind.errors.count(),
                response: Durations::from(&kind.response),
                keying: Durations::from(&kind.keying),
                think: Durations::from(&kind.think),
                think_cut: Durations::from(&kind.think_cut),
            })
            .collect(),
        menu: Durations::from(&driven.menu),
        delivery: driven.kinds[3]
            .deferred
            .as_ref()
            .map(|deferred| Durations::from(&deferred.completion))
            .unwrap_or_default(),
        delivery_remaining: 0,
        delivery_skipping: None,
        new_orders_per_s: driven
            .timeline
            .iter()
            .filter(inside)
            .map(|point| point.kinds[0].completed)
            .collect(),
        new_orders: driven.kinds[0].completed,
        c_load: Some(c_load),
    }
}

/// A fault of the rules and the item that must catch it.
fn caught(laboratory: &Laboratory, options: &Options, faulty: Rules, item: &str) {
    let failed = laboratory.failing(&laboratory.tpcc(faulty), options);
    assert!(
        failed.iter().any(|id| id == item),
        "{item} should have failed; {failed:?} did"
    );
}

#[test]
fn faults_of_input_are_caught_and_a_clean_run_raises_none() {
    let laboratory = Laboratory::new();
    let clean = laboratory.tpcc(rules());
    let driven = laboratory.drive(&clean, &unpaced());
    for kind in &driven.kinds {
        // No transaction waits for another in a circle, nor misses what it looks for.
        assert_eq!((kind.errors.count(), kind.retried()), (0, 0), "{kind:?}");
    }
    assert_eq!(
        failing(&laboratory.audit(&clean, &unpaced(), &driven)),
        [""; 0]
    );
    assert_eq!(laboratory.broken(), [""; 0]);

    // 1. Never to another warehouse.
    caught(
        &laboratory,
        &unpaced(),
        Rules {
            remote_line_share: 0.0,
            ..rules()
        },
        "input.remote_lines",
    );
    caught(
        &laboratory,
        &unpaced(),
        Rules {
            remote_payment_share: 0.0,
            ..rules()
        },
        "input.remote_payments",
    );
    // 2. C-Run is C-Load.
    caught(
        &laboratory,
        &unpaced(),
        Rules {
            c_delta: 0..=0,
            ..rules()
        },
        "input.c_delta",
    );
    // 3. 6 to 15 lines: 10.5 on average, which the band for the average lets pass.
    caught(
        &laboratory,
        &unpaced(),
        Rules {
            lines: 6..=15,
            ..rules()
        },
        "input.line_counts",
    );
    // 4. A mix without Stock-Levels.
    caught(
        &laboratory,
        &unpaced(),
        Rules {
            deck: [11, 10, 1, 1, 0],
            ..rules()
        },
        "mix.stock_level",
    );
    // 5. Customers chosen uniformly.
    caught(
        &laboratory,
        &unpaced(),
        Rules {
            nurand_a_customer: 0,
            ..rules()
        },
        "input.customers",
    );

    // 6. The clock starts when the driver sends: what it would have recorded is the service time.
    let mut driven = laboratory.drive(&clean, &unpaced());
    // A deferred Delivery is accepted without a connection: it has no service time.
    let served = driven.kinds.iter_mut();
    for kind in served.filter(|kind| kind.deferred.is_none()) {
        kind.response = kind.service.clone();
    }
    let failed = failing(&laboratory.audit(&clean, &unpaced(), &driven));
    assert_eq!(failed, ["whole.time_accounted"]);
}

#[test]
fn faults_of_pacing_are_caught_and_a_clean_run_raises_none() {
    let laboratory = Laboratory::new();
    let clean = laboratory.tpcc(rules());
    assert_eq!(laboratory.failing(&clean, &paced()), [""; 0]);

    // 7. Always the mean.
    caught(
        &laboratory,
        &paced(),
        Rules {
            think_time: ThinkTime::Constant,
            ..rules()
        },
        "pacing.think_distribution",
    );
    // 8. Payments keyed in 2 s instead of 3 s.
    let mut hasty = rules();
    hasty.keying_s[1] = 2.0 * PACE;
    caught(&laboratory, &paced(), hasty, "pacing.keying");
    // 9. Eleven terminals a warehouse.
    caught(
        &laboratory,
        &Options {
            terminals: 22,
            ..paced()
        },
        rules(),
        "pacing.terminals",
    );
}

#[test]
fn faults_of_transactions_are_caught_by_the_checks() {
    let mut laboratory = Laboratory::new();
    let faults: [(&str, fn(&mut Tpcc), &str); 3] = [
        // 10. An order with an unused item is kept.
        (
            "lost rollback",
            |tpcc| tpcc.statements.rollback = "COMMIT".into(),
            "6",
        ),
        // 11. The line's amount has tax in it.
        (
            "tax in OL_AMOUNT",
            |tpcc| {
                let sql = &mut tpcc.statements.new_order_lines;
                *sql = sql.replace(
                    "i_price * quantity AS amount",
                    "round(i_price * quantity * 1.1, 2) AS amount",
                );
            },
            "A1",
        ),
        // 12. A remote line takes from the stock at home.
        (
            "home stock for remote lines",
            |tpcc| {
                let sql = &mut tpcc.statements.new_order_lines;
                *sql = sql.replace("s_w_id = supply", "s_w_id = $1");
            },
            "A2",
        ),
    ];
    for (name, plant, condition) in faults {
        laboratory.load();
        let mut tpcc = laboratory.tpcc(rules());
        let right = format!("{:?}", tpcc.statements);
        plant(&mut tpcc);
        assert_ne!(
            format!("{:?}", tpcc.statements),
            right,
            "{name} was not planted"
        );
        laboratory.drive(&tpcc, &unpaced());
        let broken = laboratory.broken();
        assert!(
            broken.contains(&condition),
            "{name}: condition {condition} should be broken; {broken:?} are"
        );
    }
}

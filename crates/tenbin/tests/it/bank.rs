//! TPC-A, TPC-B and the mix driven for real: a faultless run raises nothing, a planted fault is caught.
//!
//! Faults are other texts among the `Statements` and other values of `Rules`: what a wrong
//! implementation would do, through the same code.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_record::{AuditItem, Verdict};
use tenbin_rte::{Driven, Options, Pacing};
use tenbin_server::{Embedded, Source};
use tenbin_workload::Workload;
use tenbin_workload::audit::Durations;
use tenbin_workload::bank::{self, Design, LoadOptions, Ran, Size, Sums, Watch};
use tenbin_workload::check::Verdict as Found;
use tenbin_workload::mix::{self, Mix};
use tenbin_workload::think::ThinkTime;
use tenbin_workload::tpca::{self, Rules, Tpca};
use tenbin_workload::tpcb::{self, Form, Tpcb};

const DEBIAN: &str = "/usr/lib/postgresql/15/bin";
/// The standard's cycle takes 10 s; these a fiftieth.
const PACE: f64 = 0.02;
const SEED: u64 = 20_261_121;

struct Laboratory {
    server: Embedded,
    design: Design,
}

fn size() -> Size {
    Size {
        branches: 4,
        tellers_per_branch: 10,
        accounts_per_branch: 100_000,
    }
}

impl Laboratory {
    fn new(source: Source, design: Design) -> Self {
        let options = tenbin_server::Options {
            source,
            connections: 60,
            // The faults are in the workload; waiting for a slow disk would only cost samples.
            settings: vec![("synchronous_commit".into(), "off".into())],
            ..tenbin_server::Options::default()
        };
        let server = Embedded::start(options).unwrap();
        Self { server, design }
    }

    fn load(&self) {
        let options = LoadOptions {
            replace: true,
            ..LoadOptions::new(self.design, size())
        };
        let config = self.server.target().config();
        let stop = AtomicBool::new(false);
        bank::load(
            &options,
            || config.connect(postgres::NoTls),
            &stop,
            &mut |_| (),
        )
        .unwrap();
    }

    /// Drives on fresh tables; `told` says by how much they should have moved.
    fn drive<W: Workload>(
        &self,
        workload: &W,
        options: &Options,
        ran: Ran,
        told: impl Fn(&W) -> Sums,
    ) -> (Driven<W::Tally>, Vec<&'static str>) {
        self.load();
        bank::mark_ran(
            &mut self.server.connect().unwrap(),
            self.design,
            "public",
            ran,
        )
        .unwrap();
        let stop = AtomicBool::new(false);
        let target = self.server.target();
        let driven =
            tenbin_rte::drive(workload, &target, options, None, &mut |_| (), &stop).unwrap();
        assert_eq!(
            driven.kinds[0].errors.count(),
            0,
            "{:?}",
            driven.kinds[0].errors
        );
        let watch = Watch {
            before: Sums::default(),
            moved: told(workload),
            unknown: 0,
        };
        let client = self.server.connect().unwrap();
        let results = bank::check(self.design, "public", client, Some(watch), &stop).unwrap();
        let broken = results
            .into_iter()
            .filter(|result| result.verdict == Found::Fail)
            .map(|result| result.condition)
            .collect();
        (driven, broken)
    }

    fn tpcb(&self, tpcb: &Tpcb) -> (Vec<String>, Vec<&'static str>) {
        let (driven, broken) = self.drive(tpcb, &unpaced(), tpcb.form.ran(), Tpcb::expected);
        let kind = &driven.kinds[0];
        let measured = tpcb::Measured {
            due: kind.due(),
            response: Durations::of(&kind.response, kind.due()),
        };
        (
            failing(&tpcb::audit(tpcb, &driven.tally, &measured)),
            broken,
        )
    }

    fn tpca(&self, change: impl Fn(&mut Tpca)) -> (Vec<String>, Vec<&'static str>) {
        let options = Options {
            pacing: Pacing::Factor(PACE),
            ramp_up: Duration::from_millis(400),
            warm_up: Duration::from_millis(500),
            ..Options::new(40, 40, Duration::from_secs(4))
        };
        let mut tpca = Tpca::new(size(), options.terminals, SEED);
        change(&mut tpca);
        let (driven, broken) = self.drive(&tpca, &options, Ran::Update, Tpca::expected);
        let kind = &driven.kinds[0];
        let measured = tpca::Measured {
            pacing: Some(PACE),
            terminals: options.terminals,
            tps: 4,
            think_cut: Durations::from(&kind.think_cut),
            weakened: Vec::new(),
            measured_s: driven.measured_s,
            due: kind.due(),
            completed: kind.completed,
            stuck: kind.stuck,
            response: Durations::of(&kind.response, kind.due()),
            think: Durations::from(&kind.think),
        };
        let items = tpca::audit(&Rules::default(), &tpca.size, &driven.tally, &measured);
        (failing(&items), broken)
    }
}

fn unpaced() -> Options {
    Options {
        warm_up: Duration::from_millis(300),
        ..Options::new(8, 8, Duration::from_secs(2))
    }
}

fn failing(items: &[AuditItem]) -> Vec<String> {
    let failing = items.iter().filter(|item| item.verdict == Verdict::Fail);
    failing.map(|item| item.id.clone()).collect()
}

fn none<T: Default>() -> T {
    T::default()
}

#[test]
fn tpcb_runs_clean_and_its_faults_are_caught() {
    let laboratory = Laboratory::new(Source::bin(DEBIAN), Design::Pgbench);
    for form in [Form::Update, Form::SimpleUpdate, Form::Select] {
        for pipeline in [false, true] {
            let mut tpcb = Tpcb::new(size(), form, SEED);
            tpcb.pipeline = pipeline;
            assert_eq!(laboratory.tpcb(&tpcb), none(), "{form:?} {pipeline}");
            assert_ne!(tpcb.moved.sum(), 0, "{form:?}: nothing ran");
        }
    }
    let faulty = |change: fn(&mut tpcb::Statements)| {
        let mut tpcb = Tpcb::new(size(), Form::Update, SEED);
        change(&mut tpcb.statements);
        laboratory.tpcb(&tpcb)
    };
    let lost_update = faulty(|sql| {
        sql.teller = "UPDATE pgbench_tellers SET tbalance = CASE tid WHEN 7 THEN 0 ELSE tbalance \
                      END + $1 WHERE tid = $2"
            .into();
    });
    assert_eq!(lost_update, (none(), vec!["2", "3", "5", "7"]));
    let no_history = faulty(|sql| {
        sql.history = "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) SELECT \
                       $1::int, $2::int, $3::int, $4::int, CURRENT_TIMESTAMP WHERE $1::int <> 7"
            .into();
    });
    let expected = (vec!["rows.found".to_owned()], vec!["4", "5", "6", "7"]);
    assert_eq!(no_history, expected);
    let uncommitted = faulty(|sql| sql.end = "ROLLBACK".into());
    assert_eq!(
        uncommitted.1,
        ["7"],
        "nothing is there, and nothing contradicts it but the driver"
    );
}

#[test]
fn tpca_runs_clean_and_its_faults_are_caught() {
    let laboratory = Laboratory::new(Source::bin(DEBIAN), Design::TpcA);
    assert_eq!(laboratory.tpca(|_| ()), none());
    let never_remote = laboratory.tpca(|tpca| tpca.rules.home_share = 1.0);
    assert_eq!(
        never_remote,
        (vec!["input.remote_accounts".to_owned()], none())
    );
    let constant = laboratory.tpca(|tpca| tpca.rules.think_time = ThinkTime::Constant);
    assert_eq!(
        constant,
        (vec!["pacing.think_distribution".to_owned()], none())
    );
    let wrong_branch = laboratory.tpca(|tpca| {
        tpca.statements.branch = "UPDATE tpca_branch SET branch_balance = branch_balance + $1 \
                                  WHERE branch_id = $2 % 4 + 1"
            .into();
    });
    assert_eq!(wrong_branch, (none(), vec!["2", "6"]));
}

#[test]
fn the_mix_runs_clean_with_and_without_contention() {
    let laboratory = Laboratory::new(Source::bin(DEBIAN), Design::Pgbench);
    let run = |mix: &Mix| {
        let (driven, broken) = laboratory.drive(mix, &unpaced(), Ran::Mix, Mix::expected);
        assert!(
            driven.kinds[0].retries.is_empty(),
            "{:?}",
            driven.kinds[0].retries
        );
        (failing(&mix::audit(mix, &driven.tally)), broken)
    };
    let mix = |share| Mix::new(size(), 8, 10, share, SEED);
    for share in [0.0, 0.25, 1.0] {
        assert_eq!(run(&mix(share)), none(), "{share}");
    }
    let mut contended = mix(0.5).skewed(1.1);
    contended.contend = true;
    contended.pipeline = true;
    assert_eq!(run(&contended), none());
    let mut forgetful = mix(0.5);
    forgetful.sql.update =
        "UPDATE pgbench_accounts SET abalance = abalance + $1 % 4000 WHERE aid = $2".into();
    assert_eq!(run(&forgetful), (none(), vec!["7"]));
}

/// Runs the command on a server of its own; its `run.json`.
fn run(arguments: &[&str], code: i32) -> serde_json::Value {
    let folder = tempfile::TempDir::new().unwrap();
    let out = folder.path().join("run");
    let output = Command::new(env!("CARGO_BIN_EXE_tenbin"))
        .args(arguments)
        .args(["--json", "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        !page.contains("NOPM") && !page.contains("New-Order"),
        "{arguments:?}"
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failed(run: &serde_json::Value) -> Vec<String> {
    let lists = [
        (&run["result"]["audit"], "id"),
        (&run["result"]["checks"], "condition"),
    ];
    let mut failed = Vec::new();
    for (list, name) in lists {
        let items = list.as_array().unwrap();
        assert!(!items.is_empty());
        let wrong = items.iter().filter(|item| item["verdict"] == "FAIL");
        failed.extend(wrong.map(|item| item[name].as_str().unwrap().to_owned()));
    }
    failed
}

#[test]
fn the_command_runs_all_three_on_the_oldest_and_the_newest_server() {
    for version in ["9.6", "18"] {
        for (workload, more) in [
            ("tpcb", &["--scale", "1"][..]),
            ("mix", &["--scale", "1", "--update-share", "0.2"]),
            ("tpca", &["--scale", "2", "--pacing", "0.05"]),
        ] {
            let base = [
                "run", workload, "--pg", version, "-d", "2s", "--warmup", "500ms",
            ];
            let run = run(&[&base[..], more].concat(), 0);
            assert_eq!(failed(&run), [""; 0], "{workload} on {version}");
            assert_eq!(run["workload"]["name"], workload);
            assert_eq!(run["result"]["throughput"]["metric"], "tps");
            assert!(run["result"]["throughput"]["value"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn tpca_at_the_standards_pace_is_called_tpsa() {
    let base = ["run", "tpca", "--pg-bin", DEBIAN, "--scale", "10"];
    let times = ["-d", "54s", "--warmup", "2s", "--ramp-up", "10s"];
    let run = run(&[&base[..], &times].concat(), 0);
    assert_eq!(failed(&run), [""; 0]);
    assert_eq!(run["result"]["throughput"]["metric"], "tpsA");
    assert_eq!(run["driver"]["terminals"], 100);
}

#[test]
fn tables_that_pgbench_made_are_driven_checked_and_left() {
    let laboratory = Laboratory::new(Source::bin(DEBIAN), Design::Pgbench);
    let target = laboratory.server.tcp_target();
    let config = laboratory.server.target().config();
    let port = config.get_ports()[0].to_string();
    let password = target.password.unwrap_or_default();
    let made = Command::new(format!("{DEBIAN}/pgbench"))
        .args([
            "-i",
            "-q",
            "-s",
            "2",
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            &target.user,
        ])
        .arg(&target.database)
        .env("PGPASSWORD", &password)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let dsn = format!(
        "postgres://{}:{password}@127.0.0.1:{port}/{}",
        target.user, target.database
    );
    let short = ["--dsn", &dsn, "-d", "1s", "--warmup", "200ms"];
    for workload in [
        &["tpcb"][..],
        &["tpcb", "--form", "simple-update"],
        &["mix"],
        &["tpcb"],
    ] {
        let run = run(&[&["run"], workload, &short].concat(), 0);
        assert_eq!(failed(&run), [""; 0], "{workload:?}");
        assert_eq!(run["workload"]["parameters"]["loaded_by"], "pgbench");
        assert_eq!(run["workload"]["scale"], 2.0);
    }
    let tenbin = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tenbin"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let checked = tenbin(&["check", "tpcb", "--dsn", &dsn]);
    assert_eq!(checked.status.code(), Some(0));
    let loaded = tenbin(&["load", "tpca", "--dsn", &dsn, "--scale", "1"]);
    let said = String::from_utf8_lossy(&loaded.stderr);
    assert_eq!(loaded.status.code(), Some(0), "{said}");
    let checked = tenbin(&["check", "tpca", "--dsn", &dsn]);
    assert_eq!(checked.status.code(), Some(0));
    for refused in [
        &["load", "tpcb", "--dsn", &dsn, "--replace"][..],
        &["run", "tpcb", "--dsn", &dsn, "--scale", "3"],
    ] {
        let output = tenbin(refused);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("did not create"), "{said}");
    }
    let sql = "SELECT count(*) FROM pgbench_accounts";
    let mut client = laboratory.server.connect().unwrap();
    assert_eq!(
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0),
        200_000
    );
}

#[test]
fn nonsense_is_refused_before_a_server_is_made() {
    let folder = tempfile::TempDir::new().unwrap();
    let out = folder.path().join("run");
    for (arguments, word) in [
        (&["tpcb", "--scale", "0"][..], "1 or more"),
        (&["tpcb", "-c", "0"], "invalid value"),
        (&["tpcb", "--form", "tpcx"], "simple-update"),
        (
            &["tpcb", "-c", "4", "--connections", "5"],
            "more than the 4 terminals",
        ),
        (&["tpca", "--tpca-ratio", "3:10:100000"], "evenly"),
        (&["tpca", "--pacing", "slow"], "spec, none"),
        (&["mix", "--update-share", "1.5"], "from 0"),
        (&["mix", "--zipf", "0"], "above 0"),
        (&["mix", "--statements", "0"], "invalid value"),
        (&["tpcb", "--scale", "900000"], "but only"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tenbin"))
            .arg("run")
            .args(arguments)
            .args(["--pg-bin", DEBIAN, "--out", out.to_str().unwrap()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
        assert!(!out.exists(), "{arguments:?}");
    }
}

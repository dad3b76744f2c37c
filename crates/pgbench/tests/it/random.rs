//! Streams of clients, the choice of scripts and conditionals, as in a real run.

use crate::interpreter::{Client, SEED};
use crate::pgbench::Pgbench;
use crate::values::debug_lines;
use tenbin_pgbench::{ProgramBuilder, Protocol};

/// Runs a script by several clients several times and gives all their values, sorted.
fn values(
    script: &str,
    clients: u32,
    threads: usize,
    times: usize,
    define: &[&str],
) -> Vec<String> {
    let mut builder = ProgramBuilder::default();
    builder.text("script-0.sql", 1, script).unwrap();
    for definition in define {
        builder.define(definition).unwrap();
    }
    let program = builder.finish().unwrap();
    let streams = program.streams(SEED, clients as usize, threads);
    let mut values: Vec<String> = (0..clients)
        .flat_map(|id| {
            let mut client = Client::new(&program, id, &streams);
            (0..times)
                .flat_map(|_| client.run(0, Protocol::Simple).debug)
                .map(|(_, value)| value)
                .collect::<Vec<_>>()
        })
        .collect();
    values.sort_unstable();
    values
}

#[test]
fn clients_have_the_streams_of_pgbench() {
    let programs = Pgbench::all();
    let script = "\\set a random(0, 999999)\n\
                  \\set b random_gaussian(0, 999, 3.5) + random_zipfian(0, 999, 1.2)\n\
                  \\set c random_exponential(0, 999, 2)\n\
                  \\set d debug(:client_id * 1000000000000 + :a * 1000000 + :b * 1000 + :c)\n\
                  \\set d debug(hash(:a) # permute(:b, 10000))\n";
    let seed = SEED.to_string();
    for define in [
        &[][..],
        &["default_seed=-77"],
        &["client_id=7", "random_seed=1"],
    ] {
        let ours = values(script, 3, 2, 20, define);
        assert_eq!(ours.len(), 120);
        for pgbench in &programs {
            let mut arguments = vec!["--random-seed", &seed, "-c", "3", "-t", "20"];
            arguments.extend(define.iter().flat_map(|definition| ["-D", definition]));
            let run = pgbench.run(&[(script, 1)], &arguments);
            assert_eq!(run.status, Some(0), "{}", run.stderr);
            let mut theirs: Vec<String> = debug_lines(&run.stderr)
                .into_iter()
                .map(|(_, value)| value)
                .collect();
            theirs.sort_unstable();
            assert_eq!(ours, theirs, "{} {define:?}", pgbench.version);
        }
    }
}

#[test]
fn scripts_are_chosen_as_by_pgbench() {
    let programs = Pgbench::all();
    let scripts = [
        ("\\set x debug(0)", 5),
        ("\\set x debug(1)", 0),
        ("\\set x debug(2)", 3),
        ("\\set x debug(3)", 1),
    ];
    let mut builder = ProgramBuilder::default();
    for (script, weight) in scripts {
        builder.text("x", weight, script).unwrap();
    }
    let program = builder.finish().unwrap();
    let mut random = program.streams(SEED, 1, 1).threads[0].choose.clone();
    let ours: Vec<String> = (0..200)
        .map(|_| format!("int {}", program.choose(&mut random)))
        .collect();
    assert!(!ours.contains(&"int 1".to_owned()));
    for pgbench in &programs {
        let run = pgbench.run(&scripts, &["--random-seed", &SEED.to_string(), "-t", "200"]);
        let theirs: Vec<&str> = run
            .stderr
            .lines()
            .filter_map(|line| Some(line.strip_prefix("debug(")?.split_once("): ")?.1))
            .collect();
        assert_eq!(ours, theirs, "{}", pgbench.version);
    }
}

#[test]
fn conditionals_lead_where_pgbench_goes() {
    let programs = Pgbench::all();
    // Every way through two nested chains, by the digits of :n.
    let script = r"\set n 0
\set a :client_id % 4
\set b :client_id / 4 % 4
\if :a = 0
  \set x debug(10)
  \if :b = 0
    \set x debug(20)
  \elif :b = 1
    \set x debug(21)
  \elif 1 / (:b - 1) = 1
    \set x debug(22)
  \else
    \set x debug(23)
    \if null
      \set x debug(24)
    \endif
  \endif
  \set x debug(11)
\elif :a = 1
  \set x debug(12)
\elif false
  \set x 1 / 0
\elif :a - 2
  \if true
    \set x debug(13)
  \else
    \set x debug(14)
  \endif
\else
  \set x debug(15)
\endif
\set x debug(:client_id * 100)
";
    let ours = values(script, 16, 1, 2, &[]);
    for pgbench in &programs {
        let run = pgbench.run(&[(script, 1)], &["-c", "16", "-t", "2"]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let mut theirs: Vec<String> = debug_lines(&run.stderr)
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{}", pgbench.version);
    }
}

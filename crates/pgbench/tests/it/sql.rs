//! SQL: pgbench sends the same commands, in all three protocols.

use crate::interpreter::{Client, SEED, program};
use crate::pgbench::{Pgbench, Run};
use tenbin_pgbench::{BUILTINS, Capture, CaptureKind, CommandKind, Protocol};

/// Scripts whose commands have to be found; what they mean does not matter.
const SCRIPTS: &[&str] = &[
    "select 1; select 2;select 3",
    "  -- a comment ; with a semicolon\n\n select 1 -- another;\n , 2; -- behind;\n-- the end",
    "select ';', 'it''s;', E'\\';', e'\\\\', b'01;', X'1;', n';', u&'\\0041;', U&\";\" from x; select 2;",
    "select 'a'\n  'b;'; select 'a' 'b;'; select 3",
    "select E'a' -- ;\n '\\';'; select 2",
    "select \"a;b\"\"c;\"; select 1",
    "select $$a;b$$, $x$;$$;$y$;$x$, $x; select a$$;b$$; select $1$$;$$",
    "select ( 1 ; 2 ) ) ; select 3;",
    "/* ; /* nested ; */ ; */ select 1; select 2 /* ' */; select 3 /*+ ; */",
    "select 1 +/* ; */ 2 -/**/- 3; select 4 +-- ;\n 5;",
    "select 1 \\; select 2 \\; ; select 3\\;",
    "select 'x'\\: :v \\:v;",
    "\\; \\; select 1 \\; \\;\n",
    "select :v, :v::int, ':v', \":v\", $$:v$$, :v:v, :::v, ::v, :nosuch, :1v, :v1, : v /* :v */ -- :v\n;",
    ":{?v} select :{?v}, :{?nosuch}, ':{?v}', :{?v}:{?1}:v, ::{?v}, :{?}, :{? v}, :{v}, :{?v /* :{?v} */ -- :{?v}\n;",
    "select 1\n\\set v 2\nselect :v \\set v 3\n\\set v 4\nselect :v;",
    "select (1 \\set v 2\n ; 3); select 4;",
    "create function f() returns int begin atomic select 1; select case when true then 2; else 3 end; end; select 5;",
    "CREATE OR REPLACE PROCEDURE p() LANGUAGE SQL BEGIN ATOMIC ; ; END; select 6;",
    "begin; select 1; end; create table begin (a int); select 2;",
    "select 1begin; 2; select :begin; create function :begin; select 3;",
    "select '\u{e9};\u{540d}', \u{540d}$$;\u{e9}$$; select :gr\u{f6}\u{df}e; select 2",
    "\r\n  select 1;\r\n\r\n\tselect\r\n 2;\r\n",
    ";; ;select 1;",
    "select 1;\u{b}select 2;\u{c}select 3;",
];

const DEFINITIONS: [&str; 2] = ["v=4:v2", "gr\u{f6}\u{df}e=x"];

/// The commands that pgbench says it sends.
fn sent(run: &Run) -> Vec<String> {
    const SENDING: &str = "pgbench: client 0 sending ";
    run.stderr
        .split(SENDING)
        .skip(1)
        .map(|rest| {
            rest.split("\npgbench: ")
                .next()
                .unwrap()
                .trim_end_matches('\n')
                .to_owned()
        })
        .collect()
}

#[test]
fn commands_are_those_of_pgbench() {
    let programs = Pgbench::all();
    let builtins = BUILTINS.iter().map(|builtin| builtin.text);
    for script in SCRIPTS.iter().copied().chain(builtins) {
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            let program = program(script, &DEFINITIONS).unwrap();
            let outcome = Client::new(&program, 0, &program.streams(SEED, 1, 1)).run(0, protocol);
            // pgbench's log drops newlines at the end.
            let ours: Vec<&str> = outcome
                .sent
                .iter()
                .map(|sql| sql.trim_end_matches('\n'))
                .collect();
            for pgbench in &programs {
                let name = protocol.to_string();
                let seed = SEED.to_string();
                let mut arguments = vec!["-M", &name, "--random-seed", &seed];
                arguments.push(if pgbench.version.contains(" 15.") {
                    "-d"
                } else {
                    "--debug"
                });
                arguments.extend(DEFINITIONS.iter().flat_map(|definition| ["-D", definition]));
                let run = pgbench.run(&[(script, 1)], &arguments);
                let theirs = sent(&run);
                let context = format!("{} {name}: {script}\n{}", pgbench.version, run.stderr);
                // A command that the server refuses is the last one.
                assert!(!theirs.is_empty(), "{context}");
                assert_eq!(ours[..theirs.len()], theirs, "{context}");
                if run.status == Some(0) {
                    assert_eq!(ours.len(), theirs.len(), "{context}");
                }
            }
        }
    }
}

/// The built-in scripts have the commands that pgbench shows of its own.
#[test]
fn builtins_are_those_of_pgbench() {
    let programs = Pgbench::all();
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_lowercase)
            .collect::<Vec<_>>()
    };
    for pgbench in &programs {
        for builtin in BUILTINS {
            let run = pgbench.run(&[], &["--show-script", builtin.name]);
            let (title, text) = run.stderr.split_once('\n').unwrap();
            assert_eq!(
                title,
                format!("-- {}: {}", builtin.name, builtin.description)
            );
            assert_eq!(words(text), words(builtin.text), "{}", pgbench.version);
        }
    }
}

#[test]
fn results_show_commands_as_pgbench_does() {
    let script = format!(
        "-- a comment\n  select 1,\n 2;\r\n\\SET x 1 + \\\n  2\r\n\\if :x\nselect '{}' as long_one, 3;\n\
         \t\\elif 0 \nselect 4\n\\endif\n\\sleep 1 us\nselect 'x' as y \\gset p_\n/* c */ select ':p_y';",
        "\u{e9}".repeat(80)
    );
    let program = program(&script, &[]).unwrap();
    let commands = &program.scripts()[0].commands;
    let lines: Vec<u32> = commands.iter().map(|command| command.line).collect();
    assert_eq!(lines, [2, 4, 6, 7, 8, 9, 10, 11, 12, 13]);
    for pgbench in &Pgbench::all() {
        let run = pgbench.run(&[(&script, 1)], &["-r"]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let (_, shown) = run.stdout.split_once("statement latencies").unwrap();
        let shown: Vec<&str> = shown
            .lines()
            .skip(1)
            .filter(|line| line.starts_with("     "))
            .collect();
        assert_eq!(shown.len(), commands.len(), "{}", run.stdout);
        for (command, shown) in commands.iter().zip(shown) {
            let first = command.first_line.lines().next().unwrap();
            // pgbench cuts in the middle of a character.
            let shown = shown.trim_end_matches(['\u{fffd}', '\r']);
            assert!(shown.ends_with(&format!(" {first}")), "{shown}: {first}");
        }
    }
}

#[test]
fn captures_belong_to_the_command_before() {
    let program = program(
        "select 1 \\gset\nselect 2 \\; select 3 \\ASET p_\nselect 4;",
        &[],
    )
    .unwrap();
    let captures: Vec<Option<Capture>> = program.scripts()[0]
        .commands
        .iter()
        .map(|command| match &command.kind {
            CommandKind::Sql(sql) => sql.capture.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let capture = |kind, prefix: &str| {
        Some(Capture {
            kind,
            prefix: prefix.to_owned(),
        })
    };
    assert_eq!(
        captures,
        [
            capture(CaptureKind::Gset, ""),
            capture(CaptureKind::Aset, "p_"),
            None
        ]
    );
}

//! Wrong scripts: pgbench finds the same fault in the same line or command, and tenbin its column.

use crate::interpreter::{Client, SEED, program};
use crate::pgbench::Pgbench;
use tenbin_pgbench::{Error, Protocol, ScriptError};

/// When a fault shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// On reading the script, with both.
    Reading,
    /// On executing it, with both.
    Running,
    /// On reading it with tenbin, on executing it with pgbench.
    Earlier,
}
use When::{Earlier, Reading, Running};

/// Script, line and column of the fault, when it shows. What pgbench says of it is the known answer.
const CASES: &[(&str, u32, u32, When)] = &[
    // Expressions.
    ("\\set i 1 +", 1, 11, Reading),
    ("\\set i 1 +\n", 1, 11, Reading),
    ("-- a comment\nselect 1;\n  \\set i 1 2\n", 3, 12, Reading),
    ("\\set i", 1, 7, Reading),
    ("\\set", 1, 2, Reading),
    ("\\SET i )", 1, 8, Reading),
    ("\\set i (1", 1, 10, Reading),
    ("\\set i 1 < 2 < 3", 1, 14, Reading),
    ("\\set i 1 = 2 <> 3", 1, 14, Reading),
    ("\\set i 1 IS 2", 1, 13, Reading),
    ("\\set i 1 !", 1, 10, Reading),
    ("\\set i ;", 1, 8, Reading),
    ("\\set i 1; ", 1, 9, Reading),
    ("\\set i 'x'", 1, 8, Reading),
    ("\\set i : x", 1, 8, Reading),
    ("\\set i 1.2.3", 1, 11, Reading),
    ("\\set i 1e", 1, 9, Reading),
    ("\\set i on", 1, 8, Reading),
    ("\\set i noSuchFunction()", 1, 8, Reading),
    ("\\set i 1 -- noComment", 1, 13, Reading),
    ("\\set i pi", 1, 10, Reading),
    ("\\set i pi(1)", 1, 12, Reading),
    ("\\set i abs()", 1, 12, Reading),
    ("\\set i ln(1.0, 2.0))", 1, 19, Reading),
    ("\\set i least()", 1, 14, Reading),
    ("\\set i greatest())", 1, 17, Reading),
    ("\\set i hash()", 1, 13, Reading),
    ("\\set i hash_fnv1a(1, 2, 3)", 1, 26, Reading),
    ("\\set i permute(1)", 1, 17, Reading),
    ("\\set i permute(1, 2, 3, 4)", 1, 26, Reading),
    ("\\set i random(1)", 1, 16, Reading),
    ("\\set i random_zipfian(1, 2)", 1, 27, Reading),
    ("\\set i case true then 1 else 0 end", 1, 13, Reading),
    ("\\set i case when true else 0 end", 1, 23, Reading),
    ("\\set i case when true then 1 else 0", 1, 36, Reading),
    ("\\set i 9223372036854775808", 1, 8, Reading),
    ("\\set i 1 - 9223372036854775808", 1, 12, Reading),
    ("\\set i 100000000000000000000", 1, 8, Reading),
    ("\\set d 1.0E309", 1, 8, Reading),
    ("\\set d .1E310", 1, 8, Reading),
    ("\\set d 1e-400", 1, 8, Reading),
    ("\\if\n\\endif\n", 1, 4, Reading),
    ("\\if 0\n\\elif +\n\\endif\n", 2, 8, Reading),
    // Other backslash commands.
    ("\\nosuchcommand", 1, 2, Reading),
    ("select 1\n\\what a b\n", 2, 2, Reading),
    ("\\sleep", 1, 2, Reading),
    ("\\sleep too many args", 1, 17, Reading),
    ("\\sleep x", 1, 8, Reading),
    ("\\sleep 1 week", 1, 10, Reading),
    ("\\sleep 1week", 1, 9, Reading),
    ("\\sleep 1x ms", 1, 8, Reading),
    ("\\shell", 1, 2, Reading),
    ("\\setshell var", 1, 2, Reading),
    ("\\if 0\n\\else BAD\n\\endif\n", 2, 7, Reading),
    ("\\if 0\n\\endif BAD\n", 2, 8, Reading),
    ("\\startpipeline x\n", 1, 16, Reading),
    ("\\gset", 1, 1, Reading),
    ("\\set i +1\n\\gset", 2, 1, Reading),
    ("SELECT 1 \\gset a b", 1, 18, Reading),
    ("SELECT 1 AS i \\gset\n\\gset", 2, 1, Reading),
    ("SELECT 1 AS i \\aset\n \\gset x", 2, 2, Reading),
    // Conditionals.
    ("\\if 1", 1, 1, Reading),
    ("select 1;\n\\if 1\n\\if 2\n\\endif", 2, 1, Reading),
    ("\\elif 1", 1, 1, Reading),
    ("\\else", 1, 1, Reading),
    ("\\endif", 1, 1, Reading),
    ("\\if 1\n\\else\n\\elif 0\n\\endif", 3, 1, Reading),
    ("\\if 1\n\\else\n\\else\n\\endif", 3, 1, Reading),
    // Execution.
    ("\\set i 1/0", 1, 9, Running),
    ("select 1;\n\\set a 0\n\\set i 5 % :a", 3, 10, Running),
    ("\\if 0\n\\elif 1/0\n\\endif", 2, 8, Running),
    (
        "\\set i 1\n\\if :i\n\\set j :nosuchvariable\n\\endif",
        3,
        8,
        Running,
    ),
    ("\\set i :foo + 1", 1, 8, Running),
    ("\\set i 2 * (1<<62)", 1, 10, Running),
    ("\\set i 1 + (0 - :minint)", 1, 15, Running),
    ("\\set i 1 + random(5,3)", 1, 12, Running),
    ("\\set i (1 + NOT 0.0)", 1, 13, Running),
    ("\\sleep :nosuchvariable", 1, 1, Running),
    ("\\sleep :foo ms", 1, 1, Running),
    ("\\shell echo ::foo :nosuchvariable", 1, 1, Running),
    // What pgbench could have told before.
    ("\\set . 1", 1, 6, Earlier),
    ("\\setshell 1a echo 1", 1, 11, Earlier),
    (
        "\\set i least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)",
        1,
        8,
        Earlier,
    ),
];

/// The same under the protocol given.
const PROTOCOL_CASES: &[(&str, &str, u32, u32, When)] = &[
    (
        "extended",
        "\\startpipeline\n\\startpipeline\n",
        2,
        1,
        Earlier,
    ),
    ("extended", "select 1;\n\\endpipeline", 2, 1, Earlier),
    ("prepared", "\\syncpipeline", 1, 1, Earlier),
    (
        "extended",
        "\\startpipeline\nselect 1 \\gset f\n\\endpipeline\n",
        2,
        1,
        Earlier,
    ),
    (
        "extended",
        "\\startpipeline\nselect 1 \\aset\n\\endpipeline\n",
        2,
        1,
        Earlier,
    ),
    ("extended", "\\startpipeline\nselect 1;", 1, 1, Earlier),
    (
        "simple",
        "select 1;\n\\startpipeline\n\\endpipeline\n",
        2,
        1,
        Earlier,
    ),
];

const DEFINITIONS: [&str; 2] = ["foo=bla", "minint=-9223372036854775808"];

/// The fault tenbin finds, and the command (from 0) whose execution shows it.
fn ours(script: &str, protocol: Protocol) -> (Option<usize>, ScriptError) {
    let unwrap = |error| match error {
        Error::Script(error) => (None, *error),
        other => panic!("{script}: {other}"),
    };
    let program = match program(script, &DEFINITIONS) {
        Ok(program) => program,
        Err(error) => return unwrap(error),
    };
    if let Err(error) = program.check(protocol) {
        return unwrap(error);
    }
    let outcome = Client::new(&program, 0, &program.streams(SEED, 1, 1)).run(0, protocol);
    let (command, error) = outcome
        .error
        .unwrap_or_else(|| panic!("no fault in {script}"));
    (Some(command), error)
}

fn compare(pgbench: &Pgbench, script: &str, protocol: &str, place: (u32, u32), when: When) {
    let (command, error) = ours(script, protocol.parse().unwrap());
    let context = format!("{}: {script}\ntenbin: {error}", pgbench.version);
    assert_eq!((error.place.line, error.place.column), place, "{context}");
    assert_eq!(command.is_some(), when == Running, "{context}");
    let run = pgbench.run(
        &[(script, 1)],
        &["-M", protocol, "-D", DEFINITIONS[0], "-D", DEFINITIONS[1]],
    );
    let context = format!("{context}\npgbench: {}", run.stderr);
    assert_eq!(
        run.status,
        Some(if when == Reading { 1 } else { 2 }),
        "{context}"
    );
    let problem = error.problem.to_string();
    assert!(run.stderr.contains(&problem), "{context}");
    if let Some((_, rest)) = run.stderr.split_once("script-0.sql:") {
        assert_eq!(
            rest.split(':').next().unwrap(),
            place.0.to_string(),
            "{context}"
        );
        if let Some((_, named)) = rest.split_once("in command ") {
            let theirs = named.lines().next().unwrap().trim_matches('"');
            assert_eq!(error.command.as_deref(), Some(theirs), "{context}");
        }
    }
    if let Some(command) = command {
        assert!(
            run.stderr
                .contains(&format!(" aborted in command {command} (")),
            "{context}"
        );
    }
}

#[test]
fn faults_are_those_of_pgbench() {
    let programs = Pgbench::all();
    for pgbench in &programs {
        for &(script, line, column, when) in CASES {
            compare(pgbench, script, "simple", (line, column), when);
        }
        for &(protocol, script, line, column, when) in PROTOCOL_CASES {
            // \syncpipeline came with pgbench 17.
            if script.contains("syncpipeline") && pgbench.version.contains(" 15.") {
                continue;
            }
            compare(pgbench, script, protocol, (line, column), when);
        }
        println!(
            "{}: {} faults",
            pgbench.version,
            CASES.len() + PROTOCOL_CASES.len()
        );
    }
}

#[test]
fn limits_are_those_of_pgbench() {
    let programs = Pgbench::all();
    let parameters = |count| format!("SELECT LEAST({})", vec![":i"; count].join(", "));
    let words = |count| format!("\\shell {}", vec!["true"; count].join(" "));
    for pgbench in &programs {
        for protocol in ["extended", "prepared"] {
            compare(pgbench, &parameters(256), protocol, (1, 1), Reading);
        }
        compare(pgbench, &words(256), "simple", (1, 8 + 5 * 255), Reading);
    }
    for (script, protocol) in [
        (parameters(255), Protocol::Prepared),
        (parameters(256), Protocol::Simple),
        (words(255), Protocol::Simple),
    ] {
        program(&script, &[]).unwrap().check(protocol).unwrap();
    }
}

#[test]
fn empty_scripts_are_refused() {
    let programs = Pgbench::all();
    for script in ["", "\n -- nothing\n", "\\\n", " \\ \n"] {
        assert!(
            matches!(program(script, &[]), Err(Error::Empty(_))),
            "{script:?}"
        );
        for pgbench in &programs {
            let run = pgbench.run(&[(script, 1)], &[]);
            assert_eq!(run.status, Some(1), "{script:?}");
            assert!(
                run.stderr.contains("empty command list for script"),
                "{}",
                run.stderr
            );
        }
    }
}

#[test]
fn pipelines_under_conditions_are_left_to_the_run() {
    for script in [
        "\\if :x\n\\startpipeline\n\\endif\nselect 1;\n\\endpipeline",
        "\\startpipeline\n\\if :x\n\\endpipeline\n\\endif",
        "\\if :x\n\\startpipeline\n\\startpipeline\n\\endif",
        "\\startpipeline\nselect 1;\n\\syncpipeline\nselect 2;\n\\endpipeline\nselect 3 \\gset\n",
    ] {
        program(script, &[])
            .unwrap()
            .check(Protocol::Extended)
            .unwrap();
    }
}

#[test]
fn open_quotes_are_refused() {
    let programs = Pgbench::all();
    for (script, place, what) in [
        (
            "select 1;\nselect 'abc\n;\n\\set x 1\n",
            (2, 8),
            "quoted string",
        ),
        ("select E'\\';", (1, 8), "quoted string"),
        ("select \"abc", (1, 8), "quoted identifier"),
        ("select 1; /* /* */", (1, 11), "/* comment"),
        ("select $a$ $b$", (1, 8), "dollar-quoted string"),
    ] {
        let (_, error) = ours(script, Protocol::Simple);
        assert_eq!((error.place.line, error.place.column), place, "{script}");
        assert_eq!(
            error.problem.to_string(),
            format!("unterminated {what}"),
            "{script}"
        );
        for pgbench in &programs {
            // pgbench leaves it to the server.
            let run = pgbench.run(&[(script, 1)], &[]);
            assert_eq!(run.status, Some(2), "{script}");
            assert!(run.stderr.contains("unterminated "), "{}", run.stderr);
        }
    }
}

#[test]
fn errors_show_their_place() {
    let (_, error) = ours(
        "select 1;\n\t\\set größe 1 + \\\n  länge(2)\n",
        Protocol::Simple,
    );
    assert_eq!(
        error.to_string(),
        "script-0.sql:3:3: unexpected function name (länge) in command \"set\"\n  \
           länge(2)\n  \
           ^ error found here\n\
         hint: functions are abs debug double exp greatest hash hash_fnv1a hash_murmur2 int \
         least ln mod permute pi pow power random random_exponential random_gaussian \
         random_zipfian sqrt"
    );
    let (_, error) = ours("\t\\set i :länge + :x\r\n", Protocol::Simple);
    assert_eq!(
        error.to_string(),
        "script-0.sql:1:9: undefined variable \"länge\" in command \"set\"\n\
         \t\\set i :länge + :x\n\
         \t       ^ error found here\n\
         hint: set it before this line with \\set or \\gset, or define it with -D name=value"
    );
    let (_, error) = ours("a\0b", Protocol::Simple);
    assert_eq!((error.place.line, error.place.column), (1, 2));
}

#[test]
fn what_surrounds_scripts() {
    use tenbin_pgbench::ProgramBuilder;
    let mut builder = ProgramBuilder::default();
    assert!(matches!(
        builder.define("foobla"),
        Err(Error::Definition(_))
    ));
    assert!(matches!(builder.define("=1"), Err(Error::Definition(_))));
    assert!(matches!(builder.define("foo="), Err(Error::Definition(_))));
    assert!(matches!(
        builder.define("1foo=1"),
        Err(Error::VariableName(_))
    ));
    assert!(matches!(
        builder.file("no-such-file"),
        Err(Error::Read { .. })
    ));
    assert!(matches!(
        builder.builtin("select-only@one"),
        Err(Error::Weight(_))
    ));
    assert!(matches!(
        builder.builtin("select-only@"),
        Err(Error::Weight(_))
    ));
    assert!(matches!(
        builder.builtin("select-only@-1"),
        Err(Error::WeightRange(_))
    ));
    assert!(matches!(
        builder.builtin("select-only@2147483648"),
        Err(Error::WeightRange(_))
    ));
    assert!(matches!(
        ProgramBuilder::default().finish(),
        Err(Error::NoScript)
    ));
    builder.builtin("se@0").unwrap();
    builder.builtin("si@0").unwrap();
    assert!(matches!(builder.finish(), Err(Error::ZeroWeight)));
    let mut builder = ProgramBuilder::default();
    for _ in 0..128 {
        builder.builtin("se@2147483647").unwrap();
    }
    assert!(matches!(builder.builtin("se"), Err(Error::TooManyScripts)));
    let program = builder.finish().unwrap();
    assert_eq!(program.scripts()[127].weight, 2_147_483_647);
    assert!(program.uses_builtin());

    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("a@b.sql");
    std::fs::write(&path, "select :x;").unwrap();
    let mut builder = ProgramBuilder::default();
    builder.define("x=1").unwrap();
    builder.define("x=2").unwrap();
    builder.file(&format!("{}@3", path.display())).unwrap();
    // What is not UTF-8 matters only where it would be sent.
    std::fs::write(&path, b"-- gr\xf6\xdfe\nselect 1;\n-- \xfc").unwrap();
    builder.file(&format!("{}@3", path.display())).unwrap();
    for (text, place, line) in [
        (
            &b"-- \xfc\nselect 'gr\xf6\xdfe';"[..],
            "2:11",
            "select 'gr\u{fffd}\u{fffd}e';",
        ),
        (
            b"select 1;\n\\shell echo \xfc",
            "2:13",
            "\\shell echo \u{fffd}",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = ProgramBuilder::default()
            .file(&format!("{}@3", path.display()))
            .unwrap_err()
            .to_string();
        let start = format!("{}:{place}: the script is not UTF-8 here", path.display());
        assert!(error.starts_with(&start), "{error}");
        assert!(error.contains(line) && error.contains("iconv"), "{error}");
    }
    let program = builder.finish().unwrap();
    assert_eq!(program.scripts()[0].weight, 3);
    let outcome = Client::new(&program, 0, &program.streams(SEED, 1, 1)).run(0, Protocol::Simple);
    assert_eq!(outcome.sent, ["select 2;"]);
}

//! Every function and operator over values of all kinds: the same value, or the same error, as
//! pgbench gives.

use crate::interpreter::{Client, SEED, program};
use crate::pgbench::Pgbench;
use std::collections::BTreeMap;
use tenbin_pgbench::Protocol;

/// `-D` of all comparisons: texts that stand for values of all types, and for none.
const DEFINITIONS: [&str; 14] = [
    "foo=-10.1",
    "i=+3",
    "n=null",
    "t=y",
    "f=of",
    "d=1.0",
    "bad=trueXXX",
    "big=9223372036854775808",
    "min=-9223372036854775808",
    "tiny=1e-400",
    "inf=-inf",
    "space= 12",
    "hex=-0x1.8p3",
    "nan=NaN",
];

/// Values of every type, and their extremes.
const OPERANDS: [&str; 21] = [
    "NULL",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "7",
    "-13",
    "63",
    "9223372036854775807",
    "-9223372036854775808",
    "0.0",
    "(0.0 * -1)",
    "0.5",
    "2.5",
    "-1.5e3",
    "9.3e18",
    "(1.0 / 0)",
    "(0.0 / 0)",
    ":foo",
    ":n",
];

const BINARY_OPERATORS: [&str; 20] = [
    "AND", "OR", "=", "<>", "!=", "<", "<=", ">", ">=", "|", "#", "&", "<<", ">>", "+", "-", "*",
    "/", "%", "<",
];

const UNARY: [&str; 8] = [
    "NOT $",
    "~ $",
    "- $",
    "+ $",
    "$ IS NULL",
    "$ ISNULL",
    "$ NOTNULL",
    "$ IS NOT TRUE",
];

/// The functions of pgbench 18's documentation (table "pgbench Functions"), with the fewest and
/// most arguments; those of four and more take any number.
const FUNCTIONS: [(&str, usize, usize); 21] = [
    ("abs", 1, 1),
    ("debug", 1, 1),
    ("double", 1, 1),
    ("exp", 1, 1),
    ("greatest", 1, 4),
    ("hash", 1, 2),
    ("hash_fnv1a", 1, 2),
    ("hash_murmur2", 1, 2),
    ("int", 1, 1),
    ("least", 1, 4),
    ("ln", 1, 1),
    ("mod", 2, 2),
    ("permute", 2, 3),
    ("pi", 0, 0),
    ("pow", 2, 2),
    ("power", 2, 2),
    ("random", 2, 2),
    ("random_exponential", 3, 3),
    ("random_gaussian", 3, 3),
    ("random_zipfian", 3, 3),
    ("sqrt", 1, 1),
];

/// Arguments for functions of three and more, few enough to combine them all.
const FEW: [&str; 9] = [
    "NULL",
    "true",
    "-3",
    "1",
    "9",
    "9223372036854775807",
    "2.5",
    "0.5",
    ":i",
];

/// Grammar, literals and types of variables.
const MISCELLANY: &[&str] = &[
    "1 + 2 * 3 - 4 / 2 % 3",
    "1 | 6 # 3 & 2 << 1 >> 1",
    "- 2 + ~ 1 * 3",
    "~1|2",
    "~1+2*3",
    "-~-1",
    "- - 1",
    "1 - -9223372036854775808 + 1",
    "-9223372036854775808 / 2",
    "1--1",
    "+ + +1.5",
    "NOT 1 = 2 AND true OR NULL",
    "NOT NOT true",
    "NOT 1 < 2 IS NULL",
    "1 + NOT true",
    "1 = 2 IS NULL",
    "1 < 2 IS NULL = NULL",
    "1 IS NULL IS NULL",
    "1 IS NULL < 3",
    "true IS TRUE IS NOT FALSE",
    "NULL is null and null IsNull and 1 NotNull",
    "false OR NULL AND true",
    "NULL AND 1/0 = 1",
    "NULL OR 1/0 = 1",
    "false AND 1/0 = 1",
    "true OR 1/0 = 1",
    "case when NULL then 1 when 0.0 then 2 when 0.1 then 3 else 1/0 end",
    "CASE WHEN false THEN 1 END",
    "case when case when true then 0 end then 1 else case when 2 then 3 end end + 4",
    "case when 1/0 then 1 end",
    "case when true then 5 when 1/0 then 1 end",
    "case when true AND 1 then 1 end",
    "abs(,-5)",
    "least(,3, 2)",
    "ABS ( -1 )",
    "Greatest(1, 2.0, 3)",
    "least(1, 2, true)",
    "pi()*4.9",
    ".5e1 + 5. + 5e-1 + 1.5E+3",
    "1e308 * 10",
    "1e-300 * 1e-300",
    "0.1 + 0.2",
    "1000000000000005.0",
    "1000000000000015.0",
    "123456789012345678.0 / 10",
    "100000.0 * 100000 * 100000",
    "999999999999999.9",
    "0.0001 / 10",
    "0.00012345678901234567",
    "int(0.5) + int(1.5) + int(2.5) + int(-0.5) + int(-1.5)",
    "5 % 2.5",
    "7 % -1",
    "-7 / 2",
    "-7 % 2",
    "9223372036854775807 + 1",
    "-9223372036854775807 - 2",
    "3037000500 * 3037000500",
    "1 << 62 << 1",
    "1 << 64",
    "1 << -1",
    "-1 >> 1",
    "int(9223372036854775807.0)",
    "int(-9223372036854775808.0)",
    "int(1e32)",
    ":i + :d",
    ":t AND NOT :f",
    ":t OR :bad",
    ":bad + 1",
    ":big + 1",
    ":min + 0",
    ":tiny * 1",
    ":inf + 1",
    ":space + 1",
    ":hex + 1",
    ":nan",
    ":nosuch",
    ":1",
    ":scale + :client_id + :random_seed",
    ":default_seed = :default_seed",
    "hash(:scale) = hash(:scale, :default_seed)",
    "permute(3, 10) = permute(13, 10, :default_seed)",
    "permute(0, 0)",
    "permute(5, 1)",
    "permute(123456789, 9223372036854775797, 5432)",
    "random(5, 3)",
    "random(-9223372036854775808, 9223372036854775807)",
    "random(0, 9223372036854775807)",
    "random(0, 9223372036854775806)",
    "random(-9223372036854775808, -2)",
    "random(false, true)",
    "random(1.4, 2.6)",
    "random(1, 10) > random(11, 20)",
    "random(1, 10) - random(1, 10) * random(1, 10)",
    "random_gaussian(0, 10, 1.9)",
    "random_gaussian(-1000000, 1000000, 2)",
    "random_gaussian(0, 9223372036854775806, 5.5)",
    "random_exponential(0, 10, 0)",
    "random_exponential(0, 10, -1)",
    "random_exponential(0, 1000000, 1e-3)",
    "random_exponential(-9223372036854775808, -2, 9)",
    "random_zipfian(0, 10, 1)",
    "random_zipfian(0, 10, 1001)",
    "random_zipfian(0, 10, 1.001)",
    "random_zipfian(1, 1000000, 1.07)",
    "random_zipfian(1, 1000000, 1000)",
    "random_zipfian(7, 7, 2)",
    "debug(1) + debug(2.5)",
    "debug(:n)",
    "debug(:t)",
];

/// All expressions, each behind what it is an example of.
fn expressions() -> Vec<(String, String)> {
    let example = |of: &str, text: String| (of.to_owned(), text);
    let mut all: Vec<_> = MISCELLANY
        .iter()
        .map(|&text| example(text, text.to_owned()))
        .collect();
    for x in OPERANDS {
        all.extend(UNARY.iter().map(|form| example(form, form.replace('$', x))));
        for y in OPERANDS {
            for operator in BINARY_OPERATORS {
                all.push(example(operator, format!("{x} {operator} {y}")));
            }
        }
    }
    for (name, least, most) in FUNCTIONS {
        for count in least..=most {
            let values: &[&str] = if count < 3 { &OPERANDS } else { &FEW };
            let mut lists = vec![String::new()];
            for position in 0..count {
                let comma = if position == 0 { "" } else { ", " };
                lists = lists
                    .iter()
                    .flat_map(|list| {
                        values
                            .iter()
                            .map(move |value| format!("{list}{comma}{value}"))
                    })
                    .collect();
                // Of four arguments, every seventh list tells enough.
                if position == 3 {
                    lists = lists.into_iter().step_by(7).collect();
                }
            }
            all.extend(
                lists
                    .iter()
                    .map(|list| example(name, format!("{name}({list})"))),
            );
        }
    }
    all
}

/// Where pgbench gives garbage and tenbin an error.
fn is_deliberately_different(expression: &str) -> bool {
    ["abs(true)", "abs(false)", "abs(-9223372036854775808)"].contains(&expression)
}

/// The values and errors of expressions, each as a command of its own, by tenbin.
fn ours<'a>(expressions: impl IntoIterator<Item = &'a String>) -> Vec<Result<Vec<String>, String>> {
    expressions
        .into_iter()
        .map(|expression| {
            let program = program(&format!("\\set x debug({expression})"), &DEFINITIONS).unwrap();
            let outcome =
                Client::new(&program, 0, &program.streams(SEED, 1, 1)).run(0, Protocol::Simple);
            match outcome.error {
                None => Ok(outcome.debug.into_iter().map(|(_, value)| value).collect()),
                Some((_, error)) => Err(error.problem.to_string()),
            }
        })
        .collect()
}

fn arguments<'a>(seed: &'a str, clients: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["--random-seed", seed, "-c", clients];
    for definition in DEFINITIONS {
        arguments.extend(["-D", definition]);
    }
    arguments
}

#[test]
fn every_function_is_compared() {
    // A program with all of them in it: a name that is none would be an error.
    for (name, least, _) in FUNCTIONS {
        let text = format!("\\set x {name}({})", vec!["1"; least].join(", "));
        program(&text, &[]).unwrap();
    }
}

#[test]
fn values_are_those_of_pgbench() {
    let programs = Pgbench::all();
    let expressions = expressions();
    // The random functions draw from one stream: whatever has a value goes into one script, so
    // that one wrong draw puts all behind it out of step.
    let good: Vec<&String> = std::iter::zip(&expressions, ours(expressions.iter().map(|e| &e.1)))
        .filter(|(_, result)| result.is_ok())
        .map(|((_, expression), _)| expression)
        .collect();
    let commands: Vec<String> = good
        .iter()
        .map(|expression| format!("\\set x debug({expression})\n"))
        .collect();
    let script = commands.concat();
    let program = program(&script, &DEFINITIONS).unwrap();
    let outcome = Client::new(&program, 0, &program.streams(SEED, 1, 1)).run(0, Protocol::Simple);
    assert_eq!(outcome.error, None);
    let seed = SEED.to_string();
    for pgbench in &programs {
        let run = pgbench.run(&[(&script, 1)], &arguments(&seed, "1"));
        assert_eq!(run.status, Some(0), "{}: {}", pgbench.version, run.stderr);
        let theirs = debug_lines(&run.stderr);
        assert_eq!(theirs.len(), outcome.debug.len(), "{}", pgbench.version);
        for ((command, ours), (their_command, theirs)) in outcome.debug.iter().zip(&theirs) {
            let expression = good[*command];
            assert_eq!(
                (command, ours),
                (their_command, theirs),
                "{}: {expression}",
                pgbench.version
            );
        }
        println!("{}: {} values", pgbench.version, theirs.len());
    }
}

/// Command (from 0) and value of each line that `debug()` printed.
pub(crate) fn debug_lines(stderr: &str) -> Vec<(usize, String)> {
    stderr
        .lines()
        .filter_map(|line| {
            let (command, value) = line
                .strip_prefix("debug(script=0,command=")?
                .split_once("): ")?;
            Some((command.parse::<usize>().unwrap() - 1, value.to_owned()))
        })
        .collect()
}

#[test]
fn failures_are_those_of_pgbench() {
    let programs = Pgbench::all();
    let expressions = expressions();
    // Every failure costs pgbench a connection: one example of each kind will do.
    let mut kinds = BTreeMap::new();
    for ((of, expression), result) in
        std::iter::zip(&expressions, ours(expressions.iter().map(|e| &e.1)))
    {
        if let Err(error) = result
            && !is_deliberately_different(expression)
        {
            kinds.entry((of, error)).or_insert(expression);
        }
    }
    let bad: Vec<(&String, String)> = kinds
        .into_iter()
        .map(|((_, error), expression)| (expression, error))
        .collect();
    assert!(bad.len() > 100, "{}", bad.len());
    let seed = SEED.to_string();
    for pgbench in &programs {
        // Each client fails alone, at its own expression.
        for batch in bad.chunks(60) {
            let commands: Vec<String> = batch
                .iter()
                .enumerate()
                .map(|(id, (expression, _))| {
                    format!("\\if :client_id = {id}\n\\set x debug({expression})\n\\endif\n")
                })
                .collect();
            let script = commands.concat();
            let run = pgbench.run(&[(&script, 1)], &arguments(&seed, &batch.len().to_string()));
            let theirs = failures(&run.stderr);
            for (id, (expression, ours)) in batch.iter().enumerate() {
                let ours = Some((ours.clone(), 3 * id + 1));
                assert_eq!(
                    ours.as_ref(),
                    theirs.get(&id),
                    "{}: {expression}",
                    pgbench.version
                );
            }
            assert_eq!(run.status, Some(2), "{}", pgbench.version);
        }
        println!("{}: {} failures", pgbench.version, bad.len());
    }
}

/// By client, its error and the command (from 0) it was in.
fn failures(stderr: &str) -> BTreeMap<usize, (String, usize)> {
    let errors: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("pgbench: error: "))
        .collect();
    let mut failures = BTreeMap::new();
    for pair in errors.windows(2) {
        let Some(rest) = pair[1].strip_prefix("client ") else {
            continue;
        };
        let Some((id, rest)) = rest.split_once(" aborted in command ") else {
            continue;
        };
        let command = rest.split(' ').next().unwrap().parse().unwrap();
        failures.insert(id.parse().unwrap(), (pair[0].to_owned(), command));
    }
    failures
}

#[test]
fn what_pgbench_gets_wrong_is_an_error() {
    let different: Vec<String> = expressions()
        .into_iter()
        .map(|(_, expression)| expression)
        .filter(|e| is_deliberately_different(e))
        .collect();
    assert_eq!(different.len(), 3);
    assert_eq!(
        ours(&different),
        [
            Err("cannot coerce boolean to double".to_owned()),
            Err("cannot coerce boolean to double".to_owned()),
            Err("bigint abs out of range".to_owned()),
        ]
    );
}

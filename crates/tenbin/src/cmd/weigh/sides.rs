//! Sides: from words of the command line to trials.

use super::Args;
use crate::cmd::run;
use crate::exit::{Failure, Result};
use clap::{CommandFactory as _, Parser as _};
use std::collections::BTreeSet;
use tenbin_lab::Trial;

/// More sides than this are refused: every round runs all of them.
const MOST: usize = 16;

/// One configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Side {
    /// Its name.
    pub(super) name: String,
    /// Its name in the names of directories.
    pub(super) slug: String,
    /// Words that it adds to the command.
    pub(super) options: String,
    /// What it runs.
    pub(super) trial: Trial,
}

/// The sides that the arguments describe: at least two, with different names, that differ unless `--equal`.
pub(super) fn sides(args: &Args) -> Result<Vec<Side>> {
    let named = named(args)?;
    if named.len() > MOST {
        return Err(Failure::bad_input(format!(
            "{} sides: at most {MOST} can be weighed at once; give fewer values to --vary",
            named.len()
        )));
    }
    let mut sides: Vec<Side> = Vec::new();
    for (name, options) in named {
        let trial = trial(&name, &args.command, &options)?;
        if let Some(other) = sides.iter().find(|side| side.name == name) {
            return Err(Failure::bad_input(format!(
                "two sides are called {}: give each a name of its own",
                other.name
            )));
        }
        let same = sides.iter().find(|side| side.trial == trial);
        if let Some(same) = same.filter(|_| !args.equal) {
            return Err(Failure::bad_input(format!(
                "{} and {name} are the same configuration: give an option in which they differ, such as --b '--set jit=off', or --equal to see how far equal sides differ",
                same.name
            )));
        }
        sides.push(Side {
            slug: slug(&name, &sides),
            name,
            options,
            trial,
        });
    }
    Ok(sides)
}

/// Names and options of the sides.
fn named(args: &Args) -> Result<Vec<(String, String)>> {
    if !args.vary.is_empty() {
        return varied(args);
    }
    if args.side.is_empty() {
        let sides = [("A", &args.a), ("B", &args.b)];
        return Ok(sides
            .map(|(name, own)| (name.to_owned(), own.clone()))
            .into());
    }
    let named: Vec<_> = args
        .side
        .iter()
        .map(|text| side(text))
        .collect::<Result<_>>()?;
    if named.len() < 2 {
        return Err(Failure::bad_input(
            "one --side: give at least two, such as --side base= --side jit='--set jit=off'",
        ));
    }
    Ok(named)
}

/// `NAME=OPTIONS`.
fn side(text: &str) -> Result<(String, String)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match text.split_once('=') {
        Some((name, options)) if !name.is_empty() && name.chars().all(allowed) => {
            Ok((name.to_owned(), options.trim().to_owned()))
        }
        _ => Err(Failure::bad_input(format!(
            "--side {text:?}: write NAME=OPTIONS, with letters, digits, '.', '_' and '-' in the name"
        ))),
    }
}

/// One side for each combination of the values of `--vary`, the first value first.
fn varied(args: &Args) -> Result<Vec<(String, String)>> {
    let mut sides = vec![(String::new(), String::new())];
    for text in &args.vary {
        let (name, values) = vary(text)?;
        let option = has_option(&args.command, &name)?;
        let one = |value: &str| {
            let words = if option {
                quoted(format!("--{name}={value}"))?
            } else {
                format!("--set {}", quoted(format!("{name}={value}"))?)
            };
            Ok((format!("{name}={value}"), words))
        };
        let levels: Vec<(String, String)> = values.into_iter().map(one).collect::<Result<_>>()?;
        let with = |(names, options): &(String, String)| {
            let join = |(level, words): &(String, String)| {
                let name = format!("{names} {level}").trim().to_owned();
                (name, format!("{options} {words}").trim().to_owned())
            };
            levels.iter().map(join).collect::<Vec<_>>()
        };
        sides = sides.iter().flat_map(with).collect();
    }
    Ok(sides)
}

/// A word as a shell takes it.
fn quoted(word: String) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+%".contains(c);
    if word.chars().all(plain) {
        return Ok(word);
    }
    let quoted = shlex::try_quote(&word).map(std::borrow::Cow::into_owned);
    quoted.map_err(|_| Failure::bad_input(format!("--vary: {word:?} has a NUL")))
}

/// `NAME=VALUE,VALUE`, with at least two different values.
fn vary(text: &str) -> Result<(String, Vec<&str>)> {
    let bad = || {
        Failure::bad_input(format!(
            "--vary {text:?}: write NAME=VALUE,VALUE with at least two different values, such as --vary terminals=1,2,4"
        ))
    };
    let (name, values) = text.split_once('=').ok_or_else(bad)?;
    let values: Vec<&str> = values.split(',').map(str::trim).collect();
    let different: BTreeSet<&str> = values.iter().copied().collect();
    let whole = values.len() > 1 && different.len() == values.len() && !different.contains("");
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || !name.chars().all(allowed) || !whole {
        return Err(bad());
    }
    Ok((name.to_owned(), values))
}

/// Whether the command has a long option of this name. Other names are settings of PostgreSQL.
fn has_option(command: &str, name: &str) -> Result<bool> {
    let words = split("vary", command)?;
    let workload = words.get(1).map_or("", String::as_str);
    let run = run::Args::command();
    let subcommand = run
        .find_subcommand(workload)
        .or_else(|| run.find_subcommand("script"));
    Ok(subcommand.is_some_and(|subcommand| {
        let mut arguments = subcommand.get_arguments();
        arguments.any(|argument| argument.get_long() == Some(name))
    }))
}

/// A name for directories, unlike those of `others`.
fn slug(name: &str, others: &[Side]) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._=-".contains(c);
    let lower = name.to_ascii_lowercase();
    let slug: String = lower
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect();
    if others.iter().any(|other| other.slug == slug) {
        return format!("{slug}-{}", others.len() + 1);
    }
    slug
}

fn split(name: &str, text: &str) -> Result<Vec<String>> {
    shlex::split(text).ok_or_else(|| {
        Failure::bad_input(format!("side {name}: {text} has a quote that does not end"))
    })
}

/// The trial that a side's words describe.
fn trial(name: &str, command: &str, own: &str) -> Result<Trial> {
    let words = [split(name, command)?, split(name, own)?].concat();
    if words.first().map(String::as_str) != Some("run") {
        return Err(Failure::bad_input(format!(
            "{command:?} does not begin with run: write 'run tpcb --scale 10'"
        )));
    }
    let parsed = run::Args::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        Failure::bad_input(format!("side {name}: {text}"))
    })?;
    let (trial, json) = run::trial(parsed)?;
    if json || trial.output.directory.is_some() {
        return Err(Failure::bad_input(format!(
            "side {name}: --json and --out belong to weigh itself, outside the quotes"
        )));
    }
    Ok(trial)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Vec<Side>> {
        #[derive(clap::Parser)]
        struct Weigh {
            #[command(flatten)]
            args: Args,
        }
        sides(
            &Weigh::try_parse_from([&["weigh"], words].concat())
                .unwrap()
                .args,
        )
    }

    fn refused(words: &[&str]) -> String {
        match parsed(words) {
            Ok(sides) => panic!("{words:?} gave {sides:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_side_is_the_command_with_its_own_options() {
        let command = "run tpcb --scale 3 --duration 5s";
        let b = "--set 'log_line_prefix=%m x' -c 4";
        let sides = parsed(&[command, "--b", b]).unwrap();
        let [a, b] = &sides[..] else {
            panic!("{sides:?}")
        };
        assert_eq!(a.trial.load.duration_s.to_bits(), 5.0_f64.to_bits());
        assert_eq!(
            (a.trial.load.terminals, b.trial.load.terminals),
            (Some(10), Some(4))
        );
        assert_ne!(a.trial.server, b.trial.server);
        assert_eq!((a.slug.as_str(), b.slug.as_str()), ("a", "b"));
        // The default seed is no difference.
        let same = refused(&[command, "--b", "--seed 42"]);
        assert!(
            same.contains("A and B are the same configuration"),
            "{same}"
        );
        assert_eq!(parsed(&[command, "--equal"]).unwrap().len(), 2);
    }

    #[test]
    fn sides_have_names_of_their_own() {
        let base = ["run tpcb", "--side", "base=", "--side"];
        let sides = parsed(&[&base[..], &["no-jit=--set jit=off", "--side", "x=-s 3"]].concat());
        let names: Vec<String> = sides.unwrap().into_iter().map(|side| side.name).collect();
        assert_eq!(names, ["base", "no-jit", "x"]);
        let twice = refused(&[&base[..], &["base=--set jit=off"]].concat());
        assert!(twice.contains("two sides are called base"), "{twice}");
        assert!(refused(&["run tpcb", "--side", "base="]).contains("at least two"));
        assert!(refused(&["run tpcb", "--side", "a b=x"]).contains("NAME=OPTIONS"));
    }

    #[test]
    fn options_and_settings_are_varied_in_all_combinations() {
        let sides = parsed(&["run tpcb", "--vary", "connections=1,2,4"]).unwrap();
        let connections: Vec<_> = sides
            .iter()
            .map(|side| side.trial.load.connections)
            .collect();
        assert_eq!(connections, [Some(1), Some(2), Some(4)]);
        assert_eq!(sides[2].name, "connections=4");
        let words = ["run tpcb", "--vary", "jit=on,off", "--vary", "scale=1,2"];
        let sides = parsed(&words).unwrap();
        let said: Vec<(&str, &str)> = sides
            .iter()
            .map(|side| (side.name.as_str(), side.options.as_str()))
            .collect();
        assert_eq!(said[1], ("jit=on scale=2", "--set jit=on --scale=2"));
        assert_eq!((said.len(), said[2].0), (4, "jit=off scale=1"));
        assert_eq!(sides[1].slug, "jit=on-scale=2");
        for bad in ["jit", "jit=on", "=1,2", "jit=on,on", "jit=on,", "a b=1,2"] {
            assert!(
                refused(&["run tpcb", "--vary", bad]).contains("write NAME=VALUE"),
                "{bad}"
            );
        }
        let many = "scale=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17";
        assert!(refused(&["run tpcb", "--vary", many]).contains("at most 16"));
    }

    #[test]
    fn sides_that_cannot_be_are_refused_by_name() {
        for (command, own, wanted) in [
            ("tpcb", "", "does not begin with run"),
            ("run tpcb --scale 'x", "", "a quote that does not end"),
            (
                "run tpcb",
                "--no-such-option",
                "side B: unexpected argument",
            ),
            ("run tpcb", "--json", "outside the quotes"),
            ("run tpcb --out x", "", "outside the quotes"),
            ("run tpcb", "--duration soon", "side B: invalid value"),
        ] {
            let error = refused(&[command, "--b", own]);
            assert!(error.contains(wanted), "{error}");
        }
    }
}

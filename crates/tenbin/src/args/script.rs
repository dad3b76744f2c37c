//! Scripts on the command line, in the order in which they were given.

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use tenbin_lab::script::Script;

/// What clap is told; [`ScriptArgs`] is what is made of it.
#[derive(Args)]
struct Raw {
    /// Script, and its weight beside the others; - is standard input; may be repeated
    #[arg(short, long, value_name = "FILE[@WEIGHT]", action = ArgAction::Append)]
    file: Vec<String>,
    /// Built-in script: tpcb-like, simple-update or select-only, or list; may be repeated
    #[arg(short, long, value_name = "NAME[@WEIGHT]", action = ArgAction::Append)]
    builtin: Vec<String>,
    /// Same as -b select-only
    #[arg(short = 'S', long, action = ArgAction::Append, num_args = 0, default_missing_value = "true")]
    select_only: Vec<bool>,
    /// Same as -b simple-update
    #[arg(short = 'N', long, action = ArgAction::Append, num_args = 0, default_missing_value = "true")]
    skip_some_updates: Vec<bool>,
}

/// Scripts in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptArgs(pub(crate) Vec<Script>);

impl ScriptArgs {
    /// Whether what there is to choose from is asked for (`-b list`).
    pub(crate) fn asks_for_list(&self) -> bool {
        self.0.contains(&Script::Builtin("list".to_owned()))
    }
}

impl Args for ScriptArgs {
    fn augment_args(command: Command) -> Command {
        Raw::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Raw::augment_args_for_update(command)
    }
}

impl FromArgMatches for ScriptArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, Script)> = Vec::new();
        for id in ["file", "builtin"] {
            let script = if id == "file" {
                Script::File
            } else {
                Script::Builtin
            };
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<String>(id).into_iter().flatten();
            found.extend(places.zip(values.cloned().map(script)));
        }
        for (id, name) in [
            ("select_only", "select-only"),
            ("skip_some_updates", "simple-update"),
        ] {
            if matches.value_source(id) == Some(ValueSource::CommandLine) {
                let places = matches.indices_of(id).into_iter().flatten();
                found.extend(places.map(|place| (place, Script::Builtin(name.to_owned()))));
            }
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(Self(found.into_iter().map(|(_, script)| script).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_keep_the_order_in_which_they_were_given() {
        let command = ScriptArgs::augment_args(Command::new("bench"));
        let parse = |arguments: &[&str]| {
            let all = std::iter::once("bench").chain(arguments.iter().copied());
            let matches = command.clone().try_get_matches_from(all).unwrap();
            ScriptArgs::from_arg_matches(&matches).unwrap().0
        };
        let (file, builtin) = (
            |name: &str| Script::File(name.to_owned()),
            |name: &str| Script::Builtin(name.to_owned()),
        );
        assert_eq!(
            parse(&["-S", "-f", "a@2", "-S", "-b", "tpcb", "-f", "b", "-N"]),
            [
                builtin("select-only"),
                file("a@2"),
                builtin("select-only"),
                builtin("tpcb"),
                file("b"),
                builtin("simple-update")
            ]
        );
        assert_eq!(parse(&[]), []);
    }
}

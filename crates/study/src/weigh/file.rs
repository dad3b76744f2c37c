//! A weighing described in a file (TOML).

use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// What is weighed, and how: the options of `tenbin weigh` by their names.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WeighFile {
    /// What all sides run: `run tpcb --scale 10 --duration 10s`.
    pub command: String,
    /// Sides by name: at least two, unless there is `vary`; the first is compared with the others.
    pub side: Vec<FileSide>,
    /// Options or settings, and their values: one side for each combination.
    pub vary: Vec<FileVary>,
    /// How the sides take turns: `auto`, `trials` or `slices`.
    pub by: Option<String>,
    /// Most pairs of trials; of more than two sides, most rounds.
    pub pairs: Option<u32>,
    /// Begin no pair that would end later than this: `10m`.
    pub budget: Option<String>,
    /// Call the sides the same when their ratio is within this percentage of 1.
    pub same_within: Option<f64>,
    /// Go on until the interval reaches no farther than this percentage to either side.
    pub precision: Option<f64>,
    /// Fail if this is so: `B.throughput < 0.97 * A`.
    pub fail_if: Option<String>,
    /// Whether sides may be the same.
    pub equal: bool,
}

/// A side.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSide {
    /// Its name: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Options that it adds to the command.
    #[serde(default)]
    pub options: String,
}

/// An option or a setting, and its values.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileVary {
    /// Its name.
    pub name: String,
    /// At least two different values.
    pub values: Vec<Level>,
}

/// A value of an option or a setting.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Level {
    /// `true`, which a setting takes as `on`.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A file that describes no weighing.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not TOML, or has other keys.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// There is no command.
    #[error("command is missing: write command = \"run tpcb --scale 10\"")]
    NoCommand,
}

impl WeighFile {
    /// Reads it.
    ///
    /// # Errors
    /// TOML's, with line and column; no command.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let file: Self = toml::from_str(text)?;
        if file.command.trim().is_empty() {
            return Err(FileError::NoCommand);
        }
        Ok(file)
    }

    /// The words of `tenbin weigh` that say the same.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![self.command.clone()];
        for FileSide { name, options } in &self.side {
            words.push(format!("--side={name}={options}"));
        }
        for FileVary { name, values } in &self.vary {
            let values: Vec<String> = values.iter().map(Level::to_string).collect();
            words.push(format!("--vary={name}={}", values.join(",")));
        }
        let options = [
            ("by", self.by.clone()),
            ("pairs", self.pairs.map(|pairs| pairs.to_string())),
            ("budget", self.budget.clone()),
            (
                "same-within",
                self.same_within.map(|share| share.to_string()),
            ),
            ("precision", self.precision.map(|share| share.to_string())),
            ("fail-if", self.fail_if.clone()),
        ];
        for (name, value) in options {
            words.extend(value.map(|value| format!("--{name}={value}")));
        }
        if self.equal {
            words.push("--equal".to_owned());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_says_what_the_words_say() {
        let text = r#"
            command = "run tpcb -s 3"
            budget = "5m"
            same_within = 1.5
            fail_if = "b < 0.9 * a"
            by = "trials"
            pairs = 7
            precision = 2
            equal = true

            [[side]]
            name = "a"

            [[side]]
            name = "b"
            options = "--set jit=off"

            [[vary]]
            name = "work_mem"
            values = ["4MB", 8192, true, 0.5]
        "#;
        let wanted = [
            "run tpcb -s 3",
            "--side=a=",
            "--side=b=--set jit=off",
            "--vary=work_mem=4MB,8192,on,0.5",
            "--by=trials",
            "--pairs=7",
            "--budget=5m",
            "--same-within=1.5",
            "--precision=2",
            "--fail-if=b < 0.9 * a",
            "--equal",
        ];
        assert_eq!(WeighFile::parse(text).unwrap().words(), wanted);
    }

    #[test]
    fn a_file_that_describes_no_weighing_is_refused_with_its_place() {
        for (text, wanted) in [
            ("", "command is missing"),
            ("command = \" \"", "command is missing"),
            ("command = 3", "line 1"),
            ("command = \"run tpcb\"\nparis = 3", "line 2"),
            ("command = \"run tpcb\"\n[[side]]\noptions = \"\"", "name"),
            ("command = ", "line 1"),
        ] {
            let said = WeighFile::parse(text).unwrap_err().to_string();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(command = \"x\"\n)?.{0,60}") {
            let _ = WeighFile::parse(&text);
        }

        #[test]
        fn values_reach_the_words(
            pairs in 1..1000_u32, name in "[a-z][a-z0-9_]{0,9}", values in prop::collection::vec(any::<i32>(), 2..5)
        ) {
            let listed = format!("{values:?}");
            let text = format!("command = 'run tpcb'\npairs = {pairs}\n[[vary]]\nname = '{name}'\nvalues = {listed}");
            let words = WeighFile::parse(&text).unwrap().words();
            let listed: String = listed.chars().filter(|c| !"[] ".contains(*c)).collect();
            prop_assert_eq!(words, ["run tpcb".to_owned(), format!("--vary={name}={listed}"), format!("--pairs={pairs}")]);
        }
    }
}

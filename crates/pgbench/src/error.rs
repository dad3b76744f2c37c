//! Errors of scripts, told with file, line, column, the line itself and a caret.

use crate::expr::Fault;
use std::fmt;
use std::sync::Arc;

/// A place in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The script's name: its file, or `<builtin: …>`.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The whole line.
    pub source_line: String,
}

impl Place {
    /// The place of a byte offset.
    pub(crate) fn new(file: &Arc<str>, source: &str, offset: usize) -> Self {
        let offset = source.floor_char_boundary(offset);
        let (before, behind) = source.split_at(offset);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = behind.split('\n').next().unwrap_or_default();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            file: Arc::clone(file),
            line: count(before.matches('\n').count() + 1),
            column: count(before[start..].chars().count() + 1),
            source_line: format!("{}{rest}", &before[start..])
                .trim_end_matches('\r')
                .to_owned(),
        }
    }
}

/// What is wrong with a script.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// An expression that the grammar does not know.
    #[error("syntax error")]
    Syntax,
    /// A character that begins no token of an expression.
    #[error("unexpected character ({0})")]
    UnexpectedCharacter(char),
    /// An integer beyond 64 bits.
    #[error("bigint constant overflow ({0})")]
    IntOverflow(String),
    /// A number too large or too small for a double.
    #[error("double constant overflow ({0})")]
    DoubleOverflow(String),
    /// No such function.
    #[error("unexpected function name ({0})")]
    UnknownFunction(String),
    /// A function with too many or too few arguments.
    #[error("unexpected number of arguments ({0})")]
    WrongArguments(&'static str),
    /// `least()` or `greatest()`.
    #[error("at least one argument expected ({0})")]
    NoArguments(&'static str),
    /// `least` or `greatest` of too many.
    #[error("too many function arguments, maximum is {0}")]
    TooManyFunctionArguments(usize),
    /// An expression that nests too deep.
    #[error("expression nests too deep")]
    TooDeep,
    /// A backslash command lacks an argument.
    #[error("missing argument")]
    MissingArgument,
    /// `\shell` of nothing.
    #[error("missing command")]
    MissingCommand,
    /// A backslash command has more arguments than it takes.
    #[error("too many arguments")]
    TooManyArguments,
    /// A backslash command that takes no argument has one.
    #[error("unexpected argument")]
    UnexpectedArgument,
    /// `\sleep` of something that is neither a number nor a variable.
    #[error("invalid sleep time, must be an integer ({0})")]
    SleepTime(String),
    /// `\sleep` in an unknown unit.
    #[error("unrecognized time unit, must be us, ms or s ({0})")]
    SleepUnit(String),
    /// No such backslash command.
    #[error("invalid command")]
    InvalidCommand,
    /// A variable cannot have this name.
    #[error("invalid variable name: \"{0}\"")]
    VariableName(String),
    /// `\gset` or `\aset` behind something else.
    #[error("\\{0} must follow an SQL command")]
    NoSqlCommand(&'static str),
    /// A conditional command out of place.
    #[error("{0}")]
    Conditional(&'static str),
    /// A pipeline command out of place.
    #[error("{0}")]
    Pipeline(&'static str),
    /// SQL ends inside a quote or a comment.
    #[error("unterminated {0}")]
    Unterminated(&'static str),
    /// Too many variables in one SQL command for the extended and prepared protocols.
    #[error("statement has too many arguments (maximum is {0})")]
    TooManyParameters(usize),
    /// A script contains a NUL character.
    #[error("unexpected NUL character")]
    Nul,
    /// A command of a script's file is not UTF-8.
    #[error("the script is not UTF-8 here, as what is sent has to be")]
    NotUtf8,
    /// An expression or an argument failed while the script ran.
    #[error("{message}")]
    Execution {
        /// The fault, if an expression failed.
        fault: Option<Fault>,
        /// It, in words.
        message: String,
    },
}

impl Problem {
    /// What to do about it, where the message does not say so already.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Execution {
                fault: Some(Fault::UndefinedVariable(_)),
                ..
            } => "set it before this line with \\set or \\gset, or define it with -D name=value",
            Self::Execution {
                fault: Some(Fault::DivisionByZero),
                ..
            } => "guard it with CASE WHEN, or divide doubles, which gives Infinity",
            Self::NoSqlCommand(_) => "write it behind the query instead of the query's semicolon",
            Self::InvalidCommand => {
                "commands are \\set \\setshell \\shell \\sleep \\gset \\aset \\if \\elif \\else \
                 \\endif \\startpipeline \\syncpipeline \\endpipeline"
            }
            Self::UnknownFunction(_) => {
                "functions are abs debug double exp greatest hash hash_fnv1a hash_murmur2 int \
                 least ln mod permute pi pow power random random_exponential random_gaussian \
                 random_zipfian sqrt"
            }
            Self::NotUtf8 => "convert it, as by iconv -f LATIN1 -t UTF-8",
            Self::TooManyParameters(_) => "use the simple protocol, or split the statement",
            Self::VariableName(_) => {
                "use letters, digits and underscores, and no digit at the beginning"
            }
            _ => return None,
        })
    }
}

/// A [`Problem`] and its place.
///
/// Displayed as pgbench does, with a column:
///
/// ```text
/// test.sql:3:10: syntax error in command "set"
/// \set i 1 +
///           ^ error found here
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptError {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
    /// The backslash command it is in, without the backslash.
    pub command: Option<String>,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            file,
            line,
            column,
            source_line,
        } = &self.place;
        write!(f, "{file}:{line}:{column}: {}", self.problem)?;
        if let Some(command) = &self.command {
            write!(f, " in command \"{command}\"")?;
        }
        // Tabs stay, so that the caret stands under its character.
        let before = source_line.chars().take(*column as usize - 1);
        let indent: String = before.map(|c| if c == '\t' { c } else { ' ' }).collect();
        write!(f, "\n{source_line}\n{indent}^ error found here")?;
        if let Some(hint) = self.problem.hint() {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ScriptError {}

/// What can go wrong in gathering scripts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A script is wrong.
    #[error(transparent)]
    Script(#[from] Box<ScriptError>),
    /// A script cannot be read.
    #[error(
        "could not read script \"{path}\": {source}; check the path (behind the last @ stands a weight)"
    )]
    Read {
        /// Its path, or `-`.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A script has no command.
    #[error("empty command list for script \"{0}\"; write an SQL or backslash command into it")]
    Empty(String),
    /// A script is too large.
    #[error("script \"{0}\" is larger than 1 GB; split it into several")]
    TooLarge(String),
    /// The text behind `@` is no weight.
    #[error("invalid weight specification: @{0}; give an integer, such as script.sql@2")]
    Weight(String),
    /// The weight does not fit.
    #[error("weight specification out of range (0 .. {max}): {0}", max = i32::MAX)]
    WeightRange(String),
    /// Nothing would ever be chosen.
    #[error("total script weight must not be zero; give at least one script a weight above 0")]
    ZeroWeight,
    /// No script at all.
    #[error("there is no script to run; give a file or a built-in script's name")]
    NoScript,
    /// Too many scripts.
    #[error(
        "at most {} SQL scripts are allowed; merge some with \\if",
        crate::MAX_SCRIPTS
    )]
    TooManyScripts,
    /// No built-in script has this name.
    #[error(
        "no builtin script found for name \"{0}\"; there are tpcb-like, simple-update and select-only"
    )]
    NoBuiltin(String),
    /// Several built-in scripts begin with this name.
    #[error(
        "ambiguous builtin name: {count} builtin scripts found for prefix \"{name}\"; there are tpcb-like, simple-update and select-only"
    )]
    AmbiguousBuiltin {
        /// The name.
        name: String,
        /// How many.
        count: usize,
    },
    /// `-D` without a name, an equals sign or a value.
    #[error("invalid variable definition: \"{0}\"; write it name=value")]
    Definition(String),
    /// `-D` of a name that no variable can have.
    #[error(
        "invalid variable name: \"{0}\"; use letters, digits and underscores, and no digit at the beginning"
    )]
    VariableName(String),
}

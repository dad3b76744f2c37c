//! Programs: all scripts of a run, with the names and definitions they share.

use crate::builtin::builtin;
use crate::check::{self, Protocol};
use crate::error::{Error, Problem, ScriptError};
use crate::expr::{EvalError, Fault};
use crate::random::{Random, Streams};
use crate::script::{self, Script};
use crate::value::Value;
use crate::variables::{Names, Slot, Variables, is_variable_name};
use std::borrow::Cow;
use std::io::Read as _;

/// Most scripts of a program.
pub const MAX_SCRIPTS: usize = 128;

/// Gathers the scripts and definitions of a run.
///
/// ```
/// let mut builder = tenbin_pgbench::ProgramBuilder::default();
/// builder.define("rows=10")?;
/// builder.builtin("select@9")?;
/// builder.text("mine", 1, "\\set id random(1, :rows)\nSELECT :id;")?;
/// let program = builder.finish()?;
/// assert_eq!(program.scripts().len(), 2);
/// # Ok::<(), tenbin_pgbench::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ProgramBuilder {
    names: Names,
    scripts: Vec<Script>,
    definitions: Vec<(String, String)>,
    statements: usize,
    uses_builtin: bool,
}

impl ProgramBuilder {
    /// `-D name=value`.
    ///
    /// # Errors
    /// A definition without a name, an equals sign or a value, or with a name no variable can have.
    pub fn define(&mut self, definition: &str) -> Result<(), Error> {
        let (name, value) = definition
            .split_once('=')
            .filter(|(name, value)| !name.is_empty() && !value.is_empty())
            .ok_or_else(|| Error::Definition(definition.to_owned()))?;
        if !is_variable_name(name) {
            return Err(Error::VariableName(name.to_owned()));
        }
        self.definitions.retain(|(other, _)| other != name);
        self.definitions.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// `-f path[@weight]`; `-` is the standard input.
    ///
    /// # Errors
    /// A file that cannot be read, a command that is not UTF-8, a wrong weight, a wrong script.
    pub fn file(&mut self, file: &str) -> Result<(), Error> {
        let (path, weight) = split_weight(file)?;
        let read = || {
            if path == "-" {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
            } else {
                std::fs::read(path)
            }
        };
        let bytes = read().map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let text = String::from_utf8_lossy(&bytes);
        self.text(path, weight, &text)?;
        match (&text, self.scripts.last()) {
            // Something is not UTF-8.
            (Cow::Owned(_), Some(script)) => script.check_replaced(),
            _ => Ok(()),
        }
    }

    /// `-b name[@weight]`.
    ///
    /// # Errors
    /// No built-in script, or several, of that name; a wrong weight.
    pub fn builtin(&mut self, name: &str) -> Result<(), Error> {
        let (name, weight) = split_weight(name)?;
        let builtin = builtin(name)?;
        self.uses_builtin = true;
        self.text(builtin.description, weight, builtin.text)
    }

    /// A script that is at hand as text.
    ///
    /// # Errors
    /// A wrong script, or one too many.
    pub fn text(&mut self, name: &str, weight: u32, text: &str) -> Result<(), Error> {
        let script = script::parse(name, weight, text, &mut self.names, &mut self.statements)?;
        if self.scripts.len() == MAX_SCRIPTS {
            return Err(Error::TooManyScripts);
        }
        self.scripts.push(script);
        Ok(())
    }

    /// All of it.
    ///
    /// # Errors
    /// No script, or none with a weight.
    pub fn finish(self) -> Result<Program, Error> {
        if self.scripts.is_empty() {
            return Err(Error::NoScript);
        }
        let total_weight = self
            .scripts
            .iter()
            .map(|script| i64::from(script.weight))
            .sum();
        if total_weight == 0 {
            return Err(Error::ZeroWeight);
        }
        Ok(Program {
            names: self.names,
            scripts: self.scripts,
            definitions: self.definitions,
            total_weight,
            uses_builtin: self.uses_builtin,
        })
    }
}

/// Splits `name@weight`; without a weight it is 1.
fn split_weight(option: &str) -> Result<(&str, u32), Error> {
    let Some((name, weight)) = option.rsplit_once('@') else {
        return Ok((option, 1));
    };
    let weight = weight.trim_ascii_start();
    let digits = weight.strip_prefix(['+', '-']).unwrap_or(weight);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::Weight(weight.to_owned()));
    }
    weight
        .parse()
        .ok()
        .filter(|&weight: &u32| i32::try_from(weight).is_ok())
        .map(|weight| (name, weight))
        .ok_or_else(|| Error::WeightRange(weight.to_owned()))
}

/// All scripts of a run.
#[derive(Debug, Clone)]
pub struct Program {
    names: Names,
    scripts: Vec<Script>,
    definitions: Vec<(String, String)>,
    total_weight: i64,
    uses_builtin: bool,
}

impl Program {
    /// The scripts, at least one.
    #[must_use]
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    /// The names of their variables.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Whether a built-in script is among them, which makes pgbench take the scale from the
    /// number of rows in `pgbench_branches`.
    #[must_use]
    pub fn uses_builtin(&self) -> bool {
        self.uses_builtin
    }

    /// Whether `-D` defines a variable.
    #[must_use]
    pub fn defines(&self, name: &str) -> bool {
        self.definitions.iter().any(|(other, _)| other == name)
    }

    /// What is wrong under a protocol, of what shows without running.
    ///
    /// # Errors
    /// More than 255 variables in a command of the extended or prepared protocol; pipelines under
    /// the simple one, opened twice, left open or closed unopened.
    pub fn check(&self, protocol: Protocol) -> Result<(), Error> {
        self.scripts
            .iter()
            .try_for_each(|script| check::check(script, protocol))
            .map_err(|error| Error::Script(Box::new(error)))
    }

    /// The streams of a run: see [`Streams::new`].
    #[must_use]
    pub fn streams(&self, random_seed: u64, clients: usize, threads: usize) -> Streams {
        Streams::new(random_seed, clients, threads, self.defines("default_seed"))
    }

    /// The variables a client begins with: `scale`, `client_id`, `random_seed` and `default_seed`
    /// (`seeds`), then whatever `-D` defines.
    #[must_use]
    pub fn variables(&self, client_id: u32, scale: i64, seeds: &Streams) -> Variables {
        let mut variables = Variables::new(&self.names);
        let automatic = [
            ("scale", Some(scale)),
            ("client_id", Some(i64::from(client_id))),
            ("random_seed", Some(seeds.random_seed.cast_signed())),
            ("default_seed", seeds.default_seed),
        ];
        for (name, value) in automatic {
            if let (Some(slot), Some(value)) = (self.names.slot(name), value) {
                variables.set(slot, Value::Int(value));
            }
        }
        for (name, text) in &self.definitions {
            if let Some(slot) = self.names.slot(name) {
                variables.set_text(slot, text);
            }
        }
        variables
    }

    /// Chooses a script by weight; draws only if there are several.
    pub fn choose<R: Random + ?Sized>(&self, random: &mut R) -> usize {
        if self.scripts.len() == 1 {
            return 0;
        }
        let mut left = random.uniform(0, self.total_weight - 1);
        self.scripts
            .iter()
            .position(|script| {
                left -= i64::from(script.weight);
                left < 0
            })
            .unwrap_or(0)
    }

    /// Tells a failed evaluation in words, with its place.
    #[must_use]
    pub fn explain(
        &self,
        script: usize,
        error: &EvalError,
        variables: &mut Variables,
    ) -> ScriptError {
        let message = self.describe(error.fault, variables);
        let problem = Problem::Execution {
            fault: Some(error.fault),
            message,
        };
        self.scripts[script].error(problem, error.offset as usize)
    }

    /// Gives the place of a problem that a command had while it was executed.
    #[must_use]
    pub fn explain_command(&self, script: usize, command: usize, problem: Problem) -> ScriptError {
        self.scripts[script].command_error(problem, command)
    }

    /// The same for a byte of an SQL command's text (see [`Sql::offset_of`](crate::Sql::offset_of)).
    #[must_use]
    pub fn explain_sql(
        &self,
        script: usize,
        command: usize,
        byte: usize,
        problem: Problem,
    ) -> ScriptError {
        self.scripts[script].sql_error(problem, command, byte)
    }

    fn describe(&self, fault: Fault, variables: &mut Variables) -> String {
        let name = |slot| self.names.name(slot);
        let mut text = |slot: Slot| variables.text(slot).unwrap_or_default().to_owned();
        match fault {
            Fault::UndefinedVariable(slot) => format!("undefined variable \"{}\"", name(slot)),
            Fault::EmptyVariable(slot) => format!("variable \"{}\" is empty", name(slot)),
            Fault::VariableOutOfRange(slot) => {
                format!("value \"{}\" is out of range for type bigint", text(slot))
            }
            Fault::MalformedVariable(slot) => {
                format!(
                    "malformed variable \"{}\" value: \"{}\"",
                    name(slot),
                    text(slot)
                )
            }
            Fault::Coercion(from, to) => format!("cannot coerce {from} to {to}"),
            Fault::DoubleToInt(value) => format!("double to int overflow for {}", fixed(value)),
            Fault::DivisionByZero => "division by zero".to_owned(),
            Fault::IntOutOfRange(operation) => format!("bigint {operation} out of range"),
            Fault::EmptyRange => "empty range given to random".to_owned(),
            Fault::RangeTooLarge => "random range is too large".to_owned(),
            Fault::GaussianParameter(value) => {
                format!(
                    "gaussian parameter must be at least 2.000000 (not {})",
                    fixed(value)
                )
            }
            Fault::ZipfianParameter(value) => {
                format!(
                    "zipfian parameter must be in range [1.001, 1000] (not {})",
                    fixed(value)
                )
            }
            Fault::ExponentialParameter(value) => {
                format!(
                    "exponential parameter must be greater than zero (not {})",
                    fixed(value)
                )
            }
            Fault::PermuteSize => "permute size parameter must be greater than zero".to_owned(),
        }
    }
}

/// C's `%f`, with PostgreSQL's names for what is not finite.
fn fixed(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.6}")
    } else {
        Value::Double(value).to_string()
    }
}

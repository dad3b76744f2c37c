//! Backslash commands.

use crate::error::Problem;
use crate::expr::{self, Expr};
use crate::sql::{Capture, CaptureKind};
use crate::variables::{Names, Slot, Variables, is_variable_name};

/// Most words of a backslash command, itself included.
const MAX_WORDS: usize = 256;
/// Size of pgbench's buffer for a shell command, its end mark included.
const SHELL_COMMAND_SIZE: usize = 256;

/// A backslash command as read, before its place among the others is known.
#[derive(Debug)]
pub(crate) enum Meta {
    Set(Slot, Expr),
    SetShell(Slot, ShellCommand),
    Shell(ShellCommand),
    Sleep(SleepTime),
    Capture(Capture),
    If(Expr),
    Elif(Expr),
    Else,
    Endif,
    StartPipeline,
    SyncPipeline,
    EndPipeline,
}

/// A problem in a backslash command.
#[derive(Debug)]
pub(crate) struct MetaError {
    pub(crate) problem: Problem,
    pub(crate) offset: usize,
    /// The command's name as written.
    pub(crate) command: String,
}

/// Words up to the end of the line, with their offsets. A backslash at the end of a line
/// continues it.
struct Words<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Iterator for Words<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = &self.text[self.offset..];
            let word = rest.trim_start_matches([' ', '\t', '\r', '\x0b', '\x0c']);
            let start = self.offset + rest.len() - word.len();
            let skip = expr::continuation(word);
            self.offset = start + skip;
            if skip > 0 {
                continue;
            }
            if word.starts_with('\n') {
                self.offset += 1;
                return None;
            }
            let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n' | '\x0b' | '\x0c');
            let mut length = word.find(blank).unwrap_or(word.len());
            if length == 0 {
                return None;
            }
            if word[..length].ends_with('\\') && expr::continuation(&word[length - 1..]) > 0 {
                length -= 1;
            }
            self.offset = start + length;
            return Some((start, &word[..length]));
        }
    }
}

/// Reads the backslash command at `offset`, just behind its backslash: `None` if there is nothing,
/// and the offset of the next line.
pub(crate) fn parse(
    text: &str,
    offset: usize,
    names: &mut Names,
) -> Result<(Option<Meta>, usize), MetaError> {
    let mut words = Words { text, offset };
    let Some((start, command)) = words.next() else {
        return Ok((None, words.offset));
    };
    let fail = |(problem, offset)| MetaError {
        problem,
        offset,
        command: command.to_owned(),
    };
    let name = command.to_ascii_lowercase();
    let parsed = match name.as_str() {
        "set" => set(&mut words, start, names),
        "if" => condition(&mut words, names).map(Meta::If),
        "elif" => condition(&mut words, names).map(Meta::Elif),
        _ => {
            let arguments: Vec<_> = words.by_ref().collect();
            if arguments.len() >= MAX_WORDS {
                Err((Problem::TooManyArguments, arguments[MAX_WORDS - 1].0))
            } else {
                with_words(&name, start, &arguments, names)
            }
        }
    };
    Ok((Some(parsed.map_err(fail)?), words.offset))
}

/// A problem and its offset.
type Failure = (Problem, usize);

fn set(words: &mut Words<'_>, start: usize, names: &mut Names) -> Result<Meta, Failure> {
    let (at, name) = words.next().ok_or((Problem::MissingArgument, start))?;
    // The name is checked last: pgbench finds it wrong only after it has evaluated the expression.
    let expr = condition(words, names)?;
    Ok(Meta::Set(variable(name, at, names)?, expr))
}

fn condition(words: &mut Words<'_>, names: &mut Names) -> Result<Expr, Failure> {
    let (expr, end) = expr::parse(words.text, words.offset, names)?;
    words.offset = end;
    Ok(expr)
}

/// The slot of a variable that a command sets.
fn variable(name: &str, at: usize, names: &mut Names) -> Result<Slot, Failure> {
    if is_variable_name(name) {
        Ok(names.intern(name))
    } else {
        Err((Problem::VariableName(name.to_owned()), at))
    }
}

fn with_words(
    name: &str,
    start: usize,
    arguments: &[(usize, &str)],
    names: &mut Names,
) -> Result<Meta, Failure> {
    let bare = |meta: Meta| match arguments.first() {
        None => Ok(meta),
        Some(&(at, _)) => Err((Problem::UnexpectedArgument, at)),
    };
    match name {
        "sleep" => sleep(start, arguments, names),
        "setshell" => match arguments {
            [(at, name), words @ ..] if !words.is_empty() => {
                let slot = variable(name, *at, names)?;
                Ok(Meta::SetShell(slot, ShellCommand::new(words, names)))
            }
            _ => Err((Problem::MissingArgument, start)),
        },
        "shell" if arguments.is_empty() => Err((Problem::MissingCommand, start)),
        "shell" => Ok(Meta::Shell(ShellCommand::new(arguments, names))),
        "gset" => capture(CaptureKind::Gset, arguments),
        "aset" => capture(CaptureKind::Aset, arguments),
        "else" => bare(Meta::Else),
        "endif" => bare(Meta::Endif),
        "startpipeline" => bare(Meta::StartPipeline),
        "syncpipeline" => bare(Meta::SyncPipeline),
        "endpipeline" => bare(Meta::EndPipeline),
        _ => Err((Problem::InvalidCommand, start)),
    }
}

fn capture(kind: CaptureKind, arguments: &[(usize, &str)]) -> Result<Meta, Failure> {
    if let [_, (at, _), ..] = arguments {
        return Err((Problem::TooManyArguments, *at));
    }
    let prefix = arguments
        .first()
        .map_or("", |&(_, prefix)| prefix)
        .to_owned();
    Ok(Meta::Capture(Capture { kind, prefix }))
}

/// How long `\sleep` waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SleepTime {
    amount: Amount,
    /// Microseconds in one unit.
    unit_us: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Amount {
    Fixed(i64),
    Variable(Slot),
}

impl SleepTime {
    /// The wait in microseconds; negative ones are none.
    ///
    /// # Errors
    /// An unset variable, or one whose text does not begin with a number.
    pub fn micros(&self, variables: &mut Variables, names: &Names) -> Result<u64, Problem> {
        let amount = match self.amount {
            Amount::Fixed(amount) => amount,
            Amount::Variable(slot) => {
                let name = names.name(slot);
                let Some(text) = variables.text(slot) else {
                    return Err(execution(format!("sleep: undefined variable \"{name}\"")));
                };
                match leading_int(text) {
                    0 if !text.starts_with(|c: char| c.is_ascii_digit()) => {
                        return Err(execution(format!(
                            "sleep: invalid sleep time \"{text}\" for variable \"{name}\""
                        )));
                    }
                    amount => amount,
                }
            }
        };
        Ok(u64::try_from(amount.saturating_mul(self.unit_us)).unwrap_or(0))
    }
}

fn execution(message: String) -> Problem {
    Problem::Execution {
        fault: None,
        message,
    }
}

/// The integer that a text begins with, as C's `atoi` reads it, but saturating; 0 without one.
fn leading_int(text: &str) -> i64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = digits
        .bytes()
        .take_while(u8::is_ascii_digit)
        .fold(0_i64, |value, digit| {
            value
                .saturating_mul(10)
                .saturating_add(i64::from(digit - b'0'))
        });
    if negative { -magnitude } else { magnitude }
}

fn sleep(start: usize, arguments: &[(usize, &str)], names: &mut Names) -> Result<Meta, Failure> {
    let (&(at, amount), mut unit) = match arguments {
        [] => return Err((Problem::MissingArgument, start)),
        [amount] => (amount, None),
        [amount, unit] => (amount, Some(*unit)),
        [_, _, (at, _), ..] => return Err((Problem::TooManyArguments, *at)),
    };
    let amount = if let Some(name) = amount.strip_prefix(':') {
        Amount::Variable(names.intern(name))
    } else {
        let unsigned = amount.strip_prefix(['+', '-']).unwrap_or(amount);
        let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
        if !rest.is_empty() {
            // `\sleep 10ms`
            if unit.is_some() || rest.len() == unsigned.len() {
                return Err((Problem::SleepTime(amount.to_owned()), at));
            }
            unit = Some((at + amount.len() - rest.len(), rest));
        }
        Amount::Fixed(leading_int(amount))
    };
    let unit_us = match unit.map(|(at, unit)| (at, unit.to_ascii_lowercase())) {
        None => 1_000_000,
        Some((at, unit)) => match unit.as_str() {
            "s" => 1_000_000,
            "ms" => 1_000,
            "us" => 1,
            _ => return Err((Problem::SleepUnit(unit), at)),
        },
    };
    Ok(Meta::Sleep(SleepTime { amount, unit_us }))
}

/// The command of `\shell` or `\setshell`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand(Vec<Word>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Literal(String),
    Variable(Slot),
}

impl ShellCommand {
    fn new(words: &[(usize, &str)], names: &mut Names) -> Self {
        let word = |&(_, word): &(usize, &str)| match word.strip_prefix(':') {
            None => Word::Literal(word.to_owned()),
            Some(literal) if literal.starts_with(':') => Word::Literal(literal.to_owned()),
            Some(name) => Word::Variable(names.intern(name)),
        };
        Self(words.iter().map(word).collect())
    }

    /// What messages call it: its first word.
    fn name(&self, names: &Names) -> String {
        match self.0.first() {
            Some(Word::Literal(word)) => word.clone(),
            Some(Word::Variable(slot)) => format!(":{}", names.name(*slot)),
            None => String::new(),
        }
    }

    /// The line for the shell: words that begin with one colon are replaced by their variables.
    ///
    /// # Errors
    /// An unset variable, or a line of 255 bytes or more.
    pub fn command_line(
        &self,
        variables: &mut Variables,
        names: &Names,
    ) -> Result<String, Problem> {
        let mut line = String::new();
        for (index, word) in self.0.iter().enumerate() {
            if index > 0 {
                line.push(' ');
            }
            match word {
                Word::Literal(literal) => line.push_str(literal),
                Word::Variable(slot) => {
                    let undefined = || {
                        let name = names.name(*slot);
                        execution(format!(
                            "{}: undefined variable \":{name}\"",
                            self.name(names)
                        ))
                    };
                    line.push_str(variables.text(*slot).ok_or_else(undefined)?);
                }
            }
            if line.len() >= SHELL_COMMAND_SIZE - 1 {
                let name = self.name(names);
                return Err(execution(format!("{name}: shell command is too long")));
            }
        }
        Ok(line)
    }
}

/// The integer that a `\setshell` command printed on the first line of its output; 0 for a blank line. How the
/// command ended does not matter, as in pgbench.
///
/// # Errors
/// No output, or something else on that line.
pub fn setshell_value(output: &str) -> Result<i64, Problem> {
    if output.is_empty() {
        return Err(execution(
            "could not read result of shell command".to_owned(),
        ));
    }
    let line = output.split('\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        return Ok(0);
    }
    line.parse().map_err(|_| {
        execution(format!(
            "shell command must return an integer (not \"{line}\")"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn parse_one(text: &str) -> Result<Meta, (Problem, usize)> {
        let mut names = Names::default();
        match parse(text, 0, &mut names) {
            Ok((meta, end)) => {
                assert_eq!(end, text.len());
                Ok(meta.expect("a command"))
            }
            Err(error) => Err((error.problem, error.offset)),
        }
    }

    #[test]
    fn nothing_behind_the_backslash() {
        for text in ["", "\n", "  \n", "\\\n\n"] {
            assert!(
                matches!(parse(text, 0, &mut Names::default()), Ok((None, end)) if end == text.len())
            );
        }
    }

    #[test]
    fn sleep_times() {
        let mut names = Names::default();
        let slot = names.intern("t");
        for (text, micros) in [
            ("sleep 2", 2_000_000),
            ("SLEEP 2 s\n", 2_000_000),
            ("sleep 100us", 100),
            ("sleep 100 MS", 100_000),
            ("sleep -5ms", 0),
            ("sleep \\\n 3 \\\r\n us", 3),
            ("sleep 3000 s", 3_000_000_000),
            ("sleep :t ms", 1_000),
        ] {
            let Ok((Some(Meta::Sleep(time)), _)) = parse(text, 0, &mut names) else {
                panic!("{text} is no \\sleep");
            };
            let mut variables = Variables::new(&names);
            variables.set(slot, Value::Double(1.5));
            assert_eq!(time.micros(&mut variables, &names), Ok(micros), "{text}");
        }
        let time = SleepTime {
            amount: Amount::Variable(slot),
            unit_us: 1,
        };
        let mut variables = Variables::new(&names);
        let message = |result: Result<u64, Problem>| result.unwrap_err().to_string();
        assert_eq!(
            message(time.micros(&mut variables, &names)),
            "sleep: undefined variable \"t\""
        );
        variables.set_text(slot, "x");
        assert_eq!(
            message(time.micros(&mut variables, &names)),
            "sleep: invalid sleep time \"x\" for variable \"t\""
        );
    }

    #[test]
    fn problems_have_places() {
        for (text, problem, at) in [
            ("sleep", Problem::MissingArgument, 0),
            ("sleep 1 s x", Problem::TooManyArguments, 10),
            ("sleep x", Problem::SleepTime("x".into()), 6),
            ("sleep 1x s", Problem::SleepTime("1x".into()), 6),
            ("sleep 1 week", Problem::SleepUnit("week".into()), 8),
            ("sleep 1.5", Problem::SleepUnit(".5".into()), 7),
            ("shell", Problem::MissingCommand, 0),
            ("setshell x", Problem::MissingArgument, 0),
            ("setshell . x", Problem::VariableName(".".into()), 9),
            ("set", Problem::MissingArgument, 0),
            ("set . 1", Problem::VariableName(".".into()), 4),
            ("else x", Problem::UnexpectedArgument, 5),
            ("gset a b", Problem::TooManyArguments, 7),
            ("what", Problem::InvalidCommand, 0),
        ] {
            assert_eq!(parse_one(text).unwrap_err(), (problem, at), "{text}");
        }
        let full = format!("shell{}", " x".repeat(255));
        assert!(parse_one(&full).is_ok());
        assert_eq!(
            parse_one(&format!("{full} x")).unwrap_err().0,
            Problem::TooManyArguments
        );
    }

    #[test]
    fn shell_words() {
        let mut names = Names::default();
        let Ok((Some(Meta::Shell(shell)), _)) = parse("shell echo :a ::b c:d", 0, &mut names)
        else {
            panic!("no \\shell");
        };
        let mut variables = Variables::new(&names);
        assert!(shell.command_line(&mut variables, &names).is_err());
        variables.set(names.slot("a").unwrap(), Value::Int(1));
        assert_eq!(
            shell.command_line(&mut variables, &names).unwrap(),
            "echo 1 :b c:d"
        );
        variables.set_text(names.slot("a").unwrap(), &"x".repeat(250));
        assert!(shell.command_line(&mut variables, &names).is_err());
    }

    #[test]
    fn shell_values() {
        assert_eq!(setshell_value(" 42 \nmore").unwrap(), 42);
        assert_eq!(setshell_value("-1").unwrap(), -1);
        assert_eq!(setshell_value("\n5").unwrap(), 0);
        assert_eq!(setshell_value(" ").unwrap(), 0);
        assert!(setshell_value("").is_err());
        assert!(setshell_value("one\n").is_err());
    }
}

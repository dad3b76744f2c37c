//! Scripts: parsed commands with resolved variables and conditionals.

use crate::check;
use crate::error::{Error, Place, Problem, ScriptError};
use crate::expr::{EvalError, Expr};
use crate::meta::{self, Meta, ShellCommand, SleepTime};
use crate::random::Random;
use crate::sql::{CaptureKind, Scanner, Sql, Stop};
use crate::value::Value;
use crate::variables::{Names, Slot, Variables};
use std::sync::Arc;

/// Longest extract of a command that results show, bytes.
const FIRST_LINE_SIZE: usize = 127;
/// Largest script, bytes: offsets have 32 bits.
const MAX_SIZE: usize = 1 << 30;

/// A script, ready to run.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its file as given, or `<builtin: …>`.
    pub name: Arc<str>,
    /// How often it is chosen, relative to the others; 0 is never.
    pub weight: u32,
    /// Its commands, at least one.
    pub commands: Vec<Command>,
    source: Arc<str>,
}

/// One command of a script.
#[derive(Debug, Clone)]
pub struct Command {
    /// Line of the script where it begins, from 1.
    pub line: u32,
    /// What results show of it: a backslash command whole, of SQL the first line up to 127 bytes.
    pub first_line: String,
    /// What it does.
    pub kind: CommandKind,
    /// Offset in the script's source.
    offset: u32,
}

/// What a command does. Conditionals are followed by [`Script::follow`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CommandKind {
    /// Sends SQL.
    Sql(Sql),
    /// `\set`: the variable gets the expression's value.
    Set(Slot, Expr),
    /// `\setshell`: the variable gets what the shell command prints, by
    /// [`setshell_value`](crate::setshell_value).
    SetShell(Slot, ShellCommand),
    /// `\shell`: runs a shell command, which must succeed.
    Shell(ShellCommand),
    /// `\sleep`.
    Sleep(SleepTime),
    /// `\if`: where its condition does not hold, the command at `otherwise` comes next.
    If {
        /// What is asked.
        condition: Expr,
        /// Index of the matching `\elif`, `\else` or `\endif`.
        otherwise: usize,
    },
    /// `\elif`: reached from above, the branch before it is done.
    Elif {
        /// What is asked if no condition before held.
        condition: Expr,
        /// Index of the next matching `\elif`, `\else` or `\endif`.
        otherwise: usize,
        /// Index of the matching `\endif`.
        end: usize,
    },
    /// `\else`: reached from above, the branch before it is done.
    Else {
        /// Index of the matching `\endif`.
        end: usize,
    },
    /// `\endif`
    Endif,
    /// `\startpipeline`
    StartPipeline,
    /// `\syncpipeline`
    SyncPipeline,
    /// `\endpipeline`
    EndPipeline,
}

impl Script {
    /// Index of the command to execute after the one at `index`, which has been executed, or is a
    /// conditional to be evaluated. The script ends with an index beyond its commands.
    ///
    /// # Errors
    /// A condition that cannot be evaluated.
    pub fn follow<R: Random + ?Sized>(
        &self,
        index: usize,
        variables: &mut Variables,
        random: &mut R,
        debug: &mut dyn FnMut(Value),
    ) -> Result<usize, EvalError> {
        let mut at = index;
        loop {
            let (condition, otherwise) = match &self.commands[at].kind {
                CommandKind::Elif { end, .. } | CommandKind::Else { end } if at == index => {
                    return Ok(end + 1);
                }
                CommandKind::If {
                    condition,
                    otherwise,
                }
                | CommandKind::Elif {
                    condition,
                    otherwise,
                    ..
                } => (condition, *otherwise),
                _ => return Ok(at + 1),
            };
            if condition.eval(variables, random, debug)?.is_true() {
                return Ok(at + 1);
            }
            at = otherwise;
        }
    }

    /// Index of the command that an evaluation failed in; `\elif` fails while `\if` is followed.
    #[must_use]
    pub fn failed_command(&self, error: &EvalError) -> usize {
        self.command_at(error.offset as usize)
    }

    /// Index of the last command that begins at or before an offset.
    fn command_at(&self, offset: usize) -> usize {
        let behind = self
            .commands
            .partition_point(|command| command.offset as usize <= offset);
        behind.saturating_sub(1)
    }

    /// What was not UTF-8 in the file, and is replaced here, does no harm in comments between commands; in a
    /// command something else would be sent.
    pub(crate) fn check_replaced(&self) -> Result<(), Error> {
        for command in &self.commands {
            let text = match &command.kind {
                CommandKind::Sql(sql) => &sql.text,
                _ => &command.first_line,
            };
            if text.contains(char::REPLACEMENT_CHARACTER) {
                let start = command.offset as usize;
                let found = self.source[start..].find(char::REPLACEMENT_CHARACTER);
                let offset = start + found.unwrap_or(0);
                return Err(Box::new(self.error(Problem::NotUtf8, offset)).into());
            }
        }
        Ok(())
    }

    /// A problem at an offset of the source.
    pub(crate) fn error(&self, problem: Problem, offset: usize) -> ScriptError {
        let command = self.commands.get(self.command_at(offset));
        ScriptError {
            place: Place::new(&self.name, &self.source, offset),
            problem,
            command: command.and_then(Command::name).map(str::to_owned),
        }
    }

    /// A problem of the command at `index`.
    pub(crate) fn command_error(&self, problem: Problem, index: usize) -> ScriptError {
        self.error(problem, self.commands[index].offset as usize)
    }

    /// A problem at a byte of the text of the SQL command at `index`.
    pub(crate) fn sql_error(&self, problem: Problem, index: usize, byte: usize) -> ScriptError {
        let Command { offset, kind, .. } = &self.commands[index];
        let text = match kind {
            CommandKind::Sql(sql) => sql.text.as_bytes(),
            _ => &[],
        };
        let source = self.source.as_bytes();
        let mut at = *offset as usize;
        // Of `\;` and `\:` the text lacks the backslash.
        let escaped = |at: usize, byte| source.get(at) == Some(&b'\\') && byte != b'\\';
        for &byte in text.iter().take(byte) {
            at += 1 + usize::from(escaped(at, byte));
        }
        at += usize::from(text.get(byte).is_some_and(|&byte| escaped(at, byte)));
        self.error(problem, at)
    }
}

impl Command {
    /// Its name without the backslash; `None` for SQL.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.kind {
            CommandKind::Sql(_) => return None,
            CommandKind::Set(..) => "set",
            CommandKind::SetShell(..) => "setshell",
            CommandKind::Shell(_) => "shell",
            CommandKind::Sleep(_) => "sleep",
            CommandKind::If { .. } => "if",
            CommandKind::Elif { .. } => "elif",
            CommandKind::Else { .. } => "else",
            CommandKind::Endif => "endif",
            CommandKind::StartPipeline => "startpipeline",
            CommandKind::SyncPipeline => "syncpipeline",
            CommandKind::EndPipeline => "endpipeline",
        })
    }
}

/// Parses a script. `statements` counts the SQL commands of all scripts.
pub(crate) fn parse(
    name: &str,
    weight: u32,
    source: &str,
    names: &mut Names,
    statements: &mut usize,
) -> Result<Script, Error> {
    if source.len() > MAX_SIZE {
        return Err(Error::TooLarge(name.to_owned()));
    }
    let mut script = Script {
        name: name.into(),
        weight,
        commands: Vec::new(),
        source: source.into(),
    };
    let failed = |script: &Script, problem, offset, command| {
        let place = Place::new(&script.name, &script.source, offset);
        Error::Script(Box::new(ScriptError {
            place,
            problem,
            command,
        }))
    };
    if let Some(offset) = source.find('\0') {
        return Err(failed(&script, Problem::Nul, offset, None));
    }
    let mut scanner = Scanner::new(source);
    loop {
        let mut text = String::new();
        let stop = scanner
            .scan(&mut text)
            .map_err(|(problem, offset)| failed(&script, problem, offset, None))?;
        if !text.is_empty() {
            let first_line = first_line(&text).to_owned();
            let sql = Sql::new(text, names, *statements);
            *statements += 1;
            script.push(scanner.start, first_line, CommandKind::Sql(sql));
        }
        match stop {
            Stop::Semicolon => {}
            Stop::End => break,
            Stop::Backslash => {
                let start = scanner.offset - 1;
                let (meta, end) = meta::parse(source, scanner.offset, names)
                    .map_err(|e| failed(&script, e.problem, e.offset, Some(e.command)))?;
                scanner.offset = end;
                let line = source[start..end].trim_end_matches(['\n', '\r']).to_owned();
                if let Some(meta) = meta {
                    script
                        .add(start, line, meta)
                        .map_err(|problem| failed(&script, problem, start, None))?;
                }
            }
        }
    }
    if script.commands.is_empty() {
        return Err(Error::Empty(name.to_owned()));
    }
    check::resolve_conditionals(&mut script.commands)
        .map_err(|(problem, index)| Box::new(script.command_error(problem, index)))?;
    Ok(script)
}

/// The first line of SQL, cut to what results show.
fn first_line(text: &str) -> &str {
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    &line[..line.floor_char_boundary(FIRST_LINE_SIZE)]
}

impl Script {
    fn push(&mut self, offset: usize, first_line: String, kind: CommandKind) {
        let line = self.commands.last().map_or(1, |last| last.line);
        let from = self.commands.last().map_or(0, |last| last.offset as usize);
        let newlines = self.source[from..offset]
            .bytes()
            .filter(|&byte| byte == b'\n')
            .count();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "scripts are smaller than 4 GB"
        )]
        let (line, offset) = (line + newlines as u32, offset as u32);
        self.commands.push(Command {
            line,
            first_line,
            kind,
            offset,
        });
    }

    /// Adds a backslash command, or what it says to the SQL command before it. Where conditionals
    /// lead is found out when all are there.
    fn add(&mut self, offset: usize, line: String, meta: Meta) -> Result<(), Problem> {
        let kind = match meta {
            Meta::Capture(capture) => {
                let name = match capture.kind {
                    CaptureKind::Gset => "gset",
                    CaptureKind::Aset => "aset",
                };
                return match self.commands.last_mut().map(|command| &mut command.kind) {
                    Some(CommandKind::Sql(sql)) if sql.capture.is_none() => {
                        sql.capture = Some(capture);
                        Ok(())
                    }
                    _ => Err(Problem::NoSqlCommand(name)),
                };
            }
            Meta::Set(slot, expr) => CommandKind::Set(slot, expr),
            Meta::SetShell(slot, shell) => CommandKind::SetShell(slot, shell),
            Meta::Shell(shell) => CommandKind::Shell(shell),
            Meta::Sleep(time) => CommandKind::Sleep(time),
            Meta::If(condition) => CommandKind::If {
                condition,
                otherwise: 0,
            },
            Meta::Elif(condition) => CommandKind::Elif {
                condition,
                otherwise: 0,
                end: 0,
            },
            Meta::Else => CommandKind::Else { end: 0 },
            Meta::Endif => CommandKind::Endif,
            Meta::StartPipeline => CommandKind::StartPipeline,
            Meta::SyncPipeline => CommandKind::SyncPipeline,
            Meta::EndPipeline => CommandKind::EndPipeline,
        };
        self.push(offset, line, kind);
        Ok(())
    }
}

//! Checks that need a whole script: conditionals that match, pipelines that open and close.

use crate::error::{Problem, ScriptError};
use crate::script::{Command, CommandKind, Script};
use crate::sql::CaptureKind;
use std::fmt;
use std::str::FromStr;

/// How SQL is sent (`-M`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// One `Query` message, variables substituted.
    #[default]
    Simple,
    /// `Parse`, `Bind` and `Execute` each time.
    Extended,
    /// `Parse` once, then `Bind` and `Execute`.
    Prepared,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        })
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "simple" => Ok(Self::Simple),
            "extended" => Ok(Self::Extended),
            "prepared" => Ok(Self::Prepared),
            _ => Err(format!(
                "invalid query mode (-M): \"{name}\"; use simple, extended or prepared"
            )),
        }
    }
}

/// Finds out where each conditional leads; gives a problem and the index of its command.
pub(crate) fn resolve_conditionals(commands: &mut [Command]) -> Result<(), (Problem, usize)> {
    // Of each open \if: the indexes of its conditionals so far, and whether \else was there.
    let mut open: Vec<(Vec<usize>, bool)> = Vec::new();
    for index in 0..commands.len() {
        let wrong = |what| Err((Problem::Conditional(what), index));
        match (&commands[index].kind, open.last_mut()) {
            (CommandKind::If { .. }, _) => open.push((vec![index], false)),
            (CommandKind::Elif { .. }, None) => return wrong("\\elif without matching \\if"),
            (CommandKind::Elif { .. }, Some((_, true))) => return wrong("\\elif after \\else"),
            (CommandKind::Elif { .. }, Some((chain, false))) => chain.push(index),
            (CommandKind::Else { .. }, None) => return wrong("\\else without matching \\if"),
            (CommandKind::Else { .. }, Some((_, true))) => return wrong("\\else after \\else"),
            (CommandKind::Else { .. }, Some((chain, has_else))) => {
                chain.push(index);
                *has_else = true;
            }
            (CommandKind::Endif, None) => return wrong("\\endif without matching \\if"),
            (CommandKind::Endif, Some((chain, _))) => {
                chain.push(index);
                link(commands, chain);
                open.pop();
            }
            _ => {}
        }
    }
    match open.last() {
        None => Ok(()),
        Some((chain, _)) => Err((
            Problem::Conditional("\\if without matching \\endif"),
            chain[0],
        )),
    }
}

/// Links the conditionals from one `\if` to its `\endif`.
fn link(commands: &mut [Command], chain: &[usize]) {
    let Some(&last) = chain.last() else { return };
    for pair in chain.windows(2) {
        match &mut commands[pair[0]].kind {
            CommandKind::If { otherwise, .. } => *otherwise = pair[1],
            CommandKind::Elif { otherwise, end, .. } => {
                *otherwise = pair[1];
                *end = last;
            }
            CommandKind::Else { end } => *end = last,
            _ => {}
        }
    }
}

/// What is wrong with a script under a protocol, of what shows without running it.
pub(crate) fn check(script: &Script, protocol: Protocol) -> Result<(), ScriptError> {
    for (index, command) in script.commands.iter().enumerate() {
        if let CommandKind::Sql(sql) = &command.kind
            && protocol != Protocol::Simple
            && let Some(problem) = sql.too_many_parameters()
        {
            return Err(script.command_error(problem, index));
        }
    }
    check_pipelines(script, protocol)
}

/// Follows the pipeline through the commands that every execution reaches. One that is opened or
/// closed under a condition is left to the run.
fn check_pipelines(script: &Script, protocol: Protocol) -> Result<(), ScriptError> {
    // The command that opened the pipeline; the outer None stands for "not known".
    let mut opened: Option<Option<usize>> = Some(None);
    let mut conditions = 0_u32;
    for (index, command) in script.commands.iter().enumerate() {
        let is_pipeline = matches!(
            command.kind,
            CommandKind::StartPipeline | CommandKind::SyncPipeline | CommandKind::EndPipeline
        );
        match command.kind {
            CommandKind::If { .. } => conditions += 1,
            CommandKind::Endif => conditions -= 1,
            _ if conditions > 0 && is_pipeline => opened = None,
            _ => {}
        }
        if conditions > 0 {
            continue;
        }
        let problem = match (&command.kind, opened) {
            (CommandKind::StartPipeline, _) if protocol == Protocol::Simple => {
                Some("cannot use pipeline mode with the simple query protocol")
            }
            (CommandKind::StartPipeline, Some(Some(_))) => Some("already in pipeline mode"),
            (CommandKind::SyncPipeline | CommandKind::EndPipeline, Some(None)) => {
                Some("not in pipeline mode")
            }
            (CommandKind::Sql(sql), Some(Some(_))) => {
                sql.capture.as_ref().map(|capture| match capture.kind {
                    CaptureKind::Gset => "\\gset is not allowed in pipeline mode",
                    CaptureKind::Aset => "\\aset is not allowed in pipeline mode",
                })
            }
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(script.command_error(Problem::Pipeline(problem), index));
        }
        match command.kind {
            CommandKind::StartPipeline => opened = Some(Some(index)),
            CommandKind::EndPipeline => opened = Some(None),
            _ => {}
        }
    }
    match opened {
        Some(Some(index)) => Err(script.command_error(
            Problem::Pipeline("end of script reached with pipeline open"),
            index,
        )),
        _ => Ok(()),
    }
}

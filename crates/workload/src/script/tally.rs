//! What is counted of scripts beside what the emulator counts of every kind.

use super::Client;
use crate::Tally;
use crate::times::Times;

/// Counts by script, in the program's order; scripts without any may be missing at the end.
#[derive(Debug, Clone, Default)]
pub struct ScriptTally {
    /// One each.
    pub scripts: Vec<ScriptCounts>,
}

/// Counts of one script.
#[derive(Debug, Clone, Default)]
pub struct ScriptCounts {
    /// Transactions with more than one try.
    pub retried: u64,
    /// One for each command; those without any may be missing at the end.
    pub commands: Vec<CommandCounts>,
}

/// Counts of one command.
#[derive(Debug, Clone, Default)]
pub struct CommandCounts {
    /// What it took each time that it was done; none if it was never timed.
    pub times: Option<Times>,
    /// Transactions that ended in a failure to serialize or a deadlock here.
    pub failures: u64,
    /// Tries that ended so here and were followed by another.
    pub retries: u64,
}

impl ScriptTally {
    /// Counts of one command of a script; none if it was never reached.
    #[must_use]
    pub fn command(&self, script: usize, command: usize) -> Option<&CommandCounts> {
        self.scripts.get(script)?.commands.get(command)
    }

    /// Adds one transaction.
    pub(super) fn add(&mut self, script: usize, client: &Client, executed: bool) {
        let counts = at(&mut self.scripts, script);
        counts.retried += u64::from(client.tries > 1);
        for &(command, ns) in &client.spent {
            let counts = at(&mut counts.commands, command);
            counts.times.get_or_insert_default().record(ns);
        }
        for (number, &command) in (1..).zip(&client.failed) {
            let counts = at(&mut counts.commands, command);
            if executed || number < client.tries {
                counts.retries += 1;
            } else {
                counts.failures += 1;
            }
        }
    }
}

impl Tally for ScriptTally {
    fn merge(&mut self, other: Self) {
        for (script, theirs) in other.scripts.into_iter().enumerate() {
            let mine = at(&mut self.scripts, script);
            mine.retried += theirs.retried;
            for (command, theirs) in theirs.commands.into_iter().enumerate() {
                let mine = at(&mut mine.commands, command);
                if let Some(times) = &theirs.times {
                    mine.times.get_or_insert_default().merge(times);
                }
                mine.failures += theirs.failures;
                mine.retries += theirs.retries;
            }
        }
    }
}

/// The element at `index`, made if it is not there.
fn at<T: Clone + Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

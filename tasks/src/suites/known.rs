//! What is known not to pass, and why.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Reasons, by suite, mode and test.
#[derive(Debug)]
pub(crate) struct Known<'a>(BTreeMap<[&'a str; 3], &'a str>);

impl<'a> Known<'a> {
    /// Reads lines `= why` and, behind each, lines `suite mode test`.
    pub(crate) fn read(text: &'a str) -> Result<Self> {
        let mut found = BTreeMap::new();
        let mut why = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(reason) = line.strip_prefix("= ") {
                why = Some(reason);
                continue;
            }
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next().with_context(|| format!("known.txt: {line}"));
            let key = [next()?, next()?, next()?];
            found.insert(
                key,
                why.with_context(|| format!("known.txt: no reason for {line}"))?,
            );
        }
        Ok(Self(found))
    }

    /// Why this test does not pass in this mode, if that is known.
    pub(crate) fn why(&self, suite: &str, mode: &str, test: &str) -> Option<&'a str> {
        self.0.get(&[suite, mode, test]).copied()
    }

    /// All that is known not to pass in this mode.
    pub(crate) fn of(&self, suite: &str, mode: &str) -> Vec<&'a str> {
        let these = self.0.keys().filter(|key| key[..2] == [suite, mode]);
        these.map(|key| key[2]).collect()
    }
}

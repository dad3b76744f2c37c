//! What a check of the data found.

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// It was not asked for, and why.
    Skip(String),
}

/// A consistency condition and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// Its number: `1` to `12` as in TPC-C's clause 3.3.2, ….
    pub condition: &'static str,
    /// What must hold.
    pub title: &'static str,
    /// Where the standard says so; empty where no standard does.
    pub clause: &'static str,
    /// Whether it does.
    pub verdict: Verdict,
    /// Where it does not: up to ten rows or groups, each with its key and what was found.
    pub offending: Vec<String>,
    /// How many there are.
    pub offending_count: u64,
}

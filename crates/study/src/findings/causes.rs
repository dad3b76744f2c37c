//! Why one side is faster: what changed with it, ordered by how much of the difference it accounts for.
//!
//! 1. The differences of the parts of a transaction's time add up to the whole difference ([`super::time`]).
//! 2. A part is explained by the amount of work that fills it, if that amount changed in the part's direction; of several,
//!    by the one that changed by the largest factor ([`filled_by`]).
//! 3. A part without such an amount is explained by another server version or build, if there is one; otherwise it
//!    stands for itself.
//! 4. Queues (for processors, for locks, and the driver's) follow what fills the time of those ahead in them: they are
//!    explained by the largest cause, if the rest of the time changed in the same direction by a similar factor.
//!
//! Nothing is named unless throughput or the mean response differs, and the first cause's own interval excludes 0.

use super::evidence;
use super::time::{Part, TimeAccount, TimePart};
use super::work::{Amount, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tenbin_record::Run;
use tenbin_stats::{CONFIDENCE, holm};

/// What may explain a part of the time.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// An amount of work changed.
    Work(Work),
    /// The server's version or build differs, and the amounts of work do not explain the part.
    ServerProgram,
    /// Nothing that is known fills this part.
    Part(Part),
}

/// A cause and how much of the difference it accounts for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// What.
    pub kind: CauseKind,
    /// The same in words.
    pub title: String,
    /// The parts of the time that it explains; empty where the times do not differ.
    pub parts: Vec<Part>,
    /// Sum of their differences, milliseconds per transaction; none where the times do not differ.
    pub difference_ms: Option<f64>,
    /// That sum as a share of the whole difference: above 1 where another cause works against it, below 0 for that one.
    pub share: Option<f64>,
    /// Observations that support it, one sentence each.
    pub evidence: Vec<String>,
}

/// Causes in order, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Causes {
    /// The largest first.
    pub found: Vec<Cause>,
    /// What the list says, in a sentence.
    pub sentence: String,
}

/// Amounts of work that fill a part, and whether more of them makes it longer (1) or shorter (-1).
fn filled_by(part: Part) -> &'static [(Work, f64)] {
    match part {
        Part::Wal => &[
            (Work::Flushes, 1.0),
            (Work::Checkpoints, 1.0),
            (Work::ImageBytes, 1.0),
            (Work::WalRecords, 1.0),
        ],
        Part::DataRead => &[(Work::RowsScanned, 1.0), (Work::BuffersRead, 1.0)],
        Part::DataWrite => &[(Work::BuffersRead, 1.0), (Work::Checkpoints, 1.0)],
        Part::Cpu | Part::LightweightLock | Part::AtWork => &[
            (Work::RowsScanned, 1.0),
            (Work::BuffersUsed, 1.0),
            (Work::BuffersRead, 1.0),
            (Work::Checkpoints, 1.0),
            // Smaller images cost the work of compressing them.
            (Work::ImageBytes, -1.0),
            (Work::WalRecords, 1.0),
        ],
        _ => &[],
    }
}

/// Parts in which transactions wait for each other or for the driver.
const QUEUES: [Part; 3] = [Part::RunQueue, Part::Lock, Part::Client];
/// The rest of the time has to change by at least this power of the factor of a queue to explain it.
const FOLLOWS: f64 = 0.5;
/// Chance of a false call that is accepted.
const ALPHA: f64 = 1.0 - CONFIDENCE;

/// What the account and the amounts say of the pairs. `differs`: whether throughput or the mean response does.
pub(crate) fn causes(
    pairs: &[[&Run; 2]],
    account: Option<&TimeAccount>,
    amounts: &[Amount],
    differs: bool,
) -> Causes {
    let account =
        account.filter(|account| differs && excludes_zero(account.low_ms, account.high_ms));
    let Some(account) = account else {
        return without_difference(pairs, amounts, differs);
    };
    let explained = explain(pairs, account, amounts);
    let mut found: Vec<Cause> = explained
        .into_iter()
        .map(|(kind, parts)| cause(kind, &parts, account, pairs, amounts))
        .collect();
    let contribution = |cause: &Cause| cause.share.unwrap_or(0.0);
    found.sort_by(|x, y| contribution(y).total_cmp(&contribution(x)));
    found.retain(|cause| contribution(cause).abs() >= SMALLEST_SHARE);
    let certain = found
        .first()
        .is_some_and(|first| is_certain(first, account));
    if !certain {
        let sentence =
            "No cause found: no part of the time differs with certainty. More pairs may show one.";
        return Causes {
            found: Vec::new(),
            sentence: sentence.to_owned(),
        };
    }
    Causes {
        sentence: told(&found),
        found,
    }
}

/// Shares of the difference below this are left out.
const SMALLEST_SHARE: f64 = 0.05;

/// The largest of a cause's parts differs by itself.
fn is_certain(first: &Cause, account: &TimeAccount) -> bool {
    let of = |part: &&TimePart| first.parts.contains(&part.part);
    account
        .parts
        .iter()
        .filter(of)
        .any(|part| part.differs() && (part.difference_ms > 0.0) == (account.difference_ms > 0.0))
}

/// Which parts each cause explains.
fn explain(
    pairs: &[[&Run; 2]],
    account: &TimeAccount,
    amounts: &[Amount],
) -> BTreeMap<CauseKind, Vec<Part>> {
    let other_program = evidence::other_program(pairs).is_some();
    let mut explained: BTreeMap<CauseKind, Vec<Part>> = BTreeMap::new();
    let (queues, others): (Vec<&TimePart>, Vec<&TimePart>) = account
        .parts
        .iter()
        .partition(|part| QUEUES.contains(&part.part));
    for part in &others {
        let kind = match fills(part, amounts) {
            Some(work) => CauseKind::Work(work),
            None if other_program => CauseKind::ServerProgram,
            None => CauseKind::Part(part.part),
        };
        explained.entry(kind).or_default().push(part.part);
    }
    let sum = |parts: &[&TimePart], of: fn(&TimePart) -> f64| {
        parts.iter().map(|part| of(part)).sum::<f64>()
    };
    let rest = (sum(&others, |part| part.b_ms) / sum(&others, |part| part.a_ms)).ln();
    for queue in &queues {
        let own = (queue.b_ms / queue.a_ms).ln();
        let follows = rest * own > 0.0 && rest.abs() >= FOLLOWS * own.abs();
        let ahead = largest(&explained, account, queue.difference_ms).filter(|_| follows);
        let kind = ahead.unwrap_or(CauseKind::Part(queue.part));
        explained.entry(kind).or_default().push(queue.part);
    }
    explained
}

/// The amount that explains a part: changed, in its direction, and by the largest factor.
fn fills(part: &TimePart, amounts: &[Amount]) -> Option<Work> {
    let fitting = filled_by(part.part).iter().filter_map(|(work, direction)| {
        let amount = amounts.iter().find(|amount| amount.work == *work)?;
        let fits = amount.changed(ALPHA) && amount.change * direction * part.difference_ms > 0.0;
        (fits && !follows(amount, amounts)).then_some(amount)
    });
    fitting
        .max_by(|x, y| x.change.abs().total_cmp(&y.change.abs()))
        .map(|amount| amount.work)
}

/// Checkpoints that the volume of the log brings on follow from what makes the log larger.
fn follows(amount: &Amount, amounts: &[Amount]) -> bool {
    amount.work == Work::Checkpoints
        && amounts.iter().any(|other| {
            let larger = matches!(other.work, Work::ImageBytes | Work::WalRecords);
            larger && other.changed(ALPHA) && other.change * amount.change > 0.0
        })
}

/// The cause that explains most so far, in the direction of a difference.
fn largest(
    explained: &BTreeMap<CauseKind, Vec<Part>>,
    account: &TimeAccount,
    direction: f64,
) -> Option<CauseKind> {
    let sums = explained
        .iter()
        .map(|(kind, parts)| (*kind, sum_of(parts, account)));
    sums.filter(|(_, sum)| sum * direction > 0.0)
        .max_by(|x, y| x.1.abs().total_cmp(&y.1.abs()))
        .map(|(kind, _)| kind)
}

fn sum_of(parts: &[Part], account: &TimeAccount) -> f64 {
    let of = |part: &&TimePart| parts.contains(&part.part);
    account
        .parts
        .iter()
        .filter(of)
        .map(|part| part.difference_ms)
        .sum()
}

fn cause(
    kind: CauseKind,
    parts: &[Part],
    account: &TimeAccount,
    pairs: &[[&Run; 2]],
    amounts: &[Amount],
) -> Cause {
    let difference_ms = sum_of(parts, account);
    let of = |part: &&TimePart| parts.contains(&part.part);
    let times = account.parts.iter().filter(of).map(evidence::of_time);
    Cause {
        kind,
        title: evidence::title(kind, difference_ms, pairs, amounts),
        parts: parts.to_vec(),
        difference_ms: Some(difference_ms),
        share: Some(difference_ms / account.difference_ms),
        evidence: evidence::of(kind, parts, pairs, amounts)
            .into_iter()
            .chain(times)
            .collect(),
    }
}

/// Where the sides are not known to differ in speed: which amounts differ nonetheless, corrected for their number.
fn without_difference(pairs: &[[&Run; 2]], amounts: &[Amount], differs: bool) -> Causes {
    let corrected = holm(&amounts.iter().map(|amount| amount.p).collect::<Vec<_>>());
    let changed = amounts.iter().zip(corrected);
    let changed = changed
        .filter(|(amount, p)| amount.changed(ALPHA) && *p < ALPHA && !follows(amount, amounts));
    let mut changed: Vec<&Amount> = changed.map(|(amount, _)| amount).collect();
    changed.sort_by(|x, y| y.change.abs().total_cmp(&x.change.abs()));
    let found = changed.into_iter().map(|amount| {
        let kind = CauseKind::Work(amount.work);
        Cause {
            kind,
            title: evidence::title(kind, 0.0, pairs, amounts),
            parts: Vec::new(),
            difference_ms: None,
            share: None,
            evidence: evidence::of(kind, &[], pairs, amounts),
        }
    });
    let found: Vec<Cause> = found.collect();
    let why = if differs {
        "No cause found: where the time of a transaction goes was not observed, or does not differ with certainty."
    } else {
        "No cause found: neither throughput nor the mean response is known to differ."
    };
    let sentence = match found.as_slice() {
        [] => why.to_owned(),
        [first, ..] => format!("{why} The amounts of work differ: {}.", first.title),
    };
    Causes { found, sentence }
}

fn excludes_zero(low: Option<f64>, high: Option<f64>) -> bool {
    low.zip(high)
        .is_some_and(|(low, high)| low > 0.0 || high < 0.0)
}

fn told(found: &[Cause]) -> String {
    let Some(first) = found.first() else {
        return String::new();
    };
    let share = first.share.unwrap_or(0.0);
    let share = if share > 1.0 {
        "more than the whole difference, because other causes work against it".to_owned()
    } else {
        format!("{:.0} % of the difference", 100.0 * share)
    };
    format!("Main cause: {}; it accounts for {share}.", first.title)
}

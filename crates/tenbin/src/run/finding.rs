//! What checks found, for people.

use crate::exit::{Answer, Result};
use tenbin_record::{Check, Verdict};
use tenbin_workload::check::{self, CheckResult};

/// Prints the findings, as JSON if so asked, and answers whether all is well.
pub(crate) fn print(checks: &[Check], json: bool) -> Result<Answer> {
    if json {
        println!("{}", serde_json::to_string_pretty(checks)?);
    } else {
        checks.iter().for_each(print_one);
    }
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(if failed { Answer::No } else { Answer::Yes })
}

fn print_one(check: &Check) {
    println!(
        "{}  {:>3}  {}",
        check.verdict.name(),
        check.condition,
        check.title
    );
    if let Some(note) = &check.note {
        println!("           {note}");
    }
    for key in &check.offending {
        println!("           {key}");
    }
    let more = check
        .offending_count
        .saturating_sub(check.offending.len() as u64);
    if more > 0 {
        println!("           and {more} more");
    }
}

/// As `run.json` has it.
pub(crate) fn recorded(result: CheckResult) -> Check {
    let (verdict, note) = match result.verdict {
        check::Verdict::Pass => (Verdict::Pass, None),
        check::Verdict::Fail => (Verdict::Fail, None),
        check::Verdict::Skip(why) => (Verdict::Skip, Some(why)),
    };
    Check {
        condition: result.condition.to_owned(),
        title: match result.clause {
            "" => result.title.to_owned(),
            clause => format!("{} ({clause})", result.title),
        },
        verdict,
        offending: result.offending,
        offending_count: result.offending_count,
        note,
    }
}

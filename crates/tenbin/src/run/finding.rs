//! What checks found, for people.

use crate::exit::{Answer, Result};
use tenbin_record::{Check, Verdict};

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
    let verdict = match check.verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Skip => "SKIP",
    };
    println!("{verdict}  {:>3}  {}", check.condition, check.title);
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

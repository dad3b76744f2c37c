//! A run as Markdown.

use crate::parts;
use crate::table::{Table, Tone, code_span, escape_markdown};
use crate::words;
use std::fmt::Write as _;
use tenbin_record::Run;

/// The report of a run as GitHub-flavoured Markdown: everything of the page but its charts.
#[must_use]
pub fn markdown(run: &Run) -> String {
    if let Some(tpch) = &run.result.tpch {
        return crate::tpch::markdown(run, tpch);
    }
    let mut out = format!("# {}\n\n", escape_markdown(&words::title(run)));
    let sentences = words::verdict(run).into_iter().map(|sentence| {
        let strong = if sentence.tone == Tone::Bad { "**" } else { "" };
        format!("{strong}{}{strong}", escape_markdown(&sentence.text))
    });
    out.push_str(&sentences.collect::<Vec<_>>().join(" "));
    out.push('\n');
    for warning in words::warnings(run) {
        let _ = write!(out, "\n> **Warning:** {}\n", escape_markdown(&warning));
    }
    let mut section = |title: &str, table: Table| {
        if !table.rows.is_empty() {
            let _ = write!(out, "\n## {title}\n\n{}", table.markdown());
        }
    };
    section(
        "Response times in milliseconds",
        parts::transactions(run, true),
    );
    section(
        "Single commands, milliseconds",
        parts::statements(run, true),
    );
    section("Audit", parts::audit(run));
    for note in words::audit_notes(run, |_| true) {
        let _ = write!(out, "\n{}\n", escape_markdown(note));
    }
    let mut section = |title: &str, table: Table| {
        if !table.rows.is_empty() {
            let _ = write!(out, "\n## {title}\n\n{}", table.markdown());
        }
    };
    section("Checks", parts::checks(run));
    section("How transactions ended", parts::outcomes(run));
    section("Errors and retries", parts::errors(run));
    section("Executed later", parts::deferred(run));
    section("Keying, thinking and the menu", parts::pauses(run));
    section("Driver", parts::driver(run));
    section("Processes", parts::processes(run));
    section("What backends did and waited for", parts::backends(run));
    section("Where CPU time went", parts::modules(run));
    section("What was sampled", parts::sampled(run));
    section("Files sampled", parts::binaries(run));
    section("System calls", parts::system_calls(run));
    section("Memory", parts::memory(run));
    section("What the disks did", parts::disk_traffic(run));
    section("Network", parts::network(run));
    section("Standbys", parts::standbys(run));
    section("Log and counters", parts::observation(run));
    section("Relations, per database transaction", parts::relations(run));
    section("Cost of observation", parts::taken(run));
    section("Settings", parts::settings(run));
    section("Environment", parts::environment(run));
    section("Disks", parts::disks(run));
    let _ = write!(
        out,
        "\n## Run it again\n\n{}\n",
        code_span(&words::command(run))
    );
    out
}

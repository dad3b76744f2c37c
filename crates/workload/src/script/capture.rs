//! `\gset` and `\aset`: results that go into variables.

use tenbin_pgbench::{Capture, CaptureKind, Names, Variables};
use tenbin_wire::{Replies, Reply};

/// Puts the columns of one row, the only one of the last answer (`\gset`) or the last one of each
/// answer that has one (`\aset`), into the variables that scripts read. The error is what pgbench says.
pub(super) fn capture(
    capture: &Capture,
    replies: Replies<'_>,
    names: &Names,
    variables: &mut Variables,
) -> Result<(), String> {
    match capture.kind {
        CaptureKind::Gset => {
            let last = replies.last();
            let rows = last.as_ref().map_or(0, rows);
            match last {
                Some(reply) if rows == 1 => store(capture, reply, names, variables),
                _ => Err(format!("expected one row, got {rows}")),
            }
        }
        CaptureKind::Aset => {
            for reply in replies {
                store(capture, reply, names, variables)?;
            }
            Ok(())
        }
    }
}

fn rows(reply: &Reply<'_>) -> usize {
    let mut reply = reply.clone();
    std::iter::from_fn(|| reply.row()).count()
}

/// Stores the last row, if there is one.
fn store(
    capture: &Capture,
    mut reply: Reply<'_>,
    names: &Names,
    variables: &mut Variables,
) -> Result<(), String> {
    let columns: Vec<&str> = reply.columns().collect();
    let mut last = None;
    while let Some(row) = reply.row() {
        last = Some(row);
    }
    let Some(row) = last else {
        return Ok(());
    };
    for (index, column) in columns.into_iter().enumerate() {
        let slot = capture
            .slot(names, column)
            .map_err(|name| format!("error storing into variable {name}"))?;
        let value = row.raw(index).map_err(|error| error.to_string())?;
        if let Some(slot) = slot {
            variables.set_text(slot, &String::from_utf8_lossy(value.unwrap_or_default()));
        }
    }
    Ok(())
}

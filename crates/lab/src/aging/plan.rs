//! Plans: those that the source had, and no other.

use crate::{Error, Result};
use postgres::{Client, SimpleQueryMessage};
use serde_json::Value;
use tenbin_record::aging::{Mode, Query};

/// What keeps today's planner from plans that the source did not have. The source says that (B) read
/// parts of both tables through their indexes and joined them by a nested loop; that it read PART
/// itself and not its index alone follows from the 3.71 GB it read, which is the size of PART there.
const STEERING: [&str; 5] = [
    "enable_hashjoin",
    "enable_mergejoin",
    "enable_bitmapscan",
    "enable_indexonlyscan",
    "enable_memoize",
];

/// Sets up a session of a server of this version (`server_version_num`) for `mode`.
pub(super) fn steer(client: &mut Client, mode: Mode, version: u32) -> Result<()> {
    let known = STEERING
        .into_iter()
        .filter(|name| *name != "enable_memoize" || version >= 140_000);
    let mut settings: Vec<String> = known.map(|name| format!("SET {name} = off")).collect();
    // Compiling reads a compiler from the disk, the same for both databases.
    settings.extend((version >= 110_000).then(|| "SET jit = off".to_owned()));
    if mode == Mode::Serial {
        settings.push("SET max_parallel_workers_per_gather = 0".to_owned());
    }
    Ok(client.batch_execute(&settings.join("; "))?)
}

/// The plan of `text`, if it is the source's of `query`.
pub(super) fn expect(client: &mut Client, query: Query, text: &str) -> Result<String> {
    let explained = client.simple_query(&format!("EXPLAIN (FORMAT JSON, COSTS off) {text}"))?;
    let row = explained.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let explained: Value = serde_json::from_str(row.unwrap_or_default()).unwrap_or_default();
    let plan = &explained[0]["Plan"];
    let shown = describe(plan);
    if is_the_sources(query, plan) {
        return Ok(shown);
    }
    let wanted = match query {
        Query::A => "a sequential scan of lineitem",
        Query::B => "a nested loop over index scans of lineitem and part",
    };
    Err(Error::OtherPlan {
        query: query.name(),
        shown,
        wanted,
    })
}

fn node(plan: &Value) -> &str {
    plan["Node Type"].as_str().unwrap_or("nothing")
}

fn children(plan: &Value) -> &[Value] {
    plan["Plans"].as_array().map_or(&[], Vec::as_slice)
}

/// Below the nodes that add up, and those that gather what several processes did.
fn core(plan: &Value) -> &Value {
    match (node(plan), children(plan)) {
        ("Aggregate" | "Gather", [only]) => core(only),
        _ => plan,
    }
}

fn is_the_sources(query: Query, plan: &Value) -> bool {
    let is = |plan: &Value, wanted: &str, table: &str| {
        node(plan) == wanted && plan["Relation Name"] == table && children(plan).is_empty()
    };
    let core = core(plan);
    match (query, children(core)) {
        (Query::A, _) => is(core, "Seq Scan", "lineitem"),
        (Query::B, [outer, inner]) => {
            node(core) == "Nested Loop"
                && is(outer, "Index Scan", "lineitem")
                && is(inner, "Index Scan", "part")
        }
        (Query::B, _) => false,
    }
}

/// `Aggregate > Nested Loop (Index Scan of lineitem by lineitem_pkey, Index Scan of part by part_pkey)`.
fn describe(plan: &Value) -> String {
    let text = |name: &str| plan[name].as_str();
    let mut shown = String::new();
    if plan["Parallel Aware"] == true {
        shown.push_str("Parallel ");
    }
    shown.push_str(node(plan));
    if let Some(table) = text("Relation Name") {
        shown = format!("{shown} of {table}");
    }
    if let Some(index) = text("Index Name") {
        shown = format!("{shown} by {index}");
    }
    let below: Vec<String> = children(plan).iter().map(describe).collect();
    match below.as_slice() {
        [] => shown,
        [only] => format!("{shown} > {only}"),
        several => format!("{shown} ({})", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scan(of: &str, table: &str) -> Value {
        json!({"Node Type": of, "Relation Name": table})
    }

    fn under(nodes: &[&str], plan: Value) -> Value {
        nodes
            .iter()
            .rev()
            .fold(plan, |below, of| json!({"Node Type": of, "Plans": [below]}))
    }

    fn join(of: &str, outer: &Value, inner: &Value) -> Value {
        json!({"Node Type": of, "Plans": [outer, inner]})
    }

    #[test]
    fn only_the_sources_plans_are_taken() {
        let index = |table| scan("Index Scan", table);
        let nested = || join("Nested Loop", &index("lineitem"), &index("part"));
        let taken = [
            (
                Query::A,
                under(&["Aggregate"], scan("Seq Scan", "lineitem")),
            ),
            (
                Query::A,
                under(
                    &["Aggregate", "Gather", "Aggregate"],
                    scan("Seq Scan", "lineitem"),
                ),
            ),
            (Query::B, under(&["Aggregate"], nested())),
            (
                Query::B,
                under(&["Aggregate", "Gather", "Aggregate"], nested()),
            ),
        ];
        for (query, plan) in taken {
            assert!(is_the_sources(query, &plan), "{}", describe(&plan));
        }
        let refused = [
            (Query::A, under(&["Aggregate"], scan("Seq Scan", "orders"))),
            (
                Query::A,
                under(&["Aggregate"], scan("Index Only Scan", "lineitem")),
            ),
            (
                Query::B,
                under(&["Aggregate"], scan("Seq Scan", "lineitem")),
            ),
            (
                Query::B,
                join(
                    "Hash Join",
                    &index("lineitem"),
                    &under(&["Hash"], scan("Seq Scan", "part")),
                ),
            ),
            (
                Query::B,
                join(
                    "Nested Loop",
                    &index("lineitem"),
                    &scan("Index Only Scan", "part"),
                ),
            ),
            (
                Query::B,
                join(
                    "Nested Loop",
                    &index("lineitem"),
                    &under(&["Memoize"], index("part")),
                ),
            ),
            (
                Query::B,
                join("Nested Loop", &index("part"), &index("lineitem")),
            ),
            (Query::B, json!(null)),
        ];
        for (query, plan) in refused {
            assert!(!is_the_sources(query, &plan), "{}", describe(&plan));
        }
    }
}

//! In what two sides differ beside their results.

use crate::comparison::Difference;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tenbin_record::Run;

/// Where a server of ours happened to be, and what a run itself changes.
const INCIDENTAL: [&str; 14] = [
    "host.disks.free_bytes",
    "server.database_size_bytes",
    "server.settings.cluster_name",
    "server.settings.config_file",
    "server.settings.data_directory",
    "server.settings.external_pid_file",
    "server.settings.hba_file",
    "server.settings.ident_file",
    "server.settings.listen_addresses",
    "server.settings.log_directory",
    "server.settings.log_file_mode",
    "server.settings.port",
    "server.settings.unix_socket_directories",
    "server.settings.unix_socket_permissions",
];

/// What follows from another version of the server, and is no choice of its own.
const OF_VERSION: [&str; 3] = [
    "server.build.text",
    "server.build.configure",
    "server.build.cflags",
];
const VERSION: &str = "server.version";

/// What is written where a run has no such entry.
const ABSENT: &str = "-";

/// Every entry in which the sides differ. Trials of one side that differ among themselves show all their values.
pub(crate) fn differences(a: &[&Run], b: &[&Run]) -> Vec<Difference> {
    let (a, b): (Vec<Entries>, Vec<Entries>) = (
        a.iter().map(|run| entries(run)).collect(),
        b.iter().map(|run| entries(run)).collect(),
    );
    let names: BTreeSet<&String> = a.iter().chain(&b).flat_map(BTreeMap::keys).collect();
    let versions_differ = values(&a, VERSION) != values(&b, VERSION);
    names
        .into_iter()
        .filter_map(|name| {
            let (of_a, of_b) = (values(&a, name), values(&b, name));
            let because = (versions_differ && follows(name, &a, &b)).then(|| VERSION.to_owned());
            (of_a != of_b).then(|| Difference {
                field: name.clone(),
                a: join(&of_a),
                b: join(&of_b),
                because,
            })
        })
        .collect()
}

/// Entries in which the trials of one side differ among themselves, but for their seeds.
pub(crate) fn within(runs: &[&Run]) -> Vec<String> {
    let entries: Vec<Entries> = runs.iter().map(|run| entries(run)).collect();
    let names: BTreeSet<&String> = entries.iter().flat_map(BTreeMap::keys).collect();
    let differ = |name: &&&String| values(&entries, name).len() > 1 && !is_drawn(name);
    names
        .iter()
        .filter(differ)
        .map(ToString::to_string)
        .collect()
}

/// The seeds, and what is drawn from them (C-Load, C-Run): repeating with others is what trials are for.
pub(crate) fn is_drawn(name: &str) -> bool {
    const DRAWN: [&str; 4] = [
        "run.seed",
        "workload.parameters.data_seed",
        "workload.parameters.c_load",
        "workload.parameters.c_run",
    ];
    DRAWN.contains(&name)
}

/// A value and whether it is the server's default.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    value: String,
    by_default: bool,
}

type Entries = BTreeMap<String, Entry>;

fn entries(run: &Run) -> Entries {
    let mut entries = Entries::new();
    let mut add = |name: &str, value: Value| flatten(name, &value, &mut entries);
    add("tenbin.version", Value::from(run.tenbin.version.as_str()));
    add("run.seed", Value::from(run.run.seed));
    add("run.ramp_up_s", Value::from(run.run.ramp_up_s));
    add("run.warmup_s", Value::from(run.run.warmup_s));
    add("run.duration_s", Value::from(run.run.duration_s));
    add("run.interrupted", Value::from(run.run.interrupted));
    add("driver.terminals", Value::from(run.driver.terminals));
    add("driver.connections", Value::from(run.driver.connections));
    add("driver.threads", Value::from(run.driver.threads));
    add("driver.stay_awake", Value::from(run.driver.stay_awake));
    // Their types are maps with text keys and finite numbers, which JSON can hold.
    add(
        "workload",
        serde_json::to_value(&run.workload).unwrap_or_default(),
    );
    add("server", server(run));
    // What is put between is one choice, where it listened none.
    let via = run.via.as_ref().map(|via| {
        let servers = via.pool_size;
        format!(
            "{} {}, {servers} server connections by {}",
            via.name, via.version, via.mode
        )
    });
    add("via", via.into());
    add("host", serde_json::to_value(&run.host).unwrap_or_default());
    entries.retain(|name, _| !INCIDENTAL.contains(&without_index(name).as_str()));
    entries
}

/// The server, with what lies elsewhere told by name: every embedded server has directories of its own.
fn server(run: &Run) -> Value {
    let mut server = run.server.clone();
    server.placement.data = None;
    server.placement.wal = server
        .placement
        .wal
        .map(|_| "a place of its own".to_owned());
    for place in server.placement.tablespaces.values_mut() {
        "a place of its own".clone_into(place);
    }
    serde_json::to_value(server).unwrap_or_default()
}

/// Names an entry by the way to it; elements of a list by their `name` or `used_for`. A setting is one entry.
fn flatten(name: &str, value: &Value, entries: &mut Entries) {
    match value {
        Value::Object(fields) if name.starts_with("server.settings.") => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
            let by_default = text("source") == "default";
            entries.insert(
                name.to_owned(),
                Entry {
                    value: text("value").to_owned(),
                    by_default,
                },
            );
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&format!("{name}.{key}"), value, entries);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                let key = ["name", "used_for"]
                    .iter()
                    .find_map(|key| value.get(key)?.as_str());
                let key = key.map_or_else(|| index.to_string(), str::to_owned);
                flatten(&format!("{name}[{key}]"), value, entries);
            }
        }
        Value::Null => {}
        Value::String(text) => insert(name, text.clone(), entries),
        other => insert(name, other.to_string(), entries),
    }
}

fn insert(name: &str, value: String, entries: &mut Entries) {
    entries.insert(
        name.to_owned(),
        Entry {
            value,
            by_default: false,
        },
    );
}

fn without_index(name: &str) -> String {
    let mut depth = 0;
    let outside = |c: &char| {
        depth += i32::from(*c == '[');
        let keep = depth == 0;
        depth -= i32::from(*c == ']');
        keep
    };
    name.chars().filter(outside).collect()
}

/// The distinct values of the trials.
fn values<'a>(trials: &'a [Entries], name: &str) -> BTreeSet<&'a str> {
    trials
        .iter()
        .map(|entries| entries.get(name).map_or(ABSENT, |entry| &entry.value))
        .collect()
}

fn join(values: &BTreeSet<&str>) -> String {
    values.iter().copied().collect::<Vec<_>>().join(" | ")
}

/// Whether a difference comes with the version: how it was built, a default, a setting that one of them lacks.
fn follows(name: &str, a: &[Entries], b: &[Entries]) -> bool {
    let of_default = |entry: Option<&Entry>| entry.is_none_or(|entry| entry.by_default);
    OF_VERSION.contains(&name)
        || (name.starts_with("server.settings.")
            && a.iter()
                .chain(b)
                .all(|entries| of_default(entries.get(name))))
}

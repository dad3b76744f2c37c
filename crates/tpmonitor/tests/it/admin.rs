//! The monitor's own database.

use crate::support::raw::{Raw, query, startup};
use crate::support::standby::{Standby, primary};
use crate::support::{Running, server};
use postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};
use std::path::Path;
use std::sync::Arc;
use tenbin_tpmonitor::{Config, Listen, Pooling, Route};

fn rows(client: &mut postgres::Client, sql: &str) -> Vec<SimpleQueryRow> {
    client
        .simple_query(sql)
        .unwrap()
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .collect()
}

#[test]
fn what_is_shown_is_what_there_is() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let (mut busy, mut other) = (monitor.raw(), monitor.raw());
    busy.send(&query("BEGIN"));
    assert_eq!(busy.tags(1), "CZ");
    assert_eq!(other.value("SELECT 1"), "1");
    for name in ["tenbin", "pgbouncer"] {
        let mut admin = monitor.config().dbname(name).connect(NoTls).unwrap();
        let pools = rows(&mut admin, "SHOW POOLS");
        assert_eq!(pools.len(), 1);
        assert_eq!(pools[0].get("sv_active"), Some("1"));
        assert_eq!(pools[0].get("cl_active"), Some("2"));
        assert_eq!(pools[0].get("pool_mode"), Some("transaction"));
        assert_eq!(rows(&mut admin, "show clients;").len(), 3);
        let servers = rows(&mut admin, "SHOW SERVERS");
        let active = servers
            .iter()
            .filter(|row| row.get("state") == Some("active"));
        assert_eq!(active.count(), 1);
        let stats = rows(&mut admin, "SHOW STATS");
        assert_eq!(stats[0].get("database"), Some("postgres"));
        assert_eq!(stats[0].get("total_query_count"), Some("2"));
        let config = rows(&mut admin, "SHOW CONFIG");
        assert!(
            config
                .iter()
                .any(|row| row.get("key") == Some("pool_size") && row.get("value") == Some("2"))
        );
        for what in ["DATABASES", "USERS", "LISTS", "VERSION", "HELP"] {
            rows(&mut admin, &format!("SHOW {what}"));
        }
        let error = admin.simple_query("SHOW NONSENSE").err().unwrap();
        assert_eq!(error.code().unwrap().code(), "42601");
        let error = admin.simple_query("RELOAD").err().unwrap();
        assert_eq!(error.code().unwrap().code(), "F0000");
    }
}

#[test]
fn paused_requests_wait_and_killed_sessions_end() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let mut client = monitor.raw();
    assert_eq!(client.value("SELECT 1"), "1");
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    admin.simple_query("PAUSE").unwrap();
    client.send(&query("SELECT 2"));
    assert_eq!(
        rows(&mut admin, "SHOW POOLS")[0].get("cl_waiting"),
        Some("1")
    );
    admin.simple_query("RESUME").unwrap();
    assert_eq!(client.tags(1), "TDCZ");
    admin.simple_query("KILL postgres").unwrap();
    assert_eq!(client.reply().field(b'C'), "57P01");
    assert_eq!(client.try_reply(), None);
    let mut next = joining(&monitor, "postgres");
    assert_eq!(shown(&mut admin, "postgres"), [true, false]);
    assert!(next.is_silent());
    admin.simple_query("RESUME postgres").unwrap();
    next.until_ready();
    assert_eq!(next.value("SELECT 3"), "3");
}

/// What is refused, in `PgBouncer`'s words and with its code.
fn refused(admin: &mut postgres::Client, command: &str) -> String {
    let error = admin.simple_query(command).err().unwrap();
    let said = error.as_db_error().unwrap();
    assert_eq!(said.code().code(), "08P01", "{said}");
    said.message().to_owned()
}

/// Sends a command that may be answered later; whatever another administrator sends now comes after it.
fn begun(monitor: &Running, command: &str) -> Raw {
    let mut admin = Raw::log_in(monitor.address, "postgres", &[("database", "tenbin")]);
    admin.send(&query(command));
    admin
}

/// Begins to log in.
fn joining(monitor: &Running, database: &str) -> Raw {
    let mut raw = Raw::open(monitor.address);
    raw.send(&startup(
        0x0003_0000,
        &[("user", "postgres"), ("database", database)],
    ));
    raw
}

/// Whether a database is paused, and disabled.
fn shown(admin: &mut postgres::Client, name: &str) -> [bool; 2] {
    let rows = rows(admin, "SHOW DATABASES");
    let row = rows.iter().find(|row| row.get("name") == Some(name));
    ["paused", "disabled"].map(|column| row.is_some_and(|row| row.get(column) == Some("1")))
}

fn servers(admin: &mut postgres::Client) -> usize {
    rows(admin, "SHOW SERVERS").len()
}

/// A server of its own, behind a monitor.
fn restartable(pooling: Pooling) -> (Standby, Running) {
    let primary = Arc::new(primary());
    let server = Standby::of(&primary);
    server.promote();
    let dsn = format!(
        "host=127.0.0.1 port={} user=postgres dbname=postgres",
        server.port
    );
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let config = Config {
        mode: pooling,
        ..Config::in_front_of(Route::parse(&dsn, Path::new("/")).unwrap(), listen)
    };
    (server, Running::configured(primary, config, None))
}

#[test]
fn a_server_restarts_behind_a_pause_and_clients_notice_nothing() {
    let (server, monitor) = restartable(Pooling::Transaction);
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let (mut busy, mut idle) = (monitor.raw(), monitor.raw());
    busy.send(&query("BEGIN; CREATE TABLE kept (a int)"));
    assert_eq!(busy.tags(1), "CCZ");
    let before = idle.value("SELECT pg_postmaster_start_time()");
    let mut waiting = begun(&monitor, "PAUSE");
    while !shown(&mut admin, "postgres")[0] {}
    // The free one is closed; the other is its client's until the transaction ends.
    assert_eq!(servers(&mut admin), 1);
    assert_eq!(refused(&mut admin, "PAUSE"), "already suspended/paused");
    busy.send(&query("INSERT INTO kept VALUES (1)"));
    assert_eq!(busy.tags(1), "CZ");
    assert!(waiting.is_silent());
    busy.send(&query("COMMIT"));
    assert_eq!(busy.tags(1), "CZ");
    assert_eq!(waiting.tags(1), "CZ");
    assert_eq!(servers(&mut admin), 0);
    busy.send(&query("SELECT a FROM kept"));
    let mut new = joining(&monitor, "postgres");
    server.restart();
    assert_eq!(rows(&mut admin, "SHOW STATE")[1].get("value"), Some("yes"));
    assert!(new.is_silent());
    admin.simple_query("RESUME").unwrap();
    assert_eq!(busy.tags(1), "TDCZ");
    assert_ne!(idle.value("SELECT pg_postmaster_start_time()"), before);
    new.until_ready();
    assert_eq!(new.value("SELECT a FROM kept"), "1");
    assert_eq!(
        refused(&mut admin, "RESUME"),
        "pooler is not paused/suspended"
    );
}

#[test]
fn a_pause_of_sessions_waits_for_them_to_leave() {
    let (server, monitor) = restartable(Pooling::Session);
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let mut session = monitor.raw();
    assert_eq!(session.value("SELECT 1"), "1");
    drop(monitor.raw());
    let mut waiting = begun(&monitor, "PAUSE postgres");
    while servers(&mut admin) != 1 {}
    assert_eq!(session.value("SELECT 2"), "2");
    assert!(waiting.is_silent());
    let mut new = joining(&monitor, "postgres");
    drop(session);
    assert_eq!(waiting.tags(1), "CZ");
    assert_eq!(servers(&mut admin), 0);
    server.restart();
    assert!(new.is_silent());
    admin.simple_query("RESUME postgres").unwrap();
    new.until_ready();
    assert_eq!(new.value("SELECT 3"), "3");
}

#[test]
fn a_pause_that_nobody_wants_any_more_ends() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let mut busy = monitor.raw();
    busy.send(&query("BEGIN"));
    assert_eq!(busy.tags(1), "CZ");
    // By another, by a request to cancel, and by what the one who waits says next.
    let mut waiting = begun(&monitor, "PAUSE");
    waiting.send(&query("SHOW VERSION"));
    while !shown(&mut admin, "postgres")[0] {}
    admin.simple_query("RESUME").unwrap();
    let ended = waiting.reply();
    assert_eq!(ended.field(b'C'), "57014");
    assert_eq!(waiting.tags(2), "ZTDCZ");
    waiting.send(&query("PAUSE postgres"));
    while !shown(&mut admin, "postgres")[0] {}
    waiting.cancel();
    assert_eq!(waiting.reply().field(b'C'), "57014");
    assert_eq!(waiting.tags(1), "Z");
    assert_eq!(shown(&mut admin, "postgres"), [false, false]);
    // Who leaves in the meantime leaves the pause.
    waiting.send(&query("PAUSE"));
    while !shown(&mut admin, "postgres")[0] {}
    drop(waiting);
    busy.send(&query("COMMIT"));
    assert_eq!(busy.tags(1), "CZ");
    while servers(&mut admin) > 0 {}
    busy.send(&query("SELECT 1"));
    assert!(shown(&mut admin, "postgres")[0] && busy.is_silent());
    admin.simple_query("RESUME").unwrap();
    assert_eq!(busy.tags(1), "TDCZ");
}

#[test]
fn one_database_is_paused_or_disabled_and_others_are_not() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        // What one cannot use the other can have.
        config.max_server_connections = 1;
    });
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let mut one = monitor.raw();
    let mut other = Raw::log_in(monitor.address, "postgres", &[("database", "template1")]);
    admin.simple_query("PAUSE template1").unwrap();
    assert_eq!(shown(&mut admin, "template1"), [true, false]);
    assert_eq!(shown(&mut admin, "postgres"), [false, false]);
    other.send(&query("SELECT current_database()"));
    let first = one.value("SELECT pg_backend_pid()");
    assert_eq!(one.value("SELECT pg_backend_pid()"), first);
    assert!(other.is_silent());
    assert_eq!(
        refused(&mut admin, "RESUME postgres"),
        "database postgres is not paused"
    );
    admin.simple_query("RESUME \"template1\"").unwrap();
    assert_eq!(other.tags(1), "TDCZ");

    admin.simple_query("DISABLE template1").unwrap();
    assert_eq!(shown(&mut admin, "template1"), [false, true]);
    let told = joining(&monitor, "template1").until_ready();
    let error = told.iter().find(|reply| reply.tag == 'E').unwrap();
    assert_eq!(error.field(b'C'), "08P01");
    assert_eq!(error.field(b'M'), "database \"template1\" is disabled");
    assert_eq!(other.value("SELECT 'in'"), "in");
    admin.simple_query("ENABLE template1").unwrap();
    let mut new = joining(&monitor, "template1");
    new.until_ready();
    assert_eq!(new.value("SELECT 1"), "1");

    for command in ["PAUSE", "DISABLE", "KILL", "RECONNECT"] {
        let said = refused(&mut admin, &format!("{command} pgbouncer"));
        let verb = command.to_lowercase();
        assert_eq!(said, format!("cannot {verb} admin db: pgbouncer"));
    }
    assert_eq!(refused(&mut admin, "ENABLE"), "a database is required");
}

#[test]
fn databases_that_are_not_there_are_named() {
    let monitor = Running::start(|config| {
        let all = config.databases.remove("*").unwrap();
        config.databases.insert("postgres".to_owned(), all);
    });
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    for command in ["PAUSE", "RESUME", "ENABLE", "WAIT_CLOSE"] {
        let said = refused(&mut admin, &format!("{command} Nowhere"));
        assert_eq!(said, "no such database: Nowhere");
    }
}

#[test]
fn server_connections_are_made_anew() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let (mut busy, mut free) = (monitor.raw(), monitor.raw());
    let pid = "SELECT pg_backend_pid()";
    busy.send(&query("BEGIN"));
    assert_eq!(busy.tags(1), "CZ");
    let (of_busy, of_free) = (busy.value(pid), free.value(pid));
    admin.simple_query("RECONNECT postgres").unwrap();
    let mut waiting = begun(&monitor, "WAIT_CLOSE");
    let others = free.value(pid);
    assert!(others != of_free && others != of_busy);
    assert_eq!(busy.value(pid), of_busy);
    let marked = rows(&mut admin, "SHOW SERVERS");
    let marked = marked
        .iter()
        .filter(|row| row.get("close_needed") == Some("1"));
    assert_eq!(marked.count(), 1);
    assert!(waiting.is_silent());
    busy.send(&query("COMMIT"));
    assert_eq!(busy.tags(1), "CZ");
    assert_eq!(waiting.tags(1), "CZ");
    assert_eq!(busy.value(pid), others);
    admin.simple_query("WAIT_CLOSE postgres").unwrap();
}

#[test]
fn statistics_are_shown_in_halves_and_together() {
    let monitor = Running::start(|_| ());
    assert_eq!(monitor.raw().value("SELECT 1"), "1");
    let mut other = Raw::log_in(monitor.address, "postgres", &[("database", "template1")]);
    assert_eq!(other.value("SELECT 1"), "1");
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    for what in ["STATS_TOTALS", "STATS_AVERAGES"] {
        let stats = rows(&mut admin, &format!("SHOW {what}"));
        assert_eq!(stats.len(), 2);
        assert_eq!(stats[1].get("database"), Some("template1"));
        let count = if what == "STATS_TOTALS" { "1" } else { "0" };
        assert_eq!(stats[1].get("query_count"), Some(count));
        assert_eq!(stats[1].columns().len(), 8);
    }
    let totals = rows(&mut admin, "SHOW TOTALS");
    let of = |name| totals.iter().find(|row| row.get("name") == Some(name));
    assert_eq!(of("total_query_count").unwrap().get("value"), Some("2"));
    assert!(of("total_client_bytes").is_some() && of("avg_server_bytes").is_some());
}

#[test]
fn not_everybody_may() {
    let monitor = Running::start(|config| {
        config.admin_users.clear();
        config.stats_users = vec!["postgres".into()];
    });
    let mut viewer = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    rows(&mut viewer, "SHOW POOLS");
    let error = viewer.simple_query("PAUSE").err().unwrap();
    assert_eq!(error.code().unwrap().code(), "42501");
    let nobody = monitor
        .config()
        .dbname("tenbin")
        .user("nobody")
        .connect(NoTls);
    assert_eq!(nobody.err().unwrap().code().unwrap().code(), "42501");
}

#[test]
fn pools_that_nobody_uses_give_way_and_what_they_did_counts_on() {
    const CLIENTS: usize = 280;
    let monitor = Running::start(|config| config.max_server_connections = 1);
    for number in 1..=CLIENTS {
        let options = format!("-c statement_timeout={number}s");
        let more = [("options", options.as_str())];
        let mut client = Raw::log_in(monitor.address, "postgres", &more);
        let told = client.value("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'");
        assert_eq!(told, (number * 1000).to_string());
    }
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let pools = rows(&mut admin, "SHOW POOLS").len();
    assert!((2..=256).contains(&pools), "{pools}");
    let count = CLIENTS.to_string();
    let stats = rows(&mut admin, "SHOW STATS");
    assert_eq!(stats[0].get("total_query_count"), Some(count.as_str()));
    let totals = rows(&mut admin, "SHOW TOTALS");
    let queries = totals
        .iter()
        .find(|row| row.get("name") == Some("total_query_count"));
    assert_eq!(queries.unwrap().get("value"), Some(count.as_str()));
}

/// The value of a setting that `SHOW CONFIG` has.
fn setting(admin: &mut postgres::Client, name: &str) -> String {
    let rows = rows(admin, "SHOW CONFIG");
    let row = rows.iter().find(|row| row.get("key") == Some(name));
    row.unwrap().get("value").unwrap_or_default().to_owned()
}

#[test]
fn set_changes_a_setting_until_the_next_reload() {
    let server = server();
    let listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
    let config = Config {
        pool_size: 1,
        ..Config::in_front_of(&server.target(), listen)
    };
    let again = config.clone();
    let monitor = Running::configured(server, config, Some(Box::new(move || Ok(again.clone()))));
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let (mut one, mut two) = (monitor.raw(), monitor.raw());
    one.send(&query("BEGIN"));
    assert_eq!(one.tags(1), "CZ");
    two.send(&query("SELECT 2"));
    while rows(&mut admin, "SHOW POOLS")[0].get("cl_waiting") != Some("1") {}
    admin.simple_query("SET pool_size = 2").unwrap();
    assert_eq!(two.tags(1), "TDCZ");
    for (sql, name, value) in [
        ("SET default_pool_size TO '8'", "pool_size", "8"),
        ("set query_timeout=1.5", "query_limit", "1500ms"),
        ("SET wait_limit = 2min", "wait_limit", "2min"),
        ("SET pool_mode = session", "mode", "session"),
        (
            "SET admin_users = 'postgres, Ann''s'",
            "admin_users",
            "postgres, Ann's",
        ),
        ("SET server_fast_close = 1", "server_fast_close", "true"),
    ] {
        admin.simple_query(sql).unwrap();
        assert_eq!(setting(&mut admin, name), value, "{sql}");
    }
    for (sql, part) in [
        ("SET pool_size = 0", "expected at least 1"),
        ("SET pool_size = x", "expected a number"),
        ("SET pool_size 3", "expected SET name = value"),
        ("SET", "expected SET name = value"),
        ("SET no_such = 3", "there is no setting no_such"),
        ("SET listen = '*'", "only with a restart"),
        ("SET pid_file = '/x'", "only with a restart"),
        ("SET auth_type = trust", "say RELOAD"),
    ] {
        assert!(refused(&mut admin, sql).contains(part), "{sql}");
    }
    admin.simple_query("RELOAD").unwrap();
    assert_eq!(setting(&mut admin, "pool_size"), "1");
    assert_eq!(setting(&mut admin, "mode"), "transaction");
    for sql in [
        "SET client_encoding = 'UTF8'",
        "set session datestyle TO ISO",
        "SET TIME ZONE 'UTC'",
        "SET extra_float_digits=3",
    ] {
        admin.simple_query(sql).unwrap();
    }
}

/// A column's name and type.
pub(crate) type Column = (String, u32);
pub(crate) type Row = Vec<Option<String>>;

/// The columns of a table, and its rows.
pub(crate) fn typed(admin: &mut Raw, sql: &str) -> (Vec<Column>, Vec<Row>) {
    admin.send(&query(sql));
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for reply in admin.until_ready() {
        let mut rest = reply.body.get(2..).unwrap_or_default();
        let mut row = Vec::new();
        while !rest.is_empty() && matches!(reply.tag, 'T' | 'D') {
            if reply.tag == 'T' {
                let end = rest.iter().position(|&byte| byte == 0).unwrap();
                let name = String::from_utf8_lossy(&rest[..end]).into_owned();
                let oid: [u8; 4] = rest[end + 7..end + 11].try_into().unwrap();
                columns.push((name, u32::from_be_bytes(oid)));
                rest = &rest[end + 19..];
            } else {
                let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
                let length = usize::try_from(length).ok();
                let end = 4 + length.unwrap_or(0);
                row.push(length.map(|_| String::from_utf8_lossy(&rest[4..end]).into_owned()));
                rest = &rest[end..];
            }
        }
        if reply.tag == 'D' {
            rows.push(row);
        }
    }
    (columns, rows)
}

#[test]
fn numbers_are_numbers() {
    const INT4: u32 = 23;
    const NUMERIC: u32 = 1700;
    let monitor = Running::start(|_| {});
    let mut client = monitor.raw();
    assert_eq!(client.value("SELECT 1"), "1");
    let mut admin = Raw::log_in(monitor.address, "postgres", &[("database", "tenbin")]);
    for (table, column, oid) in [
        ("POOLS", "cl_active", INT4),
        ("CLIENTS", "port", INT4),
        ("SERVERS", "wait_us", INT4),
        ("STATS", "total_xact_count", NUMERIC),
        ("STATS_TOTALS", "xact_count", NUMERIC),
        ("STATS_AVERAGES", "wait_time", NUMERIC),
        ("TOTALS", "value", NUMERIC),
        ("DATABASES", "pool_size", INT4),
        ("LISTS", "items", INT4),
        ("USERS", "max_user_connections", INT4),
        ("CLASSES", "priority", INT4),
        ("HOSTS", "servers", INT4),
    ] {
        let (columns, rows) = typed(&mut admin, &format!("SHOW {table}"));
        let found = columns.iter().find(|(name, _)| name == column);
        assert_eq!(found.map(|(_, oid)| *oid), Some(oid), "{table}.{column}");
        for row in rows {
            for ((name, oid), cell) in columns.iter().zip(row) {
                let number = cell.iter().all(|text| text.parse::<i64>().is_ok());
                let is_number = [INT4, NUMERIC].contains(oid);
                assert!(number || !is_number, "{table}.{name}: {cell:?}");
            }
        }
    }
}

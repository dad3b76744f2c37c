//! The monitor's own database.

use crate::support::Running;
use crate::support::raw::query;
use postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};

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
    assert_eq!(monitor.raw().value("SELECT 3"), "3");
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

//! How server connections are shared out: one user, one database or one server does not get all.

use crate::support::Running;
use crate::support::raw::{Raw, query};
use std::sync::Arc;
use tenbin_server::{Embedded, Options};
use tenbin_tpmonitor::{Config, Listen};

/// Rows of a table of the monitor's own database.
fn rows(monitor: &Running, sql: &str) -> usize {
    let mut admin = Raw::log_in(monitor.address, "postgres", &[("database", "tenbin")]);
    admin.send(&query(sql));
    let replies = admin.until_ready();
    replies.iter().filter(|reply| reply.tag == 'D').count()
}

fn with_options(monitor: &Running, value: usize) -> Raw {
    let options = format!("-c statement_timeout={}", 100_001 + value);
    Raw::log_in(monitor.address, "postgres", &[("options", &options)])
}

#[test]
fn clients_with_different_start_up_options_share_their_users_pool_size() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let mut clients: Vec<Raw> = (0..6).map(|value| with_options(&monitor, value)).collect();
    for (value, client) in clients.iter_mut().enumerate() {
        let shown = client.value("SHOW statement_timeout");
        assert_eq!(shown, format!("{}ms", 100_001 + value));
        assert!(rows(&monitor, "SHOW SERVERS") <= 2);
    }
}

#[test]
fn abandoned_log_ins_leave_few_pools_and_connections() {
    let monitor = Running::start(|config| config.pool_size = 3);
    for value in 0..150 {
        drop(with_options(&monitor, value));
    }
    assert!(rows(&monitor, "SHOW POOLS") <= 70);
    assert!(rows(&monitor, "SHOW SERVERS") <= 3);
}

#[test]
fn a_server_keeps_room_for_others() {
    let options = Options {
        connections: 20,
        ..Options::default()
    };
    let server = Arc::new(Embedded::start(options).unwrap());
    let number = |name: &str| -> usize {
        let mut direct = server.connect().unwrap();
        let sql = format!("SELECT coalesce(pg_catalog.current_setting('{name}', true), '0')");
        let row = direct.query_one(&sql, &[]).unwrap();
        row.get::<_, String>(0).parse().unwrap()
    };
    let given = number("max_connections")
        - number("superuser_reserved_connections")
        - number("reserved_connections");
    let limit = given - given / 10;
    let monitor = Running::before(server, |config| config.pool_size = 500);
    let mut clients: Vec<Raw> = (0..given + 5).map(|_| monitor.raw()).collect();
    for client in &mut clients {
        client.send(&query("BEGIN"));
    }
    for client in &mut clients[..limit] {
        assert_eq!(client.tags(1), "CZ");
    }
    assert_eq!(rows(&monitor, "SHOW SERVERS"), limit);
    // Who leaves makes room for the next in the queue.
    clients[0].send(&query("COMMIT"));
    assert_eq!(clients[0].tags(1), "CZ");
    assert_eq!(clients[limit].tags(1), "CZ");
    assert_eq!(rows(&monitor, "SHOW SERVERS"), limit);
}

#[test]
fn clients_of_a_database_with_a_user_of_its_own_share_its_connections() {
    let server = crate::support::server();
    let listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
    let mut config = Config::in_front_of(&server.target(), listen);
    config.pool_size = 1;
    config.max_clients_per_user = 1;
    let mut all = config.databases.remove("*").unwrap();
    all.user = Some("postgres".to_owned());
    all.name = Some("postgres".to_owned());
    config.databases.insert("app".to_owned(), all);
    let monitor = Running::configured(server, config, None);
    let log_in = |user: &str| Raw::log_in(monitor.address, user, &[("database", "app")]);
    // The user's own limit of clients does not hold for those who share its connections.
    let (mut one, mut other) = (log_in("one"), log_in("other"));
    for client in [&mut one, &mut other] {
        assert_eq!(client.value("SELECT current_user"), "postgres");
    }
    assert_eq!(rows(&monitor, "SHOW POOLS"), 1);
    assert_eq!(rows(&monitor, "SHOW SERVERS"), 1);
    // They count as who they are.
    let refused = Raw::refused(monitor.address, "one", &[("database", "app")]);
    assert_eq!(refused.field(b'C'), "53300");
}

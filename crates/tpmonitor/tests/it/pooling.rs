//! Many clients on few servers.

use crate::support::Running;
use crate::support::raw::{bind, describe, execute, flush, message, parse, query, sync};
use std::collections::HashSet;
use tenbin_tpmonitor::{Config, Pooling};

fn one(config: &mut Config) {
    config.pool_size = 1;
}

#[test]
fn many_clients_share_few_servers() {
    let monitor = Running::start(|config| config.pool_size = 3);
    let threads: Vec<_> = (0..20_i64)
        .map(|client| {
            let mut connection = monitor.connect();
            std::thread::spawn(move || {
                let mut servers = HashSet::new();
                for round in 0..50_i64 {
                    let sent = client * 1000 + round;
                    let row = connection
                        .query_one("SELECT $1::int8, pg_backend_pid()", &[&sent])
                        .unwrap();
                    assert_eq!(row.get::<_, i64>(0), sent);
                    servers.insert(row.get::<_, i32>(1));
                }
                servers
            })
        })
        .collect();
    let servers: HashSet<i32> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    assert!((1..=3).contains(&servers.len()), "{servers:?}");
}

#[test]
fn a_server_stays_with_its_client_for_a_transaction() {
    let monitor = Running::start(one);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&query("BEGIN"));
    assert_eq!(one.tags(1), "CZ");
    other.send(&query("SELECT 2"));
    let pid = one.value("SELECT pg_backend_pid()");
    assert_eq!(pid, one.value("SELECT pg_backend_pid()"));
    one.send(&query("COMMIT"));
    assert_eq!(one.tags(1), "CZ");
    assert_eq!(other.tags(1), "TDCZ");
}

#[test]
fn a_log_in_needs_no_server() {
    let monitor = Running::start(one);
    let mut one = monitor.raw();
    one.send(&query("BEGIN"));
    assert_eq!(one.tags(1), "CZ");
    // The only server is taken; these are in nevertheless.
    let others: Vec<_> = (0..50).map(|_| monitor.raw()).collect();
    let mut named = monitor.config();
    named.application_name("another");
    drop(named.connect(postgres::NoTls).unwrap());
    assert_eq!(others.len(), 50);
    one.send(&query("ROLLBACK"));
    assert_eq!(one.tags(1), "CZ");
}

#[test]
fn the_first_to_ask_is_the_first_to_get() {
    let monitor = Running::start(one);
    let mut holder = monitor.raw();
    holder.send(&query("BEGIN"));
    assert_eq!(holder.tags(1), "CZ");
    let mut direct = monitor.direct();
    direct
        .batch_execute("DROP SEQUENCE IF EXISTS turns; CREATE SEQUENCE turns")
        .unwrap();
    let mut clients: Vec<_> = (0..30).map(|_| monitor.raw()).collect();
    for client in &mut clients {
        client.send(&query("SELECT nextval('public.turns')"));
        // The next asks only after the monitor has seen this one: it answers in order of arrival
        // on its one thread, and this log-in comes after the request.
        drop(monitor.raw());
    }
    holder.send(&query("COMMIT"));
    assert_eq!(holder.tags(1), "CZ");
    for (turn, client) in (1..).zip(&mut clients) {
        let replies = client.until_ready();
        let row = replies.iter().find(|reply| reply.tag == 'D').unwrap();
        assert_eq!(String::from_utf8_lossy(&row.body[6..]), turn.to_string());
    }
}

#[test]
fn a_server_is_kept_while_syncs_are_outstanding() {
    let monitor = Running::start(one);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    let slow = [
        parse("", "SELECT pg_sleep(0.2), 1"),
        bind("", ""),
        execute(""),
        sync(),
        parse("", "SELECT 2"),
        bind("", ""),
        execute(""),
        sync(),
        sync(),
        query("SELECT 3"),
    ]
    .concat();
    one.send(&slow);
    other.send(&query("SELECT 4"));
    assert_eq!(one.tags(4), "12DCZ12DCZZTDCZ");
    assert_eq!(other.tags(1), "TDCZ");
}

#[test]
fn a_lone_sync_is_answered() {
    let monitor = Running::start(one);
    let mut client = monitor.raw();
    client.send(&sync());
    assert_eq!(client.tags(1), "Z");
    client.send(&[flush(), sync(), query("SELECT 1")].concat());
    assert_eq!(client.tags(2), "ZTDCZ");
}

#[test]
fn an_open_batch_keeps_its_server() {
    let monitor = Running::start(one);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&[parse("", "SELECT 1"), flush()].concat());
    assert_eq!(one.reply().tag, '1');
    other.send(&query("SELECT 2"));
    one.send(&[bind("", ""), describe(b'P', ""), flush()].concat());
    assert_eq!([one.reply().tag, one.reply().tag], ['2', 'T']);
    one.send(&[execute(""), sync()].concat());
    assert_eq!(one.tags(1), "DCZ");
    assert_eq!(other.tags(1), "TDCZ");
}

#[test]
fn an_unnamed_statement_follows_its_client() {
    let monitor = Running::start(one);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&[parse("", "SELECT 'one'"), sync()].concat());
    assert_eq!(one.tags(1), "1Z");
    other.send(&[parse("", "SELECT 'other'"), sync()].concat());
    assert_eq!(other.tags(1), "1Z");
    for (client, expected) in [(&mut one, "one"), (&mut other, "other")] {
        client.send(&[bind("", ""), execute(""), sync()].concat());
        let replies = client.until_ready();
        assert_eq!(replies[1].body[6..], *expected.as_bytes());
    }
    // A client that has none gets the server's own words, not another's statement.
    let mut third = monitor.raw();
    third.send(&[bind("", ""), execute(""), sync()].concat());
    let replies = third.until_ready();
    assert_eq!(replies[0].field(b'C'), "26000");
    // As on a server, a simple query drops it.
    one.send(&[query("SELECT 1"), bind("", ""), sync()].concat());
    assert_eq!(one.tags(2), "TDCZEZ");
}

#[test]
fn copies_go_through_in_both_directions() {
    let monitor = Running::start(one);
    let mut direct = monitor.direct();
    direct
        .batch_execute("DROP TABLE IF EXISTS copied; CREATE TABLE copied (a int, b text)")
        .unwrap();
    let mut client = monitor.connect();
    let rows: Vec<String> = (0..50_000)
        .map(|row| format!("{row}\tsome text\n"))
        .collect();
    let rows = rows.concat();
    let mut writer = client.copy_in("COPY copied FROM STDIN").unwrap();
    std::io::Write::write_all(&mut writer, rows.as_bytes()).unwrap();
    assert_eq!(writer.finish().unwrap(), 50_000);
    let mut back = String::new();
    let mut reader = client.copy_out("COPY copied TO STDOUT").unwrap();
    std::io::Read::read_to_string(&mut reader, &mut back).unwrap();
    assert!(back == rows);
}

#[test]
fn what_comes_late_after_a_failed_copy_reaches_nobody() {
    let monitor = Running::start(one);
    let mut direct = monitor.direct();
    direct
        .batch_execute("DROP TABLE IF EXISTS late; CREATE TABLE late (a int)")
        .unwrap();
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&[query("COPY late FROM STDIN"), message(b'd', b"x\n")].concat());
    assert_eq!(one.tags(1), "GEZ");
    other.send(&query("BEGIN"));
    assert_eq!(other.tags(1), "CZ");
    one.send(&[message(b'd', b"1\n"), message(b'c', b""), query("SELECT 1")].concat());
    other.send(&query("COMMIT"));
    assert_eq!(other.tags(1), "CZ");
    assert_eq!(one.tags(1), "TDCZ");
}

#[test]
fn large_messages_go_through() {
    let monitor = Running::start(one);
    let mut client = monitor.connect();
    let text = "x".repeat(5 << 20);
    let row = client
        .query_one("SELECT $1::text, length($1)", &[&text])
        .unwrap();
    assert!(row.get::<_, &str>(0) == text);
    let sql = format!("SELECT length('{text}')");
    let rows = client.simple_query(&sql).unwrap();
    let postgres::SimpleQueryMessage::Row(row) = &rows[1] else {
        panic!("{rows:?}");
    };
    assert_eq!(row.get(0), Some("5242880"));
}

#[test]
fn session_pooling_keeps_the_session() {
    let monitor = Running::start(|config| {
        one(config);
        config.mode = Pooling::Session;
    });
    let mut client = monitor.raw();
    client.send(&query(
        "SET statement_timeout = 12345; PREPARE p AS SELECT 'p'",
    ));
    assert_eq!(client.tags(1), "CCZ");
    assert_eq!(client.value("SHOW statement_timeout"), "12345ms");
    let pid = client.value("SELECT pg_backend_pid()");
    drop(client);
    let mut next = monitor.raw();
    assert_eq!(next.value("SELECT pg_backend_pid()"), pid);
    assert_eq!(next.value("SHOW statement_timeout"), "0");
    // State that no text tells of is taken away as well.
    next.send(&[parse("named", "SELECT 1"), sync()].concat());
    assert_eq!(next.tags(1), "1Z");
    drop(next);
    let mut next = monitor.raw();
    assert_eq!(next.value("SELECT pg_backend_pid()"), pid);
    next.send(&[describe(b'S', "named"), sync()].concat());
    assert_eq!(next.tags(1), "EZ");
    next.send(&query("EXECUTE p"));
    assert_eq!(next.tags(1), "EZ");
}

#[test]
fn statement_pooling_refuses_transactions_of_several() {
    let monitor = Running::start(|config| {
        config.mode = Pooling::Statement;
        config.pool_size = 1;
    });
    let mut client = monitor.raw();
    assert_eq!(client.value("SELECT 1"), "1");
    client.send(&query("BEGIN"));
    let replies = client.until_ready();
    assert_eq!(replies.last().unwrap().tag, 'Z');
    let last = client.reply();
    assert_eq!((last.tag, last.field(b'C').as_str()), ('E', "0A000"));
    assert_eq!(client.try_reply(), None);
    assert_eq!(monitor.raw().value("SELECT 2"), "2");
}

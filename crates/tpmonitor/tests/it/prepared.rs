//! Prepared statements while servers change under them.

use crate::support::Running;
use crate::support::raw::{Raw, bind, close, describe, execute, parse, query, sync};
use tenbin_tpmonitor::Config;

fn one(config: &mut Config) {
    config.pool_size = 1;
}

fn run(client: &mut Raw, name: &str) -> String {
    client.send(&[bind("", name), execute(""), sync()].concat());
    client
        .until_ready()
        .iter()
        .map(|reply| match reply.tag {
            'D' => String::from_utf8_lossy(&reply.body[6..]).into_owned(),
            'E' => format!("!{}: {}", reply.field(b'C'), reply.field(b'M')),
            tag => tag.to_string(),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn names_are_each_client_s_own() {
    let monitor = Running::start(one);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    for (client, sql) in [(&mut one, "SELECT 'one'"), (&mut other, "SELECT 'other'")] {
        client.send(&[parse("s", sql), describe(b'S', "s"), sync()].concat());
        assert_eq!(client.tags(1), "1tTZ");
    }
    assert_eq!(run(&mut one, "s"), "2 one C Z");
    assert_eq!(run(&mut other, "s"), "2 other C Z");
    let mut third = monitor.raw();
    assert_eq!(
        run(&mut third, "s"),
        "!26000: prepared statement \"s\" does not exist Z"
    );
}

#[test]
fn a_statement_is_prepared_where_it_is_needed() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&[parse("s", "SELECT pg_backend_pid()"), sync()].concat());
    assert_eq!(one.tags(1), "1Z");
    let first = run(&mut one, "s");
    // The server that has it is another's now.
    other.send(&query("BEGIN"));
    assert_eq!(other.tags(1), "CZ");
    let second = run(&mut one, "s");
    assert_ne!(first, second);
    assert!(
        second.starts_with("2 ") && second.ends_with(" C Z"),
        "{second}"
    );
}

#[test]
fn equal_statements_are_prepared_once() {
    let monitor = Running::start(one);
    let mut clients: Vec<_> = (0..5).map(|_| monitor.raw()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&[parse(&format!("s{number}"), "SELECT 42"), sync()].concat());
        assert_eq!(client.tags(1), "1Z");
    }
    let counted = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT 42'";
    assert_eq!(clients[0].value(counted), "1");
    // Closed by one, it is there for the others.
    clients[0].send(&[close(b'S', "s0"), sync()].concat());
    assert_eq!(clients[0].tags(1), "3Z");
    assert_eq!(run(&mut clients[1], "s1"), "2 42 C Z");
    assert!(run(&mut clients[0], "s0").starts_with("!26000"));
}

#[test]
fn a_parse_that_failed_leaves_nothing() {
    let monitor = Running::start(one);
    let mut client = monitor.raw();
    let batch = [
        parse("good", "SELECT 1"),
        parse("bad", "SELEC 1"),
        parse("skipped", "SELECT 3"),
        sync(),
    ];
    client.send(&batch.concat());
    assert_eq!(client.tags(1), "1EZ");
    assert_eq!(run(&mut client, "good"), "2 1 C Z");
    assert!(run(&mut client, "bad").starts_with("!26000"));
    assert!(run(&mut client, "skipped").starts_with("!26000"));
    client.send(
        &[
            parse("bad", "SELECT 2"),
            parse("skipped", "SELECT 3"),
            sync(),
        ]
        .concat(),
    );
    assert_eq!(client.tags(1), "11Z");
    assert_eq!(run(&mut client, "bad"), "2 2 C Z");
    assert_eq!(run(&mut client, "skipped"), "2 3 C Z");
}

#[test]
fn a_name_that_is_taken_is_refused_as_by_the_server() {
    let monitor = Running::start(one);
    let mut client = monitor.raw();
    client.send(&[parse("s", "SELECT 1"), parse("s", "SELECT 2"), sync()].concat());
    let replies = client.until_ready();
    let error = replies.iter().find(|reply| reply.tag == 'E').unwrap();
    assert_eq!(error.field(b'C'), "42P05");
    assert_eq!(error.field(b'M'), "prepared statement \"s\" already exists");
    assert_eq!(run(&mut client, "s"), "2 1 C Z");
}

#[test]
fn in_a_failed_transaction_only_the_server_knows_the_answer() {
    let monitor = Running::start(one);
    let mut client = monitor.raw();
    let mut other = monitor.raw();
    other.send(&[parse("x", "SELECT 5"), parse("y", "ROLLBACK"), sync()].concat());
    assert_eq!(other.tags(1), "11Z");
    client.send(&[query("BEGIN"), query("SELEC")].concat());
    assert_eq!(client.tags(2), "CZEZ");
    client.send(&[parse("s", "SELECT 5"), sync()].concat());
    assert_eq!(client.tags(1), "EZ");
    client.send(&[parse("r", "ROLLBACK"), bind("", "r"), execute(""), sync()].concat());
    assert_eq!(client.tags(1), "12CZ");
    assert_eq!(run(&mut other, "x"), "2 5 C Z");
}

#[test]
fn deallocating_is_understood() {
    let monitor = Running::start(one);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    for client in [&mut one, &mut other] {
        client.send(&[parse("s", "SELECT 1"), parse("t", "SELECT 2"), sync()].concat());
        assert_eq!(client.tags(1), "11Z");
    }
    one.send(&query("DEALLOCATE s"));
    assert_eq!(one.tags(1), "CZ");
    assert!(run(&mut one, "s").starts_with("!26000"));
    assert_eq!(run(&mut one, "t"), "2 2 C Z");
    // All at once, with more right behind it.
    let batch = [
        query("DEALLOCATE ALL"),
        parse("t", "SELECT 2"),
        bind("", "t"),
        execute(""),
        sync(),
    ];
    one.send(&batch.concat());
    assert_eq!(one.tags(2), "CZ12DCZ");
    assert_eq!(run(&mut other, "s"), "2 1 C Z");
    other.send(&query("DISCARD ALL"));
    assert_eq!(other.tags(1), "CZ");
    assert!(run(&mut other, "s").starts_with("!26000"));
    assert_eq!(run(&mut one, "t"), "2 2 C Z");
    // In the extended protocol, too.
    let batch = [
        parse("", "DEALLOCATE ALL"),
        bind("", ""),
        execute(""),
        parse("t", "SELECT 3"),
        bind("", "t"),
        execute(""),
        sync(),
    ];
    one.send(&batch.concat());
    assert_eq!(one.tags(1), "12C12DCZ");
}

#[test]
fn the_least_recently_used_is_closed() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.max_prepared = 3;
    });
    let mut client = monitor.raw();
    for number in 0..10 {
        let name = format!("s{number}");
        client.send(&[parse(&name, &format!("SELECT {number}")), sync()].concat());
        assert_eq!(client.tags(1), "1Z");
    }
    assert_eq!(
        client.value("SELECT count(*) FROM pg_prepared_statements"),
        "3"
    );
    for number in 0..10 {
        assert_eq!(
            run(&mut client, &format!("s{number}")),
            format!("2 {number} C Z")
        );
    }
}

#[test]
fn changed_tables_are_seen_by_those_who_prepare_anew() {
    let monitor = Running::start(one);
    let mut direct = monitor.direct();
    direct
        .batch_execute("DROP TABLE IF EXISTS changing; CREATE TABLE changing AS SELECT 1 AS a")
        .unwrap();
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&[parse("s", "SELECT * FROM changing"), sync()].concat());
    assert_eq!(one.tags(1), "1Z");
    assert_eq!(run(&mut one, "s"), "2 1 C Z");
    direct
        .batch_execute("ALTER TABLE changing ADD b int")
        .unwrap();
    let refused = "!0A000: cached plan must not change result type Z";
    assert_eq!(run(&mut one, "s"), refused);
    other.send(&[parse("s", "SELECT a, b FROM changing"), sync()].concat());
    assert_eq!(other.tags(1), "1Z");
    // As on a server of its own, closing and preparing again mends it.
    one.send(
        &[
            close(b'S', "s"),
            parse("s", "SELECT * FROM changing"),
            sync(),
        ]
        .concat(),
    );
    assert_eq!(one.tags(1), "31Z");
    assert!(run(&mut one, "s").starts_with("2 "));
    // A change through the monitor is seen by all who prepare after it.
    one.send(&query("ALTER TABLE changing DROP b"));
    assert_eq!(one.tags(1), "CZ");
    other.send(&[parse("u", "SELECT * FROM changing"), sync()].concat());
    assert_eq!(other.tags(1), "1Z");
    assert_eq!(run(&mut other, "u"), "2 1 C Z");
}

#[test]
fn a_statement_may_have_more_parameters_than_libpq_takes() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let mut client = monitor.raw();
    let many: Vec<String> = (1..=20_000).map(|number| format!("${number}")).collect();
    let sql = format!("SELECT 1 WHERE 1 IN ({})", many.join(","));
    client.send(&[parse("many", &sql), describe(b'S', "many"), sync()].concat());
    let replies = client.until_ready();
    let tags: String = replies.iter().map(|reply| reply.tag).collect();
    assert_eq!(tags, "1tTZ");
    assert_eq!(replies[1].body.len(), 2 + 4 * 20_000);
}

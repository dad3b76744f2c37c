//! How sessions, servers and the monitor itself come to their ends.

use crate::support::Running;
use crate::support::raw::{Raw, query, startup};
use std::time::Duration;

#[test]
fn a_server_that_dies_in_a_transaction_is_an_error_to_its_client_alone() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let (mut victim, mut other) = (monitor.raw(), monitor.raw());
    victim.send(&query("BEGIN"));
    assert_eq!(victim.tags(1), "CZ");
    let pid = victim.value("SELECT pg_backend_pid()");
    other.send(&query("BEGIN"));
    assert_eq!(other.tags(1), "CZ");
    monitor
        .direct()
        .batch_execute(&format!("SELECT pg_terminate_backend({pid})"))
        .unwrap();
    let replies = victim.until_ready();
    assert_eq!(replies[0].field(b'C'), "57P01");
    assert_eq!(replies.len(), 1);
    assert_eq!(other.value("SELECT 1"), "1");
    assert_eq!(monitor.raw().value("SELECT 2"), "2");
}

#[test]
fn a_client_that_leaves_while_it_waits_is_forgotten() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let mut holder = monitor.raw();
    holder.send(&query("BEGIN"));
    assert_eq!(holder.tags(1), "CZ");
    for _ in 0..10 {
        let mut waiting = monitor.raw();
        waiting.send(&query("SELECT 1"));
    }
    let mut last = monitor.raw();
    last.send(&query("SELECT 'last'"));
    holder.send(&query("COMMIT"));
    assert_eq!(holder.tags(1), "CZ");
    assert_eq!(last.tags(1), "TDCZ");
}

#[test]
fn what_a_client_leaves_open_is_rolled_back() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let mut direct = monitor.direct();
    direct
        .batch_execute("DROP TABLE IF EXISTS left_open; CREATE TABLE left_open (a int)")
        .unwrap();
    let mut client = monitor.raw();
    client.send(&query("BEGIN; INSERT INTO left_open VALUES (1)"));
    assert_eq!(client.tags(1), "CCZ");
    let pid = client.value("SELECT pg_backend_pid()");
    drop(client);
    let mut next = monitor.raw();
    assert_eq!(next.value("SELECT count(*) FROM left_open"), "0");
    assert_eq!(next.value("SELECT pg_backend_pid()"), pid);
}

#[test]
fn a_request_that_waits_too_long_is_refused() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.wait_limit = Some(Duration::from_millis(100));
    });
    let (mut holder, mut waiting) = (monitor.raw(), monitor.raw());
    holder.send(&query("BEGIN"));
    assert_eq!(holder.tags(1), "CZ");
    waiting.send(&query("SELECT 1"));
    let replies = waiting.until_ready();
    assert_eq!(replies[0].field(b'C'), "53300");
    assert_eq!(holder.value("SELECT 1"), "1");
}

#[test]
fn the_queue_has_an_end() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.max_waiting = 1;
    });
    let (mut holder, mut first, mut second) = (monitor.raw(), monitor.raw(), monitor.raw());
    holder.send(&query("BEGIN"));
    assert_eq!(holder.tags(1), "CZ");
    first.send(&query("SELECT 1"));
    drop(monitor.raw());
    second.send(&query("SELECT 2"));
    assert_eq!(second.until_ready()[0].field(b'C'), "53300");
    holder.send(&query("COMMIT"));
    assert_eq!(holder.tags(1), "CZ");
    assert_eq!(first.tags(1), "TDCZ");
}

#[test]
fn a_stop_lets_transactions_end() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let (mut idle, mut working) = (monitor.raw(), monitor.raw());
    working.send(&query("BEGIN"));
    assert_eq!(working.tags(1), "CZ");
    monitor.handle.stop();
    assert_eq!(idle.reply().field(b'C'), "57P01");
    assert_eq!(idle.try_reply(), None);
    assert_eq!(working.value("SELECT 1"), "1");
    working.send(&query("COMMIT"));
    assert_eq!(working.tags(1), "CZ");
    assert_eq!(working.reply().field(b'C'), "57P01");
    monitor.join();
}

#[test]
fn nonsense_is_answered_and_harms_nobody() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let mut good = monitor.raw();
    let cases: [(&[u8], &str); 5] = [
        (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
        (&[0, 0, 0, 8, 0, 2, 0, 0], "0A000"),
        (&[0, 0, 0, 9, 0, 3, 0, 0, 0], "28000"),
        (&[0, 0, 0, 3], "08P01"),
        (&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01], "08P01"),
    ];
    for (bytes, sqlstate) in cases {
        let mut bad = Raw::open(monitor.address);
        bad.send(bytes);
        assert_eq!(bad.reply().field(b'C'), sqlstate, "{bytes:?}");
        assert_eq!(bad.try_reply(), None);
    }
    for bytes in [
        &b"?\0\0\0\x04"[..],
        b"Q\0\0\0\x01",
        b"Q\xff\xff\xff\xff",
        b"p\0\0\0\x04",
    ] {
        let mut bad = monitor.raw();
        bad.send(bytes);
        assert_eq!(bad.reply().field(b'C'), "08P01", "{bytes:?}");
        assert_eq!(bad.try_reply(), None);
    }
    let mut unknown = Raw::open(monitor.address);
    unknown.send(&startup(
        0x0003_0000,
        &[("user", "postgres"), ("database", "nowhere")],
    ));
    assert_eq!(unknown.reply().field(b'C'), "3D000");
    assert_eq!(good.value("SELECT 1"), "1");
}

#[test]
fn what_is_not_spoken_is_said_so() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let mut client = Raw::open(monitor.address);
    for code in [80_877_103_u32, 80_877_104] {
        client.send(&[&8_u32.to_be_bytes()[..], &code.to_be_bytes()].concat());
        let mut answer = [0];
        std::io::Read::read_exact(&mut client.socket, &mut answer).unwrap();
        assert_eq!(&answer, b"N");
    }
    let parameters = [("user", "postgres"), ("_pq_.unknown", "1")];
    client.send(&startup(0x0003_0009, &parameters));
    let first = client.reply();
    assert_eq!(first.tag, 'v');
    assert_eq!(first.body, b"\0\x03\0\x02\0\0\0\x01_pq_.unknown\0");
    let replies = client.until_ready();
    let key = replies.iter().find(|reply| reply.tag == 'K').unwrap();
    assert_eq!(key.body.len(), 4 + 32);
    // A key of that length cancels as well as a short one.
    client.key.clone_from(&key.body);
    client.send(&query("SELECT pg_sleep(60)"));
    let mut direct = monitor.direct();
    while direct
        .query(
            "SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND wait_event = 'PgSleep'",
            &[],
        )
        .unwrap()
        .is_empty()
    {}
    client.cancel();
    assert!(
        client
            .until_ready()
            .iter()
            .any(|reply| reply.field(b'C') == "57014")
    );
}

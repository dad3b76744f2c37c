//! How sessions, servers and the monitor itself come to their ends.

use crate::support::Running;
use crate::support::raw::{Raw, message, query, startup};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
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
fn who_logs_in_after_a_server_has_died_is_answered_by_one_that_lives() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let mut clients = [monitor.raw(), monitor.raw()];
    let pids = clients.each_mut().map(|client| {
        client.send(&query("BEGIN"));
        assert_eq!(client.tags(1), "CZ");
        client.value("SELECT pg_backend_pid()")
    });
    for client in &mut clients {
        client.send(&query("COMMIT"));
        assert_eq!(client.tags(1), "CZ");
    }
    monitor
        .direct()
        .batch_execute(&format!("SELECT pg_terminate_backend({})", pids[0]))
        .unwrap();
    // Only one is left when the monitor has noticed.
    let mut admin = Raw::log_in(monitor.address, "postgres", &[("database", "tenbin")]);
    let servers = |admin: &mut Raw| {
        admin.send(&query("SHOW SERVERS"));
        let replies = admin.until_ready();
        replies.iter().filter(|reply| reply.tag == 'D').count()
    };
    while servers(&mut admin) > 1 {}
    assert_eq!(monitor.raw().value("SELECT pg_backend_pid()"), pids[1]);
    // With a value that it is asked for, too.
    let named = [("DateStyle", "german")];
    let mut named = Raw::log_in(monitor.address, "postgres", &named);
    assert_eq!(named.value("SHOW DateStyle"), "German, DMY");
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

/// Plays a server on one connection: it says something unasked after its first answer, and is in a
/// transaction from `BEGIN` on. It reports the queries that it received.
fn talkative(listener: &TcpListener, asked: &Sender<String>) {
    let (mut socket, _) = listener.accept().unwrap();
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
    socket.read_exact(&mut rest).unwrap();
    let ready = |status: u8| message(b'Z', &[status]);
    let login = [
        message(b'R', &[0; 4]),
        message(b'S', b"TimeZone\0UTC\0"),
        message(b'K', &[0; 8]),
        ready(b'I'),
    ];
    socket.write_all(&login.concat()).unwrap();
    let (mut status, mut first) = (b'I', true);
    let mut head = [0; 5];
    while socket.read_exact(&mut head).is_ok() && head[0] == b'Q' {
        let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut text = vec![0; size as usize - 4];
        socket.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        status = match text.trim_end_matches('\0') {
            "BEGIN" => b'T',
            "COMMIT" => b'I',
            _ => status,
        };
        asked.send(text).unwrap();
        let reply = [message(b'C', b"X\0"), ready(status)].concat();
        socket.write_all(&reply).unwrap();
        if std::mem::take(&mut first) {
            let unasked = message(b'S', b"TimeZone\0Asia/Tokyo\0");
            socket.write_all(&unasked).unwrap();
        }
    }
}

#[test]
fn a_word_of_a_free_server_does_not_make_two_of_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("postgres://postgres@{}/", listener.local_addr().unwrap());
    let target = tenbin_wire::Target::parse(&target).unwrap();
    let (told, asked) = channel();
    let server = std::thread::spawn(move || talkative(&listener, &told));
    let monitor = Running::before(crate::support::server(), |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = tenbin_tpmonitor::Config {
            pool_size: 1,
            // The server is not to be asked.
            max_server_connections_per_server: 100,
            ..tenbin_tpmonitor::Config::in_front_of(&target, listen)
        };
    });
    let mut one = monitor.raw();
    one.send(&query("first"));
    assert_eq!(one.tags(1), "CZ");
    // What was said unasked has been heard once it stands in the answer to a log-in.
    let heard = || {
        let mut raw = Raw::open(monitor.address);
        raw.send(&startup(0x0003_0000, &[("user", "postgres")]));
        let replies = raw.until_ready();
        replies
            .iter()
            .any(|reply| reply.body.ends_with(b"Asia/Tokyo\0"))
    };
    while !heard() {
        std::thread::yield_now();
    }
    let mut other = monitor.raw();
    one.send(&query("BEGIN"));
    assert_eq!(one.tags(1), "CZ");
    other.send(&query("other"));
    // The monitor has read that when it has answered somebody who came later.
    drop(monitor.raw());
    one.send(&query("inside"));
    assert_eq!(one.tags(1), "CZ");
    one.send(&query("COMMIT"));
    assert_eq!(one.tags(1), "CZ");
    assert_eq!(other.tags(1), "CZ");
    drop(monitor);
    server.join().unwrap();
    let asked: Vec<String> = asked.iter().collect();
    let texts = ["first\0", "BEGIN\0", "inside\0", "COMMIT\0", "other\0"];
    assert_eq!(asked, texts);
}

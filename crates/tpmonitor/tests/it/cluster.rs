//! Several servers behind one name: who is written to, who is read from, and what happens when one of
//! them goes.

use crate::support::Running;
use crate::support::raw::{Raw, bind, execute, parse, query, sync};
use crate::support::standby::{Standby, kill, primary};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenbin_server::Embedded;
use tenbin_tpmonitor::{Config, ReadFrom, Route};

const WHERE: &str = "SELECT pg_is_in_recovery()";
const PORT: &str = "SELECT current_setting('port')";

fn config(ports: &[u16], options: &str) -> Config {
    let hosts = vec!["127.0.0.1"; ports.len()].join(",");
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let dsn = format!(
        "host={hosts} port={} user=postgres dbname=postgres {options}",
        ports.join(",")
    );
    let route = Route::parse(&dsn, Path::new("/")).unwrap();
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    Config {
        check_interval: Duration::from_millis(50),
        check_limit: Duration::from_secs(2),
        ..Config::in_front_of(route, listen)
    }
}

fn running(server: &Arc<Embedded>, config: Config) -> Running {
    Running::configured(Arc::clone(server), config, None)
}

/// A monitor that reads from standbys.
fn reading(server: &Arc<Embedded>, ports: &[u16], change: impl FnOnce(&mut Config)) -> Running {
    let mut config = config(ports, "target_session_attrs=read-write");
    config.databases.get_mut("*").unwrap().read_from = ReadFrom::Standbys;
    change(&mut config);
    running(server, config)
}

/// Carries a transaction that only reads out: what one query in it says.
fn read(raw: &mut Raw, sql: &str) -> String {
    raw.send(&query("BEGIN READ ONLY"));
    assert_eq!(raw.tags(1), "CZ");
    let value = raw.value(sql);
    raw.send(&query("COMMIT"));
    assert_eq!(raw.tags(1), "CZ");
    value
}

/// Asks until it is answered with this.
fn until(raw: &mut Raw, expected: &str, ask: impl Fn(&mut Raw) -> String) {
    let begun = Instant::now();
    while ask(raw) != expected {
        assert!(begun.elapsed() < Duration::from_secs(20), "not {expected}");
    }
}

#[test]
fn writes_follow_the_server_that_takes_them() {
    let server = Arc::new(primary());
    let standby = Standby::of(&server);
    let ports = [standby.port, server.port()];
    let monitor = running(&server, config(&ports, "target_session_attrs=read-write"));
    let (mut inside, mut outside) = (monitor.raw(), monitor.raw());
    assert_eq!(outside.value(WHERE), "f");
    inside.send(&query("CREATE TABLE written (a int)"));
    assert_eq!(inside.tags(1), "CZ");
    // Nobody waits for the standby otherwise, and what it lacks dies with the primary.
    until(&mut outside, "1", |raw| {
        raw.value(
            "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()",
        )
    });
    inside.send(&query("BEGIN; INSERT INTO written VALUES (1)"));
    assert_eq!(inside.tags(1), "CCZ");
    kill(&server.data_directory());
    // In the middle of a transaction: an error, never the rest of it elsewhere.
    let replies = inside.until_ready();
    let last = replies.last().unwrap();
    assert_eq!((last.tag, last.field(b'C').as_str()), ('E', "08006"));
    assert!(
        replies.iter().all(|reply| "NE".contains(reply.tag)),
        "{replies:?}"
    );
    // Between transactions: it waits until there is one that takes writes.
    outside.send(&query(WHERE));
    standby.promote();
    let begun = Instant::now();
    assert_eq!(outside.tags(1), "TDCZ");
    let took = begun.elapsed();
    eprintln!("writes went to the new primary {took:?} after it was promoted");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(outside.value(PORT), standby.port.to_string());
    assert_eq!(outside.value("SELECT count(*) FROM written"), "0");
    outside.send(&query("INSERT INTO written VALUES (2)"));
    assert_eq!(outside.tags(1), "CZ");
    assert_eq!(monitor.raw().value(PORT), standby.port.to_string());
}

#[test]
fn servers_are_looked_at_whatever_is_paused_or_killed() {
    let server = Arc::new(primary());
    let config = config(&[server.port()], "target_session_attrs=read-write");
    let monitor = running(&server, config);
    let mut raw = monitor.raw();
    assert_eq!(raw.value(WHERE), "f");
    let mut direct = monitor.direct();
    let mut checking = || {
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tenbin check'";
        direct.query_one(sql, &[]).unwrap().get::<_, i32>(0)
    };
    let before = checking();
    for command in ["PAUSE", "KILL"] {
        let admin = [("database", "tenbin")];
        let mut admin = Raw::log_in(monitor.address, "postgres", &admin);
        admin.send(&query(command));
        assert_eq!(admin.tags(1), "CZ");
        admin.send(&query("RESUME"));
        assert_eq!(admin.tags(1), "CZ");
        assert_eq!(checking(), before);
    }
    assert_eq!(monitor.raw().value(WHERE), "f");
}

#[test]
fn nobody_to_write_to_is_said_to_those_who_come() {
    let server = Arc::new(primary());
    let standby = Standby::of(&server);
    let mut config = config(&[standby.port], "target_session_attrs=primary");
    config.check_limit = Duration::from_millis(300);
    let monitor = running(&server, config);
    let mut raw = Raw::open(monitor.address);
    raw.send(&crate::support::raw::startup(
        0x0003_0000,
        &[("user", "postgres")],
    ));
    let replies = raw.until_ready();
    let error = replies.last().unwrap();
    assert_eq!(error.field(b'C'), "08001");
    let text = error.field(b'M');
    assert!(
        text.contains("takes writes") && text.contains("is a standby"),
        "{text}"
    );
    // Those who may go to a standby are served there.
    for attributes in ["standby", "read-only", "prefer-standby", "any"] {
        let options = format!("target_session_attrs={attributes}");
        let ports = match attributes {
            "any" => vec![1, standby.port],
            _ => vec![server.port(), standby.port],
        };
        let monitor = running(&server, self::config(&ports, &options));
        // With a choice, the standby is taken as soon as it is known to be up to date.
        let mut raw = monitor.raw();
        match attributes {
            "prefer-standby" => until(&mut raw, "t", |raw| raw.value(WHERE)),
            _ => assert_eq!(raw.value(WHERE), "t", "{attributes}"),
        }
    }
}

#[test]
fn transactions_that_only_read_go_to_standbys() {
    let server = Arc::new(primary());
    let standby = Standby::of(&server);
    let ports = [server.port(), standby.port];
    let monitor = reading(&server, &ports, |_| ());
    let mut raw = monitor.raw();
    // The standby is used once it is known to be up to date.
    until(&mut raw, "t", |raw| read(raw, WHERE));
    assert_eq!(raw.value(WHERE), "f");
    raw.send(&query("BEGIN"));
    assert_eq!(raw.tags(1), "CZ");
    assert_eq!(raw.value(WHERE), "f");
    raw.send(&query("COMMIT"));
    assert_eq!(raw.tags(1), "CZ");
    // What is sent ahead is served where it belongs, in order.
    let ahead = [
        "BEGIN READ ONLY",
        WHERE,
        "COMMIT",
        WHERE,
        "BEGIN READ ONLY",
        WHERE,
        "COMMIT",
    ];
    raw.send(&ahead.map(query).concat());
    let mut values = Vec::new();
    for _ in ahead {
        for reply in raw.until_ready() {
            if reply.tag == 'D' {
                values.push(reply.body[6]);
            }
            assert_ne!(reply.tag, 'E', "{reply:?}");
        }
    }
    assert_eq!(values, b"tft");
    // In the extended protocol, with a statement that both kinds of server are asked to carry out.
    let one = |sql: &str| [parse("", sql), bind("", ""), execute(""), sync()].concat();
    raw.send(&parse("place", WHERE));
    raw.send(&sync());
    assert_eq!(raw.tags(1), "1Z");
    for (begin, expected) in [("BEGIN READ ONLY", 't'), ("BEGIN", 'f')] {
        raw.send(&one(begin));
        assert_eq!(raw.tags(1), "12CZ");
        raw.send(&[bind("", "place"), execute(""), sync()].concat());
        let replies = raw.until_ready();
        assert_eq!(replies[1].body[6], expected as u8, "{replies:?}");
        raw.send(&one("COMMIT"));
        assert_eq!(raw.tags(1), "12CZ");
    }
    // A session that says of itself that it only reads.
    let options = [("options", "-c default_transaction_read_only=on")];
    let mut reader = Raw::log_in(monitor.address, "postgres", &options);
    until(&mut reader, "t", |reader| reader.value(WHERE));
    reader.send(&query("BEGIN READ WRITE"));
    assert_eq!(reader.tags(1), "CZ");
    assert_eq!(reader.value(WHERE), "f");
    // Without standbys, where all others are.
    kill(&standby.data_directory());
    until(&mut raw, "f", |raw| {
        raw.send(&query("BEGIN READ ONLY"));
        match raw.tags(1).as_str() {
            "CZ" => {}
            _ => *raw = Raw::log_in(monitor.address, "postgres", &[]),
        }
        raw.send(&query(WHERE));
        let found = raw.until_ready();
        let found = found
            .iter()
            .find(|reply| reply.tag == 'D')
            .map(|row| row.body[6]);
        raw.try_send(&query("ROLLBACK"));
        raw.until_ready();
        found.map_or(String::new(), |byte| char::from(byte).to_string())
    });
}

#[test]
fn standbys_that_are_behind_are_not_read_from() {
    let server = Arc::new(primary());
    let standby = Standby::of(&server);
    let ports = [server.port(), standby.port];
    let monitor = reading(&server, &ports, |config| {
        config.lag_limit = Some(Duration::from_millis(300));
    });
    let mut raw = monitor.raw();
    raw.send(&query("CREATE TABLE lag (a int)"));
    assert_eq!(raw.tags(1), "CZ");
    until(&mut raw, "t", |raw| read(raw, WHERE));
    let mut follower = standby.connect();
    follower
        .batch_execute("SELECT pg_wal_replay_pause()")
        .unwrap();
    until(&mut raw, "f", |raw| {
        raw.send(&query("INSERT INTO lag VALUES (1)"));
        assert_eq!(raw.tags(1), "CZ");
        read(raw, WHERE)
    });
    follower
        .batch_execute("SELECT pg_wal_replay_resume()")
        .unwrap();
    until(&mut raw, "t", |raw| read(raw, WHERE));
}

#[test]
fn what_one_has_written_one_reads() {
    let server = Arc::new(primary());
    let standby = Standby::of(&server);
    let ports = [server.port(), standby.port];
    let monitor = reading(&server, &ports, |config| {
        config.read_your_writes = true;
        config.check_interval = Duration::from_millis(20);
    });
    monitor
        .direct()
        .batch_execute("CREATE TABLE mine (a int); INSERT INTO mine VALUES (0)")
        .unwrap();
    // Replay lags behind what is written, so that it would show.
    let mut follower = standby.connect();
    let mut raw = monitor.raw();
    until(&mut raw, "t", |raw| read(raw, WHERE));
    let mut from_standby = 0;
    for turn in 1..=60 {
        if turn % 6 == 1 {
            follower
                .batch_execute("SELECT pg_wal_replay_pause()")
                .unwrap();
        }
        if turn % 6 == 4 {
            follower
                .batch_execute("SELECT pg_wal_replay_resume()")
                .unwrap();
        }
        raw.send(&query(&format!("UPDATE mine SET a = {turn}")));
        assert_eq!(raw.tags(1), "CZ");
        assert_eq!(read(&mut raw, "SELECT a FROM mine"), turn.to_string());
        if turn % 6 == 0 {
            until(&mut raw, "t", |raw| {
                assert_eq!(read(raw, "SELECT a FROM mine"), turn.to_string());
                read(raw, WHERE)
            });
            from_standby += 1;
        }
    }
    assert_eq!(from_standby, 10);
}

/// One who says that a transaction only reads, and takes that back, finds again what it wrote in it.
#[test]
fn who_only_reads_and_then_writes_reads_it() {
    let server = Arc::new(primary());
    let standby = Standby::of(&server);
    let ports = [server.port(), standby.port];
    let monitor = reading(&server, &ports, |config| {
        config.read_your_writes = true;
        config.check_interval = Duration::from_millis(20);
        config.lag_limit = None;
    });
    monitor
        .direct()
        .batch_execute("CREATE TABLE taken_back (a int); INSERT INTO taken_back VALUES (0)")
        .unwrap();
    let mut follower = standby.connect();
    let pause = |follower: &mut postgres::Client| {
        follower
            .batch_execute("SELECT pg_wal_replay_pause()")
            .unwrap();
        let state = "SELECT pg_get_wal_replay_pause_state()";
        while follower.query_one(state, &[]).unwrap().get::<_, &str>(0) != "paused" {}
    };
    let (mut raw, mut other) = (monitor.raw(), monitor.raw());
    until(&mut raw, "t", |raw| read(raw, WHERE));
    let write = "UPDATE taken_back SET a = a + 1";
    let lifts: [&[&str]; 4] = [
        &["SET TRANSACTION READ WRITE", write, "COMMIT"],
        &["SET transaction_read_only = off", write, "COMMIT"],
        &["SET LOCAL transaction_read_only = 0", write, "COMMIT"],
        &["COMMIT; UPDATE taken_back SET a = a + 1"],
    ];
    for (turn, lift) in lifts.iter().enumerate() {
        pause(&mut follower);
        for client in [&mut raw, &mut other] {
            client.send(&query("CREATE TABLE IF NOT EXISTS taken_back_too ()"));
            assert!(client.tags(1).ends_with("CZ"));
        }
        // Where it was written, as the standby has not got it.
        raw.send(&query("BEGIN READ ONLY"));
        assert_eq!(raw.tags(1), "CZ");
        follower
            .batch_execute("SELECT pg_wal_replay_resume()")
            .unwrap();
        // Now the standby has all that was written, up to here.
        until(&mut other, "t", |other| read(other, WHERE));
        pause(&mut follower);
        for sql in *lift {
            raw.send(&query(sql));
            let tags = raw.tags(1);
            assert!(tags == "CZ" || tags == "CCZ", "{sql}: {tags}");
        }
        let found = read(&mut raw, "SELECT a FROM taken_back");
        assert_eq!(found, (turn + 1).to_string(), "{lift:?}");
        follower
            .batch_execute("SELECT pg_wal_replay_resume()")
            .unwrap();
    }
}

#[test]
fn readers_are_spread_by_what_there_is_to_do() {
    let server = Arc::new(primary());
    let standbys = [Standby::of(&server), Standby::of(&server)];
    let ports = [server.port(), standbys[0].port, standbys[1].port];
    let monitor = reading(&server, &ports, |config| config.pool_size = 8);
    let mut first = monitor.raw();
    // Until both are known to be up to date.
    let mut admin = Raw::log_in(monitor.address, "postgres", &[("database", "tenbin")]);
    let up_to_date = |admin: &mut Raw| {
        admin.send(&query("SHOW HOSTS"));
        let rows = admin.until_ready();
        let standbys = rows.iter().filter(|row| {
            let text = String::from_utf8_lossy(&row.body).into_owned();
            row.tag == 'D' && text.contains("standby")
        });
        let measured = |row: &&crate::support::raw::Reply| {
            // role, takes_writes, lag_ms: NULL while that is not known.
            !row.body.windows(4).any(|window| window == [0xff; 4])
        };
        standbys.filter(measured).count() == 2
    };
    let begun = Instant::now();
    while !up_to_date(&mut admin) {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(read(&mut first, WHERE), "t");
    let mut readers: Vec<Raw> = (0..8).map(|_| monitor.raw()).collect();
    let mut places = Vec::new();
    for reader in &mut readers {
        reader.send(&query("BEGIN READ ONLY"));
        assert_eq!(reader.tags(1), "CZ");
        places.push(reader.value(PORT));
    }
    for standby in &standbys {
        let here = places
            .iter()
            .filter(|port| **port == standby.port.to_string());
        assert_eq!(here.count(), 4, "{places:?}");
    }
}

#[test]
fn servers_are_added_drained_and_removed() {
    let server = Arc::new(primary());
    let standby = Standby::of(&server);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tp.toml");
    let write = |ports: &[u16]| {
        let hosts = vec!["127.0.0.1"; ports.len()].join(",");
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nauth = \"trust\"\nadmin_users = [\"postgres\"]\ncheck_interval = \"50ms\"\n[databases.\"*\"]\nserver = \"host={hosts} port={} user=postgres\"\n",
            ports.join(",")
        );
        std::fs::write(&file, text).unwrap();
    };
    let (one, other) = (server.port(), standby.port);
    write(&[one]);
    let path = file.clone();
    let reread = move || {
        let read = tenbin_tpmonitor::config::read(&path);
        read.map(|(config, _)| config)
            .map_err(|error| error.to_string())
    };
    let first = reread().unwrap();
    let monitor = Running::configured(Arc::clone(&server), first, Some(Box::new(reread)));
    let (mut busy, mut free) = (monitor.raw(), monitor.raw());
    busy.send(&query("BEGIN"));
    assert_eq!(busy.tags(1), "CZ");
    assert_eq!(free.value(PORT), one.to_string());
    write(&[one, other]);
    monitor.reload();
    assert_eq!(free.value(PORT), one.to_string());
    write(&[other]);
    monitor.reload();
    // What is under way ends where it began; all else is elsewhere.
    assert_eq!(free.value(PORT), other.to_string());
    assert_eq!(busy.value(PORT), one.to_string());
    busy.send(&query("COMMIT"));
    assert_eq!(busy.tags(1), "CZ");
    assert_eq!(busy.value(PORT), other.to_string());
    let mut direct = server.connect().unwrap();
    let left = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let begun = Instant::now();
    while direct.query_one(left, &[]).unwrap().get::<_, i64>(0) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

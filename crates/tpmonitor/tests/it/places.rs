//! Where the monitor listens, where its servers are, and how many of them there may be in all.

use crate::support::Running;
use crate::support::raw::{Raw, query};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tenbin_tpmonitor::{Database, Error, Listen, Monitor, Place};
use tenbin_wire::Address;

/// Where the shared server's own socket is.
fn socket(monitor: &Running) -> std::path::PathBuf {
    match monitor.server.target().addresses.first() {
        Some(Address::Unix(path)) => path.clone(),
        other => panic!("no Unix socket: {other:?}"),
    }
}

#[test]
fn a_unix_socket_is_listened_on_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".s.PGSQL.6432");
    // What a monitor that was killed has left behind is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let monitor = Running::start(|config| config.listen.push(Listen::Unix(path.clone())));
    let mut client = postgres::Config::new()
        .host(folder.path().to_str().unwrap())
        .port(6432)
        .user("postgres")
        .dbname("postgres")
        .connect(postgres::NoTls)
        .unwrap();
    let row = client.query_one("SELECT 7", &[]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 7);
    // But a place where somebody listens is taken.
    let mut config = tenbin_tpmonitor::Config::in_front_of(&monitor.server.target(), Vec::new());
    config.listen.push(Listen::Unix(path.clone()));
    let refused = Monitor::new(config, None).unwrap_err();
    assert!(matches!(refused, Error::Listen { .. }), "{refused}");
    assert!(
        refused
            .to_string()
            .contains("another program listens there")
    );
    drop(client);
    monitor.handle.stop();
    monitor.join();
    assert!(!path.exists());
}

#[test]
fn a_server_that_is_not_there_is_an_error_to_those_who_want_it_until_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".s.PGSQL.5432");
    let monitor = Running::start(|config| {
        config.retry_pause = Duration::from_millis(1);
        let missing = Database {
            places: vec![Place {
                host: String::new(),
                address: Address::Unix(path.clone()),
            }],
            name: Some("postgres".to_owned()),
            ..Database::default()
        };
        config.databases.insert("late".to_owned(), missing);
    });
    let mut late = monitor.config();
    late.dbname("late");
    for _ in 0..3 {
        let refused = late.connect(postgres::NoTls).err().expect("no server");
        let refused = refused.as_db_error().expect("words of the monitor's own");
        assert_eq!(refused.code().code(), "08001");
        let place = path.display().to_string();
        assert!(refused.message().contains(&place), "{}", refused.message());
        assert_eq!(
            monitor.raw().value("SELECT 'others are served'"),
            "others are served"
        );
    }
    std::os::unix::fs::symlink(socket(&monitor), &path).unwrap();
    // The pause after the last failure may not be over: such a log-in waits for it.
    let mut client = late.connect(postgres::NoTls).unwrap();
    let row = client.query_one("SELECT 8", &[]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 8);
}

/// What users have of the servers whose clients want more than there is, as the server itself sees it:
/// Jain, Chiu and Hawe (1984). Counting queries instead would count how the kernel shares processors.
#[test]
fn servers_are_limited_in_all_and_shared_evenly() {
    const SERVERS: i64 = 4;
    const USERS: [&str; 3] = ["sharer_one", "sharer_three", "sharer_two"];
    let monitor = Running::start(|config| {
        config.max_server_connections = usize::try_from(SERVERS).unwrap();
    });
    let mut direct = monitor.direct();
    for user in USERS {
        direct
            .batch_execute(&format!("CREATE USER {user}"))
            .unwrap();
    }
    let left = AtomicI64::new(4_000);
    let (most, had_s) = std::thread::scope(|scope| {
        for user in USERS {
            for _ in 0..5 {
                let (left, address) = (&left, monitor.address);
                scope.spawn(move || {
                    let mut raw = Raw::log_in(address, user, &[]);
                    while left.fetch_sub(1, Ordering::Relaxed) > 0 {
                        raw.value("SELECT pg_sleep(0.002)");
                    }
                });
            }
        }
        let (mut most, mut had_s) = (0_i64, [0.0; 3]);
        let mut seen = Instant::now();
        while left.load(Ordering::Relaxed) > 0 {
            // One that was told to go may be there still, but does nothing any more.
            let there = direct
                .query(
                    "SELECT usename::text, count(*), count(*) FILTER (WHERE state = 'active') \
                     FROM pg_stat_activity WHERE usename LIKE 'sharer%' GROUP BY usename",
                    &[],
                )
                .unwrap();
            let passed_s = seen.elapsed().as_secs_f64();
            seen = Instant::now();
            for row in &there {
                let user = USERS.binary_search(&row.get(0)).unwrap();
                had_s[user] += row.get::<_, i64>(1) as f64 * passed_s;
            }
            most = most.max(there.iter().map(|row| row.get::<_, i64>(2)).sum());
        }
        (most, had_s)
    });
    assert_eq!(most, SERVERS, "servers at work at once");
    let sum: f64 = had_s.iter().sum();
    let squares: f64 = had_s.iter().map(|had| had * had).sum();
    let index = sum * sum / (3.0 * squares);
    assert!(
        index >= 0.95,
        "Jain's index {index:.3} of {had_s:?} server-seconds"
    );
}

#[test]
fn who_waited_is_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.csv");
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.queue_log = Some(path.clone());
    });
    let mut holder = monitor.raw();
    holder.send(&query("BEGIN"));
    assert_eq!(holder.tags(1), "CZ");
    let mut waiting: Vec<Raw> = (0..5).map(|_| monitor.raw()).collect();
    for client in &mut waiting {
        client.send(&query("SELECT 1"));
    }
    holder.send(&query("COMMIT"));
    assert_eq!(holder.tags(1), "CZ");
    for client in &mut waiting {
        assert_eq!(client.tags(1), "TDCZ");
    }
    monitor.handle.stop_now();
    monitor.join();
    let lines = read(&path);
    assert_eq!(
        lines[0],
        [
            "pool",
            "ticket",
            "client",
            "enqueued_us",
            "dispatched_us",
            "class"
        ]
    );
    let number = |cell: &String| cell.parse::<u64>().unwrap();
    let rows: Vec<Vec<u64>> = lines[1..]
        .iter()
        .map(|line| line.iter().map(number).collect())
        .collect();
    // The holder's log-in waited for the first server connection, and is not the same as a request.
    assert!(rows.len() >= 5, "{rows:?}");
    assert!(rows.is_sorted_by_key(|row| row[1]), "{rows:?}");
    assert!(
        rows.iter().all(|row| row[0] == 0 && row[4] >= row[3]),
        "{rows:?}"
    );
}

fn read(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let cells = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().map(cells).collect()
}

#[test]
fn a_log_that_cannot_be_written_is_said_at_the_start() {
    let target = tenbin_wire::Target::parse("postgres://127.0.0.1:1/").unwrap();
    let listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
    let mut config = tenbin_tpmonitor::Config::in_front_of(&target, listen);
    config.queue_log = Some("/nowhere/queue.csv".into());
    let error = Monitor::new(config, None).unwrap_err().to_string();
    assert!(error.contains("/nowhere/queue.csv"), "{error}");
}

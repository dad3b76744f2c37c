//! Settings that `PgBouncer` has, too: sizes of pools, limits of time, files.

use crate::support::raw::{Raw, query, startup};
use crate::support::{Running, server};
use postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenbin_tpmonitor::{Config, Limit, Listen, Pooling, Route, TimeLimits, UserRules};

const SHORT: Duration = Duration::from_millis(50);

/// What the monitor shows.
fn shown(monitor: &Running, what: &str) -> Vec<SimpleQueryRow> {
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let messages = admin.simple_query(&format!("SHOW {what}")).unwrap();
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.collect()
}

/// Server connections of a database that are there.
fn servers(monitor: &Running, database: &str) -> usize {
    let rows = shown(monitor, "SERVERS").into_iter();
    let of = rows.filter(|row| row.get("database") == Some(database));
    of.filter(|row| row.get("state") != Some("login")).count()
}

fn begin(client: &mut Raw) {
    client.send(&query("BEGIN"));
    assert_eq!(client.tags(1), "CZ");
}

/// Another database with a user of its own.
fn own_user(config: &mut Config, name: &str, min_pool_size: Option<usize>) {
    let mut own = config.databases["*"].clone();
    own.name = Some("postgres".to_owned());
    own.user = Some("postgres".to_owned());
    own.min_pool_size = min_pool_size;
    config.databases.insert(name.to_owned(), own);
}

#[test]
fn a_pool_keeps_its_least_connections_open() {
    let monitor = Running::start(|config| {
        config.pool_size = 3;
        config.min_pool_size = 2;
        config.server_idle_limit = Some(Duration::ZERO);
        own_user(config, "kept", Some(9));
        own_user(config, "not_kept", Some(0));
    });
    // Before any client comes, and never more than the size; the limit of idleness leaves them.
    while servers(&monitor, "kept") < 3 {}
    let mut client = monitor.raw();
    while servers(&monitor, "postgres") < 2 {}
    assert_eq!(client.value("SELECT 1"), "1");
    let pools = shown(&monitor, "POOLS");
    assert_eq!(pools.len(), 2);
    let kept = pools.iter().find(|row| row.get("database") == Some("kept"));
    assert_eq!(kept.unwrap().get("sv_idle"), Some("3"));
    drop(client);
    // Without a client and without a user of its own, none is kept.
    while servers(&monitor, "postgres") > 0 {}
    assert_eq!(servers(&monitor, "kept"), 3);
}

#[test]
fn a_reserve_serves_those_who_have_waited() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.reserve_pool_size = 1;
        config.reserve_pool_wait = SHORT;
    });
    let (mut one, mut two, mut three) = (monitor.raw(), monitor.raw(), monitor.raw());
    begin(&mut one);
    begin(&mut two);
    three.send(&query("SELECT 3"));
    while shown(&monitor, "POOLS")[0].get("cl_waiting") != Some("1") {}
    assert_eq!(servers(&monitor, "postgres"), 2);
    assert!(three.is_silent());
    one.send(&query("COMMIT"));
    assert_eq!(three.tags(1), "TDCZ");
}

/// Pools of one user that differ in start-up parameters share their size, and their reserve.
#[test]
fn a_reserve_serves_pools_that_share_their_size() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.reserve_pool_size = 1;
        config.reserve_pool_wait = SHORT;
    });
    let with_options = |limit: usize| {
        let options = format!("-c statement_timeout={limit}");
        Raw::log_in(monitor.address, "postgres", &[("options", &options)])
    };
    let mut one = with_options(100_001);
    begin(&mut one);
    let mut two = with_options(100_002);
    begin(&mut two);
    assert_eq!(servers(&monitor, "postgres"), 2);
    let mut three = Raw::open(monitor.address);
    let options = [
        ("user", "postgres"),
        ("database", "postgres"),
        ("options", "-c statement_timeout=100003"),
    ];
    three.send(&startup(0x0003_0000, &options));
    let waits = || {
        let pools = shown(&monitor, "POOLS").into_iter();
        pools
            .filter(|row| row.get("cl_waiting") == Some("1"))
            .count()
    };
    while waits() < 1 {}
    assert_eq!(servers(&monitor, "postgres"), 2);
    assert!(three.is_silent());
    one.send(&query("COMMIT"));
    assert_eq!(one.tags(1), "CZ");
    assert_eq!(three.until_ready().pop().unwrap().tag, 'Z');
}

#[test]
fn sessions_end_when_their_servers_are_to_be_closed() {
    for fast in [true, false] {
        let monitor = Running::start(|config| {
            config.mode = Pooling::Session;
            config.server_fast_close = fast;
        });
        let (mut idle, mut busy) = (monitor.raw(), monitor.raw());
        let before = idle.value("SELECT pg_backend_pid()");
        begin(&mut busy);
        let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
        admin.simple_query("RECONNECT").unwrap();
        if fast {
            assert_eq!(idle.reply().field(b'C'), "57P01");
            assert_eq!(idle.try_reply(), None);
        } else {
            assert_eq!(idle.value("SELECT pg_backend_pid()"), before);
        }
        busy.send(&query("COMMIT"));
        assert_eq!(busy.tags(1), "CZ");
        if fast {
            assert_eq!(busy.reply().field(b'C'), "57P01");
        }
    }
}

/// A limit of a user is before that of a database, and that before the general one.
#[test]
fn users_and_databases_have_limits_of_time() {
    let short = Some(Limit(Some(SHORT)));
    let off = Some(Limit(None));
    let monitor = Running::start(|config| {
        config.transaction_limit = Some(SHORT);
        config.query_limit = None;
        for (name, limits) in [
            (
                "time_free",
                TimeLimits {
                    transaction: off,
                    ..TimeLimits::default()
                },
            ),
            (
                "time_slow",
                TimeLimits {
                    query: short,
                    transaction: off,
                    ..TimeLimits::default()
                },
            ),
        ] {
            let rules = UserRules {
                limits,
                ..UserRules::default()
            };
            config.user_rules.insert(name.to_owned(), rules);
        }
        let mut other = config.databases["*"].clone();
        other.name = Some("postgres".to_owned());
        other.limits = TimeLimits {
            transaction: off,
            idle_transaction: short,
            ..TimeLimits::default()
        };
        config.databases.insert("time_other".to_owned(), other);
        config.auth = tenbin_tpmonitor::Auth::Trust;
    });
    let mut direct = monitor.direct();
    let drop_roles = "DROP ROLE IF EXISTS time_free, time_slow";
    direct.batch_execute(drop_roles).unwrap();
    direct
        .batch_execute("CREATE ROLE time_free LOGIN; CREATE ROLE time_slow LOGIN")
        .unwrap();
    let mut free = Raw::log_in(monitor.address, "time_free", &[]);
    begin(&mut free);
    // However busy it is.
    let mut general = monitor.raw();
    general.send(&query("BEGIN; SELECT pg_sleep(1000)"));
    let error = general.reply();
    assert_eq!(error.field(b'C'), "25P04");
    let mut other = Raw::log_in(monitor.address, "postgres", &[("database", "time_other")]);
    begin(&mut other);
    assert_eq!(other.reply().field(b'C'), "25P03");
    let mut slow = Raw::log_in(monitor.address, "time_slow", &[]);
    slow.send(&query("SELECT pg_sleep(1000)"));
    assert_eq!(slow.reply().field(b'C'), "57014");
    // It began before the others.
    assert_eq!(free.value("SELECT 1"), "1");
    direct.batch_execute(drop_roles).unwrap();
}

#[test]
fn clients_that_wait_are_told_so_once() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.wait_notice = Some(SHORT);
    });
    let (mut one, mut two) = (monitor.raw(), monitor.raw());
    begin(&mut one);
    two.send(&query("SELECT 2"));
    let notice = two.reply();
    assert_eq!((notice.tag, notice.field(b'V')), ('N', "NOTICE".to_owned()));
    one.send(&query("COMMIT"));
    assert_eq!(two.tags(1), "TDCZ");
}

/// Values of `name=` in the lines of a log that have all of these words.
fn logged(log: &Path, words: &[&str], name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text
        .lines()
        .filter(|line| words.iter().all(|word| line.contains(word)));
    let value = |line: &str| {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    lines.filter_map(value).collect()
}

#[test]
fn a_log_a_number_of_the_process_and_permissions_of_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = at("log");
    let monitor = Running::start(|config| {
        config.log_file = Some(log.clone());
        config.pid_file = Some(at("pid"));
        config.socket_mode = Some(0o750);
        config.listen.push(Listen::Unix(at(".s.PGSQL.6432")));
        config.max_logins_per_address = 3;
    });
    let number = std::fs::read_to_string(at("pid")).unwrap();
    assert_eq!(number, format!("{}\n", std::process::id()));
    let mode = std::fs::metadata(at(".s.PGSQL.6432"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    // A refused log-in has its address, and no more of a name than names have.
    let long = "n".repeat(100);
    Raw::refused(monitor.address, &long, &[("database", "tenbin")]);
    let refused = ["log-in refused", "client=127.0.0.1", "database=tenbin"];
    assert_eq!(logged(&log, &refused, "user"), ["n".repeat(63)]);
    // Silent connections are counted, in no more than a line a second.
    let began = Instant::now();
    let silent: Vec<Raw> = (0..53).map(|_| Raw::open(monitor.address)).collect();
    let counts = || -> Vec<usize> {
        let lines = logged(
            &log,
            &["closed that had not logged in", "127.0.0.1"],
            "too_many",
        );
        lines.iter().map(|count| count.parse().unwrap()).collect()
    };
    while counts().iter().sum::<usize>() < 50 {}
    assert_eq!(counts().iter().sum::<usize>(), 50);
    assert!(counts().len() as u64 <= began.elapsed().as_secs() + 1);
    drop(silent);
    monitor.handle.stop();
    monitor.join();
    assert!(!at("pid").exists());
    assert_eq!(
        logged(&log, &["INFO stopping; transactions"], "limit_s"),
        ["30"]
    );
    // A server that has no TLS where it might, once for all connections. The log is the process's.
    reloads_move_the_log(folder.path());
    let server = server();
    let target = server.tcp_target();
    let dsn = format!(
        "host=127.0.0.1 port={} user=postgres password={} sslmode=prefer",
        server.port(),
        target.password.unwrap()
    );
    let monitor = Running::before(Arc::clone(&server), |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config::in_front_of(Route::parse(&dsn, Path::new("/")).unwrap(), listen);
        config.auth = tenbin_tpmonitor::Auth::Trust;
    });
    let (mut one, mut two) = (monitor.raw(), monitor.raw());
    begin(&mut one);
    begin(&mut two);
    let address = format!("127.0.0.1:{}", server.port());
    assert_eq!(
        logged(&log, &["has no TLS", &address], "address"),
        std::slice::from_ref(&address)
    );
}

fn admin(monitor: &Running) -> postgres::Client {
    monitor.config().dbname("tenbin").connect(NoTls).unwrap()
}

/// Why a command is refused.
fn refusal(admin: &mut postgres::Client, command: &str) -> String {
    let error = admin.simple_query(command).err().unwrap();
    error.as_db_error().unwrap().message().to_owned()
}

#[test]
fn one_client_can_be_killed() {
    let monitor = Running::start(|_| ());
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    begin(&mut one);
    let clients = shown(&monitor, "CLIENTS");
    let busy = clients.iter().find(|row| row.get("link") != Some(""));
    let pointer = busy.unwrap().get("ptr").unwrap().to_owned();
    let mut admin = admin(&monitor);
    admin
        .simple_query(&format!("KILL_CLIENT {pointer}"))
        .unwrap();
    assert_eq!(one.reply().field(b'C'), "57P01");
    assert_eq!(other.value("SELECT 1"), "1");
    for wrong in [pointer.as_str(), "c", "7", "c99999"] {
        let error = refusal(&mut admin, &format!("KILL_CLIENT {wrong}"));
        assert!(error.contains("no such client"), "{error}");
    }
}

#[test]
fn suspended_sessions_go_on_where_they_were() {
    let monitor = Running::start(|_| ());
    let mut client = monitor.raw();
    begin(&mut client);
    let pid = client.value("SELECT pg_backend_pid()");
    let mut admin = admin(&monitor);
    admin.simple_query("SUSPEND").unwrap();
    let error = refusal(&mut admin, "PAUSE");
    assert!(error.contains("already suspended"), "{error}");
    client.send(&query("SELECT 1"));
    // A round trip of another session, after which it would have been read.
    assert_eq!(shown(&monitor, "POOLS")[0].get("cl_active"), Some("1"));
    let direct = format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}");
    let state = monitor.direct().query_one(&direct, &[]).unwrap();
    assert_eq!(state.get::<_, &str>(0), "idle in transaction");
    assert!(client.is_silent());
    admin.simple_query("RESUME").unwrap();
    assert_eq!(client.tags(1), "TDCZ");
    client.send(&query("COMMIT"));
    assert_eq!(client.tags(1), "CZ");
}

#[test]
fn a_shutdown_waits_for_servers_or_clients() {
    for what in ["WAIT_FOR_SERVERS", "WAIT_FOR_CLIENTS"] {
        let monitor = Running::start(|config| config.mode = Pooling::Session);
        let (mut idle, mut busy) = (monitor.raw(), monitor.raw());
        let pid = busy.value("SELECT pg_backend_pid()");
        let mut admin = admin(&monitor);
        admin.simple_query(&format!("SHUTDOWN {what}")).unwrap();
        assert!(std::net::TcpStream::connect(monitor.address).is_err());
        // Sessions have their servers, and go on.
        assert_eq!(busy.value("SELECT pg_backend_pid()"), pid);
        assert_eq!(idle.value("SELECT 1"), "1");
        drop((idle, busy, admin));
        monitor.join();
    }
    let monitor = Running::start(|_| ());
    let (mut idle, mut busy) = (monitor.raw(), monitor.raw());
    begin(&mut busy);
    admin(&monitor)
        .simple_query("SHUTDOWN WAIT_FOR_SERVERS")
        .unwrap();
    assert_eq!(idle.reply().field(b'C'), "57P01");
    assert_eq!(busy.value("SELECT 1"), "1");
    busy.send(&query("COMMIT"));
    assert_eq!(busy.tags(1), "CZ");
    monitor.join();
}

/// A reload opens the log file that it names, and closes the one before. It leaves the log as it was.
fn reloads_move_the_log(folder: &Path) {
    let at = |name: &str| Some(folder.join(name));
    let mut files = vec![at("log"), None, at("second"), at("log")];
    let server = server();
    let listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
    let usual = Config::in_front_of(&server.target(), listen);
    let with = move |log_file| Config {
        log_file,
        ..usual.clone()
    };
    let first = with(files.remove(0));
    let reread = Box::new(move || Ok(with(files.remove(0))));
    let monitor = Running::configured(server, first, Some(reread));
    let entries = |name: &str, user: &str| {
        Raw::refused(monitor.address, user, &[("database", "tenbin")]);
        logged(&folder.join(name), &["log-in refused", user], "user").len()
    };
    assert_eq!(entries("log", "moved_1"), 1);
    monitor.reload();
    assert_eq!(entries("log", "moved_2"), 0);
    monitor.reload();
    assert_eq!(entries("second", "moved_3"), 1);
    monitor.reload();
    assert_eq!(entries("log", "moved_4"), 1);
    assert_eq!(entries("second", "moved_5"), 0);
}

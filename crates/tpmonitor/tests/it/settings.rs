//! Settings that `PgBouncer` has, too: sizes of pools, limits of time, files.

use crate::support::Running;
use crate::support::raw::{Raw, query};
use postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use tenbin_tpmonitor::{Config, Limit, Listen, Pooling, TimeLimits, UserRules};

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

#[test]
fn sessions_end_when_their_servers_are_to_be_closed() {
    for fast in [true, false] {
        let monitor = Running::start(|config| {
            config.pooling = Pooling::Session;
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
    general.send(&query("BEGIN"));
    let error = loop {
        let error = general
            .until_ready()
            .into_iter()
            .find(|reply| reply.tag == 'E');
        if let Some(error) = error {
            break error;
        }
        general.send(&query("SELECT pg_sleep(0.001)"));
    };
    assert_eq!(error.field(b'C'), "25P04");
    let mut other = Raw::log_in(monitor.address, "postgres", &[("database", "time_other")]);
    begin(&mut other);
    assert_eq!(other.reply().field(b'C'), "25P03");
    let mut slow = Raw::log_in(monitor.address, "time_slow", &[]);
    slow.send(&query("SELECT pg_sleep(1000)"));
    assert_eq!(slow.reply().field(b'C'), "57014");
    // It began before the others.
    assert_eq!(free.value("SELECT 1"), "1");
    drop(monitor);
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

#[test]
fn a_log_a_number_of_the_process_and_permissions_of_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let monitor = Running::start(|config| {
        config.log_file = Some(at("log"));
        config.pid_file = Some(at("pid"));
        config.socket_mode = Some(0o750);
        config.listen.push(Listen::Unix(at(".s.PGSQL.6432")));
    });
    let number = std::fs::read_to_string(at("pid")).unwrap();
    assert_eq!(number, format!("{}\n", std::process::id()));
    let mode = std::fs::metadata(at(".s.PGSQL.6432"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    Raw::refused(monitor.address, "postgres", &[("TimeZone", "nowhere")]);
    monitor.handle.stop();
    monitor.join();
    assert!(!at("pid").exists());
    let log = std::fs::read_to_string(at("log")).unwrap();
    assert!(
        log.contains("INFO stopping; transactions under way may end"),
        "{log}"
    );
}

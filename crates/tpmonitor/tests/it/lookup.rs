//! Users that no file lists: their passwords are asked for.

use crate::gate;
use crate::support::raw::{Raw, query, startup};
use crate::support::{Running, server};
use postgres::NoTls;
use tenbin_tpmonitor::{Auth, Config, Lookup};

const LOGGED_IN: &str = "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1";

/// A monitor that knows one password, and asks as that user for all others. Servers are reached by TCP, where
/// they want passwords too.
fn asking(change: impl FnOnce(&mut Config)) -> Running {
    let server = server();
    let target = server.tcp_target();
    Running::before(server, move |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config::in_front_of(&target, listen);
        config.lookup.user = Some(target.user.clone());
        change(config);
    })
}

/// Who the server says that one is, or the code of the refusal.
fn come_in(monitor: &Running, user: &str, password: &str) -> Result<String, String> {
    let mut config = monitor.config();
    let mut client = config
        .user(user)
        .password(password)
        .connect(NoTls)
        .map_err(|error| gate::code_of(&error))?;
    let row = client.query_one("SELECT current_user::text", &[]).unwrap();
    Ok(row.get(0))
}

fn refused(code: &str) -> Result<String, String> {
    Err(code.to_owned())
}

/// What a proof has shown serves for the log-in to the server, too, which knows the user by SCRAM only.
#[test]
fn what_the_server_keeps_decides_and_what_it_keeps_now() {
    let monitor = asking(|_| {});
    let mut direct = monitor.direct();
    direct
        .batch_execute(
            "CREATE ROLE sought LOGIN PASSWORD 'first'; CREATE ROLE sought_not PASSWORD 'x'; \
             CREATE ROLE sought_late LOGIN PASSWORD 'x' VALID UNTIL '2001-01-01'; CREATE ROLE sought_none LOGIN",
        )
        .unwrap();
    assert_eq!(come_in(&monitor, "sought", "first"), Ok("sought".into()));
    assert_eq!(come_in(&monitor, "sought", "second"), refused("28P01"));
    for user in [
        "sought_not",
        "sought_late",
        "sought_none",
        "sought' OR '1'='1",
        "nobody at all",
    ] {
        assert_eq!(come_in(&monitor, user, "x"), refused("28P01"), "{user}");
    }
    direct
        .batch_execute("ALTER ROLE sought PASSWORD 'second'")
        .unwrap();
    assert_eq!(come_in(&monitor, "sought", "first"), refused("28P01"));
    assert_eq!(come_in(&monitor, "sought", "second"), Ok("sought".into()));
    // Where the server has to be logged in to anew, that is with the new password.
    direct
        .batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'sought'",
        )
        .unwrap();
    let there = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'sought'";
    while direct.query_one(there, &[]).unwrap().get::<_, i64>(0) > 0 {}
    assert_eq!(come_in(&monitor, "sought", "second"), Ok("sought".into()));
    direct.batch_execute("DROP ROLE sought").unwrap();
    assert_eq!(come_in(&monitor, "sought", "second"), refused("28P01"));
}

#[test]
fn a_query_of_ones_own_asks_without_rights_of_its_own() {
    let monitor = asking(|config| {
        config.auth = Auth::Md5;
        let everywhere = config.databases.get_mut("*").unwrap();
        everywhere.user = Some("postgres".into());
        everywhere.password = config.users.get("postgres").cloned();
        config.lookup = Lookup::default();
        let mut own = everywhere.clone();
        own.name = Some("postgres".into());
        own.lookup = Lookup {
            user: Some("asker".into()),
            query: Some("SELECT * FROM kept_of($1)".into()),
            database: Some("register".into()),
        };
        config.databases.insert("own".into(), own.clone());
        config.databases.insert("register".into(), own);
        config
            .users
            .insert("asker".into(), tenbin_tpmonitor::Secret::new("asks"));
    });
    monitor
        .direct()
        .batch_execute(
            "CREATE ROLE asker LOGIN PASSWORD 'asks'; \
             CREATE FUNCTION kept_of(name text, OUT usename name, OUT passwd text) LANGUAGE sql SECURITY DEFINER AS \
             $$ SELECT usename, passwd FROM pg_shadow WHERE usename = name AND name LIKE 'kept%' $$; \
             SET password_encryption = 'md5'; CREATE ROLE kept_md5 LOGIN PASSWORD 'pencil'; \
             CREATE ROLE not_kept LOGIN PASSWORD 'pencil'; \
             SET password_encryption = 'scram-sha-256'; CREATE ROLE kept_scram LOGIN PASSWORD 'pencil'",
        )
        .unwrap();
    let at = |database: &str, user: &str, password: &str| {
        let mut config = monitor.config();
        gate::refused(config.dbname(database).user(user).password(password))
    };
    for user in ["kept_md5", "kept_scram"] {
        assert_eq!(at("own", user, "pencil"), None);
        assert_eq!(at("own", user, "pen").as_deref(), Some("28P01"));
        // Nobody is asked for this one.
        assert_eq!(at("other", user, "pencil").as_deref(), Some("28P01"));
    }
    assert_eq!(at("own", "not_kept", "pencil").as_deref(), Some("28P01"));
}

/// The number of clients that are not in yet, as the monitor sees it, has become this.
fn await_log_ins(monitor: &Running, password: &str, count: usize) {
    let mut admin = monitor.config();
    let mut admin = admin
        .dbname("tenbin")
        .password(password)
        .connect(NoTls)
        .unwrap();
    loop {
        let lists = admin.simple_query("SHOW LISTS").unwrap();
        let found = lists.iter().find_map(|message| match message {
            postgres::SimpleQueryMessage::Row(row) if row.get(0) == Some("login_clients") => {
                row.get(1)?.parse::<usize>().ok()
            }
            _ => None,
        });
        if found == Some(count) {
            return;
        }
    }
}

fn begin(monitor: &Running, user: &str) -> Raw {
    let mut raw = Raw::open(monitor.address);
    raw.send(&startup(
        0x0003_0000,
        &[("user", user), ("database", "postgres")],
    ));
    raw
}

/// A server that does not answer holds up nobody but those whom it is asked about; who comes in as the same
/// user meanwhile is asked for once; and a connection that is lost is lost to none of them.
#[test]
fn those_who_are_in_are_served_while_a_server_is_asked() {
    const MANY: usize = 10;
    let monitor = asking(|config| {
        config.lookup.query = Some(
            "SELECT rolname, rolpassword FROM pg_authid, (SELECT pg_advisory_xact_lock(4711), nextval('times_asked')) AS waits \
             WHERE rolname = $1"
                .into(),
        );
    });
    let password = server().tcp_target().password.unwrap();
    let mut direct = monitor.direct();
    direct
        .batch_execute(
            "CREATE ROLE sought_slowly LOGIN PASSWORD 'x'; CREATE SEQUENCE times_asked; SELECT pg_advisory_lock(4711)",
        )
        .unwrap();
    let mut served = monitor.config();
    let mut served = served.password(&password).connect(NoTls).unwrap();
    let mut first = begin(&monitor, "sought_slowly");
    let mut asker = None;
    while asker.is_none() {
        let waiting = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tenbin lookup' AND wait_event_type = 'Lock'";
        asker = direct
            .query_opt(waiting, &[])
            .unwrap()
            .map(|row| row.get::<_, i32>(0));
    }
    let mut others: Vec<Raw> = (1..MANY)
        .map(|_| begin(&monitor, "sought_slowly"))
        .collect();
    await_log_ins(&monitor, &password, MANY);
    // One of them does not wait for it.
    drop(others.pop());
    await_log_ins(&monitor, &password, MANY - 1);
    served.query_one("SELECT 1", &[]).unwrap();
    direct
        .query_one("SELECT pg_terminate_backend($1)", &[&asker])
        .unwrap();
    direct
        .batch_execute("SELECT pg_advisory_unlock(4711)")
        .unwrap();
    for raw in others.iter_mut().chain([&mut first]) {
        let reply = raw.reply();
        assert_eq!((reply.tag, reply.body[3]), ('R', 10), "asked for a proof");
    }
    let times: i64 = direct
        .query_one("SELECT last_value FROM times_asked", &[])
        .unwrap()
        .get(0);
    assert!(times <= 3, "asked {times} times for {MANY}");
}

/// While databases are paused nothing is asked, and no connection is there to ask on.
#[test]
fn log_ins_wait_for_a_pause_to_end() {
    let monitor = asking(|_| {});
    let mut direct = monitor.direct();
    direct
        .batch_execute("CREATE ROLE sought_paused LOGIN PASSWORD 'x'")
        .unwrap();
    assert_eq!(
        come_in(&monitor, "sought_paused", "x"),
        Ok("sought_paused".into())
    );
    let mut admin = monitor.config();
    admin
        .dbname("tenbin")
        .password(server().tcp_target().password.unwrap());
    let mut admin = admin.connect(NoTls).unwrap();
    for (pause, resume) in [("PAUSE", "RESUME"), ("PAUSE postgres", "RESUME postgres")] {
        admin.simple_query(pause).unwrap();
        let shown = admin.simple_query("SHOW SERVERS").unwrap();
        let row = |message: &_| matches!(message, postgres::SimpleQueryMessage::Row(_));
        assert!(!shown.iter().any(row), "{shown:?}");
        let mut waiting = begin(&monitor, "sought_paused");
        let password = server().tcp_target().password.unwrap();
        await_log_ins(&monitor, &password, 1);
        assert!(waiting.is_silent());
        admin.simple_query(resume).unwrap();
        let reply = waiting.reply();
        assert_eq!((reply.tag, reply.body[3]), ('R', 10), "asked for a proof");
    }
    direct.batch_execute("DROP ROLE sought_paused").unwrap();
}

#[test]
fn a_server_that_cannot_be_asked_is_an_error_to_those_who_need_it() {
    let wrong: [fn(&mut Config); 3] = [
        |config| config.lookup.query = Some("SELECT nothing FROM nowhere WHERE $1 = ''".into()),
        |config| config.lookup.user = Some("nobody at all".into()),
        |config| {
            config.lookup.database = Some("away".into());
            let mut away = config.databases["*"].clone();
            away.name = Some("no such database".into());
            config.databases.insert("away".into(), away);
        },
    ];
    let shared = server();
    let password = shared.tcp_target().password.unwrap();
    for change in wrong {
        let monitor = asking(change);
        for _ in 0..2 {
            assert_eq!(come_in(&monitor, "anybody", "x"), refused("08001"));
        }
        assert_eq!(
            come_in(&monitor, "postgres", &password),
            Ok("postgres".into())
        );
    }
}

#[test]
fn a_reload_asks_others() {
    let server = server();
    let target = server.tcp_target();
    let config = move |query: &str| {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let mut config = Config::in_front_of(&target, listen);
        config.lookup.user = Some(target.user.clone());
        config.lookup.query = Some(query.to_owned());
        config
    };
    let first = config(LOGGED_IN);
    let second = "SELECT rolname, NULL FROM pg_authid WHERE rolname = $1";
    let reread = Box::new(move || Ok(config(second)));
    let monitor = Running::configured(server, first, Some(reread));
    let mut direct = monitor.direct();
    direct
        .batch_execute("CREATE ROLE sought_once LOGIN PASSWORD 'x'")
        .unwrap();
    assert_eq!(
        come_in(&monitor, "sought_once", "x"),
        Ok("sought_once".into())
    );
    monitor.handle.reload();
    // A reload has no answer: it is over when the connection that asked as before is gone.
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenbin lookup'";
    while direct.query_one(asked, &[]).unwrap().get::<_, i64>(0) > 0 {}
    assert_eq!(come_in(&monitor, "sought_once", "x"), refused("28P01"));
}

#[test]
fn users_and_databases_have_limits_of_their_own() {
    let monitor = Running::start(|config| {
        config.max_server_connections_per_user = 2;
        config.max_clients_per_user = 5;
        let rules = tenbin_tpmonitor::UserRules {
            max_server_connections: Some(0),
            pool_size: Some(3),
            max_clients: Some(0),
            pooling: Some(tenbin_tpmonitor::Pooling::Session),
            ..tenbin_tpmonitor::UserRules::default()
        };
        config.user_rules.insert("limited_not".into(), rules);
        let mut one = config.databases["*"].clone();
        one.name = Some("postgres".into());
        one.max_server_connections = Some(1);
        config.databases.insert("limited_one".into(), one.clone());
        one.max_server_connections = None;
        one.max_clients = Some(1);
        config.databases.insert("limited_other".into(), one);
    });
    let mut direct = monitor.direct();
    direct
        .batch_execute("CREATE ROLE limited LOGIN; CREATE ROLE limited_not LOGIN")
        .unwrap();
    let enter =
        |user: &str, database: &str| Raw::log_in(monitor.address, user, &[("database", database)]);
    let begin = |raw: &mut Raw| raw.send(&query("BEGIN"));
    // One that was told to go may be there still, but is in no transaction.
    let mut there = |user: &str, state: &str| {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND state = $2";
        direct
            .query_one(count, &[&user, &state])
            .unwrap()
            .get::<_, i64>(0)
    };
    // Two in all, one at this database; whoever waits is served when one has ended.
    let mut one = enter("limited", "limited_one");
    let mut two = enter("limited", "limited_other");
    let mut three = enter("limited", "limited_one");
    let mut four = enter("limited", "postgres");
    for raw in [&mut one, &mut two] {
        begin(raw);
        assert_eq!(raw.tags(1), "CZ");
    }
    begin(&mut three);
    begin(&mut four);
    let mut admin = monitor.config().dbname("tenbin").connect(NoTls).unwrap();
    let waiting = |admin: &mut postgres::Client| {
        let pools = admin.simple_query("SHOW POOLS").unwrap();
        let waiting = pools.iter().filter_map(|message| match message {
            postgres::SimpleQueryMessage::Row(row) => row.get("cl_waiting")?.parse::<usize>().ok(),
            _ => None,
        });
        waiting.sum::<usize>()
    };
    while waiting(&mut admin) < 2 {}
    assert_eq!(there("limited", "idle in transaction"), 2);
    for raw in [&mut one, &mut two] {
        raw.send(&query("COMMIT"));
        assert_eq!(raw.tags(1), "CZ");
    }
    assert_eq!((three.tags(1), four.tags(1)), ("CZ".into(), "CZ".into()));
    assert_eq!(there("limited", "idle in transaction"), 2);
    // Of clients, too.
    let refusal = |user: &str, database: &str| {
        let mut config = monitor.config();
        let error = config.user(user).dbname(database).connect(NoTls).err()?;
        Some(error.as_db_error().unwrap().message().to_owned())
    };
    assert!(
        refusal("limited_not", "limited_other")
            .unwrap()
            .contains("to database \"limited_other\"")
    );
    let _fifth = enter("limited", "postgres");
    assert!(
        refusal("limited", "postgres")
            .unwrap()
            .contains("of user \"limited\"")
    );
    // And one who has rules of his own: three servers, and each until its client leaves.
    let mut free: Vec<Raw> = (0..3).map(|_| enter("limited_not", "postgres")).collect();
    for raw in &mut free {
        begin(raw);
        assert_eq!(raw.tags(1), "CZ");
        raw.send(&query("COMMIT"));
        assert_eq!(raw.tags(1), "CZ");
    }
    let mut fourth = enter("limited_not", "postgres");
    begin(&mut fourth);
    while waiting(&mut admin) < 1 {}
    assert_eq!(there("limited_not", "idle"), 3);
    drop(free.pop());
    assert_eq!(fourth.tags(1), "CZ");
}

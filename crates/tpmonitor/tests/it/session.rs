//! State of sessions: carried along, kept by its client, or taken away; never another's.

use crate::support::Running;
use crate::support::raw::{Raw, Reply, bind, close, execute, parse, query, startup, sync};
use tenbin_tpmonitor::{Config, Pooling, SessionState};

fn one(config: &mut Config) {
    config.pool_size = 1;
}

#[test]
fn reported_parameters_follow_their_client() {
    let monitor = Running::start(one);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    let usual = other.value("SHOW TimeZone");
    one.send(&query(
        "SET TimeZone TO 'Asia/Tokyo'; SET application_name = 'it''s me'",
    ));
    one.until_ready();
    assert_eq!(other.value("SHOW TimeZone"), usual);
    assert_eq!(other.value("SHOW application_name"), "");
    assert_eq!(one.value("SHOW TimeZone"), "Asia/Tokyo");
    assert_eq!(one.value("SHOW application_name"), "it's me");
    // What is rolled back was never set.
    other.send(&query("BEGIN; SET DateStyle = 'German'; ROLLBACK"));
    other.until_ready();
    assert_eq!(one.value("SHOW DateStyle"), other.value("SHOW DateStyle"));
    one.send(&query("RESET ALL"));
    one.until_ready();
    assert_eq!(one.value("SHOW TimeZone"), usual);
}

#[test]
fn values_of_the_log_in_are_told_as_the_server_spells_them() {
    let monitor = Running::start(one);
    let more = [
        ("user", "postgres"),
        ("TimeZone", "utc"),
        ("DateStyle", "german"),
    ];
    for _ in 0..2 {
        let mut client = Raw::open(monitor.address);
        client.send(&startup(0x0003_0000, &more));
        let told: Vec<Vec<u8>> = client
            .until_ready()
            .into_iter()
            .filter(|reply| reply.tag == 'S')
            .map(|reply| reply.body)
            .collect();
        assert!(told.contains(&b"TimeZone\0UTC\0".to_vec()));
        assert!(told.contains(&b"DateStyle\0German, DMY\0".to_vec()));
        assert_eq!(client.value("SHOW DateStyle"), "German, DMY");
    }
    let mut wrong = Raw::open(monitor.address);
    wrong.send(&startup(
        0x0003_0000,
        &[("user", "postgres"), ("TimeZone", "nowhere")],
    ));
    assert_eq!(wrong.reply().field(b'C'), "22023");
    // Others make a pool of their own, whose servers have them from the start.
    let mut extra = Raw::log_in(
        monitor.address,
        "postgres",
        &[
            ("options", "-c statement_timeout=4321"),
            ("search_path", "pg_catalog"),
        ],
    );
    assert_eq!(extra.value("SHOW statement_timeout"), "4321ms");
    assert_eq!(extra.value("SHOW search_path"), "pg_catalog");
    assert_eq!(monitor.raw().value("SHOW statement_timeout"), "0");
}

const SHOW: &str = "SELECT current_setting('DateStyle'), current_setting('TimeZone'), current_setting('application_name')";

/// Conversations that give parameters their first value, and how many `ReadyForQuery` end each.
#[expect(clippy::too_many_lines, reason = "a table")]
fn resets() -> Vec<(&'static str, Vec<u8>, usize)> {
    let show = query(SHOW);
    let extended = |sql: &str| [parse("", sql), bind("", ""), execute(""), sync()].concat();
    let named = |sql: &str| {
        [
            close(b'S', "r"),
            parse("r", sql),
            sync(),
            bind("", "r"),
            execute(""),
            sync(),
        ]
        .concat()
    };
    let unnamed = [
        [
            close(b'S', "r"),
            parse("r", "RESET ALL"),
            parse("", "SELECT 7"),
            sync(),
        ]
        .concat(),
        [
            bind("", "r"),
            execute(""),
            sync(),
            bind("", ""),
            execute(""),
            sync(),
        ]
        .concat(),
    ];
    vec![
        ("the unnamed statement stays", unnamed.concat(), 3),
        ("RESET ALL", query("RESET ALL"), 1),
        ("one", query("RESET DateStyle"), 1),
        ("DISCARD ALL", query("DISCARD ALL"), 1),
        (
            "DEFAULT",
            query("SET DateStyle TO DEFAULT; SET TIME ZONE LOCAL"),
            1,
        ),
        ("extended", extended("RESET ALL"), 1),
        ("extended, discard", extended("DISCARD ALL"), 1),
        ("named", named("RESET TimeZone"), 2),
        (
            "what follows",
            [query("RESET ALL"), show.clone(), extended("SELECT 1")].concat(),
            3,
        ),
        (
            "pipeline",
            [
                extended("RESET ALL"),
                extended("SHOW DateStyle"),
                query("SHOW TimeZone"),
            ]
            .concat(),
            3,
        ),
        (
            "set again",
            [
                extended("SELECT 1"),
                query("RESET DateStyle; SET DateStyle TO 'SQL, YMD'"),
            ]
            .concat(),
            2,
        ),
        (
            "committed",
            [
                query("BEGIN"),
                query("RESET ALL"),
                show.clone(),
                query("COMMIT"),
            ]
            .concat(),
            4,
        ),
        (
            "rolled back",
            [
                query("BEGIN"),
                query("RESET ALL"),
                show.clone(),
                query("ROLLBACK"),
            ]
            .concat(),
            4,
        ),
        (
            "failed",
            [
                query("BEGIN"),
                query("RESET ALL"),
                query("SELECT 1/0"),
                query("ROLLBACK"),
            ]
            .concat(),
            4,
        ),
        (
            "refused",
            [
                query("BEGIN"),
                query("SELECT 1/0"),
                query("RESET ALL"),
                query("ROLLBACK"),
            ]
            .concat(),
            4,
        ),
        ("undone", query("RESET ALL; SELECT 1/0"), 1),
        (
            "undone, extended",
            [
                parse("", "RESET ALL"),
                bind("", ""),
                execute(""),
                extended("SELECT 1/0"),
            ]
            .concat(),
            1,
        ),
        (
            "committed before an error",
            query("BEGIN; RESET DateStyle; COMMIT; SELECT 1/0"),
            1,
        ),
        (
            "isolation",
            [
                query("BEGIN"),
                query("RESET ALL"),
                query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
                query("COMMIT"),
            ]
            .concat(),
            4,
        ),
    ]
}

/// The values that a session begins with are what RESET gives back, as with a server without a monitor. Each
/// conversation is led with both, and its replies are compared.
#[test]
fn reset_gives_back_the_values_of_the_log_in() {
    let first = [
        ("DateStyle", "german"),
        ("TimeZone", "Asia/Tokyo"),
        ("application_name", "it's \\ me"),
    ];
    let show = query(SHOW);
    let set = query(
        "SET DateStyle TO 'SQL, MDY'; SET TimeZone TO 'Europe/Paris'; SET application_name TO 'other'",
    );
    for pooling in [Pooling::Transaction, Pooling::Session] {
        let monitor = Running::start(|config| {
            config.pool_size = 2;
            config.mode = pooling;
        });
        let told = |replies: Vec<Reply>| {
            // Changes are compared by their outcome.
            let told = replies.into_iter().filter(|reply| reply.tag != 'S');
            told.collect::<Vec<Reply>>()
        };
        let mut through = Raw::log_in(monitor.address, "postgres", &first);
        let mut direct = Raw::direct(&monitor.server, "postgres", &first);
        for (what, bytes, readies) in resets() {
            for session in [&mut through, &mut direct] {
                session.send(&[&set[..], &bytes, &show[..]].concat());
            }
            for _ in 0..readies + 2 {
                let expected = told(direct.until_ready());
                assert_eq!(told(through.until_ready()), expected, "{pooling:?}, {what}");
            }
        }
    }
}

#[test]
fn what_the_server_remarks_on_a_value_of_the_log_in_is_passed_on() {
    for pooling in [Pooling::Transaction, Pooling::Session] {
        let monitor = Running::start(|config| config.mode = pooling);
        let remarks = |mut config: postgres::Config, name: &str| {
            let (told, heard) = std::sync::mpsc::channel();
            config.application_name(name);
            config.notice_callback(move |notice| told.send(notice.message().to_owned()).unwrap());
            let mut client = config.connect(postgres::NoTls).unwrap();
            client.simple_query("SELECT 1").unwrap();
            heard.try_iter().collect::<Vec<String>>()
        };
        let long = "x".repeat(65);
        let direct = remarks(monitor.server.target().config(), &long);
        assert_eq!(direct.len(), 1);
        // The first is asked the server for; the others are told what it said then, and nobody else is.
        for _ in 0..3 {
            assert_eq!(remarks(monitor.config(), &long), direct);
            assert!(remarks(monitor.config(), "short").is_empty());
        }
    }
}

#[test]
fn a_client_with_state_of_its_own_keeps_its_server() {
    let monitor = Running::start(|config| config.pool_size = 2);
    for sql in [
        "SET statement_timeout = 1234",
        "CREATE TEMP TABLE pinned (a int)",
        "SELECT pg_advisory_lock(42)",
        "LISTEN pinned",
        "PREPARE pinned AS SELECT 1",
        "BEGIN; DECLARE pinned CURSOR WITH HOLD FOR SELECT 1; COMMIT",
    ] {
        let mut client = monitor.raw();
        client.send(&query(sql));
        assert!(
            client.until_ready().iter().all(|reply| reply.tag != 'E'),
            "{sql}"
        );
        let pid = client.value("SELECT pg_backend_pid()");
        for _ in 0..3 {
            let other = monitor.raw().value("SELECT pg_backend_pid()");
            assert_ne!(other, pid, "{sql}");
        }
        assert_eq!(client.value("SELECT pg_backend_pid()"), pid, "{sql}");
        client.send(&query("DISCARD ALL"));
        assert_eq!(client.tags(1), "CZ", "{sql}");
        drop(client);
    }
    // What one left behind when it went is gone.
    let mut gone = monitor.raw();
    gone.send(&query(
        "SET statement_timeout = 1234; SELECT pg_advisory_lock(43)",
    ));
    gone.until_ready();
    drop(gone);
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    for client in [&mut one, &mut other] {
        client.send(&query("BEGIN"));
        assert_eq!(client.tags(1), "CZ");
        assert_eq!(client.value("SHOW statement_timeout"), "0");
    }
    assert_eq!(one.value("SELECT pg_try_advisory_xact_lock(43)"), "t");
}

#[test]
fn notifications_reach_the_one_who_listens() {
    let monitor = Running::start(|config| config.pool_size = 2);
    let (mut listener, mut other) = (monitor.raw(), monitor.raw());
    listener.send(&query("LISTEN news"));
    assert_eq!(listener.tags(1), "CZ");
    other.send(&query("NOTIFY news, 'now'"));
    assert_eq!(other.tags(1), "CZ");
    let notification = listener.reply();
    assert_eq!(notification.tag, 'A');
    assert!(notification.body.ends_with(b"news\0now\0"));
}

/// Clients leave out what they have said themselves, which they know by the number that they were given
/// when they logged in.
#[test]
fn a_client_knows_its_own_notifications() {
    for pooling in [Pooling::Transaction, Pooling::Session] {
        let monitor = Running::start(|config| config.mode = pooling);
        let (mut listener, mut other) = (monitor.raw(), monitor.raw());
        listener.send(&query("LISTEN news"));
        assert_eq!(listener.tags(1), "CZ");
        listener.send(&query("NOTIFY news, 'own'"));
        let mut own = listener.until_ready();
        own.retain(|reply| reply.tag == 'A');
        assert_eq!(own[0].body, [&listener.key[..4], b"news\0own\0"].concat());
        other.send(&query("NOTIFY news, 'other''s'"));
        assert_eq!(other.tags(1), "CZ");
        let others = listener.reply();
        assert!(others.body.ends_with(b"news\0other's\0"));
        assert_ne!(others.body[..4], listener.key[..4]);
    }
}

#[test]
fn where_it_is_so_configured_state_is_taken_away() {
    let monitor = Running::start(|config| {
        config.pool_size = 1;
        config.session_state = SessionState::Reset;
    });
    let (mut one, mut other) = (monitor.raw(), monitor.raw());
    one.send(&query("SET statement_timeout = 1234"));
    assert_eq!(one.tags(1), "CZ");
    assert_eq!(other.value("SHOW statement_timeout"), "0");
    assert_eq!(one.value("SHOW statement_timeout"), "0");
}

/// Whoever finds a server when it logs in is told that one's process number; who does not is in all the same.
#[test]
fn a_session_is_told_the_process_of_its_server() {
    let monitor = Running::start(|config| {
        config.mode = Pooling::Session;
        config.pool_size = 2;
    });
    let mut clients: Vec<Raw> = (0..3).map(|_| monitor.raw()).collect();
    for client in &mut clients[..2] {
        let own = client.value("SELECT pg_backend_pid()");
        assert_eq!(own, told(client).to_string());
    }
    let (first, last) = clients.split_at_mut(2);
    last[0].send(&query("SELECT pg_sleep(100)"));
    first[0].send(&query("SELECT pg_sleep(100)"));
    let mut direct = monitor.direct();
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(100)' AND state = 'active'";
    while direct.query_one(asleep, &[]).unwrap().get::<_, i64>(0) == 0 {}
    first[0].cancel();
    assert_eq!(first[0].tags(1), "TEZ");
    // One that waits for a server has a number to be cancelled by, too.
    last[0].cancel();
    assert_eq!(last[0].tags(1), "EZ");
    drop(clients.remove(0));
    assert_eq!(clients[1].value("SELECT 1"), "1");
}

/// The process number that a client was given.
fn told(client: &Raw) -> u32 {
    u32::from_be_bytes(client.key[..4].try_into().unwrap())
}

/// A client that uses its number in SQL must not meet another's process, and one that tells its sessions
/// apart by it must not take the next for the last.
#[test]
fn a_number_of_the_monitors_own_is_that_of_no_process_and_of_one_session() {
    let monitor = Running::start(|_| {});
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let mut client = monitor.raw();
        let number = told(&client);
        // PID_MAX_LIMIT of Linux.
        assert!(number >= 1 << 22, "{number}");
        assert!(seen.insert(number), "{number} once more");
        assert_eq!(client.value("SELECT 1"), "1");
    }
}

#[test]
fn a_session_that_ends_half_way_hands_its_server_to_nobody() {
    let monitor = Running::start(|config| {
        config.mode = Pooling::Session;
        config.pool_size = 1;
    });
    let process = |client: &mut Raw| client.value("SELECT pg_backend_pid()");
    let mut client = monitor.raw();
    let first = process(&mut client);
    drop(client);
    // One that has ended in good order does.
    let mut client = monitor.raw();
    assert_eq!(process(&mut client), first);
    client.send(&query("BEGIN"));
    assert_eq!(client.tags(1), "CZ");
    drop(client);
    let mut client = monitor.raw();
    let second = process(&mut client);
    assert_ne!(second, first);
    // Without waiting for the answer, which takes some time; what was asked for is done.
    client.send(&query(
        "CREATE TABLE left_half_way (); SELECT pg_sleep(0.2)",
    ));
    drop(client);
    let mut client = monitor.raw();
    assert_ne!(process(&mut client), second);
    assert_eq!(client.value("SELECT count(*) FROM left_half_way"), "0");
}

/// Also where sessions have left this moment, and their servers are still being reset.
#[test]
fn a_database_that_is_dropped_has_no_free_connections_left() {
    for mode in [Pooling::Transaction, Pooling::Session] {
        let monitor = Running::start(|config| config.mode = mode);
        let mut client = monitor.connect();
        for (name, extended) in [("dropped_plainly", false), ("dropped by a statement", true)] {
            client
                .batch_execute(&format!("CREATE DATABASE \"{name}\""))
                .unwrap();
            let others: Vec<_> = (0..8)
                .map(|_| {
                    let mut other = monitor.config();
                    let mut other = other.dbname(name).connect(postgres::NoTls).unwrap();
                    other
                        .batch_execute("CREATE TEMPORARY TABLE left_here ()")
                        .unwrap();
                    other
                })
                .collect();
            drop(others);
            let sql = format!("DROP DATABASE \"{name}\"");
            if extended {
                client.execute(&sql, &[]).unwrap();
            } else {
                client.batch_execute(&sql).unwrap();
            }
        }
    }
}

/// What a session begins with is read when it begins: a free connection from before would know it otherwise.
#[test]
fn what_is_changed_of_a_role_or_a_database_is_so_for_the_next_to_log_in() {
    for mode in [Pooling::Transaction, Pooling::Session] {
        let monitor = Running::start(|config| {
            config.mode = mode;
            config.pool_size = 1;
        });
        let mut owner = monitor.connect();
        let name = format!("changing_{mode:?}").to_lowercase();
        owner
            .batch_execute(&format!("CREATE ROLE {name} LOGIN"))
            .unwrap();
        owner
            .batch_execute(&format!("CREATE DATABASE {name} OWNER {name}"))
            .unwrap();
        let values = || {
            let mut config = monitor.config();
            let mut client = config
                .user(&name)
                .dbname(&name)
                .connect(postgres::NoTls)
                .unwrap();
            ["work_mem", "TimeZone"].map(|parameter| {
                let row = client.query_one(&format!("SHOW {parameter}"), &[]);
                row.unwrap().get::<_, String>(0)
            })
        };
        let [memory, zone] = values();
        owner
            .batch_execute(&format!("ALTER DATABASE {name} SET work_mem = '7MB'"))
            .unwrap();
        assert_eq!(values(), ["7MB", &zone]);
        // One that the server tells at log-in, in a transaction and by a statement of the protocol.
        let mut transaction = owner.transaction().unwrap();
        transaction
            .execute(
                &format!("ALTER ROLE {name} SET TimeZone = 'Asia/Tokyo'"),
                &[],
            )
            .unwrap();
        assert_eq!(values(), ["7MB", &zone]);
        transaction.commit().unwrap();
        assert_eq!(values(), ["7MB", "Asia/Tokyo"]);
        // A role of the same name is another.
        owner
            .batch_execute(&format!(
                "ALTER DATABASE {name} OWNER TO postgres; DROP ROLE {name}; CREATE ROLE {name} LOGIN"
            ))
            .unwrap();
        assert_eq!(values(), ["7MB", &zone]);
        assert_ne!(memory, "7MB");
    }
}

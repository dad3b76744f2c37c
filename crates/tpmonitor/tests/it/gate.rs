//! Rules, users of this machine, limits, and those who never come in.

use crate::support::raw::{Raw, message, startup};
use crate::support::{Running, server};
use postgres::NoTls;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};
use tenbin_tpmonitor::{Auth, Config, Listen, Rules, Secret};

/// The code that a log-in is refused with, or nothing when it works.
pub(crate) fn refused(config: &postgres::Config) -> Option<String> {
    config.connect(NoTls).err().as_ref().map(code_of)
}

/// The code of an answer.
pub(crate) fn code_of(error: &postgres::Error) -> String {
    error.code().expect("an answer").code().to_owned()
}

#[test]
fn rules_decide_by_who_comes_and_from_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hba.conf");
    std::fs::write(
        &file,
        "host open all 127.0.0.0/8 trust\nhost all alice 127.0.0.1/32 scram-sha-256\nhost shut all all reject\nhost all all ::1/128 trust\nlocal all all trust\n",
    )
    .unwrap();
    let monitor = Running::start(|config| {
        config.auth = Auth::Reject;
        config.hba = Some(Rules::read(&file).unwrap());
        config.users.insert("alice".into(), Secret::new("hers"));
        let database = config.databases.get_mut("*").unwrap();
        database.name = Some("postgres".into());
        database.user = Some("postgres".into());
    });
    let at = |database: &str, user: &str, password: &str| {
        let mut config = monitor.config();
        config.dbname(database).user(user).password(password);
        refused(&config)
    };
    let refusal = |code: &str| Some(code.to_owned());
    assert_eq!(at("open", "anybody", ""), None);
    assert_eq!(at("other", "alice", "hers"), None);
    assert_eq!(at("other", "alice", "his"), refusal("28P01"));
    // The first that fits: her name comes before the closed door.
    assert_eq!(at("shut", "alice", "hers"), None);
    assert_eq!(at("shut", "bob", ""), refusal("28000"));
    assert_eq!(at("other", "bob", ""), refusal("28000"));
}

#[test]
fn users_of_this_machine_come_in_as_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join(".s.PGSQL.6432");
    let listen = socket.clone();
    let monitor = Running::start(move |config| {
        config.auth = Auth::Peer;
        config.listen.push(Listen::Unix(listen));
        config.databases.get_mut("*").unwrap().user = Some("postgres".into());
    });
    let me = Command::new("id").arg("-un").output().unwrap();
    let me = String::from_utf8(me.stdout).unwrap();
    let mut config = postgres::Config::new();
    config
        .host_path(folder.path())
        .port(6432)
        .dbname("postgres");
    assert_eq!(refused(config.user(me.trim())), None);
    assert_eq!(refused(config.user("somebody_else")), Some("28000".into()));
    let mut config = monitor.config();
    assert_eq!(refused(config.user(me.trim())), Some("28000".into()));
}

#[test]
fn there_may_be_so_many_of_each_kind() {
    type Set = fn(&mut Config);
    let cases: [(Set, &str, bool); 3] = [
        (
            |config| config.max_clients_per_user = 2,
            "max_clients_per_user",
            false,
        ),
        (
            |config| config.max_clients_per_database = 2,
            "max_clients_per_database",
            true,
        ),
        (
            |config| config.max_clients_per_address = 2,
            "max_clients_per_address",
            true,
        ),
    ];
    let _shared = server();
    for (set, name, concerns_others) in cases {
        let monitor = Running::start(|config| {
            set(config);
            config.databases.get_mut("*").unwrap().user = Some("postgres".into());
        });
        let two = [monitor.raw(), monitor.raw()];
        let refusal = |user: &str| {
            let mut config = monitor.config();
            let error = config.user(user).connect(NoTls).err()?;
            Some(error.as_db_error().unwrap().message().to_owned())
        };
        let text = refusal("postgres").expect(name);
        assert!(text.contains(name), "{text}");
        assert_eq!(refusal("other").is_some(), concerns_others, "{name}");
        drop(two);
        // As soon as the monitor has seen that they have left.
        let begun = Instant::now();
        while refusal("postgres").is_some() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
        }
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Connections that say a little, slowly, and never come in: each costs no more than what it may say
/// before it is known, and all are closed in time.
#[test]
fn those_who_never_come_in_cost_little_and_are_sent_away() {
    const MANY: usize = 1500;
    const LIMIT: Duration = Duration::from_secs(3);
    let authority = crate::support::tls::Authority::new();
    authority.sign("monitor", "a monitor", &["localhost"]);
    let monitor = Running::start(|config| {
        config.login_limit = LIMIT;
        config.max_logins_per_address = 0;
        config.tls = tenbin_tpmonitor::ClientTls::read(
            tenbin_tpmonitor::TlsMode::Prefer,
            tenbin_tpmonitor::TlsVersions::default(),
            Some(&authority.path("monitor.crt")),
            Some(&authority.path("monitor.key")),
            None,
        )
        .unwrap();
    });
    let mut served = monitor.raw();
    let before = resident_bytes();
    // The front of a start-up packet, of a TLS record, and of an answer that is never whole.
    let packet = [&10_000_u32.to_be_bytes()[..], &[0, 3, 0, 0], &[b'x'; 9000]].concat();
    let record = [&[22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb][..], &[0; 9000]].concat();
    let mut slow: Vec<TcpStream> = (0..MANY)
        .map(|number| {
            let mut socket = TcpStream::connect(monitor.address).unwrap();
            let said = if number % 2 == 0 { &packet } else { &record };
            socket.write_all(said).unwrap();
            socket
        })
        .collect();
    assert_eq!(served.value("SELECT 1"), "1");
    let each = resident_bytes().saturating_sub(before) / MANY;
    eprintln!("{each} bytes for each of {MANY} connections that are not in");
    assert!(each < 40 << 10, "{each} bytes each");
    let begun = Instant::now();
    for socket in &mut slow {
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // One byte more buys no time.
        let _ = socket.write_all(b"x");
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    assert!(begun.elapsed() < 3 * LIMIT, "{:?}", begun.elapsed());
    assert_eq!(served.value("SELECT 2"), "2");
    let mut late = Raw::open(monitor.address);
    late.send(&startup(0x0003_0000, &[("user", "postgres")]));
    assert!(late.until_ready().iter().any(|reply| reply.tag == 'K'));
}

#[test]
fn silent_connections_keep_nobody_out() {
    let monitor = Running::start(|config| {
        config.max_clients = 2;
        config.max_logins_per_address = 10;
    });
    let mut silent: Vec<Raw> = (0..30).map(|_| Raw::open(monitor.address)).collect();
    // The newest may still log in: no limit of clients counts those who have not.
    let mut client = monitor.raw();
    assert_eq!(client.value("SELECT 1"), "1");
    // The oldest have made room, in their order.
    for socket in &mut silent[..20] {
        assert_eq!(socket.try_reply(), None);
    }
    let mut newest = silent.pop().unwrap();
    newest.send(&startup(0x0003_0000, &[("user", "postgres")]));
    assert!(newest.until_ready().iter().any(|reply| reply.tag == 'K'));
}

/// The salt that is told to a user who logs in by SCRAM.
fn salt(monitor: &Running, user: &str) -> String {
    let mut raw = Raw::open(monitor.address);
    raw.send(&startup(0x0003_0000, &[("user", user)]));
    assert_eq!(raw.reply().tag, 'R');
    let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
    let length = u32::try_from(first.len()).unwrap().to_be_bytes();
    let body = [&b"SCRAM-SHA-256\0"[..], &length, first].concat();
    raw.send(&message(b'p', &body));
    let said = String::from_utf8_lossy(&raw.reply().body).into_owned();
    let salt = said.split(',').find(|part| part.starts_with("s="));
    salt.unwrap().to_owned()
}

#[test]
fn a_salt_does_not_tell_whether_there_is_such_a_user() {
    let monitor = Running::start(|config| {
        config.auth = Auth::Scram;
        let secret = Secret::new("x");
        config.users.insert("known".to_owned(), secret);
    });
    for user in ["known", "unknown"] {
        assert_eq!(salt(&monitor, user), salt(&monitor, user), "{user}");
    }
    assert_ne!(salt(&monitor, "unknown"), salt(&monitor, "nobody"));
}

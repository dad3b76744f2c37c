//! The leak test: many clients on few server connections do everything at once, leave at any time and
//! have their servers killed, and each looks whether all it gets is its own.
//!
//! `TENBIN_LEAK_QUERIES` and `TENBIN_LEAK_CLIENTS` make it larger, as `cargo xtask leaks` does.

use crate::support::Running;
use crate::support::raw::{Raw, Reply, bind, close, execute, message, parse, query, startup, sync};
use crate::support::tls::Authority;
use postgres::Client;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tenbin_server::{Embedded, Options};
use tenbin_tpmonitor::{Auth, ClientTls, Config, Pooling, Route, TlsMode, TlsVersions};

const QUERIES: i64 = 30_000;
const CLIENTS: u64 = 200;
const SERVERS: usize = 10;
/// After so many queries a server's process is killed.
const KILL_EVERY: i64 = 500;

/// The connection is gone.
struct Lost;

/// What is common to all clients.
struct LeakTest {
    address: SocketAddr,
    /// Queries that are still to be asked.
    left: AtomicI64,
    /// A way past the monitor.
    direct: Mutex<Client>,
    kills: AtomicU64,
    losses: AtomicU64,
    /// Rows that were copied in, and rows of which only the server knows.
    copied: AtomicU64,
    doubtful: AtomicU64,
}

/// `SplitMix64` (Steele, Lea and Flood, 2014): the same choices in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// One client, that knows what it must be answered.
struct TestClient<'f> {
    test: &'f LeakTest,
    name: String,
    random: Random,
    raw: Raw,
    serial: u64,
    /// A cancel request of its own is about: the next query, too, may be the one that it meets.
    may_be_cancelled: bool,
}

impl<'f> TestClient<'f> {
    fn new(test: &'f LeakTest, number: u64) -> Self {
        let name = format!("client{number}");
        Self {
            test,
            raw: enter(test.address, &name),
            name,
            random: Random(number),
            serial: 0,
            may_be_cancelled: false,
        }
    }

    /// A text that nobody else asks for.
    fn tag(&mut self) -> String {
        self.serial += 1;
        format!("{}-{}", self.name, self.serial)
    }

    fn run(mut self) {
        loop {
            let left = self.test.left.fetch_sub(1, Ordering::Relaxed);
            if left <= 0 {
                return;
            }
            if left % KILL_EVERY == 0 {
                self.kill_somebody();
            }
            if self.act().is_err() {
                self.test.losses.fetch_add(1, Ordering::Relaxed);
                self.enter_again();
            }
        }
    }

    fn enter_again(&mut self) {
        self.may_be_cancelled = false;
        // First: it may hold a server, and where sessions are passed on, coming in takes one. As many as there
        // are servers would all wait for each other.
        self.raw.hang_up();
        self.raw = enter(self.test.address, &self.name);
    }

    fn act(&mut self) -> Result<(), Lost> {
        match self.random.below(100) {
            0..55 => self.ask_plainly(),
            55..65 => self.ask_in_a_batch(),
            65..75 => self.ask_in_a_transaction(),
            75..80 => self.ask_for_the_impossible(),
            80..85 => self.copy_in(),
            85..88 => self.copy_out(),
            88..91 => self.keep_to_itself(),
            91..94 => self.cancel_a_sleep(),
            94..96 => self.cancel_anything(),
            96 => self.listen_to_nobody(),
            _ => {
                self.leave();
                Ok(())
            }
        }
    }

    /// Sends, and reads so many `ReadyForQuery`; errors may be these.
    fn exchange(
        &mut self,
        bytes: &[u8],
        readies: usize,
        errors: &[&str],
    ) -> Result<Vec<Reply>, Lost> {
        if !self.raw.try_send(bytes) {
            return Err(Lost);
        }
        self.replies(readies, errors)
    }

    /// The next message; an error may be one of these.
    fn reply(&mut self, errors: &[&str]) -> Result<Reply, Lost> {
        let reply = self.raw.try_reply().ok_or(Lost)?;
        if reply.tag == 'E' {
            let sqlstate = reply.field(b'C');
            let killed = matches!(sqlstate.as_str(), "57P01" | "08006");
            if killed && reply.field(b'V') == "FATAL" {
                return Err(Lost);
            }
            let may_be_cancelled = self.may_be_cancelled && sqlstate == "57014";
            assert!(
                may_be_cancelled || errors.contains(&sqlstate.as_str()),
                "{} was told {sqlstate}: {}",
                self.name,
                reply.field(b'M')
            );
        }
        Ok(reply)
    }

    fn replies(&mut self, readies: usize, errors: &[&str]) -> Result<Vec<Reply>, Lost> {
        let (mut replies, mut seen) = (Vec::new(), 0);
        while seen < readies {
            let reply = self.reply(errors)?;
            seen += usize::from(reply.tag == 'Z');
            replies.push(reply);
        }
        Ok(replies)
    }

    /// Every row must be this one; without an error there must be so many.
    fn expect(&self, replies: &[Reply], rows: usize, value: &str) {
        let mut found = 0;
        for row in replies.iter().filter(|reply| reply.tag == 'D') {
            assert_eq!(
                String::from_utf8_lossy(&row.body[6..]),
                value,
                "another client's row came to {}",
                self.name
            );
            found += 1;
        }
        let failed = replies.iter().any(|reply| reply.tag == 'E');
        assert!(
            failed || found == rows,
            "{found} of {rows} rows: {replies:?}"
        );
    }

    fn ask_plainly(&mut self) -> Result<(), Lost> {
        let tag = self.tag();
        let replies = self.exchange(&query(&format!("SELECT '{tag}'")), 1, &[])?;
        self.may_be_cancelled = false;
        self.expect(&replies, 1, &tag);
        Ok(())
    }

    /// A statement of its own and one that all share; both say whose session it is.
    fn ask_in_a_batch(&mut self) -> Result<(), Lost> {
        let tag = self.tag();
        let name = format!("s{}", self.random.below(5));
        let batch = [
            close(b'S', &name),
            parse(&name, &format!("SELECT '{tag}'")),
            bind("", &name),
            execute(""),
            sync(),
            bind("", &name),
            execute(""),
            sync(),
        ];
        let replies = self.exchange(&batch.concat(), 2, &["26000"])?;
        let may_be_cancelled = std::mem::take(&mut self.may_be_cancelled);
        let failed = replies.iter().any(|reply| reply.tag == 'E');
        assert!(may_be_cancelled || !failed, "{replies:?}");
        self.expect(&replies, 2, &tag);
        let shared = [
            close(b'S', "shared"),
            parse("shared", "SELECT current_setting('application_name')"),
            bind("", "shared"),
            execute(""),
            sync(),
        ];
        let replies = self.exchange(&shared.concat(), 1, &[])?;
        let name = self.name.clone();
        self.expect(&replies, 1, &name);
        Ok(())
    }

    fn ask_in_a_transaction(&mut self) -> Result<(), Lost> {
        let begun = self.exchange(&query("BEGIN"), 1, &[])?;
        if std::mem::take(&mut self.may_be_cancelled) && begun[0].tag == 'E' {
            return Ok(());
        }
        let pid = "SELECT pg_backend_pid()";
        let first = self.exchange(&query(pid), 1, &[])?;
        let row = first.iter().find(|reply| reply.tag == 'D').expect("a row");
        let own = String::from_utf8_lossy(&row.body[6..]).into_owned();
        let again = self.exchange(&query(&format!("{pid}; COMMIT")), 1, &[])?;
        self.expect(&again, 1, &own);
        Ok(())
    }

    fn ask_for_the_impossible(&mut self) -> Result<(), Lost> {
        let tag = self.tag();
        let both = [query("SELECT 1 / 0"), query(&format!("SELECT '{tag}'"))];
        let replies = self.exchange(&both.concat(), 2, &["22012"])?;
        let may_be_cancelled = std::mem::take(&mut self.may_be_cancelled);
        let rows = replies.iter().filter(|reply| reply.tag == 'D').count();
        assert!(may_be_cancelled || rows == 1, "{replies:?}");
        self.expect(&replies, 1, &tag);
        Ok(())
    }

    /// All of it sent ahead; some of it wrong, and some given up.
    fn copy_in(&mut self) -> Result<(), Lost> {
        let tag = self.tag();
        let begin = query("COPY copied_rows FROM STDIN");
        let row = message(b'd', format!("{tag}\t1\n").as_bytes());
        let wrong = message(b'd', format!("{tag}\tnone\n").as_bytes());
        let done = message(b'c', b"");
        let (bytes, error) = match self.random.below(3) {
            0 => ([begin, row.clone(), row, done].concat(), None),
            1 => ([begin, row, wrong, done].concat(), Some("22P02")),
            _ => {
                let fail = message(b'f', b"changed its mind\0");
                ([begin, row, fail].concat(), Some("57014"))
            }
        };
        let replies = self.exchange(&bytes, 1, error.as_slice());
        if replies.is_err() && error.is_none() {
            self.test.doubtful.fetch_add(2, Ordering::Relaxed);
        }
        let replies = replies?;
        let may_be_cancelled = std::mem::take(&mut self.may_be_cancelled);
        let failed = replies.iter().any(|reply| reply.tag == 'E');
        assert!(may_be_cancelled || failed == error.is_some(), "{replies:?}");
        if !failed {
            self.test.copied.fetch_add(2, Ordering::Relaxed);
        }
        Ok(())
    }

    fn copy_out(&mut self) -> Result<(), Lost> {
        let tag = self.tag();
        let sql = format!("COPY (SELECT '{tag}' FROM generate_series(1, 500)) TO STDOUT");
        let replies = self.exchange(&query(&sql), 1, &[])?;
        let may_be_cancelled = std::mem::take(&mut self.may_be_cancelled);
        let line = format!("{tag}\n").into_bytes();
        let lines = replies.iter().filter(|reply| reply.tag == 'd');
        assert!(lines.clone().all(|reply| reply.body == line));
        assert!(may_be_cancelled || lines.count() == 500);
        Ok(())
    }

    /// State that only one server has, and that nobody else may see.
    fn keep_to_itself(&mut self) -> Result<(), Lost> {
        let look = query("SHOW statement_timeout");
        let before = self.exchange(&look, 1, &[])?;
        self.may_be_cancelled = false;
        self.expect(&before, 1, "0");
        self.exchange(&query("SET statement_timeout = '11min'"), 1, &[])?;
        let own = self.exchange(&look, 1, &[])?;
        self.expect(&own, 1, "11min");
        self.exchange(&query("DISCARD ALL"), 1, &[])?;
        // It has taken the name away, too.
        self.exchange(
            &query(&format!("SET application_name = '{}'", self.name)),
            1,
            &[],
        )?;
        Ok(())
    }

    /// A server ignores a request that reaches it before it has read the query, so it first says that it has.
    fn cancel_a_sleep(&mut self) -> Result<(), Lost> {
        let sleep = "DO $$BEGIN RAISE NOTICE 'asleep'; PERFORM pg_sleep(30); END$$";
        if !self.raw.try_send(&query(sleep)) {
            return Err(Lost);
        }
        loop {
            match self.reply(&[])?.tag {
                'N' => break self.raw.cancel(),
                // An earlier request to cancel came now.
                'E' => break,
                _ => {}
            }
        }
        let replies = self.replies(1, &["57014"])?;
        let cancelled = std::mem::take(&mut self.may_be_cancelled) || replies[0].tag == 'E';
        assert!(cancelled, "{replies:?}");
        Ok(())
    }

    /// What comes first, the answer or the cancel request, is anybody's guess.
    fn cancel_anything(&mut self) -> Result<(), Lost> {
        let tag = self.tag();
        if !self.raw.try_send(&query(&format!("SELECT '{tag}'"))) {
            return Err(Lost);
        }
        self.raw.cancel();
        self.may_be_cancelled = true;
        let replies = self.replies(1, &[])?;
        self.expect(&replies, 1, &tag);
        Ok(())
    }

    fn listen_to_nobody(&mut self) -> Result<(), Lost> {
        let channel = self.tag().replace('-', "_");
        let listens = self.exchange(&query(&format!("LISTEN {channel}")), 1, &[])?;
        if std::mem::take(&mut self.may_be_cancelled) && listens[0].tag == 'E' {
            return Ok(());
        }
        let replies = self.exchange(&query(&format!("NOTIFY {channel}, 'x'")), 1, &[])?;
        let heard = replies.iter().filter(|reply| reply.tag == 'A').count();
        assert_eq!(heard, 1, "{replies:?}");
        // It keeps its server, and leaves with it.
        self.leave();
        Ok(())
    }

    /// In the middle of something.
    fn leave(&mut self) {
        let whole = query("SELECT repeat('somebody''s', 10000)");
        let (part, after) = match self.random.below(7) {
            0 => (whole, false),
            1 => (whole[..whole.len() / 2].to_vec(), false),
            2 => (query("BEGIN"), true),
            3 => (query("COPY copied_rows FROM STDIN"), true),
            4 => ([parse("", "SELECT 1"), bind("", "")].concat(), false),
            5 => (query("SELECT pg_sleep(0.01)"), false),
            _ => (
                startup(0x0003_0000, &[("user", "postgres")])[..9].to_vec(),
                false,
            ),
        };
        if self.raw.try_send(&part) && after {
            // What comes is not looked at: it leaves on the answer.
            let _ = self.raw.try_reply();
        }
        self.enter_again();
    }

    /// A server's process, and with it whatever it is at.
    fn kill_somebody(&self) {
        let mut direct = self.test.direct.lock().expect("no test has failed");
        let killed = direct
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE backend_type = 'client backend' AND state IS NOT NULL \
                 AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1",
                &[],
            )
            .expect("a direct query");
        let count = u64::try_from(killed.len()).expect("one at most");
        self.test.kills.fetch_add(count, Ordering::Relaxed);
    }
}

fn enter(address: SocketAddr, name: &str) -> Raw {
    Raw::log_in(address, "postgres", &[("application_name", name)])
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect(name))
}

#[test]
fn nobody_gets_what_is_another_s() {
    let options = Options {
        connections: 60,
        ..Options::default()
    };
    let server = Arc::new(Embedded::start(options).expect("a server"));
    let monitor = Running::before(server, |config| config.pool_size = SERVERS);
    look_for_leaks(&monitor, monitor.address, QUERIES);
}

/// The test clients connect through a second monitor in session pooling, which uses TLS to the one
/// under test, as that does to the server.
#[test]
fn nobody_gets_what_is_another_s_under_tls() {
    let authority = Authority::new();
    let server = Arc::new(authority.server(&["localhost"], "hostssl all all all scram-sha-256"));
    let target = server.tcp_target();
    let verified = |port: u16, password: &str| {
        let ca = authority.text("ca.crt");
        let dsn = format!(
            "host=localhost hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres {password} sslmode=verify-full sslrootcert={ca}"
        );
        Route::parse(&dsn, Path::new("/")).unwrap()
    };
    let password = format!("password={}", target.password.unwrap());
    authority.sign("monitor", "a monitor", &["localhost"]);
    let monitor = Running::before(Arc::clone(&server), |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config {
            auth: Auth::Trust,
            pool_size: SERVERS,
            ..Config::in_front_of(verified(server.port(), &password), listen)
        };
        let (certificate, key) = (authority.path("monitor.crt"), authority.path("monitor.key"));
        config.tls = ClientTls::read(
            TlsMode::Prefer,
            TlsVersions::default(),
            Some(&certificate),
            Some(&key),
            None,
        )
        .unwrap();
    });
    let front = Running::before(server, |config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config {
            mode: Pooling::Session,
            pool_size: 10_000,
            ..Config::in_front_of(verified(monitor.address.port(), ""), listen)
        };
    });
    look_for_leaks(&monitor, front.address, QUERIES / 6);
}

/// Runs the leak test at an address that leads to a monitor.
fn look_for_leaks(monitor: &Running, address: SocketAddr, queries: i64) {
    let mut direct = monitor.direct();
    direct
        .batch_execute("CREATE TABLE copied_rows (tag text, number int)")
        .unwrap();
    let asked = from_environment("TENBIN_LEAK_QUERIES");
    let test = LeakTest {
        address,
        left: AtomicI64::new(asked.map_or(queries, |count| i64::try_from(count).unwrap())),
        direct: Mutex::new(direct),
        kills: AtomicU64::new(0),
        losses: AtomicU64::new(0),
        copied: AtomicU64::new(0),
        doubtful: AtomicU64::new(0),
    };
    let clients = from_environment("TENBIN_LEAK_CLIENTS").unwrap_or(CLIENTS);
    std::thread::scope(|scope| {
        for number in 0..clients {
            let test = &test;
            scope.spawn(move || TestClient::new(test, number).run());
        }
    });
    let (kills, losses) = (test.kills.into_inner(), test.losses.into_inner());
    eprintln!("{kills} servers killed, {losses} clients lost one");
    assert!(kills > 0 && losses > 0);
    assert!(
        losses <= kills,
        "{losses} clients lost their server, {kills} were killed"
    );
    every_slot_is_there(monitor, &mut test.direct.into_inner().unwrap());
    let copied = monitor
        .direct()
        .query_one("SELECT count(*) FROM copied_rows", &[]);
    let copied: i64 = copied.unwrap().get(0);
    let certain = test.copied.into_inner();
    let possible = certain + test.doubtful.into_inner();
    assert!(
        (certain..=possible).contains(&u64::try_from(copied).unwrap()),
        "{copied} rows were copied, {certain} for certain, {possible} at most"
    );
}

/// As many clients as servers can be in a transaction at once, and nothing else is there.
fn every_slot_is_there(monitor: &Running, direct: &mut Client) {
    let mut holders: Vec<Raw> = (0..SERVERS).map(|_| monitor.raw()).collect();
    for holder in &mut holders {
        holder.send(&query("BEGIN"));
        assert_eq!(holder.tags(1), "CZ");
        assert_eq!(holder.value("SHOW statement_timeout"), "0");
        assert_eq!(holder.value("SHOW application_name"), "");
    }
    let there: i64 = direct
        .query_one(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(usize::try_from(there).unwrap(), SERVERS);
}

//! The stub as two independent clients see it: tenbin's driver and the `postgres` crate.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use postgres::{NoTls, SimpleQueryMessage};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tenbin_stub::{Answer, Options, Stub, StubProcess, Table, error_response};
use tenbin_wire::{Blocking, Error, Param, Session, Target, TransactionStatus};

fn options() -> Options {
    let table = Table::new()
        .with(
            "balance",
            Answer::rows(&[Some(&42_i32.to_be_bytes()), None], 3, "SELECT 3"),
        )
        .with(
            "SELECT text",
            Answer::rows(&[Some(b"hello")], 1, "SELECT 1"),
        )
        .with("broken", Answer::error("40P01", "deadlock detected"));
    Options {
        table,
        ..Options::default()
    }
}

struct Client {
    session: Session,
    blocking: Blocking,
}

impl Client {
    fn open(dsn: &str) -> Self {
        let target = Target::parse(dsn).expect("a target");
        let blocking = Blocking::new().expect("an epoll instance");
        let session = blocking
            .run(Session::connect(&target, blocking.register()))
            .expect("a session");
        Self { session, blocking }
    }

    fn run(&mut self, name: &str) -> Result<(String, usize), Error> {
        self.session.execute(name, &[Param::I32(1)]);
        let mut replies = self.blocking.run(self.session.sync())?;
        let mut reply = replies.next().expect("a reply");
        let mut rows = 0;
        while let Some(row) = reply.row() {
            assert_eq!((row.int(0), row.raw(1)), (Ok(42), Ok(None)));
            rows += 1;
        }
        Ok((reply.tag().to_owned(), rows))
    }

    fn prepare(&mut self) {
        for (name, sql) in [
            ("begin", "begin"),
            ("commit", "COMMIT"),
            ("rollback", "ROLLBACK"),
            ("balance", "SELECT"),
            ("other", "UPDATE t"),
            ("broken", "INSERT"),
        ] {
            self.session.parse(name, sql, &[]);
        }
        assert!(
            self.blocking
                .run(self.session.sync())
                .expect("statements")
                .next()
                .is_none()
        );
    }
}

#[test]
fn statements_answer_as_the_table_says() {
    let stub = Stub::start(options()).expect("a stub");
    let mut client = Client::open(&stub.dsn());
    client.prepare();
    assert_eq!(client.run("balance"), Ok(("SELECT 3".to_owned(), 3)));
    assert_eq!(client.run("other"), Ok(("UPDATE 1".to_owned(), 0)));
    assert_eq!(
        client.run("missing").expect_err("an error").sqlstate(),
        Some("26000")
    );
    assert_eq!(stub.statements(), 2);
    stub.answer(
        "other",
        Answer::rows(&[Some(&42_i32.to_be_bytes()), None], 1, "SELECT 1"),
    );
    assert_eq!(client.run("other"), Ok(("SELECT 1".to_owned(), 1)));
}

#[test]
fn transactions_go_as_on_a_server() {
    let stub = Stub::start(options()).expect("a stub");
    let mut client = Client::open(&stub.dsn());
    client.prepare();
    client.run("begin").expect("an answer");
    assert_eq!(client.session.status(), TransactionStatus::InTransaction);
    assert_eq!(
        client.run("broken").expect_err("an error").to_string(),
        "ERROR 40P01: deadlock detected"
    );
    assert_eq!(client.session.status(), TransactionStatus::Failed);
    assert_eq!(
        client.run("balance").expect_err("an error").sqlstate(),
        Some("25P02")
    );
    assert_eq!(client.run("commit"), Ok(("ROLLBACK".to_owned(), 0)));
    assert_eq!(client.session.status(), TransactionStatus::Idle);
}

#[test]
fn another_client_understands_it() {
    let stub = Stub::start(options()).expect("a stub");
    let config = format!("host=127.0.0.1 port={} user=u dbname=d", stub.port());
    let mut client = postgres::Client::connect(&config, NoTls).expect("a client");
    let messages = client.simple_query("SELECT text").expect("an answer");
    let text = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(text, Some("hello"));
    assert_eq!(
        client
            .execute("UPDATE t SET x = 1", &[])
            .expect("an answer"),
        1
    );
    client
        .batch_execute("BEGIN; SET a = 1; COMMIT")
        .expect("an answer");
    let canceller = client.cancel_token();
    canceller.cancel_query(NoTls).expect("a taken request");
    drop(client);
    // The next client's welcome comes after all that.
    let mut next = postgres::Client::connect(&stub.dsn(), NoTls).expect("a client");
    next.batch_execute("").expect("an answer");
    assert_eq!((stub.cancels(), stub.connections()), (1, (3, 1)));
}

#[test]
fn a_paused_stub_is_silent_and_goes_on_where_it_was() {
    let stub = Stub::start(options()).expect("a stub");
    let mut client = Client::open(&stub.dsn());
    client.prepare();
    stub.pause();
    client.session.execute("balance", &[]);
    {
        let mut waiting = pin!(client.session.sync());
        let mut context = Context::from_waker(Waker::noop());
        // Nothing can come however often one looks: the pause was in force before the request was sent.
        for _ in 0..1000 {
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        stub.resume();
        loop {
            if let Poll::Ready(answer) = waiting.as_mut().poll(&mut context) {
                assert!(answer.expect("an answer").next().is_some());
                break;
            }
        }
    }
    assert_eq!(stub.statements(), 1);
}

#[test]
fn answers_are_held_back_in_order() {
    let delay = Duration::from_millis(20);
    let stub = Stub::start(Options { delay, ..options() }).expect("a stub");
    let mut clients: Vec<_> = (0..4).map(|_| Client::open(&stub.dsn())).collect();
    for client in &mut clients {
        client.prepare();
    }
    let start = Instant::now();
    for client in &mut clients {
        client.session.execute("balance", &[]);
        let waiting = pin!(client.session.sync());
        assert!(
            waiting
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
    drop(clients);
    let mut client = Client::open(&stub.dsn());
    assert!(start.elapsed() >= delay);
    client.prepare();
    let start = Instant::now();
    client.run("balance").expect("an answer");
    assert!(start.elapsed() >= delay);
}

#[test]
fn faults_are_injected() {
    let stub = Stub::start(options()).expect("a stub");
    let mut client = Client::open(&stub.dsn());
    client.prepare();
    stub.answer("other", Answer::raw(b"Hurz", true));
    let error = client.run("other").expect_err("an error").to_string();
    assert!(
        error.starts_with("connection lost: the server closed the connection"),
        "{error}"
    );

    let mut client = Client::open(&stub.dsn());
    stub.send(&error_response("FATAL", "57P01", "going down"));
    stub.drop_connections();
    client.session.query("SELECT 1");
    let error = client.blocking.run(client.session.sync()).err();
    assert_eq!(
        error,
        Some(Error::Lost("FATAL 57P01: going down".to_owned()))
    );
    assert_eq!(stub.connections(), (2, 0));
}

#[test]
fn a_stub_in_its_own_process_does_the_same() {
    let program = Path::new(env!("CARGO_BIN_EXE_tenbin-stub"));
    let mut stub = StubProcess::start(program, &options()).expect("a stub");
    let mut client = Client::open(&stub.dsn());
    client.prepare();
    assert_eq!(client.run("balance"), Ok(("SELECT 3".to_owned(), 3)));
    assert_eq!(
        client.run("broken").expect_err("an error").sqlstate(),
        Some("40P01")
    );
    assert_eq!(stub.statements().expect("a count"), 2);
    let directory = stub.directory().to_owned();
    assert!(directory.exists());
    drop(stub);
    assert!(!directory.exists());
    assert!(matches!(client.run("balance"), Err(Error::Lost(_))));
}

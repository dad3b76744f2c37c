//! Round trips that go wrong: each ends with one clear error, none hangs.

use crate::server::{Connection, Server};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use tenbin_wire::Error;

fn lost(result: Result<tenbin_wire::Replies<'_>, Error>) -> String {
    match result {
        Err(Error::Lost(message)) => message,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("an answer"),
    }
}

#[test]
fn a_session_killed_in_mid_request_is_lost() {
    let server = Server::shared();
    for address in [server.unix(), server.tcp()] {
        let target = tenbin_wire::Target {
            addresses: vec![address],
            ..server.target()
        };
        let mut connection = Connection::open(&target).expect("a session");
        let pid = connection.session.process_id();
        let mut admin = server.admin();
        let killer = std::thread::spawn(move || {
            let busy =
                "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'";
            while admin
                .query_one(busy, &[&pid])
                .expect("activity")
                .get::<_, i64>(0)
                == 0
            {}
            let killed = admin
                .query_one("SELECT pg_terminate_backend($1)", &[&pid])
                .expect("a result");
            assert!(killed.get::<_, bool>(0));
        });
        let expected = "FATAL 57P01: terminating connection due to administrator command";
        assert_eq!(lost(connection.query("SELECT pg_sleep(3600)")), expected);
        killer.join().expect("a killed session");
        // And stays so.
        assert_eq!(lost(connection.query("SELECT 1")), expected);
    }
}

#[test]
fn a_session_killed_while_idle_is_lost_at_the_next_request() {
    let server = Server::shared();
    for address in [server.unix(), server.tcp()] {
        let target = tenbin_wire::Target {
            addresses: vec![address],
            ..server.target()
        };
        let mut connection = Connection::open(&target).expect("a session");
        let pid = connection.session.process_id();
        let mut admin = server.admin();
        admin
            .query_one("SELECT pg_terminate_backend($1, 60000)", &[&pid])
            .expect("a result");
        assert_eq!(
            lost(connection.query("SELECT 1")),
            "FATAL 57P01: terminating connection due to administrator command"
        );
    }
}

#[test]
fn a_request_is_cancelled_from_elsewhere() {
    let server = Server::shared();
    for address in [server.unix(), server.tcp()] {
        let target = tenbin_wire::Target {
            addresses: vec![address],
            ..server.target()
        };
        let mut connection = Connection::open(&target).expect("a session");
        let canceller = connection.session.canceller();
        let mut admin = server.admin();
        let pid = connection.session.process_id();
        let thread = std::thread::spawn(move || {
            let busy =
                "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'";
            while admin
                .query_one(busy, &[&pid])
                .expect("activity")
                .get::<_, i64>(0)
                == 0
            {}
            canceller.cancel().expect("a cancellation");
        });
        let error = connection
            .query("SELECT pg_sleep(3600)")
            .expect_err("a cancelled request");
        assert_eq!(
            error.to_string(),
            "ERROR 57014: canceling statement due to user request"
        );
        thread.join().expect("a thread");
        connection.query("SELECT 1").expect("an answer");
    }
}

#[test]
fn an_abandoned_request_ends_the_session() {
    let server = Server::shared();
    let mut connection = server.session();
    connection.session.query("SELECT 1");
    {
        let future = pin!(connection.session.sync());
        assert!(
            future
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
    let message = "an earlier request on this session was abandoned before its answer came; open a new session";
    assert_eq!(lost(connection.query("SELECT 2")), message);
}

#[test]
fn copy_is_declined_and_the_session_goes_on() {
    let server = Server::shared();
    let mut connection = server.session();
    connection
        .query("CREATE TEMPORARY TABLE t (x text)")
        .expect("a table");
    connection.session.parse("in", "COPY t FROM STDIN", &[]);
    connection.session.parse(
        "out",
        "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 20000)) TO STDOUT",
        &[],
    );
    connection.session.parse("one", "SELECT 1", &[]);
    connection.sync().expect("statements");

    let declined = "ERROR 57014: COPY from stdin failed: COPY … FROM STDIN does not run on a terminal's session";
    assert_eq!(
        connection
            .query("COPY t FROM STDIN")
            .expect_err("an error")
            .to_string(),
        declined
    );
    connection.session.execute("in", &[]);
    assert_eq!(
        connection.sync().expect_err("an error").to_string(),
        declined
    );
    connection.session.execute("one", &[]);
    connection.session.execute("in", &[]);
    assert_eq!(
        connection.sync().expect_err("an error").to_string(),
        declined
    );

    let dropped = Error::Refused(
        "COPY … TO STDOUT does not run on a terminal's session; its output was dropped".to_owned(),
    );
    assert_eq!(
        connection
            .query("COPY (SELECT 1) TO STDOUT; SELECT 2")
            .expect_err("an error"),
        dropped
    );
    connection.session.execute("out", &[]);
    connection.session.execute("one", &[]);
    assert_eq!(connection.sync().expect_err("an error"), dropped);
    let kept = connection.session.memory_bytes();
    assert!(kept < 256 << 10, "{kept} bytes of twenty megabytes kept");
    connection.session.execute("one", &[]);
    assert!(connection.sync().expect("an answer").next().is_some());

    // What is queued behind the COPY confuses the server beyond repair; that too is said.
    connection.session.execute("in", &[]);
    connection.session.execute("one", &[]);
    let message = "COPY … FROM STDIN does not run on a terminal's session, and other requests were queued behind it";
    assert_eq!(lost(connection.sync()), message);
}

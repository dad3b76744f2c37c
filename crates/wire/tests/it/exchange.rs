//! Round trips as they should go.

use crate::server::{Connection, Server};
use tenbin_wire::{Error, Param, TransactionStatus};

#[test]
fn one_round_trip_carries_many_statements() {
    let server = Server::shared();
    let mut connection = server.session();
    connection
        .session
        .query("CREATE TEMPORARY TABLE t (id integer, name text)");
    connection.session.parse("begin", "BEGIN", &[]);
    connection.session.parse("commit", "COMMIT", &[]);
    connection.sync().expect("a table");
    connection
        .session
        .parse("put", "INSERT INTO t VALUES ($1, $2)", &[23, 25]);
    connection
        .session
        .parse("get", "SELECT id, name FROM t ORDER BY id", &[]);
    connection.session.execute("begin", &[]);
    connection
        .session
        .execute("put", &[Param::I32(1), Param::Text("één")]);
    connection
        .session
        .execute("put", &[Param::I32(-2), Param::Null]);
    connection.session.execute("get", &[]);
    connection.session.execute("commit", &[]);
    let replies = connection.sync().expect("answers");
    let mut tags = Vec::new();
    for mut reply in replies {
        tags.push((reply.tag(), reply.affected()));
        if reply.tag() == "SELECT 2" {
            let first = reply.row().expect("a row");
            assert_eq!(
                (first.columns(), first.int(0), first.raw(1)),
                (2, Ok(-2), Ok(None))
            );
            let second = reply.row().expect("a row");
            assert_eq!((second.int(0), second.text(1)), (Ok(1), Ok("één")));
        }
        assert!(reply.row().is_none());
    }
    assert_eq!(
        tags,
        [
            ("BEGIN", 0),
            ("INSERT 0 1", 1),
            ("INSERT 0 1", 1),
            ("SELECT 2", 2),
            ("COMMIT", 0)
        ]
    );
}

#[test]
fn a_simple_query_answers_once_a_statement() {
    let server = Server::shared();
    let mut connection = server.session();
    let mut replies = connection
        .query("SELECT 12345678, 1.50, 'x', NULL, 0.25::float8; ; SELECT 7 WHERE false")
        .expect("answers");
    let mut first = replies.next().expect("a reply");
    let row = first.row().expect("a row");
    // Text on the wire, read by the same accessors: eight digits are no binary bigint.
    assert_eq!(row.int(0), Ok(12_345_678));
    assert_eq!(row.numeric(1, 4), Ok(15_000));
    assert_eq!(
        (row.text(2), row.raw(3), row.float(4)),
        (Ok("x"), Ok(None), Ok(0.25))
    );
    let mut second = replies.next().expect("a reply");
    assert!(second.row().is_none());
    assert_eq!((second.affected(), second.tag()), (0, "SELECT 0"));
    assert!(replies.next().is_none());
    let mut replies = connection.query("").expect("an answer");
    assert_eq!(replies.next().map(|reply| reply.tag().len()), Some(0));
    assert!(replies.next().is_none());
}

#[test]
fn nothing_queued_is_no_round_trip() {
    let server = Server::shared();
    let mut connection = server.session();
    assert!(connection.sync().expect("nothing").next().is_none());
}

#[test]
fn simple_and_extended_requests_may_share_a_round_trip() {
    let server = Server::shared();
    let mut connection = server.session();
    connection.session.parse("one", "SELECT $1::int4", &[]);
    connection.session.execute("one", &[Param::I32(1)]);
    connection.session.query("SELECT 2");
    connection.session.execute("one", &[Param::I32(3)]);
    let replies = connection.sync().expect("answers");
    let mut values = Vec::new();
    for mut reply in replies {
        values.push(reply.row().expect("a row").int(0).expect("a number"));
    }
    assert_eq!(values, [1, 2, 3]);
}

#[test]
fn the_transactions_status_follows() {
    let server = Server::shared();
    let mut connection = server.session();
    assert_eq!(connection.session.status(), TransactionStatus::Idle);
    connection.query("BEGIN").expect("an answer");
    assert_eq!(
        connection.session.status(),
        TransactionStatus::InTransaction
    );
    connection.query("SELECT 1/0").expect_err("an error");
    assert_eq!(connection.session.status(), TransactionStatus::Failed);
    connection.query("ROLLBACK").expect("an answer");
    assert_eq!(connection.session.status(), TransactionStatus::Idle);
}

#[test]
fn an_error_is_whole_and_the_session_goes_on() {
    let server = Server::shared();
    let mut connection = server.session();
    let raise = "DO $$ BEGIN RAISE EXCEPTION 'main' USING ERRCODE = 'TB001', DETAIL = 'more', HINT = 'try'; END $$";
    let error = connection.query(raise).expect_err("an error");
    assert_eq!(
        error.explain(),
        "ERROR TB001: main\nDETAIL: more\nHINT: try\nCONTEXT: PL/pgSQL function inline_code_block line 1 at RAISE"
    );
    connection
        .session
        .parse("divide", "SELECT 10 / $1::int4", &[]);
    for divisor in [5, 0, 2] {
        connection.session.execute("divide", &[Param::I32(divisor)]);
    }
    // The statements behind the error are skipped by the server.
    assert_eq!(
        connection.sync().expect_err("an error").sqlstate(),
        Some("22012")
    );
    connection.session.execute("divide", &[Param::I32(2)]);
    let mut replies = connection.sync().expect("an answer");
    assert_eq!(
        replies
            .next()
            .and_then(|mut reply| reply.row())
            .map(|row| row.int(0)),
        Some(Ok(5))
    );
    // The first of several errors of one round trip is told.
    connection.session.query("SELECT 1/0");
    connection.session.query("SELECT nonsense");
    assert_eq!(
        connection.sync().expect_err("an error").sqlstate(),
        Some("22012")
    );
    assert!(
        connection
            .query("SELECT 1")
            .expect("an answer")
            .next()
            .is_some()
    );
}

#[test]
fn an_answer_of_ten_megabytes_comes_whole_and_its_memory_goes_again() {
    let server = Server::shared();
    let mut connection = server.session();
    connection.session.parse(
        "big",
        "SELECT repeat('x', 100000) FROM generate_series(1, 100)",
        &[],
    );
    connection.session.execute("big", &[]);
    let mut reply = connection
        .sync()
        .expect("an answer")
        .next()
        .expect("a reply");
    let mut size_bytes = 0;
    while let Some(row) = reply.row() {
        size_bytes += row.text(0).expect("text").len();
    }
    assert_eq!((size_bytes, reply.affected()), (10_000_000, 100));
    let large = connection.session.memory_bytes();
    assert!(large > size_bytes, "{large}");
    for _ in 0..2 {
        connection.query("SELECT 1").expect("an answer");
    }
    let small = connection.session.memory_bytes();
    assert!(small < 64 << 10, "{small} bytes kept");
}

#[test]
fn a_request_larger_than_the_sockets_buffers_goes_out_while_answers_come_in() {
    let server = Server::shared();
    for address in [server.unix(), server.tcp()] {
        let target = tenbin_wire::Target {
            addresses: vec![address],
            ..server.target()
        };
        let mut connection = Connection::open(&target).expect("a session");
        let long = "y".repeat(1_000_000);
        connection.session.parse("echo", "SELECT $1::text", &[]);
        for _ in 0..16 {
            connection.session.execute("echo", &[Param::Text(&long)]);
        }
        let replies = connection.sync().expect("answers");
        let mut count = 0;
        for mut reply in replies {
            assert_eq!(
                reply.row().map(|row| row.text(0).map(str::len)),
                Some(Ok(long.len()))
            );
            count += 1;
        }
        assert_eq!(count, 16);
    }
}

#[test]
fn what_comes_unasked_is_taken_in_passing() {
    let server = Server::shared();
    let mut connection = server.session();
    connection
        .query("LISTEN here; SET client_min_messages = debug1")
        .expect("an answer");
    server
        .admin()
        .batch_execute("NOTIFY here, 'there'")
        .expect("a notification");
    let notices = "DO $$ BEGIN FOR i IN 1..1000 LOOP RAISE NOTICE 'number %', i; END LOOP; END $$";
    let mut replies = connection.query(notices).expect("an answer");
    assert_eq!(
        replies
            .next()
            .map(|reply| reply.tag().to_owned())
            .as_deref(),
        Some("DO")
    );
    assert!(replies.next().is_none());
    connection
        .query("SET TimeZone = 'Asia/Tokyo'; SELECT 1")
        .expect("an answer");
    assert_eq!(connection.session.parameter("TimeZone"), Some("Asia/Tokyo"));
}

#[test]
fn a_request_that_cannot_be_written_is_refused_and_nothing_is_sent() {
    let server = Server::shared();
    let mut connection = server.session();
    let many = vec![Param::Null; 65_536];
    let refused = |connection: &mut Connection, expected: &str| {
        connection.session.query("SELECT 1");
        let Error::Refused(message) = connection.sync().expect_err("a refusal") else {
            panic!("another error")
        };
        assert_eq!(message, expected);
        assert!(
            connection
                .query("SELECT 1")
                .expect("an answer")
                .next()
                .is_some()
        );
    };
    connection.session.query("SELECT 'a\0b'");
    refused(
        &mut connection,
        "a statement contains a zero byte, which ends a string in the protocol: \"SELECT 'a\\0b'\"",
    );
    connection.session.execute("a\0b", &[]);
    refused(
        &mut connection,
        "a statement's name contains a zero byte, which ends a string in the protocol: \"a\\0b\"",
    );
    connection.session.execute("many", &many);
    refused(
        &mut connection,
        "65536 parameters exceed the protocol's 65535",
    );
}

#[test]
fn statements_may_travel_with_each_execution() {
    let server = Server::shared();
    let mut connection = server.session();
    connection.session.send_statements_each_time();
    connection.session.parse("one", "SELECT $1::int4", &[23]);
    connection
        .session
        .parse("kept", "SELECT count(*) FROM pg_prepared_statements", &[]);
    // Nothing has to be told to the server yet.
    assert_eq!(connection.sync().expect("nothing").count(), 0);
    for round in 0..2 {
        connection.session.execute("one", &[Param::I32(round)]);
        connection.session.execute("kept", &[]);
        let mut replies = connection.sync().expect("answers");
        let mut int = || {
            replies
                .next()
                .expect("a reply")
                .row()
                .expect("a row")
                .int(0)
        };
        assert_eq!((int(), int()), (Ok(i64::from(round)), Ok(0)));
    }
    connection.session.execute("unknown", &[]);
    let error = connection.sync().map(drop).unwrap_err();
    assert_eq!(error.sqlstate(), Some("26000"));
}

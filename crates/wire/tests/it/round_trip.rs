//! What a round trip costs in turns of the event loop and in memory.

use crate::reactor::Reactor;
use crate::server::{Connection, Server};
use std::cell::Cell;
use tenbin_stub::{Answer, Options, Stub, Table};
use tenbin_wire::{Param, Session, Target};

fn stub() -> Stub {
    let values: [Option<&[u8]>; 3] = [Some(&7_i32.to_be_bytes()), Some(b"text"), None];
    let table = Table::new().with("get", Answer::rows(&values, 15, "SELECT 15"));
    Stub::start(Options {
        table,
        ..Options::default()
    })
    .expect("a stub")
}

#[test]
fn a_round_trip_is_two_polls() {
    let stub = stub();
    let target = Target::parse(&stub.dsn()).expect("a target");
    let mut reactor = Reactor::new();
    let (rounds, sessions) = (100, 8);
    for _ in 0..sessions {
        let target = &target;
        reactor.spawn(|register| async move {
            let mut session = Session::connect(target, register).await.expect("a session");
            session.parse("get", "SELECT", &[]);
            session.sync().await.expect("a statement");
            for _ in 0..rounds {
                session.execute("get", &[Param::I32(1)]);
                session.sync().await.expect("an answer");
            }
        });
    }
    reactor.run();
    // To connect: the first poll sends the start-up packet, the second reads the welcome and sends
    // the Parse, the third reads its answer and sends the first request. Then one poll reads an
    // answer and sends the next request: one receive and one send. The last poll only reads.
    // Where the welcome is there before it is waited for, a session takes one less, and no other number.
    let (least, most) = (sessions * (2 + rounds), sessions * (3 + rounds));
    assert!((least..=most).contains(&reactor.polls), "{}", reactor.polls);
}

#[test]
fn a_steady_session_allocates_nothing() {
    let stub = stub();
    let target = Target::parse(&stub.dsn()).expect("a target");
    let mut connection = Connection::open(&target).expect("a session");
    connection.session.parse("get", "SELECT", &[]);
    let text = "x".repeat(500);
    let mut round = || {
        connection.session.execute(
            "get",
            &[
                Param::I32(1),
                Param::Text(&text),
                Param::Null,
                Param::I16Array(&[1, 2, 3]),
            ],
        );
        let Connection { session, blocking } = &mut connection;
        let mut replies = blocking.run(session.sync()).expect("an answer");
        let mut reply = replies.next().expect("a reply");
        while let Some(row) = reply.row() {
            assert_eq!(
                (row.int(0), row.text(1), row.raw(2)),
                (Ok(7), Ok("text"), Ok(None))
            );
        }
        assert_eq!(reply.affected(), 15);
    };
    // The first rounds make the buffers.
    round();
    let allocations = allocation_counter::measure(|| (0..1000).for_each(|_| round()));
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn large_requests_go_out_on_a_loop_that_watches_for_reading_alone() {
    let server = Server::shared();
    let long = "y".repeat(3_000_000);
    let done = Cell::new(0);
    let targets = [server.unix(), server.tcp()].map(|address| Target {
        addresses: vec![address],
        ..server.target()
    });
    let mut reactor = Reactor::new();
    for target in &targets {
        let (long, done) = (&long, &done);
        reactor.spawn(|register| async move {
            let mut session = Session::connect(target, register).await.expect("a session");
            session.parse("length", "SELECT length($1), $1", &[25]);
            for _ in 0..4 {
                session.execute("length", &[Param::Text(long)]);
            }
            let replies = session.sync().await.expect("answers");
            for mut reply in replies {
                let row = reply.row().expect("a row");
                assert_eq!(
                    (row.int(0), row.text(1).map(str::len)),
                    (Ok(3_000_000), Ok(3_000_000))
                );
                done.set(done.get() + 1);
            }
        });
    }
    reactor.run();
    assert_eq!(done.get(), 8);
}

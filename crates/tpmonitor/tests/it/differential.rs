//! The same bytes, cut anywhere, to the server itself and through the monitor: the same replies.

use crate::support::Running;
use crate::support::raw::{
    Reply, bind, close, describe, execute, flush, message, parse, query, startup, sync,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tenbin_wire::Address;

/// Conversations that poolers are known to get wrong, and how many `ReadyForQuery` end each.
#[expect(clippy::too_many_lines, reason = "a table")]
fn conversations() -> Vec<(&'static str, Vec<u8>, usize)> {
    let copied = "COPY pg_temp.copied FROM STDIN";
    let limited = message(b'E', b"\0\0\0\0\x02");
    let function = message(b'F', b"\0\0\x05\x75\0\0\0\x01\0\0\0\x02-1\0\0"); // int4abs
    let of = |parts: &[Vec<u8>]| parts.concat();
    vec![
        (
            "empty queries",
            of(&[query(""), query(";"), query("SELECT 1; SELECT 2")]),
            3,
        ),
        (
            "outstanding Syncs",
            of(&[
                parse("", "SELECT 1"),
                sync(),
                sync(),
                bind("", ""),
                execute(""),
                sync(),
            ]),
            3,
        ),
        (
            "an error skips to Sync",
            of(&[
                parse("a", "SELEC"),
                query("SELECT 1"),
                bind("", "a"),
                sync(),
                query("SELECT 2"),
            ]),
            2,
        ),
        (
            "a batch",
            of(&[
                parse("b", "SELECT 1 AS x"),
                describe(b'S', "b"),
                bind("p", "b"),
                describe(b'P', "p"),
                execute("p"),
                close(b'P', "p"),
                close(b'S', "b"),
                sync(),
            ]),
            1,
        ),
        (
            "names that are taken or not there",
            of(&[
                parse("c", "SELECT 1"),
                sync(),
                parse("c", "SELECT 2"),
                sync(),
                bind("", "d"),
                sync(),
                describe(b'S', "d"),
                sync(),
                close(b'S', "d"),
                sync(),
            ]),
            5,
        ),
        (
            "parts of a result",
            of(&[
                query("BEGIN"),
                parse("", "SELECT generate_series(1, 5)"),
                bind("q", ""),
                limited.clone(),
                limited,
                execute("q"),
                sync(),
                query("COMMIT"),
            ]),
            3,
        ),
        (
            "a COPY with all of it sent ahead",
            of(&[
                query("CREATE TEMP TABLE IF NOT EXISTS copied (a int)"),
                query(copied),
                message(b'd', b"1\n"),
                message(b'd', b"2\n"),
                message(b'c', b""),
                query("SELECT count(*) FROM copied"),
                query("TRUNCATE copied"),
            ]),
            4,
        ),
        (
            "a COPY in the extended protocol",
            of(&[
                parse("", copied),
                bind("", ""),
                execute(""),
                sync(),
                message(b'd', b"7\n"),
                message(b'c', b""),
                sync(),
                query("SELECT a + 0 FROM copied"),
            ]),
            2,
        ),
        (
            "a COPY that the client gives up",
            of(&[
                query(copied),
                message(b'f', b"no more\0"),
                query("SELECT 3"),
            ]),
            2,
        ),
        (
            "a COPY that fails",
            of(&[
                query(copied),
                message(b'd', b"x\n"),
                message(b'd', b"1\n"),
                message(b'c', b""),
                query("SELECT 4"),
            ]),
            2,
        ),
        (
            "COPY out",
            query("COPY (SELECT generate_series(1, 2000)) TO STDOUT"),
            1,
        ),
        (
            "a failed transaction",
            of(&[
                query("BEGIN"),
                query("SELECT 1/0"),
                parse("e", "SELECT 1"),
                sync(),
                query("ROLLBACK"),
                parse("e", "SELECT 1"),
                sync(),
            ]),
            5,
        ),
        (
            "DEALLOCATE ALL before a Parse",
            of(&[
                parse("g", "SELECT 1"),
                sync(),
                query("DEALLOCATE ALL"),
                parse("g", "SELECT 1"),
                bind("", "g"),
                execute(""),
                sync(),
            ]),
            3,
        ),
        ("a function call", of(&[function, query("SELECT 5")]), 2),
        (
            "notices and parameters",
            of(&[
                query("SET client_min_messages = notice; SET TimeZone = 'Asia/Tokyo'"),
                query("DO $$ BEGIN RAISE NOTICE 'here'; END $$"),
                query("RESET TimeZone"),
            ]),
            3,
        ),
        (
            "Flush",
            of(&[
                parse("", "SELECT 6"),
                flush(),
                bind("", ""),
                flush(),
                execute(""),
                flush(),
                sync(),
            ]),
            1,
        ),
        (
            "large values",
            of(&[
                query(&format!("SELECT '{}'", "x".repeat(100_000))),
                query("SELECT repeat('y', 300000)"),
            ]),
            2,
        ),
    ]
}

fn converse(stream: &mut (impl Read + Write), pieces: &[&[u8]], readies: usize) -> Vec<Reply> {
    for piece in pieces {
        stream.write_all(piece).unwrap();
    }
    let (mut replies, mut left) = (Vec::new(), readies);
    while left > 0 {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body).unwrap();
        let tag = char::from(head[0]);
        left -= usize::from(tag == 'Z');
        replies.push(Reply { tag, body });
    }
    replies
}

fn log_in(stream: &mut (impl Read + Write)) {
    let packet = startup(
        0x0003_0000,
        &[("user", "postgres"), ("database", "postgres")],
    );
    converse(stream, &[&packet], 1);
}

#[test]
fn replies_are_those_of_the_server_itself() {
    let monitor = Running::start(|config| config.pool_size = 1);
    let address = monitor.server.target().addresses[0].clone();
    let Address::Unix(path) = address else {
        panic!("the embedded server has a Unix socket");
    };
    let mut state = 42_u64;
    for round in 0..5 {
        // Sessions anew, so that both start alike.
        let mut direct = UnixStream::connect(&path).unwrap();
        let mut through = TcpStream::connect(monitor.address).unwrap();
        through.set_nodelay(true).unwrap();
        log_in(&mut direct);
        log_in(&mut through);
        for (what, bytes, readies) in conversations() {
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                // Numerical Recipes' linear congruential generator.
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let most = if rest.len() > 10_000 { 20_000 } else { 30 };
                let size = 1 + usize::try_from((state >> 33) % most).unwrap();
                let (piece, after) = rest.split_at(size.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            let expected = converse(&mut direct, &[&bytes], readies);
            let found = converse(&mut through, &pieces, readies);
            for (expected, found) in expected.iter().zip(&found) {
                assert_eq!(found, expected, "{what}, round {round}");
            }
            assert_eq!(found.len(), expected.len(), "{what}, round {round}");
        }
    }
}

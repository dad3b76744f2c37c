//! Servers that send anything at all: the driver ends with an error or an answer, always the same
//! one however the bytes are cut, and never hangs.

use crate::server::Connection;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use tenbin_wire::{Address, Target};

/// `AuthenticationOk` and `ReadyForQuery`.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// What a session makes of a server that greets with `greeting`, answers its first request with `answer`, in
/// pieces, and closes. A deadlock shows as a test that does not end.
fn outcome(greeting: &[u8], pieces: &[&[u8]]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(".s.PGSQL.1");
    let listener = UnixListener::bind(&path).expect("a socket");
    let target = Target {
        addresses: vec![Address::Unix(path)],
        user: "u".to_owned(),
        password: Some("p".to_owned()),
        database: "d".to_owned(),
        parameters: Vec::new(),
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            read_message(&mut socket, 0);
            // The client may have left already: that is its right.
            let _ = socket.write_all(greeting);
            if greeting != WELCOME {
                return;
            }
            read_message(&mut socket, 1);
            for piece in pieces {
                let _ = socket.write_all(piece);
            }
            // Half a close, so that what the client still sends does not meet a reset.
            let _ = socket.shutdown(Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let mut connection = match Connection::open(&target) {
            Ok(connection) => connection,
            Err(error) => return format!("refused: {error:?}"),
        };
        match connection.query("SELECT 1") {
            Err(error) => format!("failed: {error:?}"),
            Ok(replies) => {
                let mut read = String::new();
                for mut reply in replies {
                    while let Some(row) = reply.row() {
                        for column in 0..=row.columns().min(20) {
                            let _ = write!(read, "{:?} {:?}", row.raw(column), row.int(column));
                            let _ = writeln!(read, " {:?}", row.numeric(column, 2));
                        }
                    }
                    let _ = writeln!(read, "{} {}", reply.tag(), reply.affected());
                }
                read
            }
        }
    })
}

/// Reads one message; its length comes after `skip` bytes of tag.
fn read_message(socket: &mut impl Read, skip: usize) {
    let mut head = vec![0; skip + 4];
    if socket.read_exact(&mut head).is_err() {
        return;
    }
    let length = u32::from_be_bytes(head[skip..].try_into().expect("four bytes"));
    let mut rest = vec![0; length as usize - 4];
    let _ = socket.read_exact(&mut rest);
}

/// A message as a server would send it, or nearly.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop::sample::select(b"DDDDCCZZTIEENSAKGHdcR1230ts@".to_vec());
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(b"I".to_vec()),
        Just(b"SELECT 12\0".to_vec()),
        Just(b"SERROR\0C22012\0Mmessage\0\0".to_vec()),
        Just(b"SFATAL\0VFATAL\0C57P01\0Mbye\0\0".to_vec()),
        Just(b"\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff".to_vec()),
    ];
    (tag, body, prop_oneof![9 => Just(0_u32), 1 => any::<u32>()]).prop_map(|(tag, body, lie)| {
        let length = u32::try_from(body.len()).expect("short") + 4;
        [&[tag][..], &length.wrapping_add(lie).to_be_bytes(), &body].concat()
    })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..200),
        4 => prop::collection::vec(message(), 0..12).prop_map(|messages| messages.concat()),
        2 => prop::collection::vec(message(), 0..12).prop_map(|messages| [&messages.concat()[..], b"C\0\0\0\x08ab\0Z\0\0\0\x05I"].concat()),
    ]
}

/// `bytes` cut at the given places.
fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places
        .iter()
        .map(|place| place.index(bytes.len() + 1))
        .collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for place in places {
        pieces.push(&bytes[start..place]);
        start = place;
    }
    pieces.push(&bytes[start..]);
    pieces
}

fn runner() -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

#[test]
fn any_answer_ends_the_same_way_however_it_is_cut() {
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    runner()
        .run(&(bytes(), cuts), |(bytes, places)| {
            let whole = outcome(WELCOME, &[&bytes]);
            prop_assert_eq!(outcome(WELCOME, &cut(&bytes, &places)), whole);
            Ok(())
        })
        .expect("all answers");
}

#[test]
fn any_greeting_ends() {
    let greeting = prop_oneof![
        bytes(),
        (0_i32..13, prop::collection::vec(any::<u8>(), 0..30)).prop_map(|(code, data)| {
            let length = u32::try_from(data.len()).expect("short") + 8;
            [b"R", &length.to_be_bytes()[..], &code.to_be_bytes(), &data].concat()
        })
    ];
    runner()
        .run(&greeting, |greeting| {
            outcome(&greeting, &[b"C\0\0\0\x08ab\0Z\0\0\0\x05I"]);
            Ok(())
        })
        .expect("all greetings");
}

#[test]
fn what_a_server_must_not_do_is_named() {
    for (greeting, answer, expected) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            &b""[..],
            "impossible length 1414811695",
        ),
        (b"x", b"", "unknown type 0x78"),
        (
            b"R\0\0\0\x08\0\0\0\x0c",
            b"",
            "type 'R' whose content makes no sense",
        ),
        (
            b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0R\0\0\0\x08\0\0\0\0",
            b"",
            "without proving",
        ),
        (
            b"R\0\0\0\x13\0\0\0\x0aSOMETHING\0\0",
            b"",
            r#"offers the SASL mechanisms [\"SOMETHING\"]"#,
        ),
        (
            b"R\0\0\0\x08\0\0\0\x07",
            b"",
            "asks for authentication method 7",
        ),
        (b"", b"", "the server closed the connection"),
        (WELCOME, b"", "the server closed the connection"),
        (WELCOME, b"W\0\0\0\x07\0\0\0", "type 'W' where none belongs"),
        (
            WELCOME,
            b"Z\0\0\0\x05x",
            "type 'Z' whose content makes no sense",
        ),
        (
            WELCOME,
            b"C\0\0\0\x01",
            "type 'C' with the impossible length 1",
        ),
        (
            WELCOME,
            b"D\xff\xff\xff\xff",
            "type 'D' with the impossible length 4294967295",
        ),
        (WELCOME, b"E\0\0\0\x0cSFATAL\0\0", "FATAL"),
    ] {
        let outcome = outcome(greeting, &[answer]);
        assert!(
            outcome.contains("Lost") && outcome.contains(expected),
            "{outcome} lacks {expected}"
        );
    }
}

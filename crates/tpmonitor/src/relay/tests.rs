//! However bytes are cut on their way, the same comes out.

use super::client::Rules;
use super::*;
use crate::messages::{message, ready};
use proptest::prelude::*;

const RULES: Rules = Rules {
    mode: Mode::Transaction,
    contended: false,
};

/// A session of both sides, fed piece by piece.
#[derive(Default)]
struct Pair {
    shared: Shared,
    client: ClientState,
    server: Option<ServerState>,
    from_client: Vec<u8>,
    from_server: Vec<u8>,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        Self {
            server: Some(ServerState::new(3)),
            ..Self::default()
        }
    }

    fn client_sends(&mut self, piece: &[u8]) -> Stop {
        self.from_client.extend_from_slice(piece);
        let input = std::mem::take(&mut self.from_client);
        let (mut made, mut said) = (Vec::new(), Vec::new());
        let mut out = Out::new(&input, &mut made);
        let (taken, stop) = client::forward(
            &mut self.shared,
            RULES,
            &mut self.client,
            self.server.as_mut(),
            &input,
            &mut out,
            &mut said,
        );
        self.to_server.extend_from_slice(out.finish());
        self.to_client.extend_from_slice(&said);
        self.from_client = input[taken..].to_vec();
        stop
    }

    fn server_sends(&mut self, piece: &[u8]) -> Result<(), server::Broken> {
        self.from_server.extend_from_slice(piece);
        loop {
            let input = std::mem::take(&mut self.from_server);
            let mut made = Vec::new();
            let mut out = Out::new(&input, &mut made);
            let Some(server) = &mut self.server else {
                return Ok(());
            };
            let taken = server::forward(
                &mut self.shared,
                Some(&mut self.client),
                server,
                &input,
                &mut out,
            )?;
            self.to_client.extend_from_slice(out.finish());
            self.from_server = input[taken..].to_vec();
            if taken == 0 {
                return Ok(());
            }
        }
    }

    fn outcome(&self) -> (Vec<u8>, Vec<u8>, String) {
        let owed = format!("{:?}", self.server);
        (self.to_server.clone(), self.to_client.clone(), owed)
    }
}

/// A message that a client may send.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec!["", "a", "b", "c", "d", "_tenbin_1"]);
    let text = prop::sample::select(vec!["SELECT 1", "SELECT 2", "SET x = 1", "DEALLOCATE ALL"]);
    let kind = prop::sample::select(b"QPBDCEHSSFdcf".to_vec());
    (kind, name, text, 0_usize..30_000).prop_map(|(kind, name, text, length)| {
        let mut out = Vec::new();
        message(&mut out, kind, |out| match kind {
            b'Q' => out.extend_from_slice(&[text.as_bytes(), b"\0"].concat()),
            b'P' => out.extend_from_slice(&[name, "\0", text, "\0\0\0"].concat().into_bytes()),
            b'B' => {
                out.extend_from_slice(&["\0", name, "\0"].concat().into_bytes());
                out.resize(out.len() + length, 0);
            }
            b'D' | b'C' => out.extend_from_slice(&["S", name, "\0"].concat().into_bytes()),
            b'E' => out.extend_from_slice(&[0; 5]),
            b'f' => out.extend_from_slice(b"why\0"),
            b'd' | b'F' => out.resize(out.len() + length, 7),
            _ => {}
        });
        out
    })
}

/// What a server answers to requests that all succeed, read off what it was sent.
fn answers(sent: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), sent);
    while let Ok(crate::scan::Step::Message(found)) = crate::scan::from_client(rest) {
        let reply: &[u8] = match found.tag {
            b'P' => b"1",
            b'B' => b"2",
            b'C' => b"3",
            b'D' => b"tT",
            b'E' => b"DC",
            b'Q' => b"TDNCZ",
            b'F' => b"VZ",
            b'S' => b"Z",
            _ => b"",
        };
        for &tag in reply {
            match tag {
                b'Z' => ready(&mut out, b'I'),
                b'C' => message(&mut out, tag, |out| out.extend_from_slice(b"SELECT 1\0")),
                _ => message(&mut out, tag, |out| {
                    out.resize(out.len() + usize::from(tag) * 20, tag);
                }),
            }
        }
        rest = &rest[found.bytes.len()..];
    }
    out
}

proptest! {
    #[test]
    fn requests_do_not_depend_on_how_they_are_cut(
        requests in prop::collection::vec(request(), 0..12),
        sizes in prop::collection::vec(1_usize..20_000, 1..8),
    ) {
        let stream = requests.concat();
        let mut whole = Pair::new();
        let stop = whole.client_sends(&stream);
        prop_assert_eq!(stop, Stop::Wait);
        let mut cut = Pair::new();
        let (mut rest, mut size) = (&stream[..], sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*size.next().unwrap()));
            cut.client_sends(piece);
            rest = after;
        }
        prop_assert_eq!(&cut.to_server, &whole.to_server);
        prop_assert_eq!(&cut.to_client, &whole.to_client);
    }

    /// And when all is answered, every reply has come to the client once, and nothing is owed.
    #[test]
    fn replies_do_not_depend_on_how_they_are_cut(
        requests in prop::collection::vec(request(), 0..12),
        size in 1_usize..3_000,
    ) {
        let mut pairs = [Pair::new(), Pair::new()];
        for (pair, size) in pairs.iter_mut().zip([usize::MAX, size]) {
            pair.client_sends(&[requests.concat(), crate::messages::SYNC.to_vec()].concat());
            let stream = answers(&pair.to_server);
            for piece in stream.chunks(size) {
                prop_assert!(pair.server_sends(piece).is_ok());
            }
            let server = pair.server.as_ref().unwrap();
            prop_assert!(server.is_at_rest(), "{:?}", server);
        }
        prop_assert_eq!(pairs[0].outcome().1, pairs[1].outcome().1);
        let asked = requests.iter().filter(|request| matches!(request[0], b'P' | b'B' | b'C' | b'S' | b'Q' | b'F'));
        let replies = tags(&pairs[0].to_client);
        let answered = replies.iter().filter(|tag| b"123Z".contains(tag)).count();
        prop_assert_eq!(answered, asked.count() + 1);
    }

    /// Whatever a server sends, it is passed on or refused; nothing panics.
    #[test]
    fn any_bytes_of_a_server_are_taken_or_refused(
        requests in prop::collection::vec(request(), 0..6),
        tags in prop::collection::vec((prop::sample::select(b"123CDEGHINSTZAdnstVW".to_vec()), prop::collection::vec(any::<u8>(), 0..20)), 0..20),
    ) {
        let mut pair = Pair::new();
        pair.client_sends(&requests.concat());
        let mut stream = Vec::new();
        for (tag, body) in tags {
            message(&mut stream, tag, |out| out.extend_from_slice(&body));
        }
        let _ = pair.server_sends(&stream);
    }

    #[test]
    fn any_bytes_of_a_client_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut pair = Pair::new();
        pair.client_sends(&bytes);
        let mut alone = Pair::default();
        alone.client_sends(&bytes);
    }
}

fn tags(mut bytes: &[u8]) -> Vec<u8> {
    let mut tags = Vec::new();
    while let Ok(crate::scan::Step::Message(found)) = crate::scan::from_server(bytes) {
        tags.push(found.tag);
        bytes = &bytes[found.bytes.len()..];
    }
    tags
}

#[test]
fn a_notification_comes_under_the_number_that_its_client_was_told_and_not_for_the_monitors_own_queries()
 {
    let mut pair = Pair::new();
    let server = pair.server.as_mut().unwrap();
    (server.process_id, server.told_process_id) = (7, 1 << 22);
    let notification = |number: u32| {
        let mut out = Vec::new();
        message(&mut out, b'A', |out| {
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(b"news\0now\0");
        });
        out
    };
    pair.server_sends(&[notification(7), notification(8)].concat())
        .unwrap();
    assert_eq!(
        pair.to_client,
        [notification(1 << 22), notification(8)].concat()
    );
    pair.to_client.clear();
    pair.server.as_mut().unwrap().owe_internal();
    pair.server_sends(&[notification(7), notification(8)].concat())
        .unwrap();
    assert_eq!(pair.to_client, b"");
}

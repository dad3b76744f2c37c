//! What a statement's text says about the session it leaves behind.
//!
//! No parser: the words at the start of each statement, and a few names anywhere. Where that is in
//! doubt, the answer is the one that keeps a server with its client, which costs a server and never
//! a wrong result. What functions do inside is not seen.

use tenbin_wire::frames::split_string;

/// What a text does to its session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meaning {
    /// Leaves state behind that only this server has: the client has to keep it.
    pub(crate) session_state: bool,
    /// `DEALLOCATE ALL` or `DISCARD ALL`: drops every prepared statement.
    pub(crate) drops_statements: bool,
    /// The text is one `DEALLOCATE` of this name.
    pub(crate) deallocates: Option<Vec<u8>>,
    /// It may make a transaction write that began as one that only reads, or be past its end.
    pub(crate) may_write: bool,
    /// Parameters that it gives the value back that the session began with, as bits by index into [`CARRIED`].
    pub(crate) resets: u16,
}

/// Parameters that servers report, so that they can be carried from one to another.
pub(crate) const CARRIED: [&str; 9] = [
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "IntervalStyle",
    "application_name",
    "standard_conforming_strings",
    // The following are reported by 14, 16 and 18.
    "default_transaction_read_only",
    "scram_iterations",
    "search_path",
];

/// Of [`CARRIED`], those that every supported server reports.
pub(crate) const ALWAYS_REPORTED: usize = 6;

/// Those of [`ALWAYS_REPORTED`], as bits: only these are given back by the monitor itself, as servers know the
/// others from their own start-up packet.
const ALL: u16 = (1 << ALWAYS_REPORTED) - 1;

/// The bit of a parameter, if it is one of [`ALL`].
fn bit(name: &[u8]) -> u16 {
    let name = name
        .strip_prefix(b"\"")
        .and_then(|name| name.strip_suffix(b"\""))
        .unwrap_or(name);
    crate::parameters::carried(name).map_or(0, |index| 1 << index) & ALL
}

/// What executing a text of one statement gives back ([`Meaning::resets`]).
pub(crate) fn resets(text: &[u8]) -> u16 {
    let mut words = Words(text);
    let Some(first) = words.next() else {
        return 0;
    };
    if !matches!(first.len(), 3 | 5 | 7) || !matches!(first[0] | 0x20, b's' | b'r' | b'd') {
        return 0;
    }
    let mut meaning = Meaning::default();
    statement(first, &mut words, &|_| true, &mut meaning);
    meaning.resets
}

/// Bytes at which something may be told: the end of a statement, and the inside or the end of a name
/// that leaves state behind.
const MARKED: [bool; 256] = {
    let mut marked = [false; 256];
    marked[b';' as usize] = true;
    marked[b'_' as usize] = true;
    marked[b'o' as usize] = true;
    marked[b'O' as usize] = true;
    marked[b'&' as usize] = true;
    marked
};

/// Reads a text, once. `reported`: whether a parameter's changes are reported by the server.
pub(crate) fn meaning(text: &[u8], reported: impl Fn(&[u8]) -> bool) -> Meaning {
    let mut meaning = Meaning::default();
    let mut statements = 0;
    let mut begin = |rest, meaning: &mut Meaning| {
        let mut words = Words(rest);
        if let Some(first) = words.next() {
            statements += 1;
            statement(first, &mut words, &reported, meaning);
        }
    };
    begin(text, &mut meaning);
    for (at, &byte) in text.iter().enumerate() {
        if !MARKED[usize::from(byte)] {
            continue;
        }
        let (before, after) = (&text[..at], &text[at + 1..]);
        match byte {
            // Inside a literal this is no end of a statement; taking it for one is the safe side.
            b';' => begin(after, &mut meaning),
            // A name whose letters are written as numbers may be any of those below.
            b'&' => meaning.session_state |= ends_with(before, b"u") && after.starts_with(b"\""),
            b'_' => meaning.session_state |= names_state(before, after),
            _ => meaning.session_state |= ends_with(before, b"int") && is_temporary(after),
        }
    }
    if statements != 1 {
        meaning.deallocates = None;
        meaning.may_write |= statements > 1;
    }
    meaning
}

/// What the next transaction of a client does, as far as it says so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It begins with `READ ONLY`.
    Reads,
    /// It begins with `READ WRITE`, or says something of it: that is for the server that takes writes.
    Writes,
    /// Neither.
    Unsaid,
}

/// Looks at the message that a transaction begins with.
pub(crate) fn access(message: &[u8]) -> Access {
    let body = message.get(crate::scan::HEADER_BYTES..).unwrap_or_default();
    let text = match message.first() {
        Some(b'Q') => body,
        Some(b'P') => split_string(body).map_or(&[][..], |(_, rest)| rest),
        _ => return Access::Unsaid,
    };
    let text = split_string(text).map_or(text, |(text, _)| text);
    let mut words = Words(text);
    let is = |word: Option<&[u8]>, name: &str| {
        word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let begins =
        matches!(words.next(), Some(first) if is(Some(first), "BEGIN") || is(Some(first), "START"));
    let mut found = Access::Unsaid;
    let mut before = None;
    for word in words.by_ref() {
        if is(before, "READ") && is(Some(word), "ONLY") && begins {
            found = Access::Reads;
        } else if is(before, "READ") && is(Some(word), "WRITE") || sets_access(word) {
            found = Access::Writes;
        }
        before = Some(word);
    }
    // What follows in the same text may be past the end of the transaction, or take back what was said.
    let rest = words.0.strip_prefix(b";").unwrap_or(words.0);
    if Words(rest).next().is_none() {
        return found;
    }
    let lifted = rest
        .split(|&byte| !is_name(byte))
        .any(|word| word.eq_ignore_ascii_case(b"WRITE") || sets_access(word));
    match found {
        _ if lifted => Access::Writes,
        Access::Reads => Access::Unsaid,
        _ => found,
    }
}

/// The parameters that `READ ONLY` and `READ WRITE` stand for.
fn sets_access(word: &[u8]) -> bool {
    let name = word
        .strip_prefix(b"\"")
        .and_then(|word| word.strip_suffix(b"\""))
        .unwrap_or(word);
    name.eq_ignore_ascii_case(b"transaction_read_only")
        || name.eq_ignore_ascii_case(b"default_transaction_read_only")
}

/// The database that a text drops, which is to be its only statement.
pub(crate) fn dropped_database(text: &[u8]) -> Option<Vec<u8>> {
    // Most texts are told by their first letter.
    if text.first()? | 0x20 != b'd' {
        return None;
    }
    let mut words = Words(text);
    let mut next_is = |name: &[u8]| {
        words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case(name))
    };
    if !next_is(b"DROP") || !next_is(b"DATABASE") {
        return None;
    }
    let word = words.next()?;
    let name = if word.eq_ignore_ascii_case(b"IF") {
        words.nth(1)?
    } else {
        word
    };
    identifier(name)
}

fn statement(
    first: &[u8],
    words: &mut Words<'_>,
    reported: &impl Fn(&[u8]) -> bool,
    meaning: &mut Meaning,
) {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let mut next = || words.next().unwrap_or_default();
    // By length first: most statements are none of these.
    match first.len() {
        3 if is(first, "SET") => {
            let mut name = next();
            // Rarely said, and not worth telling more of them apart: TRANSACTION, transaction_read_only.
            meaning.may_write = true;
            if is(name, "SESSION") {
                name = next();
                // SET SESSION CHARACTERISTICS sets defaults, SET SESSION AUTHORIZATION the user.
            } else if is(name, "LOCAL") || is(name, "TRANSACTION") || is(name, "CONSTRAINTS") {
                return;
            }
            let (name, value): (&[u8], _) = match name {
                _ if is(name, "NAMES") => (b"client_encoding", next()),
                _ if is(name, "TIME") && is(next(), "ZONE") => (b"TimeZone", next()),
                _ => {
                    next(); // `TO` or `=`
                    (name, next())
                }
            };
            meaning.session_state |= !reported(name);
            if value.is_empty() || is(value, "DEFAULT") || is(value, "LOCAL") {
                meaning.resets |= bit(name);
            }
        }
        5 if is(first, "RESET") => {
            meaning.resets |= match next() {
                name if is(name, "ALL") => ALL,
                name if is(name, "TIME") => bit(b"TimeZone"),
                name => bit(name),
            };
        }
        4 if is(first, "LOAD") => meaning.session_state = true,
        6 if is(first, "LISTEN") => meaning.session_state = true,
        6 if is(first, "CREATE") => {
            let mut word = next();
            if is(word, "GLOBAL") || is(word, "LOCAL") || is(word, "OR") {
                let replace = is(word, "OR");
                word = next();
                if replace {
                    word = next();
                }
            }
            meaning.session_state |= is(word, "TEMP") || is(word, "TEMPORARY");
        }
        7 if is(first, "PREPARE") => meaning.session_state |= !is(next(), "TRANSACTION"),
        7 if is(first, "DECLARE") => {
            let mut before: &[u8] = &[];
            for word in words.by_ref() {
                if is(before, "WITH") && is(word, "HOLD") {
                    meaning.session_state = true;
                }
                before = word;
            }
        }
        7 if is(first, "DISCARD") && is(next(), "ALL") => {
            meaning.drops_statements = true;
            meaning.resets = ALL;
        }
        10 if is(first, "DEALLOCATE") => {
            let mut name = next();
            if is(name, "PREPARE") {
                name = next();
            }
            if is(name, "ALL") {
                meaning.drops_statements = true;
            } else {
                meaning.deallocates = identifier(name);
            }
        }
        _ => {}
    }
}

/// Whether what stands on both sides of an underscore names what leaves state behind: advisory locks
/// of the session, temporary tables by their schema, `set_config`.
fn names_state(before: &[u8], after: &[u8]) -> bool {
    if ends_with(before, b"pg") || ends_with(before, b"try") {
        starts_with(after, b"advisory_lock") || starts_with(after, b"temp")
    } else {
        ends_with(before, b"set") && starts_with(after, b"config")
    }
}

/// Whether an `INTO` goes on with `[LOCAL|GLOBAL] TEMP|TEMPORARY`.
fn is_temporary(after: &[u8]) -> bool {
    let mut words = Words(after);
    let mut word = words.next().unwrap_or_default();
    if word.eq_ignore_ascii_case(b"local") || word.eq_ignore_ascii_case(b"global") {
        word = words.next().unwrap_or_default();
    }
    word.eq_ignore_ascii_case(b"temp") || word.eq_ignore_ascii_case(b"temporary")
}

fn starts_with(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len())
        .is_some_and(|front| front.eq_ignore_ascii_case(start))
}

fn ends_with(text: &[u8], end: &[u8]) -> bool {
    text.len()
        .checked_sub(end.len())
        .is_some_and(|from| text[from..].eq_ignore_ascii_case(end))
}

/// An identifier as the server understands it: folded to lower case unless quoted.
fn identifier(word: &[u8]) -> Option<Vec<u8>> {
    match word.strip_prefix(b"\"") {
        Some(quoted) => {
            let inner = quoted.strip_suffix(b"\"")?;
            (!inner.contains(&b'"')).then(|| inner.to_vec())
        }
        None if word.is_empty() => None,
        None => Some(word.to_ascii_lowercase()),
    }
}

/// Words of one statement, up to its semicolon: names, quoted names, and single other characters.
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0 = skip_blank(self.0);
        let text = self.0;
        let &first = text.first()?;
        let length = match first {
            b';' | 0 => return None,
            b'"' => text[1..].iter().position(|&byte| byte == b'"')? + 2,
            _ if is_name(first) => text
                .iter()
                .position(|&byte| !is_name(byte))
                .unwrap_or(text.len()),
            _ => 1,
        };
        let (word, rest) = text.split_at(length);
        self.0 = rest;
        Some(word)
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// Leaves out white space and comments. Block comments nest.
fn skip_blank(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        if let Some(comment) = text.strip_prefix(b"--") {
            let end = comment.iter().position(|&byte| byte == b'\n');
            text = end.map_or(&[][..], |end| &comment[end..]);
        } else if text.first() == Some(&0x0b) {
            text = &text[1..];
        } else if text.starts_with(b"/*") {
            text = after_comment(text);
        } else {
            return text;
        }
    }
}

fn after_comment(mut text: &[u8]) -> &[u8] {
    let mut depth = 0_usize;
    while let Some(&first) = text.first() {
        let step = match (first, text.get(1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                2
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        text = &text[step..];
        if depth == 0 {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn databases_that_are_dropped() {
        for text in [
            "DROP DATABASE shop",
            "drop /* all */ database if exists Shop;",
            "DROP DATABASE \"shop\" WITH (FORCE)\0",
        ] {
            assert_eq!(
                dropped_database(text.as_bytes()).as_deref(),
                Some(&b"shop"[..]),
                "{text}"
            );
        }
        for text in [
            "",
            "DROP TABLE shop",
            "DROP DATABASE",
            "DROP DATABASE IF",
            "SELECT 1",
            "d",
        ] {
            assert_eq!(dropped_database(text.as_bytes()), None, "{text}");
        }
    }

    fn read(text: &str) -> Meaning {
        meaning(text.as_bytes(), |name| {
            CARRIED[..ALWAYS_REPORTED]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        })
    }

    #[test]
    fn what_a_transaction_says_of_itself() {
        let query = |text: &str| [b"Q\0\0\0\0", text.as_bytes(), b"\0"].concat();
        for (text, expected) in [
            ("BEGIN READ ONLY", Access::Reads),
            (
                "begin transaction isolation level repeatable read, read only;",
                Access::Reads,
            ),
            ("START TRANSACTION READ ONLY", Access::Reads),
            ("/* x */ BEGIN WORK READ ONLY ; ", Access::Reads),
            ("BEGIN READ WRITE", Access::Writes),
            (
                "BEGIN READ ONLY; SELECT 1; COMMIT; DELETE FROM a",
                Access::Unsaid,
            ),
            ("BEGIN", Access::Unsaid),
            ("BEGIN ISOLATION LEVEL READ COMMITTED", Access::Unsaid),
            ("SELECT 'BEGIN READ ONLY'", Access::Unsaid),
            (
                "BEGIN READ ONLY; SET TRANSACTION READ WRITE",
                Access::Writes,
            ),
            (
                "BEGIN READ ONLY; SET LOCAL transaction_read_only = off",
                Access::Writes,
            ),
            ("BEGIN; set Transaction_Read_Only to 0", Access::Writes),
            ("SET \"transaction_read_only\" = off", Access::Writes),
            ("SET default_transaction_read_only = off", Access::Writes),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
                Access::Writes,
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                Access::Unsaid,
            ),
            ("SELECT 1; SELECT 2", Access::Unsaid),
            ("", Access::Unsaid),
        ] {
            assert_eq!(access(&query(text)), expected, "{text}");
        }
        let parse = b"P\0\0\0\0name\0BEGIN READ ONLY\0\0\0";
        assert_eq!(access(parse), Access::Reads);
        assert_eq!(access(b"B\0\0\0\0BEGIN READ ONLY\0"), Access::Unsaid);
        assert_eq!(access(b"Q"), Access::Unsaid);
    }

    proptest! {
        #[test]
        fn any_message_is_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..80), text in ".*") {
            access(&bytes);
            access(format!("Q\0\0\0\0{text}").as_bytes());
        }
    }

    #[test]
    fn state_that_only_one_server_has() {
        for text in [
            "SET statement_timeout = 5",
            "set session work_mem to '1MB'",
            "SET search_path TO x",
            "SET ROLE someone",
            "SET SESSION AUTHORIZATION x",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "SET \"statement_timeout\" = 1",
            "SET my.variable = 1",
            "/* a /* nested */ comment */ SET x = 1",
            "-- a comment\n set x = 1",
            "SELECT 1; SET x = 1",
            "BEGIN;SET x=1;COMMIT",
            "LISTEN news",
            "LOAD 'auto_explain'",
            "CREATE TEMP TABLE t (a int)",
            "create local temporary table t (a int)",
            "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
            "SELECT 1 INTO TEMP t",
            "SELECT a INTO\n TEMPORARY t FROM b",
            "CREATE TABLE pg_temp.t (a int)",
            "PREPARE p AS SELECT 1",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "SELECT pg_advisory_lock(1)",
            "SELECT PG_TRY_ADVISORY_LOCK_SHARED(1)",
            "SELECT set_config('x.y', '1', false)",
            "SELECT U&\"set\\005fconfig\"('x.y', '1', false)",
            "SELECT u&\"set!005fconfig\" UESCAPE '!'('x.y', '1', false)",
        ] {
            assert!(read(text).session_state, "{text}");
        }
    }

    #[test]
    fn parameters_that_are_given_their_first_value() {
        let bits = |names: &[&str]| names.iter().map(|name| bit(name.as_bytes())).sum::<u16>();
        for (text, names) in [
            ("RESET ALL", &CARRIED[..ALWAYS_REPORTED]),
            ("discard all;", &CARRIED[..ALWAYS_REPORTED]),
            ("reset DateStyle", &["DateStyle"]),
            ("RESET \"timezone\"", &["TimeZone"]),
            ("RESET TIME ZONE", &["TimeZone"]),
            ("SET TIME ZONE LOCAL", &["TimeZone"]),
            ("SET TIME ZONE DEFAULT", &["TimeZone"]),
            ("SET SESSION datestyle TO DEFAULT", &["DateStyle"]),
            ("SET application_name=default", &["application_name"]),
            ("SET NAMES", &["client_encoding"]),
            ("SET DateStyle TO 'German'", &[]),
            ("SET LOCAL DateStyle TO DEFAULT", &[]),
            ("RESET search_path", &[]),
            ("RESET SESSION AUTHORIZATION", &[]),
            ("DISCARD PLANS", &[]),
            ("SELECT 'RESET ALL'", &[]),
        ] {
            assert_eq!(read(text).resets, bits(names), "{text}");
            assert_eq!(resets(text.as_bytes()), bits(names), "{text}");
        }
    }

    #[test]
    fn what_may_make_a_reader_write() {
        for text in [
            "SET TRANSACTION READ WRITE",
            "set local transaction_read_only = off",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
            "COMMIT; INSERT INTO a VALUES (1)",
        ] {
            assert!(read(text).may_write, "{text}");
        }
        for text in ["SELECT 1;", "COMMIT", "UPDATE a SET b = 1"] {
            assert!(!read(text).may_write, "{text}");
        }
    }

    #[test]
    fn state_that_ends_with_the_transaction_or_is_carried() {
        for text in [
            "",
            "SELECT 1",
            "SET LOCAL statement_timeout = 5",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET CONSTRAINTS ALL DEFERRED",
            "SET TimeZone TO 'UTC'",
            "SET TIME ZONE 'UTC'",
            "SET NAMES 'UTF8'",
            "set session application_name = 'x'",
            "RESET ALL",
            "SELECT temp FROM weather",
            "UPDATE pgbench_accounts SET abalance = 1",
            "SELECT pg_advisory_xact_lock(1)",
            "SELECT pg_try_advisory_xact_lock(1)",
            "PREPARE TRANSACTION 'x'",
            "DECLARE c CURSOR FOR SELECT 1",
            "INSERT INTO temperature VALUES (1)",
            "NOTIFY news",
            "/* unfinished",
            "\"",
        ] {
            let found = read(text);
            assert!(!found.session_state && !found.drops_statements, "{text}");
            assert_eq!(found.deallocates, None, "{text}");
        }
    }

    #[test]
    fn statements_that_drop_prepared_statements() {
        for text in [
            "DEALLOCATE ALL",
            "deallocate prepare all;",
            "DISCARD ALL",
            "SELECT 1; DISCARD ALL",
        ] {
            assert!(read(text).drops_statements, "{text}");
        }
        for (text, name) in [
            ("DEALLOCATE s1", "s1"),
            ("DEALLOCATE PREPARE S1;", "s1"),
            ("DEALLOCATE \"S1 x\"", "S1 x"),
        ] {
            assert_eq!(read(text).deallocates, Some(name.into()), "{text}");
        }
        for text in ["DISCARD PLANS", "DEALLOCATE", "DEALLOCATE a; DEALLOCATE b"] {
            let meaning = read(text);
            assert!(!meaning.drops_statements, "{text}");
            assert_eq!(meaning.deallocates, None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s:.){0,60}|([;'\"/*$_ \n-]|SET|temp|into|DEALLOCATE|ALL|pg_){0,20}") {
            let _ = read(&text);
        }

        /// A comment before a statement changes nothing.
        #[test]
        fn comments_are_blank(index in 0_usize..3) {
            let text = ["SET a = 1", "DISCARD ALL", "LISTEN x"][index];
            prop_assert_eq!(read(text), read(&format!(" /* ' */ --\"\n{text}")));
        }
    }
}

//! The end of an SQL command, found as psql's lexer finds it: a semicolon outside quotes,
//! comments, parentheses and the bodies of SQL-standard functions, or a backslash.

use crate::error::Problem;

/// What ended a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Semicolon,
    /// Just behind the backslash of a command.
    Backslash,
    End,
}

/// Reads a script's SQL. Depths of parentheses and function bodies outlast backslash commands.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    /// Offset of what has not been read yet.
    pub(crate) offset: usize,
    /// Offset of the first character of the command last collected.
    pub(crate) start: usize,
    parentheses: u32,
    /// Depth of BEGIN … END in a function's body.
    blocks: u32,
    /// Words of the current statement so far.
    words: usize,
    /// Initials of the first four words where they can begin a CREATE [OR REPLACE] FUNCTION.
    initials: [u8; 4],
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'\x0b')
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()
}

fn is_word_byte(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit()
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            offset: 0,
            start: 0,
            parentheses: 0,
            blocks: 0,
            words: 0,
            initials: [0; 4],
        }
    }

    /// Collects one command into `out`; leading blanks and comments are left out.
    ///
    /// Gives what ended it, or what is wrong and the offset where it begins.
    pub(crate) fn scan(&mut self, out: &mut String) -> Result<Stop, (Problem, usize)> {
        loop {
            let start = self.offset;
            if out.is_empty() {
                self.start = start;
            }
            let rest = &self.text.as_bytes()[start..];
            let Some(&first) = rest.first() else {
                return Ok(Stop::End);
            };
            if let Some(escaped) = rest.strip_prefix(b"\\") {
                let Some(&mark @ (b';' | b':')) = escaped.first() else {
                    self.offset += 1;
                    return Ok(Stop::Backslash);
                };
                out.push(char::from(mark));
                self.offset += 2;
                if mark == b';' {
                    self.words = 0;
                }
                continue;
            }
            if let Some(length) = variable_test(rest) {
                out.push_str("FALSE");
                self.offset += length;
                continue;
            }
            self.offset += self
                .token(rest)
                .map_err(|what| (Problem::Unterminated(what), start))?;
            let blank = is_space(first) || rest.starts_with(b"--");
            if !(blank && out.is_empty()) {
                out.push_str(&self.text[start..self.offset]);
            }
            if first == b';' && self.parentheses == 0 && self.blocks == 0 {
                self.words = 0;
                return Ok(Stop::Semicolon);
            }
        }
    }

    /// Length of the token that `rest` begins with, or the name of what does not end.
    fn token(&mut self, rest: &'a [u8]) -> Result<usize, &'static str> {
        let count = |from: usize, is: fn(u8) -> bool| {
            rest[from..].iter().take_while(|&&byte| is(byte)).count()
        };
        let second = rest.get(1).copied();
        Ok(match rest[0] {
            byte if is_space(byte) => count(0, is_space),
            b'-' if second == Some(b'-') => count(0, |byte| byte != b'\n' && byte != b'\r'),
            b'/' if second == Some(b'*') => block_comment(rest)?,
            b'\'' => quoted_string(rest, 0, false)?,
            b'e' | b'E' if second == Some(b'\'') => quoted_string(rest, 1, true)?,
            b'b' | b'B' | b'x' | b'X' if second == Some(b'\'') => quoted_string(rest, 1, false)?,
            b'u' | b'U' if rest[1..].starts_with(b"&'") => quoted_string(rest, 2, false)?,
            b'"' => quoted_identifier(rest)?,
            b'$' => dollar_quote(rest)?,
            b'(' => {
                self.parentheses += 1;
                1
            }
            b')' => {
                self.parentheses = self.parentheses.saturating_sub(1);
                1
            }
            // Variables' names are no words.
            b':' if second == Some(b':') => 2,
            b':' => 1 + count(1, is_word_byte),
            byte if byte.is_ascii_digit() => match count(0, |byte| byte.is_ascii_digit()) {
                digits if rest.get(digits).copied().is_some_and(is_word_start) => {
                    digits + count(digits, |byte| is_word_byte(byte) || byte == b'$')
                }
                digits => digits,
            },
            byte if is_word_start(byte) => {
                let length = count(0, |byte| is_word_byte(byte) || byte == b'$');
                self.word(&rest[..length]);
                length
            }
            _ => 1,
        })
    }

    /// Follows BEGIN … END where the statement creates a function.
    fn word(&mut self, word: &[u8]) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword.as_bytes());
        if self.words == 0 {
            self.initials = [0; 4];
        }
        if let Some(initial) = self.initials.get_mut(self.words)
            && ["create", "or", "replace", "function", "procedure"]
                .into_iter()
                .any(is)
        {
            *initial = word[0].to_ascii_lowercase();
        }
        self.words += 1;
        let creates = matches!(
            self.initials,
            [b'c', b'f' | b'p', ..] | [b'c', b'o', b'r', b'f' | b'p']
        );
        if !creates || self.parentheses > 0 {
            return;
        }
        if is("begin") || (is("case") && self.blocks > 0) {
            self.blocks += 1;
        } else if is("end") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }
}

/// Length of psql's test whether a variable is set, `:{?name}`: pgbench knows no variable yet when it reads.
fn variable_test(rest: &[u8]) -> Option<usize> {
    let name = rest.strip_prefix(b":{?")?;
    let length = name.iter().take_while(|&&byte| is_word_byte(byte)).count();
    (length > 0 && name.get(length) == Some(&b'}')).then_some(length + 4)
}

/// Length of a `/* … */`, which may hold others.
fn block_comment(rest: &[u8]) -> Result<usize, &'static str> {
    let mut depth = 0_u32;
    let mut at = 0;
    while let Some(pair) = rest.get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" if depth == 1 => return Ok(at + 2),
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    Err("/* comment")
}

/// Length of a string with its `prefix` bytes before the quote and all its continuations: further
/// strings behind blanks that hold a newline.
fn quoted_string(rest: &[u8], prefix: usize, escapes: bool) -> Result<usize, &'static str> {
    let mut at = prefix + 1;
    loop {
        match rest.get(at) {
            None => return Err("quoted string"),
            Some(b'\\') if escapes => at += 2,
            Some(b'\'') if rest.get(at + 1) == Some(&b'\'') => at += 2,
            Some(b'\'') => match continuation(&rest[at + 1..]) {
                Some(length) => at += 1 + length,
                None => return Ok(at + 1),
            },
            Some(_) => at += 1,
        }
    }
}

/// Length of the blanks and the quote by which a string goes on.
fn continuation(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut newline = false;
    loop {
        match rest.get(at)? {
            b'\n' | b'\r' => {
                newline = true;
                at += 1;
            }
            &byte if is_space(byte) => at += 1,
            b'-' if rest.get(at + 1) == Some(&b'-') => {
                at += rest[at..]
                    .iter()
                    .take_while(|&&b| b != b'\n' && b != b'\r')
                    .count();
            }
            b'\'' if newline => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Length of a `"…"`.
fn quoted_identifier(rest: &[u8]) -> Result<usize, &'static str> {
    let mut at = 1;
    loop {
        match rest.get(at) {
            None => return Err("quoted identifier"),
            Some(b'"') if rest.get(at + 1) == Some(&b'"') => at += 2,
            Some(b'"') => return Ok(at + 1),
            Some(_) => at += 1,
        }
    }
}

/// Length of a `$tag$…$tag$`, or 1 for a dollar that begins none.
fn dollar_quote(rest: &[u8]) -> Result<usize, &'static str> {
    let tag = rest[1..]
        .iter()
        .take_while(|&&byte| is_word_byte(byte))
        .count();
    if rest.get(tag + 1) != Some(&b'$') || rest[1].is_ascii_digit() {
        return Ok(1);
    }
    let delimiter = &rest[..tag + 2];
    rest[delimiter.len()..]
        .windows(delimiter.len())
        .position(|window| window == delimiter)
        .map(|at| at + 2 * delimiter.len())
        .ok_or("dollar-quoted string")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut scanner = Scanner::new(text);
        let mut commands = Vec::new();
        loop {
            let mut out = String::new();
            let stop = scanner.scan(&mut out).unwrap();
            if !out.is_empty() {
                commands.push(out);
            }
            if stop == Stop::End {
                return commands;
            }
        }
    }

    #[test]
    fn splits() {
        for (text, commands) in [
            ("select 1; select 2", &["select 1;", "select 2"][..]),
            (" -- c\n select 1 -- d;\n;", &["select 1 -- d;\n;"]),
            (
                "select ';', E'\\';', $a$;$b$;$a$, \";\";x",
                &["select ';', E'\\';', $a$;$b$;$a$, \";\";", "x"],
            ),
            ("select 'a' \n 'b;' ;c", &["select 'a' \n 'b;' ;", "c"]),
            (
                "select E'a' -- x\n '\\';' ;c",
                &["select E'a' -- x\n '\\';' ;", "c"],
            ),
            ("select (1; 2); 3", &["select (1; 2);", "3"]),
            ("/* ; /* ; */ ; */ a; b", &["/* ; /* ; */ ; */ a;", "b"]),
            ("a\\; b\\: c; d", &["a; b: c;", "d"]),
            ("a$$;b$$", &["a$$;", "b$$"]),
            ("select $1; $", &["select $1;", "$"]),
            (
                "create or replace function f() begin atomic select case when 1 then 2 end; end; x",
                &[
                    "create or replace function f() begin atomic select case when 1 then 2 end; end;",
                    "x",
                ],
            ),
            ("begin; end;", &["begin;", "end;"]),
            ("ü; 'é'", &["ü;", "'é'"]),
        ] {
            assert_eq!(split(text), commands, "{text}");
        }
    }

    #[test]
    fn open_ends_are_told() {
        for (text, what, at) in [
            ("a 'b", "quoted string", 2),
            ("E'\\'", "quoted string", 0),
            ("  \"b", "quoted identifier", 2),
            ("/* /* */", "/* comment", 0),
            ("1 $x$ $y$", "dollar-quoted string", 2),
        ] {
            let result = Scanner::new(text).scan(&mut String::new());
            assert_eq!(result, Err((Problem::Unterminated(what), at)), "{text}");
        }
    }
}

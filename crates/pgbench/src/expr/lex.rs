//! Tokens of expressions.

use crate::error::Problem;
use crate::value::parse_double;
use crate::variables::is_name_byte;

/// One token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    /// End of the line, or of the script.
    End,
    Int(i64),
    /// 9223372036854775808, good only behind a minus.
    MinMagnitude,
    Double(f64),
    Boolean(bool),
    Null,
    /// `:name`, without the colon.
    Variable(&'a str),
    /// A word that is no keyword.
    Name(&'a str),
    Keyword(Keyword),
    /// An operator or a mark, in its canonical spelling.
    Mark(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
    Is,
    IsNull,
    NotNull,
    Case,
    When,
    Then,
    Else,
    End,
}

const KEYWORDS: [(&str, Token<'static>); 14] = [
    ("and", Token::Keyword(Keyword::And)),
    ("or", Token::Keyword(Keyword::Or)),
    ("not", Token::Keyword(Keyword::Not)),
    ("is", Token::Keyword(Keyword::Is)),
    ("isnull", Token::Keyword(Keyword::IsNull)),
    ("notnull", Token::Keyword(Keyword::NotNull)),
    ("case", Token::Keyword(Keyword::Case)),
    ("when", Token::Keyword(Keyword::When)),
    ("then", Token::Keyword(Keyword::Then)),
    ("else", Token::Keyword(Keyword::Else)),
    ("end", Token::Keyword(Keyword::End)),
    ("null", Token::Null),
    ("true", Token::Boolean(true)),
    ("false", Token::Boolean(false)),
];

/// Spellings, longest first, and what they mean.
const MARKS: [(&str, &str); 21] = [
    ("<>", "<>"),
    ("!=", "<>"),
    ("<=", "<="),
    (">=", ">="),
    ("<<", "<<"),
    (">>", ">>"),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
    ("%", "%"),
    ("=", "="),
    ("<", "<"),
    (">", ">"),
    ("|", "|"),
    ("&", "&"),
    ("#", "#"),
    ("~", "~"),
    ("(", "("),
    (")", ")"),
    (",", ","),
];

/// Reads tokens up to the end of a line; a backslash before the line's end continues it.
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    /// Offset of what has not been read yet.
    pub(super) offset: usize,
}

/// Length of the line continuation that `rest` begins with, or 0.
pub(crate) fn continuation(rest: &str) -> usize {
    ["\\\n", "\\\r\n"]
        .iter()
        .find(|c| rest.starts_with(**c))
        .map_or(0, |c| c.len())
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len()
                - rest
                    .trim_start_matches([' ', '\t', '\r', '\x0b', '\x0c'])
                    .len();
            let skip = blanks + continuation(&rest[blanks..]);
            if skip == 0 {
                return;
            }
            self.offset += skip;
        }
    }

    /// The next token and its offset.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, usize), (Problem, usize)> {
        self.skip_blanks();
        let start = self.offset;
        let rest = self.rest();
        let (token, length) = token(rest).map_err(|problem| (problem, start))?;
        self.offset += length;
        Ok((token, start))
    }
}

fn token(rest: &str) -> Result<(Token<'_>, usize), Problem> {
    let Some(first) = rest.chars().next().filter(|&c| c != '\n') else {
        return Ok((Token::End, usize::from(!rest.is_empty())));
    };
    if let Some((token, length)) = number(rest)? {
        return Ok((token, length));
    }
    let name_bytes = |text: &str| text.bytes().take_while(|&b| is_name_byte(b)).count();
    if let Some(name) = rest.strip_prefix(':') {
        let length = name_bytes(name);
        if length > 0 {
            return Ok((Token::Variable(&name[..length]), length + 1));
        }
    }
    let length = name_bytes(rest);
    if length > 0 {
        let word = &rest[..length];
        let keyword = KEYWORDS
            .iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name));
        return Ok((
            keyword.map_or(Token::Name(word), |&(_, token)| token),
            length,
        ));
    }
    MARKS
        .iter()
        .find(|(spelling, _)| rest.starts_with(spelling))
        .map(|&(spelling, mark)| (Token::Mark(mark), spelling.len()))
        .ok_or(Problem::UnexpectedCharacter(first))
}

/// A number at the start of `rest`, if there is one.
fn number(rest: &str) -> Result<Option<(Token<'static>, usize)>, Problem> {
    let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(0);
    let mut length = whole;
    if rest[length..].starts_with('.') {
        length += 1 + digits(length + 1);
    }
    if length == 0 || (whole == 0 && length == 1) {
        return Ok(None);
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let text = &rest[..length];
    let token = if length > whole {
        let value = parse_double(text).ok_or_else(|| Problem::DoubleOverflow(text.to_owned()))?;
        Token::Double(value)
    } else if text == "9223372036854775808" {
        Token::MinMagnitude
    } else {
        let value = text
            .parse()
            .map_err(|_| Problem::IntOverflow(text.to_owned()))?;
        Token::Int(value)
    };
    Ok(Some((token, length)))
}

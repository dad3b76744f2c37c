//! The grammar of expressions: precedence climbing over the levels of pgbench's `exprparse.y`.

use super::lex::{Keyword, Lexer, Token};
use super::{Binary, Expr, Function, Id, Node, Unary};
use crate::error::Problem;
use crate::value::Value;
use crate::variables::Names;

/// How deep parentheses, calls, `CASE`, signs and second operands may nest; parsing and evaluation recurse as
/// deep, and 8 kB a level (parsing without optimization) fit a thread's 2 MiB. Chains of operators do not nest.
const MAX_NESTING: u32 = 200;
/// pgbench's limit of arguments of `least` and `greatest`.
pub(super) const MAX_ARGUMENTS: usize = 16;

/// Levels of precedence.
mod level {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const IS: u8 = 4;
    /// Does not associate.
    pub(super) const COMPARISON: u8 = 5;
    pub(super) const BITS: u8 = 6;
    pub(super) const SUM: u8 = 7;
    pub(super) const PRODUCT: u8 = 8;
    pub(super) const SIGN: u8 = 9;
}

/// A problem and the offset where it was found.
type Failure = (Problem, usize);

/// Parses the expression that goes from `offset` to the end of its line; gives also the offset of
/// the next line.
pub(crate) fn parse(
    text: &str,
    offset: usize,
    names: &mut Names,
) -> Result<(Expr, usize), Failure> {
    let mut parser = Parser {
        lexer: Lexer { text, offset },
        peeked: None,
        names,
        expr: Expr {
            nodes: Vec::new(),
            arguments: Vec::new(),
            offsets: Vec::new(),
            above: Vec::new(),
            root: 0,
        },
        depths: Vec::new(),
        nesting: 0,
    };
    parser.expr.root = parser.expression(level::OR)?;
    let (token, at) = parser.peek()?;
    if token != Token::End {
        return Err((Problem::Syntax, at));
    }
    Ok((parser.expr, parser.lexer.offset))
}

struct Parser<'a, 'n> {
    lexer: Lexer<'a>,
    /// Read ahead only when the grammar needs it, so that the first error found is pgbench's.
    peeked: Option<(Token<'a>, usize)>,
    names: &'n mut Names,
    expr: Expr,
    /// How deep evaluation recurses for each node.
    depths: Vec<u32>,
    /// Depth of the parser's recursion.
    nesting: u32,
}

impl<'a> Parser<'a, '_> {
    fn peek(&mut self) -> Result<(Token<'a>, usize), Failure> {
        if let Some(token) = self.peeked {
            return Ok(token);
        }
        let token = self.lexer.next()?;
        self.peeked = Some(token);
        Ok(token)
    }

    fn next(&mut self) -> Result<(Token<'a>, usize), Failure> {
        let token = self.peek()?;
        self.peeked = None;
        Ok(token)
    }

    fn eat(&mut self, wanted: Token<'static>) -> Result<bool, Failure> {
        let found = self.peek()?.0 == wanted;
        if found {
            self.peeked = None;
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: Token<'static>) -> Result<usize, Failure> {
        match self.next()? {
            (token, at) if token == wanted => Ok(at),
            (_, at) => Err((Problem::Syntax, at)),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "scripts are smaller than 4 GB"
    )]
    fn node(&mut self, node: Node, at: usize) -> Result<Id, Failure> {
        let id = self.expr.nodes.len() as Id;
        let depth_of = |id: Id| self.depths[id as usize];
        let depth = match node {
            Node::Constant(_) | Node::Variable(_) => 0,
            Node::Unary(_, x) => depth_of(x),
            Node::Binary(_, x, y) => depth_of(x).max(depth_of(y) + 1),
            Node::Call { first, count, .. } => {
                let arguments = self.expr.arguments(first, count);
                let depths = arguments.iter().map(|&id| depth_of(id) + 1);
                depths.max().unwrap_or(0)
            }
        };
        if depth > MAX_NESTING {
            return Err((Problem::TooDeep, at));
        }
        if let Node::Unary(_, x) | Node::Binary(_, x, _) = node {
            self.expr.above[x as usize] = id;
        }
        self.expr.nodes.push(node);
        self.expr.offsets.push(at as u32);
        self.expr.above.push(id);
        self.depths.push(depth);
        Ok(id)
    }

    fn constant(&mut self, value: Value, at: usize) -> Result<Id, Failure> {
        self.node(Node::Constant(value), at)
    }

    /// An expression of operators of level `min` and above.
    fn expression(&mut self, min: u8) -> Result<Id, Failure> {
        if self.nesting >= MAX_NESTING {
            return Err((Problem::TooDeep, self.peek()?.1));
        }
        self.nesting += 1;
        let mut left = self.operand()?;
        let mut compared = false;
        loop {
            let (token, at) = self.peek()?;
            let Some((level, operator)) = infix(token).filter(|&(level, _)| level >= min) else {
                break;
            };
            if compared && level == level::COMPARISON {
                return Err((Problem::Syntax, at));
            }
            self.peeked = None;
            compared = level == level::COMPARISON;
            left = match operator {
                Infix::Is => self.is(left, at)?,
                Infix::IsNull(negated) => self.is_constant(left, Value::Null, negated, at)?,
                Infix::Binary(binary, swapped) => {
                    let right = self.expression(level + 1)?;
                    let (x, y) = if swapped {
                        (right, left)
                    } else {
                        (left, right)
                    };
                    self.node(Node::Binary(binary, x, y), at)?
                }
            };
        }
        self.nesting -= 1;
        Ok(left)
    }

    /// What follows `IS`.
    fn is(&mut self, left: Id, at: usize) -> Result<Id, Failure> {
        let negated = self.eat(Token::Keyword(Keyword::Not))?;
        match self.next()? {
            (Token::Null, _) => self.is_constant(left, Value::Null, negated, at),
            (Token::Boolean(value), _) => {
                self.is_constant(left, Value::Boolean(value), negated, at)
            }
            (_, at) => Err((Problem::Syntax, at)),
        }
    }

    fn is_constant(
        &mut self,
        left: Id,
        value: Value,
        negated: bool,
        at: usize,
    ) -> Result<Id, Failure> {
        let right = self.constant(value, at)?;
        let is = self.node(Node::Binary(Binary::Is, left, right), at)?;
        if negated {
            self.node(Node::Unary(Unary::Not, is), at)
        } else {
            Ok(is)
        }
    }

    /// An operand with the operators before it.
    fn operand(&mut self) -> Result<Id, Failure> {
        let (token, at) = self.next()?;
        match token {
            Token::Int(value) => self.constant(Value::Int(value), at),
            Token::Double(value) => self.constant(Value::Double(value), at),
            Token::Boolean(value) => self.constant(Value::Boolean(value), at),
            Token::Null => self.constant(Value::Null, at),
            Token::Variable(name) => {
                let slot = self.names.intern(name);
                self.node(Node::Variable(slot), at)
            }
            Token::Name(name) => self.call(name, at),
            Token::Mark("(") => {
                let inner = self.expression(level::OR)?;
                self.expect(Token::Mark(")"))?;
                Ok(inner)
            }
            Token::Mark("+") => self.expression(level::SIGN),
            Token::Mark("-") if self.eat(Token::MinMagnitude)? => {
                self.constant(Value::Int(i64::MIN), at)
            }
            Token::Mark("-") => {
                let zero = self.constant(Value::Int(0), at)?;
                let x = self.expression(level::SIGN)?;
                self.node(Node::Binary(Binary::Subtract, zero, x), at)
            }
            Token::Mark("~") => {
                let ones = self.constant(Value::Int(-1), at)?;
                let x = self.expression(level::BITS + 1)?;
                self.node(Node::Binary(Binary::BitXor, ones, x), at)
            }
            Token::Keyword(Keyword::Not) => {
                let x = self.expression(level::NOT + 1)?;
                self.node(Node::Unary(Unary::Not, x), at)
            }
            Token::Keyword(Keyword::Case) => self.case(at),
            _ => Err((Problem::Syntax, at)),
        }
    }

    fn case(&mut self, at: usize) -> Result<Id, Failure> {
        let mut arguments = Vec::new();
        self.expect(Token::Keyword(Keyword::When))?;
        loop {
            arguments.push(self.expression(level::OR)?);
            self.expect(Token::Keyword(Keyword::Then))?;
            arguments.push(self.expression(level::OR)?);
            if !self.eat(Token::Keyword(Keyword::When))? {
                break;
            }
        }
        arguments.push(if self.eat(Token::Keyword(Keyword::Else))? {
            self.expression(level::OR)?
        } else {
            self.constant(Value::Null, at)?
        });
        self.expect(Token::Keyword(Keyword::End))?;
        self.function(Function::Case, &arguments, at)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "scripts are smaller than 4 GB"
    )]
    fn function(&mut self, function: Function, arguments: &[Id], at: usize) -> Result<Id, Failure> {
        let first = self.expr.arguments.len() as u32;
        self.expr.arguments.extend(arguments);
        let count = arguments.len() as u32;
        self.node(
            Node::Call {
                function,
                first,
                count,
            },
            at,
        )
    }

    /// A function's arguments, behind its name.
    fn call(&mut self, name: &str, at: usize) -> Result<Id, Failure> {
        let callee = FUNCTIONS
            .iter()
            .find(|callee| name.eq_ignore_ascii_case(callee.name))
            .ok_or_else(|| (Problem::UnknownFunction(name.to_owned()), at))?;
        self.expect(Token::Mark("("))?;
        let mut arguments = Vec::new();
        // pgbench's grammar takes a comma before the first argument, too.
        if !matches!(self.peek()?.0, Token::Mark(")" | ",")) {
            arguments.push(self.expression(level::OR)?);
        }
        while self.eat(Token::Mark(","))? {
            arguments.push(self.expression(level::OR)?);
        }
        let close = self.expect(Token::Mark(")"))?;
        let (least, most) = callee.arguments;
        if arguments.is_empty() && most == MAX_ARGUMENTS {
            return Err((Problem::NoArguments(callee.name), close));
        }
        if arguments.len() > most && most == MAX_ARGUMENTS {
            return Err((Problem::TooManyFunctionArguments(MAX_ARGUMENTS), at));
        }
        if !(least..=most).contains(&arguments.len()) {
            return Err((Problem::WrongArguments(callee.name), close));
        }
        if callee.seeded && arguments.len() < most {
            let slot = self.names.intern("default_seed");
            arguments.push(self.node(Node::Variable(slot), at)?);
        }
        match (callee.function, arguments.as_slice()) {
            (Callee::Unary(unary), &[x]) => self.node(Node::Unary(unary, x), at),
            (Callee::Binary(binary), &[x, y]) => self.node(Node::Binary(binary, x, y), at),
            (Callee::Function(function), arguments) => self.function(function, arguments, at),
            _ => Err((Problem::WrongArguments(callee.name), close)),
        }
    }
}

enum Infix {
    /// The operation, and whether its arguments change places.
    Binary(Binary, bool),
    Is,
    /// `ISNULL`, or negated `NOTNULL`.
    IsNull(bool),
}

fn infix(token: Token<'_>) -> Option<(u8, Infix)> {
    use Infix::{Binary as Op, Is, IsNull};
    Some(match token {
        Token::Keyword(Keyword::Or) => (level::OR, Op(Binary::Or, false)),
        Token::Keyword(Keyword::And) => (level::AND, Op(Binary::And, false)),
        Token::Keyword(Keyword::Is) => (level::IS, Is),
        Token::Keyword(Keyword::IsNull) => (level::IS, IsNull(false)),
        Token::Keyword(Keyword::NotNull) => (level::IS, IsNull(true)),
        Token::Mark("<") => (level::COMPARISON, Op(Binary::Less, false)),
        Token::Mark("<=") => (level::COMPARISON, Op(Binary::LessEqual, false)),
        Token::Mark(">") => (level::COMPARISON, Op(Binary::Less, true)),
        Token::Mark(">=") => (level::COMPARISON, Op(Binary::LessEqual, true)),
        Token::Mark("=") => (level::COMPARISON, Op(Binary::Equal, false)),
        Token::Mark("<>") => (level::COMPARISON, Op(Binary::NotEqual, false)),
        Token::Mark("|") => (level::BITS, Op(Binary::BitOr, false)),
        Token::Mark("#") => (level::BITS, Op(Binary::BitXor, false)),
        Token::Mark("&") => (level::BITS, Op(Binary::BitAnd, false)),
        Token::Mark("<<") => (level::BITS, Op(Binary::ShiftLeft, false)),
        Token::Mark(">>") => (level::BITS, Op(Binary::ShiftRight, false)),
        Token::Mark("+") => (level::SUM, Op(Binary::Add, false)),
        Token::Mark("-") => (level::SUM, Op(Binary::Subtract, false)),
        Token::Mark("*") => (level::PRODUCT, Op(Binary::Multiply, false)),
        Token::Mark("/") => (level::PRODUCT, Op(Binary::Divide, false)),
        Token::Mark("%") => (level::PRODUCT, Op(Binary::Modulo, false)),
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Callee {
    Unary(Unary),
    Binary(Binary),
    Function(Function),
}

struct Entry {
    name: &'static str,
    /// Fewest and most arguments.
    arguments: (usize, usize),
    /// The last argument is a seed, `:default_seed` when it is left out.
    seeded: bool,
    function: Callee,
}

const fn unary(name: &'static str, function: Unary) -> Entry {
    Entry {
        name,
        arguments: (1, 1),
        seeded: false,
        function: Callee::Unary(function),
    }
}

const fn binary(name: &'static str, function: Binary) -> Entry {
    Entry {
        name,
        arguments: (2, 2),
        seeded: false,
        function: Callee::Binary(function),
    }
}

const fn hash(name: &'static str, function: Binary) -> Entry {
    Entry {
        name,
        arguments: (1, 2),
        seeded: true,
        function: Callee::Binary(function),
    }
}

const fn function(name: &'static str, least: usize, most: usize, function: Function) -> Entry {
    Entry {
        name,
        arguments: (least, most),
        seeded: false,
        function: Callee::Function(function),
    }
}

/// Every function of pgbench 18.
const FUNCTIONS: [Entry; 21] = [
    unary("abs", Unary::Abs),
    unary("debug", Unary::Debug),
    unary("double", Unary::Double),
    unary("exp", Unary::Exp),
    function("greatest", 1, MAX_ARGUMENTS, Function::Greatest),
    hash("hash", Binary::HashMurmur2),
    hash("hash_fnv1a", Binary::HashFnv1a),
    hash("hash_murmur2", Binary::HashMurmur2),
    unary("int", Unary::Int),
    function("least", 1, MAX_ARGUMENTS, Function::Least),
    unary("ln", Unary::Ln),
    binary("mod", Binary::Modulo),
    Entry {
        name: "permute",
        arguments: (2, 3),
        seeded: true,
        function: Callee::Function(Function::Permute),
    },
    function("pi", 0, 0, Function::Pi),
    binary("pow", Binary::Power),
    binary("power", Binary::Power),
    binary("random", Binary::Random),
    function("random_exponential", 3, 3, Function::RandomExponential),
    function("random_gaussian", 3, 3, Function::RandomGaussian),
    function("random_zipfian", 3, 3, Function::RandomZipfian),
    unary("sqrt", Unary::Sqrt),
];

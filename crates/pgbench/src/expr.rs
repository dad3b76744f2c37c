//! Expressions of `\set`, `\if` and `\elif`.

mod eval;
mod lex;
mod parse;

pub use eval::{EvalError, Fault};
pub(crate) use lex::continuation;
pub(crate) use parse::parse;

use crate::value::Value;
use crate::variables::{Names, Slot};
use std::fmt;

/// Index of a node.
type Id = u32;

/// A parsed expression with its variables resolved.
///
/// The nodes lie in one array and name each other by index: nothing is looked up by name and
/// nothing is allocated when it is evaluated ([`Expr::eval`]).
#[derive(Debug, Clone)]
pub struct Expr {
    nodes: Vec<Node>,
    /// Arguments of all calls; a call's are consecutive.
    arguments: Vec<Id>,
    /// Offset in the script's source of each node.
    offsets: Vec<u32>,
    /// Of each node that is the first operand of another, that other.
    above: Vec<Id>,
    root: Id,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Node {
    Constant(Value),
    Variable(Slot),
    Unary(Unary, Id),
    Binary(Binary, Id, Id),
    /// Arguments from `first` on.
    Call {
        function: Function,
        first: u32,
        count: u32,
    },
}

/// Functions of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unary {
    Not,
    Abs,
    Debug,
    Double,
    Exp,
    Int,
    Ln,
    Sqrt,
}

/// Operators and functions of two arguments. `a > b` and `a >= b` are `b < a` and `b <= a`, and
/// evaluated in that order, as in pgbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binary {
    And,
    Or,
    Is,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    LessEqual,
    Less,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Power,
    Random,
    HashMurmur2,
    HashFnv1a,
}

/// Everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    /// Conditions and results in turn, then the result of `ELSE`.
    Case,
    Greatest,
    Least,
    Permute,
    Pi,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
}

impl Binary {
    /// How it is written: between its arguments, or as a function before them.
    fn spelling(self) -> (bool, &'static str) {
        match self {
            Self::And => (true, "AND"),
            Self::Or => (true, "OR"),
            Self::Is => (true, "IS"),
            Self::Add => (true, "+"),
            Self::Subtract => (true, "-"),
            Self::Multiply => (true, "*"),
            Self::Divide => (true, "/"),
            Self::Modulo => (true, "%"),
            Self::Equal => (true, "="),
            Self::NotEqual => (true, "<>"),
            Self::LessEqual => (true, "<="),
            Self::Less => (true, "<"),
            Self::BitAnd => (true, "&"),
            Self::BitOr => (true, "|"),
            Self::BitXor => (true, "#"),
            Self::ShiftLeft => (true, "<<"),
            Self::ShiftRight => (true, ">>"),
            Self::Power => (false, "power"),
            Self::Random => (false, "random"),
            Self::HashMurmur2 => (false, "hash_murmur2"),
            Self::HashFnv1a => (false, "hash_fnv1a"),
        }
    }
}

impl Unary {
    fn name(self) -> &'static str {
        match self {
            Self::Not => "NOT",
            Self::Abs => "abs",
            Self::Debug => "debug",
            Self::Double => "double",
            Self::Exp => "exp",
            Self::Int => "int",
            Self::Ln => "ln",
            Self::Sqrt => "sqrt",
        }
    }
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Self::Case => "CASE",
            Self::Greatest => "greatest",
            Self::Least => "least",
            Self::Permute => "permute",
            Self::Pi => "pi",
            Self::RandomExponential => "random_exponential",
            Self::RandomGaussian => "random_gaussian",
            Self::RandomZipfian => "random_zipfian",
        }
    }
}

impl Expr {
    fn node(&self, id: Id) -> Node {
        self.nodes[id as usize]
    }

    fn arguments(&self, first: u32, count: u32) -> &[Id] {
        &self.arguments[first as usize..][..count as usize]
    }

    /// The expression as text that parses to the same tree, with every operation in parentheses (unless these
    /// nest too deep for it).
    #[must_use]
    pub fn display<'a>(&'a self, names: &'a Names) -> impl fmt::Display + 'a {
        Printer {
            expr: self,
            names,
            id: self.root,
        }
    }

    fn same(&self, other: &Self) -> bool {
        // Without recursion: chains of operators may be long.
        let mut pairs = vec![(self.root, other.root)];
        while let Some((id, other_id)) = pairs.pop() {
            let alike = match (self.node(id), other.node(other_id)) {
                (Node::Unary(a, x), Node::Unary(b, y)) => {
                    pairs.push((x, y));
                    a == b
                }
                (Node::Binary(a, x1, x2), Node::Binary(b, y1, y2)) => {
                    pairs.extend([(x1, y1), (x2, y2)]);
                    a == b
                }
                (
                    Node::Call {
                        function,
                        first,
                        count,
                    },
                    Node::Call {
                        function: other_function,
                        first: other_first,
                        count: other_count,
                    },
                ) => {
                    pairs.extend(std::iter::zip(
                        self.arguments(first, count).iter().copied(),
                        other.arguments(other_first, other_count).iter().copied(),
                    ));
                    function == other_function && count == other_count
                }
                (a, b) => a == b,
            };
            if !alike {
                return false;
            }
        }
        true
    }
}

/// Equal trees, wherever they stood in their scripts.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

struct Printer<'a> {
    expr: &'a Expr,
    names: &'a Names,
    id: Id,
}

impl Printer<'_> {
    fn at(&self, id: Id) -> Self {
        Self { id, ..*self }
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, name: &str, ids: &[Id]) -> fmt::Result {
        write!(f, "{name}(")?;
        for (i, &id) in ids.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, self.at(id))?;
        }
        f.write_str(")")
    }
}

impl Printer<'_> {
    /// What begins an operation and leads to its first operand.
    fn begin(&self, f: &mut fmt::Formatter<'_>, id: Id) -> Result<Option<Id>, fmt::Error> {
        match self.expr.node(id) {
            Node::Unary(Unary::Not, x) => f.write_str("(NOT ").map(|()| Some(x)),
            Node::Unary(function, x) => write!(f, "{}(", function.name()).map(|()| Some(x)),
            // Only `~` makes this constant.
            Node::Binary(Binary::BitXor, x, _)
                if self.expr.node(x) == Node::Constant(Value::Int(-1)) =>
            {
                Ok(None)
            }
            Node::Binary(operation, x, _) => match operation.spelling() {
                (true, _) => f.write_str("(").map(|()| Some(x)),
                (false, name) => write!(f, "{name}(").map(|()| Some(x)),
            },
            _ => Ok(None),
        }
    }

    /// What has no first operand, or shows none.
    fn leaf(&self, f: &mut fmt::Formatter<'_>, id: Id) -> fmt::Result {
        match self.expr.node(id) {
            Node::Constant(Value::Null) => f.write_str("NULL"),
            Node::Constant(Value::Boolean(value)) => write!(f, "{value}"),
            Node::Constant(Value::Int(value)) => write!(f, "{value}"),
            Node::Constant(Value::Double(value)) => write!(f, "{value:?}"),
            Node::Variable(slot) => write!(f, ":{}", self.names.name(slot)),
            Node::Unary(_, x) | Node::Binary(_, _, x) => write!(f, "(~{})", self.at(x)),
            Node::Call {
                function: Function::Case,
                first,
                count,
            } => {
                f.write_str("CASE")?;
                let mut ids = self.expr.arguments(first, count).iter();
                while let Some(&id) = ids.next() {
                    match ids.next() {
                        Some(&then) => write!(f, " WHEN {} THEN {}", self.at(id), self.at(then))?,
                        None => write!(f, " ELSE {} END", self.at(id))?,
                    }
                }
                Ok(())
            }
            Node::Call {
                function,
                first,
                count,
            } => self.list(f, function.name(), self.expr.arguments(first, count)),
        }
    }
}

impl fmt::Display for Printer<'_> {
    /// Follows first operands in a loop, as evaluation does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut id = self.id;
        while let Some(first) = self.begin(f, id)? {
            id = first;
        }
        self.leaf(f, id)?;
        while id != self.id {
            id = self.expr.above[id as usize];
            match self.expr.node(id) {
                Node::Binary(operation, _, y) => match operation.spelling() {
                    (true, sign) => write!(f, " {sign} {})", self.at(y))?,
                    (false, _) => write!(f, ", {})", self.at(y))?,
                },
                _ => f.write_str(")")?,
            }
        }
        Ok(())
    }
}

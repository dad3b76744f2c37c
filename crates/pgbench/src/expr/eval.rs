//! Evaluation: pgbench's rules of types, NULLs, overflows and ranges.

use super::{Binary, Expr, Function, Id, Node, Unary};
use crate::hash;
use crate::random::{MIN_GAUSSIAN_PARAMETER, Random, ZIPFIAN_PARAMETERS};
use crate::value::{NotAValue, Value, ValueType};
use crate::variables::{Slot, Variables};

/// Why an expression has no value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// The variable has not been set.
    UndefinedVariable(Slot),
    /// The variable's text is empty.
    EmptyVariable(Slot),
    /// The variable's text is an integer beyond 64 bits.
    VariableOutOfRange(Slot),
    /// The variable's text is no value.
    MalformedVariable(Slot),
    /// A value of the first type where one of the second is needed.
    Coercion(ValueType, ValueType),
    /// The rounded double does not fit an integer.
    DoubleToInt(f64),
    /// Integer division or remainder by zero.
    DivisionByZero,
    /// The integer result of `add`, `sub`, `mul`, `div` or `abs` does not fit.
    IntOutOfRange(&'static str),
    /// `random(max, min)`.
    EmptyRange,
    /// A range of more than 2^63-1 numbers.
    RangeTooLarge,
    /// The parameter of `random_gaussian` is below 2.
    GaussianParameter(f64),
    /// The parameter of `random_zipfian` is outside 1.001 to 1000.
    ZipfianParameter(f64),
    /// The parameter of `random_exponential` is not positive.
    ExponentialParameter(f64),
    /// `permute` over nothing.
    PermuteSize,
}

/// A [`Fault`] and where it came up; [`Program::explain`](crate::Program::explain) makes it readable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvalError {
    /// What went wrong.
    pub fault: Fault,
    /// Offset in the script's source of the operator, function or variable, bytes.
    pub offset: u32,
}

impl Expr {
    /// The expression's value.
    ///
    /// `debug` receives every value that passes through the function `debug()`.
    ///
    /// # Errors
    /// Whatever makes pgbench abort the client: see [`Fault`].
    pub fn eval<R: Random + ?Sized>(
        &self,
        variables: &mut Variables,
        random: &mut R,
        debug: &mut dyn FnMut(Value),
    ) -> Result<Value, EvalError> {
        Machine {
            expr: self,
            variables,
            random,
            debug,
        }
        .value(self.root)
    }
}

struct Machine<'a, R: ?Sized> {
    expr: &'a Expr,
    variables: &'a mut Variables,
    random: &'a mut R,
    debug: &'a mut dyn FnMut(Value),
}

impl<R: Random + ?Sized> Machine<'_, R> {
    fn value(&mut self, id: Id) -> Result<Value, EvalError> {
        // Chains of operators lean to the left: down to their first operand, and up again in a loop. Only
        // second operands and arguments take stack.
        let mut at = id;
        let mut value = loop {
            match self.expr.node(at) {
                Node::Unary(_, x) | Node::Binary(_, x, _) => at = x,
                Node::Constant(value) => break value,
                Node::Variable(slot) => {
                    break self.variable(slot).map_err(|fault| self.at(at, fault))?;
                }
                Node::Call {
                    function: Function::Case,
                    first,
                    count,
                } => break self.case(first, count)?,
                Node::Call {
                    function,
                    first,
                    count,
                } => break self.function(at, function, first, count)?,
            }
        };
        while at != id {
            at = self.expr.above[at as usize];
            let result = match self.expr.node(at) {
                Node::Unary(function, _) => self.unary(function, value),
                Node::Binary(operation @ (Binary::And | Binary::Or), _, y) => {
                    value = self.lazy(at, value, y, operation == Binary::Or)?;
                    continue;
                }
                Node::Binary(operation, _, y) => {
                    let y = self.value(y)?;
                    self.binary(operation, value, y)
                }
                // Nothing else has a first operand.
                Node::Constant(_) | Node::Variable(_) | Node::Call { .. } => Ok(value),
            };
            value = result.map_err(|fault| self.at(at, fault))?;
        }
        Ok(value)
    }

    /// Calls a function of any number of arguments; apart, for the sake of the stack.
    #[inline(never)]
    fn function(
        &mut self,
        id: Id,
        function: Function,
        first: u32,
        count: u32,
    ) -> Result<Value, EvalError> {
        let mut values = [Value::Null; super::parse::MAX_ARGUMENTS];
        let values = &mut values[..count as usize];
        for (value, &argument) in values.iter_mut().zip(self.expr.arguments(first, count)) {
            *value = self.value(argument)?;
        }
        self.call(function, values)
            .map_err(|fault| self.at(id, fault))
    }

    #[cold]
    fn at(&self, id: Id, fault: Fault) -> EvalError {
        EvalError {
            fault,
            offset: self.expr.offsets[id as usize],
        }
    }

    fn variable(&mut self, slot: Slot) -> Result<Value, Fault> {
        match self.variables.value(slot) {
            Ok(value) => value.ok_or(Fault::UndefinedVariable(slot)),
            Err(NotAValue::Empty) => Err(Fault::EmptyVariable(slot)),
            Err(NotAValue::IntOutOfRange) => Err(Fault::VariableOutOfRange(slot)),
            Err(NotAValue::Malformed) => Err(Fault::MalformedVariable(slot)),
        }
    }

    /// `AND` and `OR`: the second argument counts only if the first is not `decisive`. Unlike in
    /// SQL, a NULL first argument decides, too.
    fn lazy(&mut self, id: Id, x: Value, y: Id, decisive: bool) -> Result<Value, EvalError> {
        let mut value = x;
        for is_first in [true, false] {
            if value == Value::Null {
                return Ok(Value::Null);
            }
            let truth = boolean(value).map_err(|fault| self.at(id, fault))?;
            if truth == decisive {
                return Ok(Value::Boolean(decisive));
            }
            if is_first {
                value = self.value(y)?;
            }
        }
        Ok(Value::Boolean(!decisive))
    }

    fn case(&mut self, first: u32, count: u32) -> Result<Value, EvalError> {
        let arguments = self.expr.arguments(first, count);
        let (pairs, otherwise) = arguments.as_chunks::<2>();
        for &[condition, result] in pairs {
            if self.value(condition)?.is_true() {
                return self.value(result);
            }
        }
        otherwise
            .first()
            .map_or(Ok(Value::Null), |&id| self.value(id))
    }

    fn unary(&mut self, function: Unary, x: Value) -> Result<Value, Fault> {
        if function == Unary::Debug {
            (self.debug)(x);
            return Ok(x);
        }
        if x == Value::Null {
            return Ok(Value::Null);
        }
        Ok(match (function, x) {
            (Unary::Debug, x) => x,
            (Unary::Not, x) => Value::Boolean(!boolean(x)?),
            (Unary::Int, x) => Value::Int(int(x)?),
            (Unary::Abs, Value::Int(x)) => {
                Value::Int(x.checked_abs().ok_or(Fault::IntOutOfRange("abs"))?)
            }
            // Not `f64::abs`: that of -0 is 0, that of pgbench is -0.
            (Unary::Abs, x) => match double(x)? {
                x if x < 0.0 => Value::Double(-x),
                x => Value::Double(x),
            },
            (Unary::Double, x) => Value::Double(double(x)?),
            (Unary::Exp, x) => Value::Double(double(x)?.exp()),
            (Unary::Ln, x) => Value::Double(double(x)?.ln()),
            (Unary::Sqrt, x) => Value::Double(double(x)?.sqrt()),
        })
    }

    #[inline]
    fn binary(&mut self, operation: Binary, x: Value, y: Value) -> Result<Value, Fault> {
        if let (Value::Int(min), Value::Int(max)) = (x, y) {
            match operation {
                Binary::Random => return self.uniform(min, max),
                Binary::Is | Binary::Power => {}
                _ => return ints(operation, min, max),
            }
        }
        self.mixed(operation, x, y)
    }

    fn uniform(&mut self, min: i64, max: i64) -> Result<Value, Fault> {
        check_range(min, max)?;
        Ok(Value::Int(self.random.uniform(min, max)))
    }

    fn mixed(&mut self, operation: Binary, x: Value, y: Value) -> Result<Value, Fault> {
        if operation == Binary::Is {
            return Ok(Value::Boolean(x == y));
        }
        if x == Value::Null || y == Value::Null {
            return Ok(Value::Null);
        }
        let has_double = matches!(x, Value::Double(_)) || matches!(y, Value::Double(_));
        match operation {
            Binary::Power => Ok(Value::Double(double(x)?.powf(double(y)?))),
            Binary::Add
            | Binary::Subtract
            | Binary::Multiply
            | Binary::Divide
            | Binary::Equal
            | Binary::NotEqual
            | Binary::LessEqual
            | Binary::Less
                if has_double =>
            {
                Ok(doubles(operation, double(x)?, double(y)?))
            }
            Binary::Random => self.uniform(int(x)?, int(y)?),
            _ => ints(operation, int(x)?, int(y)?),
        }
    }

    fn call(&mut self, function: Function, values: &[Value]) -> Result<Value, Fault> {
        if values.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        Ok(match (function, values) {
            (Function::Greatest, values) => extremum(values, |a, b| a > b, |a, b| a > b)?,
            (Function::Least, values) => extremum(values, |a, b| a < b, |a, b| a < b)?,
            (Function::Pi, _) => Value::Double(std::f64::consts::PI),
            (Function::Permute, &[value, size, seed]) => {
                let (value, size, seed) = (int(value)?, int(size)?, int(seed)?);
                if size <= 0 {
                    return Err(Fault::PermuteSize);
                }
                Value::Int(hash::permute(value, size, seed))
            }
            (_, &[min, max, parameter]) => {
                let (min, max) = (int(min)?, int(max)?);
                check_range(min, max)?;
                let parameter = double(parameter)?;
                Value::Int(self.skewed(function, min, max, parameter)?)
            }
            // The parser has counted the arguments.
            _ => Value::Null,
        })
    }

    fn skewed(
        &mut self,
        function: Function,
        min: i64,
        max: i64,
        parameter: f64,
    ) -> Result<i64, Fault> {
        match function {
            Function::RandomGaussian if parameter < MIN_GAUSSIAN_PARAMETER => {
                Err(Fault::GaussianParameter(parameter))
            }
            Function::RandomGaussian => Ok(self.random.gaussian(min, max, parameter)),
            Function::RandomZipfian if !ZIPFIAN_PARAMETERS.contains(&parameter) => {
                Err(Fault::ZipfianParameter(parameter))
            }
            Function::RandomZipfian => Ok(self.random.zipfian(min, max, parameter)),
            _ if parameter <= 0.0 => Err(Fault::ExponentialParameter(parameter)),
            _ => Ok(self.random.exponential(min, max, parameter)),
        }
    }
}

fn boolean(value: Value) -> Result<bool, Fault> {
    match value {
        Value::Boolean(value) => Ok(value),
        other => Err(Fault::Coercion(other.value_type(), ValueType::Boolean)),
    }
}

fn int(value: Value) -> Result<i64, Fault> {
    /// 2^63
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Int(value) => Ok(value),
        Value::Double(value) => {
            let rounded = value.round_ties_even();
            if !(-LIMIT..LIMIT).contains(&rounded) {
                return Err(Fault::DoubleToInt(rounded));
            }
            #[expect(clippy::cast_possible_truncation, reason = "just checked")]
            Ok(rounded as i64)
        }
        other => Err(Fault::Coercion(other.value_type(), ValueType::Int)),
    }
}

fn double(value: Value) -> Result<f64, Fault> {
    match value {
        Value::Double(value) => Ok(value),
        Value::Int(value) => Ok(value as f64),
        other => Err(Fault::Coercion(other.value_type(), ValueType::Double)),
    }
}

/// What the range of a random function must be.
fn check_range(min: i64, max: i64) -> Result<(), Fault> {
    if min > max {
        return Err(Fault::EmptyRange);
    }
    let numbers = max.checked_sub(min).and_then(|more| more.checked_add(1));
    numbers.map(|_| ()).ok_or(Fault::RangeTooLarge)
}

#[expect(clippy::float_cmp, reason = "the script asks for it")]
fn doubles(operation: Binary, x: f64, y: f64) -> Value {
    match operation {
        Binary::Add => Value::Double(x + y),
        Binary::Subtract => Value::Double(x - y),
        Binary::Multiply => Value::Double(x * y),
        Binary::Divide => Value::Double(x / y),
        Binary::Equal => Value::Boolean(x == y),
        Binary::NotEqual => Value::Boolean(x != y),
        Binary::LessEqual => Value::Boolean(x <= y),
        _ => Value::Boolean(x < y),
    }
}

fn ints(operation: Binary, x: i64, y: i64) -> Result<Value, Fault> {
    let checked = |result: Option<i64>, name| result.ok_or(Fault::IntOutOfRange(name));
    // Shifts by 64 and more or by less than 0 use the low six bits, as processors do.
    #[expect(clippy::cast_sign_loss, reason = "masked")]
    let shift = (y & 63) as u32;
    Ok(Value::Int(match operation {
        Binary::Add => checked(x.checked_add(y), "add")?,
        Binary::Subtract => checked(x.checked_sub(y), "sub")?,
        Binary::Multiply => checked(x.checked_mul(y), "mul")?,
        Binary::Divide | Binary::Modulo if y == 0 => return Err(Fault::DivisionByZero),
        Binary::Divide => checked(x.checked_div(y), "div")?,
        Binary::Modulo => x.wrapping_rem(y),
        Binary::BitAnd => x & y,
        Binary::BitOr => x | y,
        Binary::BitXor => x ^ y,
        Binary::ShiftLeft => x << shift,
        Binary::ShiftRight => x >> shift,
        Binary::HashMurmur2 => hash::murmur2(x, y),
        Binary::HashFnv1a => hash::fnv1a(x, y),
        Binary::Equal => return Ok(Value::Boolean(x == y)),
        Binary::NotEqual => return Ok(Value::Boolean(x != y)),
        Binary::LessEqual => return Ok(Value::Boolean(x <= y)),
        _ => return Ok(Value::Boolean(x < y)),
    }))
}

/// `least` or `greatest`: a double if any value is one. A value takes the lead unless the one in
/// the lead `beats` it, which decides about NaN as pgbench does.
fn extremum(
    values: &[Value],
    beats: impl Fn(f64, f64) -> bool,
    beats_int: impl Fn(i64, i64) -> bool,
) -> Result<Value, Fault> {
    if values.iter().any(|value| matches!(value, Value::Double(_))) {
        let mut lead = double(values[0])?;
        for &value in &values[1..] {
            let value = double(value)?;
            lead = if beats(lead, value) { lead } else { value };
        }
        return Ok(Value::Double(lead));
    }
    let mut lead = int(values[0])?;
    for &value in &values[1..] {
        let value = int(value)?;
        lead = if beats_int(lead, value) { lead } else { value };
    }
    Ok(Value::Int(lead))
}

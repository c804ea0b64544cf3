//! Expressions of run lines, and their values.
//!
//! The parser has resolved every name and checked every type, so that evaluation can only fail for a reason
//! that depends on the values: an index outside of a buffer, a division by zero, a loop that does not end.

use super::types::{Op, Relation, Type};
use super::{Arg, Contents};

/// An expression with what is known of its type.
#[derive(Debug)]
pub(super) struct Node {
    pub shape: Shape,
    pub kind: Kind,
}

/// What type an expression has, or can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Computed in the type that its surroundings ask for, whatever that is: a random number.
    Any,
    /// Computed as `Type::S64`, then made what its surroundings ask for: an integer literal, an index, and
    /// what is made of these alone.
    Integer,
    /// Computed in the float type that its surroundings ask for: a literal with a point.
    Decimal,
    Is(Type),
}

impl Shape {
    /// The one shape of both sides of an operator; `None` where there is none.
    pub fn unite(self, other: Shape) -> Option<Shape> {
        match (self, other) {
            (a, b) if a == b => Some(a),
            (Shape::Any, known) | (known, Shape::Any) if known == Shape::Integer => Some(Shape::Any),
            (Shape::Any | Shape::Integer, known) | (known, Shape::Any | Shape::Integer) => Some(known),
            (Shape::Decimal, Shape::Is(ty)) | (Shape::Is(ty), Shape::Decimal) if ty.is_float() => {
                Some(Shape::Is(ty))
            }
            _ => None,
        }
    }

    pub fn fits(self, ty: Type) -> bool {
        self.unite(Shape::Is(ty)) == Some(Shape::Is(ty))
    }

    /// The type to compute in where an integer is asked for; `None` where it is none.
    pub fn as_integer(self) -> Option<Type> {
        match self {
            Shape::Integer => Some(Type::S64),
            Shape::Is(ty) if !ty.is_float() => Some(ty),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    Integer(i128),
    /// A decimal literal, rounded once to each width.
    Decimal {
        f32: u64,
        f64: u64,
    },
    /// Bits of the type that the shape names.
    Bits(u64),
    /// A variable, counted from the outermost one.
    Local(usize),
    Scalar(usize),
    Element {
        arg: usize,
        index: Box<Operand>,
    },
    Negate(Box<Node>),
    Complement(Box<Node>),
    Binary(Op, Box<[Node; 2]>),
    /// The count of a shift need not be of the shifted value's type.
    Shift(Op, Box<(Node, Operand)>),
    /// 1 or 0.
    Compare(Relation, Type, Box<[Node; 2]>),
    Convert(Box<Operand>),
    Fma(Box<[Node; 3]>),
    If(Box<(Operand, Node, Node)>),
    /// The `i`-th random number of a seed, between bounds where they are given.
    Random {
        seed: Box<Operand>,
        bounds: Option<Box<[Operand; 2]>>,
    },
    /// `body` added up over a variable from `low` up to but not including `high`.
    Sum {
        bounds: Box<[Operand; 2]>,
        body: Box<Node>,
    },
    /// How many times `next` replaces the variable, `init` at first, while `condition` is not 0.
    Count {
        init: Box<Operand>,
        condition: Box<Operand>,
        next: Box<Node>,
    },
}

/// An expression that is computed in a type of its own, whatever type its surroundings have.
#[derive(Debug)]
pub(super) struct Operand {
    pub node: Node,
    pub ty: Type,
}

/// Evaluation steps for one buffer, so that none can take for ever.
const STEP_LIMIT: u64 = 1 << 26;

/// Evaluates expressions over the arguments of a run line.
pub(super) struct Evaluator<'a> {
    args: &'a [Arg],
    locals: Vec<u64>,
    steps: u64,
}

impl<'a> Evaluator<'a> {
    pub fn new(args: &'a [Arg]) -> Self {
        Evaluator { args, locals: Vec::new(), steps: 0 }
    }

    /// The value of `node` in type `ty`, for element `index` of a buffer.
    pub fn element(&mut self, node: &Node, ty: Type, index: usize) -> Result<u64, String> {
        self.locals.clear();
        self.locals.push(index as u64);
        self.eval(node, ty)
    }

    fn operand(&mut self, operand: &Operand) -> Result<u64, String> {
        self.eval(&operand.node, operand.ty)
    }

    fn integer(&mut self, operand: &Operand) -> Result<i128, String> {
        self.operand(operand).map(|value| operand.ty.to_integer(value))
    }

    fn eval(&mut self, node: &Node, ty: Type) -> Result<u64, String> {
        self.steps += 1;
        if self.steps > STEP_LIMIT {
            return Err("the values take too many steps to compute; is there a loop without an end?".into());
        }
        if node.shape == Shape::Integer && ty != Type::S64 && !matches!(node.kind, Kind::Integer(_)) {
            return Ok(ty.of_integer(Type::S64.to_integer(self.eval(node, Type::S64)?)));
        }
        Ok(match &node.kind {
            Kind::Integer(value) => ty.of_integer(*value),
            Kind::Decimal { f32, f64 } => {
                if ty.size() == 4 {
                    *f32
                } else {
                    *f64
                }
            }
            Kind::Bits(bits) => *bits,
            Kind::Local(number) => self.locals.get(*number).copied().unwrap_or(0),
            Kind::Scalar(arg) => self.scalar(*arg),
            Kind::Element { arg, index } => {
                let index = self.integer(index)?;
                self.load(*arg, index)?
            }
            Kind::Negate(a) => ty.negate(self.eval(a, ty)?),
            Kind::Complement(a) => ty.complement(self.eval(a, ty)?),
            Kind::Binary(op, sides) => {
                let [a, b] = [self.eval(&sides[0], ty)?, self.eval(&sides[1], ty)?];
                ty.binary(*op, a, b).ok_or("a division by zero")?
            }
            Kind::Shift(op, sides) => {
                let (a, count) = (self.eval(&sides.0, ty)?, self.integer(&sides.1)?);
                let count = u64::try_from(count).map_err(|_| "a shift by a negative count")?;
                // A count that the type can't hold shifts everything out, as the width does.
                ty.binary(*op, a, count.min(8 * ty.size() as u64)).unwrap_or(0)
            }
            Kind::Compare(relation, operands, sides) => {
                let [a, b] = [self.eval(&sides[0], *operands)?, self.eval(&sides[1], *operands)?];
                ty.of_integer(operands.holds(*relation, a, b).into())
            }
            Kind::Convert(operand) => operand.ty.convert(self.operand(operand)?, ty),
            Kind::Fma(sides) => {
                let [a, b, c] = [&sides[0], &sides[1], &sides[2]].map(|side| self.eval(side, ty));
                ty.fma(a?, b?, c?)
            }
            Kind::If(parts) => {
                let chosen = if self.operand(&parts.0)? != 0 { &parts.1 } else { &parts.2 };
                self.eval(chosen, ty)?
            }
            Kind::Random { seed, bounds } => self.random(seed, bounds.as_deref(), ty)?,
            Kind::Sum { bounds, body } => self.sum(bounds, body, ty)?,
            Kind::Count { init, condition, next } => ty.of_integer(self.count(init, condition, next)?),
        })
    }

    fn scalar(&self, arg: usize) -> u64 {
        match self.args.get(arg).map(|arg| &arg.contents) {
            Some(Contents::Scalar(value)) => *value,
            _ => 0,
        }
    }

    fn load(&self, arg: usize, index: i128) -> Result<u64, String> {
        let Some(Arg { name, ty, contents: Contents::Buffer { before, .. }, .. }) = self.args.get(arg) else {
            return Err("an element of something that is no buffer".into());
        };
        let element = usize::try_from(index).ok().and_then(|index| before.chunks_exact(ty.size()).nth(index));
        let element = element.ok_or_else(|| {
            format!("{name}[{index}] is outside of the buffer's {} elements", before.len() / ty.size())
        })?;
        Ok(ty.load(element))
    }

    fn random(&mut self, seed: &Operand, bounds: Option<&[Operand; 2]>, ty: Type) -> Result<u64, String> {
        let index = self.locals.first().copied().unwrap_or(0);
        let seed = self.operand(seed)?;
        let Some([low, high]) = bounds else { return Ok(ty.random(seed, index)) };
        let (low, high) = (self.integer(low)?, self.integer(high)?);
        let value = ty.random_between(seed, index, low, high);
        value.ok_or_else(|| format!("there is no number from {low} up to but not including {high}"))
    }

    fn sum(&mut self, bounds: &[Operand; 2], body: &Node, ty: Type) -> Result<u64, String> {
        let (low, high) = (self.integer(&bounds[0])?, self.integer(&bounds[1])?);
        let variable = self.locals.len();
        self.locals.push(0);
        let mut total = ty.of_integer(0);
        for at in low..high {
            self.locals[variable] = Type::S64.of_integer(at);
            let term = self.eval(body, ty)?;
            total = ty.binary(Op::Add, total, term).unwrap_or(total);
        }
        self.locals.truncate(variable);
        Ok(total)
    }

    fn count(&mut self, init: &Operand, condition: &Operand, next: &Node) -> Result<i128, String> {
        let variable = self.locals.len();
        let first = self.operand(init)?;
        self.locals.push(first);
        let mut steps = 0;
        while self.operand(condition)? != 0 {
            self.locals[variable] = self.eval(next, init.ty)?;
            steps += 1;
        }
        self.locals.truncate(variable);
        Ok(steps)
    }
}

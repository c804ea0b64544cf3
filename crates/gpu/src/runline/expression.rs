//! Expressions: text to checked nodes.
//!
//! ```text
//! expr    = unary (OPERATOR unary)*
//! unary   = ("-" | "~")* primary
//! primary = NUMBER | NAME | NAME "[" expr "]" | NAME "(" expr ("," expr)* ")" | "(" expr ")"
//! ```

use super::eval::{Kind, Node, Operand, Shape};
use super::parse::Reader;
use super::token::Token;
use super::types::{Op, Relation, Type};
use super::{Arg, Contents};

/// Operands, signs and parentheses of one expression: bounds how deep it nests.
const MAX_OPERANDS: usize = 500;

#[derive(Clone, Copy)]
enum Operator {
    Arithmetic(Op),
    Shift(Op),
    Compare(Relation),
}

/// Operators from weak to strong. Within a level they group to the left. The levels are Rust's, so that
/// `a & 1 == 0` compares the masked value.
const OPERATORS: [(u8, &str, Operator); 16] = [
    (0, "==", Operator::Compare(Relation::Eq)),
    (0, "!=", Operator::Compare(Relation::Ne)),
    (0, "<", Operator::Compare(Relation::Lt)),
    (0, "<=", Operator::Compare(Relation::Le)),
    (0, ">", Operator::Compare(Relation::Gt)),
    (0, ">=", Operator::Compare(Relation::Ge)),
    (1, "|", Operator::Arithmetic(Op::Or)),
    (2, "^", Operator::Arithmetic(Op::Xor)),
    (3, "&", Operator::Arithmetic(Op::And)),
    (4, "<<", Operator::Shift(Op::Shl)),
    (4, ">>", Operator::Shift(Op::Shr)),
    (5, "+", Operator::Arithmetic(Op::Add)),
    (5, "-", Operator::Arithmetic(Op::Sub)),
    (6, "*", Operator::Arithmetic(Op::Mul)),
    (6, "/", Operator::Arithmetic(Op::Div)),
    (6, "%", Operator::Arithmetic(Op::Rem)),
];

impl<'a> Reader<'a> {
    /// An expression whose value is used in type `ty`.
    pub fn expression_of(&mut self, ty: Type) -> Result<Node, String> {
        self.operands = 0;
        let node = self.expression()?;
        if node.shape.fits(ty) {
            return Ok(node);
        }
        Err(format!("this is {}, not {}; convert it, as in {}(…)", node.shape.name(), ty.name(), ty.name()))
    }

    /// An integer expression of its own type.
    pub fn integer_operand(&mut self) -> Result<Operand, String> {
        self.operands = 0;
        self.integer()
    }

    fn integer(&mut self) -> Result<Operand, String> {
        let node = self.expression()?;
        let ty = node.shape.as_integer();
        let ty = ty.ok_or_else(|| format!("this is {}, not an integer", node.shape.name()))?;
        Ok(Operand { node, ty })
    }

    fn expression(&mut self) -> Result<Node, String> {
        self.operators(0)
    }

    /// Operators of `level` and stronger ones.
    fn operators(&mut self, level: u8) -> Result<Node, String> {
        let mut left = self.unary()?;
        while let Some((strength, operator)) = self.operator(level) {
            self.next();
            let right = self.operators(strength + 1)?;
            left = apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn operator(&self, level: u8) -> Option<(u8, Operator)> {
        let Some(Token::Mark(mark)) = self.peek() else { return None };
        let row = OPERATORS.iter().find(|(strength, name, _)| *name == mark && *strength >= level);
        row.map(|&(strength, _, operator)| (strength, operator))
    }

    fn unary(&mut self) -> Result<Node, String> {
        self.operands += 1;
        if self.operands > MAX_OPERANDS {
            return Err("the expression is too long".into());
        }
        if self.takes(Token::Mark("-")) {
            let node = self.unary()?;
            return Ok(Node { shape: node.shape, kind: Kind::Negate(Box::new(node)) });
        }
        if self.takes(Token::Mark("~")) {
            let node = self.unary()?;
            integers_only(node.shape)?;
            return Ok(Node { shape: node.shape, kind: Kind::Complement(Box::new(node)) });
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Node, String> {
        let unexpected = self.wanted("a value");
        match self.next() {
            Some(Token::Integer(value)) => Ok(integer_literal(value.into())),
            Some(Token::Decimal(text)) => decimal(text),
            Some(Token::F32Bits(bits)) => {
                Ok(Node { shape: Shape::Is(Type::F32), kind: Kind::Bits(bits.into()) })
            }
            Some(Token::F64Bits(bits)) => Ok(Node { shape: Shape::Is(Type::F64), kind: Kind::Bits(bits) }),
            Some(Token::Name(name)) => self.named(name),
            Some(Token::Mark("(")) => {
                let node = self.expression()?;
                self.mark(")")?;
                Ok(node)
            }
            _ => Err(unexpected),
        }
    }

    fn named(&mut self, name: &'a str) -> Result<Node, String> {
        if self.takes(Token::Mark("(")) {
            let node = self.call(name)?;
            self.mark(")")?;
            return Ok(node);
        }
        if let Some(number) = self.locals.iter().rposition(|(local, _)| *local == name) {
            let shape = self.locals.get(number).map_or(Shape::Integer, |&(_, shape)| shape);
            return Ok(Node { shape, kind: Kind::Local(number) });
        }
        if let Some(number) = self.args.iter().position(|arg| arg.name == name) {
            return self.argument(number);
        }
        match self.launch.iter().find(|(known, _)| *known == name) {
            Some(&(_, size)) => Ok(integer_literal(size.into())),
            None => Err(format!("there is no `{name}` here")),
        }
    }

    fn argument(&mut self, number: usize) -> Result<Node, String> {
        let Some(Arg { name, ty, contents, .. }) = self.args.get(number) else {
            return Err("no such argument".into());
        };
        let shape = Shape::Is(*ty);
        if matches!(contents, Contents::Scalar(_)) {
            return Ok(Node { shape, kind: Kind::Scalar(number) });
        }
        if matches!(contents, Contents::Map(_) | Contents::Image(_)) {
            return Err(format!("`{name}` is a map, which has no value"));
        }
        let missing = format!("`{name}` is a buffer: name an element, as in {name}[i]");
        if !self.takes(Token::Mark("[")) {
            return Err(missing);
        }
        let index = Box::new(self.integer()?);
        self.mark("]")?;
        Ok(Node { shape, kind: Kind::Element { arg: number, index } })
    }

    /// A function and its arguments, up to the closing parenthesis.
    fn call(&mut self, name: &str) -> Result<Node, String> {
        if let Some(ty) = Type::named(name) {
            return Ok(convert(self.expression()?, ty));
        }
        match name {
            "min" | "max" => {
                let [a, b] = [self.expression()?, self.after_comma()?];
                let op = if name == "min" { Op::Min } else { Op::Max };
                apply(Operator::Arithmetic(op), a, b)
            }
            "fma" => {
                let sides = [self.expression()?, self.after_comma()?, self.after_comma()?];
                let shape = unite(unite(sides[0].shape, sides[1].shape)?, sides[2].shape)?;
                Ok(Node { shape, kind: Kind::Fma(Box::new(sides)) })
            }
            "if" => {
                let condition = self.integer()?;
                let [then, otherwise] = [self.after_comma()?, self.after_comma()?];
                let shape = unite(then.shape, otherwise.shape)?;
                Ok(Node { shape, kind: Kind::If(Box::new((condition, then, otherwise))) })
            }
            "random" => self.random(),
            "sum" => self.sum(),
            "count" => self.count_steps(),
            _ => Err(format!("there is no function `{name}`")),
        }
    }

    fn after_comma(&mut self) -> Result<Node, String> {
        self.mark(",")?;
        self.expression()
    }

    fn integer_after_comma(&mut self) -> Result<Operand, String> {
        self.mark(",")?;
        self.integer()
    }

    fn random(&mut self) -> Result<Node, String> {
        let seed = Box::new(self.integer()?);
        let bounds = match self.peek() {
            Some(Token::Mark(",")) => {
                Some(Box::new([self.integer_after_comma()?, self.integer_after_comma()?]))
            }
            _ => None,
        };
        Ok(Node { shape: Shape::Any, kind: Kind::Random { seed, bounds } })
    }

    fn sum(&mut self) -> Result<Node, String> {
        let variable = self.name("a variable")?;
        let bounds = Box::new([self.integer_after_comma()?, self.integer_after_comma()?]);
        self.locals.push((variable, Shape::Integer));
        let body = Box::new(self.after_comma()?);
        self.locals.pop();
        Ok(Node { shape: body.shape, kind: Kind::Sum { bounds, body } })
    }

    fn count_steps(&mut self) -> Result<Node, String> {
        let variable = self.name("a variable")?;
        let init = self.after_comma()?;
        let Shape::Is(ty) = init.shape else {
            return Err(format!("`{variable}` has no type; give it one, as in u32(27)"));
        };
        self.locals.push((variable, Shape::Is(ty)));
        let condition = Box::new(self.integer_after_comma()?);
        let next = Box::new(self.after_comma()?);
        self.locals.pop();
        unite(next.shape, Shape::Is(ty))?;
        let init = Box::new(Operand { node: init, ty });
        Ok(Node { shape: Shape::Integer, kind: Kind::Count { init, condition, next } })
    }
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Any => "a number without a type",
            Shape::Integer => "an integer",
            Shape::Decimal => "a decimal number",
            Shape::Is(ty) => ty.name(),
        }
    }

    /// The type to compute in where nothing around asks for one.
    fn own_type(self) -> Type {
        match self {
            Shape::Integer => Type::S64,
            Shape::Any | Shape::Decimal => Type::F64,
            Shape::Is(ty) => ty,
        }
    }
}

fn unite(a: Shape, b: Shape) -> Result<Shape, String> {
    let united = a.unite(b);
    united.ok_or_else(|| format!("{} and {} do not go together; convert one", a.name(), b.name()))
}

fn integers_only(shape: Shape) -> Result<(), String> {
    let problem = || format!("bits and remainders are of integers, but this is {}", shape.name());
    shape.as_integer().map(|_| ()).ok_or_else(problem)
}

fn apply(operator: Operator, left: Node, right: Node) -> Result<Node, String> {
    match operator {
        Operator::Arithmetic(op) => {
            let shape = unite(left.shape, right.shape)?;
            if !op.takes_floats() {
                integers_only(shape)?;
            }
            Ok(Node { shape, kind: Kind::Binary(op, Box::new([left, right])) })
        }
        Operator::Shift(op) => {
            integers_only(left.shape)?;
            let ty = right.shape.as_integer().ok_or("a shift's count is an integer")?;
            let shape = left.shape;
            Ok(Node { shape, kind: Kind::Shift(op, Box::new((left, Operand { node: right, ty }))) })
        }
        Operator::Compare(relation) => {
            let ty = unite(left.shape, right.shape)?.own_type();
            Ok(Node { shape: Shape::Integer, kind: Kind::Compare(relation, ty, Box::new([left, right])) })
        }
    }
}

fn integer_literal(value: i128) -> Node {
    Node { shape: Shape::Integer, kind: Kind::Integer(value) }
}

/// Rounded from the text once for each width: going through `f64` could round an `f32` twice.
fn decimal(text: &str) -> Result<Node, String> {
    let bad = |_| format!("`{text}` is no number");
    let (f32, f64) = (text.parse::<f32>().map_err(bad)?, text.parse::<f64>().map_err(bad)?);
    let kind = Kind::Decimal { f32: f32.to_bits().into(), f64: f64.to_bits() };
    Ok(Node { shape: Shape::Decimal, kind })
}

fn convert(node: Node, to: Type) -> Node {
    let ty = match node.shape {
        Shape::Any => to,
        Shape::Decimal if to.is_float() => to,
        shape => shape.own_type(),
    };
    Node { shape: Shape::Is(to), kind: Kind::Convert(Box::new(Operand { node, ty })) }
}

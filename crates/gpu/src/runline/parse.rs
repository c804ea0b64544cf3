//! Run and expect lines to data.
//!
//! ```text
//! run    = NAME "grid" "=" dims "block" "=" dims ["shared" "=" INTEGER] ["memory" ":" arg*] ["args" ":" arg*]
//! dims   = "(" INTEGER ["," INTEGER ["," INTEGER]] ")"
//! arg    = NAME ":" TYPE "=" expr  |  NAME ":" TYPE "[" expr "]" "=" fill  |  NAME ":" "map" "(" map ")"
//!        | NAME ":" "image" "(" image ")"  |  NAME ":" "multicast" "(" NAME ")"
//! image  = NAME "," NAME "," sizes {"," NAME | "," "levels" "=" INTEGER}
//! map    = NAME "," NAME "," sizes "," "box" "=" sizes ["," "strides" "=" sizes] ["," "steps" "=" sizes]
//!          ["," "swizzle" "=" INTEGER] ["," "interleave" "=" INTEGER] ["," "fill" "=" "nan"]
//! sizes  = "(" INTEGER ("," INTEGER)* ")"
//! fill   = expr | list
//! list   = "[" [expr ("," expr)*] "]"
//! expect = NAME "[" "i" "]" "=" expr  |  NAME "=" list
//! ```

use super::eval::{Evaluator, Node, Shape};
use super::token::{Token, tokens};
use super::{Arg, Contents, Image, Run, Tensor, Type};

/// Elements of a buffer: run lines check compilers, they don't measure memory.
const MAX_ELEMENTS: usize = 1 << 20;

const MAX_AXES: usize = 5;

/// What a channel of a texel can be.
const CHANNELS: [&str; 8] = ["u8", "u16", "u32", "s8", "s16", "s32", "f16", "f32"];
/// What can be beyond an image's edges.
const BEYOND: [&str; 4] = ["wrap", "clamp", "mirror", "border"];
/// What a tensor can be made of, and the bytes of each.
const ELEMENTS: [(&str, u32); 11] = [
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("s32", 4),
    ("u64", 8),
    ("s64", 8),
    ("f16", 2),
    ("f32", 4),
    ("f64", 8),
    ("bf16", 2),
    ("tf32", 4),
];

/// A run line after its first word.
pub(super) fn run(line: usize, text: &str) -> Result<Run, String> {
    let tokens = tokens(text)?;
    let mut reader = Reader::new(&tokens, Vec::new());
    let kernel = reader.name("the kernel's name")?.to_string();
    let grid = reader.dimensions("grid")?;
    let block = reader.dimensions("block")?;
    let shared = if reader.takes_setting("shared")? { reader.u32()? } else { 0 };
    reader.launch = [("nctaid", grid[0]), ("ntid", block[0])];
    if reader.takes(Token::Name("memory")) {
        reader.mark(":")?;
        while !reader.is_at_end() && reader.peek() != Some(Token::Name("args")) {
            let arg = Arg { passed: false, ..reader.arg()? };
            if !matches!(arg.contents, Contents::Buffer { .. }) {
                return Err(format!("`{}` is no buffer", arg.name));
            }
            reader.args.push(arg);
        }
    }
    if reader.takes(Token::Name("args")) {
        reader.mark(":")?;
        while !reader.is_at_end() {
            let arg = reader.arg()?;
            reader.args.push(arg);
        }
    }
    reader.end()?;
    Ok(Run { line, kernel, grid, block, shared, args: reader.args })
}

/// An expect line after its first word: what a buffer of `run` must hold afterwards.
pub(super) fn expect(run: &mut Run, text: &str) -> Result<(), String> {
    let tokens = tokens(text)?;
    let mut reader = Reader::new(&tokens, std::mem::take(&mut run.args));
    reader.launch = [("nctaid", run.grid[0]), ("ntid", run.block[0])];
    let outcome = reader.expectation();
    run.args = reader.args;
    let (buffer, bytes) = outcome?;
    match run.args.get_mut(buffer) {
        Some(Arg { contents: Contents::Buffer { after: after @ None, .. }, .. }) => *after = Some(bytes),
        Some(Arg { name, .. }) => return Err(format!("`{name}` has an expectation already")),
        None => return Err("no such buffer".into()),
    }
    Ok(())
}

/// Reads tokens of one line. Names in expressions are the arguments so far, the launch and the local
/// variables.
pub(super) struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    pub args: Vec<Arg>,
    /// Sizes along x, under the names of PTX's special registers.
    pub launch: [(&'static str, u32); 2],
    /// The element's index first, without a name where there is no element.
    pub locals: Vec<(&'a str, Shape)>,
    /// How many operands the expression at hand has so far.
    pub operands: usize,
}

impl<'a> Reader<'a> {
    pub fn new(tokens: &'a [Token<'a>], args: Vec<Arg>) -> Self {
        Reader { tokens, at: 0, args, launch: [("nctaid", 1), ("ntid", 1)], locals: Vec::new(), operands: 0 }
    }

    pub fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    pub fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    pub fn takes(&mut self, token: Token<'_>) -> bool {
        let is_there = self.peek() == Some(token);
        self.at += usize::from(is_there);
        is_there
    }

    pub fn mark(&mut self, mark: &'static str) -> Result<(), String> {
        if self.takes(Token::Mark(mark)) { Ok(()) } else { Err(self.wanted(&format!("`{mark}`"))) }
    }

    pub fn name(&mut self, what: &str) -> Result<&'a str, String> {
        match self.next() {
            Some(Token::Name(name)) => Ok(name),
            found => {
                self.at -= usize::from(found.is_some());
                Err(self.wanted(what))
            }
        }
    }

    /// What to say when the next token is not `what`.
    pub fn wanted(&self, what: &str) -> String {
        match self.peek() {
            None => format!("{what} is missing at the end"),
            Some(Token::Name(found) | Token::Decimal(found)) => format!("{what} is missing before `{found}`"),
            Some(Token::Mark(found)) => format!("{what} is missing before `{found}`"),
            Some(Token::Integer(found)) => format!("{what} is missing before `{found}`"),
            Some(Token::F32Bits(found)) => format!("{what} is missing before `0f{found:08X}`"),
            Some(Token::F64Bits(found)) => format!("{what} is missing before `0d{found:016X}`"),
        }
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn end(&self) -> Result<(), String> {
        if self.is_at_end() { Ok(()) } else { Err(self.wanted("the end of the line")) }
    }

    fn u32(&mut self) -> Result<u32, String> {
        match self.peek() {
            Some(Token::Integer(value)) => {
                self.at += 1;
                u32::try_from(value).map_err(|_| format!("{value} is too large"))
            }
            _ => Err(self.wanted("a number")),
        }
    }

    /// Takes `name =`, if the name is there.
    fn takes_setting(&mut self, name: &str) -> Result<bool, String> {
        let is_there = self.takes(Token::Name(name));
        if is_there {
            self.mark("=")?;
        }
        Ok(is_there)
    }

    fn dimensions(&mut self, name: &str) -> Result<[u32; 3], String> {
        if !self.takes_setting(name)? {
            return Err(self.wanted(&format!("`{name}=`")));
        }
        self.mark("(")?;
        let mut sizes = [1; 3];
        for (axis, size) in sizes.iter_mut().enumerate() {
            if axis > 0 && !self.takes(Token::Mark(",")) {
                break;
            }
            *size = self.u32()?;
        }
        self.mark(")")?;
        if sizes.contains(&0) { Err(format!("`{name}` has a size of 0")) } else { Ok(sizes) }
    }

    fn arg(&mut self) -> Result<Arg, String> {
        let name = self.name("an argument's name")?;
        if self.args.iter().any(|arg| arg.name == name) {
            return Err(format!("two arguments are called `{name}`"));
        }
        self.mark(":")?;
        let ty = self.name("a type")?;
        if ty == "map" {
            let contents = Contents::Map(self.map()?);
            return Ok(Arg { name: name.to_string(), ty: Type::S64, contents, passed: true });
        }
        if ty == "image" {
            let contents = Contents::Image(self.image()?);
            return Ok(Arg { name: name.to_string(), ty: Type::S64, contents, passed: true });
        }
        if ty == "multicast" {
            self.mark("(")?;
            let contents = Contents::Multicast(self.buffer()?);
            self.mark(")")?;
            return Ok(Arg { name: name.to_string(), ty: Type::S64, contents, passed: true });
        }
        let ty = Type::named(ty).ok_or_else(|| format!("`{ty}` is no type"))?;
        let contents = if self.takes(Token::Mark("[")) {
            let count = self.count()?;
            self.mark("]")?;
            self.mark("=")?;
            Contents::Buffer { before: self.fill(ty, count)?, after: None }
        } else {
            self.mark("=")?;
            self.locals = vec![("", Shape::Integer)];
            let node = self.expression_of(ty)?;
            Contents::Scalar(Evaluator::new(&self.args).element(&node, ty, 0)?)
        };
        Ok(Arg { name: name.to_string(), ty, contents, passed: true })
    }

    /// `(buffer,`: the number of the argument.
    fn buffer_before(&mut self) -> Result<usize, String> {
        self.mark("(")?;
        let buffer = self.buffer()?;
        self.mark(",")?;
        Ok(buffer)
    }

    fn buffer(&mut self) -> Result<usize, String> {
        let name = self.name("a buffer's name")?;
        let buffer = self.args.iter().position(|arg| arg.name == name);
        buffer.ok_or_else(|| format!("there is no buffer `{name}`"))
    }

    /// Texels in a buffer, and how they are sampled: `(x, f32x4, (8,6), normalised, wrap)`.
    fn image(&mut self) -> Result<Image, String> {
        let buffer = self.buffer_before()?;
        let texel = self.name("the type of a texel")?;
        let (channel, channels) = texel.split_once('x').unwrap_or((texel, "1"));
        let channel = CHANNELS.into_iter().find(|known| *known == channel);
        let channels = channels.parse().ok().filter(|channels| [1, 2, 4].contains(channels));
        let (Some(channel), Some(channels)) = (channel, channels) else {
            return Err(format!("`{texel}` is no type of texels"));
        };
        self.mark(",")?;
        let sizes = self.sizes()?;
        if sizes.len() > 3 {
            return Err("an image has at most 3 axes".into());
        }
        let mut image = Image {
            buffer,
            channel,
            channels,
            sizes,
            layered: false,
            cube: false,
            levels: 1,
            beyond: "clamp",
            normalised: false,
            linear: false,
            linear_levels: false,
            integers: false,
        };
        while self.takes(Token::Mark(",")) {
            match self.name("a property of the image")? {
                "layered" => image.layered = true,
                "cube" => image.cube = true,
                "levels" => {
                    self.mark("=")?;
                    image.levels = self.u32()?;
                }
                "linear_levels" => image.linear_levels = true,
                "normalised" => image.normalised = true,
                "linear" => image.linear = true,
                "integers" => image.integers = true,
                name => {
                    let known = BEYOND.into_iter().find(|known| *known == name);
                    image.beyond = known.ok_or_else(|| format!("no image is `{name}`"))?;
                }
            }
        }
        self.mark(")")?;
        Ok(image)
    }

    /// A tensor in a buffer, and the box of it that a copy takes.
    fn map(&mut self) -> Result<Tensor, String> {
        let buffer = self.buffer_before()?;
        let element = self.name("the type of an element")?;
        let known = ELEMENTS.iter().find(|(known, _)| *known == element);
        let (element, bytes) =
            *known.ok_or_else(|| format!("`{element}` is no type of a tensor's elements"))?;
        self.mark(",")?;
        let sizes = self.sizes()?;
        self.mark(",")?;
        if !self.takes_setting("box")? {
            return Err(self.wanted("`box=`"));
        }
        let boxes = self.sizes()?;
        let mut packed = u64::from(bytes);
        let strides = sizes.iter().map(|size| {
            packed *= u64::from(*size);
            packed
        });
        let strides = strides.take(sizes.len().saturating_sub(1)).collect();
        let steps = vec![1; sizes.len()];
        let (swizzle, interleave, fills_nan) = (0, 0, false);
        let mut map =
            Tensor { buffer, element, sizes, strides, boxes, steps, swizzle, interleave, fills_nan };
        while self.takes(Token::Mark(",")) {
            self.map_setting(&mut map)?;
        }
        self.mark(")")?;
        let axes = map.sizes.len();
        if map.boxes.len() != axes || map.steps.len() != axes || map.strides.len() + 1 != axes {
            return Err(format!("a tensor of {axes} axes has as many sizes, and one stride less"));
        }
        Ok(map)
    }

    fn map_setting(&mut self, map: &mut Tensor) -> Result<(), String> {
        let name = self.name("a setting")?;
        self.mark("=")?;
        match name {
            "strides" => map.strides = self.sizes()?.into_iter().map(u64::from).collect(),
            "steps" => map.steps = self.sizes()?,
            "swizzle" => map.swizzle = self.u32()?,
            "interleave" => map.interleave = self.u32()?,
            "fill" => map.fills_nan = self.name("`nan`")? == "nan",
            other => return Err(format!("there is no setting `{other}`")),
        }
        Ok(())
    }

    /// One to five numbers.
    fn sizes(&mut self) -> Result<Vec<u32>, String> {
        self.mark("(")?;
        let mut sizes = vec![self.u32()?];
        while self.takes(Token::Mark(",")) {
            sizes.push(self.u32()?);
        }
        self.mark(")")?;
        if sizes.len() > MAX_AXES { Err(format!("a tensor has at most {MAX_AXES} axes")) } else { Ok(sizes) }
    }

    /// The number of elements of a buffer.
    fn count(&mut self) -> Result<usize, String> {
        self.locals = vec![("", Shape::Integer)];
        let operand = self.integer_operand()?;
        let value = Evaluator::new(&self.args).element(&operand.node, operand.ty, 0)?;
        let count = operand.ty.to_integer(value);
        let count = usize::try_from(count).ok().filter(|&count| count <= MAX_ELEMENTS);
        count.ok_or_else(|| format!("a buffer has 0 to {MAX_ELEMENTS} elements"))
    }

    fn fill(&mut self, ty: Type, count: usize) -> Result<Vec<u8>, String> {
        if self.peek() == Some(Token::Mark("[")) { self.list(ty, count) } else { self.formula(ty, count) }
    }

    /// One expression for all elements.
    fn formula(&mut self, ty: Type, count: usize) -> Result<Vec<u8>, String> {
        self.locals = vec![("i", Shape::Integer)];
        let node = self.expression_of(ty)?;
        self.bytes(ty, count, |_| Some(&node))
    }

    /// One expression for each element.
    fn list(&mut self, ty: Type, count: usize) -> Result<Vec<u8>, String> {
        self.locals = vec![("i", Shape::Integer)];
        self.mark("[")?;
        let mut nodes = Vec::new();
        while self.peek() != Some(Token::Mark("]")) {
            if !nodes.is_empty() {
                self.mark(",")?;
            }
            nodes.push(self.expression_of(ty)?);
        }
        self.mark("]")?;
        if nodes.len() != count {
            return Err(format!("{} values for {count} elements", nodes.len()));
        }
        self.bytes(ty, count, |index| nodes.get(index))
    }

    fn bytes<'n>(
        &self,
        ty: Type,
        count: usize,
        node: impl Fn(usize) -> Option<&'n Node>,
    ) -> Result<Vec<u8>, String> {
        let mut evaluator = Evaluator::new(&self.args);
        let mut out = Vec::with_capacity(count * ty.size());
        for index in 0..count {
            let node = node(index).ok_or("an element without a value")?;
            let value = evaluator.element(node, ty, index);
            ty.store(value.map_err(|message| format!("for i = {index}: {message}"))?, &mut out);
        }
        Ok(out)
    }

    /// The number of the argument that is a buffer, and its bytes.
    fn expectation(&mut self) -> Result<(usize, Vec<u8>), String> {
        let name = self.name("a buffer's name")?;
        let known = self.args.iter().position(|arg| arg.name == name);
        let number = known.ok_or_else(|| format!("there is no argument `{name}`"))?;
        let (ty, count) = match self.args.get(number) {
            Some(Arg { ty, contents: Contents::Buffer { before, .. }, .. }) => {
                (*ty, before.len() / ty.size())
            }
            _ => return Err(format!("`{name}` is no buffer: nothing can be expected of it")),
        };
        let is_formula = self.takes(Token::Mark("["));
        if is_formula {
            if self.name("`i`")? != "i" {
                return Err(format!("the index of an expectation is `i`, as in {name}[i]"));
            }
            self.mark("]")?;
        }
        self.mark("=")?;
        let bytes = if is_formula { self.formula(ty, count)? } else { self.list(ty, count)? };
        self.end()?;
        Ok((number, bytes))
    }
}

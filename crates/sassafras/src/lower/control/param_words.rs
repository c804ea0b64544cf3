//! The words of `.param` variables as registers.

use crate::module::abi::Shape;
use crate::module::prototype::{is_variadic, shape};
use ptx::Type;
use ptx::ast::{self, Operand, ParamPlace, Reg, Space, Stmt, Symbol, SymbolKind};
use ptx::words::Kind;
use rustc_hash::FxHashMap;

/// A variable of more words has registers only for those that the body loads or stores: others have no value that
/// matters. No calling convention passes so many in registers.
pub const MOST_WORDS: u32 = 256;

/// The words of a `.param` variable.
#[derive(Clone, Debug)]
struct Words {
    first: Reg,
    shape: Shape,
    /// Of a large variable: the words that have registers, in order.
    accessed: Option<Vec<u32>>,
}

impl Words {
    fn count(&self) -> u32 {
        self.accessed.as_ref().map_or(self.shape.words(), |accessed| accessed.len() as u32)
    }

    /// Numbers of words, and their registers.
    fn all(&self) -> impl Iterator<Item = (u32, Reg)> + '_ {
        let word = |i: u32| self.accessed.as_ref().map_or(i, |accessed| accessed[i as usize]);
        (0..self.count()).map(move |i| (word(i), Reg(self.first.0 + i)))
    }

    fn find(&self, word: u32) -> Option<Reg> {
        let at = match &self.accessed {
            Some(accessed) => accessed.binary_search(&word).ok()? as u32,
            None => Some(word).filter(|word| *word < self.shape.words())?,
        };
        Some(Reg(self.first.0 + at))
    }
}

/// The words of `.param` variables that are not in memory: register numbers after those of the declared registers.
#[derive(Clone, Debug, Default)]
pub struct ParamWords {
    first: u32,
    words: FxHashMap<Symbol, Words>,
    /// Formal parameters whose address is taken: their words are the incoming values only.
    in_memory: Vec<Symbol>,
}

impl ParamWords {
    pub fn new(module: &ast::Module, body: &ast::Body, function: Option<&ast::Function>) -> ParamWords {
        let declared = |d: &ast::RegDecl| d.first.0 + d.range.unwrap_or(1);
        let first = body.regs.iter().map(declared).max().unwrap_or(0);
        let mut all = ParamWords { first, words: FxHashMap::default(), in_memory: Vec::new() };
        let mut next = first;
        let mut accesses = None;
        let mut add = |symbol: Symbol, shape: Shape, all: &mut ParamWords| {
            let is_large = shape.words() > MOST_WORDS;
            let accessed = is_large.then(|| {
                let accesses = accesses.get_or_insert_with(|| accessed_words(module, body));
                let within = |word: &u32| *word < shape.words();
                accesses.get(&symbol).into_iter().flatten().copied().filter(within).collect()
            });
            let words = Words { first: Reg(next), shape, accessed };
            next += words.count();
            all.words.insert(symbol, words);
        };
        for stmt in &body.stmts {
            if let Stmt::Variable(v) = stmt
                && v.space == Space::Param
                && let SymbolKind::Variable { bytes, align, .. } = module.symbols[v.symbol.0 as usize].kind
            {
                for i in 0..v.range.unwrap_or(1) {
                    let shape = Shape { bytes: bytes as u32, align: align as u32 };
                    add(Symbol(v.symbol.0 + i), shape, &mut all);
                }
            }
        }
        if let Some(function) = function.filter(|f| !f.entry) {
            for param in function.returns.iter().chain(&function.params) {
                if let ParamPlace::Memory(symbol) = param.place {
                    let shape = match is_variadic(param) {
                        true => Shape { bytes: loaded_bytes(module, body, symbol), ..shape(param) },
                        false => shape(param),
                    };
                    add(symbol, shape, &mut all);
                }
            }
            all.in_memory = addresses_taken(module, body);
            all.in_memory
                .retain(|symbol| function.params.iter().any(|p| p.place == ParamPlace::Memory(*symbol)));
        }
        all
    }

    /// Does this address name a formal parameter that is on the stack?
    pub fn is_in_memory(&self, body: &ast::Body, address: &Operand) -> bool {
        let Operand::Address(range) = address else { return false };
        let is_one = |o: &Operand| matches!(o, Operand::Symbol(s) if self.in_memory.contains(s));
        body.list(*range).first().is_some_and(is_one)
    }

    /// Is this register a word of a `.param` variable?
    pub fn contains(&self, reg: Reg) -> bool {
        reg.0 >= self.first
    }

    /// The registers of a variable: of all its words, but those of a large one that nothing loads or stores.
    pub fn all(&self, symbol: Symbol) -> impl Iterator<Item = Reg> + use<> {
        let (first, count) = self.words.get(&symbol).map_or((0, 0), |words| (words.first.0, words.count()));
        (first..first + count).map(Reg)
    }

    /// The same with the numbers of the words.
    pub fn numbered(&self, symbol: Symbol) -> impl Iterator<Item = (u32, Reg)> + '_ {
        self.words.get(&symbol).into_iter().flat_map(Words::all)
    }

    /// The register of a word; nothing else is loaded or stored.
    pub fn word(&self, symbol: Symbol, word: u32) -> Option<Reg> {
        self.words.get(&symbol)?.find(word)
    }

    /// The words that it has in memory.
    pub fn size(&self, symbol: Symbol) -> u32 {
        self.words.get(&symbol).map_or(0, |words| words.shape.words())
    }

    pub fn has(&self, symbol: Symbol) -> bool {
        self.words.contains_key(&symbol) && !self.in_memory.contains(&symbol)
    }

    /// The variable, and the offset in it, that an address names.
    pub fn find(&self, body: &ast::Body, address: &Operand) -> Option<(Symbol, u32)> {
        let Operand::Address(range) = address else { return None };
        let (symbol, offset) = match body.list(*range) {
            [Operand::Symbol(s)] => (*s, 0),
            [Operand::Symbol(s), Operand::Offset(n)] => (*s, offset_in_variable(*n)?),
            _ => return None,
        };
        self.has(symbol).then_some((symbol, offset))
    }
}

/// An offset that isn't negative. Far behind the end of any variable all are the same, and a vector there has an end.
fn offset_in_variable(offset: i64) -> Option<u32> {
    const FAR: u64 = u32::MAX as u64 - 255;
    u64::try_from(offset).ok().map(|offset| offset.min(FAR) as u32)
}

/// The first byte and the length of each access of a body to the beginning of a symbol or a place behind it.
fn accesses<'a>(
    module: &'a ast::Module,
    body: &'a ast::Body,
) -> impl Iterator<Item = (Symbol, u32, u32)> + 'a {
    body.stmts.iter().filter_map(move |stmt| {
        let Stmt::Inst(inst) = stmt else { return None };
        let (data, range) = match body.list(inst.operands) {
            [data, Operand::Address(range)] | [Operand::Address(range), data] => (data, range),
            _ => return None,
        };
        let (symbol, offset) = match body.list(*range) {
            [Operand::Symbol(s)] => (*s, 0),
            [Operand::Symbol(s), Operand::Offset(n)] => (*s, offset_in_variable(*n).unwrap_or(0)),
            _ => return None,
        };
        let elements = if let Operand::Vector(list) = data { body.list(*list).len() as u32 } else { 1 };
        let words = &module.opcodes[inst.opcode.0 as usize].words;
        let ty = words.iter().copied().filter(|w| w.kind() == Kind::Type).find_map(Type::of_word);
        Some((symbol, offset, elements * ty.map_or(0, |ty| ty.bytes())))
    })
}

/// The bytes of a parameter of unknown size that a body loads.
fn loaded_bytes(module: &ast::Module, body: &ast::Body, of: Symbol) -> u32 {
    let ends = accesses(module, body).filter(|(symbol, ..)| *symbol == of);
    ends.map(|(_, offset, bytes)| offset.saturating_add(bytes)).max().unwrap_or(0)
}

/// The words of each symbol that a body loads or stores, in order.
fn accessed_words(module: &ast::Module, body: &ast::Body) -> FxHashMap<Symbol, Vec<u32>> {
    let mut all: FxHashMap<Symbol, Vec<u32>> = FxHashMap::default();
    for (symbol, offset, bytes) in accesses(module, body) {
        all.entry(symbol).or_default().extend(offset / 4..offset.saturating_add(bytes).div_ceil(4));
    }
    for words in all.values_mut() {
        words.sort_unstable();
        words.dedup();
    }
    all
}

/// The symbols whose address a body has in registers.
fn addresses_taken(module: &ast::Module, body: &ast::Body) -> Vec<Symbol> {
    let mut taken = Vec::new();
    for stmt in &body.stmts {
        let Stmt::Inst(inst) = stmt else { continue };
        if !matches!(module.opcodes[inst.opcode.0 as usize].mnemonic, "mov" | "cvta") {
            continue;
        }
        for operand in body.list(inst.operands) {
            match operand {
                Operand::Symbol(symbol) => taken.push(*symbol),
                Operand::Sum(range) => taken.extend(body.list(*range).iter().filter_map(|o| match o {
                    Operand::Symbol(symbol) => Some(*symbol),
                    _ => None,
                })),
                _ => {}
            }
        }
    }
    taken.sort_unstable();
    taken.dedup();
    taken
}

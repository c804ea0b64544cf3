//! The module's variables: where each lies, and what the container has to hold.
//!
//! Global variables have addresses that the loader knows; `.const` variables have places in bank 3; `.shared` variables
//! of the module lie at the beginning of the shared memory of every kernel that may use them, `.extern` ones behind
//! everything else.

use crate::Failure;
use crate::lower::Lines;
use cubin::Binding;
use cubin::module::{Image, ImageKind, Memory, Origin, SymbolicReloc, Variable, layout};
use ptx::Type;
use ptx::ast::{self, Initialiser, Item, Space, Stmt, Symbol, SymbolKind};
use rustc_hash::FxHashMap;

/// Where a variable of the module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// An address that the loader fills in.
    Global(String),
    /// An offset in constant bank 3.
    Constant(u32),
    /// An offset in the module's part of shared memory.
    Shared(u64),
    /// What the launch adds to shared memory, aligned to so many bytes.
    Dynamic(u64),
    /// A texture, sampler or surface.
    Image(String),
}

#[derive(Debug, Default)]
pub struct Data {
    pub variables: Vec<Variable>,
    pub images: Vec<Image>,
    homes: FxHashMap<Symbol, Home>,
    /// Bytes of constant bank 3 that are taken.
    pub constant_bytes: u32,
    /// Bytes of shared memory that belong to the module, and their alignment.
    pub shared: (u64, u64),
}

impl Data {
    pub fn home(&self, symbol: Symbol) -> Option<&Home> {
        self.homes.get(&symbol)
    }

    pub fn new(module: &ast::Module, lines: &Lines) -> Result<Data, Failure> {
        let mut data = Data { shared: (0, 1), ..Data::default() };
        let mut symbols = Vec::new();
        for item in &module.items {
            match item {
                Item::Variable(v) => data.variable(module, lines, v, &mut symbols)?,
                Item::Function(f) => {
                    for stmt in f.body.iter().flat_map(|b| &b.stmts) {
                        // Device functions have no shared memory of their own.
                        if let Stmt::Variable(v) = stmt
                            && (matches!(v.space, Space::Global | Space::Const)
                                || v.space == Space::Shared && (!f.entry || v.linkage.external))
                        {
                            data.variable(module, lines, v, &mut symbols)?;
                        }
                    }
                }
                _ => {}
            }
        }
        // Bank 3 is laid out as the container does it.
        for ((symbol, variable), offset) in symbols.iter().zip(&data.variables).zip(layout(&data.variables)) {
            let home = match variable.memory {
                Memory::Global => Home::Global(variable.name.clone()),
                Memory::Constant => {
                    data.constant_bytes = data.constant_bytes.max((offset + variable.size) as u32);
                    Home::Constant(offset as u32)
                }
            };
            data.homes.insert(*symbol, home);
        }
        Ok(data)
    }

    fn variable(
        &mut self,
        module: &ast::Module,
        lines: &Lines,
        v: &ast::Variable,
        symbols: &mut Vec<Symbol>,
    ) -> Result<(), Failure> {
        let first = v.symbol.0;
        for symbol in (first..first + v.range.unwrap_or(1)).map(Symbol) {
            let SymbolKind::Variable { ty, bytes, align, .. } = module.symbols[symbol.0 as usize].kind else {
                continue;
            };
            let name = name(module, symbol);
            let kind = match ty.name() {
                "texref" => Some(ImageKind::Texture),
                "surfref" => Some(ImageKind::Surface),
                "samplerref" => Some(ImageKind::Sampler(0)),
                _ => None,
            };
            if let Some(kind) = kind {
                self.homes.insert(symbol, Home::Image(name.clone()));
                self.images.push(Image { name, kind });
                continue;
            }
            match v.space {
                Space::Shared if v.linkage.external => {
                    self.homes.insert(symbol, Home::Dynamic(align));
                }
                Space::Shared => {
                    let offset = self.shared.0.next_multiple_of(align.max(1));
                    self.homes.insert(symbol, Home::Shared(offset));
                    self.shared = (offset + bytes, self.shared.1.max(align));
                }
                Space::Global | Space::Const => {
                    symbols.push(symbol);
                    let variable = memory(module, v, name, ty, (bytes, align)).map_err(|what| Failure {
                        line: lines.line(v.span.start),
                        span: v.span,
                        message: format!("{what} is not supported yet"),
                    })?;
                    self.variables.push(variable);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The whole name of a symbol.
pub fn name(module: &ast::Module, symbol: Symbol) -> String {
    let info = &module.symbols[symbol.0 as usize];
    let base = module.names[info.name.0 as usize];
    info.member.map_or_else(|| base.to_string(), |n| format!("{base}{n}"))
}

fn memory(
    module: &ast::Module,
    v: &ast::Variable,
    name: String,
    ty: Type,
    (size, align): (u64, u64),
) -> Result<Variable, &'static str> {
    let mut bytes = Bytes { module, ty, init: Vec::new(), relocs: Vec::new() };
    if let Some(init) = &v.init {
        let elements: Vec<u64> = v.dims.iter().map(|d| d.unwrap_or(0)).collect();
        bytes.put(init, &elements, u64::from(v.vector.max(1)), 0)?;
    }
    Ok(Variable {
        name,
        binding: match v.linkage {
            ast::Linkage { weak: true, .. } => Binding::WEAK,
            ast::Linkage { external: false, visible: false, common: false, .. } => Binding::LOCAL,
            _ => Binding::GLOBAL,
        },
        memory: if v.space == Space::Const { Memory::Constant } else { Memory::Global },
        origin: match v.linkage {
            ast::Linkage { external: true, .. } => Origin::Elsewhere,
            ast::Linkage { common: true, .. } => Origin::Common,
            _ => Origin::Here,
        },
        managed: v.attributes.contains(&ast::Attribute::Managed),
        align: align.max(1),
        size,
        init: bytes.init,
        relocs: bytes.relocs,
    })
}

/// The bytes of an initialiser.
struct Bytes<'a> {
    module: &'a ast::Module<'a>,
    ty: Type,
    init: Vec<u8>,
    relocs: Vec<SymbolicReloc>,
}

impl Bytes<'_> {
    /// `dims` are the dimensions below this level, `vector` the elements of a vector below those.
    fn put(&mut self, init: &Initialiser, dims: &[u64], vector: u64, at: u64) -> Result<(), &'static str> {
        let size = u64::from(self.ty.bytes());
        match init {
            Initialiser::List(items) => {
                let (step, dims, vector) = match dims {
                    [] => (size, dims, 1),
                    [_, rest @ ..] => (rest.iter().product::<u64>() * vector * size, rest, vector),
                };
                // The outermost dimension may be left open; inner ones count.
                items
                    .iter()
                    .enumerate()
                    .try_for_each(|(i, item)| self.put(item, dims, vector, at + i as u64 * step))
            }
            Initialiser::Int(n) => self.bytes(at, &n.to_le_bytes()[..(size as usize).min(8)]),
            Initialiser::F32(bits) if size == 8 => {
                self.bytes(at, &f64::from(f32::from_bits(*bits)).to_bits().to_le_bytes())
            }
            Initialiser::F32(bits) => self.bytes(at, &bits.to_le_bytes()),
            Initialiser::F64(bits) if size == 4 => {
                self.bytes(at, &(f64::from_bits(*bits) as f32).to_bits().to_le_bytes())
            }
            Initialiser::F64(bits) => self.bytes(at, &bits.to_le_bytes()),
            Initialiser::Address { symbol, offset, mask: None, .. } if size == 8 => {
                let global = matches!(
                    self.module.symbols[symbol.0 as usize].kind,
                    SymbolKind::Variable { space: Space::Global, .. }
                );
                if !global {
                    return Err("The address of something that is no global variable in an initialiser");
                }
                self.bytes(at, &[0; 8])?;
                self.relocs.push(SymbolicReloc {
                    offset: at,
                    kind: cubin::RelocType::G64,
                    symbol: name(self.module, *symbol),
                    addend: *offset,
                });
                Ok(())
            }
            _ => Err("This initialiser"),
        }
    }

    fn bytes(&mut self, at: u64, bytes: &[u8]) -> Result<(), &'static str> {
        let (start, end) = (at as usize, at as usize + bytes.len());
        if self.init.len() < end {
            self.init.resize(end, 0);
        }
        self.init[start..end].copy_from_slice(bytes);
        Ok(())
    }
}

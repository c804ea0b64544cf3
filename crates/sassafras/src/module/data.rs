//! The module's variables: the location of each, and the contents of data sections.
//!
//! Addresses of `.global` variables are relocations for the loader; `.const` variables have offsets in bank 3; `.shared`
//! variables of the module and of functions are at the beginning of the shared memory of every kernel that may use them
//! ([`shared_layout`](crate::module::shared_layout)), `.extern` ones after all others. In a relocatable file the linker places `.const` and `.shared` variables too, and code refers to
//! them as symbols.

use crate::context::target::TargetMachine;
use crate::context::{Failure, Lines};
use crate::module::call_graph::Calls;
use crate::module::shared_layout::{self, SharedLayout};
use cubin::module::{
    Image, ImageKind, Memory, Origin, Param, SharedHome, SharedVariable, SymbolicReloc, Variable, layout,
};
use cubin::{Binding, RelocType};
use ptx::Type;
use ptx::ast::{self, Initialiser, Item, Space, Stmt, Symbol, SymbolKind};
use rustc_hash::FxHashMap;

/// Where a variable of the module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// An address that the loader fills in.
    Global(String),
    /// An offset in constant bank 3, or the name of a variable there that the linker places.
    Constant(u32),
    LinkedConstant(String),
    /// An offset in shared memory, in every kernel that has the variable.
    Shared(u64),
    /// What the launch adds to shared memory, aligned to so many bytes.
    Dynamic(u64),
    /// The name of a variable in shared memory that the linker places.
    LinkedShared(String),
    /// A texture, sampler or surface.
    Image(String),
}

#[derive(Debug, Default)]
pub struct Data {
    pub variables: Vec<Variable>,
    pub images: Vec<Image>,
    /// Handles of images that device functions use: at an offset of bank 0 that is the same for all kernels.
    pub common_slots: Option<CommonSlots>,
    homes: FxHashMap<Symbol, Home>,
    /// Alias functions, with their targets.
    pub aliases: Vec<(Symbol, Symbol)>,
    /// Bytes of constant bank 3 that are taken.
    pub constant_bytes: u64,
    /// Shared memory of the module and of device functions, in an executable.
    pub shared: SharedLayout,
    /// For the linker? Then `linked_shared` has the shared variables that belong to no kernel.
    pub relocatable: bool,
    pub linked_shared: Vec<SharedVariable>,
    /// Functions whose addresses are in initialisers.
    pub functions: Vec<String>,
}

/// The handles that all kernels of the module have, and where they begin in bank 0.
#[derive(Debug)]
pub struct CommonSlots {
    pub first: u32,
    pub slots: Vec<ImageSlot>,
}

/// What is known only after all variables are.
#[derive(Default)]
struct Later {
    /// The symbols of `Data::variables`.
    symbols: Vec<Symbol>,
    /// Shared variables without an offset.
    shared: Vec<shared_layout::SharedVariable>,
    /// Offsets in constant bank 3 that initialisers have.
    constants: Vec<ConstantAddress>,
}

/// The address of a `.const` variable in an initialiser: a number, in an executable.
struct ConstantAddress {
    /// The index of the initialised variable, and where it has the address.
    of: usize,
    at: usize,
    /// How many bytes of the address, and the first of them.
    bytes: usize,
    first_byte: u32,
    symbol: Symbol,
    plus: i64,
}

/// The inputs of a variable's layout.
#[derive(Clone, Copy)]
struct Context<'a> {
    module: &'a ast::Module<'a>,
    machine: &'a TargetMachine,
    lines: &'a Lines,
}

impl Data {
    pub fn home(&self, symbol: Symbol) -> Option<&Home> {
        self.homes.get(&symbol)
    }

    /// The function that an alias refers to, or the symbol itself.
    pub fn aliased(&self, symbol: Symbol) -> Symbol {
        resolve_alias(&self.aliases, symbol)
    }

    pub fn new(
        module: &ast::Module,
        machine: &TargetMachine,
        lines: &Lines,
        relocatable: bool,
    ) -> Result<Data, Failure> {
        let mut data = Data { relocatable, aliases: aliases(module), ..Data::default() };
        let mut later = Later::default();
        let context = Context { module, machine, lines };
        let kept = kept_declarations(module);
        for (number, item) in module.items.iter().enumerate() {
            match item {
                Item::Variable(v) if kept.get(&v.symbol) != Some(&number) => {}
                Item::Variable(v) => data.variable(context, v, false, &mut later)?,
                Item::Function(f) => {
                    data.image_params(module, f);
                    for stmt in f.body.iter().flat_map(|b| &b.stmts) {
                        // Device functions have no shared memory of their own.
                        if let Stmt::Variable(v) = stmt
                            && (matches!(v.space, Space::Global | Space::Const)
                                || v.space == Space::Shared && (!f.entry || v.linkage.external))
                        {
                            data.variable(context, v, true, &mut later)?;
                        }
                    }
                }
                _ => {}
            }
        }
        // Bank 3 is laid out as the container does it.
        for ((symbol, variable), offset) in
            later.symbols.iter().zip(&data.variables).zip(layout(&data.variables))
        {
            let home = match variable.memory {
                Memory::Global => Home::Global(variable.name.clone()),
                Memory::Constant => {
                    data.constant_bytes = data.constant_bytes.max(offset.saturating_add(variable.size));
                    match relocatable {
                        true => Home::LinkedConstant(variable.name.clone()),
                        false => Home::Constant(offset as u32),
                    }
                }
            };
            data.homes.insert(*symbol, home);
        }
        data.write_constant_addresses(&later.constants);
        data.place_shared(module, &later.shared);
        // Kernels of other files would not have the slots: there the linker makes them.
        if !relocatable {
            data.common_slots = data.slots_of_functions(module, machine);
        }
        Ok(data)
    }

    fn write_constant_addresses(&mut self, all: &[ConstantAddress]) {
        for address in all {
            let Some(Home::Constant(offset)) = self.homes.get(&address.symbol) else { continue };
            let value = ((i64::from(*offset) + address.plus) >> (8 * address.first_byte)).to_le_bytes();
            let to = address.at..address.at + address.bytes;
            self.variables[address.of].init[to].copy_from_slice(&value[..address.bytes]);
        }
    }

    fn place_shared(&mut self, module: &ast::Module, variables: &[shared_layout::SharedVariable]) {
        let is_dynamic = |(symbol, home): (&Symbol, &Home)| match home {
            Home::Dynamic(align) => Some((*symbol, *align)),
            _ => None,
        };
        let dynamic: FxHashMap<Symbol, u64> = self.homes.iter().filter_map(is_dynamic).collect();
        if variables.is_empty() && dynamic.is_empty() {
            return;
        }
        self.shared = SharedLayout::new(module, &Calls::new(module, &self.aliases), variables, &dynamic);
        let homes = self.shared.offsets.iter().map(|(symbol, offset)| (*symbol, Home::Shared(*offset)));
        self.homes.extend(homes);
    }

    /// The index in `images` of a variable or parameter.
    pub fn image_of(&self, symbol: Symbol) -> Option<usize> {
        let Home::Image(name) = self.home(symbol)? else { return None };
        self.images.iter().position(|image| image.name == *name)
    }

    pub fn image_kind(&self, name: &str) -> Option<ImageKind> {
        self.images.iter().find(|image| image.name == name).map(|image| image.kind)
    }

    /// Textures, samplers and surfaces that are parameters of kernels. Their names are made unique.
    fn image_params(&mut self, module: &ast::Module, function: &ast::Function) {
        for param in function.params.iter().filter(|_| function.entry) {
            let (Some(kind), ast::ParamPlace::Memory(symbol)) = (image_kind(param.ty), param.place) else {
                continue;
            };
            let taken = |text: &String| {
                let symbols = 0..module.symbols.len() as u32;
                symbols.map(Symbol).filter(|s| *s != symbol).any(|other| name(module, other) == *text)
            };
            let name = Some(name(module, symbol)).filter(|n| !taken(n));
            let name = name.unwrap_or_else(|| local_name(module, symbol));
            self.homes.insert(symbol, Home::Image(name.clone()));
            self.images.push(Image { name, kind, parameter_of: None });
        }
    }

    /// Slots for all handles, if a device function uses one: it doesn't know how many parameters its kernel has.
    fn slots_of_functions(&self, module: &ast::Module, machine: &TargetMachine) -> Option<CommonSlots> {
        let functions =
            || module.items.iter().filter_map(|i| if let Item::Function(f) = i { Some(f) } else { None });
        let names_image =
            |o: &ast::Operand| matches!(o, ast::Operand::Symbol(s) if self.image_of(*s).is_some());
        if self.images.is_empty() {
            return None;
        }
        let mut bodies = functions().filter(|f| !f.entry).filter_map(|f| f.body.as_ref());
        if !bodies.any(|body| body.operands.iter().any(names_image)) {
            return None;
        }
        let ends =
            functions().filter(|f| f.entry).map(|f| first_image(kernel_params(f, self, machine).1, machine));
        let is_sampler = |image: &&Image| matches!(image.kind, ImageKind::Sampler { .. });
        let (samplers, images): (Vec<&Image>, Vec<&Image>) = self.images.iter().partition(is_sampler);
        let alone = |image: &&Image| ImageSlot { image: Some(image.name.clone()), sampler: None };
        let mut slots: Vec<ImageSlot> = images.iter().map(alone).collect();
        for sampler in samplers {
            let sampler = Some(sampler.name.clone());
            slots.push(ImageSlot { image: None, sampler: sampler.clone() });
            let textures = images.iter().filter(|i| i.kind == ImageKind::Texture && !machine.uniform_handles);
            slots.extend(textures.map(|t| ImageSlot { sampler: sampler.clone(), ..alone(t) }));
        }
        Some(CommonSlots { first: ends.max().unwrap_or(0), slots })
    }

    fn variable(
        &mut self,
        Context { module, machine, lines }: Context,
        v: &ast::Variable,
        in_function: bool,
        later: &mut Later,
    ) -> Result<(), Failure> {
        let first = v.symbol.0;
        for symbol in (first..first + v.range.unwrap_or(1)).map(Symbol) {
            let SymbolKind::Variable { ty, bytes, align, .. } = module.symbols[symbol.0 as usize].kind else {
                continue;
            };
            let name = name(module, symbol);
            if let Some(kind) = image_kind(ty) {
                let kind = match (kind, &v.init) {
                    (ImageKind::Sampler { .. }, Some(Initialiser::Fields(fields))) => sampler(module, fields),
                    _ => kind,
                };
                self.homes.insert(symbol, Home::Image(name.clone()));
                self.images.push(Image { name, kind, parameter_of: None });
                continue;
            }
            match v.space {
                Space::Shared if self.relocatable => {
                    let own = in_function && !v.linkage.external;
                    let name = if own { local_name(module, symbol) } else { name };
                    self.link_shared(&name, v.linkage, bytes, align.max(1));
                    self.homes.insert(symbol, Home::LinkedShared(name));
                }
                // One of a known size is defined here: an executable is a whole program.
                Space::Shared if v.linkage.external && bytes == 0 => {
                    self.homes.insert(symbol, Home::Dynamic(align));
                }
                Space::Shared => {
                    let align = align.max(1);
                    later.shared.push(shared_layout::SharedVariable { symbol, bytes, align });
                }
                Space::Global | Space::Const => {
                    later.symbols.push(symbol);
                    let bytes_of = Bytes {
                        module,
                        machine,
                        relocatable: self.relocatable,
                        aliases: &self.aliases,
                        ty,
                        init: Vec::new(),
                        relocs: Vec::new(),
                        functions: &mut self.functions,
                        of: self.variables.len(),
                        constants: &mut later.constants,
                    };
                    let variable = memory(bytes_of, v, name, (bytes, align)).map_err(|what| Failure {
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

    /// A shared variable for the linker, once for all functions that declare it.
    fn link_shared(&mut self, name: &str, linkage: ast::Linkage, size: u64, align: u64) {
        if self.linked_shared.iter().all(|known| known.name != name) {
            let home = if linkage.external { SharedHome::Launch } else { SharedHome::Module };
            let (name, binding) = (name.to_string(), binding(linkage));
            self.linked_shared.push(SharedVariable { name, binding, home, align, size, address: 0 });
        }
    }
}

pub struct KernelParam {
    pub symbol: ast::Symbol,
    pub offset: u32,
    pub size: u32,
    /// A texture, sampler or surface: its index in the module. It takes no bytes.
    pub image: Option<usize>,
}

/// Where handles begin in bank 0, after so many bytes of parameters.
pub fn first_image(param_bytes: u32, machine: &TargetMachine) -> u32 {
    machine.params(param_bytes) + param_bytes.next_multiple_of(machine.image_align)
}

/// Lays out the parameters of a kernel in bank 0, each aligned as its type requires. Returns their size, too.
pub fn kernel_params(
    function: &ast::Function,
    data: &Data,
    machine: &TargetMachine,
) -> (Vec<KernelParam>, u32) {
    let few = params_from(function, data, machine.params(0));
    // Their start depends on how many there are.
    match machine.params(few.1) {
        start if start != machine.params(0) => params_from(function, data, start),
        _ => few,
    }
}

fn params_from(function: &ast::Function, data: &Data, start: u32) -> (Vec<KernelParam>, u32) {
    let (mut all, mut end) = (Vec::new(), 0u32);
    for param in &function.params {
        let ast::ParamPlace::Memory(symbol) = param.place else { continue };
        if let Some(image) = data.image_of(symbol) {
            let offset = u32::from(Param::NOWHERE);
            all.push(KernelParam { symbol, offset, size: 0, image: Some(image) });
            continue;
        }
        let size = param.bytes() as u32;
        let offset = (start + end).next_multiple_of(param.alignment() as u32) - start;
        all.push(KernelParam { symbol, offset, size, image: None });
        end = offset + size;
    }
    (all, end)
}

/// A word of bank 0 after the parameters, which the loader fills in: with the handle of a texture or surface, of a
/// sampler, or of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSlot {
    pub image: Option<String>,
    pub sampler: Option<String>,
}

/// The `.alias` directives: each alias with the function that it finally refers to.
fn aliases(module: &ast::Module) -> Vec<(Symbol, Symbol)> {
    let mut all = Vec::new();
    let mut add = |a: &ast::Alias| all.push((a.alias, resolve_alias(&all, a.target)));
    for item in &module.items {
        match item {
            Item::Alias(alias) => add(alias),
            Item::Function(function) => {
                let stmts = function.body.iter().flat_map(|body| &body.stmts);
                stmts.for_each(|stmt| {
                    if let Stmt::Alias(alias) = stmt {
                        add(alias)
                    }
                });
            }
            _ => {}
        }
    }
    all
}

fn resolve_alias(aliases: &[(Symbol, Symbol)], symbol: Symbol) -> Symbol {
    aliases.iter().find(|(alias, _)| *alias == symbol).map_or(symbol, |(_, target)| *target)
}

/// The kind of an opaque type.
fn image_kind(ty: Type) -> Option<ImageKind> {
    Some(match ty.name() {
        "texref" => ImageKind::Texture,
        "surfref" => ImageKind::Surface,
        "samplerref" => ImageKind::Sampler { init: u32::MAX, force_unnormalized: false },
        _ => return None,
    })
}

/// The initial state that a sampler's declaration sets. The numbers are those that ptxas writes for these words.
fn sampler(module: &ast::Module, fields: &[(ast::Name, ast::FieldValue)]) -> ImageKind {
    const FIELDS: [&str; 4] = ["addr_mode_0", "addr_mode_1", "addr_mode_2", "filter_mode"];
    const ADDRESS_MODES: [&str; 5] = ["wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"];
    const FILTERS: [&str; 2] = ["nearest", "linear"];
    let text = |name: ast::Name| module.names[name.0 as usize];
    let mut init = [0xff; 4];
    let mut force_unnormalized = false;
    for (field, value) in fields {
        match *value {
            ast::FieldValue::Word(word) => {
                let words: &[&str] = if text(*field) == "filter_mode" { &FILTERS } else { &ADDRESS_MODES };
                let at = FIELDS.iter().position(|known| *known == text(*field));
                if let (Some(at), Some(number)) = (at, words.iter().position(|w| *w == text(word))) {
                    init[at] = number as u8;
                }
            }
            ast::FieldValue::Int(n) => {
                force_unnormalized |= text(*field) == "force_unnormalized_coords" && n != 0
            }
            ast::FieldValue::F64(_) => {}
        }
    }
    ImageKind::Sampler { init: u32::from_le_bytes(init), force_unnormalized }
}

/// The bodies of functions.
pub fn bodies<'a>(module: &'a ast::Module<'a>) -> impl Iterator<Item = &'a ast::Body<'a>> {
    module.items.iter().filter_map(|i| if let Item::Function(f) = i { f.body.as_ref() } else { None })
}

/// The full name of a symbol.
pub fn name(module: &ast::Module, symbol: Symbol) -> String {
    let info = &module.symbols[symbol.0 as usize];
    let base = module.names[info.name.0 as usize];
    info.member.map_or_else(|| base.to_string(), |n| format!("{base}{n}"))
}

/// The unique name of a function-local variable, as ptxas makes it.
pub fn local_name(module: &ast::Module, symbol: Symbol) -> String {
    format!("$__{}__{}", name(module, symbol), symbol.0)
}

pub fn binding(linkage: ast::Linkage) -> Binding {
    match linkage {
        ast::Linkage { weak: true, .. } => Binding::WEAK,
        ast::Linkage { external: false, visible: false, common: false, .. } => Binding::LOCAL,
        _ => Binding::GLOBAL,
    }
}

/// For each variable of the module the item that says what it is: the definition, or else the first `.extern`.
fn kept_declarations(module: &ast::Module) -> FxHashMap<Symbol, usize> {
    let mut kept = FxHashMap::default();
    for (number, item) in module.items.iter().enumerate() {
        match item {
            Item::Variable(v) if v.linkage.external => _ = kept.entry(v.symbol).or_insert(number),
            Item::Variable(v) => _ = kept.insert(v.symbol, number),
            _ => {}
        }
    }
    kept
}

fn memory(
    mut bytes: Bytes,
    v: &ast::Variable,
    name: String,
    (size, align): (u64, u64),
) -> Result<Variable, &'static str> {
    if let Some(init) = &v.init {
        let elements: Vec<u64> = v.dims.iter().map(|d| d.unwrap_or(0)).collect();
        bytes.put(init, &elements, u64::from(v.vector.max(1)), 0)?;
    }
    Ok(Variable {
        name,
        binding: binding(v.linkage),
        memory: if v.space == Space::Const { Memory::Constant } else { Memory::Global },
        origin: match v.linkage {
            ast::Linkage { external: true, .. } if bytes.relocatable => Origin::Elsewhere,
            ast::Linkage { common: true, .. } if bytes.relocatable => Origin::Common,
            _ => Origin::Here,
        },
        managed: v.attributes.contains(&ast::Attribute::Managed),
        align: align.max(1),
        size,
        init: bytes.init,
        relocs: bytes.relocs,
    })
}

/// Which byte a mask keeps.
fn byte_of(mask: u64) -> Option<u32> {
    (0..8).find(|byte| mask == 0xff << (8 * byte))
}

/// Relocations of an address in data: all eight bytes, or the first of eight numbers for one byte each.
#[derive(Clone, Copy)]
struct AddressRelocs {
    whole: RelocType,
    first_byte: RelocType,
}

const GENERIC: AddressRelocs = AddressRelocs { whole: RelocType::G64, first_byte: RelocType::G8_0 };
const PLAIN: AddressRelocs = AddressRelocs { whole: RelocType::DATA_64, first_byte: RelocType::DATA_8_0 };
const UNIFIED: AddressRelocs =
    AddressRelocs { whole: RelocType::UNIFIED, first_byte: RelocType::UNIFIED_8_0 };

/// The bytes of an initialiser.
struct Bytes<'a> {
    module: &'a ast::Module<'a>,
    machine: &'a TargetMachine,
    relocatable: bool,
    aliases: &'a [(Symbol, Symbol)],
    ty: Type,
    init: Vec<u8>,
    relocs: Vec<SymbolicReloc>,
    /// Functions whose addresses are taken.
    functions: &'a mut Vec<String>,
    /// The index of the variable, and what it has of addresses in bank 3.
    of: usize,
    constants: &'a mut Vec<ConstantAddress>,
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
            Initialiser::Address { symbol, offset, generic, mask } => {
                let symbol = resolve_alias(self.aliases, *symbol);
                if self.is_constant_offset(symbol, *generic) {
                    return self.constant_offset(at, size as usize, (symbol, *offset), *mask);
                }
                let kind = self.address(symbol, *generic)?;
                let kind = match (mask, size) {
                    (None, 8) => kind.whole,
                    // A byte of it: the relocations for the eight of them have numbers in order.
                    (Some(mask), 1) => {
                        RelocType(kind.first_byte.0 + byte_of(*mask).ok_or("This part of an address")?)
                    }
                    _ => return Err("An address of this width"),
                };
                self.bytes(at, &[0; 8][..size as usize])?;
                let symbol = name(self.module, symbol);
                self.relocs.push(SymbolicReloc { offset: at, kind, symbol, addend: *offset });
                Ok(())
            }
            _ => Err("This initialiser"),
        }
    }

    /// Is it an address in bank 3 that no linker changes?
    fn is_constant_offset(&self, symbol: Symbol, generic: bool) -> bool {
        let kind = &self.module.symbols[symbol.0 as usize].kind;
        !self.relocatable && !generic && matches!(kind, SymbolKind::Variable { space: Space::Const, .. })
    }

    /// A number that is known when all variables are.
    fn constant_offset(
        &mut self,
        at: u64,
        bytes: usize,
        (symbol, plus): (Symbol, i64),
        mask: Option<u64>,
    ) -> Result<(), &'static str> {
        let first_byte = mask.map_or(Some(0), byte_of).ok_or("This part of an address")?;
        let (of, at) = (self.of, at as usize);
        self.constants.push(ConstantAddress { of, at, bytes, first_byte, symbol, plus });
        self.bytes(at as u64, &[0; 8][..bytes])
    }

    /// The relocations for the address of a symbol, as ptxas has it.
    fn address(&mut self, symbol: Symbol, generic: bool) -> Result<AddressRelocs, &'static str> {
        match self.module.symbols[symbol.0 as usize].kind {
            SymbolKind::Variable { space: Space::Global, .. } => Ok(GENERIC),
            SymbolKind::Variable { space: Space::Const, .. } if generic => Ok(GENERIC),
            SymbolKind::Variable { space: Space::Const, .. } if self.relocatable => Ok(PLAIN),
            // In an executable it is the address itself, as nvlink writes it.
            SymbolKind::Function { .. } => {
                self.functions.push(name(self.module, symbol));
                Ok(if self.relocatable && self.machine.unified_functions { UNIFIED } else { PLAIN })
            }
            _ => Err("The address of something in no global memory in an initialiser"),
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

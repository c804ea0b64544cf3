//! The symbols of a file: of sections, of the system, of variables, functions and images.

use super::{Builder, Part};
use crate::error::WriteError;
use crate::module::{CONSTANT_SIZE, Variable, append};
use crate::module::{Function, ImageKind, Linkage, Memory, Module, Origin, Pool, SharedHome, SharedVariable};
use crate::names::{Binding, MemorySpace, SymbolType};
use crate::object::{Home, Symbol, SymbolOther};

/// Names for the parameters of a kernel, and for bank 0 of a kernel that has none.
const PARAM_NAME: &str = "_param";
const NO_PARAM_NAME: &str = "_SREG";
/// What the linker may define in any relocatable file since sm_90.
const UNIFIED_TABLES: [&str; 8] = [
    "__UDT_OFFSET",
    "__UFT_OFFSET",
    "__UFT_CANONICAL",
    "__UDT_CANONICAL",
    "__UFT",
    "__UDT",
    "__UFT_END",
    "__UDT_END",
];

impl Builder<'_> {
    /// Lists the symbols: null, one per section that others refer to, then locals, then the rest.
    pub(super) fn list_symbols(&mut self) -> Result<(), WriteError> {
        let mut symbols = vec![Symbol::null()];
        let sections = self.parts.iter().filter(|&&part| self.has_section_symbol(part));
        symbols.extend(sections.map(|&part| Symbol {
            name: self.name(part),
            kind: SymbolType::SECTION,
            home: self.home(part),
            ..Symbol::null()
        }));
        let (locals, others): (Vec<_>, Vec<_>) =
            self.named_symbols().into_iter().partition(|symbol| symbol.binding == Binding::LOCAL);
        symbols.extend(locals);
        symbols.extend(others);
        for (index, symbol) in symbols.iter().enumerate() {
            // Each kernel has its own, and nothing refers to them.
            let is_param = symbol.other == SymbolOther::INTERNAL_CONSTANT
                && [PARAM_NAME, NO_PARAM_NAME].contains(&symbol.name.as_str());
            if !is_param && self.symbol_indices.insert(symbol.name.clone(), index as u32).is_some() {
                return Err(WriteError::in_file(format!("symbol {} is defined twice", symbol.name)));
            }
        }
        self.symbols = symbols;
        Ok(())
    }

    fn has_section_symbol(&self, part: Part) -> bool {
        match part {
            Part::SectionNames
            | Part::SymbolNames
            | Part::Symbols
            | Part::SymbolHomes
            | Part::Info
            | Part::Compat
            | Part::FunctionInfo(_)
            | Part::Rel(_)
            | Part::Rela(_) => false,
            Part::ReservedShared => !self.reserved.is_empty(),
            _ => true,
        }
    }

    fn named_symbols(&self) -> Vec<Symbol> {
        let mut symbols = self.system_symbols();
        let variables = self.module.variables.iter().zip(&self.offsets);
        symbols.extend(variables.map(|(variable, &offset)| self.variable_symbol(variable, offset)));
        symbols.extend(self.module.shared.iter().filter_map(|variable| self.shared_symbol(variable)));
        for (index, function) in self.module.functions.iter().enumerate() {
            symbols.extend(self.function_symbols(index, function));
        }
        let undefined = |name: &str, kind| Symbol {
            name: name.to_string(),
            kind,
            binding: Binding::GLOBAL,
            ..Symbol::null()
        };
        let functions = self.module.external_functions.iter();
        symbols.extend(functions.map(|name| undefined(name, SymbolType::FUNCTION)));
        symbols.extend(self.module.images.iter().map(|image| {
            let symbol = undefined(
                &image.name,
                match image.kind {
                    ImageKind::Texture => SymbolType::CUDA_TEXTURE,
                    ImageKind::Sampler { .. } => SymbolType::CUDA_SAMPLER,
                    ImageKind::Surface => SymbolType::CUDA_SURFACE,
                },
            );
            match image.parameter_of {
                None => symbol,
                Some(index) => {
                    Symbol { binding: Binding::LOCAL, home: self.home(Part::Constant0(index)), ..symbol }
                }
            }
        }));
        symbols
    }

    /// What the target adds to each file: reserved shared memory, and the tables of unified functions and data.
    fn system_symbols(&self) -> Vec<Symbol> {
        let weak = |name: &str, value, size| Symbol {
            name: name.to_string(),
            kind: SymbolType::OBJECT,
            binding: Binding::WEAK,
            value,
            size,
            ..Symbol::null()
        };
        let sizes = self.module.loader_sizes.iter();
        let mut symbols: Vec<_> = sizes
            .map(|name| match self.module.constant_size {
                Some(bytes) if name == CONSTANT_SIZE => {
                    Symbol { binding: Binding::LOCAL, other: SymbolOther::INTERNAL, ..weak(name, bytes, 4) }
                }
                _ => weak(name, 0, 4),
            })
            .collect();
        if self.is_relocatable() && self.row.unified_functions {
            symbols.extend(UNIFIED_TABLES.map(|name| weak(name, 0, 8)));
        }
        if !self.generation.has_reserved_shared {
            return symbols;
        }
        let offset = self.row.reserved_shared.into();
        symbols.push(weak(".nv.reservedSmem.offset0", offset, 4));
        if self.module.linkage == Linkage::Executable {
            symbols.push(Symbol {
                kind: SymbolType::NONE,
                other: SymbolOther::in_space(MemorySpace::RESERVED_SHARED),
                home: self.home(Part::ReservedShared),
                ..weak("__nv_reservedSMEM_offset_0_alias", offset, 0)
            });
        }
        for (variable, offset) in &self.reserved {
            let symbol = Symbol { binding: variable.binding, ..weak(&variable.name, *offset, variable.size) };
            let home = self.home(Part::ReservedShared);
            symbols.push(self.in_memory(symbol, MemorySpace::RESERVED_SHARED, home, variable.align));
        }
        let uses_shared = self.module.kernels().any(|(_, _, kernel)| kernel.shared.is_some())
            || !self.module.shared.is_empty();
        if uses_shared && offset > 0 {
            symbols.push(weak(".nv.reservedSmem.cap", self.row.shared_base.into(), 4));
        }
        symbols
    }

    /// Completes the symbol of a variable. In a relocatable file it says which memory the variable is in, and, in
    /// place of an address that the linker will choose, the alignment.
    fn in_memory(&self, symbol: Symbol, space: MemorySpace, home: Home, align: u64) -> Symbol {
        if !self.is_relocatable() {
            return Symbol { kind: SymbolType::OBJECT, home, ..symbol };
        }
        let linker_places = home == Home::Common
            || home != Home::Undefined && matches!(space, MemorySpace::SHARED | MemorySpace::RESERVED_SHARED);
        Symbol {
            kind: SymbolType::CUDA_OBJECT,
            other: SymbolOther(symbol.other.0 | SymbolOther::in_space(space).0),
            home,
            value: if linker_places { align } else { symbol.value },
            ..symbol
        }
    }

    fn variable_symbol(&self, variable: &Variable, offset: u64) -> Symbol {
        let home = match (variable.origin, variable.pool()) {
            (Origin::Common, _) => Home::Common,
            (Origin::Elsewhere, _) | (Origin::Here, None) => Home::Undefined,
            (Origin::Here, Some(Pool::Initialized)) => self.home(Part::GlobalInit),
            (Origin::Here, Some(Pool::Zero)) => self.home(Part::Global),
            (Origin::Here, Some(Pool::Constant)) => self.home(Part::Constants),
        };
        let space = match variable.memory {
            Memory::Global => MemorySpace::GLOBAL,
            Memory::Constant => MemorySpace::CONSTANT,
        };
        let symbol = Symbol {
            name: variable.name.clone(),
            binding: variable.binding,
            other: if variable.managed { SymbolOther::MANAGED } else { SymbolOther(0) },
            value: offset,
            size: variable.size,
            ..Symbol::null()
        };
        self.in_memory(symbol, space, home, variable.align)
    }

    /// `None` for a variable of the system, which is among `Builder::reserved`.
    fn shared_symbol(&self, variable: &SharedVariable) -> Option<Symbol> {
        let home = match variable.home {
            SharedHome::Kernel(index) => self.home(Part::Shared(index)),
            SharedHome::Launch if self.is_relocatable() => Home::Undefined,
            SharedHome::Module | SharedHome::Launch => self.home(Part::ModuleShared),
            SharedHome::System => return None,
        };
        let symbol = Symbol {
            name: variable.name.clone(),
            binding: variable.binding,
            value: if home == Home::Undefined { 0 } else { variable.address },
            size: variable.size,
            ..Symbol::null()
        };
        Some(self.in_memory(symbol, MemorySpace::SHARED, home, variable.align))
    }

    /// The function under all its names, what is cloned into it, and in a relocatable file its constants.
    fn function_symbols(&self, index: usize, function: &Function) -> Vec<Symbol> {
        let symbol = |name: &str, binding, other, value, size| Symbol {
            name: name.to_string(),
            kind: SymbolType::FUNCTION,
            binding,
            other,
            home: self.home(Part::Text(index)),
            value,
            size,
        };
        let other = if function.kernel.is_some() { SymbolOther::ENTRY } else { SymbolOther(0) };
        let size = function.code.len() as u64;
        let mut symbols = vec![symbol(&function.name, function.binding, other, 0, size)];
        // ptxas gives an alias the binding of what it stands for, and no size.
        let aliases = function.aliases.iter();
        symbols.extend(aliases.map(|name| symbol(name, function.binding, other, 0, 0)));
        let clones = function.clones.iter();
        symbols.extend(
            clones.map(|clone| symbol(&clone.name, clone.binding, SymbolOther(0), clone.offset, clone.size)),
        );
        if self.is_relocatable() {
            symbols.extend(self.constant_symbols(index, function));
        }
        symbols
    }

    fn constant_symbols(&self, index: usize, function: &Function) -> Vec<Symbol> {
        let constant = |name: String, part, value, size| Symbol {
            name,
            kind: SymbolType::CUDA_OBJECT,
            binding: Binding::LOCAL,
            other: SymbolOther::INTERNAL_CONSTANT,
            home: self.home(part),
            value,
            size,
        };
        let literals = function.literals.iter().map(|piece| {
            let size = piece.end.saturating_sub(piece.start);
            constant(function.literal_name(piece), Part::Constant2(index), piece.start, size)
        });
        let kernel = function.kernel.as_ref().filter(|_| self.generation.names_params);
        let params = kernel.map(|kernel| {
            let (base, size) = (kernel.params.base.into(), kernel.params.size.into());
            let (name, value, size) = match kernel.params.list.is_empty() {
                true => (NO_PARAM_NAME, 0, base),
                false => (PARAM_NAME, base, size),
            };
            constant(name.to_string(), Part::Constant0(index), value, size)
        });
        literals.chain(params).collect()
    }

    pub(super) fn home(&self, part: Part) -> Home {
        match self.index(part) {
            0 => Home::Undefined,
            index => Home::Section(index as u32),
        }
    }

    pub(super) fn symbol(&self, name: &str) -> Result<u32, WriteError> {
        let index = self.symbol_indices.get(name).copied();
        index.ok_or_else(|| WriteError::in_file(format!("symbol {name} is not defined")))
    }
}

/// The variables in the shared memory of the system: that of the target before those of the module. Patches have the
/// memory of the kernel that they are put into.
pub(super) fn reserved_variables(module: &Module, row: &targets::Target) -> Vec<(SharedVariable, u64)> {
    let has_own = module.linkage != Linkage::ToolsPatch;
    let of_target = row.reserved_variable.filter(|_| has_own).map(|variable| SharedVariable {
        name: variable.name.to_string(),
        binding: Binding::WEAK,
        home: SharedHome::System,
        align: variable.align.into(),
        size: variable.size.into(),
        address: 0,
    });
    let of_module = module.shared.iter().filter(|variable| variable.home == SharedHome::System).cloned();
    let mut end = match module.linkage {
        Linkage::Executable | Linkage::ToolsPatch => row.reserved_shared.into(),
        Linkage::Relocatable => 0,
    };
    let place = |variable: SharedVariable| {
        let offset = append(&mut end, variable.align, variable.size);
        (variable, offset)
    };
    of_target.into_iter().chain(of_module).map(place).collect()
}

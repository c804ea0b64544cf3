//! A cubin in memory: what the driver's loader makes of the file.
//!
//! * Code sections are one after the other from [`CODE`] on, variables in global memory; relocations are filled in.
//! * Each kernel has its constant banks, its static shared memory and its stack.
//! * A relocation of a kind that is not known here is an error, not a zero.

use crate::memory::{FUNCTIONS, Global, Space, slice};
use cubin::attr::{Code as AttrCode, Value};
use cubin::{Body, Home, Object, Reloc, RelocType, Section, Symbol};
use sass::{Inst, Isa, Op, Target, WORD_BYTES, decode};
use std::fmt;

/// Where code begins.
pub const CODE: u64 = FUNCTIONS;
/// Constant banks that a kernel has.
pub const BANKS: usize = 8;
/// The bank of parameters, that of `.const` variables.
const PARAMETERS: usize = 0;
const VARIABLES: usize = 3;

/// Why a file can't be run.
#[derive(Debug)]
pub enum LoadError {
    /// It is no cubin.
    Cubin(cubin::ReadError),
    /// No machine of this number is known.
    Target(u32),
    /// Variables of so many bytes.
    TooLarge(u64),
    /// A relocation that the loader does not know.
    Relocation {
        /// The section that it changes.
        section: String,
        /// Where in it.
        offset: u64,
        /// What it is.
        kind: RelocType,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LoadError::Cubin(error) => error.fmt(f),
            LoadError::Target(sm) => write!(f, "no machine sm_{sm} is known"),
            LoadError::TooLarge(bytes) => write!(f, "variables of {bytes} bytes are too large to simulate"),
            LoadError::Relocation { section, offset, kind } => {
                write!(f, "{section}: the relocation {kind:?} at {offset:#x} can't be filled in")
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// The code of a section, in the numbering of all instructions.
pub struct Routine {
    pub name: String,
    pub first: usize,
    pub count: usize,
}

pub struct Kernel {
    pub name: String,
    /// The first instruction.
    pub start: u32,
    pub banks: [Vec<u8>; BANKS],
    pub parameters: Parameters,
    /// Static shared memory, with what the system keeps below it.
    pub shared: u32,
    /// Local memory of a thread, in bytes; the stack begins at its end.
    pub stack: u32,
    /// Blocks of a cluster along the axes, if the kernel says so.
    pub cluster: Option<[u32; 3]>,
    /// Registers of a thread.
    pub registers: u32,
}

/// Where parameters are in bank 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parameters {
    pub base: usize,
    pub size: usize,
    /// Bytes before the first one, which must be at a multiple of its alignment in the bank.
    pub lead: usize,
}

pub struct Image {
    pub target: &'static Target,
    pub code: Vec<Inst>,
    pub routines: Vec<Routine>,
    pub kernels: Vec<Kernel>,
    pub globals: Global,
    /// Variables in global memory.
    pub names: Vec<(String, u64)>,
    /// `.const` variables: where they are in their bank.
    constants: Vec<(String, usize)>,
}

/// What the loader has made of a section so far.
struct Loaded {
    bytes: Vec<u8>,
    /// What an offset of 0 is at.
    base: u64,
}

impl Image {
    pub fn load(file: &[u8]) -> Result<Image, LoadError> {
        let object = Object::read(file).map_err(LoadError::Cubin)?;
        let sm = u32::from(object.header.sm());
        let target = Target::of_sm(sm).ok_or(LoadError::Target(sm))?;
        let mut globals = Global::default();
        check_size(&object)?;
        let mut sections = place(&object, &mut globals);
        relocate(&object, &mut sections)?;
        for (section, loaded) in object.sections.iter().zip(&sections) {
            let relocated = is_global(section).then(|| globals.slice(loaded.base, loaded.bytes.len()));
            if let Some(memory) = relocated.flatten() {
                memory.copy_from_slice(&loaded.bytes);
            }
        }
        let (routines, code) = code(&object, &sections, target.isa);
        let kernels = object.symbols().iter().filter(|symbol| symbol.other.is_entry());
        let kernels = kernels.filter_map(|symbol| kernel(&object, &sections, target, symbol));
        let kernels = kernels.map(|kernel| with_stack_for_calls(kernel, &routines, &code)).collect();
        let names = variables(&object, &sections, is_global);
        let is_bank = |section: &Section| constant_bank(section) == Some((VARIABLES, None));
        let constants = variables(&object, &sections, is_bank).into_iter();
        let offset = |address: u64| address.wrapping_sub(Space::Const.window()) as usize;
        let constants = constants.map(|(name, address)| (name, offset(address))).collect();
        Ok(Image { target, code, routines, kernels, globals, names, constants })
    }

    /// Puts bytes into a variable; `None` if there is none of that name, or it is smaller.
    pub fn write_variable(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Option<()> {
        if let Some((_, address)) = self.names.iter().find(|(other, _)| other == name) {
            let memory = self.globals.slice(address.checked_add(offset)?, bytes.len())?;
            memory.copy_from_slice(bytes);
            return Some(());
        }
        let (_, start) = self.constants.iter().find(|(other, _)| other == name)?;
        for kernel in &mut self.kernels {
            let memory =
                slice(&mut kernel.banks[VARIABLES], offset.checked_add(*start as u64)?, bytes.len())?;
            memory.copy_from_slice(bytes);
        }
        Some(())
    }
}

fn is_code(section: &Section) -> bool {
    section.name.starts_with(".text.")
}

fn is_global(section: &Section) -> bool {
    section.name == ".nv.global" || section.name == ".nv.global.init"
}

/// The bank and, for those that belong to one, the kernel of a constant section.
fn constant_bank(section: &Section) -> Option<(usize, Option<&str>)> {
    let rest = section.name.strip_prefix(".nv.constant")?;
    let (bank, kernel) = match rest.split_once('.') {
        Some((bank, kernel)) => (bank, Some(kernel)),
        None => (rest, None),
    };
    bank.parse().ok().filter(|bank| *bank < BANKS).map(|bank| (bank, kernel))
}

/// Global variables are in the simulator's own memory.
fn check_size(object: &Object) -> Result<(), LoadError> {
    const MOST: u64 = 1 << 32;
    let zeros = |section: &Section| match section.body {
        Body::Zeros(count) if is_global(section) => count,
        _ => 0,
    };
    match object.sections.iter().map(zeros).max() {
        Some(bytes) if bytes > MOST => Err(LoadError::TooLarge(bytes)),
        _ => Ok(()),
    }
}

/// Copies sections that a running kernel sees, and gives each its address.
fn place(object: &Object, globals: &mut Global) -> Vec<Loaded> {
    let mut next = CODE;
    let place = |section: &Section| {
        let bytes = match &section.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Zeros(count) if is_global(section) => vec![0; usize::try_from(*count).unwrap_or(0)],
            _ => Vec::new(),
        };
        let base = if is_code(section) {
            let base = next;
            next += bytes.len() as u64;
            base
        } else if is_global(section) {
            globals.allocate(bytes.clone())
        } else if matches!(constant_bank(section), Some((VARIABLES, _))) {
            Space::Const.window()
        } else {
            0
        };
        Loaded { bytes, base }
    };
    object.sections.iter().map(place).collect()
}

fn relocate(object: &Object, sections: &mut [Loaded]) -> Result<(), LoadError> {
    let symbols = object.symbols();
    for table in &object.sections {
        let Body::Relocs(relocs) = &table.body else { continue };
        let index = table.info as usize;
        let Some(section) = object.sections.get(index) else { continue };
        if !(is_code(section) || is_global(section) || constant_bank(section).is_some()) {
            continue;
        }
        for reloc in relocs {
            let home = symbols.get(reloc.symbol as usize).map(|symbol| (symbol.home, symbol.value));
            let address = match home {
                Some((Home::Section(home), value)) => {
                    sections.get(home as usize).map_or(0, |loaded| loaded.base).wrapping_add(value)
                }
                Some((_, value)) => value,
                None => 0,
            };
            let value = address.wrapping_add_signed(reloc.addend);
            let bytes = sections.get_mut(index).map(|loaded| &mut loaded.bytes[..]).unwrap_or_default();
            fill(bytes, reloc, value).ok_or_else(|| LoadError::Relocation {
                section: section.name.clone(),
                offset: reloc.offset,
                kind: reloc.kind,
            })?;
        }
    }
    Ok(())
}

/// Writes a relocation's value into its field.
fn fill(bytes: &mut [u8], reloc: &Reloc, value: u64) -> Option<()> {
    let start = usize::try_from(reloc.offset).ok()?;
    let place = bytes.get_mut(start..)?;
    // Pieces of the field, lowest first: bit, width. A word of code is 128 bits, data what the kind says.
    let (value, pieces): (u64, &[(u32, u32)]) = match reloc.kind {
        RelocType::DATA_64 | RelocType::G64 => (value, &[(0, 64)]),
        RelocType::DATA_32 | RelocType::G32 => (value, &[(0, 32)]),
        RelocType::ABS32_LO_32 | RelocType::ABS32_32 => (value, &[(32, 32)]),
        RelocType::ABS32_HI_32 => (value >> 32, &[(32, 32)]),
        RelocType::ABS47_34 => (value >> 2, &[(34, 47)]),
        RelocType::ABS55_16_34 => (value >> 2, &[(16, 8), (34, 47)]),
        // Handles of textures: their instructions are refused when they are executed.
        RelocType::TEX_HEADER_INDEX | RelocType::SAMP_HEADER_INDEX | RelocType::SURF_HEADER_INDEX => {
            return Some(());
        }
        _ => return None,
    };
    let end = pieces.iter().map(|(bit, width)| bit + width).max()?;
    let place = place.get_mut(..end.div_ceil(8) as usize)?;
    let mut word = [0; 16];
    word.get_mut(..place.len())?.copy_from_slice(place);
    let (mut word, mut value) = (u128::from_le_bytes(word), value);
    for (bit, width) in pieces {
        let mask = u64::MAX >> (64 - width);
        word = word & !(u128::from(mask) << bit) | u128::from(value & mask) << bit;
        value = value.unbounded_shr(*width);
    }
    place.copy_from_slice(word.to_le_bytes().get(..place.len())?);
    Some(())
}

fn code(object: &Object, sections: &[Loaded], isa: Isa) -> (Vec<Routine>, Vec<Inst>) {
    let (mut routines, mut code) = (Vec::new(), Vec::new());
    for (section, loaded) in object.sections.iter().zip(sections) {
        let Some(name) = section.name.strip_prefix(".text.") else { continue };
        let first = code.len();
        let words = loaded.bytes.chunks_exact(WORD_BYTES as usize).filter_map(|word| word.try_into().ok());
        code.extend(words.map(|word| decode(isa, u128::from_le_bytes(word))));
        routines.push(Routine { name: name.to_string(), first, count: code.len() - first });
    }
    (routines, code)
}

fn kernel(object: &Object, sections: &[Loaded], target: &Target, symbol: &Symbol) -> Option<Kernel> {
    let Home::Section(home) = symbol.home else { return None };
    let start = sections.get(home as usize)?.base.wrapping_add(symbol.value).checked_sub(CODE)? / WORD_BYTES;
    let mut banks: [Vec<u8>; BANKS] = Default::default();
    for (section, loaded) in object.sections.iter().zip(sections) {
        match constant_bank(section) {
            Some((bank, owner)) if owner.is_none_or(|owner| owner == symbol.name) => {
                banks[bank].clone_from(&loaded.bytes);
            }
            _ => {}
        }
    }
    let parameters = parameters(object, &symbol.name)
        .unwrap_or(Parameters { base: target.small_params as usize, ..Parameters::default() });
    let end = parameters.base + parameters.size;
    if banks[PARAMETERS].len() < end {
        banks[PARAMETERS].resize(end, 0);
    }
    let shared = object.section(&format!(".nv.shared.{}", symbol.name));
    let shared = shared.map_or(0, |(_, section)| match section.body {
        Body::Zeros(count) => u32::try_from(count).unwrap_or(u32::MAX),
        _ => 0,
    });
    let stack = stack(object, symbol).next_multiple_of(16).max(LEAST_STACK);
    let shared = shared.max(target.shared_base);
    let cluster = cluster(object, &symbol.name);
    let registers = of_symbol(object, symbol, AttrCode::REGCOUNT).max().unwrap_or(Target::MOST_REGISTERS);
    Some(Kernel {
        cluster,
        registers,
        name: symbol.name.clone(),
        start: start as u32,
        banks,
        parameters,
        shared,
        stack,
    })
}

fn parameters(object: &Object, kernel: &str) -> Option<Parameters> {
    let info = object.attributes(&format!(".nv.info.{kernel}"));
    let lead = object.first_parameter(kernel);
    info.iter().find_map(|attribute| match &attribute.value {
        Value::ParamBank(bank) => Some(Parameters { base: bank.base.into(), size: bank.size.into(), lead }),
        _ => None,
    })
}

/// CTA_PER_CLUSTER: the blocks of a cluster along the axes.
fn cluster(object: &Object, kernel: &str) -> Option<[u32; 3]> {
    let info = object.attributes(&format!(".nv.info.{kernel}"));
    let attribute = info.iter().find(|attribute| attribute.code == AttrCode::CTA_PER_CLUSTER)?;
    match &attribute.value {
        Value::Words(words) => <[u32; 3]>::try_from(&words[..]).ok().filter(|sizes| !sizes.contains(&0)),
        _ => None,
    }
}

/// Local memory that the driver gives to every thread (`CU_LIMIT_STACK_SIZE`); an H200 stops at an access after it.
const LEAST_STACK: u32 = 1 << 10;
/// Local memory beyond that, for calls of unknown depth.
const STACK_FOR_CALLS: u32 = 16 << 10;

fn with_stack_for_calls(kernel: Kernel, routines: &[Routine], code: &[Inst]) -> Kernel {
    let start = kernel.start as usize;
    let routine =
        routines.iter().find(|routine| (routine.first..routine.first + routine.count).contains(&start));
    let body = routine.and_then(|routine| code.get(routine.first..routine.first + routine.count));
    let calls = body.is_some_and(|body| body.iter().any(|inst| inst.op() == Op::CALL));
    Kernel { stack: kernel.stack + if calls { STACK_FOR_CALLS } else { 0 }, ..kernel }
}

/// More local memory no thread has.
const MOST_STACK: u32 = 512 << 10;

/// MIN_STACK_SIZE of the kernel; `ptxas -g` writes the largest number where recursion makes it unknown.
fn stack(object: &Object, symbol: &Symbol) -> u32 {
    let sizes = of_symbol(object, symbol, AttrCode::MIN_STACK_SIZE);
    sizes.filter(|size| *size <= MOST_STACK).max().unwrap_or(0)
}

/// What an attribute says of a function.
fn of_symbol<'o>(object: &'o Object, symbol: &'o Symbol, code: AttrCode) -> impl Iterator<Item = u32> + 'o {
    let symbols = object.symbols();
    object.attributes(".nv.info").iter().filter_map(move |attribute| match attribute.value {
        Value::PerSymbol { symbol: index, value } if attribute.code == code => {
            symbols.get(index as usize).filter(|s| s.name == symbol.name).map(|_| value)
        }
        _ => None,
    })
}

/// Names of what is in some sections, with their addresses.
fn variables(
    object: &Object,
    sections: &[Loaded],
    is_there: impl Fn(&Section) -> bool,
) -> Vec<(String, u64)> {
    let variable = |symbol: &Symbol| match symbol.home {
        Home::Section(home) => {
            let section = object.sections.get(home as usize).filter(|section| is_there(section))?;
            let base = sections.get(home as usize)?.base;
            (symbol.name != section.name).then(|| (symbol.name.clone(), base.wrapping_add(symbol.value)))
        }
        _ => None,
    };
    object.symbols().iter().filter_map(variable).collect()
}

//! Lowers loads and stores.
//!
//! Elements narrower than a word are packed in words: a load unpacks and extends each to its register, a store packs
//! the low parts of its registers.

use crate::context::CacheRule;
use crate::lower::Lower;
use crate::lower::build::RZ;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::{Address, Space};
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

/// The scope of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Cta,
    /// Blocks of a cluster share no cache closer than the GPU's.
    Gpu,
    Sys,
}

impl Scope {
    pub fn read(ins: &Ins) -> Option<Scope> {
        Some(match ins.one_of(&["cta", "cluster", "gpu", "sys"])? {
            "cta" => Scope::Cta,
            "sys" => Scope::Sys,
            _ => Scope::Gpu,
        })
    }

    pub fn word(self) -> M {
        match self {
            Scope::Cta => M::CTA,
            Scope::Gpu => M::GPU,
            Scope::Sys => M::SYS,
        }
    }
}

/// The memory order of an access, as the machine distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Weak,
    /// Read-only while the kernel runs.
    Constant,
    Strong(Scope),
    Mmio,
}

/// Memory order and cache behaviour of an access.
pub struct Manner {
    pub order: Order,
    /// A fence before, or an invalidation after.
    release: Option<Scope>,
    acquire: Option<Scope>,
    /// Of L1, of L2, and the prefetch size.
    evict: Option<M>,
    l2_evict: Option<M>,
    fetch: Option<M>,
}

/// Cache operators: their memory order and eviction priority.
const CACHE_OPERATORS: [(&str, Order, Option<M>); 7] = [
    ("ca", Order::Strong(Scope::Cta), None),
    ("cg", Order::Strong(Scope::Gpu), None),
    ("cs", Order::Weak, Some(M::EF)),
    ("lu", Order::Weak, Some(M::LU)),
    ("cv", Order::Strong(Scope::Sys), None),
    ("wb", Order::Strong(Scope::Cta), None),
    ("wt", Order::Strong(Scope::Sys), None),
];

/// The effective operator under a rule. ptxas doesn't change accesses with a memory order or an eviction priority, and
/// never makes a read-only load a last use.
fn effective_operator(
    rule: CacheRule,
    given: Option<&'static str>,
    ins: &Ins,
    order: Order,
) -> Option<&'static str> {
    let is_last_use = rule.operator == "lu" && ins.has_word("nc");
    let is_plain = order == Order::Weak && !ins.has(Kind::Eviction);
    match given {
        _ if !is_plain => given,
        Some(_) if !rule.forced => given,
        _ => Some(rule.operator).filter(|_| !is_last_use),
    }
}

impl Manner {
    fn read(ins: &Ins, rule: Option<CacheRule>) -> Option<Manner> {
        let mut manner = Manner {
            order: Order::Weak,
            release: None,
            acquire: None,
            evict: None,
            l2_evict: None,
            fetch: ins.one_of(&["L2::64B", "L2::128B", "L2::256B"]).map(|w| match w {
                "L2::64B" => M::LTC64B,
                "L2::128B" => M::LTC128B,
                _ => M::LTC256B,
            }),
        };
        manner.read_order(ins)?;
        let given = ins.one_of(&CACHE_OPERATORS.map(|(name, ..)| name));
        if let Some(op) = rule.map_or(given, |rule| effective_operator(rule, given, ins, manner.order)) {
            let (_, order, evict) = CACHE_OPERATORS.iter().find(|(name, ..)| *name == op)?;
            (manner.order, manner.evict) = (*order, *evict);
        }
        // Read-only data has no order, whatever the cache operator.
        if ins.flag("nc") {
            manner.order = Order::Constant;
        }
        while let Some(word) = ins.word(Kind::Eviction) {
            match word {
                "L1::evict_first" => manner.evict = Some(M::EF),
                "L1::evict_last" => manner.evict = Some(M::EL),
                "L1::evict_unchanged" => manner.evict = Some(M::EU),
                "L1::no_allocate" => manner.evict = Some(M::NA),
                "L1::evict_normal" => {}
                "L2::evict_first" => manner.l2_evict = Some(M::EFL2),
                "L2::evict_last" => manner.l2_evict = Some(M::ELL2),
                "L2::evict_normal" => manner.l2_evict = Some(M::ENL2),
                _ => return None,
            }
        }
        Some(manner)
    }

    fn read_order(&mut self, ins: &Ins) -> Option<()> {
        let word = ins.one_of(&["weak", "volatile", "relaxed", "acquire", "release"]);
        let mmio = ins.flag("mmio");
        self.order = match word {
            None | Some("weak") => Order::Weak,
            Some("volatile") => Order::Strong(Scope::Sys),
            Some(word) => {
                let scope = Scope::read(ins)?;
                match word {
                    "acquire" => self.acquire = Some(scope),
                    "release" => self.release = Some(scope),
                    _ => {}
                }
                if mmio { Order::Mmio } else { Order::Strong(scope) }
            }
        };
        Some(())
    }
}

/// The element type, and the number of elements.
#[derive(Clone, Copy)]
pub struct Data {
    pub ty: Type,
    pub count: u8,
}

impl Data {
    pub fn read(ins: &Ins) -> Option<Data> {
        let count = match ins.word(Kind::Vector) {
            None => 1,
            Some("v2") => 2,
            Some("v4") => 4,
            Some("v8") => 8,
            _ => return None,
        };
        Some(Data { ty: ins.ty()?, count })
    }

    pub fn bits(self) -> u32 {
        self.ty.bits() * u32::from(self.count)
    }

    pub fn words(self) -> u8 {
        self.bits().div_ceil(32) as u8
    }
}

/// The size modifier.
pub fn size_word(bits: u32, signed: bool) -> Option<&'static [M]> {
    Some(match (bits, signed) {
        (8, false) => &[M::U8],
        (8, true) => &[M::S8],
        (16, false) => &[M::U16],
        (16, true) => &[M::S16],
        (32, _) => &[],
        (64, _) => &[M::_64],
        (128, _) => &[M::_128],
        _ => return None,
    })
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn memory(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "ld" | "ldu" => self.load(ins),
            "st" => self.store(ins),
            "cvta" | "cvta.to" => self.cvta(ins),
            "isspacep" => self.isspacep(ins),
            "mapa" => self.mapa(ins),
            "getctarank" => self.getctarank(ins),
            "istypep" => self.istypep(ins),
            "alloca" | "stacksave" | "stackrestore" => self.stack(ins),
            _ => self.cache_control(ins),
        }
    }

    /// The modifiers of a memory order, by target.
    pub(crate) fn order(&self, order: Order) -> &'static [M] {
        match (self.machine.splits_order, order) {
            (false, Order::Weak) => &[],
            (false, Order::Constant) => &[M::CONSTANT],
            (false, Order::Strong(Scope::Cta)) => &[M::STRONG_SM],
            (false, Order::Strong(Scope::Gpu)) => &[M::STRONG_GPU],
            (false, Order::Strong(Scope::Sys)) => &[M::STRONG_SYS],
            (false, Order::Mmio) => &[M::MMIO_SYS],
            (true, Order::Weak) => &[M::SYS],
            (true, Order::Constant) => &[M::CONSTANT, M::SYS],
            (true, Order::Strong(Scope::Cta)) => &[M::STRONG, M::CTA],
            (true, Order::Strong(Scope::Gpu)) => &[M::STRONG, M::GPU],
            (true, Order::Strong(Scope::Sys)) => &[M::STRONG, M::SYS],
            (true, Order::Mmio) => &[M::MMIO, M::SYS],
        }
    }

    fn load(&mut self, ins: &Ins<'a>) -> Option<()> {
        let space = match self.params.is_in_memory(self.body, ins.get(1)?) {
            true => ins.word(Kind::Space).map(|_| Space::Local)?,
            false => self.space(ins)?,
        };
        let manner = Manner::read(ins, self.caches.0.filter(|_| space.is_cached()))?;
        let data = Data::read(ins)?;
        let policy = self.cache_hint(ins, 2)?;
        // `.volatile`: local memory is seen by its own thread alone.
        let is_strong = matches!(manner.order, Order::Strong(_) | Order::Mmio) && space != Space::Local;
        let is_unmarked = is_strong && space == Space::Shared;
        self.fence_unmarked(is_unmarked);
        let raw = match space {
            Space::Const => self.load_bank(ins.get(1)?, space, 3, 0, data)?,
            Space::Param => self.load_bank(ins.get(1)?, space, 0, self.params_start(), data)?,
            _ => self.load_memory(ins.get(1)?, space, &manner, data, policy)?,
        };
        if is_strong {
            self.kernel.code.awaited.push(raw);
        }
        self.unpack(ins.get(0)?, raw, data)?;
        self.fence_unmarked(is_unmarked);
        // Without clusters only the block itself writes to its shared memory.
        match manner.acquire {
            Some(_) if space == Space::Shared && !self.machine.has_clusters => {
                self.after_acquire(Scope::Cta);
            }
            Some(scope) => self.after_acquire(scope),
            None => {}
        }
        Some(())
    }

    /// Strong shared accesses are encoded like weak ones: compiler fences on both sides keep their order and prevent
    /// merging.
    fn fence_unmarked(&mut self, is_unmarked: bool) {
        if is_unmarked {
            self.compiler_fence(&[M::CTA, M::S]);
        }
    }

    /// From a constant bank, at most 64 bits at a time.
    fn load_bank(
        &mut self,
        operand: &Operand,
        space: Space,
        bank: u8,
        start: u32,
        data: Data,
    ) -> Option<Value> {
        let address = self.address(operand, space, i64::from(data.bits() / 8))?;
        let (index, offset) = self.bank_index(address, start);
        // Element alignment only: load element by element.
        let step = data.ty.bits().min(64);
        let size = size_word(step, data.ty.is_signed())?;
        let words = step.div_ceil(32) as u8;
        let mut pieces = Vec::new();
        for i in 0..data.bits() / step {
            // The field has 16 bits and is signed; a bank has 64 KiB, and addresses wrap.
            let offset = i32::from((offset + i64::from(i * step / 8)) as i16);
            let piece = self.kernel.code.value(File::R, words);
            self.effect(Op::LDC, size, &[piece], &[Arg::Bank { bank, index, offset }]);
            pieces.push(piece.into());
        }
        if step < 32 && pieces.len() > 1 {
            return Some(self.join(&pieces, step));
        }
        Some(if let [Arg::Use(only)] = pieces[..] { only.value } else { self.pack(&pieces) })
    }

    /// The index and the offset of an address in a bank whose first byte is `start`.
    fn bank_index(&mut self, address: Address, start: u32) -> (Option<Value>, i64) {
        let offset = address.offset + i64::from(start);
        match address.base {
            Arg::Zero(_) => (None, offset),
            base if (-0x8000..0x7fe0).contains(&offset) => (Some(self.copy(base)), offset),
            base => (Some(self.emit(Op::IADD3, &[], 1, &[base, Arg::Imm(offset), RZ])), 0),
        }
    }

    fn load_memory(
        &mut self,
        operand: &Operand,
        space: Space,
        manner: &Manner,
        data: Data,
        policy: Option<Value>,
    ) -> Option<Value> {
        if data.bits() == 256 {
            return self.load_256(operand, space, manner, policy);
        }
        let address = self.address(operand, space, 0)?;
        let signed = data.count == 1 && data.ty.is_signed();
        let size = size_word(data.bits(), signed)?;
        let result = self.kernel.code.value(File::R, data.words());
        let (op, modifiers, args) = match space {
            Space::Shared => (Op::LDS, self.shared_load_words(size), address.args().to_vec()),
            Space::Local => (Op::LDL, size.to_vec(), address.args().to_vec()),
            _ => {
                let op = if space == Space::Global { Op::LDG } else { Op::LD };
                let words = [
                    &[M::E],
                    manner.evict.as_slice(),
                    manner.fetch.as_slice(),
                    size,
                    self.order(manner.order),
                ];
                (op, words.concat(), self.far_args(address, space, manner, policy))
            }
        };
        self.effect(op, &modifiers, &[result], &args);
        Some(result)
    }

    /// sm_75 has two kinds of shared loads; ptxas only uses the one with `.U`.
    pub(crate) fn shared_load_words(&self, size: &[M]) -> Vec<M> {
        let kind: &[M] = if self.machine.splits_order { &[M::U] } else { &[] };
        [kind, size].concat()
    }

    /// The address operands of a global or generic access. Distributed shared memory and I/O have no descriptor.
    fn far_args(
        &mut self,
        address: Address,
        space: Space,
        manner: &Manner,
        policy: Option<Value>,
    ) -> Vec<Arg> {
        match space == Space::Cluster || manner.order == Order::Mmio {
            true => address.args().to_vec(),
            false => self.described(address, policy),
        }
    }

    fn load_256(
        &mut self,
        operand: &Operand,
        space: Space,
        manner: &Manner,
        policy: Option<Value>,
    ) -> Option<Value> {
        let address = self.address_256(operand, space)?;
        let (low, high) = (self.kernel.code.value(File::R, 4), self.kernel.code.value(File::R, 4));
        let l2 = manner.l2_evict.unwrap_or(M::ENL2);
        let order = self.order(manner.order);
        let words =
            [&[M::E], manner.evict.as_slice(), &[l2], manner.fetch.as_slice(), &[M::_256], order].concat();
        let args = self.described(address, policy);
        self.effect(Op::LDG, &words, &[high, low], &args);
        Some(self.pack(&[low.into(), high.into()]))
    }

    /// The offset of a 256-bit access counts units of 32 bytes and has fewer bits.
    fn address_256(&mut self, operand: &Operand, space: Space) -> Option<Address> {
        if !matches!(space, Space::Global | Space::Generic) {
            return None;
        }
        let address = self.address(operand, space, 0)?;
        if address.offset % 32 == 0 && (-(1 << 20)..1 << 20).contains(&address.offset) {
            return Some(address);
        }
        let words = self.flat(address);
        let base = self.pack(&words);
        Some(Address { base: base.into(), offset: 0 })
    }

    pub(crate) fn store(&mut self, ins: &Ins<'a>) -> Option<()> {
        let space = self.space(ins)?;
        let manner = Manner::read(ins, self.caches.1.filter(|_| space.is_cached()))?;
        let data = Data::read(ins)?;
        let policy = self.cache_hint(ins, 2)?;
        let (operand, from) = (ins.get(0)?, ins.get(1)?);
        let sunk = self.with_sinks(from);
        let value = if sunk.is_some() { None } else { Some(self.gather(from, data)?) };
        if let Some(scope) = manner.release {
            self.before_release(scope);
        }
        let Some(value) = value else {
            return self.store_present(operand, space, &manner, (sunk?, data), policy);
        };
        if data.bits() == 256 {
            return self.store_256(operand, space, &manner, value, policy);
        }
        let address = self.address(operand, space, 0)?;
        let size = size_word(data.bits(), false)?;
        let (op, modifiers, mut args) = match space {
            Space::Shared => (Op::STS, size.to_vec(), address.args().to_vec()),
            Space::Local => (Op::STL, size.to_vec(), address.args().to_vec()),
            Space::Const | Space::Param => return None,
            _ => {
                let op = if space == Space::Global { Op::STG } else { Op::ST };
                let words = [&[M::E], manner.evict.as_slice(), size, self.order(manner.order)].concat();
                (op, words, self.far_args(address, space, &manner, policy))
            }
        };
        args.push(value.into());
        let is_strong = matches!(manner.order, Order::Strong(_) | Order::Mmio);
        let is_unmarked = is_strong && space == Space::Shared;
        self.fence_unmarked(is_unmarked);
        self.effect(op, &modifiers, &[], &args);
        self.fence_unmarked(is_unmarked);
        Some(())
    }

    /// The elements of a vector some of which are sinks.
    fn with_sinks(&self, operand: &Operand) -> Option<&'a [Operand]> {
        let Operand::Vector(range) = operand else { return None };
        let body = self.body;
        Some(body.list(*range)).filter(|list| list.contains(&Operand::Sink))
    }

    /// Stores each element but the sinks by itself: to memory a vector is its elements.
    fn store_present(
        &mut self,
        operand: &Operand,
        space: Space,
        manner: &Manner,
        (elements, data): (&[Operand], Data),
        policy: Option<Value>,
    ) -> Option<()> {
        let address = self.address(operand, space, i64::from(data.bits() / 8))?;
        let op = if space == Space::Global { Op::STG } else { Op::ST };
        let size = size_word(data.ty.bits(), false)?;
        let words = [&[M::E], manner.evict.as_slice(), size, self.order(manner.order)].concat();
        let offsets = (address.offset..).step_by(data.ty.bytes() as usize);
        for (element, offset) in elements.iter().zip(offsets) {
            if matches!(element, Operand::Sink) {
                self.mark_read(element);
                continue;
            }
            let value = self.gather(element, Data { count: 1, ..data })?;
            let mut args = self.far_args(Address { offset, ..address }, space, manner, policy);
            args.push(value.into());
            self.effect(op, &words, &[], &args);
        }
        Some(())
    }

    fn store_256(
        &mut self,
        operand: &Operand,
        space: Space,
        manner: &Manner,
        value: Value,
        policy: Option<Value>,
    ) -> Option<()> {
        let address = self.address_256(operand, space)?;
        let l2 = manner.l2_evict.unwrap_or(M::ENL2);
        let words = [&[M::E], manner.evict.as_slice(), &[l2], &[M::_256], self.order(manner.order)].concat();
        let mut args = self.described(address, policy);
        args.extend([Arg::part(value, 0, 4), Arg::part(value, 4, 4)]);
        self.effect(Op::STG, &words, &[], &args);
        Some(())
    }

    /// Unpacks a loaded value to the destination's registers.
    pub(crate) fn unpack(&mut self, to: &Operand, raw: Value, data: Data) -> Option<()> {
        let body = self.body;
        let elements = match to {
            Operand::Vector(range) => body.list(*range),
            // A vector register has the layout of memory.
            Operand::Reg(_) if data.count > 1 => return self.set(to, raw),
            _ => std::slice::from_ref(to),
        };
        let pieces = self.whole_elements(raw, data);
        for (i, element) in elements.iter().enumerate() {
            if matches!(element, Operand::Sink) {
                self.mark_read(element);
                continue;
            }
            let value = match pieces.get(i) {
                Some(piece) => *piece,
                None => self.element(raw, i as u8, data),
            };
            let value = self.widened(value, element, data.ty)?;
            self.set(element, value)?;
        }
        (elements.len() == usize::from(data.count)).then_some(())
    }

    /// Elements of whole words, as one tuple, so that they stay in the registers of the load. Not under a guard: there
    /// each is a guarded copy, which is later folded into the load (`opt/combine/vectors.rs`).
    fn whole_elements(&mut self, raw: Value, data: Data) -> Vec<Value> {
        if data.count == 1 || data.ty.bits() < 32 || self.guard.is_some() {
            return Vec::new();
        }
        let words = (data.ty.bits() / 32) as u8;
        let pieces: Vec<Value> = (0..data.count).map(|_| self.kernel.code.value(File::R, words)).collect();
        let apart = self.data(ori::Op::Pseudo(ori::Pseudo::Unpack), &[], &pieces, &[raw.into()]);
        self.kernel.code.append(self.block, apart);
        pieces
    }

    /// An unpacked element; a narrow one is sign- or zero-extended.
    fn element(&mut self, raw: Value, index: u8, data: Data) -> Value {
        let bits = data.ty.bits();
        if data.count == 1 {
            return raw;
        }
        if bits >= 32 {
            let words = (bits / 32) as u8;
            return self.copy(Arg::part(raw, index * words, words));
        }
        let first = u32::from(index) * bits / 8;
        let word = Arg::word(raw, (first / 4) as u8);
        let (low, high) = (first % 4, (first + bits / 8 - 1) % 4);
        // PRMT selectors: the element's bytes, then its sign (8 + byte) or a byte of RZ.
        let fill = if data.ty.is_signed() { 8 | high } else { 7 };
        let second = if bits == 16 { high } else { fill };
        let selector = fill << 12 | fill << 8 | second << 4 | low;
        self.emit(Op::PRMT, &[], 1, &[word, Arg::Imm(i64::from(selector)), RZ])
    }

    /// Extended to the width of its register.
    fn widened(&mut self, value: Value, to: &Operand, ty: Type) -> Option<Value> {
        let words = match to {
            Operand::Reg(reg) => self.shape(*reg).1,
            Operand::Part { reg, .. } => self.body.reg_decl(*reg).0.ty.bits().div_ceil(32) as u8,
            _ => return None,
        };
        let have = self.kernel.code.values[value].words;
        if have == words {
            return Some(value);
        }
        let top = Arg::word(value, have - 1);
        let fill = match ty.is_signed() {
            true => self.emit(Op::SHF, &[M::R, M::S32, M::HI], 1, &[RZ, Arg::Imm(31), top]).into(),
            false => RZ,
        };
        let mut parts = vec![Arg::from(value)];
        parts.extend((have..words).map(|_| fill));
        (have < words).then(|| self.pack(&parts))
    }

    /// The data of a store as one value.
    pub(crate) fn gather(&mut self, from: &Operand, data: Data) -> Option<Value> {
        let body = self.body;
        let elements = match from {
            Operand::Vector(range) => body.list(*range),
            Operand::Reg(reg) if data.count > 1 => {
                self.mark_read(from);
                let value = self.read(*reg);
                return (self.kernel.code.values[value].words == data.words()).then_some(value);
            }
            _ => std::slice::from_ref(from),
        };
        if elements.len() != usize::from(data.count) {
            return None;
        }
        let mut parts = Vec::new();
        for element in elements {
            parts.push(self.low_part(element, data.ty)?);
        }
        if data.ty.bits() < 32 && parts.len() > 1 {
            return Some(self.join(&parts, data.ty.bits()));
        }
        Some(match parts[..] {
            [only] => {
                let only = self.in_register(only);
                self.copy(only)
            }
            _ => self.pack(&parts),
        })
    }

    /// The low words of an operand, as wide as the type.
    fn low_part(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        let words = ty.bits().div_ceil(32) as u8;
        match operand {
            Operand::Reg(_) | Operand::Part { .. } => {
                let whole = self.whole(operand)?;
                let Arg::Use(u) = whole else { return None };
                let have = self.count(&whole);
                let first = u.part.map_or(0, |p| p.first);
                match have.cmp(&words) {
                    std::cmp::Ordering::Less => None,
                    std::cmp::Ordering::Equal => Some(whole),
                    std::cmp::Ordering::Greater => Some(Arg::part(u.value, first, words)),
                }
            }
            _ if words == 1 => self.word(operand, ty),
            _ => {
                let bits = self.constant(operand, ty)?;
                // A constant has 64 bits and is sign-extended beyond.
                let word = |i: u8| match i {
                    0 => bits as u32,
                    1 => (bits >> 32) as u32,
                    _ => ((bits as i64) >> 63) as u32,
                };
                let parts: Vec<Arg> = (0..words).map(|i| Arg::Imm(i64::from(word(i) as i32))).collect();
                Some(self.pack(&parts).into())
            }
        }
    }

    /// Packs narrow elements.
    pub(crate) fn join(&mut self, parts: &[Arg], bits: u32) -> Value {
        let halves: Vec<Arg> = match bits {
            8 => parts.chunks(2).map(|pair| self.permute(pair, 0x3340)).collect(),
            _ => parts.to_vec(),
        };
        let words: Vec<Arg> = halves.chunks(2).map(|pair| self.permute(pair, 0x5410)).collect();
        match words[..] {
            [Arg::Use(only)] => only.value,
            _ => self.pack(&words),
        }
    }

    /// PRMT of two words; a single word is unchanged.
    fn permute(&mut self, pair: &[Arg], selector: i64) -> Arg {
        match *pair {
            [a, b] => {
                let (a, b) = (self.in_register(a), self.in_register(b));
                self.emit(Op::PRMT, &[], 1, &[a, Arg::Imm(selector), b]).into()
            }
            [a] => self.in_register(a),
            _ => RZ,
        }
    }
}

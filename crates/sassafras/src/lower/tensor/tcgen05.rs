//! Lowers `tcgen05`: loads, stores, copies and MMAs of tensor memory.
//!
//! Loads and stores are warp-wide with a uniform address. All other operations are started by one thread with uniform
//! operands.

use crate::lower::Lower;
use crate::lower::build::{PT, RZ, constant};
use crate::lower::instruction::Ins;
use crate::lower::memory::load_store::Data;
use crate::lower::sync::waterfall::Grouping;
use ori::{Arg, File, Guard, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};
use smallvec::SmallVec;

const URZ: Arg = Arg::Zero(File::UR);

/// Shapes of loads and stores: the modifier, the registers of each repetition, and the shape of the upper half of the
/// warp, where the two halves are moved separately.
const SHAPES: [(&str, Option<M>, u8, Option<M>); 5] = [
    ("16x64b", Some(M::_16dp64bit), 1, None),
    ("16x128b", Some(M::_16dp128bit), 2, None),
    ("16x256b", Some(M::_16dp256bit), 4, None),
    ("32x32b", None, 1, None),
    ("16x32bx2", Some(M::_16dp32bit_t0_t15), 1, Some(M::_16dp32bit_t16_t31)),
];

/// Repetitions of a shape. The machine counts registers in units of the shape.
const REPEATS: [(&str, Option<M>, u8); 8] = [
    ("x1", None, 1),
    ("x2", Some(M::x2), 2),
    ("x4", Some(M::x4), 4),
    ("x8", Some(M::x8), 8),
    ("x16", Some(M::x16), 16),
    ("x32", Some(M::x32), 32),
    ("x64", Some(M::x64), 64),
    ("x128", Some(M::x128), 128),
];

/// The data of a load or store.
struct Tile {
    shape: Option<M>,
    upper: Option<M>,
    repeat: Option<M>,
    data: Data,
}

impl Tile {
    fn read(ins: &Ins) -> Option<Tile> {
        let shape = ins.one_of(&SHAPES.map(|(name, ..)| name))?;
        let (_, shape, each, upper) = SHAPES.into_iter().find(|(name, ..)| *name == shape)?;
        let repeat = ins.one_of(&REPEATS.map(|(name, ..)| name))?;
        let (_, repeat, count) = REPEATS.into_iter().find(|(name, ..)| *name == repeat)?;
        Some(Tile { shape, upper, repeat, data: Data { ty: Type::B32, count: each * count } })
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn tcgen05(&mut self, ins: &Ins<'a>) -> Option<()> {
        let group = ins.one_of(&["cta_group::1", "cta_group::2"]);
        let pair = group == Some("cta_group::2");
        self.kernel.uses.tensor_memory |= group.is_some() && !pair;
        self.kernel.uses.paired_tensor_memory |= pair;
        self.kernel.uses.tensor_work |=
            group.is_some() && ins.mnemonic() != "tcgen05.relinquish_alloc_permit";
        match ins.mnemonic() {
            "tcgen05.ld" | "tcgen05.ld.red" => self.tensor_load(ins),
            "tcgen05.st" => self.tensor_store(ins),
            "tcgen05.wait::ld" => {
                // Loads have scoreboards; `mach/control_codes.rs` inserts the waits.
                self.aligned(ins);
                self.effect(Op::NOP, &[], &[], &[]);
                Some(())
            }
            "tcgen05.wait::st" => {
                self.aligned(ins);
                self.effect(Op::FENCE, &[M::VIEW, M::ASYNC, M::T], &[], &[]);
                Some(())
            }
            // Operations start in order; the barrier between the threads does the rest.
            "tcgen05.fence::before_thread_sync" | "tcgen05.fence::after_thread_sync" => {
                self.compiler_fence(&[M::CTA]);
                Some(())
            }
            "tcgen05.shift" => self.tensor_shift(ins, pair),
            "tcgen05.cp" => self.tensor_fill(ins, pair),
            "tcgen05.commit" => self.tensor_commit(ins, pair),
            "tcgen05.mma" | "tcgen05.mma.ws" => self.tensor_multiply(ins, pair),
            "tcgen05.alloc" => self.tensor_alloc(ins, pair),
            "tcgen05.dealloc" => self.tensor_dealloc(ins),
            "tcgen05.relinquish_alloc_permit" => self.relinquish_alloc(ins),
            _ => None,
        }
    }

    /// An address in tensor memory: a register and an offset, both of one word.
    fn tensor_address(&mut self, operand: &Operand) -> Option<(Arg, i64)> {
        let Operand::Address(range) = operand else { return None };
        let (base, offset) = match self.body.list(*range) {
            [base] => (base, 0),
            [base, offset @ Operand::Offset(n)] => {
                self.mark_read(offset);
                (base, i64::from(*n as i32))
            }
            _ => return None,
        };
        let base = self.word(base, Type::B32)?;
        Some((self.in_register(base), offset))
    }

    /// The same in one word.
    fn tensor_word(&mut self, operand: &Operand) -> Option<Arg> {
        Some(match self.tensor_address(operand)? {
            (base, 0) => base,
            (base, offset) => self.emit(Op::IADD3, &[], 1, &[base, Arg::Imm(offset), RZ]).into(),
        })
    }

    fn tensor_load(&mut self, ins: &Ins<'a>) -> Option<()> {
        self.aligned(ins);
        let tile = Tile::read(ins)?;
        let reduces = ins.mnemonic() == "tcgen05.ld.red";
        let statistic = if reduces { statistic(ins)? } else { Vec::new() };
        let packed = ins.flag("pack::16b").then_some(M::PACK16BIT);
        let _b32 = ins.types();
        let (address, split) = (1 + usize::from(reduces), 2 + usize::from(reduces));
        let (base, offset) = self.tensor_address(ins.get(address)?)?;
        let split = tile.upper.map(|upper| Some((upper, constant(ins.get(split)?, Type::U32)? as i64)));
        let words = |shape: Option<M>| -> Vec<M> {
            let kind = reduces.then_some(M::STAT);
            kind.into_iter()
                .chain(shape)
                .chain(tile.repeat)
                .chain(statistic.iter().copied())
                .chain(packed)
                .collect()
        };
        let fresh = |l: &mut Self| -> SmallVec<[Value; 2]> {
            let found = reduces.then(|| l.kernel.code.value(File::R, 1));
            let loaded = l.kernel.code.value(File::R, tile.data.words());
            found.into_iter().chain([loaded]).collect()
        };
        self.in_guarded_branch(|l| {
            let base = l.in_uniform(base);
            let mut results = fresh(l);
            l.effect(Op::LDTM, &words(tile.shape), &results, &[base, Arg::Imm(offset)]);
            if let Some(upper) = split {
                let (shape, further) = upper?;
                let lower_half = std::mem::replace(&mut results, fresh(l));
                let args = [base, Arg::Imm(offset + further)];
                l.load_upper_half(&words(Some(shape)), &results, &args, &lower_half);
            }
            let loaded = *results.last()?;
            l.set(ins.get(0)?, loaded)?;
            if reduces { l.set(ins.get(1)?, results[0]) } else { Some(()) }
        })
    }

    /// A load for the upper half of the warp; the lower half keeps its registers. An always-true guard models that: its
    /// else values are the previous results.
    fn load_upper_half(&mut self, words: &[M], results: &[Value], args: &[Arg], else_values: &[Value]) {
        let always = self.uniform_predicate(PT);
        let mut data = self.data(ori::Op::Machine(Op::LDTM), words, results, args);
        data.guard =
            Some(Guard { predicate: always, negated: false, else_values: SmallVec::from_slice(else_values) });
        self.kernel.code.append(self.block, data);
    }

    /// Does a predicate hold for any thread here?
    fn uniform_predicate(&mut self, predicate: Arg) -> Value {
        let result = self.kernel.code.value(File::UP, 1);
        self.effect(Op::VOTEU, &[M::ANY], &[result], &[predicate]);
        result
    }

    fn tensor_store(&mut self, ins: &Ins<'a>) -> Option<()> {
        self.aligned(ins);
        let tile = Tile::read(ins)?;
        let expand = ins.flag("unpack::16b").then_some(M::EXPAND16BIT);
        ins.ty()?;
        let (base, offset) = self.tensor_address(ins.get(0)?)?;
        let source = ins.get(if tile.upper.is_some() { 2 } else { 1 })?;
        let value = self.gather(source, tile.data)?;
        let split = tile.upper.map(|upper| Some((upper, constant(ins.get(1)?, Type::U32)? as i64)));
        self.in_guarded_branch(|l| {
            let base = l.in_uniform(base);
            let mut store = |shape: Option<M>, offset: i64| {
                let words: Vec<M> = shape.into_iter().chain(tile.repeat).chain(expand).collect();
                l.effect(Op::STTM, &words, &[], &[base, Arg::Imm(offset), value.into()]);
            };
            store(tile.shape, offset);
            if let Some(upper) = split {
                let (shape, further) = upper?;
                store(Some(shape), offset + further);
            }
            Some(())
        })?;
        self.rebind_registers(source, value)
    }

    /// Rebinds registers to the packed tuple, so that later uses read it there. Otherwise a large fragment would be
    /// live twice.
    fn rebind_registers(&mut self, registers: &Operand, value: Value) -> Option<()> {
        let Operand::Vector(range) = registers else { return Some(()) };
        if !self.body.list(*range).iter().all(|e| matches!(e, Operand::Reg(_))) {
            return Some(());
        }
        // The bits are the same whether or not the guard is true.
        self.guard = None;
        self.set(registers, value)
    }

    fn tensor_shift(&mut self, ins: &Ins<'a>, pair: bool) -> Option<()> {
        if !ins.flag("down") {
            return None;
        }
        let (base, offset) = self.tensor_address(ins.get(0)?)?;
        let words: Vec<M> = pair.then_some(M::_2CTA).into_iter().chain([M::DOWN]).collect();
        self.in_waterfall(Grouping::Thread, &[base], |l, uniform| {
            l.effect(Op::UTCSHIFT, &words, &[], &[uniform[0], Arg::Imm(offset)]);
            Some(())
        })
    }

    /// `tcgen05.cp`: from shared memory, given by a descriptor.
    fn tensor_fill(&mut self, ins: &Ins<'a>, pair: bool) -> Option<()> {
        let shape = ins.one_of(&["128x256b", "4x256b", "128x128b", "64x128b", "32x128b"])?;
        let share = ins.one_of(&["warpx2::02_13", "warpx2::01_23", "warpx4"]);
        let shape = match (shape, share) {
            ("128x256b", None) => None,
            ("4x256b", None) => Some(M::_4dp256bit),
            ("128x128b", None) => Some(M::_128dp128bit),
            ("64x128b", Some("warpx2::02_13")) => Some(M::_2x64dp128bit_lw02_lw13),
            ("64x128b", Some("warpx2::01_23")) => Some(M::_2x64dp128bit_lw01_lw23),
            ("32x128b", Some("warpx4")) => Some(M::_4x32dp128bit),
            _ => return None,
        };
        let format = match (ins.flag("b8x16"), ins.one_of(&["b6x16_p32", "b4x16_p64"])) {
            (false, None) => None,
            (true, Some("b6x16_p32")) => Some(M::U6x16P32),
            (true, Some(_)) => Some(M::U4x16P64),
            _ => return None,
        };
        let (base, offset) = self.tensor_address(ins.get(0)?)?;
        let [low, high] = self.words(ins.get(1)?, Type::U64)?;
        let pair = pair.then_some(M::_2CTA);
        let words: Vec<M> = [M::T, M::S].into_iter().chain(pair).chain(shape).chain(format).collect();
        self.in_waterfall(Grouping::Thread, &[base, low, high], |l, uniform| {
            let descriptor = l.pack_uniform(&uniform[1..]);
            l.effect(Op::UTCCP, &words, &[], &[uniform[0], Arg::Imm(offset), descriptor.into()]);
            Some(())
        })
    }

    /// `tcgen05.commit`: a barrier tracks completion of the earlier operations.
    fn tensor_commit(&mut self, ins: &Ins<'a>, pair: bool) -> Option<()> {
        let _ = (ins.flag("mbarrier::arrive::one"), ins.word(Kind::Space), ins.ty()?);
        let multicast = ins.flag("multicast::cluster");
        let mut all = vec![self.shared_word(ins.get(0)?)?];
        let mut words: Vec<M> = pair.then_some(M::_2CTA).into_iter().collect();
        if multicast {
            all.push(self.word(ins.get(1)?, Type::B16)?);
            words.push(M::MULTICAST);
        }
        self.in_waterfall(Grouping::Thread, &all, |l, uniform| {
            let args = [&uniform[..1], &[URZ], &uniform[1..]].concat();
            l.effect(Op::UTCBAR, &words, &[], &args);
            Some(())
        })
    }

    fn tensor_multiply(&mut self, ins: &Ins<'a>, pair: bool) -> Option<()> {
        let weights = ins.mnemonic() == "tcgen05.mma.ws";
        let sparse = ins.flag("sp");
        let scaled = ins.flag("block_scale");
        let (op, variant) = self.multiplier(ins)?;
        let shifted = ins.flag("ashift");
        let mut words: Vec<M> = pair.then_some(M::_2CTA).into_iter().collect();
        words.extend(variant);
        words.extend(weights.then_some(M::WS));
        words.extend(shifted.then_some(M::ASHIFT));
        let collector = Collector::read(ins)?;

        let mut next = 0;
        let mut operand = || {
            next += 1;
            ins.get(next - 1)
        };
        let d = self.tensor_word(operand()?)?;
        let a = match operand()? {
            address @ Operand::Address(_) => vec![self.tensor_word(address)?],
            descriptor => self.words(descriptor, Type::U64)?.to_vec(),
        };
        let b = self.words(operand()?, Type::U64)?.to_vec();
        let metadata = if sparse { self.tensor_word(operand()?)? } else { Arg::Imm(0) };
        let instruction = self.word(operand()?, Type::U32)?;
        let mut last = Vec::new();
        if scaled {
            last = vec![self.tensor_word(operand()?)?, self.tensor_word(operand()?)?];
        }
        let mut accumulates = operand()?;
        if let Operand::Vector(lanes) = accumulates {
            for lane in self.body.list(*lanes) {
                last.push(self.word(lane, Type::B32)?);
            }
            accumulates = operand()?;
        }
        let accumulates = self.predicate(accumulates)?;
        let mut scale = None;
        match operand() {
            Some(columns) if weights => last = self.words(columns, Type::U64)?.to_vec(),
            Some(exponent) => scale = Some(Arg::Imm(constant(exponent, Type::U32)? as i64)),
            None => {}
        }
        let groups = [a, b, vec![d], vec![metadata, instruction], last];
        self.in_waterfall(Grouping::Thread, &groups.concat(), |l, uniform| {
            let accumulates = l.uniform_predicate(accumulates);
            let mut rest = uniform;
            let mut args = Vec::new();
            for (i, group) in groups.iter().enumerate() {
                let (these, others) = rest.split_at_checked(group.len())?;
                rest = others;
                let whole = match these {
                    [] => continue,
                    [one] => *one,
                    several => l.pack_uniform(several).into(),
                };
                // Operands in tensor memory are tagged, unlike descriptors, to select the right form.
                match (i, whole) {
                    (0, _) if these.len() == 1 => args.push(collector.mark(whole.suffixed(M::T), true)),
                    (0, _) => args.push(collector.mark(whole, true)),
                    (1, _) => args.push(collector.mark(whole, false)),
                    // The metadata and the instruction descriptor are separate operands.
                    (3, Arg::Use(u)) => args.extend([Arg::word(u.value, 0), Arg::word(u.value, 1)]),
                    (4, _) if scaled => args.push(whole.suffixed(M::T)),
                    _ => args.push(whole),
                }
            }
            args.push(accumulates.into());
            args.extend(scale);
            l.effect(op, &words, &[], &args);
            Some(())
        })
    }

    /// The operation for a kind, and its variant for the size of the scaled blocks.
    fn multiplier(&self, ins: &Ins) -> Option<(Op, Option<M>)> {
        let kind = ins.one_of(&[
            "kind::f16",
            "kind::tf32",
            "kind::f8f6f4",
            "kind::i8",
            "kind::mxf8f6f4",
            "kind::mxf4",
            "kind::mxf4nvf4",
        ])?;
        let size = ins.one_of(&["scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"]);
        let small_blocks = matches!(size, Some("scale_vec::4X" | "block16"));
        Some(match kind {
            "kind::f16" | "kind::tf32" => (Op::UTCHMMA, None),
            "kind::f8f6f4" | "kind::mxf8f6f4" => (Op::UTCQMMA, None),
            "kind::i8" => (Op::UTCIMMA, None),
            _ if small_blocks => (Op::UTCOMMA, Some(self.machine.block16_modifier())),
            _ => (Op::UTCOMMA, None),
        })
    }
}

/// The reduction of a load over its columns.
fn statistic(ins: &Ins) -> Option<Vec<M>> {
    let (least, absolute, nan) = (ins.one_of(&["min", "max"])? == "min", ins.flag("abs"), ins.flag("NaN"));
    let op = match (least, absolute) {
        (true, false) => M::MIN,
        (true, true) => M::MINABS,
        (false, false) => M::MAX,
        (false, true) => M::MAXABS,
    };
    let ty = match ins.ty()?.name() {
        "f32" => Some(M::F32),
        "s32" => Some(M::S32),
        _ => None,
    };
    Some([op].into_iter().chain(ty).chain(nan.then_some(M::NAN)).collect())
}

/// Collector buffer usage: the matrix to retain for the next operation, and the one retained from the last.
struct Collector {
    /// For A, not B.
    is_a: bool,
    how: Vec<M>,
}

/// The collectors of B are numbered.
const COLLECTORS: [(&str, Option<M>); 5] = [
    ("collector::a::", None),
    ("collector::b0::", None),
    ("collector::b1::", Some(M::BUFFER1)),
    ("collector::b2::", Some(M::BUFFER2)),
    ("collector::b3::", Some(M::BUFFER3)),
];

impl Collector {
    fn read(ins: &Ins) -> Option<Collector> {
        let Some(word) = ins.starting_with("collector::") else {
            return Some(Collector { is_a: true, how: Vec::new() });
        };
        let known =
            COLLECTORS.iter().find_map(|(name, buffer)| Some((word.strip_prefix(name)?, name, buffer)));
        let (use_, name, buffer) = known?;
        let is_a = *name == COLLECTORS[0].0;
        let (reuse, keep) = if is_a { (M::A_REUSE, M::A_KEEP) } else { (M::B_REUSE, M::B_KEEP) };
        let mut how = match use_ {
            "fill" => vec![keep],
            "use" => vec![reuse, keep],
            "lastuse" => vec![reuse],
            "discard" => Vec::new(),
            _ => return None,
        };
        how.extend(buffer);
        Some(Collector { is_a, how })
    }

    /// Tags a matrix with its collector usage.
    fn mark(&self, matrix: Arg, is_a: bool) -> Arg {
        let how = if is_a == self.is_a { &self.how[..] } else { &[] };
        how.iter().fold(matrix, |matrix, word| matrix.suffixed(*word))
    }
}

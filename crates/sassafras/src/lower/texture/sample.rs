//! Lowers texture sampling, fetching and gathering.
//!
//! An operation reads two register tuples: the coordinates, and the other operands (level, offsets, reference value).
//! Its results are two pairs, the second one first.

use crate::lower::Lower;
use crate::lower::build::{NOT_PT, PT, RZ};
use crate::lower::instruction::Ins;
use crate::lower::texture::gradient;
use crate::lower::texture::handles::{Handle, Kind as Image, Name};
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

/// No level: below every level.
const NO_LEVEL: i64 = 0xc200_0000u32 as i32 as i64;
/// Array indices have 16 bits.
const LAST_LAYER: i64 = 0xffff;

/// A shape of textures.
pub(crate) struct Geometry {
    pub name: M,
    pub array: bool,
    /// Coordinates without index and sample.
    pub count: usize,
    pub cube: bool,
    samples: bool,
}

impl Geometry {
    pub(crate) fn read(ins: &Ins) -> Option<Geometry> {
        let word = ins.one_of(&["1d", "2d", "3d", "a1d", "a2d", "cube", "acube", "2dms", "a2dms"])?;
        let (name, count) = match word {
            "1d" => (M::_1D, 1),
            "2d" | "2dms" => (M::_2D, 2),
            "3d" => (M::_3D, 3),
            "a1d" => (M::ARRAY_1D, 1),
            "a2d" | "a2dms" => (M::ARRAY_2D, 2),
            "cube" => (M::CUBE, 3),
            _ => (M::ARRAY_CUBE, 3),
        };
        let array = word.starts_with('a');
        Some(Geometry { name, array, count, cube: word.ends_with("cube"), samples: word.ends_with("ms") })
    }
}

/// The first and the second pair of results, and if asked for the predicate that something is not resident.
pub(crate) type Texel = (Value, Value, Option<Value>);

/// An operation without its handle.
struct Sample {
    op: Op,
    /// Modifiers before and after `.B`.
    component: Vec<M>,
    modifiers: Vec<M>,
    coordinates: Vec<Arg>,
    rest: Vec<Arg>,
    dimension: M,
    halves: bool,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn texture(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "tex" | "tex.base" | "tex.level" => self.sample(ins),
            "tex.grad" => self.sample_with_gradient(ins),
            "tld4" => self.gather_texels(ins),
            "txq" | "txq.level" => self.image_query(ins),
            _ => None,
        }
    }

    /// Coordinates in the machine's order (index, x, y, z), and the sample.
    fn texture_coordinates(
        &mut self,
        rest: &'a [Operand],
        geometry: &Geometry,
    ) -> Option<(Vec<Arg>, Option<Arg>)> {
        let (mut words, sample) = self.texture_point(rest, geometry)?;
        if geometry.cube {
            let first = usize::from(geometry.array);
            self.onto_cube(&mut words[first..]);
        }
        Some((words, sample))
    }

    /// The same, without projection onto the cube.
    pub(crate) fn texture_point(
        &mut self,
        rest: &'a [Operand],
        geometry: &Geometry,
    ) -> Option<(Vec<Arg>, Option<Arg>)> {
        let extra = usize::from(geometry.array) + usize::from(geometry.samples);
        let mut words = self.coordinates(rest, geometry.count + extra)?;
        let sample = geometry.samples.then(|| words.remove(0));
        if geometry.array {
            words[0] = self.layer(words[0]);
        }
        Some((words, sample))
    }

    fn layer(&mut self, index: Arg) -> Arg {
        let beyond = [PT, index, Arg::Imm(LAST_LAYER), PT];
        let within = self.emit_p(Op::ISETP, &[M::LE, M::U32, M::AND], &beyond);
        self.emit(Op::SEL, &[], 1, &[index, Arg::Imm(LAST_LAYER), within.into()]).into()
    }

    /// Scales a direction onto the cube.
    fn onto_cube(&mut self, direction: &mut [Arg]) {
        let [x, y, z] = direction else { return };
        let [a, b, c] = [*x, *y, *z].map(|w| self.in_register(w).absolute());
        let two = self.emit(Op::FMNMX, &[], 1, &[a, b, NOT_PT]);
        let most = self.emit(Op::FMNMX, &[], 1, &[c, two.into(), NOT_PT]);
        let scale = self.emit(Op::MUFU, &[M::RCP], 1, &[most.into()]);
        for word in direction {
            *word = self.emit(Op::FMUL, &[], 1, &[*word, scale.into()]).into();
        }
    }

    /// Offsets in texels, packed with so many bits each.
    fn offsets(&mut self, operand: &'a Operand, count: usize, bits: u32) -> Option<Arg> {
        let words = self.coordinates(std::slice::from_ref(operand), count)?;
        let mask = (1i64 << bits.min(6)) - 1;
        let step = bits as i64;
        let mut packed: Option<Arg> = None;
        for (i, word) in words.into_iter().enumerate() {
            let field = self.lop3(word, Arg::Imm(mask), RZ, 0xc0);
            packed = Some(match packed {
                None => field.into(),
                Some(before) => {
                    let at = Arg::Imm(step * i as i64);
                    let shifted = self.emit(Op::SHF, &[M::L, M::U32], 1, &[field.into(), at, RZ]);
                    self.lop3(before, shifted.into(), RZ, 0xfc).into()
                }
            });
        }
        packed
    }

    /// The optional operands from `first` on: offsets in braces, then a reference value.
    pub(crate) fn options(
        &mut self,
        ins: &Ins<'a>,
        first: usize,
        count: usize,
        bits: u32,
    ) -> Option<(Option<Arg>, Option<Arg>)> {
        let (mut offsets, mut compare) = (None, None);
        for i in first..ins.len() {
            let operand = ins.get(i)?;
            match operand {
                Operand::Vector(_) if offsets.is_none() && compare.is_none() => {
                    offsets = Some(self.offsets(operand, count, bits)?);
                }
                Operand::Vector(_) => return None,
                _ if compare.is_none() => compare = Some(self.word(operand, Type::F32)?),
                _ => return None,
            }
        }
        Some((offsets, compare))
    }

    fn sample(&mut self, ins: &Ins<'a>) -> Option<()> {
        let geometry = Geometry::read(ins)?;
        let (halves, floats) = self.texture_types(ins)?;
        let with_level = ins.mnemonic() == "tex.level";
        let (handle, rest) = self.sampled_image(ins.get(1)?)?;
        let (mut coordinates, sample) = self.texture_coordinates(rest, &geometry)?;
        // A separate sampler is used even for integer texels, except in 1D and with a level or sample.
        let by_number = !floats && self.separate_samplers();
        let by_number = by_number && !with_level && sample.is_none() && geometry.name != M::_1D;
        if by_number {
            let first = usize::from(geometry.array);
            coordinates[first..].iter_mut().for_each(|word| *word = self.float_of(*word));
        }
        let level = if with_level { Some(self.word(ins.get(2)?, Type::B32)?) } else { None };
        let first = if with_level { 3 } else { 2 };
        let (offsets, compare) = self.options(ins, first, geometry.count, 4)?;
        let mut dimension = geometry.name;
        // There is no 1D sampling: a line is a plane of height one.
        if floats && dimension == M::_1D {
            dimension = M::_2D;
            coordinates.push(RZ);
        }
        let (op, levels, level): (Op, &[M], Option<Arg>) = match (floats || by_number, level) {
            (true, Some(level)) => (Op::TEX, &[M::LL], Some(level)),
            (true, None) if self.machine.samples_without_level && by_number => (Op::TEX, &[M::LZ], None),
            (true, None) if self.machine.samples_without_level => (Op::TEX, &[], None),
            (true, None) => (Op::TEX, &[M::LL], Some(Arg::Imm(NO_LEVEL))),
            (false, Some(level)) => (Op::TLD, &[M::LL], Some(level)),
            (false, None) => (Op::TLD, &[M::LZ], None),
        };
        let mut modifiers = levels.to_vec();
        modifiers.extend(offsets.map(|_| M::AOFFI));
        modifiers.extend(compare.map(|_| M::DC));
        modifiers.extend(sample.map(|_| M::MS));
        if op == Op::TLD && with_level {
            // Levels are clamped.
            modifiers.push(M::CL);
        }
        if !floats && compare.is_some() {
            return None;
        }
        let rest = level.into_iter().chain(offsets).chain(compare).chain(sample).collect();
        let sample = Sample { op, component: Vec::new(), modifiers, coordinates, rest, dimension, halves };
        self.issue(ins.get(0)?, handle, sample)
    }

    /// Converts an integer to float.
    fn float_of(&mut self, word: Arg) -> Arg {
        match self.has(Op::I2FP) {
            true => self.emit(Op::I2FP, &[M::F32, M::S32], 1, &[word]).into(),
            false => self.emit(Op::I2F, &[], 1, &[word]).into(),
        }
    }

    /// Derivatives in x and y, interleaved by coordinate.
    fn sample_with_gradient(&mut self, ins: &Ins<'a>) -> Option<()> {
        if ins.matches(gradient::lacks_gradient) {
            return self.expand_gradient(ins);
        }
        let geometry = Geometry::read(ins)?;
        let (halves, _) = self.texture_types(ins)?;
        let (handle, rest) = self.sampled_image(ins.get(1)?)?;
        let (mut coordinates, _) = self.texture_coordinates(rest, &geometry)?;
        let across = self.coordinates(std::slice::from_ref(ins.get(2)?), geometry.count)?;
        let down = self.coordinates(std::slice::from_ref(ins.get(3)?), geometry.count)?;
        let (offsets, compare) = self.options(ins, 4, geometry.count, 4)?;
        // Integer coordinates are passed unconverted, as ptxas does here.
        if compare.is_some() {
            return None;
        }
        let mut rest: Vec<Arg> = across.into_iter().zip(down).flat_map(|(a, b)| [a, b]).collect();
        let mut dimension = geometry.name;
        if dimension == M::_1D {
            dimension = M::_2D;
            coordinates.push(RZ);
            rest.extend([RZ, RZ]);
        }
        // The array index comes last here, and offsets share its word.
        if geometry.array {
            coordinates.rotate_left(1);
        }
        let mut modifiers = Vec::new();
        if let Some(offsets) = offsets {
            modifiers.push(M::AOFFI);
            let high = self.emit(Op::SHF, &[M::L, M::U32], 1, &[offsets, Arg::Imm(16), RZ]);
            match geometry.array {
                true => {
                    let index = coordinates.pop()?;
                    coordinates.push(self.lop3(index, high.into(), RZ, 0xfc).into());
                }
                false => coordinates.push(high.into()),
            }
        }
        let sample =
            Sample { op: Op::TXD, component: Vec::new(), modifiers, coordinates, rest, dimension, halves };
        self.issue(ins.get(0)?, handle, sample)
    }

    /// `tld4`: one component of the four texels around a point.
    fn gather_texels(&mut self, ins: &Ins<'a>) -> Option<()> {
        let component = match ins.word(Kind::Component)? {
            "r" => M::R,
            "g" => M::G,
            "b" => M::B,
            _ => M::A,
        };
        let geometry = Geometry::read(ins)?;
        let (halves, floats) = self.texture_types(ins)?;
        if !floats {
            return None;
        }
        let (handle, rest) = self.sampled_image(ins.get(1)?)?;
        let (coordinates, _) = self.texture_coordinates(rest, &geometry)?;
        let (offsets, compare) = self.options(ins, 2, geometry.count, 8)?;
        let mut modifiers: Vec<M> = offsets.map(|_| M::AOFFI).into_iter().collect();
        modifiers.extend(compare.map(|_| M::DC));
        let rest = offsets.into_iter().chain(compare).collect();
        let component = vec![component];
        let sample = Sample {
            op: Op::TLD4,
            component,
            modifiers,
            coordinates,
            rest,
            dimension: geometry.name,
            halves,
        };
        self.issue(ins.get(0)?, handle, sample)
    }

    /// Are the results 16-bit, and are the coordinates floats?
    pub(crate) fn texture_types(&mut self, ins: &Ins<'a>) -> Option<(bool, bool)> {
        // The destination has the number of results.
        let _ = ins.word(Kind::Vector)?;
        let [result, coordinate] = ins.types()[..] else { return None };
        let halves = matches!(result.name(), "f16" | "f16x2");
        Some((halves, coordinate == Type::F32))
    }

    /// The destination of a texel; `{…} | %p` also takes its residency.
    pub(crate) fn texel_and_residence(&self, to: &'a Operand) -> Option<(&'a Operand, Option<&'a Operand>)> {
        let Operand::Pair(range) = to else { return Some((to, None)) };
        let body = self.body;
        match body.list(*range) {
            [to, resident] => Some((to, Some(resident))),
            _ => None,
        }
    }

    fn issue(&mut self, to: &'a Operand, handle: Handle, sample: Sample) -> Option<()> {
        self.texel_by(to, handle, sample.halves, |s, name, ask| Some(s.texture_operation(name, &sample, ask)))
    }

    /// Lowers an operation on the handle and writes its texel to the destination.
    pub(crate) fn texel_by(
        &mut self,
        to: &'a Operand,
        handle: Handle,
        halves: bool,
        operation: impl FnOnce(&mut Self, &Name, bool) -> Option<Texel>,
    ) -> Option<()> {
        let (to, resident) = self.texel_and_residence(to)?;
        self.with_image(
            handle,
            Image::Texture,
            |s, name| operation(s, name, resident.is_some()),
            |s, (low, high, missing)| {
                s.set_texel(to, low, high, halves)?;
                match (resident, missing) {
                    (Some(to), Some(missing)) => {
                        let there = s.conjunction(Arg::not(missing), PT);
                        s.set(to, there)
                    }
                    _ => Some(()),
                }
            },
        )
    }

    fn texture_operation(&mut self, name: &Name, sample: &Sample, ask: bool) -> Texel {
        let handle = name.register();
        let mut coordinates = sample.coordinates.clone();
        let mut rest = sample.rest.clone();
        if let Some(handle) = handle {
            // Before the coordinates where the other tuple is full.
            let group = if sample.op == Op::TXD { &mut coordinates } else { &mut rest };
            group.insert(0, handle);
        }
        let coordinates = self.group(&coordinates);
        let rest = if rest.is_empty() { RZ } else { self.group(&rest).into() };
        let separate: &[M] = if handle.is_some() { &[M::B] } else { &[] };
        let packs = self.unit_packs(sample.halves);
        let format: &[M] = if packs { &[M::F16_RN] } else { &[] };
        let modifiers = [&sample.component[..], separate, format, &sample.modifiers].concat();
        let words = if packs { 1 } else { 2 };
        let low = self.kernel.code.value(File::R, words);
        let high = self.kernel.code.value(File::R, words);
        let missing = ask.then(|| self.kernel.code.value(File::P, 1));
        let results: Vec<Value> = missing.into_iter().chain([high, low]).collect();
        let mut args = vec![coordinates.into(), rest];
        args.extend(self.image_args(name));
        args.push(Arg::Name(sample.dimension));
        self.effect(sample.op, &modifiers, &results, &args);
        (low, high, missing)
    }

    /// Without an operation that packs halves the texture unit does it.
    pub(crate) fn unit_packs(&self, halves: bool) -> bool {
        halves && !self.has(Op::F2FP)
    }

    /// Writes a texel: as words, packed halves, or halves, by the destination.
    pub(crate) fn set_texel(&mut self, to: &Operand, low: Value, high: Value, halves: bool) -> Option<()> {
        if !halves {
            let all = self.pack(&[low.into(), high.into()]);
            return self.set(to, all);
        }
        let mut packed = |pair: Value| match self.kernel.code.values[pair].words {
            1 => Some(pair),
            _ => {
                let args = [Arg::word(pair, 1), Arg::word(pair, 0)];
                self.pack_floats(&[], M::F16, M::PACK_AB, &[], &args)
            }
        };
        let pairs = [packed(low)?, packed(high)?];
        let Operand::Vector(range) = to else { return None };
        let body = self.body;
        let elements = body.list(*range);
        if elements.len() == 2 {
            let all = self.pack(&pairs.map(Arg::from));
            return self.set(to, all);
        }
        for (i, element) in elements.iter().enumerate() {
            let selector = if i % 2 == 0 { 0x7710 } else { 0x7732 };
            let pair = *pairs.get(i / 2)?;
            let half = self.emit(Op::PRMT, &[], 1, &[pair.into(), Arg::Imm(selector), RZ]);
            self.set(element, half)?;
        }
        Some(())
    }
}

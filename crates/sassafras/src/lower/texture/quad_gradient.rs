//! `tex.grad` of 3D, of cubes and with depth comparison, to sm_89: derivatives by quads of threads.
//!
//! The texture unit takes derivatives from the differences between the four threads of a quad. So for each active
//! thread of a quad, in turn, all four sample: the first at its point, the second one step in x, the third one step in
//! y, the fourth both. The first one's texel is the result.
//!
//! ```text
//!     BMOV.32 B15, MACTIVE                  the active threads
//!     BMOV.32.PQUAD MACTIVE, B15            activate all threads of these quads
//!     SHFL.IDX …, turn, 0x1c03              broadcast the operands of this turn's thread
//!     FSWZADD.NDV …                         steps in x and y
//!     TEX.NDV …
//!     SHFL.IDX …, 0, 0x1c03                 broadcast the first one's texel
//!     BMOV.32 MACTIVE, B15                  restore
//! ```
//!
//! That is ptxas's scheme. It activates threads that wait elsewhere in the program, so:
//!
//! * It uses no registers but those reserved for it in every function of the module ([`withheld`]), and the barrier
//!   B15. All operands are moved there before, by the threads that were active: values of the function must not be
//!   defined, moved or spilled by activated threads. Constants are immediates where the encodings allow.
//! * No result is outstanding when the activated threads are suspended again.
//! * The hardware switches threads only at branches, waits and yields: the code of a turn has none.
//! * An inactive thread has no turn: its registers are undefined, texture handles among them.
//!
//! Functions of other modules don't reserve the registers: a thread that waits in one of them, while others call into
//! this module, may lose its values. In device functions of objects ptxas's code has each activated thread save its
//! registers below its stack pointer, where no frame is declared; within a kernel it doesn't, and clobbers registers
//! that are live on the other side of a branch.
//!
//! What becomes of the differences where threads of the quad have exited, or never existed, has not been seen: we have
//! no such machine. ptxas's code doesn't distinguish that.

use crate::context::target::TargetMachine;
use crate::lower::Lower;
use crate::lower::build::{NOT_PT, PT, RZ};
use crate::lower::instruction::Ins;
use crate::lower::texture::gradient;
use crate::lower::texture::handles::Name;
use crate::lower::texture::sample::{Geometry, Texel};
use ori::{Arg, File, Value};
use ptx::ast;
use sass::{M, Op};

/// The registers of a turn: four for coordinates, four for other operands, three for steps in x, three for steps in y.
/// The first four of the steps receive the texel.
const WORDS: usize = 14;
const REST: usize = 4;
const ACROSS: usize = 8;
const DOWN: usize = 11;
const TEXEL: usize = ACROSS;
const PRESENT: usize = TEXEL + 4;

/// Without calls, every register limit includes these, and besides them tuples of four and two and one for moves. With
/// calls they avoid parameters and return addresses.
const ALONE: [u8; WORDS] = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 20];
const WITH_CALLS: [u8; WORDS] = [16, 17, 18, 19, 24, 25, 26, 27, 28, 29, 30, 31, 22, 23];

const IS_MISSING: Arg = Arg::Fixed { file: File::P, number: 6 };
const RUNNING: Arg = Arg::Fixed { file: File::B, number: 15 };
const ACTIVE: Arg = Arg::Name(M::MACTIVE);

const QUAD: i64 = 4;
/// The shuffle bounds of a quad.
const WITHIN_QUAD: i64 = 0x1c03;
/// The threads that add the step: the second and the fourth, or the third and the fourth. Two bits for each thread, the
/// first one's highest: 0 adds, 3 keeps the point.
const STEP_ACROSS: i64 = 0b11_00_11_00;
const STEP_DOWN: i64 = 0b11_11_00_00;

/// The registers that all functions of a module must reserve for this code; none if it isn't used.
pub fn withheld(module: &ast::Module, machine: &TargetMachine) -> Vec<(File, u8)> {
    if machine.driver_has_gradients || !asks(module) {
        return Vec::new();
    }
    let others = [IS_MISSING, RUNNING].into_iter().filter_map(|arg| match arg {
        Arg::Fixed { file, number } => Some((file, number)),
        _ => None,
    });
    words(module).iter().map(|number| (File::R, *number)).chain(others).collect()
}

fn asks(module: &ast::Module) -> bool {
    let beyond = |body: &ast::Body, stmt: &ast::Stmt| match stmt {
        ast::Stmt::Inst(inst) => {
            let opcode = &module.opcodes[inst.opcode.0 as usize];
            gradient::lacks_gradient(opcode, body.list(inst.operands))
        }
        _ => false,
    };
    let mut bodies = functions(module).filter_map(|f| f.body.as_ref());
    module.opcodes.iter().any(|o| o.mnemonic == "tex.grad")
        && bodies.any(|body| body.stmts.iter().any(|stmt| beyond(body, stmt)))
}

fn functions<'m>(module: &'m ast::Module<'m>) -> impl Iterator<Item = &'m ast::Function<'m>> {
    module.items.iter().filter_map(|item| match item {
        ast::Item::Function(function) => Some(&**function),
        _ => None,
    })
}

fn words(module: &ast::Module) -> &'static [u8; WORDS] {
    let calls = functions(module).any(|f| !f.entry);
    if calls { &WITH_CALLS } else { &ALONE }
}

/// The operands of a thread.
struct Request {
    /// The array index, then the coordinates.
    point: Vec<Arg>,
    array: bool,
    cube: bool,
    /// The derivative of each coordinate.
    across: Vec<Arg>,
    down: Vec<Arg>,
    /// Offsets and the reference value, and their modifiers.
    rest: Vec<Arg>,
    modifiers: Vec<M>,
    dimension: M,
    halves: bool,
}

/// The state common to all turns.
struct QuadState {
    words: [Arg; WORDS],
    /// The mask of active threads of the quad, from the lowest bit on, and the thread's index in it.
    running: Arg,
    lane_in_quad: Arg,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn gradient_by_quad(&mut self, ins: &Ins<'a>) -> Option<()> {
        let geometry = Geometry::read(ins)?;
        let (halves, _) = self.texture_types(ins)?;
        let (handle, rest) = self.sampled_image(ins.get(1)?)?;
        let (mut point, _) = self.texture_point(rest, &geometry)?;
        let across = self.coordinates(std::slice::from_ref(ins.get(2)?), geometry.count)?;
        let down = self.coordinates(std::slice::from_ref(ins.get(3)?), geometry.count)?;
        let (offsets, compare) = self.options(ins, 4, geometry.count, 4)?;
        let mut dimension = geometry.name;
        // There is no 1D sampling: a line is a plane of height one.
        if dimension == M::_1D {
            dimension = M::_2D;
            point.push(RZ);
        }
        let mut modifiers: Vec<M> = offsets.map(|_| M::AOFFI).into_iter().collect();
        modifiers.extend(compare.map(|_| M::DC));
        let rest = offsets.into_iter().chain(compare).collect();
        let (array, cube) = (geometry.array, geometry.cube);
        let request = Request { point, array, cube, across, down, rest, modifiers, dimension, halves };
        self.texel_by(ins.get(0)?, handle, halves, |s, name, ask| Some(s.take_turns(name, &request, ask)))
    }

    fn take_turns(&mut self, name: &Name, request: &Request, ask: bool) -> Texel {
        let words = words(self.module).map(|number| Arg::Fixed { file: File::R, number });
        let lane: Arg = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LANEID)]).into();
        let running = self.kernel.code.value(File::R, 1);
        self.emit_to(Op::VOTE, &[M::ANY], &[running], &[PT, PT]);
        let first = self.masked(lane, !(QUAD - 1) & 0x1f).into();
        let args = [RZ, first, running.into()];
        let running = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &args).into();
        let lane_in_quad = self.masked(lane, QUAD - 1).into();
        let turns = QuadState { words, running, lane_in_quad };
        let packs = self.unit_packs(request.halves);
        let count = if packs { 2 } else { 4 } + usize::from(ask);
        let mut got: Vec<Value> = (0..count).map(|_| self.undefined(File::R, 1)).collect();
        for turn in 0..QUAD {
            let runs = self.masked(turns.running, 1 << turn).into();
            let runs = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, runs, RZ, PT]);
            got = self.if_true(runs, got, |s, got| s.turn(turn, &turns, (name, request), got, ask));
        }
        let present = if ask { got.pop() } else { None };
        let missing =
            present.map(|word| self.emit_p(Op::ISETP, &[M::EQ, M::U32, M::AND], &[PT, word.into(), RZ, PT]));
        let got: Vec<Arg> = got.into_iter().map(Arg::from).collect();
        let (low, high) = got.split_at(got.len() / 2);
        (self.group(low), self.group(high), missing)
    }

    /// One thread's turn. Returns its texel, or the previous one for the other threads.
    fn turn(
        &mut self,
        turn: i64,
        turns: &QuadState,
        (name, request): (&Name, &Request),
        before: &[Value],
        ask: bool,
    ) -> Vec<Value> {
        let words = &turns.words;
        let rest = name.register().into_iter().chain(request.rest.iter().copied());
        let mut taken = Vec::new();
        for (group, first) in
            [(&request.point, 0), (&rest.collect(), REST), (&request.across, ACROSS), (&request.down, DOWN)]
        {
            for (arg, word) in group.iter().zip(&words[first..]) {
                self.emit_to(Op::MOV, &[], &[], &[*word, *arg]);
                taken.push(*word);
            }
        }
        self.emit_to(Op::BMOV, &[M::_32], &[], &[RUNNING, ACTIVE]);
        self.emit_to(Op::BMOV, &[M::_32, M::PQUAD], &[], &[ACTIVE, RUNNING]);
        for word in taken {
            self.shuffle_in_quad(word, turn);
        }
        self.step(words, request);
        let texel: Vec<Arg> = self.sample_in_quad(words, (name, request), ask);
        for word in &texel {
            self.shuffle_in_quad(*word, 0);
        }
        // The reads wait for the results: then none is outstanding.
        for word in &texel {
            self.emit_to(Op::MOV, &[], &[], &[*word, *word]);
        }
        self.emit_to(Op::BMOV, &[M::_32], &[], &[ACTIVE, RUNNING]);
        let own = [PT, turns.lane_in_quad, Arg::Imm(turn), PT];
        let own = self.emit_p(Op::ISETP, &[M::EQ, M::U32, M::AND], &own);
        let chosen =
            |(word, before): (Arg, &Value)| self.emit(Op::SEL, &[], 1, &[word, (*before).into(), own.into()]);
        texel.into_iter().zip(before).map(chosen).collect()
    }

    /// Broadcasts a word of one thread within the quad.
    fn shuffle_in_quad(&mut self, word: Arg, from: i64) {
        let args = [PT, word, word, Arg::Imm(from), Arg::Imm(WITHIN_QUAD)];
        self.emit_to(Op::SHFL, &[M::IDX], &[], &args);
    }

    /// The point of each thread, projected onto the cube for cubes.
    fn step(&mut self, words: &[Arg; WORDS], request: &Request) {
        let first = usize::from(request.array);
        let count = request.across.len();
        let point = &words[first..first + count];
        for (step, by) in [(ACROSS, STEP_ACROSS), (DOWN, STEP_DOWN)] {
            for (x, step) in point.iter().zip(&words[step..]) {
                self.emit_to(Op::FSWZADD, &[M::NDV], &[], &[*x, *step, *x, Arg::Imm(by)]);
            }
        }
        if !request.cube {
            return;
        }
        let most = words[ACROSS];
        for (i, x) in point.iter().enumerate() {
            let size = words[ACROSS + i];
            let magnitude = [size, *x, Arg::Imm(0x7fff_ffff), RZ, Arg::Imm(0xc0), NOT_PT];
            self.emit_to(Op::LOP3, &[M::LUT], &[], &magnitude);
            if i > 0 {
                self.emit_to(Op::FMNMX, &[], &[], &[most, most, size, NOT_PT]);
            }
        }
        self.emit_to(Op::MUFU, &[M::RCP], &[], &[most, most]);
        for x in point {
            self.emit_to(Op::FMUL, &[], &[], &[*x, *x, most]);
        }
    }

    /// The words of the texel, and if asked for a word that is zero if something is not resident.
    fn sample_in_quad(
        &mut self,
        words: &[Arg; WORDS],
        (name, request): (&Name, &Request),
        ask: bool,
    ) -> Vec<Arg> {
        let separate: &[M] = if name.register().is_some() { &[M::B] } else { &[] };
        let packs = self.unit_packs(request.halves);
        let format: &[M] = if packs { &[M::F16_RN] } else { &[] };
        let modifiers = [separate, format, &request.modifiers, &[M::NDV]].concat();
        let [low, high] = [words[TEXEL], words[TEXEL + 2]];
        let has_rest = name.register().is_some() || !request.rest.is_empty();
        let mut args: Vec<Arg> = if ask { vec![IS_MISSING] } else { Vec::new() };
        args.extend([high, low, words[0], if has_rest { words[REST] } else { RZ }]);
        args.extend(self.image_args(name));
        args.push(Arg::Name(request.dimension));
        self.emit_to(Op::TEX, &modifiers, &[], &args);
        let mut texel = if packs { vec![low, high] } else { words[TEXEL..TEXEL + 4].to_vec() };
        if ask {
            self.emit_to(Op::SEL, &[], &[], &[words[PRESENT], RZ, Arg::Imm(-1), IS_MISSING]);
            texel.push(words[PRESENT]);
        }
        texel
    }
}

//! `tex.grad` of three dimensions, of cubes and with a comparison to sm_89: quads of threads make the derivatives.
//!
//! The texture unit takes derivatives from the differences between the four threads of a quad. So each thread of a quad
//! has its turn, in which all four sample for it: the first at its point, the second one step across, the third one
//! step down, the fourth both. What the first gets is the result.
//!
//! ```text
//!     BMOV.32 B15, MACTIVE                  who runs
//!     BMOV.32.PQUAD MACTIVE, B15            all threads of these quads
//!     SHFL.IDX …, turn, 0x1c03              what the one whose turn it is has asked for
//!     FSWZADD.NDV …                         steps across and down
//!     TEX.NDV …
//!     SHFL.IDX …, 0, 0x1c03                 what the first one got
//!     BMOV.32 MACTIVE, B15                  as before
//! ```
//!
//! That is ptxas's scheme. Threads that wait elsewhere in the program run this code too, so:
//!
//! * It names no registers but those that nothing else has in any function of the module ([`withheld`]), and the
//!   barrier B15. Every operand is brought there before, by the threads that run anyway: values of the function have no
//!   part in what the others do, hence nothing is loaded, moved or stored there on their behalf. Constants stand where
//!   the operations have room for them.
//! * Nothing is on its way when they go back to sleep.
//! * Threads change only where they branch, wait or yield: the code of a turn has no such place.
//! * A thread that doesn't run has no turn: its registers hold anything, handles of textures among them.
//!
//! Functions of other modules don't know of the registers: a thread that waits in one of them, beside others that called
//! into this module, may lose what it has there. In device functions of objects ptxas's code has each woken thread save
//! its registers below its stack pointer, where no frame is declared; within a kernel it doesn't, and writes registers
//! that are in use on the other side of a branch.
//!
//! What becomes of the differences where threads of the quad have ended, or never were, has not been seen: we have no
//! such machine. ptxas's code makes no difference there.

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

/// The registers for a turn: four for coordinates, four for what else the operation reads, three for steps across,
/// three for steps down. The first four of the steps get the texel.
const WORDS: usize = 14;
const REST: usize = 4;
const ACROSS: usize = 8;
const DOWN: usize = 11;
const TEXEL: usize = ACROSS;
const PRESENT: usize = TEXEL + 4;

/// Where nothing is called, every limit on registers leaves these in, and besides them four and two side by side and
/// one for moves. Elsewhere they are beside parameters and return addresses.
const ALONE: [u8; WORDS] = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 20];
const WITH_CALLS: [u8; WORDS] = [16, 17, 18, 19, 24, 25, 26, 27, 28, 29, 30, 31, 22, 23];

const IS_MISSING: Arg = Arg::Fixed { file: File::P, number: 6 };
const RUNNING: Arg = Arg::Fixed { file: File::B, number: 15 };
const ACTIVE: Arg = Arg::Name(M::MACTIVE);

const QUAD: i64 = 4;
/// A shuffle stays within the quad.
const WITHIN_QUAD: i64 = 0x1c03;
/// Which threads add the step to the point: the second and the fourth, or the third and the fourth. Two bits for each
/// thread, the first one's are the highest: 0 adds, 3 keeps the point.
const STEP_ACROSS: i64 = 0b11_00_11_00;
const STEP_DOWN: i64 = 0b11_11_00_00;

/// The registers that all functions of a module must leave to this code; none if there is no need for it.
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

/// What a thread asks for.
struct Request {
    /// The index of an array, then the coordinates.
    point: Vec<Arg>,
    array: bool,
    cube: bool,
    /// A step for each coordinate.
    across: Vec<Arg>,
    down: Vec<Arg>,
    /// Offsets and the value to compare with, and what they are called.
    rest: Vec<Arg>,
    modifiers: Vec<M>,
    dimension: M,
    halves: bool,
}

/// What is the same in all turns.
struct QuadState {
    words: [Arg; WORDS],
    /// The threads of the quad that run, from the lowest bit on, and the thread's number in it.
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
        // Sampling knows no lines: they are planes of height one.
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

    /// One thread's turn: what it gets, and what the others have.
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
        // What reads them waits for them: then nothing is on its way.
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

    /// Everybody in the quad gets what one of it has.
    fn shuffle_in_quad(&mut self, word: Arg, from: i64) {
        let args = [PT, word, word, Arg::Imm(from), Arg::Imm(WITHIN_QUAD)];
        self.emit_to(Op::SHFL, &[M::IDX], &[], &args);
    }

    /// Each thread's own point, on the cube if it is one.
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

    /// The words of the texel, and on demand one that is zero if something is missing.
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

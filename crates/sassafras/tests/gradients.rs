//! `tex.grad` by quads of threads, to sm_89: what threads run that are elsewhere in the program.

#[allow(dead_code)] // Each test file uses a part of it.
mod support;

use cubin::{Body, Object};
use sass::{Inst, Kind, M, Op, Role};
use std::collections::BTreeSet;
use support::compile;

const STEPS: &str = "{%f5,%f6,%f7,%f8}, {%f9,%f10,%f11,%f12}";
const FORMS: [(&str, &str); 6] = [
    ("cube.v4.f32.f32", "{%f20,%f21,%f22,%f23}, [%t, {%f1,%f2,%f3,%f4}], STEPS"),
    ("acube.v4.f32.f32", "{%f20,%f21,%f22,%f23}|%p, [%t, {%r1,%f1,%f2,%f3}], STEPS, %f13"),
    ("cube.v4.f16.f32", "{%h1,%h2,%h3,%h4}, [%t, {%f1,%f2,%f3,%f4}], STEPS"),
    ("3d.v4.f32.f32", "{%f20,%f21,%f22,%f23}, [%t, {%f1,%f2,%f3,%f4}], STEPS, {%r1,%r1,%r1,%r1}"),
    ("2d.v4.s32.f32", "{%r5,%r6,%r7,%r8}, [%t, {%f1,%f2}], {%f5,%f6}, {%f9,%f10}, %f13"),
    ("a1d.v4.f32.f32", "{%f20,%f21,%f22,%f23}|%p, [%t, {%r1,%f1}], {%f5}, {%f9}, %f13"),
];

/// Some threads sample, the others have many values in registers.
fn kernel(machine: &str, directives: &str, (form, operands): (&str, &str)) -> String {
    let operands = operands.replace("STEPS", STEPS);
    let numbers = || 30..46;
    let load: String = numbers().map(|n| format!("ld.global.f32 %f{n}, [%in+{}];\n", 4 * n)).collect();
    let store: String = numbers().map(|n| format!("st.global.f32 [%out+{}], %f{n};\n", 4 * n)).collect();
    format!(
        ".version 8.8\n.target {machine}\n.address_size 64\n\
         .visible .entry k(.param .u64 t, .param .u64 in, .param .u64 out) {directives}\n{{\n\
         .reg .b64 %t, %in, %out; .reg .f32 %f<50>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .pred %p, %q;\n\
         ld.param.u64 %t, [t]; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n\
         mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 5; setp.eq.s32 %q, %r2, 0; setp.eq.s32 %p, %r1, 7;\n{load}\
         mov.f32 %f20, %f30; mov.f32 %f23, %f31; mov.u32 %r7, %r1; cvt.u16.u32 %h3, %r2;\n\
         @%q bra SKIP;\n\
         ld.global.v4.f32 {{%f1,%f2,%f3,%f4}}, [%in]; ld.global.v4.f32 {{%f5,%f6,%f7,%f8}}, [%in+16];\n\
         ld.global.v4.f32 {{%f9,%f10,%f11,%f12}}, [%in+32]; ld.global.f32 %f13, [%in+48];\n\
         tex.grad.{form} {operands};\n\
         st.global.f32 [%out], %f20; st.global.b16 [%out+4], %h3; st.global.b32 [%out+8], %r7;\n\
         @%p st.global.f32 [%out+12], %f23;\n\
         SKIP:\n{store}ret;\n}}\n"
    )
}

fn instructions(cubin: &[u8], machine: &str) -> Vec<Inst> {
    let object = Object::read(cubin).expect("our own cubin");
    let Some(Body::Bytes(bytes)) = object.section(".text.k").map(|(_, s)| &s.body) else { panic!("no code") };
    let isa = sass::Isa::of_sm(machine[3..].parse().expect("a number")).expect("a machine");
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    bytes.chunks(16).map(|w| sass::decode(isa, word(w))).collect()
}

/// The registers that an instruction names of a file, in this role.
fn named(inst: &Inst, file: Kind, role: Role) -> BTreeSet<u8> {
    let accesses = inst.registers().filter(|a| a.file == file && a.role == role);
    accesses.flat_map(|a| a.first..a.first + a.count as u8).collect()
}

/// Who is woken does nothing but what [`sassafras`] says that it does, with registers that nobody else has.
fn check(code: &[Inst], what: &str) {
    let both = |inst: &Inst, file| &named(inst, file, Role::Use) | &named(inst, file, Role::Def);
    let writes_mask = |inst: &Inst| inst.form().op == Op::BMOV && inst.to_string().contains("MACTIVE, B15");
    let (mut awake, mut turns) = (false, 0);
    let mut theirs: BTreeSet<u8> = BTreeSet::new();
    for inst in code {
        if writes_mask(inst) {
            assert_eq!(inst.has(M::PQUAD), !awake, "{what}: {inst}");
            assert!(inst.control.stall >= 2, "{what}: {inst}");
            awake = !awake;
            turns += usize::from(awake);
        } else if awake {
            use Op::*;
            let op = inst.form().op;
            let expected = [SHFL, FSWZADD, LOP3, FMNMX, MUFU, FMUL, TEX, MOV, IMAD, SEL, NOP];
            assert!(expected.contains(&op) && inst.guard == sass::Guard::ALWAYS, "{what}: {inst}");
            assert!(both(inst, Kind::P).iter().all(|p| *p == 6), "{what}: {inst}");
            assert!(both(inst, Kind::U).is_empty(), "{what}: {inst}");
            theirs.extend(both(inst, Kind::R));
        }
    }
    assert_eq!((awake, turns), (false, 4), "{what}");
    for inst in code {
        if writes_mask(inst) {
            awake = !awake;
        } else if !awake {
            let (read, written) = (named(inst, Kind::R, Role::Use), named(inst, Kind::R, Role::Def));
            let copies = matches!(inst.form().op, Op::MOV | Op::IMAD);
            assert!(written.is_disjoint(&theirs) || copies, "{what}: {inst} writes what others have there");
            assert!(read.is_disjoint(&theirs) || inst.form().op == Op::SEL, "{what}: {inst} reads it");
        }
    }
}

#[test]
fn who_is_woken_keeps_its_registers() {
    for machine in sass::Target::ALL.iter().filter(|t| !t.driver_has_gradients).map(|t| t.name) {
        for form in FORMS {
            for (level, directives) in [(0, ""), (3, ""), (3, ".maxnreg 24")] {
                let source = kernel(machine, directives, form);
                let cubin = compile(&source, machine, |options| options.level = level);
                let what = format!("{machine} -O{level} {directives} {}", form.0);
                check(&instructions(&cubin, machine), &what);
            }
        }
    }
}

/// A thread that waits in a function must not lose what it has there, either.
#[test]
fn other_functions_leave_the_registers_alone() {
    let numbers = || 4..40;
    let load: String = numbers().map(|n| format!("ld.global.f32 %f{n}, [%rd1+{}];\n", 4 * n)).collect();
    let store: String = numbers().map(|n| format!("st.global.f32 [%rd1+{}], %f{n};\n", 4 * n)).collect();
    let function = format!(
        ".visible .func other(.param .u64 p) {{ .reg .b64 %rd<2>; .reg .f32 %f<40>;\n\
         ld.param.u64 %rd1, [p];\n{load}bar.sync 0;\n{store}ret; }}\n"
    );
    let source = kernel("sm_86", "", FORMS[0]);
    let source = source.replace(".visible .entry", &format!("{function}.visible .entry"));
    let call = "SKIP:\n{ .param .b64 p; st.param.b64 [p], %in; call other, (p); }\n";
    let source = source.replace("SKIP:\n", call);
    let cubin = compile(&source, "sm_86", |_| {});
    let code = instructions(&cubin, "sm_86");
    let waking = code.iter().position(|i| i.has(M::PQUAD)).expect("a turn");
    let turn = code[waking..].iter().take_while(|i| i.form().op != Op::BSYNC);
    let taken: BTreeSet<u8> =
        turn.filter(|i| i.form().op == Op::SHFL).flat_map(|i| named(i, Kind::R, Role::Def)).collect();
    assert!(taken.len() >= 10, "{taken:?}");
    let object = Object::read(&cubin).expect("our own cubin");
    let Some(Body::Bytes(bytes)) = object.section(".text.other").map(|(_, s)| &s.body) else {
        panic!("no function")
    };
    let isa = sass::Isa::of_sm(86).expect("a machine");
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    let loads = bytes.chunks(16).map(|w| sass::decode(isa, word(w))).filter(|i| i.form().op == Op::LDG);
    let written: BTreeSet<u8> = loads.flat_map(|i| named(&i, Kind::R, Role::Def)).collect();
    assert!(written.len() >= 30 && written.is_disjoint(&taken), "{written:?} and {taken:?}");
}

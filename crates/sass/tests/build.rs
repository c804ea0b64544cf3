//! The builder makes the words that nvdisasm reads back as expected, without any bit number in sight.

use sass::{
    Control, Guard, Inst, Isa, M, Op, Operand, Role, SelectError, decode, encode, legal, operands::*, parse,
};

fn text(isa: Isa, op: Op, modifiers: &[M], operands: &[Operand]) -> String {
    let inst = Inst::new(isa, op, modifiers, operands).unwrap_or_else(|e| panic!("{e}"));
    let word = encode(&inst).unwrap();
    let back = decode(isa, word);
    assert_eq!(back, inst, "decoding gives the same instruction");
    assert_eq!(parse(isa, &back.to_string()).unwrap(), inst, "so does parsing");
    back.to_string()
}

#[test]
fn first_instructions_of_sm_90() {
    let t = |op, modifiers: &[M], operands: &[Operand]| text(Isa::Sm90, op, modifiers, operands);
    assert_eq!(t(Op::MOV, &[], &[r(1), c(0, 0x28)]), "MOV R1, c[0x0][0x28]");
    assert_eq!(t(Op::IADD3, &[], &[r(4), p(0), r(2), r(3).neg(), rz()]), "IADD3 R4, P0, R2, -R3, RZ");
    assert_eq!(
        t(Op::IADD3, &[M::X], &[r(5), r(2), r(3), rz(), p(0), pf()]),
        "IADD3.X R5, R2, R3, RZ, P0, !PT"
    );
    assert_eq!(t(Op::IMAD, &[M::WIDE, M::U32], &[r(2), r(3), imm(4), r(6)]), "IMAD.WIDE.U32 R2, R3, 0x4, R6");
    assert_eq!(
        t(Op::LDG, &[M::E, M::_128], &[r(8), ur(4), r(2), imm(16)]),
        "LDG.E.128 R8, desc[UR4][R2.64+0x10]"
    );
    assert_eq!(t(Op::STG, &[M::E], &[ur(4), r(2), r(7)]), "STG.E desc[UR4][R2.64], R7");
    assert_eq!(t(Op::LDS, &[], &[r(3), r(7), imm(0x100)]), "LDS R3, [R7+0x100]");
    assert_eq!(t(Op::FFMA, &[M::FTZ], &[r(0), r(1), real(-0.5), r(2).neg()]), "FFMA.FTZ R0, R1, -0.5, -R2");
    assert_eq!(t(Op::S2R, &[], &[r(0), name(M::SR_TID_X)]), "S2R R0, SR_TID.X");
    assert_eq!(t(Op::ULDC, &[M::_64], &[ur(4), c(0, 0x208)]), "ULDC.64 UR4, c[0x0][0x208]");
    assert_eq!(t(Op::BAR, &[M::SYNC, M::DEFER_BLOCKING], &[imm(0)]), "BAR.SYNC.DEFER_BLOCKING 0x0");
    assert_eq!(t(Op::BRA, &[], &[relative(0x40)]), "BRA 0x50");
    assert_eq!(t(Op::EXIT, &[], &[]), "EXIT");
    assert_eq!(
        t(Op::SHFL, &[M::BFLY], &[pt(), r(7), r(2), imm(16), imm(31)]),
        "SHFL.BFLY PT, R7, R2, 0x10, 0x1f"
    );
    assert_eq!(
        t(Op::ISETP, &[M::GE, M::U32, M::AND], &[p(1), pt(), r(0), imm(8), pt()]),
        "ISETP.GE.U32.AND P1, PT, R0, 0x8, PT"
    );
}

#[test]
fn predicate_results_may_be_left_out() {
    let t = |op, modifiers: &[M], operands: &[Operand]| text(Isa::Sm100, op, modifiers, operands);
    assert_eq!(t(Op::IADD3, &[], &[r(4), r(2), r(3), rz()]), "IADD3 R4, PT, PT, R2, R3, RZ");
    assert_eq!(t(Op::IADD3, &[], &[r(4), p(1), r(2), r(3), rz()]), "IADD3 R4, P1, PT, R2, R3, RZ");
    assert_eq!(t(Op::ISETP, &[M::LT, M::AND], &[p(2), r(0), r(1), pt()]), "ISETP.LT.AND P2, PT, R0, R1, PT");
}

#[test]
fn what_nvdisasm_leaves_out_is_in_the_listing() {
    let inst = Inst::new(Isa::Sm80, Op::STG, &[M::E], &[ur(4), r(2), r(7)]).unwrap();
    assert_eq!(inst.to_string(), "STG.E udesc[UR4][R2.64], R7");
    assert_eq!(inst.at(0).like_nvdisasm().to_string(), "STG.E [R2.64], R7");
    let second = Inst::new(Isa::Sm90, Op::IADD3, &[], &[r(4), pt(), p(1), r(2), r(3), rz()]).unwrap();
    assert_eq!(second.to_string(), "IADD3 R4, PT, P1, R2, R3, RZ");
    assert_eq!(parse(Isa::Sm90, &second.to_string()).unwrap(), second);
    assert_eq!(second.at(0).like_nvdisasm().to_string(), "IADD3 R4, P1, R2, R3, RZ");
}

#[test]
fn every_target_has_instructions() {
    let has = |isa: Isa, op| sass::Form::of(op).iter().any(|form| form.isas.contains(isa));
    for target in sass::Target::ALL {
        assert!(has(target.isa, Op::IMAD), "{}", target.name);
        assert_eq!(has(target.isa, Op::LDCU), target.has_ldcu, "{}", target.name);
    }
    assert!(has(Isa::Sm90, Op::HGMMA) && !has(Isa::Sm90, Op::QMMA));
}

#[test]
fn aliases_are_printed_and_read() {
    let isa = Isa::Sm90;
    let shl = Inst::new(isa, Op::IMAD, &[M::U32], &[r(0), r(1), imm(4), rz()]).unwrap();
    assert_eq!(shl.to_string(), "IMAD.SHL.U32 R0, R1, 0x4, RZ");
    assert!(parse(isa, "IMAD.SHL.U32 R0, R1, 0x3, RZ").is_err(), "three is no shift");
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    assert!(legal(Isa::Sm90, Op::IADD3, &[], &[r(0), r(1), c(0, 0x210), rz()]));
    assert!(
        !legal(Isa::Sm100, Op::IADD3, &[], &[r(0), r(1), c(0, 0x210), rz()]),
        "no c[][] operands from sm_100 on"
    );
    assert!(!legal(Isa::Sm90, Op::IADD3, &[], &[r(0), imm(1), r(1), rz()]), "the first source is a register");
    assert!(!legal(Isa::Sm90, Op::LDS, &[], &[r(0), r(1), imm(0x80_0000)]), "offsets have 24 bits");
    let error = Inst::new(Isa::Sm75, Op::VIADD, &[], &[r(0), r(1), r(2)]).unwrap_err();
    assert_eq!(error, SelectError::Operation(Op::VIADD));
}

#[test]
fn control_codes_are_checked_and_printed() {
    let inst = Inst::new(Isa::Sm90, Op::LDS, &[], &[r(3), r(7)]).unwrap().guarded(Guard::not(2));
    let control = Control { stall: 4, yields: true, write: Some(1), wait: 5, ..Control::default() };
    let inst = inst.controlled(control);
    let line = format!("{} {inst}", inst.control);
    assert_eq!(line, "05:-:1:Y:04 @!P2 LDS R3, [R7]");
    assert_eq!(parse(Isa::Sm90, &line).unwrap(), inst);
    let bad = [
        Control { stall: 12, ..Control::default() },
        Control { stall: 0, ..Control::default() },
        Control { yields: true, reuse: 1, ..Control::default() },
        Control { write: Some(6), ..Control::default() },
    ];
    for control in bad {
        assert!(encode(&inst.clone().controlled(control)).is_err(), "{control:?}");
    }
}

#[test]
fn roles_know_register_runs() {
    let load = Inst::new(Isa::Sm90, Op::LDG, &[M::E, M::_128], &[r(8), ur(4), r(2)]).unwrap();
    let found: Vec<_> = load.registers().map(|a| (a.file, a.first, a.count, a.role)).collect();
    use sass::Kind::{R, U};
    assert_eq!(found, [(R, 8, 4, Role::Def), (U, 4, 2, Role::Use), (R, 2, 2, Role::Use)]);
    assert!(load.form().class.scoreboards().write);
}

#[test]
fn unknown_words_stay_as_they_are() {
    let word = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
    let inst = decode(Isa::Sm90, word);
    assert_eq!(inst.to_string(), ".word 0x0123456789abcdef0123456789abcdef");
    assert_eq!(encode(&inst), Ok(word));
    assert_eq!(parse(Isa::Sm90, &inst.to_string()).unwrap(), inst);
}

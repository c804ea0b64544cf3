//! The verifier accepts what ptxas emits and finds every planted error.

use cubin::{Body, Object};
use sass::model::Signal;
use sass::{Inst, Isa, Kind, Model, Role, parse_at};
use sim::verify::mutants::{What, mutants};
use sim::verify::{Code, Error, Relation, Short, read, verify, verify_code};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGETS: [&str; 7] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"];

/// ptxas, from the folder in `SASSAFRAS_TOOLS` or from the one that `cargo xtask setup` fills.
fn ptxas() -> PathBuf {
    let folder = match std::env::var_os("SASSAFRAS_TOOLS") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => {
            let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ref/lib");
            let pythons = std::fs::read_dir(lib).ok().into_iter().flatten().flatten();
            let bins = pythons.map(|python| python.path().join("site-packages/nvidia/cu13/bin"));
            bins.filter(|bin| bin.is_dir()).max()
        }
    };
    let path = folder.map(|folder| folder.join("ptxas")).filter(|path| path.is_file());
    path.expect("reference tools are missing: run `cargo xtask setup`")
}

/// The cubins that ptxas makes of the real PTX in the repository, for one target.
fn cubins(target: &str) -> Vec<(String, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx/tests/corpus");
    let scratch = std::env::temp_dir().join(format!("sim-verify-{target}-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a folder for temporary files");
    let mut made = Vec::new();
    for folder in ["inductor", "triton", "ops"] {
        let entries = std::fs::read_dir(corpus.join(folder)).expect("the corpus is in the repository");
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).expect("PTX is text");
            let retarget = |line: &str| match line.starts_with(".target ") {
                true => format!(".target {target}\n"),
                false => format!("{line}\n"),
            };
            let (source, cubin) = (scratch.join("in.ptx"), scratch.join("out.cubin"));
            std::fs::write(&source, text.lines().map(retarget).collect::<String>())
                .expect("a temporary file");
            let output = Command::new(ptxas()).args(["-arch", target, "-o"]).args([&cubin, &source]).output();
            // ptxas refuses a file that uses what the target does not have.
            if output.expect("ptxas starts").status.success() {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                made.push((name, std::fs::read(&cubin).expect("ptxas wrote a cubin")));
            }
        }
    }
    // Left-over temporary files are no reason to fail.
    let _ = std::fs::remove_dir_all(&scratch);
    made
}

#[test]
fn ptxas_code_is_clean_and_every_planted_error_is_found() {
    let mut planted = [0; What::NAMES.len()];
    for target in TARGETS {
        let cubins = cubins(target);
        assert!(cubins.len() >= 20, "{target}: ptxas accepts {} files only", cubins.len());
        let mut instructions = 0;
        for (file, bytes) in &cubins {
            let verdict = verify(bytes).expect("a cubin of ptxas can be read");
            instructions += verdict.instructions;
            assert!(verdict.reports.is_empty(), "{target} {file}: {}", verdict.reports[0]);
            plant(&format!("{target} {file}"), bytes, &mut planted);
        }
        assert!(instructions >= 2_500, "{target}: {instructions} instructions only");
    }
    // The small corpus has no asynchronous products, and no uniform registers behind branches on the index of a thread.
    for (kind, least) in [200, 20, 20, 10, 0, 5, 50, 0].into_iter().enumerate() {
        assert!(planted[kind] >= least, "{}: {planted:?}", What::NAMES[kind]);
    }
}

/// Plants an error at one place in eleven of the smaller sections, and at every place for the rarest kinds, and looks for
/// its report.
fn plant(file: &str, bytes: &[u8], planted: &mut [u32; What::NAMES.len()]) {
    let object = Object::read(bytes).expect("a cubin of ptxas can be read");
    for mut code in read(&object).expect("its target is known") {
        if code.insts.len() > 600 {
            continue;
        }
        let all = mutants(Model::of(code.isa), &code.insts, 1).into_iter().enumerate();
        let is_rare = |what: What| matches!(what, What::DropReadBarrier | What::Overwrite(_));
        for (_, mutant) in all.filter(|(place, m)| (place + m.first) % 11 == 5 || is_rare(m.what)) {
            let intact = code.insts[mutant.at].clone();
            mutant.apply(&mut code.insts);
            let found = match verify_code(&code) {
                Err(Error::Unsignalled { address, .. }) => address == mutant.first as u64 * 16,
                verdict => mutant.is_reported(&verdict.expect("the code is known")),
            };
            assert!(found, "{file} {}: {mutant:?} is not reported\n{intact:?}", code.name);
            code.insts[mutant.at] = intact;
            planted[mutant.what.kind()] += 1;
        }
    }
}

/// A section of lines with control codes.
fn listing(isa: Isa, lines: &[&str]) -> Code {
    let parse = |(index, line): (usize, &&str)| -> Inst {
        parse_at(isa, line, index as u64 * 16).unwrap_or_else(|error| panic!("{line}: {error:?}"))
    };
    let insts = lines.iter().enumerate().map(parse).collect();
    let (indirect, written_by_functions) = (BTreeMap::new(), BTreeSet::new());
    Code { name: "k".into(), isa, insts, indirect, written_by_functions }
}

/// The missing things, in order.
fn shorts(isa: Isa, lines: &[&str]) -> Vec<(Relation, Short)> {
    let reports = verify_code(&listing(isa, lines)).expect("known code");
    reports.into_iter().map(|report| (report.relation, report.short)).collect()
}

#[test]
fn distances_count_from_issue_to_issue() {
    let chain = |stall: u8| {
        let first = format!("--:-:-:-:{stall:02} IADD3 R1, R2, R3, RZ");
        shorts(Isa::Sm90, &[&first, "--:-:-:-:05 IADD3 R4, R1, R3, RZ", "--:-:-:-:05 EXIT"])
    };
    assert_eq!(chain(4), []);
    assert_eq!(chain(3), [(Relation::Raw, Short::Cycles { have: 3, need: 4 })]);
}

/// Who reads both coordinates has them before it writes over the second one; who reads one may not.
#[test]
fn coordinates_are_read_by_shape() {
    let over_a_coordinate = |shape: &str| {
        let texture = format!("--:-:5:-:01 TEX.LL RZ, R5, R4, R6, UR4, 0x0, {shape}, 0x1");
        shorts(Isa::Sm90, &["--:-:-:-:05 MOV R5, RZ", &texture, "20:-:-:-:05 EXIT"])
    };
    assert_eq!(over_a_coordinate("2D"), []);
    assert_eq!(over_a_coordinate("1D"), [(Relation::Waw, Short::Cycles { have: 5, need: 6 })]);
}

#[test]
fn a_scoreboard_is_seen_two_cycles_after_it_was_set() {
    let load = |stall: u8, wait: &str| {
        let first = format!("--:-:0:-:{stall:02} LDS R1, [R2]");
        let second = format!("{wait}:-:-:-:05 IADD3 R4, R1, R3, RZ");
        shorts(Isa::Sm90, &[&first, &second, "--:-:-:-:05 EXIT"]).len()
    };
    assert_eq!(load(2, "01"), 0);
    assert_eq!(load(1, "01"), 1);
    assert_eq!(load(2, "02"), 1);
}

#[test]
fn the_last_barrier_of_a_run_speaks_for_the_loads_before_it() {
    let loads = |op: &str, second: &str| {
        let lines = [
            format!("--:-:-:-:04 {op}"),
            format!("--:-:0:-:04 {second}"),
            "01:-:-:-:05 FADD R4, R1, R3".to_string(),
            "--:-:-:-:05 EXIT".to_string(),
        ];
        shorts(Isa::Sm90, &lines.each_ref().map(|line| line.as_str())).len()
    };
    assert_eq!(loads("LDS R1, [R2]", "LDS R3, [R2+0x4]"), 0);
    // Global loads answer in any order.
    assert_eq!(loads("LDG.E R1, desc[UR4][R8.64]", "LDG.E R3, desc[UR4][R8.64+0x4]"), 1);
}

#[test]
fn the_worse_of_two_paths_counts() {
    let code = [
        "--:-:-:-:01 IADD3 R1, R2, R3, RZ",
        "--:-:-:-:02 @P0 BRA 0x40",
        "--:-:-:-:05 IADD3 R5, R2, R3, RZ",
        "--:-:-:-:05 IADD3 R6, R2, R3, RZ",
        "--:-:-:-:05 IADD3 R4, R1, R3, RZ",
        "--:-:-:-:05 EXIT",
    ];
    assert_eq!(shorts(Isa::Sm90, &code), [(Relation::Raw, Short::Cycles { have: 3, need: 4 })]);
}

#[test]
fn a_loop_is_followed_round() {
    let code = |stall: u8| {
        let branch = format!("--:-:-:-:{stall:02} @P0 BRA 0x0");
        let lines = ["--:-:-:-:01 IADD3 R1, R2, R4, RZ", "--:-:-:-:01 FADD R2, R3, R5", &branch];
        shorts(Isa::Sm90, &[lines[0], lines[1], lines[2], "--:-:-:-:05 EXIT"])
    };
    assert_eq!(code(4), []);
    assert_eq!(code(3), [(Relation::Raw, Short::Cycles { have: 4, need: 5 })]);
}

#[test]
fn guards_that_exclude_each_other_do_not_depend() {
    let code = |guard: &str| {
        let second = format!("--:-:-:-:05 {guard} IADD3 R4, R1, R3, RZ");
        shorts(Isa::Sm90, &["--:-:-:-:01 @P0 IADD3 R1, R2, R3, RZ", &second, "--:-:-:-:05 EXIT"]).len()
    };
    assert_eq!(code("@!P0"), 0);
    assert_eq!(code("@P0"), 1);
    assert_eq!(code("@P1"), 1);
}

#[test]
fn an_early_overwrite_of_a_store_is_reported() {
    let code = |read: &str, wait: &str| {
        let store = format!("--:{read}:-:-:02 STG.E desc[UR4][R8.64], R1");
        let second = format!("{wait}:-:-:-:05 MOV R1, R2");
        shorts(Isa::Sm90, &[&store, &second, "--:-:-:-:05 EXIT"]).len()
    };
    assert_eq!(code("3", "08"), 0);
    assert_eq!(code("3", "--"), 1);
    assert_eq!(code("-", "08"), 1);
}

/// A convergence barrier that is kept in a register: it arrives there late, and is read from there late.
#[test]
fn a_saved_convergence_barrier_waits_for_its_scoreboards() {
    let save = |write: &str, wait: &str| {
        let save = format!("--:-:{write}:-:06 BMOV.32.CLEAR R0, B6");
        let store = format!("{wait}:5:-:-:05 STL [R1], R0");
        shorts(Isa::Sm90, &[&save, &store, "20:-:-:-:05 EXIT"]).len()
    };
    assert_eq!((save("0", "01"), save("0", "--"), save("-", "--")), (0, 1, 1));
    let restore = |read: &str, wait: &str| {
        let restore = format!("--:{read}:-:-:05 BMOV.32 B6, R0");
        let next = format!("{wait}:-:-:-:05 MOV R0, R2");
        shorts(Isa::Sm90, &[&restore, &next, "--:-:-:-:05 EXIT"]).len()
    };
    assert_eq!((restore("0", "01"), restore("0", "--"), restore("-", "--")), (0, 1, 1));
    // The barrier itself is read and written at issue.
    let join = ["--:0:-:-:05 BMOV.32 B6, R0", "--:-:-:-:05 BSYNC B6", "01:-:-:-:05 EXIT"];
    assert_eq!(shorts(Isa::Sm90, &join), []);
}

/// Loads from constant memory read their addresses in any order, other loads one behind the other.
#[test]
fn a_load_over_the_address_of_another_waits_where_there_is_no_order() {
    let code = |first: &str, second: &str, wait: &str| {
        let first = format!("--:3:0:-:04 {first}");
        let second = format!("{wait}:-:1:-:05 {second}");
        shorts(Isa::Sm90, &[&first, &second, "03:-:-:-:05 EXIT"])
    };
    let constants = |wait| code("LDC R1, c[0x3][R2]", "LDC R2, c[0x3][R4]", wait).len();
    assert_eq!((constants("08"), constants("01"), constants("--")), (0, 0, 1));
    assert_eq!(code("LDS R1, [R2]", "LDS R2, [R4]", "--"), []);
}

#[test]
fn accumulators_wait_for_their_group() {
    let code = |left: u8| {
        let wait = format!("--:-:-:-:05 WARPGROUP.DEPBAR.LE gsb0, {left:#x}");
        let lines = [
            "--:-:-:-:04 HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0",
            "--:-:-:-:04 HGMMA.64x8x16.F32 R32, gdesc[UR8], R32, gsb0",
            &wait,
            "--:-:-:-:05 FADD R4, R24, R3",
            "--:-:-:-:05 EXIT",
        ];
        shorts(Isa::Sm90, &lines).len()
    };
    assert_eq!((code(0), code(1), code(2)), (0, 0, 1));
}

#[test]
fn a_wait_under_a_guard_is_no_wait() {
    let code = |guard: &str| {
        let wait = format!("--:-:-:-:05 {guard} WARPGROUP.DEPBAR.LE gsb0, 0x0");
        let lines = [
            "--:-:-:-:04 HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0",
            &wait,
            "--:-:-:-:05 FADD R4, R24, R3",
            "--:-:-:-:05 EXIT",
        ];
        shorts(Isa::Sm90, &lines).len()
    };
    assert_eq!((code(""), code("@P0"), code("@!PT")), (0, 1, 1));
}

#[test]
fn beside_a_in_registers_the_upper_half_of_the_descriptor_is_read() {
    let code = |register: u8| {
        let first = format!("--:-:-:-:01 UIADD3 UR{register}, UR20, UR21, URZ");
        let product = "--:-:-:-:04 HGMMA.64x8x16.F32 R24, R28, gdesc[UR4], R24, gsb0";
        shorts(Isa::Sm90, &[&first, product, "--:-:-:-:05 EXIT"]).len()
    };
    assert_eq!([4, 5, 6, 7].map(code), [0, 0, 1, 1]);
}

#[test]
fn no_stall_and_no_hold_lets_the_pipes_run_empty() {
    let code = |control: &str| {
        let first = format!("{control} HMMA.16816.F32 R4, R8, R12, R4");
        shorts(Isa::Sm90, &[&first, "--:-:-:-:05 MOV R20, R4", "--:-:-:-:05 EXIT"]).len()
    };
    assert_eq!((code("--:-:-:Y:00"), code("--:-:-:-:00"), code("--:-:-:Y:15")), (0, 1, 1));
}

/// What is wrong with operands that the first of some instructions keeps.
fn kept(lines: &[&str]) -> Vec<Short> {
    let lines: Vec<&str> = lines.iter().copied().chain(["--:-:-:-:05 EXIT"]).collect();
    let reports = verify_code(&listing(Isa::Sm90, &lines)).expect("known code");
    let of_cache = |short: &Short| matches!(short, Short::Cached | Short::Unread);
    reports.into_iter().map(|report| report.short).filter(of_cache).collect()
}

#[test]
fn a_kept_operand_is_found_by_the_next_reader_of_its_place() {
    let keeper = "--:-:-:-:02 FFMA R4, R5.reuse, R6, R4";
    let reader = "--:-:-:-:05 IADD3 R8, R5, R9, R10";
    assert_eq!(kept(&[keeper, reader]), []);
    // Nobody, another lane, another unit, the same bank in between.
    assert_eq!(kept(&[keeper]), [Short::Unread]);
    assert_eq!(kept(&[keeper, "--:-:-:-:05 FADD R8, R9, R5"]), [Short::Unread]);
    assert_eq!(kept(&[keeper, "--:-:-:-:05 HADD2 R8, R5, R9"]), [Short::Unread]);
    assert_eq!(kept(&[keeper, "--:-:-:-:02 FADD R8, R7, R9", reader]), [Short::Unread]);
    // The other bank, memory, another unit of the same bank.
    for between in ["FADD R12, R14, R9", "LDS R12, [R13]", "HADD2 R12, R7, R9", "FADD R12, RZ, R9"] {
        assert_eq!(kept(&[keeper, &format!("--:-:0:-:02 {between}"), reader]), [], "{between}");
    }
    // A warp that lets others go first loses it; behind the reader it may.
    assert_eq!(kept(&[keeper, "--:-:-:Y:02 LDS R12, [R13]", reader]), [Short::Unread]);
    assert_eq!(kept(&[keeper, "--:-:-:Y:05 IADD3 R8, R5, R9, R10"]), []);
    assert_eq!(kept(&[keeper, "--:-:-:-:05 @P0 BRA 0x0", reader]), [Short::Unread]);
}

#[test]
fn a_kept_operand_is_not_overwritten() {
    let reader = "--:-:-:-:05 FADD R8, R5, R9";
    let later = ["--:-:-:-:02 MOV R20, 0x1"; 3];
    let code = |lines: &[&str]| kept(&[lines, &later, &[reader]].concat());
    assert_eq!(code(&["--:-:-:-:02 FFMA R4, R5.reuse, R6, R4"]), []);
    assert_eq!(code(&["--:-:-:-:02 FFMA R5, R5.reuse, R6, R4"]), [Short::Cached]);
    assert_eq!(code(&["--:-:-:-:02 FFMA R6, R5.reuse, R6, R4"]), []);
    assert_eq!(code(&["--:-:-:-:02 FFMA R4, R5.reuse, R6, R4", "--:-:-:-:02 MOV R5, 0x2"]), [Short::Cached]);
    assert_eq!(
        code(&["--:-:-:-:02 FFMA R4, R5.reuse, R6, R4", "--:-:-:-:02 @P0 MOV R5, 0x2"]),
        [Short::Cached]
    );
}

/// An operand of two words lies in both banks.
#[test]
fn pairs_are_kept_and_found_in_both_banks() {
    let keeper = "--:-:-:-:02 IMAD.WIDE R2, R11, R4, R6.reuse";
    assert_eq!(kept(&[keeper, "--:-:-:-:05 IMAD.WIDE R8, R13, R4, R6"]), []);
    assert_eq!(kept(&[keeper, "--:-:-:-:05 FFMA R8, R13, R4, R6"]).len(), 1);
    assert_eq!(
        kept(&["--:-:-:-:02 FFMA R8, R13, R4, R7.reuse", "--:-:-:-:05 IMAD.WIDE R2, R11, R4, R6"]),
        []
    );
}

/// What a kernel of these lines leaves in memory, or what was wrong.
fn simulate(lines: &[&str]) -> Result<u32, Vec<Short>> {
    let source =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) { ret; }\n";
    let module = ptx::parse(source, &ptx::Options::default()).module.expect("a kernel");
    let cubin = sassafras::compile_module(&module, &sassafras::Options::new(module.target)).cubin;
    let mut object = Object::read(&cubin.expect("a cubin")).expect("it can be read");
    let code = listing(Isa::Sm90, lines).insts;
    let words = code.iter().map(|inst| sass::encode(inst).unwrap_or_else(|e| panic!("{inst}: {e}")));
    let bytes: Vec<u8> = words.flat_map(u128::to_le_bytes).collect();
    let text = object.sections.iter_mut().find(|section| section.name == ".text.k").expect("code");
    let Body::Bytes(room) = &mut text.body else { panic!("code is bytes") };
    room[..bytes.len()].copy_from_slice(&bytes);
    let program = sim::sass::Program::new(&object.write().expect("a cubin")).expect("a program");
    let mut machine = sim::sass::Machine::new(&program);
    let memory = machine.allocate(vec![0; 4]);
    let parameters = memory.to_le_bytes();
    let ran = machine.run(&sim::ptx::Launch::new("k", [1; 3], [1; 3], &parameters));
    ran.map_err(|fault| fault.hazards.iter().map(|report| report.short).collect::<Vec<_>>())?;
    Ok(u32::from_le_bytes(machine.read(memory, 4).expect("memory").try_into().expect("a word")))
}

#[test]
fn the_simulator_reads_what_the_operand_cache_keeps() {
    let run = |keeper: &str| {
        simulate(&[
            "--:-:0:-:01 LDC.64 R2, c[0x0][0x210]",
            "--:-:-:Y:12 ULDC.64 UR4, c[0x0][0x208]",
            "01:-:-:Y:12 MOV R8, 0x7",
            keeper,
            "--:-:-:-:11 MOV R8, 0x9",
            "--:-:-:Y:12 IADD3 R10, R8, 0x1, RZ",
            "--:-:-:-:02 STG.E desc[UR4][R2.64], R10",
            "--:-:-:-:05 EXIT",
        ])
    };
    assert_eq!(run("--:-:-:-:02 IADD3 R9, R8, 0x1, RZ"), Ok(10));
    assert_eq!(run("--:-:-:-:02 IADD3 R9, R8.reuse, 0x1, RZ"), Err(vec![Short::Cached]));
    assert_eq!(run("--:-:-:-:02 IADD3 R9, R11.reuse, 0x1, RZ").map_err(|all| all[0]), Err(Short::Unread));
}

#[test]
fn unknown_code_finds_nothing_late() {
    let code = |wait: &str, last: &str| {
        let lines = ["--:-:0:-:02 LDS R16, [R2]".to_string(), format!("{wait}:-:-:-:05 {last}")];
        shorts(Isa::Sm90, &[&lines[0], &lines[1], "--:-:-:-:05 EXIT"])
    };
    for last in ["CALL.ABS.NOINC R8", "RET.ABS.NODEC R20 0x0"] {
        assert_eq!(code("01", last), [], "{last}");
        // The result, and the address that may not have been read.
        assert_eq!(code("--", last).len(), 2, "{last}");
    }
}

/// Calls deeper than they are told apart: what the innermost function leaves under way meets each of its callers.
#[test]
fn a_chain_of_calls_comes_back_through_each() {
    let code = |wait: &str| {
        let call = |target: u32| format!("--:-:-:-:01 CALL.REL.NOINC {target:#x}");
        let ret = || "--:-:-:-:01 RET.REL.NODEC R20 0x0".to_string();
        let read = |register: u8| format!("--:-:-:-:01 IADD3 R{register}, R1, R3, RZ");
        let mut lines = vec![call(0x30), read(10), "--:-:-:-:05 EXIT".to_string()];
        for (target, register) in [(0x60, 11), (0x90, 12), (0xc0, 13), (0xf0, 14)] {
            lines.extend([call(target), read(register), ret()]);
        }
        lines.extend(["--:-:0:-:02 LDS R1, [R2]".to_string(), ret()]);
        lines[13] = lines[13].replacen("--", wait, 1);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let reports = verify_code(&listing(Isa::Sm90, &lines)).expect("known code");
        reports.into_iter().map(|report| report.second.address).collect::<Vec<_>>()
    };
    assert_eq!(code("01"), []);
    assert_eq!(code("--"), [0x10, 0x40, 0x70, 0xa0, 0xd0]);
}

#[test]
fn the_model_knows_the_facts_that_were_measured_by_hand() {
    let port = |isa: Isa, line: &str, role| {
        let inst = sass::parse(isa, line).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        let touches: Vec<_> = Model::of(isa).touches(&inst).filter(|touch| touch.role == role).collect();
        touches[0].port
    };
    let raw = |isa: Isa, from: &str, to: &str| {
        let (from, to) = (port(isa, from, sass::Role::Def), port(isa, to, sass::Role::Use));
        Model::of(isa).raw(from, to).cycles
    };
    const ALU: &str = "LOP3.LUT R1, R2, R3, R4, 0x96, !PT";
    const FMA: &str = "FFMA R5, R1, R2, R3";
    for isa in Isa::ALL {
        assert_eq!((raw(isa, ALU, ALU), raw(isa, FMA, FMA)), (4, 4), "{isa:?}");
        assert_eq!((raw(isa, ALU, FMA), raw(isa, FMA, ALU)), (5, 5), "{isa:?}");
        let guard = raw(isa, "ISETP.NE.AND P0, PT, R2, R3, PT", "@P0 LOP3.LUT R1, R2, R3, R4, 0x96, !PT");
        assert_eq!(guard, if isa == Isa::Sm75 { 12 } else { 13 }, "{isa:?}");
    }
    // An H200 read the old value four cycles behind HFMA2 or HADD2.
    const HALF: &str = "HFMA2 R1, R2, R3, R4";
    const TO_SINGLE: &str = "HADD2.F32 R5, -RZ, R1.H0_H0";
    let half = |from, to| raw(Isa::Sm90, from, to);
    assert_eq!((half(HALF, HALF), half(HALF, TO_SINGLE)), (4, 5));
    assert_eq!((half(TO_SINGLE, HALF), half(TO_SINGLE, TO_SINGLE)), (5, 5));
    // ptxas never comes closer to a product, in 200 or more pairs of each shape.
    for (product, cycles) in [
        ("IMMA.8816.S8.S8 R4, R8.ROW, R12.COL, R4", 13),
        ("HMMA.1688.F32 R4, R8, R12, R4", 16),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", 24),
        ("HMMA.16816.F16 R4, R8, R12, R4", 24),
        ("HMMA.SP.16816.F32 R4, R8, R12, R4, R20, 0x0", 16),
        ("HMMA.SP.16832.F32 R4, R8, R12, R4, R20, 0x0", 24),
        ("IMMA.16816.S8.S8 R4, R8.ROW, R12.COL, R4", 16),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4", 24),
    ] {
        assert_eq!(raw(Isa::Sm90, product, FMA), cycles, "{product}");
    }
    assert!(
        Model::of(Isa::Sm90).touches(&sass::parse(Isa::Sm90, "@!PT LDS RZ, [R2]").unwrap()).next().is_none()
    );
    assert!(
        Model::of(Isa::Sm90)
            .raw(port(Isa::Sm90, "LDS R1, [R2]", sass::Role::Def), port(Isa::Sm90, ALU, sass::Role::Use))
            .signal
            .is_some()
    );
}

#[test]
fn atomics_must_tell_when_they_are_done() {
    let code = |control: &str| {
        let atomic = format!("{control} ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R4], R3");
        verify_code(&listing(Isa::Sm90, &[&atomic, "--:-:-:-:02 DEPBAR 0x3f", "04:-:-:Y:05 EXIT"]))
    };
    assert!(code("--:2:3:-:01").is_ok_and(|reports| reports.is_empty()));
    assert!(matches!(code("--:2:-:-:01"), Err(Error::Unsignalled { address: 0, .. })));
    let alone = ["--:2:-:-:01 ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R4], R3", "04:-:-:Y:05 EXIT"];
    assert!(verify_code(&listing(Isa::Sm90, &alone)).is_ok_and(|reports| reports.is_empty()));
}

#[test]
fn the_predicate_of_an_atomic_is_there_when_its_sources_are_read() {
    let run = |control: &str| {
        let lines = [
            "--:0:5:-:01 ATOM.E.ADD.F32.FTZ.RN.STRONG.GPU P0, R7, [R4], R3",
            &format!("{control} @P0 EXIT"),
            "20:-:-:Y:02 MOV R6, R7",
            "--:-:-:Y:05 EXIT",
        ];
        let reports = verify_code(&listing(Isa::Sm90, &lines)).expect("known code");
        reports.into_iter().map(|report| report.short).collect::<Vec<Short>>()
    };
    assert_eq!(run("01:-:-:-:05"), []);
    assert_eq!(run("20:-:-:-:05"), []);
    assert_eq!(run("--:-:-:-:05"), [Short::Signal(Signal::Write)]);
}

/// Who writes over a uniform register that others still read, and who reads it: their addresses.
fn lost(lines: &[&str]) -> Vec<(u64, u64)> {
    let lines: Vec<String> = lines.iter().map(|line| format!("3f:-:-:Y:15 {line}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let reports = verify_code(&listing(Isa::Sm90, &lines)).expect("known code");
    let divergent = reports.into_iter().filter(|report| report.short == Short::Divergent);
    divergent.map(|report| (report.first.address, report.second.address)).collect()
}

/// Indices that differ between the threads of a warp, and some that don't.
const THREAD: &str = "S2R R0, SR_TID.X";
const BLOCK: &str = "S2R R0, SR_CTAID.X";

#[test]
fn a_side_of_a_branch_leaves_the_registers_of_others_alone() {
    let code = |index: &str, side: &str, other: &str, behind: &str| {
        lost(&[
            index,
            "UMOV UR4, 0x1",
            "ISETP.GT.U32.AND P0, PT, R0, 0x5, PT",
            "BSSY B0, 0x80",
            "@P0 BRA 0x70",
            side,
            "BRA 0x80",
            other,
            "BSYNC B0",
            behind,
            "EXIT",
        ])
    };
    const WRITE: &str = "UMOV UR4, 0x2";
    const READ: &str = "MOV R1, UR4";
    // On the other side, and where they meet again.
    assert_eq!(code(THREAD, WRITE, READ, "NOP"), [(0x50, 0x70)]);
    assert_eq!(code(THREAD, READ, WRITE, "NOP"), [(0x70, 0x50)]);
    assert_eq!(code(THREAD, WRITE, "NOP", READ), [(0x50, 0x90)]);
    assert_eq!(code(THREAD, WRITE, WRITE, READ), [(0x50, 0x90), (0x70, 0x90)]);
    // All threads go the same way.
    assert_eq!(code(BLOCK, WRITE, READ, READ), []);
    // Nobody reads it there, or reads what is new.
    assert_eq!(code(THREAD, READ, READ, READ), []);
    assert_eq!(code(THREAD, WRITE, "UMOV UR5, 0x2", WRITE), []);
}

/// A register that threads read behind a branch is written on one side of it.
#[test]
fn planted_writes_of_uniform_registers_are_found() {
    let lines = [
        THREAD,
        "UMOV UR4, 0x1",
        "ISETP.GT.U32.AND P0, PT, R0, 0x5, PT",
        "BSSY B0, 0x60",
        "@P0 BRA 0x60",
        "IADD3 R6, R7, 0x1, RZ",
        "BSYNC B0",
        "MOV R1, UR4",
        "EXIT",
    ]
    .map(|line| format!("3f:-:-:Y:15 {line}"));
    let intact = listing(Isa::Sm90, &lines.each_ref().map(String::as_str));
    let all = mutants(Model::of(Isa::Sm90), &intact.insts, 1);
    let overwrites: Vec<_> = all.iter().filter(|m| matches!(m.what, What::Overwrite(_))).collect();
    assert_eq!(overwrites.iter().map(|m| (m.first, m.second)).collect::<Vec<_>>(), [(5, 7)]);
    assert!(!overwrites[0].is_reported(&verify_code(&intact).expect("known code")));
    let mut code = intact;
    overwrites[0].apply(&mut code.insts);
    assert!(overwrites[0].is_reported(&verify_code(&code).expect("known code")));
}

/// Predicates as bits of a word: one that is the same for all threads is so beside others.
#[test]
fn bits_of_a_word_differ_one_by_one() {
    let code = |bit: &str, inside: &str| {
        let test = format!("LOP3.LUT P1, RZ, R2, {bit}, RZ, 0xc0, !PT");
        lost(&[
            THREAD,
            "S2R R1, SR_CTAID.X",
            "ISETP.EQ.AND P0, PT, R1, 0x0, PT",
            "SEL R2, RZ, 0x1, !P0",
            "ISETP.EQ.AND P0, PT, R0, 0x0, PT",
            "@P0 LOP3.LUT R2, R2, 0x2, RZ, 0xfc, !PT",
            "BSSY B0, 0x90",
            "@P0 BRA 0x90",
            inside,
            "BSYNC B0",
            "UMOV UR4, 0x1",
            &test,
            "@P1 BRA 0xf0",
            "UMOV UR4, 0x2",
            "NOP",
            "MOV R3, UR4",
            "EXIT",
        ])
    };
    const OTHER: &str = "LOP3.LUT R2, R2, 0x4, RZ, 0xfc, !PT";
    assert_eq!(code("0x1", "NOP"), []);
    assert_eq!(code("0x1", OTHER), []);
    assert_eq!(code("0x2", "NOP"), [(0xd0, 0xf0)]);
    assert_eq!(code("0x4", OTHER), [(0xd0, 0xf0)]);
    assert_eq!(code("0x1", "IADD3 R2, R2, 0x4, RZ"), [(0xd0, 0xf0)]);
}

#[test]
fn who_leaves_a_loop_finds_what_the_last_iteration_of_others_left() {
    let code = |index: &str| {
        lost(&[
            index,
            "UMOV UR4, URZ",
            "BSSY B0, 0x70",
            "UIADD3 UR4, UR4, 0x1, URZ",
            "IADD3 R0, R0, -0x1, RZ",
            "ISETP.NE.AND P0, PT, R0, RZ, PT",
            "@P0 BRA 0x30",
            "BSYNC B0",
            "MOV R1, UR4",
            "EXIT",
        ])
    };
    assert_eq!(code(THREAD), [(0x30, 0x80)]);
    assert_eq!(code(BLOCK), []);
}

#[test]
fn threads_that_wait_hold_their_registers() {
    let code = |first: &str, second: &str| {
        lost(&[
            THREAD,
            "ISETP.GT.U32.AND P0, PT, R0, 0x5, PT",
            "BSSY B0, 0xa0",
            "@P0 BRA 0x80",
            "ULDC.64 UR4, c[0x0][0x208]",
            first,
            "STG.E desc[UR4][R2.64], R0",
            "BRA 0xa0",
            "R2UR UR4, R6",
            second,
            "BSYNC B0",
            "EXIT",
        ])
    };
    // At different places, they may meet by turns; nobody is held up by what does not wait.
    assert_eq!(code("WARPSYNC.ALL", "WARPSYNC.ALL"), [(0x80, 0x60)]);
    assert_eq!(code("BAR.SYNC 0x0", "BAR.SYNC 0x0"), [(0x80, 0x60)]);
    assert_eq!(code("NANOSLEEP 0x10", "NOP"), [(0x80, 0x60)]);
    assert_eq!(code("NOP", "NOP"), []);
}

#[test]
fn constants_of_all_hold_where_all_meet() {
    let code = |source: &str, exit: &str| {
        lost(&[
            THREAD,
            "ISETP.GT.U32.AND P0, PT, R0, 0x5, PT",
            "BSSY B0, 0x90",
            "@P0 BRA 0x60",
            "R2UR UR4, R6",
            exit,
            source,
            "WARPSYNC.ALL",
            "LDS R1, [UR4]",
            "BSYNC B0",
            "EXIT",
        ])
    };
    assert_eq!(code("ULDC UR4, c[0x0][0x210]", "NOP"), []);
    assert_eq!(code("UMOV UR4, 0x400", "NOP"), []);
    // What each brings is its own; and who exits comes last without it.
    assert_eq!(code("R2UR UR4, R7", "NOP"), [(0x40, 0x80), (0x60, 0x80)]);
    assert!(code("UMOV UR4, 0x400", "EXIT").contains(&(0x40, 0x80)));
}

#[test]
fn what_differs_is_followed_through_the_stack() {
    let code = |index: &str, offset: u32| {
        let load = format!("LDL R3, [R1+{offset:#x}]");
        lost(&[
            "LDC R1, c[0x0][0x28]",
            index,
            "STL [R1+0x8], R0",
            "STL [R1+0xc], RZ",
            &load,
            "UMOV UR4, 0x1",
            "ISETP.NE.AND P0, PT, R3, RZ, PT",
            "BSSY B0, 0xa0",
            "@P0 BRA 0xa0",
            "UMOV UR4, 0x2",
            "BSYNC B0",
            "MOV R5, UR4",
            "EXIT",
        ])
    };
    assert_eq!(code(THREAD, 8), [(0x90, 0xb0)]);
    assert_eq!(code(THREAD, 12), []);
    assert_eq!(code(BLOCK, 8), []);
}

/// A value that is spilled ahead of a branch and reloaded on the side that took its register is the same in all threads
/// where the sides join, if it was before; and only then.
#[test]
fn a_reload_on_one_side_of_a_branch_makes_no_difference() {
    let code = |index: &str, store: &str, within: &str, reload: &str, behind: &str| {
        lost(&[
            "LDC R1, c[0x0][0x28]",
            index,
            "S2R R2, SR_LANEID",
            store,
            "ISETP.GT.U32.AND P0, PT, R2, 0x5, PT",
            "BSSY B0, 0xb0",
            "@P0 BRA 0xa0",
            "IABS R0, R2",
            within,
            reload,
            behind,
            "BSYNC B0",
            // R0 decides here.
            "UMOV UR4, 0x1",
            "ISETP.NE.AND P1, PT, R0, RZ, PT",
            "BSSY B1, 0x110",
            "@P1 BRA 0x110",
            "UMOV UR4, 0x2",
            "BSYNC B1",
            "MOV R5, UR4",
            "EXIT",
        ])
    };
    const LOST: [(u64, u64); 1] = [(0x100, 0x120)];
    const STORE: &str = "STL [R1+0x8], R0";
    const RELOAD: &str = "LDL R0, [R1+0x8]";
    assert_eq!(code(BLOCK, STORE, "NOP", RELOAD, "NOP"), []);
    assert_eq!(code(BLOCK, "STL.64 [R1+0x8], R0", "NOP", RELOAD, "NOP"), []);
    // The value differs, or is not what was spilled: another word, part of a word, or for some threads only.
    assert_eq!(code(THREAD, STORE, "NOP", RELOAD, "NOP"), LOST);
    assert_eq!(code(BLOCK, STORE, "NOP", "NOP", "NOP"), LOST);
    assert_eq!(code(BLOCK, STORE, "NOP", "LDL R0, [R1+0xc]", "NOP"), LOST);
    assert_eq!(code(BLOCK, STORE, "NOP", "LDL.U16 R0, [R1+0x8]", "NOP"), LOST);
    assert_eq!(code(BLOCK, "STL.U16 [R1+0x8], R0", "NOP", RELOAD, "NOP"), LOST);
    assert_eq!(code(BLOCK, STORE, "NOP", "@P2 LDL R0, [R1+0x8]", "NOP"), LOST);
    // The word is written again before the reload, or the register after it.
    for store in ["STL [R1+0x8], R2", "STL [R7], R2", "STL.U8 [R1+0x9], R2"] {
        assert_eq!(code(BLOCK, STORE, store, RELOAD, "NOP"), LOST, "{store}");
    }
    // A generic store, if some register may have an address of the stack.
    assert_eq!(code(BLOCK, STORE, "ST.E [R6], R2", RELOAD, "NOP"), []);
    for address in ["MOV R6, R1", "IADD3 R6, R1, 0x8, RZ", "LDC R6, c[0x0][0x28]", "STL [R1+0x10], R1"] {
        assert_eq!(code(BLOCK, STORE, "ST.E [R6], R2", RELOAD, address), LOST, "{address}");
    }
    // Afterwards the word doesn't count, unless it may differ.
    assert_eq!(code(BLOCK, STORE, "NOP", RELOAD, "STL [R1+0x8], R9"), []);
    assert_eq!(code(BLOCK, STORE, "NOP", RELOAD, "STL [R1+0x8], R2"), LOST);
    // Both sides compute the same of it, each for itself; of a register that nothing is known of, they may not.
    assert_eq!(code(BLOCK, STORE, "NOP", RELOAD, "IADD3 R0, R0, 0x1, RZ"), []);
    assert_eq!(code(BLOCK, STORE, "NOP", RELOAD, "IADD3 R0, R0, R9, RZ"), LOST);
    assert_eq!(code(BLOCK, "NOP", "NOP", RELOAD, "NOP"), LOST);
    // What is spilled on one side may differ, since the others have something else in the word.
    assert_eq!(code(BLOCK, "MOV R8, R2", "STL [R1+0x8], R8", RELOAD, "NOP"), LOST);
}

/// A value that one side of a branch moves out of its register and back is the same in all threads where the sides join,
/// if it was before; and only then.
#[test]
fn a_value_that_is_moved_and_moved_back_makes_no_difference() {
    let code = |index: &str, out: &str, back: &str| {
        lost(&[
            index,
            "S2R R2, SR_LANEID",
            "ISETP.GT.U32.AND P0, PT, R2, 0x5, PT",
            "BSSY B0, 0x80",
            "@P0 BRA 0x80",
            out,
            "IABS R0, R2",
            back,
            "BSYNC B0",
            // R0 decides here.
            "UMOV UR4, 0x1",
            "ISETP.NE.AND P1, PT, R0, RZ, PT",
            "BSSY B1, 0xe0",
            "@P1 BRA 0xe0",
            "UMOV UR4, 0x2",
            "BSYNC B1",
            "MOV R5, UR4",
            "EXIT",
        ])
    };
    const LOST: [(u64, u64); 1] = [(0xd0, 0xf0)];
    assert_eq!(code(BLOCK, "MOV R8, R0", "MOV R0, R8"), []);
    assert_eq!(code(BLOCK, "MOV R8, R0", "IMAD R0, RZ, RZ, R8"), []);
    assert_eq!(code(BLOCK, "IMAD R8, R2, RZ, R0", "MOV R0, R8"), []);
    assert_eq!(code(THREAD, "MOV R8, R0", "MOV R0, R8"), LOST);
    assert_eq!(code(BLOCK, "MOV R8, R0", "MOV R0, R9"), LOST);
    assert_eq!(code(BLOCK, "MOV R8, R0", "@P2 MOV R0, R8"), LOST);
    assert_eq!(code(BLOCK, "@P2 MOV R8, R0", "MOV R0, R8"), LOST);
    assert_eq!(code(BLOCK, "MOV R8, R0", "IMAD R0, RZ, RZ, -R8"), LOST);
    assert_eq!(code(BLOCK, "MOV R8, R0", "IADD3 R0, R8, 0x1, RZ"), LOST);
    assert_eq!(code(BLOCK, "IADD3 R8, R0, 0x1, RZ", "MOV R0, R8"), LOST);
    // It is read again from where it came from: rematerialization.
    let word = "LDC R0, c[0x0][0x210]";
    assert_eq!(code(BLOCK, "NOP", BLOCK), []);
    assert_eq!(code(word, "NOP", word), []);
    assert_eq!(code("LDC.64 R0, c[0x0][0x210]", "NOP", word), []);
    assert_eq!(code(THREAD, "NOP", THREAD), LOST);
    assert_eq!(code(BLOCK, "NOP", "S2R R0, SR_CTAID.Y"), LOST);
    assert_eq!(code(BLOCK, "NOP", "@P2 S2R R0, SR_CTAID.X"), LOST);
    assert_eq!(code(word, "NOP", "LDC R0, c[0x0][0x214]"), LOST);
    assert_eq!(code(word, "NOP", "LDC R0, c[0x3][0x210]"), LOST);
    assert_eq!(code(word, "NOP", "LDC.U16 R0, c[0x0][0x210]"), LOST);
    assert_eq!(code(word, "NOP", "LDC R0, c[0x0][R2+0x210]"), LOST);
}

/// A loop that threads leave one by one gives all of them the same where it computes the same in each iteration.
#[test]
fn what_is_the_same_in_each_iteration_makes_no_difference() {
    let code = |first: &str, within: &str, then: &str| {
        lost(&[
            first,
            "S2R R2, SR_LANEID",
            "BSSY B0, 0x80",
            within,
            then,
            "IADD3 R2, R2, -0x1, RZ",
            "ISETP.GT.AND P0, PT, R2, RZ, PT",
            "@P0 BRA 0x30",
            "BSYNC B0",
            // R0 decides here.
            "UMOV UR4, 0x1",
            "ISETP.NE.AND P1, PT, R0, RZ, PT",
            "BSSY B1, 0xe0",
            "@P1 BRA 0xe0",
            "UMOV UR4, 0x2",
            "BSYNC B1",
            "MOV R5, UR4",
            "EXIT",
        ])
    };
    const LOST: [(u64, u64); 1] = [(0xd0, 0xf0)];
    assert_eq!(code("NOP", "LDC R0, c[0x3][0x38]", "NOP"), []);
    assert_eq!(code("NOP", "LDC R0, c[0x3][0x38]", "LOP3.LUT R0, R0, 0x7, RZ, 0xc0, !PT"), []);
    assert_eq!(code(BLOCK, "MOV R8, R0", "MOV R0, R8"), []);
    // The iteration decides, or which of them have run.
    assert_eq!(code(BLOCK, "IADD3 R0, R0, 0x1, RZ", "NOP"), LOST);
    assert_eq!(code("NOP", "LDG.E R0, [R6]", "NOP"), LOST);
    assert_eq!(code("NOP", "LDC R0, c[0x3][R2+0x38]", "NOP"), LOST);
    assert_eq!(code("NOP", "@P2 LDC R0, c[0x3][0x38]", "NOP"), LOST);
    assert_eq!(code(BLOCK, "MOV R0, R8", "IADD3 R8, R8, 0x1, RZ"), LOST);
    // The value of an iteration before.
    assert_eq!(code("NOP", "MOV R0, R8", "LDG.E R8, [R6]"), LOST);
}

/// Whoever leaves a region is not waited for there: those who stay meet by themselves, and all meet later.
#[test]
fn who_has_left_a_region_goes_on() {
    let code = |behind_inner: &str| {
        lost(&[
            THREAD,
            "UMOV UR4, 0x1",
            "ISETP.GT.U32.AND P0, PT, R0, 0x5, PT",
            "BSSY B1, 0xb0",
            "BSSY B0, 0x90",
            "@P0 BREAK B0",
            "@P0 BRA 0xa0",
            "NOP",
            "BSYNC B0",
            behind_inner,
            "NOP",
            "BSYNC B1",
            "MOV R1, UR4",
            "EXIT",
        ])
    };
    assert_eq!(code("NOP"), []);
    assert_eq!(code("UMOV UR4, 0x2"), [(0x90, 0xc0)]);
}

/// A call of a function in another section writes what functions of the file write.
#[test]
fn functions_write_over_what_others_hold() {
    let lines = [
        "3f:-:-:Y:15 S2R R0, SR_TID.X",
        "3f:-:-:Y:15 UMOV UR4, 0x1",
        "3f:-:-:Y:15 ISETP.GT.U32.AND P0, PT, R0, 0x5, PT",
        "3f:-:-:Y:15 BSSY B0, 0x60",
        "3f:-:-:Y:15 @P0 BRA 0x60",
        "3f:-:-:Y:15 CALL.ABS.NOINC R8",
        "3f:-:-:Y:15 BSYNC B0",
        "3f:-:-:Y:15 MOV R1, UR4",
        "3f:-:-:Y:15 EXIT",
    ];
    let divergent = |written: &[u16]| {
        let mut code = listing(Isa::Sm90, &lines);
        code.written_by_functions = written.iter().copied().collect();
        let reports = verify_code(&code).expect("known code");
        reports.iter().filter(|report| report.short == Short::Divergent).count()
    };
    assert_eq!((divergent(&[256 + 4]), divergent(&[256 + 5]), divergent(&[])), (1, 0, 0));
}

/// Arrivals at barriers in memory, looks at them, and what asks the asynchronous units: what tells when their sources
/// have been read, and when their answers are there.
#[test]
fn the_model_knows_who_answers_late() {
    let model = Model::of(Isa::Sm90);
    let port = |line: &str, file: Kind, role: Role| {
        let inst = sass::parse(Isa::Sm90, line).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        let touch = model.touches(&inst).find(|touch| touch.file == file && touch.role == role);
        touch.unwrap_or_else(|| panic!("{line}: no {file:?}")).port
    };
    const WRITES_R: &str = "IADD3 R0, R2, R3, RZ";
    const WRITES_U: &str = "UIADD3 UR9, UR10, UR11, URZ";
    const GUARDED: &str = "@P0 IADD3 R4, R2, R3, RZ";
    let overwritten = |line: &str, file: Kind, by: &str| {
        model.war(port(line, file, Role::Use), port(by, file, Role::Def)).signal
    };
    // What is to arrive is read late.
    let arrive = "SYNCS.ARRIVE.TRANS64 RZ, [UR9], R0";
    assert_eq!(overwritten(arrive, Kind::R, WRITES_R), Some(Signal::Read));
    // The units of the warp read uniform registers late, others at issue.
    assert_eq!(overwritten("UTMALDG.2D [UR8], [UR12]", Kind::U, WRITES_U), Some(Signal::Read));
    assert_eq!(overwritten("LDS R1, [UR9]", Kind::U, WRITES_U), None);
    // A look at a barrier answers by its scoreboard, a comparison after its time.
    let look = port("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R0", Kind::P, Role::Def);
    let test = port("ISETP.NE.AND P0, PT, R2, R3, PT", Kind::P, Role::Def);
    let guard = port(GUARDED, Kind::P, Role::Use);
    assert_eq!(model.raw(look, guard).signal, Some(Signal::Write));
    assert_eq!(model.raw(test, guard).signal, None);
    // The arrival of a warpgroup touches no register: where it must stand is another rule.
    let arrival = sass::parse(Isa::Sm90, "WARPGROUP.ARRIVE").expect("an instruction");
    assert_eq!(model.touches(&arrival).count(), 0);
}

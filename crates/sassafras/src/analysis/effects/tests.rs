//! What `docs/memory-ordering.md` says of each PTX instruction is what lowering makes and what passes keep.

use super::*;
use ori::{Function, Use};
use smallvec::smallvec;

const DOCUMENT: &str = include_str!("../../../../../docs/memory-ordering.md");

/// A row of the table: an instruction, and what it says about it.
struct Row {
    ptx: String,
    target: String,
    direction: String,
    scope: String,
    spaces: String,
    becomes: String,
}

fn rows() -> Vec<Row> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.replace("\\|", "\u{0}");
        line.split('|').map(|cell| cell.trim().trim_matches('`').replace('\u{0}', "|")).collect()
    };
    let lines = DOCUMENT.lines().filter(|line| line.starts_with("| `") && line.contains(";`"));
    let row = |line: &str| match &cells(line)[..] {
        [_, ptx, target, direction, scope, spaces, becomes, _manual, _ptxas, _] => Row {
            ptx: ptx.clone(),
            target: target.clone(),
            direction: direction.clone(),
            scope: scope.clone(),
            spaces: spaces.clone(),
            becomes: becomes.replace('`', ""),
        },
        cells => panic!("{} cells: {line}", cells.len()),
    };
    lines.map(row).collect()
}

/// Each PTX instruction has a row, or is in the lists of those that order nothing.
#[test]
fn every_instruction_is_in_the_document() {
    fn first_word(ptx: &str) -> &str {
        ptx.split(['.', ' ', ';']).next().unwrap_or(ptx)
    }
    let rows = rows();
    let in_table = |word: &str| rows.iter().any(|row| first_word(&row.ptx) == word);
    let (_, lists) = DOCUMENT.split_once("## Instructions without a row").expect("the lists");
    let listed: Vec<&str> = lists.split('`').skip(1).step_by(2).collect();
    let words = ptx::table::mnemonics().map(first_word);
    let missing: Vec<&str> = words.filter(|word| !in_table(word) && !listed.contains(word)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let twice: Vec<&&str> = listed.iter().filter(|word| in_table(word)).collect();
    assert!(twice.is_empty(), "a row, and in the lists: {twice:?}");
}

/// A kernel with one instruction, as it is lowered.
fn lowered(row: &Row) -> Vec<Function> {
    let source = format!(
        ".version 9.0\n.target {}\n.address_size 64\n.shared .align 16 .b8 s[64];\n\
         .visible .entry k(.param .u64 in) {{\n.reg .b32 %x, %y; .reg .b64 %g, %d; .reg .pred %p;\n\
         ld.param.u64 %g, [in]; mov.u32 %x, %tid.x; mov.u64 %d, 0; setp.eq.u32 %p, %x, 1;\n{}\nret; }}\n",
        row.target, row.ptx
    );
    let parsed = ptx::parse(&source, &ptx::Options::default());
    let module = parsed.module.unwrap_or_else(|| panic!("{}: {:?}", row.ptx, parsed.diagnostics));
    let mut options = crate::Options::new(ptx::Target::find(&row.target).expect("a target"));
    (options.dump, options.verify) = (Some("lower".to_string()), true);
    let output = crate::compile_module(&module, &options);
    assert!(output.cubin.is_some(), "{}: {:?}", row.ptx, output.diagnostics);
    ori::parse::parse(&output.log).unwrap_or_else(|e| panic!("{}: {e:?}\n{}", row.ptx, output.log))
}

/// The instructions that order accesses.
fn ordering_instructions(functions: &[Function]) -> Vec<(String, Ordering)> {
    let spelled = |data: &InstData| {
        let name = match data.op {
            Op::Machine(op) => op.name(),
            Op::Generic(op) => op.name(),
            Op::Pseudo(op) => op.name(),
        };
        data.modifiers.iter().fold(name.to_string(), |text, m| text + "." + m.name())
    };
    let mut all = Vec::new();
    for function in functions {
        for block in function.blocks.keys() {
            let insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
            all.extend(insts.filter_map(|data| Some((spelled(data), ordering(data)?))));
        }
    }
    all
}

#[test]
fn the_table_says_what_instructions_become() {
    let rows = rows();
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let names: Vec<String> =
            ordering_instructions(&lowered(row)).into_iter().map(|(name, _)| name).collect();
        let becomes = if names.is_empty() { "–".to_string() } else { names.join(" ") };
        if becomes != row.becomes {
            wrong.push(format!("{}\t{}\t{becomes}", row.ptx, row.target));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What an instruction must order is ordered by what it becomes.
#[test]
fn what_the_table_asks_for_is_kept() {
    for row in &rows() {
        let orders: Vec<Ordering> =
            ordering_instructions(&lowered(row)).into_iter().map(|(_, o)| o).collect();
        let scope = match row.scope.as_str() {
            "–" => None,
            "warp" => Some(Scope::Warp),
            "block" => Some(Scope::Cta),
            "cluster" => Some(Scope::Cluster),
            "GPU" => Some(Scope::Gpu),
            "system" => Some(Scope::System),
            other => panic!("{}: no scope {other}", row.ptx),
        };
        let (later, earlier) = match row.direction.as_str() {
            "none" => (false, false),
            "acquire" => (true, false),
            "release" => (false, true),
            "both" => (true, true),
            other => panic!("{}: no direction {other}", row.ptx),
        };
        let spaces = [(Space::Shared, "shared"), (Space::Global, "global")];
        for (space, _) in spaces.into_iter().filter(|(_, name)| row.spaces.contains(name)) {
            let access = Access { space, base: None, index: None, offset: 0, bytes: 4 };
            assert!(!later || orders.iter().any(|o| o.keeps_later(&access)), "{}: acquire", row.ptx);
            assert!(!earlier || orders.iter().any(|o| o.keeps_earlier(&access)), "{}: release", row.ptx);
        }
        // A machine fence of the scope or more, or none where the machine keeps the order by itself.
        let widest = orders.iter().map(|o| o.scope).max();
        assert!(scope.is_none() || widest >= scope.min(Some(Scope::Cta)), "{}: scope {widest:?}", row.ptx);
    }
}

fn instruction(op: Op, modifiers: &[M], args: &[Arg]) -> Effects {
    let mut data = InstData::new(op, &[], args);
    data.modifiers = modifiers.into();
    Effects::of(&data)
}

#[test]
fn a_fence_keeps_both_sides_of_its_spaces() {
    let base = Arg::Use(Use::of(ori::entity::Entity::new(0)));
    let other = Arg::Use(Use::of(ori::entity::Entity::new(1)));
    let load = |op: sass::Op, offset: i64| instruction(Op::Machine(op), &[], &[base, Arg::Imm(offset)]);
    let store =
        |op: sass::Op, offset: i64| instruction(Op::Machine(op), &[], &[base, Arg::Imm(offset), other]);
    let fence = |words: &[M]| instruction(Op::Pseudo(Pseudo::MemoryFence), words, &[]);
    let both = |a: &Effects, b: &Effects| (Effects::stay_in_order(a, b), Effects::stay_in_order(b, a));
    let (all, shared) = (fence(&[M::WARP]), fence(&[M::CTA, M::S]));
    for access in [load(sass::Op::LDS, 0), store(sass::Op::STS, 0)] {
        assert_eq!(both(&all, &access), (true, true));
        assert_eq!(both(&shared, &access), (true, true));
    }
    for access in [load(sass::Op::LDG, 0), store(sass::Op::STG, 0)] {
        assert_eq!(both(&all, &access), (true, true));
        assert_eq!(both(&shared, &access), (false, false));
    }
    for access in [load(sass::Op::LDL, 0), store(sass::Op::STL, 0)] {
        assert_eq!(both(&all, &access), (false, false), "local memory is one thread's");
    }
    assert_eq!(both(&load(sass::Op::LDS, 4), &store(sass::Op::STS, 0)), (false, false), "they are apart");
    assert_eq!(both(&load(sass::Op::LDS, 0), &store(sass::Op::STS, 0)), (true, true));
    let converges = instruction(Op::Machine(sass::Op::WARPSYNC), &[M::ALL], &[]);
    assert_eq!(both(&converges, &all), (true, true), "the threads meet between the fences");
    assert_eq!(both(&converges, &load(sass::Op::LDS, 0)), (false, false), "meeting orders no memory");
}

/// PTX asks for no order around a relaxed atomic; of its own state space ptxas keeps it.
#[test]
fn an_atomic_keeps_the_accesses_of_its_space() {
    use sass::Op::{ATOM, ATOMG, ATOMS, LDG, LDL, LDS, REDG, STG, STS};
    let base = Arg::Use(Use::of(ori::entity::Entity::new(0)));
    let other = Arg::Use(Use::of(ori::entity::Entity::new(1)));
    let of = |op: sass::Op| instruction(Op::Machine(op), &[], &[base, Arg::Imm(0), other]);
    let stay = |a: sass::Op, b: sass::Op| {
        let both = [Effects::stay_in_order(&of(a), &of(b)), Effects::stay_in_order(&of(b), &of(a))];
        assert_eq!(both[0], both[1], "{a:?} {b:?}");
        both[0]
    };
    for (atomic, shared, global) in
        [(ATOMS, true, false), (ATOMG, false, true), (REDG, false, true), (ATOM, true, true)]
    {
        assert_eq!([LDS, STS].map(|op| stay(atomic, op)), [shared; 2], "{atomic:?}");
        assert_eq!([LDG, STG].map(|op| stay(atomic, op)), [global; 2], "{atomic:?}");
        assert!([ATOMS, ATOMG, REDG, ATOM].iter().all(|op| stay(atomic, *op)), "{atomic:?}");
        assert!(!stay(atomic, LDL), "{atomic:?}: local memory is one thread's");
    }
}

/// A generic address may be one of local memory: a strong access stays where it is among the thread's own.
#[test]
fn a_strong_generic_access_keeps_local_memory() {
    use sass::Op::{LD, LDG, LDL, ST, STG, STL};
    let base = Arg::Use(Use::of(ori::entity::Entity::new(0)));
    let of = |op: sass::Op, words: &[M]| instruction(Op::Machine(op), words, &[base, Arg::Imm(0)]);
    let stay = |strong: sass::Op, local: sass::Op| {
        let (strong, local) = (of(strong, &[M::E, M::STRONG_SYS]), of(local, &[]));
        (Effects::stay_in_order(&strong, &local), Effects::stay_in_order(&local, &strong))
    };
    assert_eq!([stay(ST, LDL), stay(ST, STL), stay(LD, STL)], [(true, true); 3]);
    assert_eq!(stay(LD, LDL), (false, false), "two loads");
    assert_eq!([stay(STG, LDL), stay(LDG, STL)], [(false, false); 2], "global memory");
}

/// The words of one value are two bases.
#[test]
fn parts_of_a_value_are_different_bases() {
    let at = |word: u8, offset: i64| {
        let base = Arg::word(ori::entity::Entity::new(0), word);
        let data = InstData {
            op: Op::Machine(sass::Op::LDS),
            modifiers: smallvec![],
            results: smallvec![],
            args: smallvec![base, Arg::Imm(offset)],
            guard: None,
            at: 0,
        };
        access(&data, sass::Op::LDS).expect("an access")
    };
    assert!(!at(0, 0).may_alias(&at(0, 4)));
    assert!(at(0, 0).may_alias(&at(1, 4)));
}

/// One operation that keeps what `closes` leaves out: every order that is not drawn follows from those that are.
#[test]
fn orders_that_are_left_out_follow_from_others() {
    let base = Arg::Use(Use::of(ori::entity::Entity::new(0)));
    let machine =
        |op: sass::Op, modifiers: &[M]| instruction(Op::Machine(op), modifiers, &[base, Arg::Imm(0)]);
    use sass::Op::*;
    let mut all: Vec<Effects> = [
        LDS, STS, LDG, STG, LD, ST, LDL, STL, LDSM, SHFL, VOTE, BAR, WARPSYNC, ATOMS, SYNCS, HMMA, HGMMA,
        UTMALDG,
    ]
    .map(|op| machine(op, &[]))
    .to_vec();
    all.extend([LDG, STG, LD, ST].map(|op| machine(op, &[M::STRONG_GPU])));
    let fences: [&[M]; 3] = [&[M::WARP], &[M::CTA, M::S], &[M::CTA, M::G]];
    all.extend(fences.map(|words| instruction(Op::Pseudo(Pseudo::MemoryFence), words, &[])));
    for first in &all {
        for middle in &all {
            for last in &all {
                let is_left_out = Effects::stay_in_order(first, last)
                    && Effects::stay_in_order(middle, last)
                    && Effects::closes(middle, last);
                assert!(
                    !is_left_out || Effects::stay_in_order(first, middle),
                    "{first:?}\n{middle:?}\n{last:?}"
                );
            }
        }
    }
}

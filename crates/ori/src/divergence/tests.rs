//! Small graphs with known answers, and random ones: values that the analysis calls uniform are the same in all threads,
//! when each runs by itself.

use super::*;
use crate::eval;
use crate::function::{Edge, File, Switch};
use crate::parse::parse;
use random::Random;
use std::collections::BTreeMap;

/// The analysis of a function's text.
fn divergence(text: &str) -> Divergence {
    let functions = parse(&format!("function t {{\n{text}\n}}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    crate::verify::verify(&functions[0]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Divergence::new(&functions[0], &Cfg::new(&functions[0]))
}

fn varying(divergence: &Divergence, values: &[u32]) -> Vec<u32> {
    values.iter().copied().filter(|v| divergence.varies(Value(*v))).collect()
}

fn divergent(divergence: &Divergence, blocks: &[u32]) -> Vec<u32> {
    blocks.iter().copied().filter(|b| divergence.is_divergent(Block(*b))).collect()
}

/// A branch on an index, whose sides pass constants to their join.
fn diamond(index: &str) -> Divergence {
    divergence(&format!(
        "b0:\n v0:R = S2R %{index}\n v1:P = ISETP.LT.AND PT, v0, 0x5, PT\n branch v1, b1, b2\n\
         b1:\n v2:R = MOV 0x1\n jump b3(v2)\n\
         b2:\n v3:R = MOV 0x2\n jump b3(v3)\n\
         b3(v4:R):\n v5:R = IADD3 v4, 0x1, RZ\n v6:R = LDC load c[0x0][0x210]\n exit"
    ))
}

#[test]
fn params_of_divergent_join_vary() {
    let all = diamond("SR_TID.X");
    assert_eq!(varying(&all, &[0, 1, 2, 3, 4, 5, 6]), [0, 1, 4, 5]);
    assert_eq!(divergent(&all, &[0, 1, 2, 3]), [1, 2]);
    assert_eq!(all.regions, [(Block(0), Block(3))]);
    let all = diamond("SR_CTAID.X");
    assert_eq!(varying(&all, &[0, 1, 2, 3, 4, 5, 6]), []);
    assert_eq!(divergent(&all, &[0, 1, 2, 3]), []);
    assert_eq!(all.regions, []);
}

/// A loop that counts up to an index.
fn counted(index: &str) -> Divergence {
    divergence(&format!(
        "b0:\n v0:R = S2R %{index}\n v1:R = MOV 0x0\n jump b1(v1)\n\
         b1(v2:R):\n v3:R = IADD3 v2, 0x1, RZ\n v4:P = ISETP.LT.AND PT, v3, v0, PT\n branch v4, b1(v3), b2\n\
         b2:\n v5:R = IADD3 v3, 0x7, RZ\n exit"
    ))
}

/// In each iteration the count is the same for all threads in the loop; after it the count depends on when they left.
#[test]
fn counter_varies_after_divergent_loop() {
    let all = counted("SR_TID.X");
    assert_eq!(varying(&all, &[3, 5]), [3, 5]);
    assert_eq!(divergent(&all, &[0, 1, 2]), [1]);
    let all = counted("SR_CTAID.X");
    assert_eq!(varying(&all, &[0, 1, 2, 3, 4, 5]), []);
    assert_eq!(divergent(&all, &[0, 1, 2]), []);
}

/// The threads that stay are converged when the others have left.
#[test]
fn divergent_exit_leaves_the_rest_converged() {
    let all = divergence(
        "b0:\n v0:R = S2R %SR_TID.X\n v1:P = ISETP.LT.AND PT, v0, 0x5, PT\n branch v1, b1, b2\n\
         b1:\n exit\n\
         b2:\n v2:R2 = LDC.64 load c[0x0][0x210]\n v3:R = LDG.E v2, 0x0\n exit",
    );
    assert_eq!(divergent(&all, &[0, 1, 2]), []);
    assert_eq!(varying(&all, &[2, 3]), []);
}

/// Votes, loads of one address, and shuffles from one thread give the same for all threads that run them at once.
#[test]
fn votes_and_loads_are_uniform_in_converged_blocks() {
    let code = |index: &str| {
        divergence(&format!(
            "b0:\n v0:R = S2R %{index}\n v1:R = S2R %SR_TID.Y\n v2:P = ISETP.LT.AND PT, v0, 0x5, PT\n \
             v3:P = ISETP.LT.AND PT, v1, 0x3, PT\n v4:R2 = LDC.64 load c[0x0][0x210]\n branch v2, b1, b2\n\
             b1:\n v5:R = VOTE.ANY PT, v3\n v6:R = LDG.E v4, 0x0\n v7:R = LDG.E.U8 v4, 0x4\n \
             v8:R = SHFL.IDX PT, v1, 0x0, 0x1f\n v9:R = SHFL.IDX PT, v7, 0x0, 0x181f\n jump b2\n\
             b2:\n v10:R = LDG.E v4, 0x8\n exit"
        ))
    };
    assert_eq!(varying(&code("SR_CTAID.X"), &[3, 4, 5, 6, 7, 8, 9]), [3, 9]);
    assert_eq!(varying(&code("SR_TID.X"), &[3, 4, 5, 6, 7, 8, 9]), [3, 5, 6, 7, 8, 9]);
}

/// Threads that only exit are gone: those that are left in the loop are all of the warp.
#[test]
fn loop_before_exit_is_converged() {
    let code = |end: &str| {
        divergence(&format!(
            "b0:\n v0:R = S2R %SR_TID.X\n v1:R = S2R %SR_CTAID.X\n v2:R2 = LDC.64 load c[0x0][0x210]\n jump b1(v0, v1)\n\
             b1(v3:R, v4:R):\n v5:R = IADD3 v3, 0x1, RZ\n v6:R = IADD3 v4, 0x1, RZ\n \
             v7:P = ISETP.LT.AND PT, v5, 0x9, PT\n branch v7, b1(v5, v6), b2\n\
             b2:\n {end}exit"
        ))
    };
    let alone = code("");
    assert_eq!((divergent(&alone, &[1]), varying(&alone, &[3, 4, 6])), (vec![], vec![3]));
    let waits = code("STG.E v2, 0x0, v1\n ");
    assert_eq!((divergent(&waits, &[1]), varying(&waits, &[3, 4, 6])), (vec![1], vec![3, 4, 6]));
}

/// Threads need not be converged after a yield.
#[test]
fn blocks_after_yield_are_divergent() {
    let all = divergence("b0:\n jump b1\nb1:\n YIELD PT\n jump b2\nb2:\n exit");
    assert_eq!(divergent(&all, &[0, 1, 2]), [1, 2]);
}

const BLOCKS: usize = 9;
const RZ: Arg = Arg::Zero(File::R);

/// Any graph of blocks, each with two parameters of its own. It uses these, what it computes, and what the first block
/// has: the index of the thread, that of the block, a constant.
fn program(seed: u64) -> Function {
    let mut random = Random::new(seed);
    let mut f = Function::new("t");
    let blocks: Vec<Block> = (0..BLOCKS).map(|_| f.block()).collect();
    let mut known = Vec::new();
    for name in [M::SR_TID_X, M::SR_CTAID_X, M::SR_CTAID_Y] {
        known.push(f.value(File::R, 1));
        let data = InstData::new(Op::Machine(sass::Op::S2R), &known[known.len() - 1..], &[Arg::Name(name)]);
        f.append(blocks[0], data);
    }
    let params: Vec<[Value; 2]> = blocks.iter().map(|_| [0; 2].map(|_| f.value(File::R, 1))).collect();
    for (at, &block) in blocks.iter().enumerate() {
        let mut values = known.clone();
        if at > 0 {
            f.blocks[block].params = params[at].to_vec();
            values.extend(params[at]);
        }
        for _ in 0..random.below(3) {
            let result = f.value(File::R, 1);
            let number = Arg::Imm(random.below(4) as i64);
            let other = random.pick(&values).into();
            let args = [random.pick(&values).into(), random.pick(&[number, other]), RZ];
            f.append(block, InstData::new(Op::Machine(sass::Op::IADD3), &[result], &args));
            values.push(result);
        }
        let edge = |random: &mut Random| {
            let to = 1 + random.below(BLOCKS - 1);
            Edge { to: blocks[to], args: vec![random.pick(&values), random.pick(&values)] }
        };
        let (yes, no) = (edge(&mut random), edge(&mut random));
        let predicate = f.value(File::P, 1);
        let args =
            [Arg::True(true), random.pick(&values).into(), Arg::Imm(random.below(6) as i64), Arg::True(true)];
        f.blocks[block].end = match random.below(8) {
            0 if at > 0 => Terminator::Exit,
            1 | 2 => Terminator::Jump(yes),
            3 => {
                let targets = [yes, no.clone(), edge(&mut random), no];
                Terminator::Switch(Box::new(Switch::new(random.pick(&values), targets)))
            }
            _ => {
                let mut test = InstData::new(Op::Machine(sass::Op::ISETP), &[predicate], &args);
                test.modifiers = [random.pick(&[M::LT, M::EQ, M::NE]), M::AND].into_iter().collect();
                f.append(block, test);
                Terminator::Branch { predicate, negated: false, uniform: false, yes, no }
            }
        };
    }
    f
}

/// What a thread has seen: the blocks that it ran, each with the values that are read or made there.
type Trace = Vec<(Block, Vec<(Value, u64)>)>;

/// By block, each time that a thread came there.
type Visits = BTreeMap<Block, Vec<Vec<(Value, u64)>>>;

/// Steps that a thread takes: not all programs end.
const STEPS: usize = 60;

fn run(f: &Function, thread: u64) -> Trace {
    let mut bits = vec![0; f.values.len()];
    let (mut trace, mut block) = (Trace::new(), Function::ENTRY);
    for _ in 0..STEPS {
        let mut seen: Vec<(Value, u64)> =
            f.blocks[block].params.iter().map(|p| (*p, bits[p.index()])).collect();
        for inst in &f.blocks[block].insts {
            let data = &f.insts[*inst];
            seen.extend(data.uses().map(|v| (v, bits[v.index()])));
            bits[data.results[0].index()] = compute(data, &bits, thread);
            seen.push((data.results[0], bits[data.results[0].index()]));
        }
        trace.push((block, seen));
        let edge = match &f.blocks[block].end {
            Terminator::Jump(edge) => edge,
            Terminator::Branch { predicate, yes, no, .. } => {
                if bits[predicate.index()] != 0 {
                    yes
                } else {
                    no
                }
            }
            Terminator::Switch(switch) => switch.taken(bits[switch.index.index()] as u32).expect("an edge"),
            _ => break,
        };
        let given: Vec<u64> = edge.args.iter().map(|v| bits[v.index()]).collect();
        block = edge.to;
        f.blocks[block].params.iter().zip(given).for_each(|(param, value)| bits[param.index()] = value);
    }
    trace
}

fn compute(data: &InstData, bits: &[u64], thread: u64) -> u64 {
    let Op::Machine(op) = data.op else { panic!("no machine operation") };
    let word = |arg: &Arg| match arg {
        Arg::Use(u) => eval::Arg::word(bits[u.value.index()] as u32),
        Arg::Imm(n) => eval::Arg::word(*n as u32),
        Arg::True(sense) => eval::Arg::predicate(*sense),
        _ => eval::Arg::word(0),
    };
    let args: Vec<eval::Arg> = data.args.iter().map(word).collect();
    match (op, data.args.first()) {
        (sass::Op::S2R, Some(Arg::Name(M::SR_TID_X))) => thread,
        (sass::Op::S2R, _) => 3,
        // The second result, which is unused, is `PT` before the arguments.
        (sass::Op::ISETP, _) => {
            let results = eval::eval(op, &data.modifiers, &args[1..]).expect("a comparison");
            u64::from(results.predicate(0).expect("a predicate"))
        }
        _ => eval::eval(op, &data.modifiers, &args).expect("a sum").bits(),
    }
}

/// Threads reach a block that is not divergent together: at each visit, uniform values are the same in all of them. Some
/// may have left the program.
#[test]
fn uniform_values_are_equal_in_all_threads() {
    let (mut visits, mut values) = (0, 0);
    for seed in 1..4000 {
        let f = program(seed);
        crate::verify::verify(&f).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{f}"));
        let divergence = Divergence::new(&f, &Cfg::new(&f));
        let converged = |thread: u64| {
            let mut visits = Visits::new();
            for (block, mut seen) in run(&f, thread).into_iter().filter(|(b, _)| !divergence.is_divergent(*b))
            {
                seen.retain(|(value, _)| !divergence.varies(*value));
                visits.entry(block).or_default().push(seen);
            }
            visits
        };
        let first = converged(0);
        for thread in 1..6 {
            for (block, theirs) in converged(thread) {
                for (mine, theirs) in first.get(&block).into_iter().flatten().zip(&theirs) {
                    assert_eq!(mine, theirs, "seed {seed}, thread {thread}, {block}\n{f}");
                    visits += usize::from(block != Function::ENTRY);
                    values += mine.len();
                }
            }
        }
    }
    // There was something to compare.
    assert!(visits > 10_000 && values > 50_000, "{visits} {values}");
}

/// The region of a branch by its definition: every step searches the graph.
fn region_by_search(cfg: &Cfg, branch: Block) -> Option<(Block, Block)> {
    let mut from = branch;
    let mut to = cfg.ipdom(branch)?;
    loop {
        if !cfg.post_dominates(to, from) || to == from {
            to = cfg.ipdom(to)?;
            continue;
        }
        let inside = cfg.reachable_from(from, Some(to));
        if inside.contains(&from) || inside.iter().any(|b| !cfg.dominates(from, *b)) {
            from = cfg.idom(from)?;
            continue;
        }
        if !cfg.reachable_from(to, Some(from)).iter().any(|b| inside.contains(b)) {
            return Some((from, to));
        }
        to = cfg.ipdom(to)?;
    }
}

#[test]
fn regions_are_those_of_the_definition() {
    let mut random = crate::cfg::tests::random();
    let mut found = 0;
    for round in 0..20_000 {
        let n = 3 + random(12);
        // Half of the graphs go forward mostly.
        let mut target = |from: u32| match round % 2 == 0 || random(5) == 0 {
            true => 1 + random(n - 1),
            false => (from + 1 + random(3)).min(n - 1),
        };
        let mut edges = vec![Vec::new(); n as usize];
        for from in 0..n - 1 {
            edges[from as usize] = (0..1 + (from + round) % 2).map(|_| target(from)).collect::<Vec<u32>>();
        }
        let function = crate::cfg::tests::graph(&edges.iter().map(|e| &e[..]).collect::<Vec<_>>());
        let cfg = Cfg::new(&function);
        for &branch in cfg.order.iter().filter(|b| cfg.succs[b.index()].len() > 1) {
            let expected = region_by_search(&cfg, branch);
            let waits = expected.filter(|(_, to)| !only_exits(&function, *to));
            assert_eq!(region(&function, &cfg, branch), waits, "{branch} of {edges:?}");
            found += usize::from(expected.is_some());
        }
    }
    assert!(found > 10_000, "{found}");
}

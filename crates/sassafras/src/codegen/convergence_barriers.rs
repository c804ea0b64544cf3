//! Convergence: where threads that took different ways meet again.
//!
//! A branch on which threads may part has a region ([`ori::divergence::region`]) from a block `from`, which dominates it
//! and runs `BSSY`, to its post-dominator `to`; every edge from inside the region to `to` goes through a landing block
//! with `BSYNC`. Branches that find the same region share it. A branch whose threads only meet at the end of the program
//! needs none.
//!
//! Where the whole warp is together anyway nothing has to be done to bring it together: `WARPSYNC.ALL` goes away, and
//! so does a gathering of all threads (`WARPSYNC.COLLECTIVE.ALL` to `ENDCOLLECTIVE`). One of the threads of a mask
//! becomes `WARPSYNC.EXCLUSIVE`, as in ptxas's code: those of each mask run up to `BSYNC` by themselves. Where threads
//! come from a trap, `WARPSYNC.ALL` stays: a debugger lets them go on one by one.

use crate::context::target::Machine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Divergence, Edge, File, Function, Inst, InstData, Op, Terminator};
use sass::{M, Op as Name};

pub fn run(function: &mut Function, _: &'static Machine) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let divergence = Divergence::new(function, &cfg);
    let is_trap = |inst: &Inst| function.insts[*inst].op == Op::Machine(Name::BPT);
    let traps: Vec<bool> =
        function.blocks.keys().map(|b| function.blocks[b].insts.iter().any(is_trap)).collect();
    for &block in cfg.order.iter().filter(|b| !divergence.is_parted(**b)) {
        let behind_trap = cfg.preds[block.index()].iter().any(|b| traps[b.index()]);
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let stays = |inst: &Inst| behind_trap || !waits_for_all(&function.insts[*inst]);
        function.blocks[block].insts = insts.into_iter().filter(stays).collect();
        ungather(function, block);
    }
    let mut regions = divergence.regions;
    // Inner regions first: the landing block of an inner region lies inside the outer one. A region is inside
    // another if the other's `from` dominates its own; in reverse post-order the inner one comes later.
    regions.sort_by_key(|(from, _)| std::cmp::Reverse(cfg.order.iter().position(|b| b == from)));
    for (from, to) in regions {
        insert(function, from, to);
    }
    Ok(())
}

/// Does it wait for all threads of the warp, and nothing else?
pub fn waits_for_all(data: &InstData) -> bool {
    data.op == Op::Machine(Name::WARPSYNC)
        && (data.modifiers[..] == [M::ALL] || data.args.contains(&Arg::Imm(0xffff_ffff)))
}

/// Takes away from a block what gathers threads that are together.
fn ungather(function: &mut Function, block: Block) {
    let insts = function.blocks[block].insts.clone();
    let is = |f: &Function, inst: &Inst, op: Name| f.insts[*inst].op == Op::Machine(op);
    let gathers =
        |i: &Inst| is(function, i, Name::WARPSYNC) && function.insts[*i].modifiers.contains(&M::COLLECTIVE);
    let Some(at) = insts.iter().position(gathers) else { return };
    let Some(enter) = insts[..at].iter().rfind(|i| is(function, i, Name::BSSY)) else { return };
    let enter = &function.insts[*enter];
    let (Some(Arg::Target(after)), Some(barrier)) = (enter.args.first(), enter.results.first()) else {
        return;
    };
    let (after, barrier) = (*after, *barrier);
    let meets = |i: &&Inst| function.insts[**i].uses().any(|v| v == barrier);
    let meeting = function.blocks[after].insts.iter().find(meets).copied();

    let mut gone: Vec<Inst> =
        insts.iter().copied().filter(|i| is(function, i, Name::ENDCOLLECTIVE)).collect();
    if function.insts[insts[at]].modifiers.contains(&M::ALL) {
        gone.extend(read_in_place(function, &insts[..at], insts[at + 1..].first().copied()));
        gone.push(insts[at]);
        gone.extend(insts[..at].iter().filter(|i| function.insts[**i].results.contains(&barrier)));
        gone.extend(meeting);
    } else {
        gone.extend(read_in_place(function, &insts[..at], Some(insts[at])));
        let gathering = &mut function.insts[insts[at]];
        gathering.modifiers = [M::EXCLUSIVE].into_iter().collect();
        gathering.args.retain(|arg| !matches!(arg, Arg::Target(_)));
    }
    for block in [block, after] {
        function.blocks[block].insts.retain(|inst| !gone.contains(inst));
    }
}

/// Lets an instruction read values where they are, and not from the registers that gathered threads have in common.
/// Returns what brought them there.
fn read_in_place(function: &mut Function, before: &[Inst], reader: Option<Inst>) -> Vec<Inst> {
    let mut brought = Vec::new();
    let Some(reader) = reader else { return brought };
    for place in 0..function.insts[reader].args.len() {
        let common = function.insts[reader].args[place];
        let brings = |i: &&Inst| {
            function.insts[**i].results.is_empty() && function.insts[**i].args.first() == Some(&common)
        };
        let Some(&inst) = before.iter().rfind(brings) else { continue };
        let from = match (&function.insts[inst].op, common) {
            (Op::Machine(Name::MOV), Arg::Fixed { .. }) => function.insts[inst].args.get(1),
            (Op::Machine(Name::PLOP3), Arg::Fixed { .. }) => function.insts[inst].args.get(2),
            _ => None,
        };
        if let Some(from @ Arg::Use(_)) = from.copied() {
            function.insts[reader].args[place] = from;
            brought.push(inst);
        }
    }
    brought
}

/// Puts `BSSY` at the end of `from` and `BSYNC` into a landing block before `to`.
fn insert(function: &mut Function, from: Block, to: Block) {
    // Landing blocks of inner regions have been added since: look at the graph as it is now.
    let cfg = Cfg::new(function);
    let landing = function.block();
    let shapes: Vec<_> = function.blocks[to].params.iter().map(|p| function.values[*p]).collect();
    let copies: Vec<_> = shapes.into_iter().map(|d| function.value(d.file, d.words)).collect();
    // Not the edges of a loop that begins at `to`: who comes there again has arrived before.
    for block in std::iter::once(from).chain(cfg.reachable_from(from, Some(to))) {
        for edge in function.blocks[block].end.edges_mut() {
            if edge.to == to {
                edge.to = landing;
            }
        }
    }
    let barrier = function.value(File::B, 1);
    let enter = InstData::new(Op::Machine(Name::BSSY), &[barrier], &[Arg::Target(landing)]);
    function.append(from, enter);
    let meet = InstData::new(Op::Machine(Name::BSYNC), &[], &[barrier.into()]);
    function.append(landing, meet);
    function.blocks[landing].params = copies.clone();
    function.blocks[landing].end = Terminator::Jump(Edge { to, args: copies });
}

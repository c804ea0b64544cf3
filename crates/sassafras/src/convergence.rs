//! Convergence: where threads that took different ways meet again.
//!
//! A branch on which threads may part has a region ([`ori::divergence::region`]) from a block `from`, which dominates it
//! and runs `BSSY`, to its post-dominator `to`; every edge from inside the region to `to` goes through a landing block
//! with `BSYNC`. Branches that find the same region share it. A branch whose threads only meet at the end of the program
//! needs none.
//!
//! Where the whole warp is together anyway nothing has to be done to bring it together: `WARPSYNC.ALL` goes away.

use crate::bank0::Machine;
use ori::{Arg, Block, Cfg, Divergence, Edge, File, Function, Inst, InstData, Op, Terminator};

pub fn run(function: &mut Function, _: &'static Machine) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let divergence = Divergence::new(function, &cfg);
    for &block in cfg.order.iter().filter(|b| !divergence.is_parted(**b)) {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let stays = |inst: &Inst| !waits_for_all(&function.insts[*inst]);
        function.blocks[block].insts = insts.into_iter().filter(stays).collect();
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
    data.op == Op::Machine(sass::Op::WARPSYNC)
        && (data.modifiers[..] == [sass::M::ALL] || data.args.contains(&Arg::Imm(0xffff_ffff)))
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
    let enter = InstData::new(Op::Machine(sass::Op::BSSY), &[barrier], &[Arg::Target(landing)]);
    function.append(from, enter);
    let meet = InstData::new(Op::Machine(sass::Op::BSYNC), &[], &[barrier.into()]);
    function.append(landing, meet);
    function.blocks[landing].params = copies.clone();
    function.blocks[landing].end = Terminator::Jump(Edge { to, args: copies });
}

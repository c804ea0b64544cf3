//! Which PTX registers are parameters of which blocks: pruned SSA (Cytron et al., "Efficiently computing static single
//! assignment form and the control dependence graph", 1991), over the registers that are live between blocks at all
//! (Briggs et al., "Practical improvements to the construction and destruction of SSA form", 1998).
//!
//! ```text
//! %r1 = …; %r2 = …                                     b1: …
//! LOOP: %r2 = %r2 + %r1; @%p1 bra LOOP        =>       b2(r2): r2' = r2 + r1; branch p1, b2(r2'), b3
//! ```
//!
//! A join needs a parameter for a register that is live into it if it is in the iterated dominance frontier of the
//! register's writes. Any other register has at the start of a block the value that it has at the end of the immediate
//! dominator. A register whose only write dominates all its reads, as most do, needs no more than that to be known.
//!
//! It takes the size of the live ranges in blocks, of registers with several writes, and of the dominance frontiers: in
//! loops nested N deep these grow with the square of N.

use super::cfg::{End, Graph, effects};
use super::param_words::ParamWords;
use ori::cfg::Cfg;
use ori::entity::Entity;
use ptx::ast::{Body, Module, Reg};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The parameters of blocks, and the order in which blocks are lowered.
#[derive(Default)]
pub struct Ssa {
    /// By block; registers in order of their numbers.
    params: Vec<Vec<Reg>>,
    /// The registers that are live into the body, in order of their numbers.
    pub initial: Vec<Reg>,
    /// The children of each block in the dominator tree.
    children: Vec<SmallVec<[usize; 2]>>,
}

/// What else decides which registers are parameters.
pub struct Registers<'r> {
    /// The body's returns read these.
    pub results: &'r [Reg],
    /// Every wait for wgmma reads these.
    pub awaited: &'r [Reg],
    /// These may get new values anywhere: they are parameters of every join that they are live into.
    pub unstable: &'r dyn Fn(Reg) -> bool,
}

/// The blocks where a register is written, and those where it is read before that.
#[derive(Default)]
struct Accesses {
    writes: SmallVec<[u32; 4]>,
    reads: SmallVec<[u32; 4]>,
}

impl Ssa {
    pub fn new(
        module: &Module,
        body: &Body,
        params: &ParamWords,
        graph: &Graph,
        registers: &Registers,
    ) -> Ssa {
        let cfg = graph.cfg();
        let mut ssa = Ssa {
            params: vec![Vec::new(); graph.blocks.len()],
            initial: Vec::new(),
            children: children(graph, &cfg),
        };
        let accesses = accesses(module, body, params, graph, registers);
        let [written, live, has] = [(); 3].map(|()| Marks(vec![0; graph.blocks.len()]));
        let mut walk = Walk { graph, cfg: &cfg, frontiers: None, written, live, has };
        for (number, (reg, accesses)) in accesses.iter().enumerate() {
            walk.place(&mut ssa, number as u32 + 1, *reg, accesses, (registers.unstable)(*reg));
        }
        ssa
    }

    pub fn params(&self, block: usize) -> &[Reg] {
        &self.params[block]
    }

    pub fn children(&self, block: usize) -> &[usize] {
        &self.children[block]
    }
}

/// The children of each block in the dominator tree, in the order of the graph.
fn children(graph: &Graph, cfg: &Cfg) -> Vec<SmallVec<[usize; 2]>> {
    let mut children = vec![SmallVec::new(); graph.blocks.len()];
    for &b in &graph.order {
        if let Some(up) = cfg.idom(Entity::new(b)) {
            children[up.index()].push(b);
        }
    }
    children
}

/// The accesses of the registers that are live between blocks, in order of their numbers.
fn accesses(
    module: &Module,
    body: &Body,
    params: &ParamWords,
    graph: &Graph,
    registers: &Registers,
) -> Vec<(Reg, Accesses)> {
    let mut all: FxHashMap<Reg, Accesses> = FxHashMap::default();
    // Each register with each block that writes it.
    let mut writes: Vec<(Reg, u32)> = Vec::new();
    let mut written: FxHashSet<Reg> = FxHashSet::default();
    for &b in &graph.order {
        let block = &graph.blocks[b];
        let mut read = |reg: Reg, written: &FxHashSet<Reg>| {
            if !written.contains(&reg) {
                let reads = &mut all.entry(reg).or_default().reads;
                if reads.last() != Some(&(b as u32)) {
                    reads.push(b as u32);
                }
            }
        };
        for inst in &block.insts {
            let opcode = &module.opcodes[inst.opcode.0 as usize];
            let (results, operands) = effects(body, params, opcode, inst);
            operands.into_iter().for_each(|reg| read(reg, &written));
            if opcode.mnemonic == "wgmma.wait_group" {
                registers.awaited.iter().for_each(|reg| read(*reg, &written));
            }
            for reg in results {
                if written.insert(reg) {
                    writes.push((reg, b as u32));
                }
            }
        }
        match &block.end {
            End::Branch { guard, .. } => guard.reg().into_iter().for_each(|reg| read(reg, &written)),
            End::Switch { index, .. } => read(*index, &written),
            End::Return => registers.results.iter().for_each(|reg| read(*reg, &written)),
            End::Exit | End::Jump(_) => {}
        }
        written.clear();
    }
    for (reg, block) in writes {
        if let Some(accesses) = all.get_mut(&reg) {
            accesses.writes.push(block);
        }
    }
    let mut all: Vec<(Reg, Accesses)> = all.into_iter().collect();
    all.sort_unstable_by_key(|(reg, _)| *reg);
    all
}

/// A set of blocks for each of many numbers in turn.
struct Marks(Vec<u32>);

impl Marks {
    fn contains(&self, number: u32, block: usize) -> bool {
        self.0[block] == number
    }

    /// Was it missing?
    fn insert(&mut self, number: u32, block: usize) -> bool {
        std::mem::replace(&mut self.0[block], number) != number
    }
}

struct Walk<'w, 'a> {
    graph: &'w Graph<'a>,
    cfg: &'w Cfg,
    /// The dominance frontier of each block, once one is needed.
    frontiers: Option<Vec<SmallVec<[u32; 2]>>>,
    /// The blocks that write the register, those that it is live into, and those of which it is a parameter.
    written: Marks,
    live: Marks,
    has: Marks,
}

impl Walk<'_, '_> {
    /// Makes a register the parameter of the blocks that need it.
    fn place(&mut self, ssa: &mut Ssa, number: u32, reg: Reg, accesses: &Accesses, is_unstable: bool) {
        if !is_unstable && self.one_write_dominates(accesses) {
            return;
        }
        let live = self.find_live(number, accesses);
        if self.live.contains(number, 0) {
            ssa.initial.push(reg);
        }
        if is_unstable {
            let joins = live.iter().copied().filter(|b| self.graph.is_join(*b));
            joins.for_each(|b| ssa.params[b].push(reg));
            return;
        }
        let (graph, cfg) = (self.graph, self.cfg);
        let frontiers = self.frontiers.get_or_insert_with(|| frontiers(graph, cfg));
        let mut work = accesses.writes.clone();
        while let Some(block) = work.pop() {
            for &join in &frontiers[block as usize] {
                let at = join as usize;
                if self.live.contains(number, at) && self.has.insert(number, at) {
                    ssa.params[at].push(reg);
                    work.push(join);
                }
            }
        }
    }

    fn one_write_dominates(&self, accesses: &Accesses) -> bool {
        let [write] = accesses.writes[..] else { return false };
        let write = Entity::new(write as usize);
        let is_below = |read: &u32| {
            let read = Entity::new(*read as usize);
            read != write && self.cfg.dominates(write, read)
        };
        accesses.reads.iter().all(is_below)
    }

    /// The blocks that a register is live into: backwards from the reads up to the writes.
    fn find_live(&mut self, number: u32, accesses: &Accesses) -> Vec<usize> {
        let mut live: Vec<usize> = Vec::new();
        accesses.writes.iter().for_each(|write| _ = self.written.insert(number, *write as usize));
        for &read in &accesses.reads {
            if self.live.insert(number, read as usize) {
                live.push(read as usize);
            }
        }
        let mut next = 0;
        while let Some(&block) = live.get(next) {
            next += 1;
            for &pred in &self.graph.blocks[block].preds {
                if !self.written.contains(number, pred) && self.live.insert(number, pred) {
                    live.push(pred);
                }
            }
        }
        live
    }
}

/// The dominance frontier of each block: the joins that it doesn't strictly dominate, but of whose predecessors it
/// dominates one.
fn frontiers(graph: &Graph, cfg: &Cfg) -> Vec<SmallVec<[u32; 2]>> {
    let mut frontiers: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); graph.blocks.len()];
    for &join in &graph.order {
        if !graph.is_join(join) {
            continue;
        }
        let top = cfg.idom(Entity::new(join));
        for &pred in &graph.blocks[join].preds {
            let mut at = Some(Entity::new(pred));
            while let Some(block) = at.filter(|_| at != top) {
                let frontier = &mut frontiers[block.index()];
                // What dominates this block and not the join has it from another predecessor.
                if frontier.last() == Some(&(join as u32)) {
                    break;
                }
                frontier.push(join as u32);
                at = cfg.idom(block);
            }
        }
    }
    frontiers
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::ast::Item;

    /// The parameters of the blocks of a body that have any, as numbers of registers from `%r0` on; `p` is `%r10`.
    fn params(body: &str, unstable: &dyn Fn(Reg) -> bool) -> (Vec<Vec<u32>>, Vec<u32>) {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 %r<10>;\n.reg .pred p;\n{body}\n}}\n"
        );
        let parsed = ptx::parse(&text, &ptx::Options::default());
        let module = parsed.module.unwrap_or_else(|| panic!("{body}"));
        let function = module.items.iter().find_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        });
        let body = function.and_then(|f| f.body.as_ref()).expect("a body");
        let words = ParamWords::new(&module, body, None);
        let graph = Graph::new(&module, body);
        let registers = Registers { results: &[], awaited: &[], unstable };
        let ssa = Ssa::new(&module, body, &words, &graph, &registers);
        let numbers = |regs: &[Reg]| regs.iter().map(|reg| reg.0).collect::<Vec<u32>>();
        let with_params = graph.order.iter().filter(|b| !ssa.params(**b).is_empty());
        (with_params.map(|b| numbers(ssa.params(*b))).collect(), numbers(&ssa.initial))
    }

    fn stable(body: &str) -> (Vec<Vec<u32>>, Vec<u32>) {
        params(body, &|_| false)
    }

    const DIAMOND: &str = "mov.u32 %r0, 1; mov.u32 %r1, 2; mov.u32 %r2, 3; setp.eq.u32 p, %r0, %r1;
        @p bra A; mov.u32 %r1, 4; mov.u32 %r2, 5; bra B; A: add.u32 %r3, %r0, 1; B: add.u32 %r4, %r0, %r1; exit;";

    #[test]
    fn join_has_what_one_arm_writes_and_is_read_later() {
        assert_eq!(stable(DIAMOND), (vec![vec![1]], vec![]));
    }

    #[test]
    fn unstable_registers_are_parameters_where_they_are_live() {
        assert_eq!(params(DIAMOND, &|_| true).0, [[0, 1]]);
    }

    #[test]
    fn loop_header_has_what_the_body_writes() {
        let body = "mov.u32 %r0, 0; mov.u32 %r1, 9; L: add.u32 %r2, %r0, %r1; add.u32 %r0, %r2, 1;
            setp.lt.u32 p, %r0, %r1; @p bra L; add.u32 %r3, %r2, %r0; exit;";
        assert_eq!(stable(body), (vec![vec![0]], vec![]));
    }

    #[test]
    fn first_block_may_be_a_loop_header() {
        let body = "L: add.u32 %r0, %r0, 1; setp.lt.u32 p, %r0, 7; @p bra L; exit;";
        assert_eq!(stable(body), (vec![vec![0]], vec![0]));
    }

    #[test]
    fn write_that_does_not_dominate_its_reads_reaches_a_join() {
        let body = "setp.eq.u32 p, %r5, 0; @p bra A; mov.u32 %r0, 1; A: add.u32 %r1, %r0, 1; exit;";
        assert_eq!(stable(body), (vec![vec![0]], vec![0, 5]));
    }

    #[test]
    fn parameters_of_inner_joins_make_outer_ones() {
        let body = "mov.u32 %r0, 0; O: mov.u32 %r1, 0; I: setp.eq.u32 p, %r1, 3; @p bra S; mov.u32 %r0, %r1;
            S: add.u32 %r1, %r1, 1; setp.lt.u32 p, %r1, 5; @p bra I; setp.lt.u32 p, %r0, 9; @p bra O; exit;";
        assert_eq!(stable(body).0, [vec![0], vec![0, 1], vec![0]]);
    }
}

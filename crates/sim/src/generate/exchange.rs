//! Exchange between threads through shared and global memory, free of races by construction.
//!
//! Memory is divided into regions, a region into fields of cells; a warp (or the block) has a cell for each of its
//! threads, and more on both sides of these. An access names the cell as a [`Map`] of the thread's number. Maps for
//! stores are injective: in a phase in which all accesses of a field have one map, each thread has a cell of its own.
//! Loads may also have one map while nothing is stored.
//!
//! The printer knows the maps of all accesses since the last ordering operation ([`State`]), along every path. Where an
//! access conflicts with one of them, it prints an ordering operation first, of the access's [style](Access::order).
//! Where threads part, only cells stay in use that the threads of one side exchange among themselves: the side orders
//! them with the mask of its own lanes. So statements can be taken out, and no race comes in.
//!
//! What conflicts: two accesses of one field with different maps, one of which writes.

use super::class::Class;
use super::print::{Here, Printer};
use super::{Guard, Statement};
use random::Random;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A part of memory that threads exchange values through. Cells of all fields lie side by side in a field, so that a
/// neighbour's cell is at a constant distance from one's own.
pub struct Region {
    shared: bool,
    /// Among the threads of a block, not only of a warp.
    block: bool,
    /// Bytes of a cell.
    cell: u32,
    /// Cells on each side of those that belong to threads.
    margin: u32,
    /// The field changes with each iteration of a loop.
    alternating: bool,
}

const FIELDS: u8 = 2;

#[rustfmt::skip]
const REGIONS: [Region; 9] = [
    Region { shared: true,  block: false, cell: 4,  margin: 32, alternating: false },
    Region { shared: true,  block: false, cell: 16, margin: 4,  alternating: false },
    Region { shared: true,  block: false, cell: 4,  margin: 16, alternating: true },
    Region { shared: true,  block: true,  cell: 8,  margin: 32, alternating: false },
    Region { shared: true,  block: true,  cell: 4,  margin: 33, alternating: true },
    Region { shared: false, block: false, cell: 4,  margin: 32, alternating: false },
    Region { shared: false, block: false, cell: 16, margin: 4,  alternating: true },
    Region { shared: false, block: true,  cell: 8,  margin: 16, alternating: false },
    Region { shared: true,  block: false, cell: 8,  margin: 8,  alternating: false },
];

/// Most threads of a block, and warps.
const THREADS: u32 = 64;
const WARPS: u32 = 2;

impl Region {
    /// Threads that have cells, as a power of two.
    fn threads(&self) -> u32 {
        if self.block { THREADS } else { 32 }
    }

    fn field_bytes(&self) -> u32 {
        ((self.threads() + 2 * self.margin) * self.cell).next_multiple_of(16)
    }

    /// Bytes of one warp or of the block.
    fn bytes(&self) -> u32 {
        self.field_bytes() * u32::from(FIELDS)
    }

    fn block_bytes(&self) -> u32 {
        self.bytes() * if self.block { 1 } else { WARPS }
    }
}

/// Where the regions lie that a program has, in shared memory and in a block's part of global memory.
fn offsets(used: &BTreeSet<u8>) -> Vec<u32> {
    // The first words of shared memory are a counter and a barrier.
    let mut next = [CONTROL, 0];
    REGIONS
        .iter()
        .zip(0u8..)
        .map(|(region, number)| {
            let place = &mut next[usize::from(!region.shared)];
            let offset = *place;
            *place += if used.contains(&number) { region.block_bytes() } else { 0 };
            offset
        })
        .collect()
}

/// Bytes of shared memory in front of the regions: a counter of arrivals, a barrier in memory, counters of warps. As many
/// as the threads fill in one step.
const CONTROL: u32 = 4 * THREADS;

fn bytes(used: &BTreeSet<u8>, shared: bool) -> u32 {
    let regions = used.iter().filter_map(|r| REGIONS.get(usize::from(*r)));
    regions.filter(|r| r.shared == shared).map(Region::block_bytes).sum::<u32>()
        + if shared { CONTROL } else { 0 }
}

/// Which cell a thread means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Map {
    /// So many after its own, also outside of those that belong to threads.
    Shift(i8),
    Xor(u8),
    Rotate(u8),
    Reverse,
    /// The number times this odd one.
    Multiply(u8),
    /// The next of the threads that are here, the first after the last.
    Next,
    /// All threads the same: loads, and additions that commute.
    Fixed(u8),
    /// That of the first thread that is here: loads.
    First,
    /// By a register: loads.
    Gather(u8),
}

const IDENTITY: Map = Map::Shift(0);

impl Map {
    fn is_injective(self) -> bool {
        !matches!(self, Map::Fixed(_) | Map::First | Map::Gather(_))
    }

    /// Do the threads that are here mean cells of each other only?
    fn is_closed(self, here: &Here) -> bool {
        match self {
            IDENTITY | Map::Next | Map::First => true,
            Map::Xor(mask) => here.whole_warp || u32::from(mask) & !here.xor_bits == 0,
            _ => here.whole_warp,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Load,
    Store,
    /// `cp.async` from the table.
    Copy,
    /// `atom` with a result, on the thread's own cell.
    Exchange,
    /// `red` of all threads on one cell.
    Add,
}

/// An access, and the order that it asks for where it conflicts with an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub guard: Option<Guard>,
    pub region: u8,
    pub field: u8,
    pub map: Map,
    pub action: Action,
    pub shape: u8,
    /// Where in the cell, in sizes of the shape.
    pub at: u8,
    pub register: u8,
    pub qualifier: u8,
    /// How the address is written.
    pub form: u8,
    /// Which ordering operation.
    pub order: u8,
    /// Ordered, also where nothing asks for it.
    pub always: bool,
}

/// Type, bytes, registers, their class; and whether there are atomic accesses of it.
struct Shape {
    ty: &'static str,
    bytes: u32,
    count: u8,
    class: Class,
}

#[rustfmt::skip]
const SHAPES: [Shape; 14] = [
    Shape { ty: "u32",    bytes: 4,  count: 1, class: Class::Word },
    Shape { ty: "b32",    bytes: 4,  count: 1, class: Class::Word },
    Shape { ty: "s32",    bytes: 4,  count: 1, class: Class::Word },
    Shape { ty: "u8",     bytes: 1,  count: 1, class: Class::Word },
    Shape { ty: "s16",    bytes: 2,  count: 1, class: Class::Word },
    Shape { ty: "b16",    bytes: 2,  count: 1, class: Class::Short },
    Shape { ty: "v2.u16", bytes: 4,  count: 2, class: Class::Word },
    Shape { ty: "v4.u8",  bytes: 4,  count: 4, class: Class::Word },
    Shape { ty: "b64",    bytes: 8,  count: 1, class: Class::Long },
    Shape { ty: "v2.b32", bytes: 8,  count: 2, class: Class::Word },
    Shape { ty: "v4.u16", bytes: 8,  count: 4, class: Class::Word },
    Shape { ty: "v4.b32", bytes: 16, count: 4, class: Class::Word },
    Shape { ty: "v2.b64", bytes: 16, count: 2, class: Class::Long },
    Shape { ty: "u64",    bytes: 8,  count: 1, class: Class::Long },
];

/// How many kinds of order there are.
pub const ORDERS: usize = 20;

impl Access {
    fn region(&self) -> &'static Region {
        &REGIONS[usize::from(self.region) % REGIONS.len()]
    }

    /// The shape, or the first where it doesn't fit the cell or the action.
    fn shape(&self) -> &'static Shape {
        let shape = &SHAPES[usize::from(self.shape) % SHAPES.len()];
        let fits = shape.bytes <= self.region().cell;
        let atomic = matches!(self.action, Action::Exchange | Action::Add | Action::Copy);
        if fits && (!atomic || (shape.ty == "u32")) { shape } else { &SHAPES[0] }
    }

    /// The registers that are read or written: different ones.
    pub fn registers(&self) -> Vec<(Class, u8)> {
        let shape = self.shape();
        let of = |i: u8| (shape.class, (self.register + i) % shape.class.info().count);
        let mut registers: Vec<_> = (0..shape.count).map(of).collect();
        if let Map::Gather(register) = self.map {
            registers.push((Class::Word, register % Class::Word.info().count));
        }
        if self.action == Action::Exchange {
            registers.push((Class::Word, (self.register + 1) % Class::Word.info().count));
        }
        if self.action == Action::Copy {
            registers.clear();
        }
        registers
    }

    fn within(&self) -> u32 {
        let bytes = self.shape().bytes;
        u32::from(self.at) % (self.region().cell / bytes) * bytes
    }

    fn writes(&self) -> bool {
        self.action != Action::Load
    }

    /// A random one.
    pub fn new(random: &mut Random) -> Access {
        let number = random.below(REGIONS.len()) as u8;
        let region = &REGIONS[usize::from(number)];
        let action = match random.below(20) {
            0..8 => Action::Load,
            8..17 => Action::Store,
            17 if region.shared => Action::Copy,
            18 => Action::Add,
            _ => Action::Exchange,
        };
        let map = match action {
            Action::Add => Map::Fixed(random.below(4) as u8),
            _ => map(region, action == Action::Load, random),
        };
        Access {
            guard: None,
            region: number,
            field: random.below(FIELDS.into()) as u8,
            map,
            action,
            shape: random.below(SHAPES.len()) as u8,
            at: random.below(16) as u8,
            register: random.below(8) as u8,
            qualifier: if random.chance(50) { 0 } else { random.below(5) as u8 },
            form: random.below(6) as u8,
            order: random.below(ORDERS) as u8,
            always: random.chance(5),
        }
    }
}

fn map(region: &Region, load: bool, random: &mut Random) -> Map {
    let most = region.margin.min(32) as usize;
    match random.below(if load { 13 } else { 10 }) {
        0..3 => IDENTITY,
        3 => Map::Shift(random.pick(&[1, -1, 1, 2])),
        4 => Map::Shift((random.below(2 * most + 1) as i32 - most as i32) as i8),
        5 => Map::Xor(1 << random.below(5)),
        6 => Map::Xor(random.below(region.threads() as usize) as u8),
        7 => Map::Rotate(1 + random.below(31) as u8),
        8 => random.pick(&[Map::Reverse, Map::Multiply(5), Map::Multiply(11)]),
        9 => Map::Next,
        10 => Map::Fixed(random.below(32) as u8),
        11 => Map::First,
        _ => Map::Gather(random.below(8) as u8),
    }
}

/// A map, with the threads that it depends on and, for additions, the operation.
type Key = (Map, u32);

/// The maps of accesses since the last order, for each field.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct State {
    fields: [Field; REGIONS.len() * FIELDS as usize],
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Field {
    writers: BTreeSet<Key>,
    readers: BTreeSet<Key>,
}

const OWN: Key = (IDENTITY, 0);

impl Field {
    fn conflicts(&self, key: Key, writes: bool) -> bool {
        let other = |set: &BTreeSet<Key>| set.iter().any(|k| *k != key);
        other(&self.writers) || writes && other(&self.readers)
    }

    fn merge(&mut self, other: &Field) {
        self.writers.extend(&other.writers);
        self.readers.extend(&other.readers);
    }

    /// Each thread has touched its own cell only.
    fn is_own(&self) -> bool {
        self.writers.iter().chain(&self.readers).all(|key| *key == OWN)
    }
}

impl State {
    fn field(&mut self, region: u8, field: u8) -> &mut Field {
        &mut self.fields
            [usize::from(region) % REGIONS.len() * usize::from(FIELDS) + usize::from(field % FIELDS)]
    }

    pub fn merge(&mut self, other: &State) {
        self.fields.iter_mut().zip(&other.fields).for_each(|(field, other)| field.merge(other));
    }

    /// Forgets what is ordered: accesses of regions of warps, or of all.
    fn clear(&mut self, block: bool) {
        for (fields, region) in self.fields.chunks_mut(FIELDS.into()).zip(&REGIONS) {
            if block || !region.block {
                fields.fill(Field::default());
            }
        }
    }

    /// Is there an access of others' cells: in regions of blocks, or of warps?
    fn is_foreign(&self, block: bool) -> bool {
        let pairs = self.fields.chunks(FIELDS.into()).zip(&REGIONS);
        pairs
            .filter(|(_, region)| region.block == block)
            .any(|(fields, _)| fields.iter().any(|f| !f.is_own()))
    }

    fn alternating(&mut self) -> impl Iterator<Item = &mut [Field]> {
        let pairs = self.fields.chunks_mut(FIELDS.into()).zip(&REGIONS);
        pairs.filter(|(_, region)| region.alternating).map(|(fields, _)| fields)
    }

    /// From one iteration to the next, the fields of alternating regions change places.
    pub fn swap(&mut self) {
        self.alternating().for_each(|fields| fields.swap(0, 1));
    }

    /// Which field is which is not known.
    fn blur(&mut self) {
        for fields in self.alternating() {
            let mut both = fields[0].clone();
            both.merge(&fields[1]);
            fields.fill(both);
        }
    }
}

/// What the printer keeps.
#[derive(Clone, Default)]
pub struct Tracker {
    pub state: State,
    /// Everything that was touched since threads diverged, whatever was ordered among those of one side.
    touched: Vec<State>,
    /// A copy is under way.
    copying: bool,
    /// Regions with accesses.
    pub used: BTreeSet<u8>,
}

impl Tracker {
    /// Which field of an alternating region is which is not known.
    pub fn blur(&mut self) {
        self.state.blur();
        self.touched.iter_mut().for_each(State::blur);
    }
}

/// Are there accesses in these statements?
pub fn has_access(block: &[Statement]) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Access(_) => true,
        other => other.blocks().into_iter().any(|inner| has_access(inner)),
    })
}

impl Printer<'_> {
    /// Waits for copies that this thread has started.
    pub fn wait_for_copies(&mut self) {
        if std::mem::take(&mut self.tracker.copying) {
            self.line("cp.async.commit_group;");
            self.line("cp.async.wait_group 0;");
        }
    }

    /// Before threads part: from here on each side touches cells of its own threads only.
    pub fn part(&mut self, here: &Here, blocks: &[&[Statement]]) {
        self.wait_for_copies();
        if blocks.iter().any(|block| has_access(block)) {
            if here.block && self.tracker.state.is_foreign(true) {
                self.order(0, true, here);
            }
            if here.mask.is_some() && self.tracker.state.is_foreign(false) {
                self.order(0, false, here);
            }
        }
    }

    /// Prints one side where threads have diverged.
    pub fn side(&mut self, block: &[Statement], here: &Here) -> State {
        let before = self.tracker.state.clone();
        self.tracker.touched.push(State::default());
        self.block(block, here);
        self.wait_for_copies();
        self.tracker.state = before;
        let touched = self.tracker.touched.pop().unwrap_or_default();
        if let Some(outer) = self.tracker.touched.last_mut() {
            outer.merge(&touched);
        }
        touched
    }

    /// An access is left out where threads would have to come together that may not be here.
    pub fn access(&mut self, access: &Access, here: &Here) {
        let region = access.region();
        // What can't be a store's map in a wider sense is a load's only.
        let injective = access.map.is_injective() || !access.writes() || access.action == Action::Add;
        let known = if region.block { here.block } else { here.mask.is_some() };
        let closed = access.map.is_closed(here) && (!region.block || here.block || access.map == IDENTITY);
        let alone = !known && access.map == IDENTITY && access.action != Action::Add;
        if self.function.is_some() || !injective || !(alone || known && closed) {
            return;
        }
        // The threads of a block have no mask.
        if region.block && matches!(access.map, Map::Next | Map::First) {
            return;
        }
        // All sides add with one operation.
        if access.action == Action::Add && !(here.whole_warp && known) {
            return;
        }
        let key = key(access, here);
        let conflicts = |printer: &mut Self| {
            let fields = printer.fields(access);
            fields
                .into_iter()
                .any(|f| printer.tracker.state.field(access.region, f).conflicts(key, access.writes()))
        };
        self.wait_for_copies();
        if conflicts(self) || access.always && known {
            if !known {
                return;
            }
            self.order(access.order, region.block, here);
            if conflicts(self) {
                return;
            }
        }
        for field in self.fields(access) {
            let tracker = &mut self.tracker;
            for state in std::iter::once(&mut tracker.state).chain(tracker.touched.last_mut()) {
                let field = state.field(access.region, field);
                if access.writes() { &mut field.writers } else { &mut field.readers }.insert(key);
            }
        }
        self.tracker.used.insert(access.region % REGIONS.len() as u8);
        self.print_access(access, here);
    }

    /// The fields that an access may mean: where not all threads are in the same iteration, both.
    fn fields(&self, access: &Access) -> Vec<u8> {
        let both = access.region().alternating && self.loops.last() != self.together.last();
        if both { vec![0, 1] } else { vec![access.field % FIELDS] }
    }

    fn print_access(&mut self, access: &Access, here: &Here) {
        let shape = access.shape();
        let registers: Vec<String> =
            access.registers().iter().map(|(class, n)| format!("%{}{n}", class.info().name)).collect();
        let value = match shape.count {
            1 => registers.first().cloned().unwrap_or_default(),
            count => format!("{{{}}}", registers[..usize::from(count)].join(", ")),
        };
        let generic = access.form == 5 && access.action != Action::Copy;
        let address = self.address(access, here, generic);
        let space = match (generic, access.region().shared) {
            (true, _) => "",
            (_, true) => ".shared",
            (_, false) => ".global",
        };
        let how = qualifier(access);
        let instruction = match access.action {
            Action::Load => format!("ld{how}{space}.{} {value}, [{address}];", shape.ty),
            Action::Store => format!("st{how}{space}.{} [{address}], {value};", shape.ty),
            Action::Copy => {
                self.tracker.copying = true;
                let from = 4 * u32::from(access.register) + 16 * u32::from(access.at);
                format!("cp.async.ca.shared.global [{address}], [%table+{from}], 4;")
            }
            Action::Exchange => {
                let operation = ["add.u32", "exch.b32", "max.u32", "xor.b32"][usize::from(access.at % 4)];
                let other = registers.last().cloned().unwrap_or_default();
                format!("atom{space}.{operation} {value}, [{address}], {other};")
            }
            Action::Add => format!("red{space}.{} [{address}], {value};", addition(access)),
        };
        let guard = access.guard.map(super::print::at).unwrap_or_default();
        self.line(format!("{guard}{instruction}"));
    }

    /// Prints the computation of an address, and gives it as an operand.
    fn address(&mut self, access: &Access, here: &Here, generic: bool) -> String {
        let (region, number) = (access.region(), access.region);
        let field_bytes = region.field_bytes();
        let own = format!("%own{number}");
        let dynamic = region.alternating && !self.together.is_empty();
        let constant =
            access.within() + if dynamic { 0 } else { u32::from(access.field % FIELDS) * field_bytes };
        let (base, offset) = match access.map {
            Map::Shift(by) if access.form < 3 || generic => {
                (own, i64::from(constant) + i64::from(by) * i64::from(region.cell))
            }
            map => {
                self.index(map, region, here);
                (self.scaled(region, &format!("%base{number}")), constant.into())
            }
        };
        let base = if dynamic { self.alternate(access, region, &base) } else { base };
        let base = match (generic, region.shared) {
            (true, true) => {
                self.line(format!("cvt.u64.u32 %td0, {base};"));
                self.line("cvta.shared.u64 %td0, %td0;");
                "%td0".to_string()
            }
            (true, false) => {
                self.line(format!("cvta.global.u64 %td0, {base};"));
                "%td0".to_string()
            }
            _ => base,
        };
        format!("{base}+{offset}")
    }

    /// The number of the cell in `%tr0`.
    fn index(&mut self, map: Map, region: &Region, here: &Here) {
        let mask = region.threads() - 1;
        let thread = if region.block { "%thread" } else { "%lane" };
        let text = match map {
            Map::Shift(by) => format!("add.s32 %tr0, {thread}, {by};"),
            Map::Xor(by) => format!("xor.b32 %tr0, {thread}, {};", u32::from(by) & mask),
            Map::Rotate(by) => format!("add.u32 %tr0, {thread}, {by};\n\tand.b32 %tr0, %tr0, {mask};"),
            Map::Reverse => format!("sub.u32 %tr0, {mask}, {thread};"),
            Map::Multiply(by) => {
                format!("mul.lo.u32 %tr0, {thread}, {};\n\tand.b32 %tr0, %tr0, {mask};", by | 1)
            }
            Map::Fixed(number) => format!("mov.u32 %tr0, {};", u32::from(number) & mask),
            Map::Gather(register) => {
                format!("and.b32 %tr0, %r{}, {mask};", register % Class::Word.info().count)
            }
            Map::First | Map::Next => {
                let members = here.mask.clone().unwrap_or_default();
                let after = "mov.u32 %tr0, %lanemask_gt;\n\tand.b32 %tr0, %tr0, %tr1;\n\t\
                              setp.eq.u32 %tp0, %tr0, 0;\n\tselp.b32 %tr0, %tr1, %tr0, %tp0;\n\t";
                let first = "brev.b32 %tr0, %tr0;\n\tclz.b32 %tr0, %tr0;";
                match map {
                    Map::First => format!("mov.b32 %tr0, {members};\n\t{first}"),
                    _ => format!("mov.b32 %tr1, {members};\n\t{after}{first}"),
                }
            }
        };
        self.line(text);
    }

    /// The address of the cell whose number is in `%tr0`.
    fn scaled(&mut self, region: &Region, base: &str) -> String {
        if region.shared {
            self.line(format!("mad.lo.s32 %tr0, %tr0, {}, {base};", region.cell));
            "%tr0".into()
        } else {
            self.line(format!("mad.wide.s32 %td0, %tr0, {}, {base};", region.cell));
            "%td0".into()
        }
    }

    /// The address in the field of this iteration.
    fn alternate(&mut self, access: &Access, region: &Region, base: &str) -> String {
        let count = self.together.last().copied().unwrap_or_default();
        self.line(format!("and.b32 %tr1, %count{count}, 1;"));
        if !access.field.is_multiple_of(FIELDS) {
            self.line("xor.b32 %tr1, %tr1, 1;");
        }
        if region.shared {
            self.line(format!("mad.lo.u32 %tr1, %tr1, {}, {base};", region.field_bytes()));
            "%tr1".into()
        } else {
            self.line(format!("mad.wide.u32 %td1, %tr1, {}, {base};", region.field_bytes()));
            "%td1".into()
        }
    }

    /// Prints an operation that orders all accesses of the warp's threads that are here, or of the block's.
    fn order(&mut self, style: u8, block: bool, here: &Here) {
        self.wait_for_copies();
        let style = usize::from(style) % ORDERS;
        // A block's order is a warp's, too; some warps take it.
        if block || here.block && style >= 14 {
            self.order_block(style);
            return self.tracker.state.clear(true);
        }
        let mask = here.mask.clone().unwrap_or_default();
        let sync = format!("bar.warp.sync {mask};");
        let text = match style {
            1 | 2 => format!("mov.b32 %tr0, {mask};\n\tbar.warp.sync %tr0;"),
            3 => format!("fence.acq_rel.cta;\n\t{sync}"),
            4 => format!("membar.cta;\n\t{sync}"),
            5 => format!("{sync}\n\tfence.sc.cta;"),
            6 => format!("membar.gl;\n\t{sync}"),
            7 => format!("setp.ne.u32 %tp0, %lane, 5;\n\tvote.sync.ballot.b32 %tr0, %tp0, {mask};\n\t{sync}"),
            8 => format!("{sync}\n\tredux.sync.add.u32 %tr0, %lane, {mask};"),
            9 if here.full => format!("{sync}\n\tshfl.sync.bfly.b32 %tr0, %lane, 1, 31, {mask};"),
            10 if here.whole_warp => self.count_warp(&mask),
            11 => format!("{sync}\n\t{sync}"),
            _ => sync,
        };
        self.line(text);
        self.tracker.state.clear(false);
    }

    fn order_block(&mut self, style: usize) {
        let block = self.program.block;
        let text = match style {
            1 | 15 => "barrier.sync 1;".to_string(),
            2 => "setp.ne.u32 %tp0, %lane, 7;\n\tbar.red.popc.u32 %tr0, 0, %tp0;".into(),
            3 => "setp.ne.u32 %tp0, %lane, 9;\n\tbar.red.and.pred %tp0, 2, %tp0;".into(),
            4 => "barrier.cta.sync.aligned 3;".into(),
            5 => "membar.cta;\n\tbar.sync 0;".into(),
            6 if block.is_multiple_of(32) => format!("bar.sync 4, {block};"),
            7 => "mov.u32 %tr0, 5;\n\tbar.sync %tr0;".into(),
            8 | 16 => self.wait_at_barrier(),
            9 => self.count_block(["red.release.cta.shared.add.u32", "ld.acquire.cta.shared.u32"], "", ""),
            10 => self.count_block(
                ["red.relaxed.cta.shared.add.u32", "ld.relaxed.cta.shared.u32"],
                "fence.acq_rel.cta;\n\t",
                "\n\tfence.acq_rel.cta;",
            ),
            11 => self.count_block(
                ["red.shared.add.u32", "ld.volatile.shared.u32"],
                "membar.cta;\n\t",
                "\n\tmembar.cta;",
            ),
            _ => "bar.sync 0;".into(),
        };
        self.line(text);
    }

    /// All threads arrive at a barrier in memory and wait for its phase.
    fn wait_at_barrier(&mut self) -> String {
        let number = self.number();
        format!(
            "mbarrier.arrive.shared.b64 %td0, [exchange+8];\nWAIT{number}:\n\t\
             mbarrier.test_wait.shared.b64 %tp0, [exchange+8], %td0;\n\t@!%tp0 bra WAIT{number};"
        )
    }

    /// All threads count, and wait until all have.
    fn count_block(&mut self, [add, load]: [&str; 2], before: &str, after: &str) -> String {
        let (number, block) = (self.number(), self.program.block);
        format!(
            "{before}{add} [exchange], 1;\n\tadd.u32 %arrived, %arrived, {block};\nWAIT{number}:\n\t\
             {load} %tr0, [exchange];\n\tsetp.lt.u32 %tp0, %tr0, %arrived;\n\t@%tp0 bra WAIT{number};{after}"
        )
    }

    /// The same among the threads of a warp.
    fn count_warp(&mut self, mask: &str) -> String {
        let number = self.number();
        let counter = "shr.u32 %tr1, %thread, 5;\n\tshl.b32 %tr1, %tr1, 2;\n\tmov.u32 %tr0, exchange;\n\t\
                       add.u32 %tr1, %tr1, %tr0";
        format!(
            "{counter};\n\tmov.b32 %tr0, {mask};\n\tpopc.b32 %tr0, %tr0;\n\t\
             add.u32 %arrivals, %arrivals, %tr0;\n\t\
             red.release.cta.shared.add.u32 [%tr1+16], 1;\nWAIT{number}:\n\t\
             ld.acquire.cta.shared.u32 %tr0, [%tr1+16];\n\tsetp.lt.u32 %tp0, %tr0, %arrivals;\n\t\
             @%tp0 bra WAIT{number};"
        )
    }
}

/// Threads that `Next` and `First` depend on are those of the place in the program.
fn key(access: &Access, here: &Here) -> Key {
    match access.map {
        Map::Next | Map::First => (access.map, 1 + here.number),
        _ if access.action == Action::Add => (access.map, u32::MAX - u32::from(access.at % 3)),
        _ => (access.map, 0),
    }
}

fn addition(access: &Access) -> &'static str {
    ["add.u32", "max.u32", "xor.b32"][usize::from(access.at % 3)]
}

fn qualifier(access: &Access) -> &'static str {
    let one = access.shape().count == 1;
    match (access.qualifier, access.action) {
        (1, Action::Load | Action::Store) => ".volatile",
        (2, Action::Load | Action::Store) if one => ".relaxed.cta",
        (3, Action::Load) if one => ".acquire.cta",
        (3, Action::Store) if one => ".release.cta",
        (4, Action::Load | Action::Store) if one => ".relaxed.gpu",
        _ => "",
    }
}

/// The variables of a kernel: global memory of all blocks.
pub fn global_variable(name: &str, used: &BTreeSet<u8>, grid: u32) -> String {
    match bytes(used, false) {
        0 => String::new(),
        bytes => format!(".global .align 16 .b8 exchange_{name}[{}];\n", bytes * grid),
    }
}

pub fn declarations(text: &mut String, used: &BTreeSet<u8>) {
    let _ = writeln!(text, "\t.shared .align 16 .b8 exchange[{}];", bytes(used, true));
    text.push_str("\t.reg .b32 %thread, %lane, %arrived, %arrivals;\n");
    for number in used {
        let ty = if REGIONS[usize::from(*number)].shared { "b32" } else { "b64" };
        let _ = writeln!(text, "\t.reg .{ty} %own{number}, %base{number};");
    }
}

/// Fills memory, and computes addresses.
pub fn prologue(text: &mut String, name: &str, used: &BTreeSet<u8>, block: u32) {
    text.push_str("\tmov.u32 %thread, %tid.x;\n\tand.b32 %lane, %thread, 31;\n");
    text.push_str("\tmov.u32 %arrived, 0;\n\tmov.u32 %arrivals, 0;\n");
    let _ = writeln!(
        text,
        "\tmov.u32 %tr0, exchange;\n\tmad.lo.u32 %tr0, %thread, 4, %tr0;\n\tmov.u32 %tr1, %thread;\nFILL:\n\t\
         st.shared.u32 [%tr0], 0;\n\tadd.u32 %tr0, %tr0, {step};\n\tadd.u32 %tr1, %tr1, {block};\n\t\
         setp.lt.u32 %tp0, %tr1, {words};\n\t@%tp0 bra FILL;\n\tbar.sync 0;",
        step = 4 * block,
        words = bytes(used, true) / 4,
    );
    let _ = writeln!(
        text,
        "\tsetp.eq.u32 %tp0, %thread, 0;\n\t@%tp0 mbarrier.init.shared.b64 [exchange+8], {block};\n\tbar.sync 0;"
    );
    let offsets = offsets(used);
    for number in used {
        let region = &REGIONS[usize::from(*number)];
        let first = offsets[usize::from(*number)] + region.margin * region.cell;
        let thread = if region.block { "%thread" } else { "%lane" };
        let warp = if region.block { 0 } else { region.bytes() };
        let _ = if region.shared {
            writeln!(
                text,
                "\tmov.u32 %base{number}, exchange+{first};\n\tshr.u32 %tr0, %thread, 5;\n\t\
                 mad.lo.u32 %base{number}, %tr0, {warp}, %base{number};\n\t\
                 mad.lo.u32 %own{number}, {thread}, {}, %base{number};",
                region.cell
            )
        } else {
            writeln!(
                text,
                "\tmov.u64 %base{number}, exchange_{name}+{first};\n\tmov.u32 %tr0, %ctaid.x;\n\t\
                 mad.wide.u32 %base{number}, %tr0, {}, %base{number};\n\tshr.u32 %tr0, %thread, 5;\n\t\
                 mad.wide.u32 %base{number}, %tr0, {warp}, %base{number};\n\t\
                 mad.wide.u32 %own{number}, {thread}, {}, %base{number};",
                bytes(used, false),
                region.cell
            )
        };
    }
}

/// Writes the threads' cells to their own memory, so that what nobody loaded is seen.
pub fn epilogue(text: &mut String, used: &BTreeSet<u8>, room: u32) {
    text.push_str("\tbar.sync 0;\n");
    let mut at = 0;
    for number in used {
        let region = &REGIONS[usize::from(*number)];
        let space = if region.shared { "shared" } else { "global" };
        for word in 0..u32::from(FIELDS) * region.cell / 4 {
            if at == room {
                return;
            }
            let (field, within) = (word * 4 / region.cell, word * 4 % region.cell);
            let offset = field * region.field_bytes() + within;
            let _ = writeln!(
                text,
                "\tld.{space}.u32 %tr0, [%own{number}+{offset}];\n\tst.global.u32 [%mine+{at}], %tr0;"
            );
            at += 4;
        }
    }
}

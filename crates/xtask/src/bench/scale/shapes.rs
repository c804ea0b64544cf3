//! PTX of one shape and any size: what makes passes slow that are fast on ordinary code. The same size gives the same
//! bytes.

use std::fmt::Write;

pub struct Shape {
    pub name: &'static str,
    /// Writes the module: `n` is about the number of PTX instructions.
    pub write: fn(&mut Text, n: usize),
}

pub const ALL: &[Shape] = &[
    Shape { name: "straight", write: straight },
    Shape { name: "chain", write: chain },
    Shape { name: "loads", write: loads },
    Shape { name: "copies", write: copies },
    Shape { name: "ladder", write: ladder },
    Shape { name: "guards", write: guards },
    Shape { name: "predicated", write: predicated },
    Shape { name: "labels", write: labels },
    Shape { name: "exits", write: exits },
    Shape { name: "loops", write: loops },
    Shape { name: "nested-loops", write: nested_loops },
    Shape { name: "large-loop", write: large_loop },
    Shape { name: "nested-ifs", write: nested_ifs },
    Shape { name: "switch", write: switch },
    Shape { name: "maze", write: maze },
    Shape { name: "short-circuit", write: short_circuit },
    Shape { name: "joins", write: joins },
    Shape { name: "sparse-joins", write: sparse_joins },
    Shape { name: "pressure", write: pressure },
    Shape { name: "tree", write: tree },
    Shape { name: "functions", write: functions },
    Shape { name: "call-chain", write: call_chain },
    Shape { name: "calls", write: calls },
    Shape { name: "kernels", write: kernels },
    Shape { name: "variables", write: variables },
    Shape { name: "divisions", write: divisions },
    Shape { name: "predicates", write: predicates },
    Shape { name: "constants", write: constants },
    Shape { name: "expressions", write: expressions },
    Shape { name: "barriers", write: barriers },
    Shape { name: "matrix", write: matrix },
];

/// The module of a shape.
pub fn module(shape: &Shape, n: usize) -> String {
    let mut text = Text { all: String::from(HEADER), random: 1 };
    (shape.write)(&mut text, n);
    text.all
}

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// What every kernel begins with: `%in` and `%out` are addresses of the thread, `%x` was loaded, `%n` is a parameter.
const PROLOGUE: &str = "\
.reg .b64 %in, %out, %offset; .reg .b32 %x, %y, %n, %t; .reg .pred %p<8>;
ld.param.u64 %in, [p0]; ld.param.u64 %out, [p1]; ld.param.u32 %n, [p2];
cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;
mov.u32 %t, %tid.x; mul.wide.u32 %offset, %t, 4; add.u64 %in, %in, %offset; add.u64 %out, %out, %offset;
ld.global.u32 %x, [%in];
";

pub struct Text {
    all: String,
    random: u32,
}

macro_rules! put {
    ($text:expr, $($format:tt)*) => {
        // A string takes all that is written to it.
        _ = writeln!($text.all, $($format)*)
    };
}

impl Text {
    /// A kernel that stores `%x` at its end.
    fn kernel(&mut self, registers: &str, body: impl FnOnce(&mut Text)) {
        put!(
            self,
            ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)\n{{\n{PROLOGUE}{registers}"
        );
        body(self);
        put!(self, "st.global.u32 [%out], %x;\nret;\n}}");
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.random = self.random.wrapping_mul(1664525).wrapping_add(1013904223);
        (self.random >> 8) as usize % limit
    }
}

/// Arithmetic on sixteen values, all mixed.
fn straight(t: &mut Text, n: usize) {
    t.kernel(".reg .b32 %v<16>;", |t| {
        (0..16).for_each(|i| put!(t, "ld.global.u32 %v{i}, [%in+{}];", 4096 * i));
        for _ in 0..n {
            let [to, a, b] = [16, 16, 16].map(|limit| t.below(limit));
            let op = ["add.s32", "xor.b32", "mul.lo.s32", "min.s32"][t.below(4)];
            put!(t, "{op} %v{to}, %v{a}, %v{b};");
        }
        (0..16).for_each(|i| put!(t, "st.global.u32 [%out+{}], %v{i};", 4096 * i));
    });
}

/// One dependence chain.
fn chain(t: &mut Text, n: usize) {
    t.kernel("", |t| (0..n).for_each(|i| put!(t, "mad.lo.s32 %x, %x, %n, {i};")));
}

/// Loads that are added up.
fn loads(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        (0..n / 2).for_each(|i| put!(t, "ld.global.u32 %y, [%in+{}]; add.s32 %x, %x, %y;", 4 * i));
    });
}

/// Loads and stores that may overlap.
fn copies(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        let access = |i: usize| 4 * i;
        for i in 0..n / 2 {
            put!(t, "ld.global.u32 %y, [%in+{}]; st.global.u32 [%out+{}], %y;", access(i), access(i));
        }
    });
}

/// If and else, one after the other.
fn ladder(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        for i in 0..n / 8 {
            put!(t, "setp.gt.s32 %p0, %x, {}; @%p0 bra A{i};", 3 * i);
            put!(t, "mul.lo.s32 %x, %x, {}; st.global.u32 [%out+{}], %x; bra B{i};", 2 * i + 3, 4 * i);
            put!(t, "A{i}: ld.global.u32 %y, [%in+{}]; add.s32 %x, %x, %y;\nB{i}:", 4 * i);
        }
    });
}

/// If without else that could be guards.
fn guards(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        for i in 0..n / 4 {
            put!(
                t,
                "setp.gt.s32 %p0, %x, {i}; @%p0 bra B{i}; add.s32 %x, %x, {i}; xor.b32 %x, %x, %t;\nB{i}:"
            );
        }
    });
}

/// Guarded instructions in one block.
fn predicated(t: &mut Text, n: usize) {
    t.kernel("mov.u32 %y, %t;", |t| {
        for i in 0..n / 4 {
            let p = i % 8;
            put!(
                t,
                "setp.lt.s32 %p{p}, %x, {}; @%p{p} add.s32 %x, %x, %y; @!%p{p} xor.b32 %y, %y, %x;",
                7 * i
            );
            put!(t, "@%p{p} st.global.u32 [%out+{}], %x;", 4 * i);
        }
    });
}

/// A label before every second instruction, each with a branch to it.
fn labels(t: &mut Text, n: usize) {
    t.kernel("setp.eq.s32 %p0, %n, 7;", |t| {
        let last = n / 2;
        (0..last).for_each(|i| put!(t, "L{i}: add.s32 %x, %x, %t; @%p0 bra L{};", i / 2 + last / 2));
        put!(t, "L{last}:");
    });
}

/// Branches to one block.
fn exits(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        for i in 0..n / 3 {
            put!(t, "mad.lo.s32 %x, %x, %x, {i}; setp.eq.s32 %p0, %x, {}; @%p0 bra OUT;", 11 * i);
        }
        put!(t, "OUT:");
    });
}

/// Loops, one after the other.
fn loops(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        for i in 0..n / 6 {
            put!(t, "mov.u32 %y, 0;\nL{i}: mad.lo.s32 %x, %x, %x, %y; st.global.u32 [%out+{}], %x;", 4 * i);
            put!(t, "add.s32 %y, %y, 1; setp.lt.s32 %p0, %y, %n; @%p0 bra L{i};");
        }
    });
}

/// Loops inside each other.
fn nested_loops(t: &mut Text, n: usize) {
    let depth = n / 8;
    t.kernel(&format!(".reg .b32 %c<{}>;", depth + 1), |t| {
        (0..depth).for_each(|i| put!(t, "mov.u32 %c{i}, 0;\nL{i}: add.s32 %x, %x, %c{i};"));
        for i in (0..depth).rev() {
            put!(t, "mad.lo.s32 %x, %x, %x, %c{i}; add.s32 %c{i}, %c{i}, 1;");
            put!(t, "setp.lt.s32 %p0, %c{i}, %n; @%p0 bra L{i};");
        }
    });
}

/// One loop with sixteen values that go around.
fn large_loop(t: &mut Text, n: usize) {
    t.kernel(".reg .b32 %v<16>; mov.u32 %y, 0;", |t| {
        (0..16).for_each(|i| put!(t, "ld.global.u32 %v{i}, [%in+{}];", 4096 * i));
        put!(t, "L:");
        for _ in 0..n {
            let [to, a, b] = [16, 16, 16].map(|limit| t.below(limit));
            put!(t, "mad.lo.s32 %v{to}, %v{a}, %v{b}, %v{to};");
        }
        put!(t, "add.s32 %y, %y, 1; setp.lt.s32 %p0, %y, %n; @%p0 bra L;");
        (0..16).for_each(|i| put!(t, "st.global.u32 [%out+{}], %v{i};", 4096 * i));
    });
}

/// Branches inside each other.
fn nested_ifs(t: &mut Text, n: usize) {
    let depth = n / 7;
    t.kernel("", |t| {
        for i in 0..depth {
            put!(t, "mad.lo.s32 %x, %x, %x, {i}; setp.lt.s32 %p0, %x, {}; @%p0 bra E{i};", 5 * i);
            put!(t, "st.global.u32 [%out+{}], %x;", 4 * i);
        }
        for i in (0..depth).rev() {
            put!(t, "xor.b32 %x, %x, {i}; bra J{i};\nE{i}: add.s32 %x, %x, {i};\nJ{i}:");
        }
    });
}

/// A table of branch targets.
fn switch(t: &mut Text, n: usize) {
    let targets = n / 4 + 1;
    t.kernel(&format!("rem.u32 %y, %x, {targets};"), |t| {
        let names: Vec<String> = (0..targets).map(|i| format!("T{i}")).collect();
        put!(t, "TABLE: .branchtargets {};\nbrx.idx %y, TABLE;", names.join(", "));
        for i in 0..targets {
            put!(t, "T{i}: mul.lo.s32 %x, %x, {}; st.global.u32 [%out+{}], %x; bra OUT;", 2 * i + 3, 4 * i);
        }
        put!(t, "OUT:");
    });
}

/// Blocks that branch anywhere.
fn maze(t: &mut Text, n: usize) {
    let blocks = n / 4 + 1;
    t.kernel("", |t| {
        for i in 0..blocks {
            let to = t.below(blocks);
            put!(t, "L{i}: mad.lo.s32 %x, %x, {i}, %t; st.global.u32 [%out+{}], %x;", 4 * i);
            put!(t, "setp.lt.s32 %p0, %x, {}; @%p0 bra L{to};", 7 * i);
        }
    });
}

/// Conditions of six parts.
fn short_circuit(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        for i in 0..n / 14 {
            for part in 0..6 {
                let to = if part % 2 == 0 { 'E' } else { 'T' };
                put!(t, "setp.lt.s32 %p0, %x, {}; @%p0 bra {to}{i};", 11 * i + 100 * part);
            }
            put!(t, "T{i}: add.s32 %x, %x, {i};\nE{i}: mad.lo.s32 %x, %x, %t, {i};");
        }
    });
}

/// As many joins as variables, and every one has all of them.
fn joins(t: &mut Text, n: usize) {
    let count = ((n / 2) as f64).sqrt() as usize + 1;
    t.kernel(&format!(".reg .b32 %v<{count}>;"), |t| {
        (0..count).for_each(|i| put!(t, "mov.u32 %v{i}, {i};"));
        for j in 0..count {
            put!(t, "setp.lt.s32 %p0, %x, {}; @%p0 bra A{j};", 3 * j);
            (0..count).for_each(|i| put!(t, "add.s32 %v{i}, %v{}, {j};", (i + 1) % count));
            put!(t, "ld.global.u32 %x, [%in+{}]; bra B{j};\nA{j}:", 4 * j);
            (0..count).for_each(|i| put!(t, "xor.b32 %v{i}, %v{}, {j};", (i + 3) % count));
            put!(t, "ld.global.u32 %x, [%in+{}];\nB{j}:", 4 * j + 4);
        }
        (0..count).for_each(|i| put!(t, "st.global.u32 [%out+{}], %v{i};", 4 * i));
    });
}

/// As many joins as variables, and every one has a single one of them; all are live throughout.
fn sparse_joins(t: &mut Text, n: usize) {
    let count = n / 8 + 2;
    t.kernel(&format!(".reg .b32 %v<{count}>;"), |t| {
        (0..count).for_each(|i| put!(t, "ld.global.u32 %v{i}, [%in+{}];", 4 * i));
        for i in 0..count {
            put!(t, "setp.lt.s32 %p0, %x, {}; @%p0 bra A{i};", 3 * i);
            put!(
                t,
                "add.s32 %v{i}, %v{}, %x; ld.global.u32 %x, [%in+{}];\nA{i}:",
                (7 * i + 1) % count,
                4 * i
            );
        }
        (0..count).for_each(|i| put!(t, "st.global.u32 [%out+{}], %v{i};", 4 * i));
    });
}

/// Four hundred values that are live throughout many blocks.
fn pressure(t: &mut Text, n: usize) {
    const VALUES: usize = 400;
    t.kernel(&format!(".reg .b32 %v<{VALUES}>;"), |t| {
        (0..VALUES).for_each(|i| put!(t, "ld.global.u32 %v{i}, [%in+{}];", 4096 * i));
        for block in 0..n / 10 {
            let [a, b] = [VALUES, VALUES].map(|limit| t.below(limit));
            put!(t, "setp.lt.s32 %p0, %v{a}, %v{b}; @%p0 bra B{block};");
            for _ in 0..7 {
                let [to, a, b] = [VALUES, VALUES, VALUES].map(|limit| t.below(limit));
                put!(t, "mad.lo.s32 %v{to}, %v{a}, %v{b}, %v{to};");
            }
            put!(t, "st.global.u32 [%out+{}], %v{a};\nB{block}:", 4 * block);
        }
        (0..VALUES).for_each(|i| put!(t, "st.global.u32 [%out+{}], %v{i};", 4096 * i));
    });
}

/// A balanced sum: all leaves are loaded first.
fn tree(t: &mut Text, n: usize) {
    let leaves = n / 2 + 1;
    t.kernel(&format!(".reg .b32 %v<{leaves}>;"), |t| {
        (0..leaves).for_each(|i| put!(t, "ld.global.u32 %v{i}, [%in+{}];", 4 * i));
        let mut step = 1;
        while step < leaves {
            let pairs = (0..leaves).step_by(2 * step).filter(|i| i + step < leaves);
            pairs.for_each(|i| put!(t, "add.s32 %v{i}, %v{i}, %v{};", i + step));
            step *= 2;
        }
        put!(t, "mov.u32 %x, %v0;");
    });
}

fn function(t: &mut Text, i: usize, callee: Option<usize>) {
    put!(t, ".func (.param .b32 r) f{i}(.param .b32 a)\n{{ .reg .b32 %v;\nld.param.b32 %v, [a];");
    put!(t, "mad.lo.s32 %v, %v, %v, {i};");
    if let Some(callee) = callee {
        call(t, callee, "%v");
    }
    put!(t, "st.param.b32 [r], %v; ret; }}");
}

fn call(t: &mut Text, callee: usize, register: &str) {
    put!(t, "{{ .param .b32 a1; .param .b32 r1; st.param.b32 [a1], {register};");
    put!(t, "call (r1), f{callee}, (a1); ld.param.b32 {register}, [r1]; }}");
}

/// Functions that a kernel calls, one after the other.
fn functions(t: &mut Text, n: usize) {
    (0..n / 8).for_each(|i| function(t, i, None));
    t.kernel("", |t| (0..n / 8).for_each(|i| call(t, i, "%x")));
}

/// Functions that call the next one.
fn call_chain(t: &mut Text, n: usize) {
    let last = n / 8;
    (0..=last).rev().for_each(|i| function(t, i, (i < last).then_some(i + 1)));
    t.kernel("", |t| call(t, 0, "%x"));
}

/// Calls of one function.
fn calls(t: &mut Text, n: usize) {
    function(t, 0, None);
    t.kernel("", |t| (0..n / 3).for_each(|_| call(t, 0, "%x")));
}

fn kernels(t: &mut Text, n: usize) {
    for i in 0..n / 6 {
        put!(t, ".visible .entry k{i}(.param .u64 p)\n{{ .reg .b32 %v; .reg .b64 %a;\nld.param.u64 %a, [p];");
        put!(t, "mov.u32 %v, %tid.x; mad.lo.s32 %v, %v, %v, {i}; st.global.u32 [%a], %v; ret; }}");
    }
}

/// Global variables with values.
fn variables(t: &mut Text, n: usize) {
    (0..n).for_each(|i| put!(t, ".global .align 4 .u32 g{i} = {i};"));
    t.kernel("", |t| put!(t, "mov.u64 %in, g0; ld.global.u32 %x, [%in];"));
}

/// Divisions with a slow path, of four types.
fn divisions(t: &mut Text, n: usize) {
    t.kernel(".reg .b64 %l, %d; mov.b64 %l, {%x, %t}; mov.b64 %d, {%t, %x};", |t| {
        for i in 0..n / 20 {
            put!(t, "div.rn.f32 %x, %x, %n; rem.u32 %x, %x, %t; xor.b32 %x, %x, {i};");
            put!(t, "div.s64 %l, %l, %d; div.rn.f64 %d, %d, %l;");
        }
        put!(t, "st.global.u64 [%out+8], %d;");
    });
}

/// Logic on predicates.
fn predicates(t: &mut Text, n: usize) {
    t.kernel("", |t| {
        (0..8).for_each(|i| put!(t, "setp.lt.s32 %p{i}, %x, {};", 7 * i));
        for i in 0..n {
            let op = ["and", "or", "xor"][i % 3];
            put!(t, "{op}.pred %p{}, %p{}, %p{};", i % 8, (i + 7) % 8, (i + 3) % 8);
        }
        put!(t, "selp.u32 %x, 1, %x, %p0;");
    });
}

/// Constants of 64 bits, no two of them the same.
fn constants(t: &mut Text, n: usize) {
    t.kernel(".reg .b64 %l; mov.b64 %l, {%x, %t};", |t| {
        let number = |i: usize| 0x1_2345_6789 + 0x10001 * i;
        (0..n / 2).for_each(|i| put!(t, "mad.lo.s64 %l, %l, {}, {};", number(i), 77_777_777 * i));
        put!(t, "st.global.u64 [%out+8], %l;");
    });
}

/// The same expressions again and again, and addresses as a front end writes them.
fn expressions(t: &mut Text, n: usize) {
    t.kernel(".reg .b64 %a; .reg .b32 %i;", |t| {
        for i in 0..n / 5 {
            put!(t, "mad.lo.s32 %i, %n, {}, %t; mul.wide.s32 %a, %i, 4; add.s64 %a, %out, %a;", i % 50);
            put!(t, "xor.b32 %x, %x, %i; st.global.u32 [%a+4], %x;");
        }
    });
}

/// Shared memory between barriers.
fn barriers(t: &mut Text, n: usize) {
    put!(t, ".shared .align 4 .b8 s[8192];");
    t.kernel("mov.u32 %y, s; mad.lo.u32 %y, %t, 4, %y;", |t| {
        for i in 0..n / 4 {
            put!(t, "st.shared.u32 [%y], %x; bar.sync 0; ld.shared.u32 %x, [%y+{}];", 4 * (i % 64));
            put!(t, "add.s32 %x, %x, 1;");
        }
    });
}

/// Matrix products on eight accumulators.
fn matrix(t: &mut Text, n: usize) {
    t.kernel(".reg .f32 %d<32>; .reg .b32 %a<4>, %b<2>;", |t| {
        (0..32).for_each(|i| put!(t, "mov.f32 %d{i}, 0f00000000;"));
        for i in 0..n / 3 {
            let d = [0, 1, 2, 3].map(|word| format!("%d{}", 4 * (i % 8) + word)).join(", ");
            put!(t, "ld.global.v4.u32 {{%a0, %a1, %a2, %a3}}, [%in+{}];", 16 * i);
            put!(t, "ld.global.v2.u32 {{%b0, %b1}}, [%out+{}];", 8 * i);
            put!(t, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d}}},");
            put!(t, "  {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{{d}}};");
        }
        (0..32).for_each(|i| put!(t, "st.global.f32 [%out+{}], %d{i};", 4 * i + 4));
    });
}

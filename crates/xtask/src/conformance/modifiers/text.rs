//! The PTX of the cases: inputs, a change of signs, the instruction, and its results in memory.

use super::memory::{self, Area, INVOLUTIONS};
use std::fmt::Write;

/// Threads of a kernel's one block.
pub const THREADS: usize = 64;
/// Values of 64 bits that each thread has.
pub const INPUTS: usize = 16;

/// Values that are worth trying in all types at once; a third of the inputs are random.
const EDGES: [u64; 32] = [
    0,
    1,
    2,
    u64::MAX,
    0x8000_0000_8000_0000,
    0x7fff_ffff_7fff_ffff,
    0x3f80_0000_bf80_0000,
    0xbf80_0000_3f80_0000,
    0x7f80_0000_ff80_0000,
    0xff80_0000_7f80_0000,
    0x7fc0_0001_ffc0_0001,
    0xffc0_0001_7fc0_0001,
    0x0080_0000_8080_0000,
    0x0000_0001_8000_0001,
    0x3c00_bc00_3c00_bc00,
    0xbc00_3c00_bc00_3c00,
    0x7c00_fc00_fc00_7c00,
    0x7e01_fe01_0001_8001,
    0x3f80_bf80_bf80_3f80,
    0x7f80_ff80_3f80_bf80,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0xfff8_0000_0000_0001,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x8010_0000_0000_0000,
    0x8000_0000_0000_0000,
    0x4049_0fdb_c049_0fdb,
    0x4248_c248_4049_c049,
    0x0000_001f_0000_0005,
    0x0000_8000_0000_7fff,
    0x4170_0000_c170_0000,
];

/// What stands before an operand: instructions on `X`, with `T` for registers of the case's own, and the float type
/// that it must be a number of.
struct Change {
    bits: u32,
    text: &'static str,
    number: &'static str,
}

const fn change(bits: u32, text: &'static str, number: &'static str) -> Change {
    Change { bits, text, number }
}

const CHANGES: [Change; 56] = [
    change(1, "not.pred X, X;", ""),
    change(16, "neg.f16 X, X;", "f16"),
    change(16, "abs.f16 X, X;", "f16"),
    change(16, "neg.ftz.f16 X, X;", "f16"),
    change(16, "abs.f16 X, X; neg.f16 X, X;", "f16"),
    change(16, "neg.f16 X, X; abs.f16 X, X;", "f16"),
    change(16, "neg.bf16 X, X;", "bf16"),
    change(16, "abs.bf16 X, X;", "bf16"),
    change(16, "abs.bf16 X, X; neg.bf16 X, X;", "bf16"),
    change(16, "neg.s16 X, X;", ""),
    change(16, "abs.s16 X, X;", ""),
    change(16, "not.b16 X, X;", ""),
    change(16, "cnot.b16 X, X;", ""),
    change(16, "xor.b16 X, X, 0x8000;", ""),
    change(32, "neg.f32 X, X;", "f32"),
    change(32, "abs.f32 X, X;", "f32"),
    change(32, "neg.ftz.f32 X, X;", "f32"),
    change(32, "abs.ftz.f32 X, X;", "f32"),
    change(32, "abs.f32 X, X; neg.f32 X, X;", "f32"),
    change(32, "neg.f32 X, X; abs.f32 X, X;", "f32"),
    change(32, "neg.f32 X, X; neg.f32 X, X;", "f32"),
    change(32, "abs.ftz.f32 X, X; neg.f32 X, X;", "f32"),
    change(32, "neg.f16x2 X, X;", "f16x2"),
    change(32, "abs.f16x2 X, X;", "f16x2"),
    change(32, "neg.ftz.f16x2 X, X;", "f16x2"),
    change(32, "abs.f16x2 X, X; neg.f16x2 X, X;", "f16x2"),
    change(32, "neg.bf16x2 X, X;", "bf16x2"),
    change(32, "abs.bf16x2 X, X;", "bf16x2"),
    change(32, "neg.bf16x2 X, X; abs.bf16x2 X, X;", "bf16x2"),
    change(32, "mov.b32 {TH0, TH1}, X; neg.f16 TH0, TH0; mov.b32 X, {TH0, TH1};", "f16x2"),
    change(32, "mov.b32 {TH0, TH1}, X; abs.f16 TH1, TH1; mov.b32 X, {TH0, TH1};", "f16x2"),
    change(32, "mov.b32 {TH0, TH1}, X; neg.bf16 TH1, TH1; mov.b32 X, {TH1, TH0};", "bf16x2"),
    change(32, "neg.s32 X, X;", ""),
    change(32, "abs.s32 X, X;", ""),
    change(32, "abs.s32 X, X; neg.s32 X, X;", ""),
    change(32, "not.b32 X, X;", ""),
    change(32, "cnot.b32 X, X;", ""),
    change(32, "xor.b32 X, X, 0x80000000;", ""),
    change(32, "and.b32 X, X, 0x7fffffff;", ""),
    change(32, "xor.b32 X, X, 0x80008000;", ""),
    change(32, "not.b32 X, X; neg.s32 X, X;", ""),
    change(64, "neg.f64 X, X;", "f64"),
    change(64, "abs.f64 X, X;", "f64"),
    change(64, "abs.f64 X, X; neg.f64 X, X;", "f64"),
    change(64, "neg.f64 X, X; abs.f64 X, X;", "f64"),
    change(64, "neg.s64 X, X;", ""),
    change(64, "abs.s64 X, X;", ""),
    change(64, "not.b64 X, X;", ""),
    change(64, "cnot.b64 X, X;", ""),
    change(64, "xor.b64 X, X, 0x8000000000000000;", ""),
    change(64, "mov.b64 {TR0, TR1}, X; neg.f32 TR1, TR1; mov.b64 X, {TR0, TR1};", "f32x2"),
    change(64, "mov.b64 {TR0, TR1}, X; abs.f32 TR1, TR1; mov.b64 X, {TR0, TR1};", "f32x2"),
    change(64, "mov.b64 {TR0, TR1}, X; neg.f32 TR0, TR0; mov.b64 X, {TR0, TR1};", "f32x2"),
    change(64, "mov.b64 {TR0, TR1}, X; neg.f16x2 TR1, TR1; mov.b64 X, {TR0, TR1};", "f16x4"),
    change(64, "mov.b64 {TR0, TR1}, X; neg.s32 TR1, TR1; mov.b64 X, {TR0, TR1};", ""),
    change(64, "mov.b64 {TR0, TR1}, X; not.b32 TR0, TR0; mov.b64 X, {TR0, TR1};", ""),
];

/// The word from which a change makes the mask of all lanes. There is none for floats, for which that mask is a NaN, nor
/// for a change that leaves few bits.
const MASKS: [(&str, u32); 7] = [
    ("neg.s32 X, X;", 1),
    ("abs.s32 X, X; neg.s32 X, X;", 1),
    ("not.b32 X, X;", 0),
    ("xor.b32 X, X, 0x80000000;", 0x7fff_ffff),
    ("xor.b32 X, X, 0x80008000;", 0x7fff_7fff),
    ("not.b32 X, X; neg.s32 X, X;", 0xffff_fffe),
    ("", u32::MAX),
];

fn mask_before(change: &str) -> Option<u32> {
    MASKS.iter().find(|(text, _)| *text == change).map(|(_, mask)| *mask)
}

/// Changes of a sparse matrix's metadata. They undo themselves, and stand before the word that is loaded, too.
const METADATA_CHANGES: [&str; 4] =
    ["neg.s32 X, X;", "not.b32 X, X;", "xor.b32 X, X, 0x80000000;", "xor.b32 X, X, 0x80008000;"];

/// Instructions that don't only compute, that end a kernel, or whose operands are addresses. Accesses that have an
/// [`Area`] are tried nevertheless.
const NOT_COMPUTING: [&str; 44] = [
    "ld",
    "ldu",
    "st",
    "atom",
    "red",
    "tex",
    "tld4",
    "txq",
    "suld",
    "sust",
    "sured",
    "suq",
    "bra",
    "brx",
    "call",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "bar",
    "barrier",
    "membar",
    "fence",
    "cp",
    "nanosleep",
    "pmevent",
    "mbarrier",
    "wgmma",
    "setmaxnreg",
    "griddepcontrol",
    "alloca",
    "stackrestore",
    "prefetch",
    "prefetchu",
    "discard",
    "applypriority",
    "cvta",
    "createpolicy",
    "multimem",
    "tcgen05",
    "tensormap",
    "wmma",
    "elect",
    "stmatrix",
];

/// Forms that are tried whatever was recorded: those whose machine operations take a word for another kind of number.
pub const ALWAYS: [&str; 20] = [
    "tanh.approx.f32 %f1,%f2;",
    "tanh.approx.f16 %h1,%h2;",
    "tanh.approx.f16x2 %r1,%r2;",
    "tanh.approx.bf16 %h1,%h2;",
    "tanh.approx.bf16x2 %r1,%r2;",
    "ex2.approx.f16 %h1,%h2;",
    "ex2.approx.f16x2 %r1,%r2;",
    "ex2.approx.ftz.bf16 %h1,%h2;",
    "ex2.approx.ftz.bf16x2 %r1,%r2;",
    "rcp.approx.ftz.f64 %d1,%d2;",
    "rsqrt.approx.ftz.f64 %d1,%d2;",
    "min.xorsign.abs.f32 %f1,%f2,%f3;",
    "max.NaN.xorsign.abs.f32 %f1,%f2,%f3;",
    "min.xorsign.abs.f16 %h1,%h2,%h3;",
    "max.xorsign.abs.f16x2 %r1,%r2,%r3;",
    "min.xorsign.abs.bf16x2 %r1,%r2,%r3;",
    "copysign.f32 %f1,%f2,%f3;",
    "selp.f32 %f1,%f2,%f3,%p1;",
    "cvt.rn.f16x2.f32 %r1,%f2,%f3;",
    "cvt.f64.f32 %d1,%f2;",
];

/// One instruction with a change of signs before one operand.
#[derive(Clone)]
pub struct Case {
    /// The instruction and the operands, registers as the form has them.
    opcode: String,
    operands: Vec<String>,
    /// The register that is changed, by its order among those that are read; without it, all that the change fits.
    at: Option<usize>,
    change: &'static Change,
    /// Where an access goes.
    area: Option<Area>,
}

// Compared by what they are made of.
impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.text)
    }
}

/// The width of a register by its name in the recorded forms.
fn bits(register: &str) -> Option<u32> {
    let name = register.strip_prefix('%')?;
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if letters.len() == name.len() {
        return None;
    }
    Some(match letters {
        "p" => 1,
        "h" => 16,
        "r" | "f" => 32,
        "rd" | "d" => 64,
        _ => return None,
    })
}

/// Operands at the top level.
fn split(operands: &str) -> Vec<String> {
    let (mut all, mut depth) = (vec![String::new()], 0);
    for c in operands.chars() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                all.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = all.last_mut() {
            last.push(c);
        }
    }
    all.iter().map(|o| o.trim().to_string()).collect()
}

/// The registers that an operand names, or nothing if it names anything else.
fn registers(operand: &str) -> Option<Vec<&str>> {
    let inside = operand.trim_start_matches(['{', '!', '-']).trim_end_matches('}');
    let mut all = Vec::new();
    for name in inside.split([',', '|']).map(str::trim) {
        let register = name.split('.').next().unwrap_or(name);
        if bits(register).is_some() {
            all.push(register);
        } else if name != "_" && !name.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return None;
        }
    }
    Some(all)
}

/// Forms without cases: in which order an `mma` adds products of small floats is open, and `conformance matrix` has them;
/// a changed mask of `redux` names threads that are not there; the interpreter has no `fma.oob` and no handles of images.
fn is_open(opcode: &str) -> bool {
    let small_floats = opcode.starts_with("mma.") && [".e4m3", ".e5m2"].iter().any(|ty| opcode.contains(ty));
    small_floats || opcode.contains(".oob.") || opcode.starts_with("redux.") || opcode.starts_with("istypep.")
}

/// Is the last operand the mask of the lanes that take part? All of them do: a lane must be in its own mask.
fn has_member_mask(opcode: &str) -> bool {
    let mnemonic = opcode.split('.').next().unwrap_or(opcode);
    ["shfl", "vote", "match"].contains(&mnemonic) && opcode.contains(".sync")
}

/// Is the operand the metadata of a sparse matrix? It must name two different elements of four, the lower one first, or
/// the product is undefined.
fn is_metadata(opcode: &str, place: usize) -> bool {
    opcode.starts_with("mma.sp") && place == 4
}

/// Does the instruction write no register?
fn writes_nothing(opcode: &str) -> bool {
    ["st", "red"].contains(&opcode.split('.').next().unwrap_or(opcode))
}

/// The registers that an operand of a case names: also that of an address, in an access.
fn case_registers(area: Option<Area>, operand: &str) -> Option<Vec<&str>> {
    match area.and_then(|_| memory::address(operand)) {
        Some(address) => (bits(address) == Some(64)).then(|| vec![address]),
        None => registers(operand),
    }
}

/// All cases of a form; none if it isn't one instruction on registers.
pub fn cases(form: &str) -> Vec<Case> {
    let Some((opcode, operands)) = form.trim().trim_end_matches(';').split_once(' ') else {
        return Vec::new();
    };
    let mnemonic = opcode.split('.').next().unwrap_or(opcode);
    let area = Area::of(opcode);
    if form.matches(';').count() != 1
        || opcode.starts_with('@')
        || area.is_none() && NOT_COMPUTING.contains(&mnemonic)
        || is_open(opcode)
    {
        return Vec::new();
    }
    let operands = split(operands);
    let named: Option<Vec<Vec<&str>>> = operands.iter().map(|o| case_registers(area, o)).collect();
    let Some(named) = named.filter(|named| named.len() > 1) else { return Vec::new() };
    let case = |at: Option<usize>, change: &'static Change| Case {
        opcode: opcode.to_string(),
        operands: operands.clone(),
        at,
        change,
        area,
    };
    let mut cases = Vec::new();
    // How many operands the changes of a width fit.
    let mut fitting: Vec<u32> = Vec::new();
    let mut at = 0;
    for (place, read) in named.iter().enumerate().skip(usize::from(!writes_nothing(opcode))) {
        // One register stands for all of a vector.
        let changed = read.first().and_then(|register| bits(register));
        let is_mask = has_member_mask(opcode) && place + 1 == named.len();
        let is_metadata = is_metadata(opcode, place);
        let is_address = area.is_some() && memory::address(&operands[place]).is_some();
        let fits = |change: &&Change| {
            Some(change.bits) == changed
                && (!is_mask || mask_before(change.text).is_some())
                && (!is_metadata || METADATA_CHANGES.contains(&change.text))
                && (!is_address || INVOLUTIONS.contains(&change.text))
        };
        cases.extend(CHANGES.iter().filter(fits).map(|change| case(Some(at), change)));
        fitting.extend(changed.filter(|_| !is_mask && !is_metadata && !is_address));
        at += read.len();
    }
    let several = |change: &&Change| fitting.iter().filter(|bits| **bits == change.bits).count() > 1;
    cases.extend(CHANGES.iter().filter(several).map(|change| case(None, change)));
    cases
}

impl Case {
    /// Does its text name variables of the module?
    fn needs_variables(&self) -> bool {
        self.area.is_some() || (0..self.operands.len()).any(|place| is_metadata(&self.opcode, place))
    }

    pub fn name(&self) -> String {
        let at = self.at.map_or("all registers".to_string(), |at| format!("register {at}"));
        format!("{} {}: {at} behind {:?}", self.opcode, self.operands.join(", "), self.change)
    }

    fn mnemonic(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    fn written(&self) -> Vec<&str> {
        let result = self.operands.first().filter(|_| !writes_nothing(&self.opcode));
        result.and_then(|o| registers(o)).unwrap_or_default()
    }

    /// Values of 64 bits that it leaves.
    fn results(&self) -> usize {
        self.written().len() + if self.area.is_some() { memory::WORDS } else { 0 }
    }

    /// The change as instructions on a register.
    fn change_of(&self, register: &str) -> String {
        self.change.text.replace("TH", "%th").replace("TR", "%tr").replace('X', register)
    }

    /// The instructions. `number` of the case in its kernel chooses inputs; results go to `first` and behind.
    fn text(&self, number: usize, first: usize) -> String {
        let mut out = format!("{{ // {}\n", self.name());
        out.push_str(
            ".reg .pred %p<99>, T<2>; .reg .b16 %h<99>, %th<4>; .reg .b32 %r<99>, %f<99>, %tr<4>;\n",
        );
        out.push_str(".reg .b64 %rd<99>, %d<99>, %td<2>;\n");
        if let Some(area) = self.area {
            area.fill(&mut out, number);
        }
        let mut source = 0;
        let unread = usize::from(!writes_nothing(&self.opcode));
        let mut operands = self.operands[..unread].to_vec();
        // Vectors have more registers than there are inputs: these come again.
        for (place, operand) in self.operands.iter().enumerate().skip(unread) {
            let is_mask = has_member_mask(&self.opcode) && place + 1 == self.operands.len();
            let is_metadata = is_metadata(&self.opcode, place);
            let is_address = self.area.is_some() && memory::address(operand).is_some();
            let mut text = operand.clone();
            for register in case_registers(self.area, operand).unwrap_or_default() {
                let letters = register.trim_end_matches(|c: char| c.is_ascii_digit());
                let own = format!("{letters}{}", 40 + source);
                let fits =
                    !is_mask && !is_metadata && !is_address && bits(register) == Some(self.change.bits);
                let is_changed = self.at.map_or(fits, |at| at == source);
                let change = if is_changed { self.change_of(&own) } else { String::new() };
                match () {
                    () if is_mask => {
                        load_mask(&mut out, &own, if is_changed { self.change.text } else { "" })
                    }
                    () if is_metadata => load_metadata(&mut out, &own, number % INPUTS, &change),
                    () if is_address => memory::load_address(&mut out, &own, &change),
                    () => load(&mut out, &own, (number * 3 + source * 5) % INPUTS),
                }
                if is_changed && !is_address {
                    numeric(&mut out, &own, self.change.number);
                }
                writeln!(out, "{change}").ok();
                text = replace_register(&text, register, &own);
                source += 1;
            }
            operands.push(text);
        }
        // What is written only in part has something in it before.
        for register in self.written() {
            load(&mut out, register, (number + 7) % INPUTS);
        }
        // The flag after an addition is its carry. After a subtraction it is the borrow, of which ptxas's code and ours
        // keep the opposite: `subc` must come behind `sub.cc`.
        match self.mnemonic() {
            "addc" | "madc" => out.push_str("cvt.u32.u64 %tr2, %in0; add.cc.u32 %tr2, %tr2, %tr2;\n"),
            "subc" => out.push_str("cvt.u32.u64 %tr2, %in0; sub.cc.u32 %tr2, 5, %tr2;\n"),
            _ => {}
        }
        writeln!(out, "{} {};", self.opcode, operands.join(", ")).ok();
        let written = self.written();
        for (i, register) in written.iter().enumerate() {
            self.store(&mut out, register, first + i);
        }
        for (area, word) in self.area.iter().flat_map(|area| (0..memory::WORDS).map(move |word| (area, word)))
        {
            area.read(&mut out, word, self.result_type());
            let offset = (first + written.len() + word) * THREADS * 8;
            writeln!(out, "st.global.b64 [%out+{offset}], %rd90;").ok();
        }
        out.push_str("}\n");
        out
    }

    /// The type of the results.
    fn result_type(&self) -> &str {
        let types = ["f16x2", "bf16x2", "f16", "bf16", "f32", "f64", "f32x2"];
        let is_type = |w: &&str| {
            types.contains(w)
                || w.len() < 4 && w.starts_with(['u', 's', 'b']) && w[1..].parse::<u32>().is_ok()
        };
        self.opcode.split('.').skip(1).find(is_type).unwrap_or("")
    }

    fn store(&self, out: &mut String, register: &str, at: usize) {
        let offset = at * THREADS * 8;
        match bits(register) {
            Some(1) => {
                writeln!(out, "selp.b64 %td0, 1, 0, {register};").ok();
            }
            Some(16) => {
                canonical(out, register, self.result_type());
                writeln!(out, "mov.b64 %td0, {{{register}, 0, 0, 0}};").ok();
            }
            Some(32) => {
                canonical(out, register, self.result_type());
                writeln!(out, "mov.b64 %td0, {{{register}, 0}};").ok();
            }
            _ => {
                canonical(out, register, self.result_type());
                writeln!(out, "mov.b64 %td0, {register};").ok();
            }
        }
        writeln!(out, "st.global.b64 [%out+{offset}], %td0;").ok();
    }
}

/// `%r1` but not `%r12`.
fn replace_register(text: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = rest.split_at(at);
        let after = &after[from.len()..];
        out.push_str(before);
        let ends = !after.starts_with(|c: char| c.is_ascii_digit());
        out.push_str(if ends { to } else { from });
        rest = after;
    }
    out + rest
}

/// An input in a register of some width.
fn load(out: &mut String, register: &str, input: usize) {
    let text = match bits(register) {
        Some(1) => format!("setp.lt.s64 {register}, %in{input}, 0;"),
        Some(16) => format!("cvt.u16.u64 {register}, %in{input};"),
        Some(32) => format!("cvt.u32.u64 {register}, %in{input};"),
        _ => format!("mov.b64 {register}, %in{input};"),
    };
    writeln!(out, "{text}").ok();
}

/// A word from which a change makes the mask of all lanes, of which the compiler doesn't know that it is one.
fn load_mask(out: &mut String, register: &str, change: &str) {
    let mask = mask_before(change).unwrap_or(u32::MAX);
    // The first of the edges is zero.
    writeln!(out, "ld.const.b32 {register}, [edges]; or.b32 {register}, {register}, {mask:#x};").ok();
}

/// Pairs of elements, the first two or the last two of four, which are also the first or the last of two, or the word that
/// a change makes such pairs of.
fn load_metadata(out: &mut String, register: &str, input: usize, change: &str) {
    load(out, register, input);
    writeln!(
        out,
        "and.b32 {register}, {register}, 0x11111111; mul.lo.u32 {register}, {register}, 10; \
         xor.b32 {register}, {register}, 0x44444444;"
    )
    .ok();
    if !change.is_empty() {
        memory::change_and_hide(out, register, change, 32);
    }
}

/// Another number in place of a NaN: one where the lowest bit of the exponent is not set.
fn numeric(out: &mut String, register: &str, number: &str) {
    let text = match number {
        "f16" => {
            "and.b16 %th0, X, 0x7c00; setp.eq.u16 T0, %th0, 0x7c00; and.b16 %th1, X, 0xf800; selp.b16 X, %th1, X, T0;"
        }
        "bf16" => {
            "and.b16 %th0, X, 0x7f80; setp.eq.u16 T0, %th0, 0x7f80; and.b16 %th1, X, 0xbf80; selp.b16 X, %th1, X, T0;"
        }
        "f32" => {
            "and.b32 %tr0, X, 0x7fffffff; setp.gt.u32 T0, %tr0, 0x7f800000; and.b32 %tr1, X, 0xbfffffff; selp.b32 X, %tr1, X, T0;"
        }
        "f64" => {
            "and.b64 %td0, X, 0x7fffffffffffffff; setp.gt.u64 T0, %td0, 0x7ff0000000000000; and.b64 %td1, X, 0xbfffffffffffffff; selp.b64 X, %td1, X, T0;"
        }
        // The upper bit of the exponents goes.
        "f16x2" => "and.b32 X, X, 0xbfffbfff;",
        "bf16x2" => "and.b32 X, X, 0xbfffbfff;",
        "f32x2" | "f16x4" => "and.b64 X, X, 0xbfffbfffbfffbfff;",
        _ => "",
    };
    writeln!(out, "{}", text.replace('X', register)).ok();
}

/// The one NaN in place of any.
pub fn canonical(out: &mut String, register: &str, ty: &str) {
    let half = |register: &str, infinity: &str| {
        format!(
            "and.b16 %th3, {register}, 0x7fff; setp.gt.u16 T1, %th3, {infinity}; selp.b16 {register}, 0x7fff, {register}, T1;"
        )
    };
    let pair = |infinity: &str| {
        let (low, high) = (half("%th0", infinity), half("%th1", infinity));
        format!("mov.b32 {{%th0, %th1}}, {register}; {low} {high} mov.b32 {register}, {{%th0, %th1}};")
    };
    let word = |register: &str| {
        format!(
            "and.b32 %tr3, {register}, 0x7fffffff; setp.gt.u32 T1, %tr3, 0x7f800000; selp.b32 {register}, 0x7fffffff, {register}, T1;"
        )
    };
    let text = match (ty, bits(register)) {
        ("f16", Some(16)) => half(register, "0x7c00"),
        ("bf16", Some(16)) => half(register, "0x7f80"),
        ("f16x2" | "f16", Some(32)) => pair("0x7c00"),
        ("bf16x2" | "bf16", Some(32)) => pair("0x7f80"),
        ("f32", Some(32)) => word(register),
        ("f64", Some(64)) => format!(
            "and.b64 %td1, {register}, 0x7fffffffffffffff; setp.gt.u64 T1, %td1, 0x7ff0000000000000; \
             selp.b64 {register}, 0x7fffffffffffffff, {register}, T1;"
        ),
        ("f32x2", Some(64)) => {
            let words = [word("%tr0"), word("%tr1")].join(" ");
            format!("mov.b64 {{%tr0, %tr1}}, {register}; {words} mov.b64 {register}, {{%tr0, %tr1}};")
        }
        _ => return,
    };
    writeln!(out, "{text}").ok();
}

/// Random bits: the lowest say which edge stands in their place, if any.
pub fn inputs() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let words = (0..THREADS * INPUTS).flat_map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ state >> 29).to_le_bytes()
    });
    words.collect()
}

/// Some kernels, with the cases of each.
pub struct Module {
    cases: Vec<Case>,
    per_kernel: usize,
}

impl Module {
    pub fn new(cases: &[Case], per_kernel: usize) -> Module {
        Module { cases: cases.to_vec(), per_kernel }
    }

    pub fn all(&self) -> &[Case] {
        &self.cases
    }

    pub fn cases(&self) -> usize {
        self.cases.len()
    }

    pub fn case(&self, index: usize) -> &Case {
        &self.cases[index]
    }

    pub fn kernels(&self) -> usize {
        self.cases.len().div_ceil(self.per_kernel)
    }

    pub fn kernel_name(kernel: usize) -> String {
        format!("k{kernel}")
    }

    fn of_kernel(&self, kernel: usize) -> &[Case] {
        self.cases.chunks(self.per_kernel).nth(kernel).unwrap_or(&[])
    }

    pub fn result_bytes(&self, kernel: usize) -> usize {
        let results: usize = self.of_kernel(kernel).iter().map(Case::results).sum();
        results * THREADS * 8
    }

    pub fn halves(&self) -> [Module; 2] {
        let (first, second) = self.cases.split_at(self.cases.len() / 2);
        [first, second].map(|cases| Module::new(cases, self.per_kernel))
    }

    /// The cases that left other bytes.
    pub fn differing(&self, expected: &[Vec<u8>], got: &[Vec<u8>]) -> Vec<usize> {
        let mut all = Vec::new();
        for kernel in 0..self.kernels() {
            let mut at = 0;
            for (i, case) in self.of_kernel(kernel).iter().enumerate() {
                let end = at + case.results() * THREADS * 8;
                if expected[kernel].get(at..end) != got[kernel].get(at..end) {
                    all.push(kernel * self.per_kernel + i);
                }
                at = end;
            }
        }
        all
    }

    pub fn text(&self, target: &str) -> String {
        let mut out = format!(".version 9.0\n.target {target}\n.address_size 64\n");
        let edges = EDGES.map(|e| e.to_string()).join(", ");
        writeln!(out, ".const .align 8 .b64 edges[{}] = {{{edges}}};", EDGES.len()).ok();
        if self.cases.iter().any(Case::needs_variables) {
            for (variable, bytes) in memory::VARIABLES {
                writeln!(out, "{variable}[{}];", bytes * THREADS).ok();
            }
        }
        for kernel in 0..self.kernels() {
            self.kernel(&mut out, kernel);
        }
        out
    }

    fn kernel(&self, out: &mut String, kernel: usize) {
        let name = Module::kernel_name(kernel);
        writeln!(out, ".visible .entry {name}(.param .u64 in, .param .u64 out) {{").ok();
        out.push_str(".reg .b32 %me; .reg .b64 %from, %out, %edge, %off;");
        writeln!(out, ".reg .pred %random; .reg .b64 %in<{INPUTS}>;").ok();
        out.push_str("mov.u32 %me, %tid.x; ld.param.u64 %from, [in]; ld.param.u64 %out, [out];\n");
        writeln!(out, "mad.wide.u32 %from, %me, {}, %from; mad.wide.u32 %out, %me, 8, %out;", INPUTS * 8)
            .ok();
        for input in 0..INPUTS {
            writeln!(
                out,
                "ld.global.b64 %in{input}, [%from+{}]; and.b64 %off, %in{input}, 248; mov.u64 %edge, edges; \
                 add.s64 %edge, %edge, %off; ld.const.b64 %edge, [%edge]; and.b64 %off, %in{input}, 7; \
                 setp.lt.u64 %random, %off, 3; selp.b64 %in{input}, %in{input}, %edge, %random;",
                input * 8
            )
            .ok();
        }
        let mut first = 0;
        for (number, case) in self.of_kernel(kernel).iter().enumerate() {
            out.push_str(&case.text(number, first));
            first += case.results();
        }
        out.push_str("ret;\n}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_operands() {
        assert_eq!(registers("%r1"), Some(vec!["%r1"]));
        assert_eq!(registers("{%r1, %r2}"), Some(vec!["%r1", "%r2"]));
        assert_eq!(registers("%p1|%p2"), Some(vec!["%p1", "%p2"]));
        assert_eq!(registers("5"), Some(vec![]));
        assert_eq!(registers("[%rd1]"), None);
        assert_eq!(registers("gvar"), None);
    }

    #[test]
    fn every_operand_gets_every_change_of_its_width() {
        let all = cases("add.f32 %f1,%f2,%f3;");
        let of_words = CHANGES.iter().filter(|c| c.bits == 32).count();
        assert_eq!(all.len(), 3 * of_words, "each of two operands, and both");
        assert_eq!(cases("ld.global.b32 %r1,[%rd1];").len(), INVOLUTIONS.len());
        assert_eq!(cases("st.global.b32 [%rd1],%r1;").len(), INVOLUTIONS.len() + of_words);
        assert!(cases("ld.param.b32 %r1,[kp];").is_empty());
        // The predicate, and the changes that make a mask.
        assert_eq!(cases("vote.sync.all.pred %p1,%p2,%r1;").len(), 1 + MASKS.len() - 1);
        assert_eq!(replace_register("{%r1,%r12,%r1}", "%r1", "%r40"), "{%r40,%r12,%r40}");
    }
}

//! Loads, stores and atomics among the cases: a change of signs before the address, or before a value for memory.
//!
//! Each thread has an area of its own in every state space. It is filled before the instruction, and its words are results
//! behind it. The address is what a change makes of the word that the same change made of the address: those of
//! [`INVOLUTIONS`] undo themselves. The word comes from memory, so that the compiler doesn't know it.

use super::text::{INPUTS, canonical};
use std::fmt::Write;

/// Words of 64 bits in a thread's area.
pub const WORDS: usize = 4;

/// The variables that areas are in, and the one that hides words from the compiler: of so many bytes for each thread.
pub const VARIABLES: [(&str, usize); 3] = [
    (".global .align 32 .b8 in_global", 32),
    (".shared .align 32 .b8 in_shared", 32),
    (".global .align 8 .b8 hidden", 8),
];

/// Changes of an address.
pub const INVOLUTIONS: [&str; 6] = [
    "neg.s64 X, X;",
    "not.b64 X, X;",
    "xor.b64 X, X, 0x8000000000000000;",
    "neg.f64 X, X;",
    "mov.b64 {TR0, TR1}, X; neg.s32 TR1, TR1; mov.b64 X, {TR0, TR1};",
    "mov.b64 {TR0, TR1}, X; not.b32 TR0, TR0; mov.b64 X, {TR0, TR1};",
];

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Global,
    /// Global memory by a generic address.
    Generic,
    Shared,
    Local,
    /// The edges, which nobody writes, and the thread's inputs.
    Constant,
    ReadOnly,
}

impl Area {
    /// That of an instruction; nothing if it is no access, or has operands of other kinds: policies, barriers.
    pub fn of(opcode: &str) -> Option<Area> {
        let has =
            |word: &str| opcode.split('.').skip(1).any(|w| w == word || w.starts_with(&format!("{word}::")));
        let mnemonic = opcode.split('.').next().unwrap_or(opcode);
        let is_access = ["ld", "ldu", "st", "atom", "red"].contains(&mnemonic);
        let is_other =
            ["async", "mmio", "param", "b128"].into_iter().any(has) || opcode.contains("cache_hint");
        (is_access && !is_other).then(|| match () {
            () if mnemonic == "ldu" || has("nc") => Area::ReadOnly,
            () if has("const") => Area::Constant,
            () if has("shared") => Area::Shared,
            () if has("local") => Area::Local,
            () if has("global") => Area::Global,
            () => Area::Generic,
        })
    }

    fn space(self) -> &'static str {
        match self {
            Area::Global | Area::ReadOnly => ".global",
            Area::Generic => "",
            Area::Shared => ".shared",
            Area::Local => ".local",
            Area::Constant => ".const",
        }
    }

    /// The address of the thread's area in `%rd95`, and what is there before the instruction.
    pub fn fill(self, out: &mut String, number: usize) {
        out.push_str(match self {
            Area::Global => "mov.u64 %rd95, in_global; mad.wide.u32 %rd95, %me, 32, %rd95;\n",
            Area::Generic => {
                "mov.u64 %rd95, in_global; mad.wide.u32 %rd95, %me, 32, %rd95; cvta.global.u64 %rd95, %rd95;\n"
            }
            Area::Shared => "mov.u64 %rd95, in_shared; mad.wide.u32 %rd95, %me, 32, %rd95;\n",
            Area::Local => ".local .align 32 .b8 in_local[32]; mov.u64 %rd95, in_local;\n",
            Area::Constant => "mov.u64 %rd95, edges;\n",
            Area::ReadOnly => "mov.u64 %rd95, %from;\n",
        });
        if !matches!(self, Area::Constant | Area::ReadOnly) {
            for word in 0..WORDS {
                let input = (number + 3 * word + 1) % INPUTS;
                writeln!(out, "st{}.b64 [%rd95+{}], %in{input};", self.space(), 8 * word).ok();
            }
        }
    }

    /// Word `word` of the area in `%rd90`. NaNs among floats are the one.
    pub fn read(self, out: &mut String, word: usize, ty: &str) {
        let (space, at) = (self.space(), 8 * word);
        if ty == "f64" {
            writeln!(out, "ld{space}.b64 %rd90, [%rd95+{at}];").ok();
            return canonical(out, "%rd90", ty);
        }
        for (register, at) in [("%r90", at), ("%r91", at + 4)] {
            writeln!(out, "ld{space}.b32 {register}, [%rd95+{at}];").ok();
            canonical(out, register, ty);
        }
        out.push_str("mov.b64 %rd90, {%r90, %r91};\n");
    }
}

/// The register in brackets.
pub fn address(operand: &str) -> Option<&str> {
    operand.strip_prefix('[')?.strip_suffix(']').map(str::trim)
}

/// The address of the area in a register; what a change makes an address of, if there is one.
pub fn load_address(out: &mut String, register: &str, change: &str) {
    writeln!(out, "mov.b64 {register}, %rd95;").ok();
    if !change.is_empty() {
        change_and_hide(out, register, change, 64);
    }
}

/// What a change makes of a register, of which the compiler doesn't know what it was.
pub fn change_and_hide(out: &mut String, register: &str, change: &str, bits: u32) {
    writeln!(
        out,
        "{change} mov.u64 %rd96, hidden; mad.wide.u32 %rd96, %me, 8, %rd96;\n\
         st.volatile.global.b{bits} [%rd96], {register}; ld.volatile.global.b{bits} {register}, [%rd96];"
    )
    .ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_have_areas() {
        assert_eq!(Area::of("ld.volatile.shared::cta.u32"), Some(Area::Shared));
        assert_eq!(Area::of("red.add.u32"), Some(Area::Generic));
        assert_eq!(Area::of("ld.global.nc.f32"), Some(Area::ReadOnly));
        assert_eq!(Area::of("add.f32"), None);
        assert_eq!(Area::of("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32"), None);
        assert_eq!(address("[%rd9]"), Some("%rd9"));
        assert_eq!(address("%rd9"), None);
    }
}

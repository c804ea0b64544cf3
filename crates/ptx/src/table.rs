//! The instruction table: every form of every instruction, as data.
//!
//! The rows stand in `table/*.tab`, one file per family, and read like the syntax lines of the PTX manual:
//!
//! ```text
//! set int = .s16 .u16 .s32 .u32 .s64 .u64          a named set of words
//! arch tc5 = 100f 100a 103f 103a 110f 110a         a named set of targets
//! add/sub <int>                   | d, a, b        mnemonics, modifiers | operands | gates
//! add   {<rnd>}{.ftz}{.sat}.f32   | d, a, b
//! add   .s16x2/.u16x2             | d:b32, a:b32, b:b32 | F'add.$t0' >=90 ptx8.0
//! word  .bf16                     : F'.bf16' >=80 ptx7.0
//! rule  add/sub .sat !.s32/.f32   : error 'Modifier '.sat' does not apply to '.$t0' type'
//! amid  ld/st .volatile .ca       : error 'Modifier '$1' cannot be combined with modifier '$2''
//! late  add/sub .cc .sat          : error 'Modifier '.cc' cannot be combined with modifier '.sat''
//! ```
//!
//! Modifiers: `.x` is required, `{…}` optional, `.x/.y` one of, `<set>` one of a set, `.m64n*k16` any that fits.
//! Words of different kinds match in any order, as in ptxas; types, operations, spaces and layouts keep theirs. `t0`,
//! `t1`, … are the types that stand in the form's type slots, in order.
//!
//! Operands, separated by commas:
//!
//! | operand | is |
//! |---|---|
//! | `d` `r` `i` | result register, register, constant |
//! | `a` `b` `c` | register or constant; `s` or special register; `x` or an address that is a constant, too |
//! | `p` `q` | predicate that may be negated, predicate result |
//! | `[m]` | address in the opcode's space; `[m1]` in its second one, `[m:shared]`, `[m:global]`, `[m:any]` |
//! | `[…]` | address with what stands in it; `m` in there is the base |
//! | `{a*4}` | vector of four; `{a}` of any size, `{a*2+}` of two or more or a lone register, `{a*dim}` by `.3d` |
//! | `{a, r}` | vector whose elements differ; in `{a*4^0}` element 0 is the index into an array |
//! | `a*v` | vector or scalar by `.v2`, `.v4`, `.v8` |
//! | `T` `P` | texture, sampler or surface; what holds the sampler |
//! | `L` `B` `F` `S` | label, label of branch targets, function, name of a variable |
//! | `_` `(*)` `*` | sink, argument list, anything |
//!
//! and what may be said of them:
//!
//! | operand | is |
//! |---|---|
//! | `a(0..15)` | in this range if a constant; `(32..512/32)` with steps, `(/8)` a multiple, `(-1\|1)` one of |
//! | `a#name` | within the limit of that name |
//! | `a:type` | of this type (default `t0`, any for `i`): a name, `any`, `tN` |
//! | `a:wN` `a:~tN` | twice as wide as `tN`; at least as wide, of any class |
//! | `a:xN` `a:/N` | two to a register if `tN` is half as wide as one; the bits of `tN`, shared among elements |
//! | `a_` | perhaps a sink, in a vector each element |
//! | `a?` | perhaps left out; a sampler if and only if the module doesn't tell it apart from the texture |
//! | `a\|q` | a pair |
//! | `a if .x` | there if and only if the opcode has that word |
//! | `a@gate` | only there if the gate is open |
//! | `-a` | perhaps negated |
//!
//! A matrix fragment is as many registers as hold its elements, spread over a warp: `{a:b32*mk1}` is this lane's part
//! of m×k elements of type `t1`, where m and k stand in the shape word; `*mk1/2` half of that. `{a*x*2}` is twice as
//! many as `.x4` says.
//!
//! A limit has a test and a text: `limit name = 0..15 : 'text'`. Other tests of constants are `4|8|16`, `!4`, `/8`,
//! `pow2`, `nonzero`, `fraction`, `no constant`; `.b0 .hXX` and `no selector` are tests of the video selectors of registers.
//! `size` asks for a vector of the right size if it is one, `vector` for a vector where the opcode wants one. In its
//! text `$v` is the value or the right size, `$u` the same without a sign, `$n` the number of the operand, `$w` the
//! word in the row's first slot. `a(0..15)` is a limit with the text that most instructions have. After the test stand
//! the versions and targets that have the limit, as in rules: `limit name = 0..12 !ptx8.7 in:SET : 'text'`.
//!
//! ptxas checks an instruction in steps, and each step has its lines, in the order of the files:
//! 1. The modifiers one by one: unknown words, words said twice, `word` lines.
//! 2. The form: a row that takes the types and the words that choose a form ([`crate::words::Kind::chooses_form`]). It
//!    ends here if there is none.
//! 3. The operands' kinds and types. It ends here if no row takes them.
//! 4. `rule` lines, then the gates of the row.
//! 5. Modifiers that the row doesn't take, required ones that aren't there, some faults of operands and `amid` lines,
//!    in the order of the vocabulary ([`Turn`]): an `amid` line has the turn of the group of the first word that it
//!    names.
//! 6. `late` lines.
//! 7. The gates of optional operands, sizes of vectors and other faults of operands, limits.
//!
//! These lines name what must be there, `!` what must not: of `.x/.y` one, or none. `ptx6.4` is the version from which
//! they apply, `!ptx8.1` the one below which, `sm70` and `!sm70` say the same of targets, `in:SET` and `!in:SET`
//! name or leave out the targets of a set, `t1=.x/.y` asks for the second type, `args=3` for three operands. All but `word` begin with mnemonics, `a/b` or `v*` or `*`. In texts `$m`
//! is the mnemonic, `$t0`, `$t1` are the types, `$types` is all of them (`.f32.s32`), `$op` is the operation, `$shape`
//! the shape, `$1`, `$2`, … are the words that met the groups of the line, and `$1::` is what follows the `::` of such
//! a word.
//!
//! A gate is `F` (feature), `I` (instruction) or `M` (modifier) with the name that ptxas prints, and needs, in the
//! order in which ptxas asks for them: `>=90`, `in:SET`, `ptx8.0`. Several gates have `;` between them. In the place
//! of a gate `error 'text'` makes a row of something that ptxas knows well enough to say what is wrong with it. In a
//! rule, `warn 'text'` is a warning, in which `$target` is the name of the target.

mod form;
mod opcode;

pub use form::*;
pub use opcode::{Fit, Opcode, OpcodeError, Remark, mnemonic, resolve};

use crate::target::{Target, Version};
use crate::words::{Turn, Word};

/// The lines, as `build/` read them from the files.
mod lines {
    use super::form::*;
    use crate::target::{Target, Version};
    use crate::types::Type;
    use crate::words::{Kind, Word};

    include!(concat!(env!("OUT_DIR"), "/table.rs"));
}

/// What the table has about a mnemonic.
pub fn instruction(mnemonic: &str) -> Option<&'static Instruction> {
    let at = lines::INSTRUCTIONS.binary_search_by(|i| i.mnemonic.cmp(mnemonic)).ok()?;
    Some(&lines::INSTRUCTIONS[at])
}

/// All mnemonics, in order.
pub fn mnemonics() -> impl Iterator<Item = &'static str> {
    lines::INSTRUCTIONS.iter().map(|instruction| instruction.mnemonic)
}

/// The `word` lines that name a word, in order.
fn word_rules(word: Word) -> &'static [&'static Rule] {
    let at = lines::WORD_RULES.binary_search_by_key(&word, |(word, _)| *word);
    at.map_or(&[], |at| lines::WORD_RULES[at].1)
}

impl Rule {
    /// When what it says is said.
    pub fn turn(&self) -> Turn {
        match self.step {
            Step::Word | Step::Rule => Turn::FIRST,
            Step::Amid => self.when.first_word().map_or(Turn::FIRST, Turn::of_group),
            Step::Late => Turn::LAST,
        }
    }
}

impl Gate {
    /// ptxas's words for each need that isn't met.
    pub fn refusals(&self, target: Target, version: Version) -> impl Iterator<Item = String> {
        let subject = match self.subject {
            Subject::Feature => "Feature",
            Subject::Instruction => "Instruction",
            Subject::Modifier => "Modifier",
        };
        let name = self.name;
        self.needs.iter().filter_map(move |need| match need {
            Need::Version(v) if !version.reaches(*v) => {
                Some(format!("{subject} {name} requires PTX ISA .version {v} or later"))
            }
            Need::AtLeast(sm) if target.sm() < *sm => {
                Some(format!("{subject} {name} requires .target sm_{sm} or higher"))
            }
            Need::OneOf(targets) if !targets.contains(&target) => {
                Some(format!("{subject} {name} not supported on .target '{}'", target.name()))
            }
            _ => None,
        })
    }
}

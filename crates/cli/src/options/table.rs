//! Every option that ptxas 13.0.88 accepts, documented or not, and our own: one row each.
//!
//! A row gives the names (`--long`, `-short`), the kind of value, the group in the help text, what we do about it
//! ([`Effect`]), and the help. The documented rows are in the order in which ptxas writes options into a cubin's
//! note. Kinds and allowed values were read off ptxas's answers to each option without a value, with an empty one, and
//! with good and bad ones; which hidden options there are, off its answers to every name that was ever suspected.

/// What an option takes.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Nothing; the option is on.
    Flag,
    /// `true` or `false`.
    Truth,
    /// A signed number of 32 bits as C's `strtol` reads it; an empty word is zero.
    Number,
    /// The same, unsigned.
    Unsigned,
    /// A number out of these.
    NumberOf(&'static [i32]),
    /// Any word.
    Word,
    /// A word out of these.
    OneOf(fn(&str) -> bool),
    /// Words with commas between; a repeated option adds to them.
    List,
    /// Such a list of words out of these.
    ListOf(&'static [&'static str]),
    /// A whole word, commas and all; a repeated option adds to them.
    Texts,
    /// A list of files with more words of the command line.
    OptionsFiles,
    /// Such a list of `keyword=value`.
    Pairs,
    /// Only after `=`, or nothing. No option of ptxas is like this.
    Optional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Files,
    Code,
    Registers,
    Memory,
    Debug,
    Messages,
    Information,
    /// Ours; ptxas does not know it.
    Own,
    /// Not in ptxas's help.
    Hidden,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// As with ptxas.
    Done,
    /// Accepted, and this is why nothing comes of it.
    None(&'static str),
    /// Refused once the module has been checked: what it asks for would be missing in the cubin.
    Missing,
    /// Accepted with this value, nothing comes of it, and a warning says why.
    WarnedFor(&'static str, &'static str),
}

use Effect::{Done, Missing, None as Nothing, WarnedFor};

pub struct Row {
    pub id: Id,
    pub long: &'static str,
    /// Empty: there is none.
    pub short: &'static str,
    pub kind: Kind,
    pub group: Group,
    pub effect: Effect,
    /// What the value is called in the help text; empty for flags.
    pub value: &'static str,
    pub help: &'static str,
}

macro_rules! options {
    ($($id:ident $long:literal $short:literal $kind:expr, $group:ident, $effect:expr, $value:literal, $help:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Id { $($id),* }

        pub const OPTIONS: &[Row] = &[$(Row {
            id: Id::$id,
            long: $long,
            short: $short,
            kind: $kind,
            group: Group::$group,
            effect: $effect,
            value: $value,
            help: $help,
        }),*];
    };
}

const NO_CHECK: &str = "the check is not generated: a program without this fault does the same";
const SANITIZER: &str = "the code is not instrumented; compute-sanitizer makes its checks at run time";
const UNOPTIMISED: &str = "it steers optimisations of ptxas that are not made here";
const NO_CLUES: &str = "the code that it would change is not generated";
const INTERNAL: &str = "a switch of ptxas's own passes";
const WORKAROUND: &str = "a workaround in ptxas's own passes";

options! {
    StackSizeWarning "suppress-stack-size-warning" "suppress-stack-size-warning" Kind::Flag, Messages, Done, "", "don't warn about a stack of unknown size";
    Entry "entry" "e" Kind::List, Files, Done, "NAME,...", "compile these kernels only";
    Verbose "verbose" "v" Kind::Flag, Messages, Done, "", "print registers, barriers, memory and time of each kernel";
    WarnLocalMemory "warn-on-local-memory-usage" "warn-lmem-usage" Kind::Flag, Messages, Done, "", "warn where local memory is used";
    WarnSpills "warn-on-spills" "warn-spills" Kind::Flag, Messages, Done, "", "warn where registers are spilled";
    WarnDouble "warn-on-double-precision-use" "warn-double-usage" Kind::Flag, Messages, Done, "", "warn about each instruction on doubles";
    KeepBlocks "dont-merge-basicblocks" "no-bb-merge" Kind::Flag, Debug, Nothing(INTERNAL), "", "keep basic blocks apart";
    ReturnAtEnd "return-at-end" "ret-end" Kind::Flag, Debug, Done, "", "keep the last return (it always is)";
    NoOptimizerConstants "disable-optimizer-constants" "disable-optimizer-consts" Kind::Flag, Code, Done, "", "put no constants of the optimiser into constant bank 2: no jump tables";
    MaxRegisters "maxrregcount" "maxrregcount" Kind::Word, Registers, Done, "N", "at most N registers for a thread; also archmin, archmax";
    MinBlocks "minnctapersm" "minnctapersm" Kind::Number, Registers, Done, "N", "so many blocks must fit on a multiprocessor";
    MaxThreads "maxntid" "maxntid" Kind::List, Registers, Done, "X,Y,Z", "the largest block";
    OverrideDirectives "override-directive-values" "override-directive-values" Kind::Flag, Registers, Done, "", "the three above win over what the PTX says";
    FunctionRegisters "device-function-maxrregcount" "func-maxrregcount" Kind::Word, Registers, Done, "N", "the same for device functions, with -c";
    RegisterUsage "register-usage-level" "regUsageLevel" Kind::Number, Registers, Nothing(UNOPTIMISED), "0..10", "how freely optimisations may use registers";
    DeviceDebug "device-debug" "g" Kind::Flag, Debug, Done, "", "debug information, and code that is not optimised";
    NoDebugSections "suppress-debug-info" "suppress-debug-info" Kind::Flag, Debug, Done, "", "leave debug sections out (with -g, -lineinfo)";
    LineInfo "generate-line-info" "lineinfo" Kind::Flag, Debug, Done, "", "line tables";
    BoundsCheck "sp-bounds-check" "sp-bounds-check" Kind::Flag, Debug, Nothing(NO_CHECK), "", "check the bounds of the stack";
    StackProtector "device-stack-protector" "device-stack-protector" Kind::Truth, Debug, Nothing(NO_CHECK), "true|false", "guard words on the stack";
    Output "output-file" "o" Kind::Word, Files, Done, "FILE", "where the cubin goes (default: elf.o)";
    OptLevel "opt-level" "O" Kind::Number, Code, Done, "N", "0, 1, or 2 and more (default: 3)";
    FastCompile "Ofast-compile" "Ofc" Kind::Word, Code, Done, "0|min|mid|max", "compile faster, for slower code (default: 0)";
    Arch "gpu-name" "arch" Kind::OneOf(super::arch::is_known), Files, Done, "NAME", "the machine, sm_75 (default) to sm_121f; compute_NN and lto_NN check the PTX and write nothing";
    NoDoubleDemoteWarning "suppress-double-demote-warning" "suppress-double-demote-warning" Kind::Flag, Messages, Nothing("every machine has doubles"), "", "don't warn that a machine has no doubles";
    DefaultLoad "def-load-cache" "dlcm" Kind::Word, Memory, Done, "ca|cg|cs|lu|cv", "how global loads are cached that don't say";
    DefaultStore "def-store-cache" "dscm" Kind::Word, Memory, Done, "wb|cg|cs|wt", "how global stores are cached that don't say";
    ForceLoad "force-load-cache" "flcm" Kind::Word, Memory, Done, "ca|cg|cs|lu|cv", "how all global loads are cached";
    ForceStore "force-store-cache" "fscm" Kind::Word, Memory, Done, "wb|cg|cs|wt", "how all global stores are cached";
    Machine "machine" "m" Kind::NumberOf(&[64]), Files, Done, "64", "the address size";
    WarningsAreErrors "warning-as-error" "Werror" Kind::Flag, Messages, Done, "", "a warning is an error";
    NoWarnings "disable-warnings" "w" Kind::Flag, Messages, Done, "", "no warnings";
    ToolsPatch "compile-as-tools-patch" "astoolspatch" Kind::Flag, Code, Done, "", "functions for NVIDIA's tools to put into kernels";
    Relocatable "compile-only" "c" Kind::Flag, Files, Done, "", "write an object for the linker";
    FloatAtomics "optimize-float-atomics" "opt-fp-atomics" Kind::Flag, Code, Nothing(UNOPTIMISED), "", "faster atomics on floats, in another order";
    PreserveRelocs "preserve-relocs" "preserve-relocs" Kind::Flag, Code, Nothing("relocations of variables are always kept"), "", "keep relocations of variables";
    ErrorsAtExit "make-errors-visible-at-exit" "make-errors-visible-at-exit" Kind::Flag, Debug, Done, "", "wait at exit until memory faults have shown";
    LegacyBar "legacy-bar-warp-wide-behavior" "legacy-bar-warp-wide-behavior" Kind::Flag, Code, Nothing("only for targets before sm_70, and deprecated"), "", "a barrier counts whole warps";
    NoMulticastAdvice "suppress-async-bulk-multicast-advisory-warning" "suppress-async-bulk-multicast-advisory-warning" Kind::Flag, Messages, Done, "", "no advice about .multicast::cluster";
    NoSparseAdvice "suppress-sparse-mma-advisory-info" "suppress-sparse-mma-advisory-info" Kind::Flag, Messages, Done, "", "no advice about mma.sp";
    Sanitize "sanitize" "sanitize" Kind::OneOf(|word| matches!(word, "memcheck" | "threadsteer")), Debug, WarnedFor("memcheck", SANITIZER), "memcheck|threadsteer", "threadsteer: sleep for a random time before stores and atomics; memcheck is left to compute-sanitizer";
    SplitCompile "split-compile" "split-compile" Kind::Number, Code, Done, "N", "compile with N threads; 0: one for each CPU";
    Fmad "fmad" "fmad" Kind::Truth, Code, Done, "true|false", "contract a multiplication and an addition without rounding modifiers to one operation (default: true)";
    Expensive "allow-expensive-optimizations" "allow-expensive-optimizations" Kind::Truth, Code, Nothing(UNOPTIMISED), "true|false", "optimisations that take long";
    Extensible "extensible-whole-program" "ewp" Kind::Flag, Code, Done, "", "functions may be defined elsewhere (an object for the linker, as with -c)";
    Pic "position-independent-code" "pic" Kind::Truth, Code, Nothing(NO_CLUES), "true|false", "position-independent code";
    TensorCheck "g-tensor-memory-access-check" "g-tmem-access-check" Kind::Flag, Debug, Nothing(NO_CHECK), "", "check accesses to tensor memory";
    NoTensorCheck "gno-tensor-memory-access-check" "gno-tmem-access-check" Kind::Flag, Debug, Done, "", "don't";
    Annotate "compiler-annotations" "annotate" Kind::Flag, Debug, Nothing("ptxas's internal notes have no meaning here"), "", "internal notes in the cubin";

    InputStrings "input-as-string" "ias" Kind::Texts, Files, Done, "PTX", "PTX on the command line in place of a file";
    OptionsFile "options-file" "optf" Kind::OptionsFiles, Files, Done, "FILE,...", "more words of the command line";
    Help "help" "h" Kind::Flag, Information, Done, "", "this text";
    Version "version" "V" Kind::Flag, Information, Done, "", "whose version this is and whose it stands in for";
    ListVersion "list-version" "version-ls" Kind::Flag, Information, Done, "", "the PTX versions that are accepted";

    Diagnostics "diagnostics" "" Kind::OneOf(|word| matches!(word, "ptxas" | "rich" | "json")), Own, Done, "ptxas|rich|json", "rich: messages with the source line, a code and help (the default on a terminal); json: one object a line";
    Verify "verify" "" Kind::Flag, Own, Done, "", "check the IR after every pass";
    DumpIr "dump-ir" "" Kind::Optional, Own, Done, "PASS", "print the IR after PASS, or after each";
    DisablePass "disable-pass" "" Kind::List, Own, Done, "PASS,...", "leave out passes that correct code does not need";
    HelpPasses "help-passes" "" Kind::Flag, Own, Done, "", "the passes in order, and the phases of ptxas that they stand for";
    Fuel "fuel" "" Kind::Unsigned, Own, Done, "N", "rewrite no more than N things in each function";
    Tune "tune" "" Kind::Pairs, Own, Done, "NAME=VALUE,...", "change a number of a heuristic";
    HelpTune "help-tune" "" Kind::Flag, Own, Done, "", "list the numbers that --tune changes";
    CudaVersion "cuda-version" "" Kind::OneOf(|word| ptx::Toolkit::find(word).is_some()), Own, Done, "13.0|...|13.4", "stand in for ptxas of this toolkit, and accept no newer PTX; by default as 13.0, but newer PTX is accepted, too";
    TimePasses "time-passes" "" Kind::Flag, Own, Done, "", "print how long each pass took";

    RegisterAllocation "regAllocOptLevel" "regAllocOptLevel" Kind::Number, Hidden, Nothing(INTERNAL), "N", "Triton passes 2";
    JobServer "jobserver" "jobserver" Kind::Flag, Hidden, Done, "", "ask make for threads";
    OldFastCompile "fast-compile" "" Kind::Flag, Hidden, Nothing(INTERNAL), "", "";
    NoFastRegisters "no-fastreg" "no-fastreg" Kind::Flag, Hidden, Nothing(INTERNAL), "", "";
    OptPointers "opt-pointers" "" Kind::Flag, Hidden, Nothing(INTERNAL), "", "";
    NullPointer "dont-reserve-null-pointer" "dont-reserve-null-pointer" Kind::Flag, Hidden, Nothing("the driver places variables"), "", "";
    ForceRela "force-rela" "force-rela" Kind::Flag, Hidden, Nothing("relocations are of this kind from sm_90 on"), "", "";
    NoForwardProgress "noFwdPrg" "noFwdPrg" Kind::Flag, Hidden, Nothing(INTERNAL), "", "";
    OverlappingMasks "print-potentially-overlapping-membermasks" "print-potentially-overlapping-membermasks" Kind::Flag, Hidden, Nothing(INTERNAL), "", "";
    ForceExternals "force-externals" "" Kind::Flag, Hidden, Nothing("deprecated"), "", "";
    LinkInfo "link-info" "link-info" Kind::Word, Hidden, Nothing("deprecated; ptxas fills the file with '(null)'"), "FILE", "";
    LimitFold "limit-fold-fp" "limit-fold-fp" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    NoMaskOverlap "no-membermask-overlap" "no-membermask-overlap" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    MaskOverlap "membermask-overlap" "membermask-overlap" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    ExternsDontSync "assume-extern-functions-do-not-sync" "assume-extern-functions-do-not-sync" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    VerboseNote "verbose-tkinfo" "verbose-tkinfo" Kind::Truth, Hidden, Nothing("no file name goes into a cubin"), "true|false", "";
    RawTextures "set-texmode-raw" "set-texmode-raw" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    SlowVideo "disable-fast-video-emulation" "disable-fast-video-emulation" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    BlocksAreClusters "blocks-are-clusters" "blocks-are-clusters" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    ExtendedShared "enable-extended-smem" "enable-extended-smem" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    NoSharedReservation "disable-smem-reservation" "disable-smem-reservation" Kind::Truth, Hidden, Nothing(INTERNAL), "true|false", "";
    Sw2614554 "sw2614554" "sw2614554" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw2837879 "sw2837879" "sw2837879" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw1729687 "sw1729687" "sw1729687" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw200428197 "sw200428197" "sw200428197" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw200387803 "sw200387803" "sw200387803" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw200764156 "sw200764156" "sw200764156" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw4575628 "sw4575628" "sw4575628" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw4915215 "sw4915215" "sw4915215" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Sw4936628 "sw4936628" "sw4936628" Kind::Truth, Hidden, Nothing(WORKAROUND), "true|false", "";
    Abi "abi-compile" "abi" Kind::Word, Hidden, Done, "yes", "";
    Cloning "cloning" "cloning" Kind::Word, Hidden, Nothing(INTERNAL), "WORD", "";
    ToolName "tool-name" "tool-name" Kind::Word, Hidden, Done, "NAME", "the first word of every message";
    CudaApiVersion "cuda-api-version" "cuda-api-version" Kind::Word, Hidden, Done, "13.0", "";
    PtxLength "ptx-length" "ptxlen" Kind::Unsigned, Hidden, Nothing("only for encrypted PTX"), "N", "";
    Okey "okey" "" Kind::Unsigned, Hidden, Missing, "KEY", "encrypted PTX; 0: it is not";
    StackThreshold "device-stack-protector-frame-size-threshold" "device-stack-protector-size" Kind::Number, Hidden, Nothing(NO_CHECK), "N", "";
    ProfileOptions "profile-options" "" Kind::Pairs, Hidden, Done, "KEYWORD=VALUE", "";
    Stats "compiler-stats" "" Kind::ListOf(&["time", "t", "memory", "m", "phase-wise", "p", "detailed", "d"]), Hidden, Done, "time,memory", "phase-wise and detailed print nothing more";
    StatsFile "compiler-stats-file" "" Kind::Word, Hidden, Done, "FILE", "";
    TimeTrace "fdevice-time-trace" "" Kind::Word, Hidden, Done, "FILE", "";
    TracePid "use-trace-pid" "use-trace-pid" Kind::Number, Hidden, Done, "N", "";
    TracePhase "ftrace-phase-after" "" Kind::Word, Hidden, Nothing("the trace has no passes"), "PASS", "";
    DescriptionFile "ext-desc-file" "ext-desc-file" Kind::Word, Hidden, Missing, "FILE", "";
    DescriptionText "ext-desc-string" "ext-desc-string" Kind::Word, Hidden, Missing, "TEXT", "";
    QueryControls "query-controls" "query-controls" Kind::Word, Hidden, Missing, "FILE", "";
    ApplyControls "apply-controls" "apply-controls" Kind::Word, Hidden, Missing, "FILE", "";
    Fdcmpt "fdcmpt" "fdcmpt" Kind::Flag, Hidden, Done, "", "known to ptxas's parser, then refused";
}

/// Options that ptxas calls deprecated as soon as it reads them.
pub const DEPRECATED: &[Id] = &[Id::ForceExternals, Id::LinkInfo];

/// Short names to which a value may be glued; `-O` never takes the next word.
pub const GLUED: &[Id] = &[Id::OptLevel, Id::Machine];

/// Names of files and the like, which a note never has.
const NEVER_NOTED: &[Id] =
    &[Id::Output, Id::InputStrings, Id::OptionsFile, Id::Help, Id::Version, Id::ListVersion];

impl Id {
    pub fn row(self) -> &'static Row {
        &OPTIONS[self as usize]
    }

    /// Does the cubin's note have it? ptxas notes what its help text has, less the files.
    pub fn is_noted(self) -> bool {
        !matches!(self.row().group, Group::Hidden | Group::Own) && !NEVER_NOTED.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_identifiers_match() {
        for row in OPTIONS {
            assert_eq!(row.id.row().long, row.long);
        }
    }

    #[test]
    fn names_are_unique() {
        for (i, row) in OPTIONS.iter().enumerate() {
            for other in &OPTIONS[i + 1..] {
                assert_ne!(row.long, other.long);
                assert!(row.short.is_empty() || row.short != other.short, "-{}", row.short);
            }
        }
    }

    #[test]
    fn as_many_as_ptxas_has() {
        let count = |of: fn(Group) -> bool| OPTIONS.iter().filter(|row| of(row.group)).count();
        assert_eq!(count(|group| !matches!(group, Group::Hidden | Group::Own)), 54, "in ptxas's help text");
        assert_eq!(count(|group| group == Group::Hidden), 48, "found by trying");
    }

    #[test]
    fn every_documented_option_has_help() {
        for row in OPTIONS.iter().filter(|row| row.group != Group::Hidden) {
            assert!(!row.help.is_empty(), "--{}", row.long);
        }
    }
}

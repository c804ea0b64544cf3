//! Patches: functions that tools insert into other kernels (`-astoolspatch`), and checks of what they must not contain.
//!
//! Their code may use what ptxas's code uses: 24 registers of the calling convention (`launch_bounds::LEAST`), no uniform ones, and
//! no descriptors of memory ([`TargetMachine::for_patches`](crate::context::target::TargetMachine::for_patches)). All of it, and the messages,
//! was seen with ptxas 13.0.88; `docs/callers.md` says how.

use crate::context::{Failure, Lines, plain};
use crate::module::data::{Data, bodies};
use ori::{Arg, File, Function};
use ptx::ast::{Operand, Space, Stmt, SymbolKind};
use ptx::diag::{Diagnostic, Severity, Span};
use ptx::{Module, ast};

/// Instructions that patches may not have, by what ptxas calls them. It takes the others of their families
/// (`mbarrier.try_wait`, `cp.async.bulk`).
const NOT_IN_PATCHES: [(&str, &[&str]); 2] = [
    (
        "cp",
        &[
            "cp.async",
            "cp.async.commit_group",
            "cp.async.mbarrier.arrive",
            "cp.async.wait_all",
            "cp.async.wait_group",
        ],
    ),
    (
        "mbarrier",
        &[
            "mbarrier.arrive",
            "mbarrier.arrive_drop",
            "mbarrier.init",
            "mbarrier.pending_count",
            "mbarrier.test_wait",
        ],
    ),
];

/// ptxas's message for everything that patches must not contain. The blank at the end is ptxas's.
fn not_in_patches(what: &str) -> String {
    format!("{what} is not allowed when command line option '--compile-as-tools-patch' is specified ")
}

/// Why a module can't be a patch ([`crate::context::Options::tools_patch`]): in the patched kernel all memory but
/// global memory is allocated already.
pub fn not_for_patches(module: &Module) -> Vec<String> {
    let is_there = |of: &dyn Fn(&Space, &str) -> bool| {
        module.symbols.iter().any(|symbol| match &symbol.kind {
            SymbolKind::Variable { space, ty, .. } => of(space, ty.name()),
            _ => false,
        })
    };
    let memory = [
        ("shared memory", is_there(&|space, _| *space == Space::Shared)),
        ("textures", is_there(&|_, ty| ty == "texref")),
        ("surfaces", is_there(&|_, ty| ty == "surfref")),
        ("samplers", is_there(&|_, ty| ty == "samplerref")),
        ("constants", is_there(&|space, _| *space == Space::Const)),
    ];
    let memory = memory.into_iter().filter(|(_, is_there)| *is_there);
    let is_entry = |symbol: &ast::SymbolInfo| symbol.kind == SymbolKind::Function { entry: true };
    let kernels = module.symbols.iter().any(is_entry).then(|| not_in_patches("Entry function"));
    memory.map(|(what, _)| not_in_patches(&format!("Allocating additional {what}"))).chain(kernels).collect()
}

/// One error for each instruction that patches may not have; `redux` is fatal.
pub fn check_module(module: &Module, out: &mut Vec<Diagnostic>) -> Result<(), Failure> {
    out.extend(not_for_patches(module).into_iter().map(|text| plain(Severity::Error, text)));
    for body in bodies(module) {
        for stmt in &body.stmts {
            let Stmt::Inst(inst) = stmt else { continue };
            let mnemonic = module.opcodes[inst.opcode.0 as usize].mnemonic;
            if mnemonic == "redux" {
                return Err(Failure::of_module(not_in_patches("Instruction 'redux'")));
            }
            let family = NOT_IN_PATCHES.iter().find(|(_, mnemonics)| mnemonics.contains(&mnemonic));
            let message = family.map(|(name, _)| not_in_patches(&format!("Instruction '{name}'")));
            out.extend(message.map(|text| plain(Severity::Error, text)));
        }
    }
    Ok(())
}

/// No pointers to functions.
pub fn check_pointers(module: &Module, data: &Data) -> Result<(), Failure> {
    let is_function = |operand: &Operand| match operand {
        Operand::Symbol(s) => {
            let kind = module.symbols.get(s.0 as usize).map(|symbol| &symbol.kind);
            matches!(kind, Some(SymbolKind::Function { .. } | SymbolKind::Alias(_)))
        }
        _ => false,
    };
    let (mut indirect, mut taken) = (false, !data.functions.is_empty());
    for body in bodies(module) {
        for stmt in &body.stmts {
            let Stmt::Inst(inst) = stmt else { continue };
            let operands = body.list(inst.operands);
            match module.opcodes[inst.opcode.0 as usize].mnemonic {
                "call" => {
                    let callee = operands.iter().find(|o| !matches!(o, Operand::List(_)));
                    indirect |= callee.is_some_and(|callee| !is_function(callee));
                }
                _ => taken |= operands.iter().any(is_function),
            }
        }
    }
    match (indirect, taken) {
        (true, _) => Err(Failure::of_module(not_in_patches("Using indirect function calls"))),
        (_, true) => Err(Failure::of_module(not_in_patches("Taking address of device functions"))),
        _ => Ok(()),
    }
}

/// Patches must not use uniform registers: nothing shows that the kernel's are saved. ptxas only warns (C7601).
pub fn check_uniform(code: &Function, lines: &Lines) -> Result<(), Failure> {
    let is_uniform = |file: File| matches!(file, File::UR | File::UP);
    let uses = |arg: &Arg| match arg {
        Arg::Use(u) => is_uniform(code.values[u.value].file),
        Arg::Fixed { file, .. } => is_uniform(*file),
        _ => false,
    };
    for inst in code.blocks.keys().flat_map(|b| &code.blocks[b].insts) {
        let data = &code.insts[*inst];
        if data.results.iter().any(|v| is_uniform(code.values[*v].file)) || data.args.iter().any(uses) {
            let message = "An instruction that takes uniform registers is not supported with \
                           '--compile-as-tools-patch': they belong to the kernel that is patched";
            return Err(Failure {
                line: lines.line(data.at),
                span: Span::default(),
                message: message.into(),
            });
        }
    }
    Ok(())
}

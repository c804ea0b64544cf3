//! `-symbols`.

use cubin::raw::File;
use cubin::{Binding, Home, MemorySpace, Symbol, SymbolType};
use std::fmt::Write;

pub fn print(out: &mut String, file: &File) {
    out.push_str("\nsymbols:\n");
    for symbol in file.symbols.iter().skip(1).filter(|symbol| symbol.kind != SymbolType::SECTION) {
        let kind = match symbol.kind {
            SymbolType::NONE => "STT_?".to_string(),
            kind => format!("STT_{kind}"),
        };
        let binding = match symbol.binding {
            Binding::GLOBAL => "STB_GLOBAL",
            Binding::WEAK => "STB_WEAK",
            _ => "STB_LOCAL",
        };
        let home = if symbol.home == Home::Undefined { 'U' } else { ' ' };
        let _ = writeln!(out, "{kind:<16} {binding:<10} {:<12} {home} {}", place(symbol), symbol.name);
    }
}

fn place(symbol: &Symbol) -> &'static str {
    if symbol.other.is_entry() {
        return "STO_ENTRY";
    }
    if symbol.other.space() == MemorySpace::CONSTANT && symbol.other.visibility() != 0 {
        return "STO_?";
    }
    match symbol.other.space() {
        MemorySpace::GLOBAL => "STO_GLOBAL",
        MemorySpace::SHARED => "STO_SHARED",
        MemorySpace::LOCAL => "STO_LOCAL",
        MemorySpace::CONSTANT => "STO_CONSTANT",
        MemorySpace::RESERVED_SHARED => "STO_RESERVED_SHARED",
        // cuobjdump says this of other visibilities too.
        _ => "STV_DEFAULT",
    }
}

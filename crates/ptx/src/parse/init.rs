//! Initialisers of variables.
//!
//! ptxas reads the whole initialiser, then compares it with the type; what doesn't fit ends the parse.

use super::decl::Checked;
use super::*;
use crate::types::{Class, Type};

/// Braces may nest this deep; deeper input is refused rather than recursed into.
const MAX_DEPTH: u32 = 32;

/// The fields of an opaque variable and in which they may be initialised. The first two tables are those of
/// `texmode_unified`; a sampler of its own has the filter and the address modes.
const TEXTURE: &[&str] = &[
    "width",
    "height",
    "depth",
    "channel_data_type",
    "channel_order",
    "normalized_coords",
    "array_size",
    "num_mipmap_levels",
    "num_samples",
];
const SAMPLER: &[&str] = &["filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2"];
const SAMPLER_ONLY: &[&str] = &["force_unnormalized_coords"];
const SURFACE: &[&str] =
    &["width", "height", "depth", "channel_data_type", "channel_order", "array_size", "memory_layout"];

/// The words that a field may be set to.
const FIELD_VALUES: &[&str] =
    &["nearest", "linear", "wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"];

/// What ends the parse when an initialiser doesn't fit.
const MISMATCH: &str = "Initial value type mismatch";
const TOO_MANY: &str = "Greater number of elements in array initializer";

impl Parser<'_> {
    pub(super) fn initialiser(&mut self, ty: Type) -> Parse<Initialiser> {
        self.initialiser_at(ty, 0)
    }

    fn initialiser_at(&mut self, ty: Type, depth: u32) -> Parse<Initialiser> {
        if depth > MAX_DEPTH {
            return self.fatal(self.tok.span(), "Initialiser is nested too deeply");
        }
        match self.tok.kind {
            TokenKind::Punct(b'{') => self.braces(ty, depth),
            TokenKind::Ident => self.address_of(None),
            TokenKind::Int if self.lexer.peek_after_blank().first() == Some(&b'(') => {
                let mask = self.int()?;
                self.expect(b'(')?;
                let init = self.masked(mask)?;
                self.expect(b')')?;
                Ok(init)
            }
            _ => Ok(match self.constant()? {
                expr::Value::Int { value, .. } => Initialiser::Int(value),
                expr::Value::F32(bits) => Initialiser::F32(bits),
                expr::Value::F64(bits) => Initialiser::F64(bits),
            }),
        }
    }

    fn braces(&mut self, ty: Type, depth: u32) -> Parse<Initialiser> {
        self.expect(b'{')?;
        let mut list = Vec::new();
        if self.eat(b'}') {
            return Ok(Initialiser::List(list));
        }
        if self.tok.kind == TokenKind::Ident && self.lexer.peek_after_blank().first() == Some(&b'=') {
            return self.fields(ty);
        }
        loop {
            list.push(self.initialiser_at(ty, depth + 1)?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        Ok(Initialiser::List(list))
    }

    /// `width = 16, filter_mode = linear}`
    fn fields(&mut self, ty: Type) -> Parse<Initialiser> {
        let mut fields = Vec::new();
        loop {
            let (name, _) = self.expect_name()?;
            self.expect(b'=')?;
            let value = match self.tok.kind {
                TokenKind::Ident => FieldValue::Word(self.expect_name()?.0),
                _ => match self.constant()? {
                    expr::Value::Int { value, .. } => FieldValue::Int(value),
                    expr::Value::F32(bits) => FieldValue::F64(f64::from(f32::from_bits(bits)).to_bits()),
                    expr::Value::F64(bits) => FieldValue::F64(bits),
                },
            };
            fields.push((name, value));
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        if ty.class() == Class::Opaque {
            self.check_fields(ty, &fields)?;
        }
        Ok(Initialiser::Fields(fields))
    }

    fn check_fields(&mut self, ty: Type, fields: &[(Name, FieldValue)]) -> Parse<()> {
        let independent = self.module.independent_textures;
        let known: &[&[&str]] = match (ty.name(), independent) {
            ("texref", _) => &[TEXTURE, SAMPLER],
            ("samplerref", _) => &[SAMPLER, SAMPLER_ONLY],
            _ => &[SURFACE],
        };
        let span = self.tok.span();
        for (name, value) in fields {
            let text = self.names.text(*name);
            if !known.iter().any(|table| table.contains(&text)) {
                return self
                    .fatal(span, format!("Unrecognized field name '{text}' in opaque struct initializer"));
            }
            if independent && ty.name() == "texref" && SAMPLER.contains(&text) {
                let text =
                    format!("Field '{text}' is ignored in .texref variables in independent texture mode");
                self.report(Severity::Info, span, text);
            }
            if let FieldValue::Word(word) = value
                && !FIELD_VALUES.contains(&self.names.text(*word))
            {
                let word = self.names.text(*word);
                self.error(span, format!("Unrecognized initial value symbol '{word}'"));
            }
        }
        Ok(())
    }

    /// What stands in the parentheses of `0xff00(…)`, which keeps one byte of it.
    fn masked(&mut self, mask: u64) -> Parse<Initialiser> {
        self.gate("mask operator in initializer", Version::new(7, 1), 0, self.tok.span());
        if !(0..8).any(|byte| mask == 0xff << (8 * byte)) {
            self.error(self.tok.span(), format!("Invalid mask value '0x{mask:x}' used in initializer"));
        }
        if self.tok.kind == TokenKind::Ident {
            return self.address_of(Some(mask));
        }
        let span = self.tok.span();
        self.gate("Integer immediate in mask operator", Version::new(7, 2), 0, span);
        match self.constant()? {
            expr::Value::Int { value, .. } => {
                let shift = mask.trailing_zeros().min(63);
                Ok(Initialiser::Int((value & mask) >> shift))
            }
            _ => self.fatal(span, MISMATCH),
        }
    }

    /// `name`, `name + 4`, `generic(name)`, `generic(name) + 4`.
    fn address_of(&mut self, mask: Option<u64>) -> Parse<Initialiser> {
        let (mut name, span) = self.expect_name()?;
        let generic = self.names.text(name) == "generic" && self.eat(b'(');
        if generic {
            name = self.expect_name()?.0;
            self.expect(b')')?;
            self.gate("generic() operator", Version::new(3, 1), 0, span);
        }
        let symbol = self.address_symbol(name, generic)?;
        match self.symbols[symbol.0 as usize].kind {
            SymbolKind::Function { .. } => {
                self.gate("functions as initial values", Version::new(2, 1), 20, span);
            }
            _ => self.gate("addresses as initial values", Version::new(2, 1), 0, span),
        }
        let mut offset = 0;
        if self.eat(b'+') {
            let function = matches!(self.symbols[symbol.0 as usize].kind, SymbolKind::Function { .. });
            offset = self.integer_constant()? as i64;
            if function {
                return self.fatal(self.tok.span(), MISMATCH);
            }
        }
        Ok(Initialiser::Address { symbol, offset, generic, mask })
    }

    /// Only variables in memory of the whole grid and functions have an address that is known beforehand.
    fn address_symbol(&mut self, name: Name, generic: bool) -> Parse<Symbol> {
        let found = match self.names.lookup(name) {
            Meaning::Symbol(symbol) => self.symbols.get(symbol.0 as usize).map(|info| (symbol, &info.kind)),
            _ => None,
        };
        let follows = matches!(self.tok.kind, TokenKind::Punct(b',' | b';' | b'}' | b')' | b'+'));
        let message = match found {
            _ if !follows => return self.syntax_error(),
            Some((symbol, SymbolKind::Function { .. })) if !generic => return Ok(symbol),
            Some((symbol, SymbolKind::Variable { space: Space::Global | Space::Const, .. })) => {
                return Ok(symbol);
            }
            Some((_, SymbolKind::Variable { .. })) => {
                "Variable used as initial value not in .global or .const state space".to_string()
            }
            _ if generic => "Invalid initial value expression".to_string(),
            _ => format!("Invalid initial value symbol '{}'", self.names.text(name)),
        };
        self.fatal(self.tok.span(), message)
    }

    /// Is the variable one that can have an initialiser, and this one?
    pub(super) fn check_initialiser(&mut self, checked: &Checked, init: &Initialiser) -> Parse<()> {
        let name = checked.name;
        let span = self.tok.span();
        if !matches!(checked.space, Space::Global | Space::Const) {
            self.error(span, format!("No initial value is allowed for '{name}' in this state space"));
        } else if checked.linkage.external {
            self.error(span, format!("No initial value is allowed for external symbol '{name}'"));
        }
        match fits(checked.ty, checked.vector, checked.dims, init) {
            Ok(()) => Ok(()),
            Err(message) => self.fatal(span, message),
        }
    }
}

/// Does an initialiser fit a variable of this type? `Err` with ptxas's words.
fn fits(ty: Type, vector: u8, dims: &[Option<u64>], init: &Initialiser) -> Result<(), &'static str> {
    match (dims.split_first(), init) {
        (Some((None, _)), Initialiser::List(list)) if list.is_empty() => Err(MISMATCH),
        (Some((first, inner)), Initialiser::List(list)) => {
            if first.is_some_and(|n| n > 0 && list.len() as u64 > n) {
                return Err(TOO_MANY);
            }
            list.iter().try_for_each(|element| fits(ty, vector, inner, element))
        }
        (Some(_), _) => Err(MISMATCH),
        (None, _) if ty.name() == "f16" => Err("No initial value is allowed for .f16 type"),
        (None, Initialiser::List(list)) if vector > 1 => {
            if list.len() != usize::from(vector) {
                return Err("Incorrect number of elements in vector initializer");
            }
            list.iter().try_for_each(|element| fits(ty, 1, &[], element))
        }
        (None, _) if vector == 1 && scalar_fits(ty, init) => Ok(()),
        (None, _) => Err(MISMATCH),
    }
}

fn scalar_fits(ty: Type, init: &Initialiser) -> bool {
    let class = ty.class();
    match init {
        Initialiser::Int(_) => matches!(class, Class::Bits | Class::Unsigned | Class::Signed),
        Initialiser::F32(_) | Initialiser::F64(_) => matches!(class, Class::Bits | Class::Float),
        Initialiser::Address { mask, .. } => {
            matches!(ty.name(), "u32" | "u64") || mask.is_some() && ty.name() == "u8"
        }
        Initialiser::Fields(_) => class == Class::Opaque,
        Initialiser::List(list) => class == Class::Opaque && list.is_empty(),
    }
}

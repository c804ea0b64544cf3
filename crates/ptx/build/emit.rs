//! Writes the table as Rust: each value as the expression that makes it.

use crate::form::*;
use crate::table::{Lines, Table};
use crate::target::{Target, Version};
use crate::types::Type;
use crate::words::{Kind, Word};
use std::fmt::{Debug, Error, Write};

pub fn rust(table: &Table) -> Result<String, Error> {
    let mut out = String::new();
    list(&mut out, "FORMS", "Form", table.forms.iter().map(Rust::rust))?;
    list(&mut out, "RULES", "Rule", table.rules.iter().map(Rust::rust))?;
    let by_word =
        table.word_rules.iter().map(|(word, ids)| format!("({}, {})", word.rust(), refs("RULES", ids)));
    list(&mut out, "WORD_RULES", "(Word, &[&Rule])", by_word)?;
    let instructions = table.instructions.iter().map(|(mnemonic, lines)| instruction(table, mnemonic, lines));
    list(&mut out, "INSTRUCTIONS", "Instruction", instructions)?;
    Ok(out)
}

fn list(
    out: &mut String,
    name: &str,
    ty: &str,
    values: impl ExactSizeIterator<Item = String>,
) -> Result<(), Error> {
    writeln!(out, "pub static {name}: [{ty}; {}] = [", values.len())?;
    for value in values {
        writeln!(out, "{value},")?;
    }
    writeln!(out, "];")
}

fn refs(all: &str, ids: &[usize]) -> String {
    let refs: Vec<String> = ids.iter().map(|id| format!("&{all}[{id}]")).collect();
    format!("&[{}]", refs.join(", "))
}

fn instruction(table: &Table, mnemonic: &str, lines: &Lines) -> String {
    format!(
        "Instruction {{ mnemonic: {mnemonic:?}, forms: {}, rules: {}, operations: {}, takes_lists: {}, \
         vector_sizes: &{:?} }}",
        refs("FORMS", &lines.forms),
        refs("RULES", &lines.rules),
        table.operations(lines),
        table.takes_lists(lines),
        table.vector_sizes(lines),
    )
}

trait Rust {
    fn rust(&self) -> String;
}

/// Values whose `Debug` text is Rust.
macro_rules! as_printed {
    ($($ty:ty),*) => {
        $(impl Rust for $ty {
            fn rust(&self) -> String {
                format!("{self:?}")
            }
        })*
    };
}

/// Enumerations whose `Debug` text is Rust but for the name of the type.
macro_rules! variants {
    ($($ty:ident),*) => {
        $(impl Rust for $ty {
            fn rust(&self) -> String {
                variant(stringify!($ty), self)
            }
        })*
    };
}

macro_rules! fields {
    ($($ty:ident { $($field:ident),* })*) => {
        $(impl Rust for $ty {
            fn rust(&self) -> String {
                let fields = [$(format!("{}: {}", stringify!($field), self.$field.rust())),*];
                format!("{} {{ {} }}", stringify!($ty), fields.join(", "))
            }
        })*
    };
}

fn variant(ty: &str, value: &impl Debug) -> String {
    format!("{ty}::{value:?}")
}

as_printed!(bool, u8, u16, i64, usize, &'static str, Word, Version);
variants!(Kind, Place, Count, Subject, Step);
fields! {
    Form { slots, operands, gates, error }
    Slot { words, kind, optional }
    Spec { role, ty, count, optional, sink, special, negates, when, gate, limits, index }
    Limit { test, text, when }
    Gate { subject, name, needs }
    Rule { step, when, then }
    Condition { from, until, from_sm, until_sm, inside, outside, present, absent, types, operands }
}

impl<T: Rust> Rust for &'static [T] {
    fn rust(&self) -> String {
        let values: Vec<String> = self.iter().map(Rust::rust).collect();
        format!("&[{}]", values.join(", "))
    }
}

impl<T: Rust> Rust for Option<T> {
    fn rust(&self) -> String {
        self.as_ref().map_or("None".into(), |value| format!("Some({})", value.rust()))
    }
}

impl<A: Rust, B: Rust> Rust for (A, B) {
    fn rust(&self) -> String {
        format!("({}, {})", self.0.rust(), self.1.rust())
    }
}

impl Rust for &'static Gate {
    fn rust(&self) -> String {
        format!("&{}", (*self).rust())
    }
}

impl Rust for Type {
    fn rust(&self) -> String {
        format!("Type({})", self.0)
    }
}

impl Rust for Target {
    fn rust(&self) -> String {
        format!("Target({})", self.0)
    }
}

impl Rust for Test {
    fn rust(&self) -> String {
        match self {
            Test::OneOf(values) => format!("Test::OneOf({})", values.rust()),
            other => variant("Test", other),
        }
    }
}

impl Rust for Role {
    fn rust(&self) -> String {
        match self {
            Role::Memory(place) => format!("Role::Memory({})", place.rust()),
            Role::Base(place) => format!("Role::Base({})", place.rust()),
            Role::Address(specs) => format!("Role::Address({})", specs.rust()),
            Role::Tuple(specs) => format!("Role::Tuple({})", specs.rust()),
            Role::Pair(pair) => format!("Role::Pair(&{})", pair.rust()),
            other => variant("Role", other),
        }
    }
}

impl Rust for TypeRef {
    fn rust(&self) -> String {
        match self {
            TypeRef::Fixed(ty) => format!("TypeRef::Fixed({})", ty.rust()),
            other => variant("TypeRef", other),
        }
    }
}

impl Rust for Need {
    fn rust(&self) -> String {
        match self {
            Need::OneOf(targets) => format!("Need::OneOf({})", targets.rust()),
            other => variant("Need", other),
        }
    }
}

impl Rust for Consequence {
    fn rust(&self) -> String {
        match self {
            Consequence::Gates(gates) => format!("Consequence::Gates({})", gates.rust()),
            other => variant("Consequence", other),
        }
    }
}

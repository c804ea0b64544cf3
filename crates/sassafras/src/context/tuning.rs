//! Tuning: the numbers of heuristics, in one struct.
//!
//! A field here is a judgment: another value gives right code that is faster or slower, or takes longer to compile. Facts
//! of the machine are in [`targets::Target`]; bounds that a data structure imposes stay beside it. `--tune NAME=VALUE`
//! changes a field, `--help-tune` lists all.
//!
//! A new one is a line of the table below: meaning, name, default, unit, and where the value comes from.

/// Says what a field of [`Tuning`] is.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// The name of the field.
    pub name: &'static str,
    /// Its default.
    pub default: u32,
    /// Its unit.
    pub unit: &'static str,
    /// What it changes.
    pub meaning: &'static str,
    /// Where the value comes from.
    pub origin: &'static str,
}

macro_rules! tuning {
    ($(#[doc = $meaning:literal] $name:ident = $default:literal, $unit:literal, $origin:literal;)*) => {
        /// The numbers of all heuristics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Tuning {
            $(#[doc = $meaning] pub $name: u32,)*
        }

        impl Default for Tuning {
            fn default() -> Tuning {
                Tuning { $($name: $default,)* }
            }
        }

        impl Tuning {
            /// Every field, in order.
            pub const KNOBS: &'static [Knob] = &[$(Knob {
                name: stringify!($name),
                default: $default,
                unit: $unit,
                meaning: $meaning.trim_ascii(),
                origin: $origin,
            },)*];

            /// Sets a field by its name; `false` if there is none.
            pub fn set(&mut self, name: &str, value: u32) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

tuning! {
    /// How far the known-bits analysis follows a word from definition to definition.
    known_bits_depth = 8, "definitions", "judgment: bounds the time of a query, which branches at every operand";
    /// How many conjunctions are followed to see that only one thread of a warp executes a waterfall loop.
    waterfall_conjunctions = 8, "conjunctions", "judgment: bounds the time";
    /// How far down a comparison is moved to be merged with another one: its operands are live as much longer.
    predicate_merge_distance = 48, "instructions", "judgment: saved instructions against register pressure";
    /// The block size that occupancy is computed for where a kernel has no launch bounds.
    usual_block_threads = 128, "threads", "judgment: a size that kernels often have";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_can_be_set() {
        for knob in Tuning::KNOBS {
            let mut tuning = Tuning::default();
            assert!(tuning.set(knob.name, knob.default) && tuning == Tuning::default(), "{}", knob.name);
            assert!(tuning.set(knob.name, knob.default + 1) && tuning != Tuning::default(), "{}", knob.name);
            assert!(!knob.meaning.is_empty() && !knob.unit.is_empty() && !knob.origin.is_empty());
        }
        assert!(!Tuning::default().set("no_such_knob", 1));
    }
}

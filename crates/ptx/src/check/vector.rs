//! Checks vectors, and what stands where a vector should be.
//!
//! As in ptxas, a vector is read first, which says whether its size is legal at all and its elements are equally wide
//! (`parse/operand.rs`). The type that its elements make together must fit. Whether the size is the one that the
//! instruction wants is a later question, which [`Misfit::Size`] leaves to the end.

use super::{Matcher, Misfit, VECTOR_LIMITS, compatible, is_negated};
use crate::ast::*;
use crate::sreg;
use crate::table::{Count, Role, Spec, Test, TypeRef};
use crate::types::{Class, Type};
use crate::words::{Kind, Turn};
use std::borrow::Cow;

impl Matcher<'_, '_> {
    /// An operand without braces. A register of a vector type stands for a vector.
    pub(super) fn lone(&mut self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        let width = match operand {
            Operand::Reg(reg) => u32::from(self.parser.body.reg_decl(*reg).0.vector),
            Operand::Special { row, component: None } if sreg::TABLE[*row as usize].vector => 4,
            _ => 1,
        };
        let spec = &self.shared_out(spec, width as usize)?;
        let wanted = self.count(spec.count);
        self.vector_limits(spec, (width > 1).then_some(width as usize), index);
        let fits = wanted.is_none_or(|n| n == width) && (width > 1 || !spec.count.needs_braces());
        match spec.count {
            Count::Vector if matches!(operand, Operand::Sink) => return Err(self.no_sink(spec)),
            _ if !fits && spec.optional && width == 1 => return Err(Misfit::Mismatch),
            _ => self.scalar(spec, operand, index)?,
        }
        let told = width == 1 && spec.limits.iter().any(|l| l.test == Test::Vector);
        match spec.count {
            _ if fits => Ok(()),
            Count::One => Err(self.no_vector(spec)),
            // ptxas takes a scalar here, whatever that means; it is refused if nothing else is wrong.
            Count::Vector
                if spec.role != Role::Dest && (told || width == 1 && !self.found.sizes.is_empty()) =>
            {
                Ok(())
            }
            Count::Vector if width == 1 => Err(Misfit::Size(Turn::of_text("nc"))),
            Count::Vector => Err(Misfit::Size(Turn::LAST)),
            _ if width > 1 => Err(Misfit::Size(Turn::LAST)),
            _ if told => Ok(()),
            _ => Err(Misfit::late(format!("Vector expected for argument {index}"))),
        }
    }

    /// The spec for each of so many elements, where they share the bits of a type.
    fn shared_out<'s>(&self, spec: &'s Spec, elements: usize) -> Result<Cow<'s, Spec>, Misfit> {
        let TypeRef::Split(n) = spec.ty else { return Ok(Cow::Borrowed(spec)) };
        let bits = self.fit.types.get(n as usize).copied().flatten().map_or(0, Type::bits);
        let part = bits.checked_div(elements as u32).and_then(Type::bits_of).ok_or(Misfit::Mismatch)?;
        if part.bits() * elements as u32 != bits {
            return Err(Misfit::Mismatch);
        }
        Ok(Cow::Owned(Spec { ty: TypeRef::Fixed(part), ..spec.clone() }))
    }

    /// A vector where a scalar should be. Where vectors can be moved it is their size that is wrong.
    fn no_vector(&self, spec: &Spec) -> Misfit {
        let moves = self.fit.form.operands.iter().any(|s| s.role == Role::Movable);
        let bits = self.wanted(spec).is_some_and(|(ty, _)| ty.class() == Class::Bits);
        match (moves, bits) {
            (true, true) => Misfit::Mismatch,
            (true, false) => Misfit::Size(Turn::LAST),
            _ => {
                let mnemonic = self.mnemonic;
                Misfit::late(format!("Vector operand is not allowed for instruction '{mnemonic}'"))
            }
        }
    }

    /// Notes what the limits on vectors say about an operand that is a vector of this size, or none.
    fn vector_limits(&mut self, spec: &Spec, size: Option<usize>, index: usize) {
        let Some(wanted) = self.count(spec.count) else { return };
        for limit in spec.limits {
            let broken = match limit.test {
                Test::Size => size.is_some_and(|n| n != wanted as usize) && wanted > 1,
                Test::Vector => size.is_none() && (wanted > 1 || spec.count.needs_braces()),
                _ => false,
            };
            if broken {
                let wanted = Operand::Int { value: u64::from(wanted), unsigned: false };
                self.found.late.push((Turn::of_text(VECTOR_LIMITS), self.limit_text(limit, &wanted, index)));
            }
        }
    }

    /// How many elements must stand in braces; `None` for any number.
    fn count(&self, count: Count) -> Option<u32> {
        match count {
            Count::One => Some(1),
            Count::Exactly(n) => Some(u32::from(n)),
            Count::Vector => Some(self.vector),
            Count::Shape { key, times, over } => {
                Some(self.shape(key)? * u32::from(times) / u32::from(over.max(1)))
            }
            Count::Fragment { element, .. } => {
                let element = self.fit.types.get(element as usize).copied().flatten()?;
                count.fragment(|key| self.shape(key), element)
            }
            Count::Dimension { less } => {
                let word = self.fit.chosen.iter().flatten().find(|w| w.kind() == Kind::Dimension)?;
                let dims: u32 = word.text().trim_matches(['.', 'd']).parse().ok()?;
                Some(dims.saturating_sub(u32::from(less)))
            }
            Count::Free | Count::AtLeast(_) => None,
        }
    }

    /// The number that a shape word gives to a dimension; `x` is the number of repetitions.
    fn shape(&self, key: char) -> Option<u32> {
        let kind = Count::shape_kind(key);
        self.fit.chosen.iter().flatten().filter(|w| w.kind() == kind).find_map(|w| w.number(key))
    }

    pub(super) fn vector(&mut self, spec: &Spec, elements: &[Operand], index: usize) -> Result<(), Misfit> {
        match &spec.role {
            Role::Tuple(specs) if specs.len() == elements.len() => {
                return specs.iter().zip(elements).try_for_each(|(s, e)| self.scalar(s, e, index));
            }
            Role::Tuple(_) => return Err(Misfit::Mismatch),
            Role::Anything => return Ok(()),
            _ => {}
        }
        let spec = &self.shared_out(spec, elements.len())?;
        let right = self.count(spec.count).is_none_or(|n| n as usize == elements.len());
        self.vector_limits(spec, Some(elements.len()), index);
        match spec.index.and_then(|i| Some((i as usize, elements.get(i as usize)?))) {
            Some((at, layer)) => {
                self.layer(layer)?;
                self.elements(spec, &elements[..at], index)?;
                self.elements(spec, &elements[at + 1..], index)?;
            }
            None => self.elements(spec, elements, index)?,
        }
        let mnemonic = self.mnemonic;
        let text = match spec.count {
            // Only operands of the instruction's own type get far enough to be told.
            Count::One if matches!(spec.ty, TypeRef::Fixed(_)) => return Err(Misfit::Mismatch),
            Count::One => return Err(self.no_vector(spec)),
            Count::AtLeast(least) if elements.len() < least as usize => {
                format!("Operand vector size doesn't match geometry for instruction '{mnemonic}'")
            }
            _ if right => return Ok(()),
            Count::Dimension { .. } => {
                format!("Argument {index} of instruction '{mnemonic}': Argument vector size mismatch")
            }
            _ => return Err(Misfit::Size(Turn::LAST)),
        };
        Err(Misfit::late(text))
    }

    /// The elements of a vector: it is registers of one type, or they are looked at one by one.
    fn elements(&mut self, spec: &Spec, elements: &[Operand], index: usize) -> Result<(), Misfit> {
        if elements.iter().any(is_negated) {
            return Err(Misfit::Mismatch);
        }
        let fragment = matches!(spec.count, Count::Fragment { .. } | Count::Shape { .. });
        // Only there do integers differ from untyped bits.
        let whole = self.whole_type(elements)?.map(|ty| match Type::bits_of(ty.bits()) {
            Some(bits) if ty.is_int() && !fragment => bits,
            _ => ty,
        });
        match whole {
            None if fragment => self.constant_fragment(spec, elements),
            Some(ty) if matches!(spec.role, Role::Dest | Role::Source | Role::Register) => {
                elements.iter().try_for_each(|e| self.element(spec, e))?;
                self.register(spec, ty)
            }
            _ => elements.iter().try_for_each(|e| self.scalar(spec, e, index)),
        }
    }

    /// A fragment of constants alone: they are of its class, which is not that of untyped bits, and no wider.
    fn constant_fragment(&self, spec: &Spec, elements: &[Operand]) -> Result<(), Misfit> {
        let (need, _) = self.wanted(spec).ok_or(Misfit::Mismatch)?;
        let is_float = |bits| need.class() == Class::Float && need.bits() >= bits;
        let fits = |element: &Operand| match element {
            Operand::Int { .. } => need.is_int() && need.class() != Class::Bits,
            Operand::F32(_) => is_float(32),
            Operand::F64(_) => is_float(64),
            _ => false,
        };
        if elements.iter().all(fits) { Ok(()) } else { Err(Misfit::Mismatch) }
    }

    /// May it stand in a vector of registers? Their types are [`Matcher::whole_type`]'s business.
    fn element(&self, spec: &Spec, operand: &Operand) -> Result<(), Misfit> {
        let mnemonic = self.mnemonic;
        match (&spec.role, operand) {
            (_, Operand::Reg(_) | Operand::Part { .. }) => Ok(()),
            (_, Operand::Sink) if spec.sink => Ok(()),
            (_, Operand::Sink) => Err(self.no_sink(spec)),
            (Role::Dest, _) => {
                Err(Misfit::Text(format!("Result register required for instruction '{mnemonic}'")))
            }
            (_, Operand::Special { .. }) => Ok(()),
            (Role::Source, Operand::Int { .. } | Operand::F32(_) | Operand::F64(_)) => Ok(()),
            _ => Err(Misfit::Mismatch),
        }
    }

    /// The type that a vector has as a whole; none if there is no register in it.
    ///
    /// Registers of different types make a vector of untyped bits if one of them is untyped or both are
    /// integers. Constants go with registers of their class. Predicates among others don't count.
    fn whole_type(&self, elements: &[Operand]) -> Result<Option<Type>, Misfit> {
        if !elements.is_empty() && elements.iter().all(|e| matches!(e, Operand::Sink)) {
            return Err(Misfit::Mismatch);
        }
        let mixed = || {
            let mnemonic = self.mnemonic;
            let text =
                format!("Vector with elements of different types are not allowed in {mnemonic} instruction");
            Err(Misfit::Text(text))
        };
        let mut whole: Option<Type> = None;
        for ty in elements.iter().filter_map(|e| self.parser.element_type(e)) {
            whole = match whole {
                None => Some(ty),
                // That was told when the vector was read.
                Some(t) if t.bits() != ty.bits() => Some(t),
                Some(t) if t == ty || t.class() == Class::Bits => Some(t),
                Some(_) if ty.class() == Class::Bits => Some(ty),
                Some(t) if t.is_int() && ty.is_int() => Type::bits_of(ty.bits()),
                Some(_) => return mixed(),
            };
        }
        let untyped = whole.is_some_and(|ty| ty.class() == Class::Bits);
        let ints =
            elements.iter().any(|e| matches!(e, Operand::Int { .. })) || whole.is_some_and(Type::is_int);
        let floats = elements.iter().any(|e| matches!(e, Operand::F32(_) | Operand::F64(_)))
            || whole.is_some_and(|ty| ty.class() == Class::Float);
        if ints && floats && !untyped { mixed() } else { Ok(whole) }
    }

    /// The index into an array of textures or surfaces.
    fn layer(&self, operand: &Operand) -> Result<(), Misfit> {
        let fits = match operand {
            Operand::Reg(reg) => compatible(Type::U32, self.parser.body.reg_decl(*reg).0.ty),
            other => matches!(other, Operand::Int { .. }),
        };
        let mnemonic = self.mnemonic;
        let text = "instruction has unexpected type. Expecting type .u32";
        if fits { Ok(()) } else { Err(Misfit::Text(format!("Array index in the '{mnemonic}' {text}"))) }
    }
}

#[cfg(test)]
mod tests {
    /// What is said about an instruction in a kernel for sm_90a.
    fn said(instruction: &str) -> Vec<String> {
        let source = format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() {{\n.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .s32 %s<9>; \
             .reg .b64 %rd<3>; .reg .pred %p<2>;\n{instruction}\nret; }}\n"
        );
        let parsed = crate::parse(&source, &crate::Options::default());
        parsed.diagnostics.iter().map(|d| d.message.clone()).collect()
    }

    #[test]
    fn a_fragment_has_the_size_of_its_shape_and_type() {
        let mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}";
        let c = "{%f5,%f6,%f7,%f8}";
        assert!(said(&format!("{mma},{{%r1,%r2,%r3,%r4}},{{%r5,%r6}},{c};")).is_empty());
        let wrong = said(&format!("{mma},{{%r1,%r2}},{{%r5,%r6}},{c};"));
        assert_eq!(wrong, ["Argument vector size mismatch for instruction 'mma'"]);
        let wgmma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4},%rd1,%rd2,%p1,1,1,0";
        assert!(said(&format!("{wgmma},1;")).is_empty());
        assert!(!said(&format!("{wgmma},2;")).is_empty());
    }

    #[test]
    fn a_fragment_of_constants_is_of_its_class() {
        let accepted = |instruction: &str| said(instruction).is_empty();
        let floats = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6}";
        assert!(accepted(&format!("{floats},{{0f00000000,0f00000000,0f00000000,0f00000000}};")));
        assert!(!accepted(&format!("{floats},{{0.0,0.0,0.0,0.0}};")));
        assert!(!accepted(&format!("{floats},{{0,0,0,0}};")));
        let ints = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}";
        assert!(accepted(&format!("{ints},{{%r3}},{{%r4}},{{0,1}};")));
        assert!(!accepted(&format!("{ints},{{5}},{{%r4}},{{%r1,%r2}};")));
    }

    #[test]
    fn a_vector_has_one_type() {
        let ldmatrix = |d: &str| said(&format!("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{{d}}},[%rd1];"));
        assert!(ldmatrix("%r1,%f2").is_empty());
        assert!(ldmatrix("%r1,_").is_empty());
        let mixed = "Vector with elements of different types are not allowed in ldmatrix instruction";
        assert_eq!(ldmatrix("%s1,%f2"), [mixed]);
        assert_eq!(ldmatrix("%r1,%rd2"), ["Incompatible elements of vector expression"]);
    }

    #[test]
    fn a_vector_is_read_before_it_is_checked() {
        let size = "Argument vector size mismatch for instruction 'ld'";
        assert_eq!(
            said("ld.foo.v2.u32 {%r1,%rd1,%r2},[%rd1];"),
            [
                "Unknown modifier '.foo'",
                "Incompatible elements of vector expression",
                "Illegal vector size: 3",
                size,
                size
            ]
        );
        assert_eq!(said("ld.v2.u32 %r1,[%rd1];"), ["Result vector expected", size, size]);
        assert_eq!(
            said("add.pred {%r3,%r2,%r1},%r1,%r2;"),
            ["Illegal vector size: 3", "Unexpected instruction types specified for 'add'"]
        );
        assert!(said("st.v2.f32 [%rd1],{%s1,%s2};").is_empty());
    }
}

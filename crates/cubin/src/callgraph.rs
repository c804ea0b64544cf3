//! `.nv.callgraph` and `.nv.prototype`: what the linker needs to size stacks and to resolve indirect calls.

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use crate::bytes::{Flaw, Put, words};

/// An offset into the symbol string table. A prototype's text is there, and its offset is its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StringOffset(pub u32);

/// The call graph as four lists, each under its own marker. Functions are symbol indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallGraph {
    /// (caller, callee) of direct calls.
    pub calls: Vec<(u32, u32)>,
    /// Functions whose address is taken, with their prototypes.
    pub address_taken: Vec<(u32, StringOffset)>,
    /// Functions that call through a pointer, with the prototypes that they call.
    pub indirect_calls: Vec<(u32, StringOffset)>,
    /// (function, function whose address it takes).
    pub takes_address: Vec<(u32, u32)>,
}

/// The second word of the pair `(0, marker)` that starts each list.
const MARKERS: [u32; 4] = [-1i32 as u32, -2i32 as u32, -3i32 as u32, -4i32 as u32];

impl CallGraph {
    /// The graph, if the section has the usual form: the four markers once each, in order.
    pub fn decode(data: &[u8]) -> Option<CallGraph> {
        let mut lists: [Vec<(u32, u32)>; 4] = Default::default();
        let mut seen = 0;
        for pair in pairs(data)? {
            if seen < MARKERS.len() && pair == (0, MARKERS[seen]) {
                seen += 1;
            } else if pair.0 == 0 && MARKERS.contains(&pair.1) {
                return None;
            } else {
                lists.get_mut(seen.checked_sub(1)?)?.push(pair);
            }
        }
        let prototypes =
            |list: Vec<(u32, u32)>| list.into_iter().map(|(f, p)| (f, StringOffset(p))).collect();
        let [calls, address_taken, indirect_calls, takes_address] = lists;
        (seen == MARKERS.len()).then(|| CallGraph {
            calls,
            address_taken: prototypes(address_taken),
            indirect_calls: prototypes(indirect_calls),
            takes_address,
        })
    }

    /// The bytes of the section.
    pub fn encode(&self) -> Vec<u8> {
        let prototypes = |list: &[(u32, StringOffset)]| list.iter().map(|&(f, p)| (f, p.0)).collect();
        let lists = [
            self.calls.clone(),
            prototypes(&self.address_taken),
            prototypes(&self.indirect_calls),
            self.takes_address.clone(),
        ];
        let mut out = Vec::new();
        for (marker, list) in MARKERS.into_iter().zip(lists) {
            for (first, second) in std::iter::once((0, marker)).chain(list) {
                out.put_u32(first);
                out.put_u32(second);
            }
        }
        out
    }
}

/// The prototype of one function: a string such as `#ii` (result and parameters, `i` = 32 bits, `l` = 64).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prototype {
    pub symbol: u32,
    pub text: StringOffset,
}

/// Reads `.nv.prototype`.
pub fn decode_prototypes(data: &[u8]) -> Result<Vec<Prototype>, Flaw> {
    let pairs = pairs(data).ok_or_else(|| Flaw::new(data.len() / 8 * 8, "a prototype has 8 bytes"))?;
    Ok(pairs.into_iter().map(|(symbol, text)| Prototype { symbol, text: StringOffset(text) }).collect())
}

/// The bytes of `.nv.prototype`.
pub fn encode_prototypes(prototypes: &[Prototype]) -> Vec<u8> {
    let mut out = Vec::new();
    for prototype in prototypes {
        out.put_u32(prototype.symbol);
        out.put_u32(prototype.text.0);
    }
    out
}

fn pairs(data: &[u8]) -> Option<Vec<(u32, u32)>> {
    let words = words(data)?;
    let (pairs, rest) = words.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|&[first, second]| (first, second)).collect())
}

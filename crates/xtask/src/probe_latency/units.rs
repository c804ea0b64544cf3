//! Programs for the units that random arithmetic does not reach: matrices, copies, barriers in memory, tensor memory,
//! clusters (`units.txt`). Each mixes a few of their forms with arithmetic, so that results of either meet sources of
//! the other.

use super::chains::{self, Chain, Random, choose};

const FORMS: &str = include_str!("units.txt");
/// Programs for each target.
const PROGRAMS: u64 = 200;
/// Forms in one program: some are long.
const LENGTH: u32 = 60;

pub const CHAIN: Chain = Chain {
    predicates: chains::REACH,
    tight: false,
    variables: ".global .texref tx;\n",
    registers: ".reg .b32 w<16>;\n.reg .b64 v<4>;\n.shared .align 8 .b8 bars[64];\n",
    begin: "mov.b32 t1,sm; mov.u32 t0,%tid.x; mad.wide.u32 u0,t0,64,base;\n\
            ld.global.v4.b32 {w0,w1,w2,w3},[u0+16]; ld.global.v4.b32 {w4,w5,w6,w7},[u0+32];\n\
            ld.global.v2.f64 {v0,v1},[u0+16]; ld.global.v2.f64 {v2,v3},[u0+32];\n\
            mov.b32 w8,w0; mov.b32 w9,w1;\n",
    end: "st.global.v4.b32 [base+16],{w0,w1,w2,w3}; st.global.v4.b32 [base+32],{w4,w5,w6,w7};\n\
          st.global.v2.f64 [base+48],{v0,v1}; st.global.v2.b32 [base+64],{w8,w9};\n",
};

/// The forms that a target has.
pub fn forms(sm: u32) -> Vec<&'static str> {
    let lines = FORMS.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let has = |targets: &str| match targets.split_once('-') {
        Some((from, to)) => {
            from.parse().is_ok_and(|from| sm >= from) && to.parse().map_or(true, |to| sm <= to)
        }
        None => targets.parse() == Ok(sm),
    };
    let parts = lines.filter_map(|line| line.split_once(' '));
    parts.filter(|(targets, _)| has(targets)).map(|(_, form)| form.trim_start()).collect()
}

/// Names and texts.
pub fn programs(target: &str, sm: u32) -> Vec<(String, String)> {
    let (unit, plain) = (forms(sm), chains::forms(sm));
    let program = |seed: u64| {
        let mut random = Random::new(seed);
        // In turn, so that each form is in some program; others by chance.
        let mut chosen = vec![unit[seed as usize % unit.len()]];
        chosen.extend(choose(&unit, 3, &mut random));
        chosen.extend(choose(&plain, 5, &mut random));
        let text = CHAIN.program(target, &chosen, LENGTH, seed % 3 == 2, &mut random);
        (format!("unit-{seed}"), text)
    };
    (0..PROGRAMS.max(unit.len() as u64)).map(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_their_forms() {
        let has = |sm, word: &str| forms(sm).iter().any(|form| form.contains(word));
        assert!(has(90, "wgmma") && !has(100, "wgmma") && !has(89, "wgmma"));
        assert!(has(110, "tcgen05") && !has(120, "tcgen05") && !has(90, "tcgen05"));
        assert!(has(75, "movmatrix") && !has(75, "cp.async"));
        assert!(programs("sm_90a", 90).iter().any(|(_, text)| text.contains("cp.async.bulk.tensor")));
    }
}

//! Random PTX whose every instruction needs the results of the last few: ptxas can then put nothing between them, and
//! the distance that it keeps is the latency.

/// A form: the lowest target that has it, and its text. `D` is a new 32-bit value, `A B C` are old ones; `L` a new
/// 64-bit value, `X Y Z` old ones; `P` a new predicate, `Q S` old ones; `T` a 32-bit and `U` a 64-bit temporary.
const FORMS: [(u32, &str); 99] = [
    (75, "add.s32 D,A,B;"),
    (75, "sub.s32 D,A,B;"),
    (75, "mul.lo.s32 D,A,B;"),
    (75, "mad.lo.s32 D,A,B,C;"),
    (75, "mul.hi.u32 D,A,B;"),
    (75, "mad.hi.s32 D,A,B,C;"),
    (75, "and.b32 D,A,B;"),
    (75, "lop3.b32 D,A,B,C,0x96;"),
    (75, "shl.b32 D,A,3;"),
    (75, "shr.s32 D,A,B;"),
    (75, "shf.l.wrap.b32 D,A,B,C;"),
    (75, "shf.r.clamp.b32 D,A,B,7;"),
    (75, "prmt.b32 D,A,B,0x2541;"),
    (75, "bfi.b32 D,A,B,5,9;"),
    (75, "bfe.s32 D,A,3,11;"),
    (75, "min.s32 D,A,B;"),
    (75, "max.u32 D,A,B;"),
    (75, "abs.s32 D,A;"),
    (75, "popc.b32 D,A;"),
    (75, "clz.b32 D,A;"),
    (75, "brev.b32 D,A;"),
    (75, "bfind.u32 D,A;"),
    (75, "selp.b32 D,A,B,Q;"),
    (75, "dp4a.s32.s32 D,A,B,C;"),
    (75, "dp2a.lo.s32.s32 D,A,B,C;"),
    (75, "sad.u32 D,A,B,C;"),
    (75, "set.lt.u32.s32 D,A,B;"),
    (75, "set.lt.f32.f32 D,A,B;"),
    (75, "add.f32 D,A,B;"),
    (75, "fma.rn.f32 D,A,B,C;"),
    (75, "mul.f32 D,A,B;"),
    (75, "min.f32 D,A,B;"),
    (75, "max.ftz.f32 D,A,B;"),
    (75, "ex2.approx.ftz.f32 D,A;"),
    (75, "rcp.approx.ftz.f32 D,A;"),
    (75, "sqrt.approx.ftz.f32 D,A;"),
    (75, "sin.approx.f32 D,A;"),
    (75, "cvt.rni.s32.f32 D,A;"),
    (75, "cvt.rn.f32.s32 D,A;"),
    (75, "cvt.rn.f32.u32 D,A;"),
    (75, "cvt.rmi.f32.f32 D,A;"),
    (75, "add.f16x2 D,A,B;"),
    (75, "mul.f16x2 D,A,B;"),
    (75, "fma.rn.f16x2 D,A,B,C;"),
    (75, "{ .reg .b16 lo,hi; mov.b32 {lo,hi},A; cvt.f32.f16 D,hi; }"),
    (80, "min.f16x2 D,A,B;"),
    (75, "set.gt.f16x2.f16x2 D,A,B;"),
    (80, "fma.rn.bf16x2 D,A,B,C;"),
    (80, "cvt.rn.f16x2.f32 D,A,B;"),
    (80, "cvt.rn.bf16x2.f32 D,A,B;"),
    (75, "shfl.sync.bfly.b32 D,A,5,31,-1;"),
    (75, "shfl.sync.idx.b32 D,A,B,31,-1;"),
    (75, "vote.sync.ballot.b32 D,Q,-1;"),
    (75, "match.any.sync.b32 D,A,-1;"),
    (80, "redux.sync.add.s32 D,A,-1;"),
    (75, "mov.u32 T,%clock; add.s32 D,T,A;"),
    (75, "mov.u64 U,%clock64; add.s64 L,U,X;"),
    (75, "mov.u64 U,%clock64; setp.lt.u64 P,U,X;"),
    (75, "and.b32 T,A,0x3fc; ld.shared.b32 D,[T];"),
    (75, "and.b32 T,A,0x3fc; ld.const.b32 D,[T];"),
    (75, "st.shared.b32 [T],A; ld.shared.b32 D,[T];"),
    (75, "and.b32 T,A,0x3fc; atom.shared.add.u32 D,[T],B;"),
    (75, "and.b32 T,A,0x3fc; cvt.u64.u32 U,T; add.s64 U,U,G; ld.global.b32 D,[U];"),
    (75, "and.b32 T,A,0x3fc; mad.wide.u32 U,T,4,G; st.global.b32 [U],B; add.s32 D,A,B;"),
    (75, "and.b32 T,A,0xfc; mad.wide.u32 U,T,4,G; atom.global.add.u32 D,[U],B;"),
    (75, "add.cc.u32 T,A,B; addc.u32 D,C,T;"),
    (75, "mad.lo.cc.u32 T,A,B,C; madc.hi.u32 D,A,T,C;"),
    (75, "mov.b32 D,A; @Q add.s32 D,A,B;"),
    (75, "mov.b32 D,A; @Q fma.rn.f32 D,A,B,C;"),
    (75, "mov.b32 D,A; @!Q mul.lo.s32 D,A,B;"),
    (75, "mov.b32 D,A; and.b32 T,B,0x3fc; @Q ld.shared.b32 D,[T];"),
    (75, "mov.b32 D,A; @Q ex2.approx.ftz.f32 D,A;"),
    (75, "and.b32 T,A,0x3fc; @Q st.shared.b32 [T],B; mov.b32 D,A;"),
    (75, "cvt.u32.u64 D,X;"),
    (75, "mov.b64 {T,D},X;"),
    (75, "cvt.rn.f32.f64 D,X;"),
    (75, "cvt.rzi.s32.f64 D,X;"),
    (75, "mul.wide.u32 L,A,B;"),
    (75, "mad.wide.s32 L,A,B,X;"),
    (75, "mad.wide.u32 L,A,B,X;"),
    (75, "add.s64 L,X,Y;"),
    (75, "sub.s64 L,X,Y;"),
    (75, "mul.lo.s64 L,X,Y;"),
    (75, "shl.b64 L,X,7;"),
    (75, "shr.u64 L,X,A;"),
    (75, "xor.b64 L,X,Y;"),
    (75, "fma.rn.f64 L,X,Y,Z;"),
    (75, "add.f64 L,X,Y;"),
    (75, "mul.f64 L,X,Y;"),
    (75, "cvt.f64.f32 L,A;"),
    (75, "cvt.rn.f64.s32 L,A;"),
    (75, "mov.b64 L,{A,B};"),
    (75, "selp.b64 L,X,Y,Q;"),
    (75, "setp.lt.s32 P,A,B;"),
    (75, "setp.ne.and.u32 P,A,B,Q;"),
    (75, "setp.gt.f32 P,A,B;"),
    (75, "setp.lt.f64 P,X,Y;"),
    (75, "xor.pred P,Q,S;"),
    (75, "setp.gt.f16x2 P|p199,A,B;"),
];

/// Forms for programs with more predicates than registers for them: bits of a word become predicates (R2P), and
/// predicates words.
const CROWDED: [&str; 6] = [
    "{ .reg .b32 v<2>; .reg .pred q; and.b32 v0,A,1; and.b32 v1,A,2; setp.ne.b32 P,v0,0; setp.ne.b32 q,v1,0; \
     selp.b32 D,B,C,q; }",
    "{ .reg .b32 v<2>; .reg .pred q<2>; and.b32 v0,A,1; and.b32 v1,A,2; setp.eq.b32 q0,v0,0; setp.eq.b32 q1,v1,0; \
     selp.f32 D,B,C,q0; @q1 neg.f32 D,D; }",
    "and.pred P,Q,S;",
    "or.pred P,Q,S;",
    "selp.b32 D,A,B,Q;",
    "mov.b32 D,A; @Q fma.rn.f32 D,A,B,C;",
];

/// How many of the last values a chain takes its operands from.
pub const REACH: u64 = 3;
/// Of predicates, where there shall be too many: the machine has seven.
const CROWD: u64 = 14;

/// A small generator of random numbers, so that a seed names a program.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(2) + 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

/// A program of `length` forms for a target; `uniform` ones start from kernel parameters, others from memory.
pub fn program(target: &str, sm: u32, seed: u64, length: u32, uniform: bool) -> String {
    let mut random = Random::new(seed);
    // A few forms make up each program, so that every pair of them meets often.
    let chosen = choose(&forms(sm), 10, &mut random);
    Chain::default().program(target, &chosen, length, uniform, &mut random)
}

/// A program in which predicates do not fit into their registers: ptxas keeps some of them in words.
pub fn crowded(target: &str, sm: u32, seed: u64, length: u32, uniform: bool) -> String {
    let mut random = Random::new(seed);
    let plain = forms(sm);
    let setting: Vec<_> = plain.iter().copied().filter(|form| form.contains('P')).collect();
    let mut chosen = choose(&CROWDED, 3, &mut random);
    chosen.extend(choose(&setting, 5, &mut random));
    chosen.extend(choose(&plain, 4, &mut random));
    Chain { predicates: CROWD, ..Chain::default() }.program(target, &chosen, length, uniform, &mut random)
}

/// The forms that a target has.
pub fn forms(sm: u32) -> Vec<&'static str> {
    FORMS.iter().filter(|form| form.0 <= sm).map(|form| form.1).collect()
}

pub fn choose(forms: &[&'static str], count: usize, random: &mut Random) -> Vec<&'static str> {
    (0..count).map(|_| forms[random.below(forms.len() as u64) as usize]).collect()
}

/// What a program has beside the chain.
pub struct Chain {
    /// How many of the last predicates are taken as operands.
    pub predicates: u64,
    /// Of each kind one operand is the last value, and the others are not: nothing else holds the instruction back.
    pub tight: bool,
    /// In the module, and in the kernel.
    pub variables: &'static str,
    pub registers: &'static str,
    /// Instructions before and behind the chain; `u0` is the thread's address, `base` the kernel's.
    pub begin: &'static str,
    pub end: &'static str,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { predicates: REACH, tight: false, variables: "", registers: "", begin: "", end: "" }
    }
}

impl Chain {
    /// A program of `length` forms, each one of the chosen ones.
    pub fn program(
        &self,
        target: &str,
        chosen: &[&str],
        length: u32,
        uniform: bool,
        random: &mut Random,
    ) -> String {
        self.around(target, uniform, |values| {
            let form = |_| {
                let form = chosen[random.below(chosen.len() as u64) as usize];
                values.line(form, self, random)
            };
            (0..length).map(form).collect()
        })
    }

    /// A program around lines that take its values.
    pub fn around(
        &self,
        target: &str,
        uniform: bool,
        lines: impl FnOnce(&mut Values) -> Vec<String>,
    ) -> String {
        let mut values = Values { words: 4, longs: 3, predicates: 2 };
        let body: String = lines(&mut values).iter().map(|line| format!("  {line}\n")).collect();
        let inputs = if uniform {
            "ld.param.b32 r0,[n]; ld.param.b32 r1,[n+4]; ld.param.b32 r2,[n+8]; ld.param.b32 r3,[n+12];"
        } else {
            "mov.u32 t0,%tid.x; mad.wide.u32 u0,t0,64,base; ld.global.v4.b32 {r0,r1,r2,r3},[u0];"
        };
        let Values { words, longs, predicates } = values;
        let (last_word, last_long, last_predicate) = (words - 1, longs - 1, predicates - 1);
        let Chain { variables, registers, begin, end, .. } = self;
        format!(
            ".version 9.0\n.target {target}\n.address_size 64\n.const .b32 constants[256];\n{variables}\
             .entry chain(.param .b64 pointer,.param .align 16 .b8 n[16]) {{\n\
             .reg .b32 r<{words}>,t<2>;\n.reg .b64 l<{longs}>,u<2>,base;\n.reg .pred p<{}>;\n\
             .shared .b32 sm[256];\n{registers}\
             ld.param.b64 base,[pointer]; cvta.to.global.u64 base,base;\nmov.b32 t0,0;\n{inputs}\n{begin}\
             mov.b64 l0,{{r0,r1}}; mov.b64 l1,{{r2,r3}}; mov.b64 l2,{{r1,r2}};\n\
             setp.lt.s32 p0,r0,r1; setp.lt.s32 p1,r2,r3;\n{body}\
             @p{last_predicate} add.s32 r{last_word},r{last_word},1;\n{end}\
             st.global.b32 [base],r{last_word}; st.global.b64 [base+8],l{last_long};\nret;\n}}\n",
            predicates.max(200),
        )
    }
}

/// How many values of each kind there are.
pub struct Values {
    words: u64,
    longs: u64,
    predicates: u64,
}

impl Values {
    pub fn last_predicate(&self) -> String {
        format!("p{}", self.predicates - 1)
    }

    /// A form with values in place of its letters.
    pub fn line(&mut self, form: &str, chain: &Chain, random: &mut Random) -> String {
        let fresh = ["ABC", "XYZ", "QS"].map(|kind| {
            let used: Vec<char> = kind.chars().filter(|letter| form.contains(*letter)).collect();
            let one = (chain.tight && !used.is_empty()).then(|| random.below(used.len() as u64) as usize);
            one.map(|one| used[one])
        });
        let mut operand = |letter: char, reach: u64, next: u64| {
            let last = if !chain.tight || fresh.contains(&Some(letter)) { next } else { next - 1 };
            let reach = if fresh.contains(&Some(letter)) { 1 } else { reach };
            last - 1 - random.below(reach.min(last))
        };
        let mut line = String::new();
        for letter in form.chars() {
            match letter {
                'D' => line += &format!("r{}", self.words),
                'L' => line += &format!("l{}", self.longs),
                'P' => line += &format!("p{}", self.predicates),
                'A' | 'B' | 'C' => line += &format!("r{}", operand(letter, REACH, self.words)),
                'X' | 'Y' | 'Z' => line += &format!("l{}", operand(letter, REACH, self.longs)),
                'Q' | 'S' => line += &format!("p{}", operand(letter, chain.predicates, self.predicates)),
                'T' => line += "t0",
                'U' => line += "u0",
                'G' => line += "base",
                other => line.push(other),
            }
        }
        self.words += u64::from(form.contains('D'));
        self.longs += u64::from(form.contains('L'));
        self.predicates += u64::from(form.contains('P'));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn a_seed_names_a_program() {
        assert_eq!(program("sm_90", 90, 7, 50, false), program("sm_90", 90, 7, 50, false));
        assert_ne!(program("sm_90", 90, 7, 50, false), program("sm_90", 90, 8, 50, false));
        assert!(!program("sm_75", 75, 3, 400, true).contains("bf16x2"));
    }
}

//! What is said about an instruction doesn't depend on the instructions before it, although the checker skips those
//! that look like one that was right.

/// Opcodes whose operands are bounded, optional, in brackets, in braces or of several kinds.
const OPCODES: &str = "add.s32 mov.b64 mov.u32 ld.global.u32 ld.global.L2::cache_hint.b32 ld.v2.b32 st.shared.v2.f32 \
    st.param.b32 setp.eq.s32 shf.l.wrap.b32 bar.sync bra tex.1d.v2.s32.s32 vadd.s32.s32.s32";

const OPERANDS: &str = "%r1 %rd1 %f1 %p1 !%p1 %v1 %v1.x -%r1 %laneid -%laneid %tid %tid.x %r1.b0 %p1|%p2 1 32 1.5 \
    0f3F800000 _ g s s[2] s[%r1] c in out inner t L M B f {%r1,%r2} {%r1,_} {%r1,1} {%r1} [%rd1] [%rd1+4] [%rd1,%rd2] \
    [g] [s] [s+4] [in] [out] [inner] [16] [f] [t,{%r1}] [t,{1}] [t,t,{%r1}]";

/// What may follow the first operand and a second one.
const REST: [&str; 3] = ["", ",%rd1", ",32,1"];

const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n.global .b32 g[4]; .const .b32 c; .global .texref t;\n\
    .func (.param .b32 out) f (.param .b32 in) { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<9>; \
    .reg .v2 .b32 %v1; .shared .b32 s[4]; .param .b32 inner; L: B: .branchtargets L;\n";
const TAIL: &str = "M: ret; }\n";

/// The place of each message among the instructions, and its text. A fatal one ends the parse.
fn said(instructions: &[String]) -> Vec<(u32, String)> {
    let source = format!("{HEAD}{}\n{TAIL}", instructions.join("\n"));
    let first = HEAD.lines().count() as u32 + 1;
    let parsed = ptx::parse(&source, &ptx::Options::default());
    parsed.diagnostics.into_iter().map(|d| (d.line.unwrap_or(0).saturating_sub(first), d.message)).collect()
}

/// Instructions that don't end the parse, each with what is said about it alone.
fn instructions() -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for opcode in OPCODES.split_whitespace() {
        for first in OPERANDS.split_whitespace() {
            let seconds = OPERANDS.split_whitespace().map(|second| format!(",{second}"));
            for second in seconds.chain([String::new()]) {
                all.extend(REST.map(|rest| format!("{opcode} {first}{second}{rest};")));
            }
        }
    }
    let alone = |text: String| {
        let messages: Vec<String> = said(std::slice::from_ref(&text)).into_iter().map(|(_, m)| m).collect();
        let ends = messages.iter().any(|m| m.contains("Parsing error") || m.contains("discard mode"));
        (!ends).then_some((text, messages))
    };
    all.into_iter().filter_map(alone).collect()
}

#[test]
fn an_instruction_is_judged_by_itself() {
    let mut all = instructions();
    // The right ones first: only they are remembered.
    all.sort_by_key(|(_, messages)| !messages.is_empty());
    let right = all.partition_point(|(_, messages)| messages.is_empty());
    assert!(right > 100 && all.len() > 10_000, "{right} of {} are right", all.len());
    let texts: Vec<String> = all.iter().map(|(text, _)| text.clone()).collect();
    let mut together = vec![Vec::new(); all.len()];
    for (line, message) in said(&texts) {
        together[line as usize].push(message);
    }
    for ((text, alone), together) in all.iter().zip(&together) {
        assert_eq!(alone, together, "{text}");
    }
}

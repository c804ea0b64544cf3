#!/usr/bin/env python3
"""What ptxas keeps in order: each instruction between accesses to memory, and what is left of them, in order.

usage: probe.py TOOLS TARGET [INSTRUCTION...]

TOOLS is the folder with ptxas and nvdisasm. The instructions are those of docs/memory-ordering.md for the target, or those
that are named. One line for each pattern and state space: the instruction, the pattern, the space, the memory operations
of the code. Patterns: RR two loads of one address, WR a load of what was stored, WW two stores to one address, wR a load of
the word behind what was stored, rW a store behind what was loaded, oR two loads behind the instruction."""
import pathlib, re, subprocess, sys, tempfile

TABLE = pathlib.Path(__file__).parents[2] / "docs/memory-ordering.md"
PATTERNS = {
    "RR": "{L} %a, [{A}]; {op} {L} %b, [{A}];",
    "WR": "{S} [{A}], %v; {op} {L} %a, [{A}]; mov.u32 %b, 0;",
    "WW": "{S} [{A}], %v; {op} {S} [{A}], %w; mov.u32 %a, 0; mov.u32 %b, 0;",
    "wR": "{S} [{A}], %v; {op} {L} %a, [{A}+4]; mov.u32 %b, 0;",
    "rW": "{L} %a, [{A}]; {op} {S} [{A}+4], %v; mov.u32 %b, 0;",
    "oR": "{op} {L} %a, [{A}]; {L} %b, [{A}+4];",
}
KERNEL = """.version 9.0
.target {target}
.address_size 64
.shared .align 16 .b8 s[128];
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 mask) {{
 .reg .b32 %a, %b, %x, %y, %v, %w, %at, %me, %sum; .reg .b64 %g, %near, %o, %d, %offset; .reg .pred %p;
 .shared .align 16 .b8 own[4096];
 ld.param.u64 %near, [in]; ld.param.u64 %o, [out]; ld.param.u32 %x, [mask];
 cvta.to.global.u64 %near, %near; cvta.to.global.u64 %o, %o; add.u64 %g, %near, 1048576;
 mov.u32 %me, %tid.x; mul.wide.u32 %offset, %me, 8; add.u64 %near, %near, %offset; add.u64 %o, %o, %offset;
 mov.u32 %at, own; mad.lo.u32 %at, %me, 8, %at; mov.u64 %d, 0; mad.lo.u32 %x, %me, 3, %x; mov.u32 %y, %x;
 setp.gt.u32 %p, %x, 7; xor.b32 %v, %me, %x; add.u32 %w, %v, 9;
 {body}
 selp.u32 %sum, 1, %y, %p; xor.b32 %sum, %sum, %a; add.u32 %sum, %sum, %b;
 st.global.u32 [%o+65536], %sum; st.global.u64 [%o+131072], %d; ret; }}
"""
MEMORY = re.compile(
    r"^(LD|ST|ATOM|RED|MEMBAR|FENCE|CCTL|BAR|SYNCS|UCGABAR|DEPBAR|LDGDEPBAR|ARRIVES|ACQBULK|PREEXIT|NANOSLEEP|SHFL|VOTE"
    r"|MATCH|REDUX|ELECT|WARPSYNC|WARPGROUP|UTM|UBLK|PMTRIG)(?!C|CU)")


def instructions(target):
    for line in TABLE.read_text().splitlines():
        cells = [c.strip().strip("`") for c in line.replace("\\|", "\0").split("|")]
        if line.startswith("| `") and cells[1].endswith(";") and cells[2].rstrip("a") == target.rstrip("a"):
            yield cells[1].replace("\0", "|")


def code(tools, target, body):
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = (str(pathlib.Path(folder, name)) for name in ("k.ptx", "k.cubin"))
        pathlib.Path(ptx).write_text(KERNEL.format(target=target, body=body))
        run = subprocess.run([tools / "ptxas", "-arch=" + target, ptx, "-o", cubin], capture_output=True, text=True)
        if run.returncode:
            return ["ptxas: " + (run.stdout + run.stderr).strip().splitlines()[0]]
        listing = subprocess.run([tools / "nvdisasm", "-c", cubin], capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?(.*?);", listing, re.M)
    results = ("+0x10000]", "+0x20000]")
    return [l.split()[0] for l in lines if MEMORY.match(l) and not any(r in l for r in results)]


def main(tools, target, *named):
    for op in named or instructions(target):
        for space, address in (("shared", "%at"), ("global", "%near")):
            for name, pattern in PATTERNS.items():
                body = pattern.format(L=f"ld.{space}.u32", S=f"st.{space}.u32", A=address, op=op)
                print(op, name, space, " ".join(code(pathlib.Path(tools), target, body)), sep="\t", flush=True)


main(*sys.argv[1:])

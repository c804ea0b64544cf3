"""Every function of one 32-bit word, for all 2^32 words, on the GPU: our code's results against ptxas's, bit for bit.

    run.py SASSAFRAS [PTXAS] [--target sm_90a] [--levels 0,1,3]

Needs CuPy. Prints a line per function and level that differs and a summary; leaves with 1 if one differs, or if only
one of the compilers refuses a function.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cupy

CHUNK = 1 << 28


def functions():
    """Names and PTX: %r0 and %f0 hold the word, and the register that gets the result."""
    ftz = ["", ".ftz"]
    for op, mode, flush in itertools.product(["rcp", "sqrt"], ["rn", "rz", "rm", "rp", "approx"], ftz):
        yield f"{op}.{mode}{flush}.f32 %f1, %f0;", "f1"
    for op, flush in itertools.product(["rsqrt", "ex2", "lg2", "sin", "cos"], ftz):
        yield f"{op}.approx{flush}.f32 %f1, %f0;", "f1"
    yield "tanh.approx.f32 %f1, %f0;", "f1"
    for op in ["ex2.approx.f16x2", "ex2.approx.ftz.bf16x2", "tanh.approx.f16x2", "tanh.approx.bf16x2"]:
        yield f"{op} %r1, %r0;", "r1"
    for mode, flush, sat in itertools.product(["rni", "rzi", "rmi", "rpi"], ftz, ["", ".sat"]):
        yield f"cvt.{mode}{flush}{sat}.f32.f32 %f1, %f0;", "f1"
        for kind, result in [("s8", "h1"), ("u8", "h1"), ("s16", "h1"), ("u16", "h1"), ("s32", "r1"), ("u32", "r1"), ("s64", "d1"), ("u64", "d1")]:  # fmt: skip
            # 8-bit results sit in a 16-bit register.
            yield f"cvt.{mode}{flush}{sat}.{kind}.f32 %{result}, %f0;", result
    for flush, sat in itertools.product(ftz, ["", ".sat"]):
        yield f"cvt{flush}{sat}.f32.f32 %f1, %f0;", "f1"
        yield f"cvt{flush}{sat}.f64.f32 %e1, %f0;", "e1"
        for mode in ["rn", "rz", "rm", "rp"]:
            yield f"cvt.{mode}{flush}{sat}.f16.f32 %h1, %f0;", "h1"
    for mode, relu, finite in itertools.product(["rn", "rz"], ["", ".relu"], ["", ".satfinite"]):
        yield f"cvt.{mode}{relu}{finite}.bf16.f32 %h1, %f0;", "h1"
        yield f"cvt.{mode}{relu}{finite}.f16.f32 %h1, %f0;", "h1"
        yield f"cvt.{mode}{relu}{finite}.tf32.f32 %r1, %f0;", "r1"
        yield f"cvt.{mode}{relu}{finite}.f16x2.f32 %r1, %f0, %f2;", "r1"
        yield f"cvt.{mode}{relu}{finite}.bf16x2.f32 %r1, %f0, %f2;", "r1"
    yield "cvt.rna.tf32.f32 %r1, %f0;", "r1"
    yield "cvt.rna.satfinite.tf32.f32 %r1, %f0;", "r1"
    for kind, relu in itertools.product(["e4m3x2", "e5m2x2"], ["", ".relu"]):
        yield f"cvt.rn.satfinite{relu}.{kind}.f32 %h1, %f0, %f2;", "h1"
        yield f"cvt.rn.satfinite{relu}.{kind}.f16x2 %h1, %r0;", "h1"
        yield f"cvt.rn{relu}.f16x2.{kind} %r1, %h0;", "r1"
    for kind in ["f32", "f64"]:
        for mode, source in itertools.product(["rn", "rz", "rm", "rp"], ["s32", "u32"]):
            result = {"f32": "f1", "f64": "e1"}[kind]
            yield f"cvt.{mode}.{kind}.{source} %{result}, %r0;", result
    for op in ["popc.b32", "clz.b32", "brev.b32", "bfind.s32", "bfind.u32", "bfind.shiftamt.u32", "abs.s32", "not.b32"]:
        yield f"{op} %r1, %r0;", "r1"
    for kind in ["notanumber", "infinite", "normal", "subnormal", "finite"]:
        yield f"testp.{kind}.f32 %p1, %f0; selp.u32 %r1, 1, 0, %p1;", "r1"
    for op in ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"]:
        yield f"mov.b64 %e0, {{%r0, %r0}}; {op} %e1, %e0;", "e1"


WIDEN = {
    "f1": "mov.b32 %r1, %f1; cvt.u64.u32 %d1, %r1;",
    "r1": "cvt.u64.u32 %d1, %r1;",
    "h1": "cvt.u64.u16 %d1, %h1;",
    "e1": "mov.b64 %d1, %e1;",
    "d1": "",
}

KERNEL = """.visible .entry k(.param .u64 out, .param .u32 first)
{{
    .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .f32 %f<4>; .reg .f64 %e<2>; .reg .b16 %h<2>; .reg .pred %p<2>;
    ld.param.u64 %d2, [out];
    ld.param.u32 %r2, [first];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r3, %r3, 256, %r4;
    add.u32 %r0, %r2, %r3;
    mov.b32 %f0, %r0;
    xor.b32 %r1, %r0, 0x9e3779b9;
    mov.b32 %f2, %r1;
    cvt.u16.u32 %h0, %r0;
    {body}
    {widen}
    mad.wide.u32 %d2, %r3, 8, %d2;
    st.global.u64 [%d2], %d1;
    ret;
}}
"""


def compile_with(program, level, target, text, cubin):
    """The cubin's path, or what the compiler says against the text."""
    source = cubin.with_suffix(".ptx")
    source.write_text(f".version 9.0\n.target {target}\n.address_size 64\n{text}")
    done = subprocess.run([program, f"-arch={target}", f"-O{level}", source, "-o", cubin], capture_output=True, text=True)
    return (None, done.stderr.strip().split("\n")[0]) if done.returncode else (str(cubin), "")


def compile_all(options, folder):
    """Of each function its PTX and the futures of ptxas's cubin and of ours at each level."""
    ways = [(options.ptxas, "3"), *((options.sassafras, level) for level in options.levels)]
    with ThreadPoolExecutor() as pool:
        for number, (body, result) in enumerate(functions()):
            text = KERNEL.format(body=body, widen=WIDEN[result])
            cubins = (folder / f"{number}-{way}.cubin" for way in range(len(ways)))
            yield body, [pool.submit(compile_with, *way, options.target, text, cubin) for way, cubin in zip(ways, cubins)]


def compare(cubins, expected, actual):
    """Of each of our cubins: how many words it has another result for than ptxas's, and an example."""
    reference, *ours = (cupy.RawModule(path=cubin).get_function("k") for cubin in cubins)
    wrong, examples = [0] * len(ours), [""] * len(ours)
    for first in range(0, 1 << 32, CHUNK):
        launch = lambda kernel, out: kernel((CHUNK // 256,), (256,), (out, cupy.uint32(first)))  # noqa: B023, E731
        launch(reference, expected)
        for index, kernel in enumerate(ours):
            launch(kernel, actual)
            different = actual != expected
            count = int(cupy.count_nonzero(different))
            if count and not wrong[index]:
                at = int(different.argmax())
                examples[index] = f"{first + at:#010x}: {int(actual[at]):#x}, not {int(expected[at]):#x}"
            wrong[index] += count
    return zip(wrong, examples)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sassafras")
    parser.add_argument("ptxas", nargs="?", default="ptxas")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--levels", default="0,1,3", type=lambda text: text.split(","))
    options = parser.parse_args()
    expected, actual = cupy.empty(CHUNK, cupy.uint64), cupy.empty(CHUNK, cupy.uint64)
    counts = {"equal": 0, "different": 0, "refused by both": 0, "refused by one": 0}
    with tempfile.TemporaryDirectory() as name:
        for body, jobs in list(compile_all(options, Path(name))):
            cubins, messages = zip(*(job.result() for job in jobs))
            if None in cubins:
                what, said = ("refused by one", messages) if any(cubins) else ("refused by both", messages[:1])
                counts[what] += 1
                print(f"{what}: {body}", *said, flush=True)
                continue
            for level, (wrong, example) in zip(options.levels, compare(cubins, expected, actual)):
                counts["different" if wrong else "equal"] += 1
                if wrong:
                    print(f"-O{level} {body} {wrong} words differ, first {example}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    sys.exit(1 if counts["different"] or counts["refused by one"] else 0)


if __name__ == "__main__":
    main()

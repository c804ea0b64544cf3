"""Every form of the matrix instructions that Hopper has, with random matrices: our code's results against ptxas's, bit
for bit.

    run.py SASSAFRAS FORMS [PTXAS] [--levels 0,3] [--only TEXT] [--simulate]

FORMS has a form in each line, as data/ptx-forms.jsonl beside the corpus. Each becomes a kernel of one warp (wgmma: of
four) that gives every register of the instruction a random value, executes it, and stores all of them, shared memory and
the memory of its addresses. It runs with bits of any kind, with bits that are finite numbers in every format, and with
wgmma's accumulators left out. A form fails if our code leaves other memory than ptxas's, stops, or if ptxas's changes
nothing. With --simulate no GPU is needed: the simulator runs both cubins.
"""

import argparse
import ctypes
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from driver import Driver  # noqa: E402

TARGET = "sm_90a"
FAMILIES = {"mma", "mma.sp", "wmma", "wgmma", "matmov"}

# The memory, in bytes: registers of 128 threads, then what global addresses point to, then what shared memory begins as.
SLOTS = 640
MATRIX = 128 * SLOTS
TILE = 32 << 10
SIZE = MATRIX + 2 * TILE
# Clears the upper bit of exponents of 4, 5, 8 and 11 bits, wherever numbers of 8 to 64 bits begin.
FINITE = 0xBFBFBFBF
# Random words keep these bits; whether wgmma adds its accumulators.
SETS = [(0xFFFFFFFF, 1), (FINITE, 1), (FINITE, 0)]

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 memory, .param .u32 add)
{{
    .reg .b32 %r<400>; .reg .f32 %f<256>; .reg .f64 %d<64>; .reg .b64 %rd<4>; .reg .pred %p<2>;
    .reg .b32 %word<4>; .reg .b64 %at<4>; .reg .pred %more;
    .shared .align 1024 .b8 tile[{tile}];
    ld.param.u64 %at0, [memory];
    ld.param.u32 %word0, [add];
    setp.ne.u32 %p1, %word0, 0;
    mov.u32 %word0, %tid.x;
    mov.u32 %word1, %ntid.x;
    mad.wide.u32 %at1, %word0, {slots}, %at0;
    // Shared memory begins as the last part of the memory says.
    mov.u32 %word2, %word0;
fill:
    mul.wide.u32 %at2, %word2, 4;
    add.u64 %at3, %at0, %at2;
    ld.global.u32 %word3, [%at3+{matrix}+{tile}];
    mov.u64 %at3, tile;
    add.u64 %at3, %at3, %at2;
    st.shared.u32 [%at3], %word3;
    add.u32 %word2, %word2, %word1;
    setp.lt.u32 %more, %word2, {words};
    @%more bra fill;
    fence.proxy.async;
    bar.sync 0;
{load}
{form}
    bar.sync 0;
{store}
    mov.u32 %word2, %word0;
save:
    mul.wide.u32 %at2, %word2, 4;
    mov.u64 %at3, tile;
    add.u64 %at3, %at3, %at2;
    ld.shared.u32 %word3, [%at3];
    add.u64 %at3, %at0, %at2;
    st.global.u32 [%at3+{matrix}+{tile}], %word3;
    add.u32 %word2, %word2, %word1;
    setp.lt.u32 %more, %word2, {words};
    @%more bra save;
    ret;
}}
"""

# Of each kind of register its type and size.
KINDS = {"r": ("b32", 4), "f": ("f32", 4), "d": ("f64", 8)}
# Elements between rows of wmma's matrices: 16 bytes at least in every type.
STRIDE = 128
# Bytes between core matrices of wgmma's operands, along the two axes.
LEADING, STRIDING = 128, 256


class Form:
    def __init__(self, line):
        form = json.loads(line)
        self.family, self.ptx = form["family"], form["ptx"]
        self.wanted = self.family in FAMILIES and TARGET in form["accepted"]
        self.threads = 128 if self.family == "wgmma" else 32

    def kernel(self):
        """The kernel's PTX."""
        load, store, offset = [], [], 0
        for kind, number in dict.fromkeys(re.findall(r"%(r|f|d)(\d+)\b", self.ptx)):
            name, (type_, size) = f"%{kind}{number}", KINDS[kind]
            offset = -(-offset // size) * size
            load.append(f"ld.global.{type_} {name}, [%at1+{offset}];")
            store.append(f"st.global.{type_} [%at1+{offset}], {name};")
            offset += size
        assert offset <= SLOTS, self.ptx
        if self.family == "wmma":
            load.append(f"mov.u32 %r99, {STRIDE};")
        if self.family == "mma.sp":
            load += self.metadata("%r60")
        load += self.addresses()
        form = [self.ptx]
        if self.family == "wgmma":
            form = ["wgmma.fence.sync.aligned;", self.ptx, "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]  # fmt: skip
        parts = {name: "\n".join(f"    {line}" for line in lines) for name, lines in [("load", load), ("form", form), ("store", store)]}  # fmt: skip
        return KERNEL.format(**parts, tile=TILE, matrix=MATRIX, slots=SLOTS, words=TILE // 4)

    def metadata(self, register):
        """Two of four, in order: of tf32, whose halves go together, 0 and 1 or 2 and 3; else 01, 02, 12 or 13."""
        if "tf32" in self.ptx:
            yield f"and.b32 %word2, {register}, 0x11111111;"
            yield f"mad.lo.u32 {register}, %word2, 10, 0x44444444;"
        else:
            yield f"shr.u32 %word3, {register}, 1;"
            yield f"and.b32 %word2, {register}, 0x11111111;"
            yield f"mad.lo.u32 {register}, %word2, 4, 0x44444444;"
            yield "and.b32 %word3, %word3, 0x11111111;"
            yield f"mad.lo.u32 {register}, %word3, 5, {register};"

    def addresses(self):
        """What %rd1 and %rd2 hold."""
        if self.family == "wgmma":
            between = LEADING >> 4 << 16 | STRIDING >> 4 << 32
            for register, start in [("%rd1", 0), ("%rd2", TILE // 2)]:
                yield f"mov.u64 {register}, tile;"
                yield f"add.u64 {register}, {register}, {start};"
                yield f"shr.u64 {register}, {register}, 4;"
                yield f"or.b64 {register}, {register}, {between:#x};"
        elif self.family == "matmov":
            # A row of eight for each thread, with room between them.
            yield "mov.u64 %rd1, tile;" if ".shared" in self.ptx else "mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1;"
            yield "mad.wide.u32 %rd1, %word0, 48, %rd1;"
        elif ".shared" in self.ptx:
            yield "mov.u64 %rd1, tile;"
        else:
            yield f"add.u64 %rd1, %at0, {MATRIX};"


def contents(mask):
    """The memory before a run."""
    words = random.Random(mask)
    return b"".join((words.getrandbits(32) & mask).to_bytes(4, "little") for _ in range(SIZE // 4))


# ---------------------------------------------------------------- running


def judge(run, cubins):
    """What is wrong with our cubins; `run` gives the memory after one of them, and before."""
    changed = False
    for mask, add in SETS:
        wanted, before = run(cubins[0], mask, add)
        changed |= wanted != before
        for cubin in cubins[1:]:
            if (got := run(cubin, mask, add)[0]) != wanted:
                wrong = sum(a != b for a, b in zip(got, wanted))
                return f"{cubin.suffixes[0][1:]}: {wrong} places differ with words & {mask:#x}, add={add}"
    return "" if changed else "nothing changed"


def on_gpu(driver, form):
    """The memory as bytes."""
    before = {mask: contents(mask) for mask, _ in SETS}

    def run(cubin, mask, add):
        address = driver.copy_in(before[mask])
        driver.launch(cubin.read_bytes(), "k", (1, 1, 1), form.threads, 0, [ctypes.c_uint64(address), ctypes.c_uint32(add)])
        after = driver.copy_out(address, SIZE)
        driver.free(address)
        return after, before[mask]

    return run


def simulated(sassafras, form):
    """The memory as words in text; its contents are of the language of run lines (crates/gpu/README.md)."""

    def run(cubin, mask, add):
        def after(file):
            words = ["--kernel", "k", "--grid", "1", "--block", str(form.threads), "--show", str(SIZE // 4)]
            words += ["--arg", f"m:u32[{SIZE // 4}]=random(1)*u32(1)&{mask:#x}", "--arg", f"add:u32={add}"]
            done = subprocess.run([sassafras, "run", file, *words], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{file.name} stops: {' '.join((done.stdout + done.stderr)[:300].split())}")
            return done.stdout.replace("\n", ", ").split(", ")

        return after(cubin), after(cubin.parent / "idle.ptx")

    return run


def work(options, forms, folder):
    """A process of its own: judges the forms, and prints a line for each."""
    driver = None if options.simulate else Driver()
    for number in map(int, sys.stdin.read().split()):
        form = forms[number]
        run = simulated(options.sassafras, form) if options.simulate else on_gpu(driver, form)
        print(judge(run, cubins(options, folder, number)) or "equal", flush=True)


def supervise(options, folder, numbers):
    """Judges the forms of these numbers in a process, and in another from the one on that ended it."""
    verdicts = {}
    while rest := [number for number in numbers if number not in verdicts]:
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", folder]
        done = subprocess.run(command, input=" ".join(map(str, rest)), capture_output=True, text=True)
        verdicts |= zip(rest, done.stdout.splitlines())
        if done.returncode:
            at = next(number for number in rest if number not in verdicts)
            verdicts[at] = (done.stderr.strip().splitlines() or [f"ends with {done.returncode}"])[-1]
    return verdicts


def cubins(options, folder, number):
    return [folder / f"{number}.{name}.cubin" for name in ["ptxas", *(f"O{level}" for level in options.levels)]]


def compile_all(options, folder, number, form):
    """What the compilers say against the form."""
    source = folder / f"{number}.ptx"
    source.write_text(form.kernel())
    ways = [(options.ptxas, "3"), *((options.sassafras, level) for level in options.levels)]
    for (program, level), cubin in zip(ways, cubins(options, folder, number)):
        command = [program, f"-arch={TARGET}", f"-O{level}", source, "-o", cubin]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"{program} -O{level} doesn't compile: {done.stderr.strip()}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sassafras")
    parser.add_argument("forms", type=Path)
    parser.add_argument("ptxas", nargs="?", default="ptxas")
    parser.add_argument("--levels", default="0,3", type=lambda text: text.split(","))
    parser.add_argument("--only", default="")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    forms = [form for form in map(Form, options.forms.read_text().splitlines()) if form.wanted and options.only in form.ptx]
    if options.worker:
        return work(options, forms, options.worker)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:
        folder = Path(name)
        (folder / "idle.ptx").write_text(f".version 9.0 .target {TARGET} .address_size 64 .visible .entry k(.param .u64 m, .param .u32 add) {{ ret; }}")  # fmt: skip
        refused = pool.map(lambda at: compile_all(options, folder, *at), enumerate(forms))
        verdicts = {number: said for number, said in enumerate(refused) if said}
        rest = [number for number in range(len(forms)) if number not in verdicts]
        processes = min(8, os.cpu_count() or 1)
        for part in pool.map(lambda part: supervise(options, folder, rest[part::processes]), range(processes)):
            verdicts |= part
    counts = {}
    for number, form in enumerate(forms):
        equal = verdicts[number] == "equal"
        counts.setdefault(form.family, [0, 0])[not equal] += 1
        if not equal:
            print(f"{form.ptx[:120]}: {verdicts[number]}")
    for family, (equal, other) in counts.items():
        print(f"{family}: {equal} of {equal + other}")
    equal = sum(count[0] for count in counts.values())
    print(f"{equal} of {len(forms)} forms leave the same memory as ptxas's code")
    sys.exit(0 if equal == len(forms) and forms else 1)


if __name__ == "__main__":
    main()

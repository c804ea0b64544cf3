"""The kernels of the corpus's folders triton and inductor, on the GPU: our code's memory against ptxas's, bit for bit.

    run.py SASSAFRAS CORPUS [PTXAS] [--level 3] [--only TEXT] [--simulate BLOCKS]

launches.txt, beside this file, has a line per kernel. A run fails if our code leaves other memory than ptxas's, writes
beside its buffers, stops, or if ptxas's code changes nothing (its arguments would test nothing). Each kernel runs in a
process of its own. Needs NumPy. With --simulate neither it nor a GPU is needed: the simulator runs both cubins, at most
BLOCKS blocks along each axis.

Words of launches.txt, one a parameter:
    3 0.5 3L -          an integer of 32 bits, a float of 32 bits, an integer of 64 bits, a null pointer
    f16[8,64]           a pointer to 8*64 random numbers: floats from 1/8 to 2 with any sign (f32, f64: from -1 to 1),
                        integers of any value. Behind it may stand
        =0              zeros
        =index          from -1000 to 999: what tensors of 1000 rows are indexed with
        =positive =wide floats from 0.5 to 2, or of any sign from 2^-15 to 2^17
        =whole          floats from -8 to 7 without a fraction
    map(3,f16,256x64,128x32)   a tensor map for boxes of 128 rows of 32 in the 256 rows of 64 at parameter 3, counted
                        from 0; swizzled by 128 bytes
"""

import argparse
import ctypes
import math
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from driver import Driver  # noqa: E402

TARGET = "sm_90a"
# PTX lets a product and a sum that say nothing of rounding become one instruction, which rounds once. ptxas makes use of
# that unless it is told not to, and then its results differ from ours in the last bit.
FLAGS = [f"-arch={TARGET}", "-fmad=false"]
SECONDS = 60
# What a block may have, less some for static variables.
SHARED = 200 << 10
GUARD = 4096
GUARD_BYTE = 0xA5

# Of each type: the type of its bits, and how random bits become a number: those that are kept, those that are set.
BITS = {"f16": ("u16", 0x8FFF, 0x3000), "bf16": ("u16", 0x81FF, 0x3E00), "e4m3": ("u8", 0x9F, 0x20)}
FLOATS = {"positive": ("u32", 0x00FFFFFF, 0x3F000000), "wide": ("u32", 0x8FFFFFFF, 0x38000000)}
# Whole numbers: the first, and how many.
RANGES = {"index": (-1000, 2000), "whole": (-8, 16)}


class Launch:
    """A line of launches.txt."""

    def __init__(self, line):
        self.file, grid, *self.words = line.split()
        self.grid = [int(n) for n in grid.split(",")] + [1] * (2 - grid.count(","))
        self.name = self.file.removeprefix("inductor/").removeprefix("triton/")

    def compile(self, program, corpus, level, cubin):
        command = [program, *FLAGS, f"-O{level}", corpus / f"{self.file}.ptx", "-o", cubin]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode and f"{program} doesn't compile: {done.stderr.strip()}"

    def read(self, corpus):
        """The kernel's name, its threads, and its dynamic shared memory."""
        text = (corpus / f"{self.file}.ptx").read_text()
        kernel = re.search(r"\.entry (\w+)", text)[1]
        threads = int(re.search(r"\.reqntid (\d+)", text)[1])
        return kernel, threads, SHARED if ".extern .shared" in text else 0


def buffer(word):
    """A pointer's type, number of elements, and contents; nothing if it isn't one."""
    found = re.fullmatch(r"(\w+)\[([\d,]+)\](?:=(\w+))?", word)
    return found and (found[1], math.prod(map(int, found[2].split(","))), found[3] or "random")


def tensor_map(word):
    """A map's parameter, element, sizes and box (rows first); nothing if it isn't one."""
    found = re.fullmatch(r"map\((\d+),(\w+),(\d+)x(\d+),(\d+)x(\d+)\)", word)
    return found and (int(found[1]), found[2], (int(found[3]), int(found[4])), (int(found[5]), int(found[6])))


# ---------------------------------------------------------------- without a GPU


def run_line_argument(index, word):
    """The word in the language of run lines (crates/gpu/README.md)."""
    name, array, box = f"a{index}", buffer(word), tensor_map(word)
    if word == "-":
        return f"{name}:u64=0"
    if box:
        at, element, (rows, columns), (box_rows, box_columns) = box
        return f"{name}:map(a{at}, {element}, ({columns},{rows}), box=({box_columns},{box_rows}), swizzle=128)"
    if not array:
        kind = "f32" if "." in word else "u64" if word.endswith("L") else "u32"
        return f"{name}:{kind}={word.removesuffix('L')}"
    kind, count, contents = array
    bits, keep, put = FLOATS.get(contents) or BITS.get(kind) or (kind, None, None)
    if contents == "0":
        value = "0"
    elif contents in RANGES:
        first, size = RANGES[contents]
        value = f"{kind}(random({index}, {first}, {first + size}))"
    elif keep:
        value = f"random({index})*{bits}(1)&{keep:#x}|{put:#x}"
    else:
        value = f"random({index})"
    return f"{name}:{bits}[{count}]={value}"


def simulate(launch, options, folder):
    """What is wrong, and the number of elements that the kernel changed."""
    kernel, threads, shared = launch.read(options.corpus)
    text = (options.corpus / f"{launch.file}.ptx").read_text()
    start = text.index(".visible .entry")
    # A kernel with the same parameters that does nothing shows what memory is before.
    idle = folder / f"{launch.name}.idle.ptx"
    idle.write_text(f".version 9.0 .target {TARGET} .address_size 64 {text[start : text.index('{', start)]} {{ ret; }}")
    files = {"idle": idle}
    for name, program in [("ptxas", options.ptxas), ("ours", options.sassafras)]:
        files[name] = folder / f"{launch.name}.{name}.cubin"
        if message := launch.compile(program, options.corpus, options.level, files[name]):
            return message, 0
    grid = ",".join(str(min(n, options.simulate)) for n in launch.grid)
    words = ["--kernel", kernel, "--grid", grid, "--block", str(threads), "--shared", str(shared), "--show", str(1 << 20)]
    mapped = {box[0] for box in map(tensor_map, launch.words) if box}
    for index, word in enumerate(launch.words):
        argument = run_line_argument(index, word)
        # A map can only refer to what stands before it.
        words += ["--memory", argument, "--arg", f"stride{index}:u64=0"] if index in mapped else ["--arg", argument]
    memory = {}
    for name, file in files.items():
        done = subprocess.run([options.sassafras, "run", file, *words], capture_output=True, text=True)
        if done.returncode:
            return f"{name} stops: {(done.stdout + done.stderr)[:300]}", 0
        memory[name] = done.stdout.replace("\n", ", ").split(", ")
    wrong, changed = (sum(a != b for a, b in zip(memory["ptxas"], memory[name])) for name in ["ours", "idle"])
    return f"{wrong} elements differ" if wrong else "" if changed else "nothing changed", changed


# ---------------------------------------------------------------- on the GPU


def fill(index, word):
    """The bytes of a pointer's memory: `random` of run lines with the parameter's number as its seed."""
    import numpy as np

    kind, count, contents = buffer(word)
    types = {name: getattr(np, name.replace("s", "int").replace("u", "uint").replace("f", "float")) for name in ["s8", "u8", "u16", "s32", "u32", "s64", "u64", "f32", "f64"]}  # fmt: skip
    bits, keep, put = FLOATS.get(contents) or BITS.get(kind) or (kind, None, None)
    u = np.uint64
    z = u(index) + np.arange(1, count + 1, dtype=u) * u(0x9E3779B97F4A7C15)
    z = (z ^ z >> u(30)) * u(0xBF58476D1CE4E5B9)
    z = (z ^ z >> u(27)) * u(0x94D049BB133111EB)
    z ^= z >> u(31)
    if contents == "0":
        values = np.zeros(count, types[bits])
    elif contents in RANGES:
        first, size = RANGES[contents]
        high = (z >> u(32)) * u(size) + ((z & u(0xFFFFFFFF)) * u(size) >> u(32)) >> u(32)
        values = (high.astype(np.int64) + first).astype(types[kind])
    elif keep:
        values = (z >> u(64 - 8 * types[bits]().itemsize)).astype(types[bits]) & types[bits](keep) | types[bits](put)
    elif kind in ["f32", "f64"]:
        digits = {"f32": 24, "f64": 53}[kind]
        values = ((z >> u(64 - digits)).astype(np.float64) / 2 ** (digits - 1) - 1).astype(types[kind])
    else:
        values = (z >> u(64 - 8 * types[kind]().itemsize)).astype(types[kind])
    return values.tobytes()


class Gpu(Driver):
    """The driver, with what launches.txt has."""

    def encode(self, address, element, sizes, box):
        """A tensor map, 64-byte aligned."""
        kinds = {"f16": (6, 2)}  # CU_TENSOR_MAP_DATA_TYPE_FLOAT16, bytes of an element
        kind, size = kinds[element]
        room = (ctypes.c_ubyte * 192)()
        at = ctypes.addressof(room) + 63 & ~63
        dimensions = (ctypes.c_uint64 * 2)(sizes[1], sizes[0])
        strides = (ctypes.c_uint64 * 1)(sizes[1] * size)
        boxes, steps = (ctypes.c_uint32 * 2)(box[1], box[0]), (ctypes.c_uint32 * 2)(1, 1)
        # Not interleaved, swizzled by 128 bytes, no promotion in L2, zeros outside.
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), kind, 2, ctypes.c_uint64(address), dimensions, strides, boxes, steps, 0, 3, 0, 0)  # fmt: skip
        return ctypes.string_at(at, 128)

    def run(self, launch, kernel, threads, shared, cubin):
        """Memory afterwards, a buffer each, guards included; and before."""
        guard, before, addresses = bytes([GUARD_BYTE]) * GUARD, {}, {}
        for index, word in enumerate(launch.words):
            if buffer(word):
                before[index] = guard + fill(index, word) + guard
                addresses[index] = self.copy_in(before[index])
        values = [self.argument(index, word, addresses) for index, word in enumerate(launch.words)]
        self.launch(cubin, kernel, launch.grid, threads, shared, values)
        return {index: self.copy_out(addresses[index], len(data)) for index, data in before.items()}, before

    def argument(self, index, word, addresses):
        if index in addresses:
            return ctypes.c_uint64(addresses[index] + GUARD)
        if box := tensor_map(word):
            return ctypes.create_string_buffer(self.encode(addresses[box[0]] + GUARD, *box[1:]), 128)
        if word == "-" or word.endswith("L"):
            return ctypes.c_uint64(int(word.strip("-L") or 0))
        return ctypes.c_float(float(word)) if "." in word else ctypes.c_uint32(int(word))


def compare(launch, corpus, cubins):
    """Runs ptxas's cubin and ours, and prints what is wrong, or how many bytes changed. In a process of its own."""
    import numpy as np

    gpu = Gpu()
    parameters = launch.read(corpus)
    theirs, before = gpu.run(launch, *parameters, Path(cubins[0]).read_bytes())
    ours, _ = gpu.run(launch, *parameters, Path(cubins[1]).read_bytes())
    different = lambda a, b: np.flatnonzero(np.frombuffer(a, np.uint8) != np.frombuffer(b, np.uint8))  # noqa: E731
    for index, data in ours.items():
        if data[:GUARD] + data[-GUARD:] != bytes([GUARD_BYTE]) * (2 * GUARD):
            sys.exit(f"a write outside of parameter {index}")
        wrong = different(data, theirs[index])
        if len(wrong):
            sys.exit(f"parameter {index}: {len(wrong)} bytes differ, the first at {wrong[0] - GUARD}")
    changed = sum(len(different(theirs[index], before[index])) for index in before)
    if not changed:
        sys.exit("nothing changed")
    print(f"{changed} bytes changed")


def on_gpu(launch, options, folder):
    cubins = [folder / f"{launch.name}.{name}.cubin" for name in ["ptxas", "ours"]]
    for program, cubin in zip([options.ptxas, options.sassafras], cubins):
        if message := launch.compile(program, options.corpus, options.level, cubin):
            return message, 0
    command = [sys.executable, __file__, "x", options.corpus, "--worker", launch.file, *cubins]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"longer than {SECONDS} s", 0
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"ends with {done.returncode}"])[-1], 0
    return "", int(done.stdout.split()[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sassafras")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("ptxas", nargs="?", default="ptxas")
    parser.add_argument("--level", default="3")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--simulate", type=int)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    lines = (Path(__file__).parent / "launches.txt").read_text().splitlines()
    launches = [Launch(line) for line in lines if line and not line.startswith("#")]
    if options.worker:
        file, *cubins = options.worker
        compare(next(launch for launch in launches if launch.file == file), options.corpus, cubins)
        return
    present = {f"{path.parent.name}/{path.stem}" for folder in ["triton", "inductor"] for path in (options.corpus / folder).glob("*.ptx")}  # fmt: skip
    missing = present ^ {launch.file for launch in launches}
    launches = [launch for launch in launches if options.only in launch.file]
    way, failed = simulate if options.simulate else on_gpu, 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.jobs) as pool:
        for launch, (wrong, changed) in zip(launches, pool.map(lambda one: way(one, options, Path(name)), launches)):
            failed += bool(wrong)
            if wrong or options.only:
                print(f"{launch.file}: {wrong or f'equal, {changed} changed'}", flush=True)
    for file in sorted(missing):
        print(f"{file} stands in one of the corpus and launches.txt only")
    print(f"{len(launches) - failed} of {len(launches)} kernels leave the same memory as ptxas's code")
    sys.exit(1 if failed or missing else 0)


if __name__ == "__main__":
    main()

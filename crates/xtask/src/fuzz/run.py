#!/usr/bin/env python3
"""Runs the programs of this folder on the GPU in every way they were compiled, and compares memory with the hashes of
what the interpreter left. A fault or a hang costs the program it happened in: a fresh process goes on behind it.

programs.bin has a row for each program: seed (8 bytes), batch, blocks, threads, 0 (4 each), a hash of the memory that threads
share, and one of each 8-byte word of their records, over the threads (8 each)."""
import ctypes as C
import subprocess
import sys
import threading
import time

import numpy as np

from layout import HEAD, IMAGES, RECORD, VALUES, WAYS

HANG = 20  # seconds
SHOWN = 15  # differences that are printed for each way
COLUMNS = RECORD // 8
PROGRAMS = np.fromfile("programs.bin", np.dtype([
    ("seed", "<u8"), ("batch", "<u4"), ("grid", "<u4"), ("block", "<u4"), ("pad", "<u4"), ("head", "<u8"), ("columns", "<u8", COLUMNS)]))
FACTOR = np.uint64(0x9E3779B97F4A7C15)


def hashes(words, axis=0):
    """See hash() in bundle.rs."""
    factors = (np.arange(words.shape[0], dtype=np.uint64) * np.uint64(2) + np.uint64(1)) * FACTOR
    factors = factors.reshape(-1, *[1] * (words.ndim - 1))
    return ((words ^ (words >> np.uint64(32))) * factors).sum(axis=axis, dtype=np.uint64)


def check(status, what):
    if status:
        raise RuntimeError(f"{what}: CUDA error {status}")


class Gpu:
    def __init__(self):
        self.cu = C.CDLL("libcuda.so.1")
        device, context = C.c_int(), C.c_void_p()
        check(self.cu.cuInit(0), "init")
        check(self.cu.cuDeviceGet(C.byref(device), 0), "device")
        check(self.cu.cuDevicePrimaryCtxRetain(C.byref(context), device), "context")
        check(self.cu.cuCtxSetCurrent(context), "context")
        self.memory = C.c_uint64()
        check(self.cu.cuMemAlloc_v2(C.byref(self.memory), C.c_size_t(1 << 20)), "alloc")

    def load(self, path):
        module = C.c_void_p()
        check(self.cu.cuModuleLoadData(C.byref(module), open(path, "rb").read()), f"load {path}")
        return module

    def run(self, module, program, image):
        function = C.c_void_p()
        name = f"k{program['seed']}".encode()
        check(self.cu.cuModuleGetFunction(C.byref(function), module, name), "function")
        bytes_ = HEAD + RECORD * int(program["grid"]) * int(program["block"])
        out = np.empty(bytes_, np.uint8)
        check(self.cu.cuMemcpyHtoD_v2(self.memory, image.ctypes.data_as(C.c_void_p), C.c_size_t(bytes_)), "copy")
        values = C.create_string_buffer(VALUES, len(VALUES))
        arguments = (C.c_void_p * 2)(C.addressof(self.memory), C.addressof(values))
        check(self.cu.cuLaunchKernel(function, int(program["grid"]), 1, 1, int(program["block"]), 1, 1, 0, None,
                                     arguments, None), "launch")
        check(self.cu.cuCtxSynchronize(), "run")
        check(self.cu.cuMemcpyDtoH_v2(out.ctypes.data_as(C.c_void_p), self.memory, C.c_size_t(bytes_)), "copy back")
        return out


def difference(program, out):
    """What is wrong, or None."""
    head, records = out[:HEAD].view(np.uint64), out[HEAD:].view(np.uint64).reshape(-1, COLUMNS)
    wrong = np.nonzero(hashes(records) != program["columns"])[0]
    parts = []
    if hashes(head) != program["head"]:
        parts.append("totals " + " ".join(f"{w:x}" for w in head[128:138]))
    for column in wrong[:3]:
        parts.append(f"word {column}: " + " ".join(f"{w:x}" for w in records[:6, column]))
    return f"{len(wrong)} words differ; " + "; ".join(parts) if parts else None


def worker(way, start):
    gpu = Gpu()
    images = np.fromfile("images.bin", np.uint8).reshape(IMAGES, -1)
    module, batch = None, -1
    for index in range(start, len(PROGRAMS)):
        program = PROGRAMS[index]
        print("BEGIN", index, flush=index % 50 == 0)
        if program["batch"] != batch:
            batch = program["batch"]
            module = gpu.load(f"{way}-{batch}.cubin")
        sys.stdout.flush()
        wrong = difference(program, gpu.run(module, program, images[int(program["seed"]) % IMAGES]))
        if wrong:
            print("WRONG", index, wrong)
    print("END")


def supervise(way):
    """Differences of all programs, by index."""
    found, start = {}, 0
    while start < len(PROGRAMS):
        process = subprocess.Popen([sys.executable, __file__, way, str(start)], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        alive = [time.time()]

        def watch():
            while process.poll() is None:
                time.sleep(1)
                if time.time() - alive[0] > HANG:
                    process.kill()
        threading.Thread(target=watch, daemon=True).start()
        last, line, ended = start, "", False
        for line in process.stdout:
            alive[0] = time.time()
            word, _, rest = line.strip().partition(" ")
            if word == "BEGIN":
                last = int(rest)
            elif word == "WRONG":
                index, _, what = rest.partition(" ")
                found[int(index)] = what
            elif word == "END":
                ended = True
        process.wait()
        if ended:
            return found
        found[last] = "fault or hang: " + line.strip()
        start = last + 1
    return found


def main():
    for way in WAYS:
        begin = time.time()
        found = supervise(way)
        print(f"{way}: {len(PROGRAMS) - len(found)} of {len(PROGRAMS)} programs equal, {time.time() - begin:.0f} s")
        for index, what in sorted(found.items())[:SHOWN]:
            print(f"  {way} seed {PROGRAMS[index]['seed']}: {what}"[:600])
        rest = sorted(PROGRAMS[index]["seed"] for index in found)
        print("  seeds:", *rest[:100], flush=True)


if len(sys.argv) > 1:
    worker(sys.argv[1], int(sys.argv[2]))
else:
    main()

#!/usr/bin/env python3
"""Runs the microbenchmarks of the timing model on this machine's GPU, or in the model.

    run.py [OPTIONS] PTXAS            on the GPU, with PTXAS's code
    run.py --model SASSAFRAS PTXAS    in the model: what `sassafras profile` says of the same code

    --out FILE     the results as JSON (default microbench.json): update.py makes the model's numbers of them
    --only REGEX   programs whose names match
    --rounds N     rounds of the loop (default 64, of throughput 1024; 4 in the model)
    --repeat N     launches of each, of which the shortest counts (default 5; 1 in the model)
    --keep DIR     where PTX and cubins are left

A result is in cycles of one operation of a warp (latency), of a sub-core (throughput: all warps of a block of 1024
threads, of which each sub-core has eight), or of an instruction (fetch); of `chip` in bytes a second. Needs Python 3.8
and no packages. Exit code 1: a program did not compile or run.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import programs  # noqa: E402

TARGET = "sm_90a"
SUBCORES = 4
# An H200 issues FFMA slower in the first microseconds of a launch.
ROUNDS = {"throughput": 1024}


def compile_ptx(ptxas, text, folder, name):
    """The cubin's path."""
    source, cubin = folder / f"{name}.ptx", folder / f"{name}.cubin"
    source.write_text(text)
    done = subprocess.run([ptxas, f"-arch={TARGET}", "-O3", source, "-o", cubin], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ptxas: {done.stderr.strip()[:300]}")
    return cubin


def offsets(program):
    """What the memory of a chase holds: the offset of the next place, all round."""
    places, size = program.data // program.stride, program.data
    data = bytearray(size)
    for place in range(places):
        at, to = place * program.stride, (place + 1) % places * program.stride
        data[at : at + 8] = to.to_bytes(8, "little")
    return bytes(data)


class Gpu:
    """Cycles or nanoseconds that a launch took, of the slowest thread."""

    def __init__(self):
        import ctypes

        from driver import Driver

        self.c, self.driver = ctypes, Driver()

    def time(self, program, cubin, rounds):
        c, threads = self.c, program.threads * program.blocks
        out = self.driver.copy_in(bytes(8 * threads))
        data = self.driver.copy_in(offsets(program) if "latency" in program.name else bytes(program.data))
        values = [c.c_uint64(out), c.c_uint64(data), c.c_uint32(rounds), c.c_uint32(program.stride)]
        self.driver.launch(cubin.read_bytes(), "bench", [program.blocks, 1, 1], program.threads, 0, values)
        raw = self.driver.copy_out(out, 8 * threads)
        self.driver.free(out)
        self.driver.free(data)
        return max(int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8))


class Model:
    """What the model says: cycles of the whole launch, without what comes before and after in both programs."""

    def __init__(self, sassafras):
        self.sassafras = sassafras

    def time(self, program, cubin, rounds):
        size = program.data
        contents = f"u64(i*8+{program.stride})%{size}" if "latency" in program.name else "0"
        arguments = f"out:u64[{program.threads * program.blocks}]=0 data:u64[{size // 8}]={contents} rounds:u32={rounds} stride:u32={program.stride}"
        line = f"bench grid=({program.blocks}) block=({program.threads}) args: {arguments}"
        l2 = "cold" if program.name.startswith("dram") else "warm"
        command = [self.sassafras, "profile", cubin, "--launch", line, "--l2", l2, "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[:300])
        report = json.loads(done.stdout)[0]
        return report["seconds"] * 1e9 if program.kind == "chip" else report["cycles"]


def measure(machine, program, options, folder):
    counts = [programs.SHORT, programs.LONG]
    if options.model:
        # As much memory as a run line can have; what is larger takes the cold L2.
        program.data = min(program.data, 1 << 20)
    if program.kind == "fetch":
        counts = [program.count, program.count]
    rounds, times = options.rounds or (4 if options.model else ROUNDS.get(program.kind, 64)), []
    for index, count in enumerate(counts):
        cubin = compile_ptx(options.ptxas, program.ptx(count), folder, f"{program.name}.{index}")
        # Of a fetch, the rounds make the difference: the code has its size.
        turns = rounds * (1 + 2 * index) if program.kind == "fetch" else rounds
        times.append(min(machine.time(program, cubin, turns) for _ in range(options.repeat)))
    difference = times[1] - times[0]
    if program.kind == "fetch":
        return difference / (2 * rounds * program.count)
    operations = (counts[1] - counts[0]) * rounds
    if program.kind == "chip":
        return operations * program.operations * program.threads * program.blocks / max(difference, 1) * 1e9
    warps = program.threads // 32 // SUBCORES if program.kind == "throughput" else 1
    return difference / (operations * warps)


def main():
    parser = argparse.ArgumentParser(usage=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ptxas")
    parser.add_argument("--model")
    parser.add_argument("--out", default="microbench.json")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    options.repeat = options.repeat or (1 if options.model else 5)
    machine = Model(options.model) if options.model else Gpu()
    results, failed = {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or pathlib.Path(name)
        os.makedirs(folder, exist_ok=True)
        for program in programs.programs():
            if not re.search(options.only, program.name):
                continue
            try:
                results[program.name] = measure(machine, program, options, folder)
                print(f"{program.name:28} {results[program.name]:14.4g}", flush=True)
            except RuntimeError as error:
                failed.append(program.name)
                print(f"{program.name:28} {error}", flush=True)
    report = {
        "date": datetime.date.today().isoformat(),
        "machine": "model" if options.model else "gpu",
        "rounds": options.rounds,
        "results": results,
    }
    pathlib.Path(options.out).write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the numbers of the timing model of what a GPU answered.

    update.py MICROBENCH.json [--write]

Prints each number that follows from the results of run.py, beside the one that the table has; with --write puts it into
crates/sim/src/timing/parameters.tab, with `h200` as its source. RULES says how each follows. What has no rule stays.
"""

import json
import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).resolve().parents[2] / "crates/sim/src/timing/parameters.tab"
# Cycles that the operations beside the measured one take in a chain: from the control codes of ptxas's code, and such that
# `run.py --model` gives the model's own numbers back.
ADD, MASKS, JOIN, STORE = 9, 6, 6, 51


def rules(r):
    """Parameter, the program that it is from, and its value; of r, the results, KeyError if a program is missing."""
    sectors_of_one_warp = 4
    sms, clock = 132, r.get("clock_mhz", 1980) * 1e6
    yield "interval_alu", "lop3.throughput", lambda: r["lop3.throughput"]
    yield "interval_fma", "ffma.throughput", lambda: 2 * r["ffma.throughput"]
    yield "interval_half", "hfma2.throughput", lambda: r["hfma2.throughput"]
    yield "interval_wide", "imad_wide.throughput", lambda: r["imad_wide.throughput"]
    yield "interval_double", "dfma.throughput", lambda: r["dfma.throughput"]
    yield "interval_xu", "mufu.throughput", lambda: r["mufu.throughput"]
    yield "interval_mma_wide", "mma.m16n8k16.throughput", lambda: r["mma.m16n8k16.throughput"]
    yield "interval_mma_narrow", "mma.m16n8k8.throughput", lambda: r["mma.m16n8k8.throughput"]
    yield "wgmma_columns_per_cycle", "wgmma.n256, wgmma.n128", lambda: 128 / (r["wgmma.n256"] - r["wgmma.n128"])
    yield "latency_shared", "shared.latency", lambda: r["shared.latency"]
    yield "latency_l1", "l1.latency", lambda: r["l1.latency"] - ADD
    yield "latency_l2", "l2.latency", lambda: r["l2.latency"] - ADD
    yield "latency_dram", "dram.latency", lambda: r["dram.latency"] - ADD
    yield "latency_shuffle", "shuffle.latency", lambda: r["shuffle.latency"]
    yield "latency_xu", "mufu.latency", lambda: r["mufu.latency"]
    yield "latency_reduce", "redux.latency", lambda: r["redux.latency"] - JOIN
    yield "latency_constant", "constant.latency", lambda: r["constant.latency"] - MASKS
    yield "latency_atomic_shared", "atomic.shared.own.latency", lambda: r["atomic.shared.own.latency"]
    yield "latency_atomic", "atomic.global.own.latency", lambda: r["atomic.global.own.latency"]
    yield "latency_barrier", "barrier.latency", lambda: r["barrier.latency"]
    yield "latency_membar", "membar.latency", lambda: r["membar.latency"] - STORE
    # A warp's load of four bytes a lane is one pass; the four sub-cores share the units.
    yield "shared_passes_per_cycle", "shared.load.stride4", lambda: 4 / r["shared.load.stride4"]
    yield "l2_read_bytes_per_cycle", "l2.read.sm", lambda: r["l2.read.sm"] / clock
    yield "l2_bytes_per_clock", "l2.read.chip", lambda: r["l2.read.chip"] / clock
    yield "dram_efficiency", "dram.read", lambda: r["dram.read"] / 4.8e12
    yield "atomic_shared_lanes", "atomic.shared.same.throughput", lambda: r["atomic.shared.same.throughput"] / 32 / 4
    yield "atomic_lanes_per_cycle", "atomic.global.same.throughput", lambda: 32 / (r["atomic.global.same.throughput"] / 4)
    yield "atomic_sectors_per_cycle", "atomic.global.own.throughput", lambda: sectors_of_one_warp / (r["atomic.global.own.throughput"] / 4)
    # The caches end where an instruction takes longer than where all of it fits.
    sizes = [2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    costs = lambda: [r[f"fetch.{size}k"] for size in sizes]

    def last_below(factor):
        fits = [size for size, cost in zip(sizes, costs()) if cost < factor * min(costs())]
        return max(fits) * 1024 // 16

    yield "l1i_instructions", "fetch.*: below 3 times the least", lambda: last_below(3)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    report = json.loads(pathlib.Path(sys.argv[1]).read_text())
    write = "--write" in sys.argv
    if write and report["machine"] != "gpu":
        sys.exit("these results are the model's own")
    text = TABLE.read_text()
    for name, program, value in rules(report["results"]):
        line = re.search(rf"^({name}) +(\S+) +(\S+) +(\S+) +(.*)$", text, re.M)
        if not line:
            sys.exit(f"the table has no {name}")
        try:
            # Instructions issue and end in whole cycles.
            is_whole = name.startswith(("interval", "latency", "wgmma_columns"))
            new = f"{round(value())}" if is_whole else f"{value():.4g}"
        except KeyError as missing:
            print(f"{name:26} {line[2]:>10}  no result of {missing}")
            continue
        print(f"{name:26} {line[2]:>10} {new:>10} {line[3]}  ({program})")
        if write:
            row = f"{name} {new:>{29 - len(name)}}  {line[3]:13} {'h200':8} tests/microbench {program}, {report['date']}"
            text = text[: line.start()] + row + text[line.end() :]
    if write:
        TABLE.write_text(text)


if __name__ == "__main__":
    main()

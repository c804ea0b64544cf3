#!/usr/bin/env python3
"""What run.py and kernels.py measured, as tables.

    report.py RESULTS.json [PREVIOUS.json]      as text
    report.py --markdown RESULTS.json           as the page docs/performance.md

Speeds are in units of ptxas's: above 1, our code is faster.
"""

import json
import math
import re
import sys

WARPS_OF_SM = 64
WHO = ("ptxas", "ours")
UNITS = {"ns": 1e-6, "us": 1e-3, "usec": 1e-3, "microseconds": 1e-3, "ms": 1.0, "msec": 1.0, "milliseconds": 1.0,
         "s": 1e3, "sec": 1e3, "secs": 1e3, "seconds": 1e3}  # fmt: skip
NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"


# Reading what tools and programs print.


def resources_of_log(text):
    """Registers and spilled bytes of each function, from what `ptxas -v` prints."""
    kernels, current = {}, None
    for line in text.splitlines():
        if found := re.search(r"(?:Compiling entry function|Function properties for) '?([\w$.]+)'?", line):
            current = kernels.setdefault(found[1], {})
        if current is None:
            continue
        if found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            current.update(stack=int(found[1]), spill_stores=int(found[2]), spill_loads=int(found[3]))
        if found := re.search(r"Used (\d+) registers", line):
            current["registers"] = int(found[1])
    return kernels


def count_instructions(listing):
    """Instructions of each function of a listing, without the padding behind them."""
    counts = {}
    for section in listing.split(".section .text.")[1:]:
        name = re.match(r"[\w$]+", section)[0]
        lines = [line for line in section.splitlines() if re.match(r"\s*/\*[0-9a-f]{4,}\*/", line)]
        while lines and re.search(r"\b(NOP|BRA)\b", lines[-1]):
            last = lines.pop()
            if "BRA" in last:
                break
        counts[name] = len(lines)
    return counts


def plain_name(symbol):
    """The last name in a mangled one, without types: `_Z11reduce_treeILj256EEvPKf` is reduce_tree."""
    found = re.match(r"_ZN?(?:K?)((?:\d+.+))", symbol)
    if not found:
        return symbol
    rest, name = found[1], symbol
    while number := re.match(r"\d+", rest):
        length = int(number[0])
        name, rest = rest[number.end() :][:length], rest[number.end() + length :]
        if not symbol.startswith("_ZN"):
            break
    return name


def printed_times(text):
    """Milliseconds of each line that has a number with a unit of time, by the line without its numbers."""
    times, seen = {}, {}
    units = "|".join(sorted(UNITS, key=len, reverse=True))
    for line in text.splitlines():
        found = re.search(rf"({NUMBER})\s*[(\[]?({units})\b", line, re.I)
        if found:
            value, unit = float(found[1]), found[2]
        else:
            found = re.search(rf"[(\[]({units})[)\]]\s*[:=]?\s*({NUMBER})", line, re.I)
            if not found or not re.search(r"time|elapsed|kernel", line, re.I):
                continue
            value, unit = float(found[2]), found[1]
        if not re.search(r"time|elapsed|kernel|took|average|avg", line, re.I) or value <= 0:
            continue
        key = " ".join(re.sub(NUMBER, "#", line).split())[:80]
        seen[key] = seen.get(key, 0) + 1
        times[key if seen[key] == 1 else f"{key} ({seen[key]})"] = value * UNITS[unit.lower()]
    return times


def verdict_words(text):
    """How often a program speaks of failure."""
    return len(re.findall(r"fail|error|mismatch|incorrect", text, re.I))


# Judging.


def speed(row):
    """ptxas's time by ours, the least of the runs of each; None without both."""
    ms = row["ms"]
    return min(ms["ptxas"]) / min(ms["ours"]) if all(ms.get(who) for who in WHO) else None


def spread(row):
    """How far the runs of one compiler are apart, the worse of the two."""
    return max(max(row["ms"][who]) / min(row["ms"][who]) - 1 for who in WHO)


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def is_right(row):
    return row["check"].get("ours") == "ok" or row["check"].get("ptxas") != "ok"


def judged(rows):
    """Rows that have a speed, slowest of ours first."""
    rows = [(name, row) for name, row in rows.items() if speed(row) is not None]
    return sorted(rows, key=lambda pair: speed(pair[1]))


def warps(facts):
    return facts["blocks"] * ((facts["threads"] + 31) // 32)


def facts_of(results, row_name):
    """Registers and warps of an SM, ptxas's and ours, of the kernel that has a row's name."""
    facts = results.get("resources", {}).get(row_name, {})
    if not all(who in facts for who in WHO):
        return "", ""
    pair = [facts[who] for who in WHO]
    busy = "/".join(str(warps(f)) for f in pair) if all("blocks" in f for f in pair) else ""
    return "/".join(str(f["registers"]) for f in pair), busy


def instructions_of(results, row_name, program):
    kernel = results.get("kernels", {}).get(program, {}).get(row_name, {})
    counts = [kernel.get(who, {}).get("instructions") for who in WHO]
    return "/".join(map(str, counts)) if all(counts) else ""


def changes(results, previous, least=0.03):
    """Lines for the speeds that differ from an earlier run's by more than `least`, and for rows that came or went."""
    lines = []
    for suite, rows in results["suites"].items():
        before = previous.get("suites", {}).get(suite)
        if before is None:
            continue
        for name, row in rows.items():
            new, old = speed(row), speed(before[name]) if name in before else None
            if new and old and abs(new / old - 1) > least:
                lines.append((new / old, f"{new / old:6.3f}  {old:.3f} -> {new:.3f}  {suite}: {name}"))
            elif new and old is None:
                lines.append((1.0, f"   new  {new:.3f}  {suite}: {name}"))
        lines += [(1.0, f"  gone  {suite}: {name}") for name in before if name not in rows]
        both = [(speed(row), speed(before[name])) for name, row in rows.items() if name in before]
        both = [(a, b) for a, b in both if a and b]
        if both:
            lines.append((0, f"{suite}: mean of the {len(both)} that both have {mean(b for _, b in both):.3f} -> {mean(a for a, _ in both):.3f}"))
    return [line for _, line in sorted(lines)]


# Printing.


def text(results, previous=None):
    out = []
    for suite, rows in results["suites"].items():
        ordered = judged(rows)
        out += ["", f"== {suite}: ptxas {results.get('ptxas', '')} against sassafras {results.get('commit', '')[:10]}, "
                f"{results.get('gpu', '')}"]  # fmt: skip
        out.append(f"{'ptxas ms':>10} {'ours ms':>10} {'speed':>6} {'spread':>6}  {'check':8} {'registers':>9} {'warps':>7} {'instructions':>13}  name")
        for name, row in ordered:
            check = "ok" if is_right(row) and row["check"].get("ours") == "ok" else f"{row['check'].get('ptxas', '-')}/{row['check'].get('ours', '-')}"
            registers, busy = facts_of(results, name)
            out.append(f"{min(row['ms']['ptxas']):10.4f} {min(row['ms']['ours']):10.4f} {speed(row):6.3f} {spread(row):6.1%}  "
                       f"{check:8} {registers:>9} {busy:>7} {instructions_of(results, name, row['program']):>13}  {name}")  # fmt: skip
        if ordered:
            out.append(f"{suite}: {len(ordered)} kernels, speed {mean(speed(r) for _, r in ordered):.4f} in the geometric mean; "
                       f"{sum(speed(r) < 0.95 for _, r in ordered)} below 0.95, {sum(speed(r) > 1.05 for _, r in ordered)} above 1.05; "
                       f"{sum(not is_right(r) for _, r in ordered)} wrong")  # fmt: skip
            out.append("ten slowest: " + ", ".join(f"{name} {speed(row):.2f}" for name, row in ordered[:10]))
    out += kernel_lines(results)
    if previous:
        out += ["", f"== since {previous.get('commit', '')[:10]} of {previous.get('date', '')}"] + changes(results, previous)
    if results["failures"]:
        out += ["", "== failures"] + [f"{program} with {who}: {' '.join(why.split())[:300]}" for program, who, why in results["failures"]]
    out.append(f"\n{results.get('seconds', '?')} s")
    return "\n".join(out)


def kernel_lines(results):
    """Where registers, spills or occupancy are worse than ptxas's, and the sums."""
    lines, totals = [], {who: [0, 0, 0] for who in WHO}
    count = 0
    for program, kernels in results["kernels"].items():
        for kernel, both in kernels.items():
            if not all("registers" in both.get(who, {}) for who in WHO):
                continue
            count += 1
            a, b = (both[who] for who in WHO)
            for who in WHO:
                f = both[who]
                totals[who] = [x + y for x, y in zip(totals[who], (f["registers"], f.get("spill_loads", 0), f.get("instructions", 0)))]
            busy = results["resources"].get(kernel, {})
            fewer = all(who in busy for who in WHO) and warps(busy["ours"]) < warps(busy["ptxas"])
            if b.get("spill_loads", 0) > a.get("spill_loads", 0) or fewer:
                more = f", warps {warps(busy['ptxas'])} {warps(busy['ours'])}" if fewer else ""
                lines.append(f"{kernel}: registers {a['registers']} {b['registers']}, bytes spilled {a.get('spill_stores', 0)} {b.get('spill_stores', 0)}{more}")
    if not count:
        return []
    head = ["", f"== {count} kernels of the programs (ptxas, ours): registers {totals['ptxas'][0]} {totals['ours'][0]}, "
            f"bytes of spill loads {totals['ptxas'][1]} {totals['ours'][1]}, instructions {totals['ptxas'][2]} {totals['ours'][2]}"]  # fmt: skip
    return head + [f"{len(lines)} with fewer warps or more spills:"] + lines


def markdown(results):
    """The page docs/performance.md."""
    out = [
        "# Speed",
        "",
        "Generated by `cargo xtask bench gpu --report FILE.json`; don't edit it. Kernels of the programs of `tests/bench`, and of",
        "others where named, in the code of ptxas -O3 and of sassafras -O3, run in turns on one machine. Speed is ptxas's time",
        "divided by ours, the least of each: above 1, our code is faster. Spread is that of the runs of one compiler.",
        "",
        f"{results['gpu']}, driver {results['driver']}; ptxas {results['ptxas']}; sassafras at commit `{results['commit'][:10]}`, "
        f"{results['date']}; {results.get('seconds', '?')} s in all." + (f" {results['note']}" if "note" in results else ""),
        "",
        "| suite | kernels | geometric mean | below 0.95 | above 1.05 | slowest |",
        "|---|---|---|---|---|---|",
    ]
    for suite, rows in results["suites"].items():
        ordered = judged(rows)
        if ordered:
            slowest = ", ".join(f"{name} {speed(row):.2f}" for name, row in ordered[:10])
            out.append(f"| {suite} | {len(ordered)} | {mean(speed(r) for _, r in ordered):.3f} | {sum(speed(r) < 0.95 for _, r in ordered)} "
                       f"| {sum(speed(r) > 1.05 for _, r in ordered)} | {slowest} |")  # fmt: skip
    wrong = [f for f in results["failures"] if f[1] == "ours"]
    out += ["", "Wrong or not built with us: " + (", ".join(sorted({f[0] for f in wrong})) if wrong else "none") + "."]
    for suite, rows in results["suites"].items():
        out += ["", f"## {suite}", "", "Registers, warps of an SM and instructions: ptxas's, ours.", "",
                "| kernel | ptxas ms | ours ms | speed | spread | registers | warps | instructions |",
                "|---|---|---|---|---|---|---|---|"]  # fmt: skip
        for name, row in judged(rows):
            registers, busy = facts_of(results, name)
            out.append(f"| {name} | {min(row['ms']['ptxas']):.4f} | {min(row['ms']['ours']):.4f} | {speed(row):.3f} | {spread(row):.1%} "
                       f"| {registers} | {busy} | {instructions_of(results, name, row['program'])} |")  # fmt: skip
    return "\n".join(out) + "\n"


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--markdown"] and len(arguments) == 2:
        print(markdown(json.load(open(arguments[1]))), end="")
    elif len(arguments) in (1, 2) and not arguments[0].startswith("-"):
        loaded = [json.load(open(path)) for path in arguments]
        print(text(*loaded))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

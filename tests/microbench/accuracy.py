#!/usr/bin/env python3
"""Compares the timing model with times that a GPU measured.

    accuracy.py SASSAFRAS MEASURED.json [PROFILE OPTIONS]

MEASURED.json is a list of objects:

    name         what the kernel is called in the report
    launch       a run line (crates/gpu/README.md), or
    launches     a file with run lines, of which `run` is the number (from 1)
    ours, ptxas  for each code of the kernel that was measured: {"cubin": FILE, "cycles": N}, or "seconds" for cycles;
                 files are relative to MEASURED.json
    fits_in_l2   true where all that the kernel touches fits there; without it, what the model finds

Prints the error of each, the mean absolute error, and how often the model says rightly which of two codes is faster,
of those that differ by more than 5 %; then the bars. Exit code 1: a kernel could not be profiled, or a bar is missed.
"""

import json
import pathlib
import subprocess
import sys

BARS = {"error": 0.14, "error in L2": 0.10, "direction": 0.95, "ratio within 5 %": 0.80}
DIFFERS = 0.05


def predict(sassafras, entry, cubin, options):
    which = ["--launch", entry["launch"]] if "launch" in entry else ["--launches", entry["launches"], "--run", str(entry["run"])]
    done = subprocess.run([sassafras, "profile", cubin, *which, "--json", *options], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)[0]


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sassafras, file, *options = sys.argv[1:]
    folder, failed = pathlib.Path(file).resolve().parent, 0
    errors, small, directions, close = [], [], [], []
    for entry in json.loads(pathlib.Path(file).read_text()):
        if "launches" in entry:
            entry["launches"] = str(folder / entry["launches"])
        measured, predicted = {}, {}
        for who in ["ours", "ptxas"]:
            if who not in entry:
                continue
            try:
                report = predict(sassafras, entry, str(folder / entry[who]["cubin"]), options)
            except RuntimeError as error:
                failed += 1
                print(f"{entry['name']} ({who}): {error}")
                continue
            unit = "cycles" if "cycles" in entry[who] else "seconds"
            measured[who], predicted[who] = entry[who][unit], report[unit]
            error = predicted[who] / measured[who] - 1
            errors.append(abs(error))
            if entry.get("fits_in_l2", report["l2"] == "warm"):
                small.append(abs(error))
            print(f"{entry['name']:40} {who:6} measured {measured[who]:12.6g} predicted {predicted[who]:12.6g} {100 * error:+7.1f} %")
        if len(measured) == 2:
            real, model = (times["ptxas"] / times["ours"] for times in [measured, predicted])
            close.append(abs(model / real - 1) <= 0.05)
            if abs(real - 1) > DIFFERS:
                directions.append((real > 1) == (model > 1))
            print(f"{entry['name']:40} ours / ptxas, speed: measured {real:.3f}, predicted {model:.3f}")
    results = {"error": mean(errors), "error in L2": mean(small), "direction": mean(directions), "ratio within 5 %": mean(close)}
    counts = {"error": len(errors), "error in L2": len(small), "direction": len(directions), "ratio within 5 %": len(close)}
    for name, bar in BARS.items():
        if not counts[name]:
            print(f"{name:20} nothing to say it of")
            continue
        holds = results[name] <= bar if name.startswith("error") else results[name] >= bar
        failed += not holds
        print(f"{name:20} {100 * results[name]:6.1f} % of {counts[name]:4}, bar {100 * bar:.0f} %: {'holds' if holds else 'MISSED'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Predicts, without a GPU, how fast the kernels of whole CUDA programs are in ptxas's code and in ours.

    predict.py [OPTIONS] [SASSAFRAS]    (default: the release build of the repository)

    --out FILE          the results as JSON (default predict.json)
    --only REGEX        programs whose names match
    --others DIR        programs of others, too, one in each folder: `make ARCH=sm_90 CC=nvcc`, `make run`. Often, if need be
    --no-own            without the programs of this folder
    --cuda DIR          the toolkit that has bin/nvcc (default: that of the PATH)
    --work DIR          where programs are built, and recordings are kept with --keep (default: a temporary folder)
    --keep              keep recordings: later runs with the same --work take them
    --jobs N            programs at a time (default: the processors)
    --record-limit S    seconds that a program runs on the host (default 20)
    --execute S         of these, seconds in which the simulator executes what it launches (default 8; 0: memory that
                        kernels write stays zero)
    --budget N          instructions of warps that are simulated of a launch, about (default 300000)
    --profile-limit S   seconds for a launch in both codes (default 60)
    --worst N           kernels in the list of the slowest (default 10)

Each program is linked with a runtime that writes down launches (record/recorder.c) in place of CUDA's and runs on the
host; `sassafras profile` then takes each launch in both codes. Results of a program are wrong, of course, where kernels
were not executed. Speeds are in units of ptxas's: above 1, our code is faster. docs/profile.md says what the model knows.
Exit code 0: every program was recorded; 1: one was not. Needs Python 3.8, gcc and nvcc, and no packages.
"""

import argparse
import concurrent.futures
import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import report  # noqa: E402
from run import HERE, call, find_programs, target_option, toolkit  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
SECONDS_BUILD = 300
SIZES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
         "b64": 8, "u64": 8, "s64": 8, "f64": 8}  # fmt: skip


def parameters(ptx):
    """For each kernel of a PTX text the bytes of its parameters, and each one's offset and size."""
    kernels = {}
    ptx = re.sub(r"//.*", "", ptx)
    for name, text in re.findall(r"\.entry\s+([\w$]+)\s*(\([^)]*\))?", ptx):
        end, places = 0, []
        for parameter in re.findall(r"\.param([^,)]*)", text):
            size = SIZES[re.search(r"\.([busf]\d+)", parameter)[1]]
            # An alignment after `.ptr` is that of what the parameter points to.
            align = re.search(r"\.align\s+(\d+)", parameter.split(".ptr")[0])
            align = int(align[1]) if align else size
            if count := re.search(r"\[(\d+)\]", parameter):
                size *= int(count[1])
            end = -(-end // align) * align
            places.append((end, size))
            end += size
        kernels[name] = (end, places)
    return kernels


class Program:
    """A program in a folder of its own: built, recorded, profiled."""

    def __init__(self, predict, suite, name):
        self.predict, self.options = predict, predict.options
        self.suite, self.name = suite, name
        self.folder = f"{self.options.work}/{suite}/{name}"
        self.recordings = f"{self.folder}/recordings"
        self.problems = []

    def nvcc(self):
        kept = f"{self.folder}/kept"
        os.makedirs(kept, exist_ok=True)
        link = ["-Xlinker", "--no-as-needed", "-Xlinker", self.predict.recorder]
        return [self.predict.kit + "/bin/nvcc", "-cudart", "none", "--keep", "--keep-dir", kept, *link]

    def build(self):
        """The command that runs the program, and where; None where it can't be built."""
        if self.suite == "bench":
            source = f"{HERE}/{self.name}.cu"
            command, place = [f"{self.folder}/program"], self.folder
            text, code = call([*self.nvcc(), "-O3", "-std=c++17", target_option(source), source, "-o", *command], seconds=SECONDS_BUILD)
        else:
            place = f"{self.folder}/source"
            shutil.copytree(f"{self.predict.others[self.suite]}/{self.name}", place, dirs_exist_ok=True)
            make = ["make", "-s", "ARCH=sm_90", "CC=" + shlex.join(self.nvcc())]
            text, code = call(make, place, SECONDS_BUILD)
            command = [*make, "run"]
        if code != 0:
            wrong = re.findall(r".*(?:error|undefined reference).*", text)
            self.problems.append(f"build: {code} {wrong[0] if wrong else text[-300:]}")
            return None
        return command, place

    def compile(self):
        """Compiles each PTX file with both; where each kernel's two cubins are."""
        cubins, lines = {}, []
        for file in sorted(os.listdir(f"{self.folder}/kept")):
            if not file.endswith(".ptx"):
                continue
            path = f"{self.folder}/kept/{file}"
            with open(path) as text:
                text = text.read()
            arch = re.search(r"^\.target\s+(\w+)", text, re.M)[1]
            out = {}
            for who, compiler in (("ptxas", self.predict.kit + "/bin/ptxas"), ("ours", self.options.sassafras)):
                out[who] = f"{path[:-4]}.{who}.cubin"
                message, code = call([compiler, "-O3", f"-arch={arch}", path, "-o", out[who]], seconds=SECONDS_BUILD)
                if code != 0:
                    self.problems.append(f"{file} with {who}: {code} {message[-300:]}")
                    out = None
                    break
            for kernel, (size, places) in parameters(text).items():
                lines.append(" ".join([kernel, str(size), *(f"{at}:{bytes_}" for at, bytes_ in places)]))
                if out:
                    cubins[kernel] = out
        with open(f"{self.folder}/kernels", "w") as file:
            file.write("".join(line + "\n" for line in lines))
        return cubins

    def executor(self, cubins):
        """A command that executes a recording: what RECORD_RUN names."""
        path = f"{self.folder}/execute.sh"
        cases = "".join(f"'{kernel}') cubin={shlex.quote(out['ptxas'])} ;;\n" for kernel, out in cubins.items())
        run = f'exec {shlex.quote(self.options.sassafras)} run "$cubin" --recording "$2" --changes "$3" 2>/dev/null'
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\ncase "$1" in\n{cases}*) exit 1 ;;\nesac\n{run}\n')
        return f"sh {shlex.quote(path)}"

    def record(self, command, place, cubins):
        shutil.rmtree(self.recordings, ignore_errors=True)
        os.makedirs(self.recordings)
        environment = dict(os.environ, RECORD_TO=self.recordings, RECORD_KERNELS=f"{self.folder}/kernels")
        if self.options.execute >= 1:
            environment.update(RECORD_RUN=self.executor(cubins), RECORD_SECONDS=str(self.options.execute))
        text, code = call(command, place, self.options.record_limit, environment)
        if refused := re.findall(r"^recorder: (.*)", text, re.M):
            self.problems.append("recording: " + refused[0])
        elif not self.launches():
            self.problems.append(f"recording: no launch; {code} {text[-200:]}")

    def launches(self):
        return sorted(f for f in os.listdir(self.recordings) if f.startswith("launch-"))

    def profile(self, launch, cubins):
        """The row of a launch."""
        recording = f"{self.recordings}/{launch}"
        with open(recording) as file:
            kernel = re.match(r"kernel (\S+)", file.readline())[1]
        row = {"suite": self.suite, "program": self.name, "launch": launch, "kernel": kernel, "plain": report.plain_name(kernel)}
        if kernel not in cubins:
            return dict(row, problem="no code")
        pair = [cubins[kernel]["ours"], cubins[kernel]["ptxas"]]
        command = [self.options.sassafras, "profile", pair[0], "--compare", pair[1], "--recording", recording,
                   "--json", "--budget", str(self.options.budget)]  # fmt: skip
        text, code = call(command, seconds=self.options.profile_limit)
        if code != 0:
            return dict(row, problem="too slow to simulate" if code == "timeout" else text.strip()[-200:])
        found = json.loads(text)[0]
        return dict(row, **row_of(found))

    def run(self):
        os.makedirs(self.folder, exist_ok=True)
        built = None
        if not (self.options.keep and os.path.isdir(self.recordings) and self.launches()):
            built = self.build()
            if not built:
                return []
        cubins = self.compile()
        if built:
            self.record(*built, cubins)
        rows = [self.profile(launch, cubins) for launch in self.launches()]
        if not self.options.keep:
            shutil.rmtree(self.recordings, ignore_errors=True)
        return rows


def row_of(found):
    """What is kept of a comparison."""
    row = {"ratio": found["speed"], "grid": found["a"]["grid"], "block": found["a"]["block"]}
    stalls, operations = {}, {}
    for who, one, sign in (("ours", found["a"], 1), ("ptxas", found["b"], -1)):
        blocks = max(one["simulated_blocks"], 1)
        executed = sum(i["executed"] for i in one["instructions"]) / blocks
        row[who] = {"cycles": one["cycles"], "registers": one["occupancy"]["registers"], "blocks": one["occupancy"]["blocks"],
                    "occupancy": one["occupancy"]["warps"], "executed": round(executed)}  # fmt: skip
        for reason, cycles in one["stall_cycles"].items():
            stalls[reason] = stalls.get(reason, 0) + sign * cycles / blocks
        for i in one["instructions"]:
            words = [word for word in i["text"].split() if not word.startswith("@")]
            operation = words[0].rstrip(";") if words else ""
            operations[operation] = operations.get(operation, 0) + sign * i["executed"] / blocks
    row["stalls"] = largest(stalls)
    row["operations"] = largest(operations)
    return row


def largest(differences, count=6):
    """What differs most, ours less ptxas's for a block."""
    items = [(name, round(value)) for name, value in differences.items() if abs(value) >= 0.5]
    return sorted(items, key=lambda item: (-abs(item[1]), item[0]))[:count]


class Predict:
    def __init__(self, options):
        self.options = options
        self.kit = toolkit(options.cuda, options.work + "/toolkit")
        self.others = {os.path.basename(os.path.abspath(d)): os.path.abspath(d) for d in options.others}
        self.recorder = f"{options.work}/librecorder.so"
        compiler = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
        text, code = call([*compiler, "-I", options.cuda + "/include", f"{HERE}/record/recorder.c", "-o", self.recorder])
        if code != 0:
            sys.exit(f"predict.py: the recorder can't be built: {text}")

    def programs(self):
        names = [] if self.options.no_own else [("bench", f[:-3]) for f in sorted(os.listdir(HERE)) if f.endswith(".cu")]
        for suite, folder in self.others.items():
            names += [(suite, d) for d in sorted(os.listdir(folder)) if os.path.exists(f"{folder}/{d}/Makefile")]
        return [Program(self, suite, name) for suite, name in names if re.search(self.options.only, name)]

    def run(self):
        rows, problems = [], {}
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            programs = self.programs()
            for program, found in zip(programs, pool.map(Program.run, programs)):
                rows += found
                for row in found:
                    print(line_of(row), flush=True)
                if program.problems:
                    problems[f"{program.suite}/{program.name}"] = program.problems
                    print(f"{program.suite}/{program.name}: {'; '.join(program.problems)}", flush=True)
        return {"rows": rows, "problems": problems, "mean": mean(rows)}


def mean(rows):
    """The geometric mean in which programs weigh the same, and of a program launches by ptxas's cycles."""
    programs = {}
    for row in rows:
        if "ratio" in row:
            programs.setdefault((row["suite"], row["program"]), []).append((row["ptxas"]["cycles"], row["ratio"]))
    logs = [sum(c * math.log(r) for c, r in found) / sum(c for c, _ in found) for found in programs.values()]
    return math.exp(sum(logs) / len(logs)) if logs else None


def line_of(row):
    name = f"{row['program']}: {row['plain']}"
    if "ratio" not in row:
        return f"      -  {name}: {row['problem']}"
    pairs = (f"{key} {row['ours'][key]:.0f}/{row['ptxas'][key]:.0f}" for key in ("cycles", "registers", "occupancy", "executed"))
    return f"{row['ratio']:7.3f}  {name:60} {'  '.join(pairs)}"


def text_of(results, worst):
    rows = sorted((row for row in results["rows"] if "ratio" in row), key=lambda row: row["ratio"])
    out = [f"\nThe {min(worst, len(rows))} slowest, ours/ptxas; what a block has more (+) or less (-) with us:"]
    for row in rows[:worst]:
        out.append(line_of(row))
        for key in ("stalls", "operations"):
            out.append(f"         {key}: " + ", ".join(f"{name} {value:+d}" for name, value in row[key]))
    below = sum(row["ratio"] < 0.95 for row in rows)
    above = sum(row["ratio"] > 1.05 for row in rows)
    failed = len(results["rows"]) - len(rows)
    if rows:
        out.append(f"{len(rows)} launches, {failed} not simulated; slower than 0.95: {below}, faster than 1.05: {above}; "
                   f"geometric mean of programs {results['mean']:.4f}")  # fmt: skip
    return "\n".join(out)


def parse():
    p = argparse.ArgumentParser(usage=__doc__, add_help=False)
    p.add_argument("-h", "--help", action="store_true")
    p.add_argument("sassafras", nargs="?", default=f"{ROOT}/target/release/sassafras")
    p.add_argument("--out", default="predict.json")
    p.add_argument("--only", default="")
    p.add_argument("--others", action="append", default=[])
    p.add_argument("--no-own", action="store_true")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--cuda")
    p.add_argument("--work")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--record-limit", type=float, default=20)
    p.add_argument("--execute", type=float, default=8)
    p.add_argument("--budget", type=int, default=300000)
    p.add_argument("--profile-limit", type=float, default=60)
    p.add_argument("--worst", type=int, default=10)
    options = p.parse_args()
    if options.help:
        sys.exit(__doc__)
    find_programs("predict.py", options)
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        options.work = os.path.abspath(options.work or folder)
        os.makedirs(options.work, exist_ok=True)
        results = Predict(options).run()
    with open(options.out, "w") as file:
        json.dump(results, file, indent=1)
    print(text_of(results, options.worst))
    sys.exit(1 if results["problems"] else 0)


if __name__ == "__main__":
    main()

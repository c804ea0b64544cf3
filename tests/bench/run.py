#!/usr/bin/env python3
"""Programs built with nvcc calling ptxas and calling sassafras, timed on this machine's GPU in turns.

    run.py [OPTIONS] [SASSAFRAS]        (default: the sassafras in the folder above this one's)

    --out FILE          the results as JSON (default bench.json)
    --previous FILE     results of an earlier run: says what changed
    --only REGEX        programs whose names match
    --rounds N          runs of each program with each compiler (default 3)
    --limit SECONDS     no round begins a program after this long (default 345); what was measured till then counts
    --others DIR        programs of others, one in each folder: `make ARCH=sm_90 CC=nvcc`, `make run`; the times are
                        those that they print. May be given often; the variable BENCH_OTHERS has them with colons, too
    --others-limit S    seconds for --others, building included (default 300)
    --no-own            without the programs of this folder
    --triton            tests/triton/bench.py, too
    --compiled          tests/triton/compiled_bench.py (torch.compile), too
    --cuda DIR          the toolkit that has bin/nvcc (default: that of the PATH)
    --work DIR          where programs are built (default: a temporary folder)
    --jobs N            builds at a time (default: the processors)
    --build-only        for a machine without a GPU
    --level N           ptxas's and our -O (default 3)

Speeds are in units of ptxas's: above 1, our code is faster. Exit code 0: all programs are right with us that are right
with ptxas. Needs Python 3.8 and no packages.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import report  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WHO = ("ptxas", "ours")
SECONDS_BUILD, SECONDS_RUN = 180, 10


def call(command, cwd=None, seconds=60, environment=None):
    """Exit code (or "timeout") and all that was printed; what a program leaves running ends with it."""
    p = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", start_new_session=True)  # fmt: skip
    try:
        return p.communicate(timeout=seconds)[0], p.returncode
    except subprocess.TimeoutExpired:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return p.communicate()[0], "timeout"


def target_option(source):
    """nvcc's option for the target that a program asks for with `// arch: sm_90a`; sm_90 without."""
    with open(source) as file:
        asked = re.search(r"^// arch: (\w+)", file.read(), re.M)
    arch = asked[1] if asked else "sm_90"
    return f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"


def toolkit(home, folder, assembler=None):
    """A toolkit of links to another, in which `assembler`, if given, is ptxas. nvcc finds its toolkit by where it stands,
    so that it is copied. Toolkits installed by pip have lib where nvcc looks for lib64."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder + "/bin")
    for entry in os.listdir(home):
        if entry != "bin":
            os.symlink(f"{home}/{entry}", f"{folder}/{entry}")
    if not os.path.exists(folder + "/lib64") and os.path.isdir(home + "/lib"):
        os.symlink(home + "/lib", folder + "/lib64")
    for entry in os.listdir(home + "/bin"):
        if entry in ("nvcc", "nvcc.profile"):
            shutil.copy(f"{home}/bin/{entry}", f"{folder}/bin/{entry}")
        elif entry != "ptxas" or not assembler:
            os.symlink(f"{home}/bin/{entry}", f"{folder}/bin/{entry}")
    if assembler:
        shutil.copy(assembler, folder + "/bin/ptxas")
        os.chmod(folder + "/bin/ptxas", 0o755)
    return folder


class Bench:
    def __init__(self, options):
        self.options = options
        self.start = time.time()
        self.results = {"suites": {}, "kernels": {}, "resources": {}, "failures": []}
        self.kits = {
            "ptxas": toolkit(options.cuda, options.work + "/toolkit-ptxas"),
            "ours": toolkit(options.cuda, options.work + "/toolkit-ours", options.sassafras),
        }
        self.pool = concurrent.futures.ThreadPoolExecutor(options.jobs)

    def say(self, text):
        print(f"[{time.time() - self.start:5.0f} s] {text}", flush=True)

    def fail(self, program, who, why):
        if [program, who, why] in self.results["failures"]:
            return
        self.results["failures"].append([program, who, why])
        self.say(f"{program} with {who}: {why}")

    # The programs of this folder.

    def build(self, job):
        name, who = job
        source = f"{HERE}/{name}.cu"
        folder = f"{self.options.work}/{who}/{name}"
        os.makedirs(folder, exist_ok=True)
        command = [f"{self.kits[who]}/bin/nvcc", "-O3", "-std=c++17", target_option(source),
                   f"-Xptxas=-O{self.options.level},-v", "--keep", "--keep-dir", folder, source, "-o", f"{folder}/program"]  # fmt: skip
        text, code = call(command, seconds=SECONDS_BUILD)
        cubins = [f for f in os.listdir(folder) if f.startswith(name) and f.endswith(".cubin")]
        kernels = report.resources_of_log(text)
        if code == 0 and cubins:
            listing, _ = call([self.options.sassafras, "disasm", f"{folder}/{cubins[0]}"])
            for kernel, count in report.count_instructions(listing).items():
                kernels.setdefault(kernel, {})["instructions"] = count
        return name, who, None if code == 0 else f"build: {code} {text[-400:]}", kernels

    def build_all(self, names):
        jobs = [(name, who) for name in names for who in WHO]
        bad = set()
        for name, who, error, kernels in self.pool.map(self.build, jobs):
            for kernel, facts in kernels.items():
                place = self.results["kernels"].setdefault(name, {}).setdefault(report.plain_name(kernel), {})
                place[who] = facts
            if error:
                bad.add(name)
                self.fail(name, who, error)
        self.say(f"{len(names)} programs, {len(names) - len(bad)} build with both")
        return [name for name in names if name not in bad]

    def run_once(self, name, who, rows, resources):
        """Adds what a run prints to the rows; whether it went well."""
        # The driver must not compile in the compiler's place.
        environment = dict(os.environ, CUDA_DISABLE_PTX_JIT="1", CUDA_MODULE_LOADING="LAZY")
        text, code = call([f"{self.options.work}/{who}/{name}/program"], seconds=SECONDS_RUN, environment=environment)
        for line in text.splitlines():
            if found := re.fullmatch(r"(\w+) ([\d.]+) (ok|WRONG)", line):
                row = rows.setdefault(found[1], {"program": name, "ms": {w: [] for w in WHO}, "check": {}})
                row["ms"][who].append(float(found[2]))
                if row["check"].get(who) != "WRONG":
                    row["check"][who] = found[3]
                if found[3] == "WRONG":
                    self.fail(name, who, f"{found[1]}: WRONG")
            elif found := re.fullmatch(r"# (\w+) registers (\d+) local (\d+) shared (\d+) threads (\d+) blocks (\d+)", line):
                keys = ("registers", "local", "shared", "threads", "blocks")
                resources.setdefault(found[1], {})[who] = dict(zip(keys, map(int, found.groups()[1:])))
        if code != 0:
            self.fail(name, who, f"run: {code} {text.strip()[-300:]}")
        return code == 0

    def own(self):
        names = sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".cu"))
        names = [name for name in names if re.search(self.options.only, name)]
        good = self.build_all(names)
        if self.options.build_only:
            return
        rows, resources = {}, self.results["resources"]
        done = 0
        for number in range(self.options.rounds):
            for name in list(good):
                if time.time() - self.start > self.options.limit:
                    self.say(f"time is up: {done} of {self.options.rounds} rounds are whole")
                    break
                order = WHO if number % 2 == 0 else WHO[::-1]
                if not all([self.run_once(name, who, rows, resources) for who in order]):
                    good.remove(name)
            else:
                done += 1
                self.say(f"round {number + 1}")
                continue
            break
        self.results["suites"]["bench"] = rows

    # Others' programs.

    def others(self, folder):
        began = time.time()
        limit = self.options.others_limit
        suite = os.path.basename(os.path.abspath(folder))
        names = sorted(d for d in os.listdir(folder) if os.path.exists(f"{folder}/{d}/Makefile"))
        names = [name for name in names if re.search(self.options.only, name)]

        def command(who, *target):
            return ["make", "-s", *target, "ARCH=sm_90", f"CC={self.kits[who]}/bin/nvcc"]

        def environment(who):
            return dict(os.environ, PATH=f"{self.kits[who]}/bin:{os.environ['PATH']}")

        def build(job):
            name, who = job
            place = f"{self.options.work}/{suite}-{who}/{name}"
            shutil.copytree(f"{folder}/{name}", place, dirs_exist_ok=True)
            if time.time() - began > limit * 0.6:
                return name, who, "no time to build"
            text, code = call(command(who), place, SECONDS_BUILD, environment(who))
            return name, who, None if code == 0 else f"build: {code} {text[-300:]}"

        broken = {(name, who): error for name, who, error in self.pool.map(build, [(n, w) for n in names for w in WHO]) if error}
        for (name, who), error in broken.items():
            if who == "ptxas" or (name, "ptxas") not in broken:
                self.fail(f"{suite}/{name}", who, error)
        names = [name for name in names if not any((name, who) in broken for who in WHO)]
        self.say(f"{suite}: {len(names)} programs build with both")
        if self.options.build_only:
            return
        rows = {}
        texts = {}
        for number in range(self.options.rounds):
            for name in list(names):
                if time.time() - began > limit:
                    break
                for who in WHO if number % 2 == 0 else WHO[::-1]:
                    text, code = call(command(who, "run"), f"{self.options.work}/{suite}-{who}/{name}", SECONDS_RUN, environment(who))
                    texts[name, who] = (code, report.verdict_words(text))
                    if code != 0:
                        if who == "ptxas" and name in names:
                            names.remove(name)
                            self.fail(f"{suite}/{name}", who, f"run: {code}")
                        elif name in names:
                            names.remove(name)
                            self.fail(f"{suite}/{name}", who, f"run: {code} {text.strip()[-200:]}")
                        continue
                    for key, ms in report.printed_times(text).items():
                        row = rows.setdefault(f"{name}: {key}", {"program": name, "ms": {w: [] for w in WHO}, "check": {}})
                        row["ms"][who].append(ms)
                if name in names and texts[name, "ptxas"] != texts[name, "ours"]:
                    self.fail(f"{suite}/{name}", "ours", f"words of failure differ: {texts[name, 'ptxas']} {texts[name, 'ours']}")
        for row in rows.values():
            name = row["program"]
            for who in WHO:
                row["check"][who] = "ok" if texts.get((name, who)) == texts.get((name, "ptxas")) else "WRONG"
        self.results["suites"][suite] = {key: row for key, row in rows.items() if all(row["ms"][who] for who in WHO)}
        self.say(f"{suite}: {len(self.results['suites'][suite])} times that both print")

    # Triton's kernels, and torch.compile's.

    def python_suite(self, suite, script, pattern, unit):
        path = os.path.join(os.path.dirname(HERE), "triton", script)
        text, code = call([sys.executable, path, self.options.sassafras], seconds=self.options.others_limit)
        rows = {}
        for line in text.splitlines():
            if found := re.match(pattern, line):
                ms = {who: [float(found[who]) * unit] for who in WHO}
                rows[found["name"].strip()] = {"program": script, "ms": ms, "check": {who: "ok" for who in WHO}}
        if not rows:
            self.fail(script, "ours", f"{code} {text.strip()[-400:]}")
        self.results["suites"][suite] = rows
        self.say(f"{suite}: {len(rows)} kernels, exit code {code}")

    def run(self):
        options = self.options
        if not options.no_own:
            self.own()
        for folder in options.others:
            self.others(folder)
        if options.triton and not options.build_only:
            self.python_suite("triton", "bench.py", r"(?P<name>.*?) +ptxas +(?P<ptxas>[\d.]+) ms +ours +(?P<ours>[\d.]+) ms", 1)
        if options.compiled and not options.build_only:
            self.python_suite("torch.compile", "compiled_bench.py",
                              r" *[\d.]+ +(?P<ours>[\d.]+) us +ptxas +(?P<ptxas>[\d.]+) us +(?P<name>.*)", 1e-3)  # fmt: skip
        self.results.update(machine_facts(options), seconds=round(time.time() - self.start))


def machine_facts(options):
    """Where and of what the numbers are."""

    def word(command, pattern):
        try:
            found = re.search(pattern, call(command)[0])
        except OSError:
            found = None
        return found[1] if found else "unknown"

    commit = os.path.join(os.path.dirname(HERE), "commit")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": open(commit).read().strip() if os.path.exists(commit) else "unknown",
        "gpu": word(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], r"(.+)"),
        "driver": word(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], r"(.+)"),
        "ptxas": word([options.cuda + "/bin/ptxas", "--version"], r"V([\d.]+)"),
    }


def find_programs(script, options):
    """The command and the toolkit that the options name, or the usual ones, as absolute paths; else an error."""
    options.sassafras = os.path.abspath(options.sassafras)
    if not os.access(options.sassafras, os.X_OK):
        sys.exit(f"{script}: no program {options.sassafras}")
    if not options.cuda:
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        options.cuda = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    options.cuda = os.path.abspath(options.cuda)
    if not os.path.exists(options.cuda + "/bin/nvcc"):
        sys.exit(f"{script}: no bin/nvcc in {options.cuda}: --cuda names the toolkit")


def parse():
    p = argparse.ArgumentParser(usage=__doc__, add_help=False)
    p.add_argument("-h", "--help", action="store_true")
    p.add_argument("sassafras", nargs="?", default=os.path.join(os.path.dirname(HERE), "sassafras"))
    p.add_argument("--out", default="bench.json")
    p.add_argument("--previous")
    p.add_argument("--only", default="")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--limit", type=float, default=345)
    p.add_argument("--others", action="append", default=[d for d in os.environ.get("BENCH_OTHERS", "").split(":") if d])
    p.add_argument("--others-limit", type=float, default=300)
    for switch in ("--no-own", "--triton", "--compiled", "--build-only"):
        p.add_argument(switch, action="store_true")
    p.add_argument("--cuda")
    p.add_argument("--work")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--level", default="3")
    options = p.parse_args()
    if options.help:
        sys.exit(__doc__)
    find_programs("run.py", options)
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        options.work = os.path.abspath(options.work or folder)
        bench = Bench(options)
        bench.run()
    with open(options.out, "w") as file:
        json.dump(bench.results, file, indent=1)
    previous = json.load(open(options.previous)) if options.previous else None
    print(report.text(bench.results, previous))
    ours = [f for f in bench.results["failures"] if f[1] == "ours"]
    theirs = {f[0] for f in bench.results["failures"] if f[1] == "ptxas"}
    sys.exit(1 if any(f[0] not in theirs for f in ours) else 0)


if __name__ == "__main__":
    main()

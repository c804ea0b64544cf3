#!/usr/bin/env python3
"""Times each kernel of whole CUDA programs in the code of several compilers. The programs are built once, without a GPU.

    kernels.py build DIR [OPTIONS] [SASSAFRAS]      (default: the release build of the repository)

    --only REGEX        programs whose names match
    --others DIR        programs of others, too, one in each folder: `make ARCH=sm_90 CC=nvcc`, `make run`. May be given often
    --code NAME=COMMAND one more compiler with its options, beside `ptxas` and `ours`. May be given often
    --cuda DIR          the toolkit that has bin/nvcc (default: that of the PATH)
    --cupti DIR         what has include/cupti.h and lib/libcupti.so.13 (default: the toolkit)
    --jobs N            builds at a time (default: the processors)

    DIR/kernels.py run [OPTIONS]                    on a machine with a GPU and its driver

    --only REGEX        the same
    --out FILE          the results as JSON, for report.py (default kernels.json)
    --rounds N          runs of each program with each code (default 1)
    --limit SECONDS     no program begins after this long (default 400)
    --seconds S         a program is ended so long after its first launch (default 1.2)
    --jobs N            programs that are started at a time (default 5); from its first launch on one has the GPU alone

record/timer.c replaces a program's fat binaries by those of a compiler and writes down how long the GPU takes for each
kernel. A kernel counts with the launch sizes that take most time; its time is the median of the launches. Speeds are in
units of ptxas's: above 1, the code is faster. Exit code 0: all programs run, and those that check their results are right.
Needs Python 3.8, and for `build` nvcc and gcc.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import report  # noqa: E402
from run import HERE, SECONDS_BUILD, call, find_programs, machine_facts, target_option, toolkit  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
SECONDS_RUN = 25
SOURCES = ("*.o", "*.cu", "*.cuh", "*.c", "*.cpp", "*.h", "*.hpp", "Makefile", "CMakeLists.txt", "LICENSE*", "README*")


def fnv(data):
    """FNV-1a, as timer.c has it."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{value:016x}"


class Build:
    def __init__(self, options):
        self.options = options
        self.failed = 0
        dir = options.dir
        for part in ("programs", "code", "lib"):
            shutil.rmtree(f"{dir}/{part}", ignore_errors=True)
            os.makedirs(f"{dir}/{part}")
        self.kit = toolkit(options.cuda, f"{dir}/work/toolkit")
        self.make_shared_runtime()
        self.codes = {"ptxas": [f"{options.cuda}/bin/ptxas"], "ours": [options.sassafras]}
        self.codes.update((name, shlex.split(command)) for name, command in (code.split("=", 1) for code in options.code))

    def fail(self, what, why):
        self.failed += 1
        print(f"{what}: {' '.join(why.split())[-300:]}", flush=True)

    def make_shared_runtime(self):
        """The names that the linker looks for: toolkits installed by pip have the library with its version only."""
        lib = os.path.realpath(self.kit + "/lib64")
        os.unlink(self.kit + "/lib64") if os.path.islink(self.kit + "/lib64") else None
        if os.path.islink(self.kit + "/lib"):
            os.unlink(self.kit + "/lib")
        os.makedirs(self.kit + "/lib64")
        for file in os.listdir(lib):
            os.symlink(f"{lib}/{file}", f"{self.kit}/lib64/{file}")
        runtime = max(file for file in os.listdir(lib) if file.startswith("libcudart.so."))
        if not os.path.lexists(self.kit + "/lib64/libcudart.so"):
            os.symlink(f"{lib}/{runtime}", self.kit + "/lib64/libcudart.so")
        shutil.copy(f"{lib}/{runtime}", f"{self.options.dir}/lib/{runtime}")

    def timer(self):
        cupti, lib = self.options.cupti, f"{self.options.dir}/lib"
        library = max(f for f in os.listdir(cupti + "/lib") if re.fullmatch(r"libcupti\.so\.\d+", f))
        shutil.copy(f"{cupti}/lib/{library}", lib)
        command = ["gcc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{cupti}/include", f"-I{self.options.cuda}/include",
                   f"{HERE}/record/timer.c", "-o", f"{lib}/libtimer.so", f"-L{lib}", f"-l:{library}", "-ldl", "-lpthread"]  # fmt: skip
        text, code = call(command)
        if code != 0:
            sys.exit(f"timer.c: {text}")

    def program(self, job):
        """Builds a program into a folder of its own; what was kept of it, or None."""
        suite, source, name = job
        full = f"{suite}.{name}"
        kept, to = f"{self.options.dir}/work/{full}", f"{self.options.dir}/programs/{full}"
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        nvcc = [f"{self.kit}/bin/nvcc", "-cudart", "shared", "--keep", "--keep-dir", kept]
        if suite == "bench":
            os.makedirs(to)
            text, code = call([*nvcc, "-O3", "-std=c++17", target_option(source), source, "-o", f"{to}/main"], seconds=SECONDS_BUILD)
            run = "./main"
        else:
            place = f"{kept}/source"
            shutil.copytree(source, place)
            make = ["make", "-s", "ARCH=sm_90", "CC=" + shlex.join(nvcc)]
            text, code = call(make, place, SECONDS_BUILD)
            run = call([*make, "-n", "run"], place)[0]
            shutil.copytree(place, to, ignore=shutil.ignore_patterns(*SOURCES))
        if code != 0:
            wrong = re.findall(r".*(?:error|undefined reference).*", text)
            self.fail(full, f"build: {code} {wrong[0] if wrong else text}")
            shutil.rmtree(to)
            return None
        with open(f"{to}/command", "w") as file:
            file.write(run)
        return full, kept

    def compile(self, job):
        """A fat binary with the code of one compiler, named by the one that it replaces."""
        full, own, who = job
        with open(own, "rb") as file:
            data = file.read()
        header, rest = struct.unpack_from("<6xHQ", data)
        to = f"{self.options.dir}/code/{who}/{fnv(data[: header + rest])}"
        ptx, cubin = f"{own[:-7]}.ptx", f"{own[:-7]}.{who}.cubin"
        with open(ptx) as text:
            arch = re.search(r"^\.target\s+(\w+)", text.read(), re.M)[1]
        text, code = call([*self.codes[who], "-O3", f"-arch={arch}", ptx, "-o", cubin], seconds=SECONDS_BUILD)
        if code == 0:
            command = [f"{self.options.cuda}/bin/fatbinary", f"--create={to}", "-64", f"--image3=kind=elf,sm={arch[3:]},file={cubin}"]
            text, code = call(command)
        if code != 0:
            self.fail(f"{full} with {who}", text)

    def run(self):
        options = self.options
        self.timer()
        jobs = [("bench", f"{HERE}/{f}", f[:-3]) for f in sorted(os.listdir(HERE)) if f.endswith(".cu")]
        for folder in options.others:
            suite = os.path.basename(os.path.abspath(folder))
            jobs += [(suite, f"{folder}/{d}", d) for d in sorted(os.listdir(folder)) if os.path.exists(f"{folder}/{d}/Makefile")]
        jobs = [job for job in jobs if re.search(options.only, job[2])]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            built = [both for both in pool.map(self.program, jobs) if both]
            binaries = [(full, f"{kept}/{f}") for full, kept in built for f in sorted(os.listdir(kept))
                        if f.endswith(".fatbin") and not f.endswith("_dlink.fatbin")]  # fmt: skip
            for who in self.codes:
                os.makedirs(f"{options.dir}/code/{who}")
            list(pool.map(self.compile, [(full, own, who) for full, own in binaries for who in self.codes]))
        for script in ("kernels.py", "run.py", "report.py"):
            shutil.copy(f"{HERE}/{script}", options.dir)
        commit = call(["git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--dirty=+"])[0]
        with open(f"{options.dir}/commit", "w") as file:
            file.write(commit)
        shutil.rmtree(f"{options.dir}/work")
        print(f"{len(built)} programs, {len(binaries)} fat binaries, {len(self.codes)} compilers in {options.dir}; `python3 kernels.py run` there")


class Run:
    def __init__(self, options):
        self.options = options
        self.start = time.time()
        self.codes = sorted(os.listdir(HERE + "/code"), key=lambda who: (who != "ptxas", who != "ours", who))
        # Of each program and code: what its runs wrote, and whether they went well.
        self.times, self.failures = {}, []

    def one(self, job):
        program, who, number = job
        if time.time() - self.start > self.options.limit:
            return
        times, folder = f"/tmp/times.{os.getpid()}.{program}.{who}.{number}", f"{HERE}/programs/{program}"
        environment = dict(
            os.environ, LD_PRELOAD=HERE + "/lib/libtimer.so", CUDA_INJECTION64_PATH=HERE + "/lib/libtimer.so",
            LD_LIBRARY_PATH=f"{HERE}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}", CODE=f"{HERE}/code/{who}", TIMES=times,
            TIMER_SECONDS=str(self.options.seconds), GPU_LOCK="/tmp/kernels.lock", CUDA_DISABLE_PTX_JIT="1",
        )  # fmt: skip
        text, code = call(["bash", f"{folder}/command"], folder, SECONDS_RUN, environment)
        written = ""
        if os.path.exists(times):
            with open(times) as file:
                written = file.read()
            os.unlink(times)
        if code != 0:
            self.failures.append([program, who, f"run: {code} {text.strip()[-300:]}"])
        elif wrong := re.findall(r"^(\w+) [\d.]+ WRONG$", text, re.M):
            self.failures.append([program, who, f"{', '.join(wrong)}: WRONG"])
        elif not re.match(r"# swapped [1-9]\d* kept 0\n", written):
            self.failures.append([program, who, f"its own code ran: {written.splitlines()[:1]}"])
        else:
            self.times.setdefault(program, {}).setdefault(who, []).append(parse_times(written))

    def rows(self, program, resources):
        """A row for each kernel that all codes have times of."""
        codes = self.times.get(program, {})
        if not all(who in codes for who in self.codes):
            return
        largest = {}
        for key, entry in codes["ptxas"][0].items():
            if all(key in times for runs in codes.values() for times in runs):
                symbol = key[0]
                if symbol not in largest or entry["sum"] > codes["ptxas"][0][largest[symbol]]["sum"]:
                    largest[symbol] = key
        for symbol, key in largest.items():
            name = report.plain_name(symbol)
            label = name if program.endswith("." + name) else f"{program.split('.', 1)[1]}: {name}"
            # Instances of a template.
            same = [other for other in largest if report.plain_name(other) == name]
            label += f" ({same.index(symbol) + 1})" if len(same) > 1 else ""
            resources[label] = {who: {"registers": codes[who][0][key]["registers"]} for who in self.codes}
            ms = {who: [times[key]["median"] / 1e6 for times in codes[who]] for who in self.codes}
            yield label, {"program": program, "ms": ms, "check": {who: "ok" for who in self.codes}}

    def run(self):
        options = self.options
        programs = [p for p in sorted(os.listdir(HERE + "/programs")) if re.search(options.only, p)]
        jobs = []
        for number in range(options.rounds):
            for index, program in enumerate(programs):
                turn = self.codes if (index + number) % 2 == 0 else self.codes[::-1]
                jobs += [(program, who, number) for who in turn]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(self.one, jobs))
        results = {"suites": {}, "kernels": {}, "resources": {}, "failures": self.failures, "codes": self.codes}
        for program in programs:
            suite = results["suites"].setdefault(program.split(".", 1)[0], {})
            suite.update(self.rows(program, results["resources"]))
        results.update(machine_facts(options), seconds=round(time.time() - self.start))
        with open(HERE + "/commit") as file:
            results["commit"] = file.read().strip()
        return results


def parse_times(text):
    """By name, grid and block of a kernel what timer.c wrote; launches that the GPU has no time of left out."""
    times = {}
    for line in text.splitlines()[1:]:
        name, grid, block, registers, launches, total, least, median = line.split("|")
        if float(least) > 0:
            times[name, grid, block] = {"registers": int(registers), "launches": int(launches), "sum": float(total), "median": float(median)}
    return times


def speeds(results):
    """A line for each suite and code."""
    for suite, rows in results["suites"].items():
        for who in results["codes"][1:]:
            of = [min(row["ms"]["ptxas"]) / min(row["ms"][who]) for row in rows.values()]
            yield f"{suite}, {who}: {len(of)} kernels, speed {report.mean(of):.4f} in the geometric mean, {sum(s < 0.95 for s in of)} below 0.95"


def parse():
    p = argparse.ArgumentParser(usage=__doc__, add_help=False)
    p.add_argument("-h", "--help", action="store_true")
    p.add_argument("job", nargs="?", choices=["build", "run"])
    p.add_argument("dir", nargs="?")
    p.add_argument("sassafras", nargs="?", default=f"{ROOT}/target/release/sassafras")
    p.add_argument("--only", default="")
    p.add_argument("--others", action="append", default=[])
    p.add_argument("--code", action="append", default=[])
    p.add_argument("--cuda")
    p.add_argument("--cupti")
    p.add_argument("--jobs", type=int)
    p.add_argument("--out", default="kernels.json")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--limit", type=float, default=400)
    p.add_argument("--seconds", type=float, default=1.2)
    options = p.parse_intermixed_args()
    if options.help or not options.job or (options.job == "build") != bool(options.dir):
        sys.exit(__doc__)
    if options.job == "build":
        find_programs("kernels.py", options)
        options.dir, options.jobs = os.path.abspath(options.dir), options.jobs or os.cpu_count()
        options.cupti = os.path.abspath(options.cupti or options.cuda)
        if not os.path.exists(options.cupti + "/include/cupti.h"):
            sys.exit(f"kernels.py: no include/cupti.h in {options.cupti}: --cupti names a folder (package nvidia-cuda-cupti)")
    else:
        options.jobs, options.cuda = options.jobs or 5, options.cuda or "/usr/local/cuda"
    return options


def main():
    options = parse()
    if options.job == "build":
        build = Build(options)
        build.run()
        sys.exit(1 if build.failed else 0)
    results = Run(options).run()
    with open(options.out, "w") as file:
        json.dump(results, file, indent=1)
    print(report.text(results))
    print("\n".join(speeds(results)))
    sys.exit(1 if results["failures"] else 0)


if __name__ == "__main__":
    main()

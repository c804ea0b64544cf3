#!/usr/bin/env python3
"""Which pipe of a sub-core does an instruction take, and for how long? Pairs of instructions, each on chains of its own.

    pipes.py build SASSAFRAS PTXAS DIR      cubins, and DIR/names.json; needs no GPU
    pipes.py run DIR [NAME...]              on the GPU: cycles of an instruction, as JSON

ptxas compiles the throughput program of LOP3 (programs.py: four chains, a block of 1024 threads); in its listing every
LOP3 is replaced by the instructions of a pattern in turn, with a stall of 2 cycles. Two instructions of one pipe take the
sum of both, of different pipes the longer time. The chains are in R6, R13, R15 and R17 beside R7 and R0, as ptxas chose
them: two operands in the same register bank take a cycle more, so that FADD alone takes 1.75 and not 1 cycle. Needs
Python 3.10.
"""

import ctypes
import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import programs  # noqa: E402

ROUNDS, THREADS, WARPS_OF_SUBCORE = 1024, 1024, 8
# `d` is the register of the chain, `D` a pair.
INSTRUCTIONS = {
    "lop3": "LOP3.LUT d, d, R7, R0, 0x96, !PT", "iadd3": "IADD3 d, d, R7, RZ", "iadd3c": "IADD3 d, P1, d, R7, RZ",
    "iadd3x": "IADD3.X d, d, R7, RZ, P1, !PT", "viadd": "VIADD d, d, R7", "viaddi": "VIADD d, d, 0x1000",
    "pviadd": "@P1 VIADD d, d, 0x1000", "imad": "IMAD d, d, R7, R0", "imadmov": "IMAD.MOV.U32 d, RZ, RZ, d",
    "imadiadd": "IMAD.IADD d, d, 0x1, R7", "pimad": "@P1 IMAD.IADD d, d, 0x1, R7", "imadshl": "IMAD.SHL.U32 d, d, 0x2, RZ",
    "imadx": "IMAD.X d, d, 0x1, R7, P1", "hi": "IMAD.HI.U32 d, d, R7, RZ", "wide": "IMAD.WIDE.U32 D, R7, R0, D",
    "ffma": "FFMA d, d, R7, R0", "fadd": "FADD d, d, R7", "fmul": "FMUL d, d, R7", "fsetp": "FSETP.GT.AND P1, PT, d, R7, PT",
    "isetp": "ISETP.GT.AND P1, PT, d, R7, PT", "sel": "SEL d, d, R7, P1", "fsel": "FSEL d, d, R7, P1", "mov": "MOV d, d",
    "prmt": "PRMT d, d, 0x5410, R7", "shf": "SHF.L.U32 d, d, 0x1, RZ", "lea": "LEA d, d, R7, 0x2", "iabs": "IABS d, d",
    "leahi": "LEA.HI d, d, R7, RZ, 0x2", "vimnmx": "VIMNMX d, d, R7, PT", "viaddmnmx": "VIADDMNMX d, d, R7, R0, PT",
    "fmnmx": "FMNMX d, d, R7, PT", "hfma2": "HFMA2 d, d, R7, R0", "hadd2": "HADD2 d, d, R7", "hmul2": "HMUL2 d, d, R7",
    "hset": "HSETP2.GT.AND P1, PT, d, R7, PT", "hmnmx2": "HMNMX2 d, d, R7, PT", "i2fp": "I2FP.F32.S32 d, d",
    "f2fp": "F2FP.F16.F32.PACK_AB d, d, R7", "idp": "IDP.4A.S8.S8 d, d, R7, R0", "plop3": "PLOP3.LUT P1, PT, P1, PT, PT, 0x80, 0x0",
    "dfma": "DFMA D, D, R4, D", "mufu": "MUFU.EX2 d, d",
}  # fmt: skip
PAIRS = """viadd+lop3 viadd+iadd3 viadd+ffma viadd+fadd viadd+imad viadd+imadmov viadd+hfma2 imadiadd+ffma imad+ffma imad+fadd
    lop3+ffma lop3+imad lop3+hfma2 fsetp+lop3 fsetp+ffma fsetp+viadd fsetp+pviadd fsetp+pimad isetp+lop3 sel+lop3 prmt+lop3
    shf+lop3 i2fp+lop3 i2fp+ffma fmnmx+lop3 fadd+ffma fmul+ffma hfma2+ffma hfma2+imad hadd2+ffma hmul2+ffma mov+lop3 mov+ffma
    f2fp+lop3 f2fp+ffma iadd3x+imadx plop3+lop3 vimnmx+ffma fsel+ffma fsel+lop3 lea+ffma iabs+ffma wide+ffma wide+lop3
    wide+viadd wide+imad wide+iadd3 wide+iadd3c hi+ffma hi+lop3 dfma+lop3 dfma+ffma dfma+imad mufu+lop3 mufu+ffma""".split()
COUNTS = (programs.SHORT, programs.LONG)


def listing_with(listing, pattern):
    """The listing with the instructions of a pattern in place of each LOP3 of the chains."""
    lines, number = [], 0
    for line in listing.splitlines():
        found = re.match(r"(\s+/\*[0-9a-f]+\*/ \S+):[Y-]:\d\d\s+LOP3\.LUT (R\d+), .*0x96, !PT ;", line)
        if found:
            text = re.sub(r"\bd\b", found[2], INSTRUCTIONS[pattern[number % len(pattern)]])
            text = re.sub(r"\bD\b", ("R8", "R12", "R14", "R16")[number % 4], text)
            line, number = f"{found[1]}:-:02  {text} ;", number + 1
        lines.append(line)
    return "\n".join(lines) + "\n"


def build(sassafras, ptxas, folder):
    folder.mkdir(parents=True, exist_ok=True)
    program = next(p for p in programs.programs() if p.name == "lop3.throughput")
    names = [*INSTRUCTIONS, *PAIRS]
    for count in COUNTS:
        source, cubin, text = (folder / f"lop3.{count}{end}" for end in (".ptx", "", ".sass"))
        source.write_text(program.ptx(count))
        subprocess.run([ptxas, "-arch=sm_90a", "-O3", source, "-o", cubin], check=True)
        listing = subprocess.run([sassafras, "disasm", cubin], check=True, capture_output=True, text=True).stdout
        for name in names:
            text.write_text(listing_with(listing, name.split("+")))
            subprocess.run([sassafras, "asm", text, "--into", cubin, "-o", folder / f"{name}.{count}.cubin"], check=True)
    (folder / "names.json").write_text(json.dumps(names))


def run(folder, names):
    """A process for each: what the machine refuses ends its context."""
    results = {}
    for name in names or json.loads((folder / "names.json").read_text()):
        done = subprocess.run([sys.executable, __file__, "one", folder, name], capture_output=True, text=True)
        results[name] = round(float(done.stdout), 2) if done.returncode == 0 else done.stderr.strip()[-80:]
    print(json.dumps(results, indent=1))


def one(folder, name):
    from driver import Driver

    driver = Driver()
    out, data = driver.copy_in(bytes(8 * THREADS)), driver.copy_in(bytes(4096))
    values = [ctypes.c_uint64(out), ctypes.c_uint64(data), ctypes.c_uint32(ROUNDS), ctypes.c_uint32(4)]

    def cycles(count):
        driver.launch((folder / f"{name}.{count}.cubin").read_bytes(), "bench", [1, 1, 1], THREADS, 0, values)
        raw = driver.copy_out(out, 8 * THREADS)
        return max(int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8))

    short, long = (min(cycles(count) for _ in range(5)) for count in COUNTS)
    print((long - short) / ((COUNTS[1] - COUNTS[0]) * ROUNDS * WARPS_OF_SUBCORE))


def main():
    match sys.argv[1:]:
        case ["build", sassafras, ptxas, folder]:
            build(sassafras, ptxas, pathlib.Path(folder))
        case ["run", folder, *names]:
            run(pathlib.Path(folder), names)
        case ["one", folder, name]:
            one(pathlib.Path(folder), name)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

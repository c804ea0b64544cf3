"""The installed package, from outside: `cargo xtask wheel` builds the wheel and runs this in a fresh environment."""

import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sassafras

SAXPY = (pathlib.Path(__file__).parents[3] / "examples/saxpy.ptx").read_text()


def saxpy(program, **options):
    x, y = np.arange(100, dtype=np.float32), np.ones(100, dtype=np.float32)
    sassafras.run(program, "saxpy", grid=4, block=32, args=[100, 2.0, x, y], **options)
    return y


def test_compile():
    cubin = sassafras.compile(SAXPY, arch="sm_90")
    assert cubin[:4] == b"\x7fELF"
    assert cubin == sassafras.compile(SAXPY.encode()), "the target of the text is sm_90"
    assert cubin != sassafras.compile(SAXPY, arch="sm_90", opt_level=0)
    assert sassafras.compile(SAXPY, debug=True) != sassafras.compile(SAXPY, line_info=True)


def test_errors_have_diagnostics():
    line = next(number for number, text in enumerate(SAXPY.splitlines(), 1) if "ret;" in text)
    with pytest.raises(sassafras.CompileError) as caught:
        sassafras.compile(SAXPY.replace("ret;", "rest;"), arch="sm_90")
    first = caught.value.diagnostics[0]
    assert (first.severity, first.line) == ("error", line)
    assert "'rest'" in first.message and str(line) in str(caught.value)
    for arch in ("sm_75", "sm_1", "x"):
        with pytest.raises(sassafras.CompileError):
            sassafras.compile(SAXPY, arch=arch)


def test_limits():
    with pytest.raises(sassafras.CompileError, match="time limit"):
        sassafras.compile(SAXPY, time_limit=0)
    with pytest.raises(sassafras.CompileError, match="memory limit"):
        sassafras.compile(SAXPY, memory_limit=1000)
    assert sassafras.compile(SAXPY, time_limit=600, memory_limit=1 << 30) == sassafras.compile(SAXPY)


def test_threads_get_the_same():
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: sassafras.compile(SAXPY), range(64)))) == 1


def test_look_into_it():
    cubin = sassafras.compile(SAXPY)
    assert "FFMA" in sassafras.disassemble(cubin)
    assert "/*0000*/" in sassafras.disassemble(cubin, "nvdisasm")
    kernel = sassafras.inspect(cubin)["images"][0]["cubin"]["kernels"][0]
    assert kernel["name"] == "saxpy" and kernel["registers"] > 0
    assert sassafras.verify(cubin) == []
    for call in (sassafras.disassemble, sassafras.inspect, sassafras.verify):
        with pytest.raises(ValueError):
            call(b"no cubin")


@pytest.mark.parametrize("options", [{}, {"opt_level": 0}, {"opt_level": 3}, {"races": True}, {"weak": 1}])
def test_run(options):
    assert np.array_equal(saxpy(SAXPY, **options), 1 + 2 * np.arange(100, dtype=np.float32))


def test_run_a_cubin():
    expected = saxpy(SAXPY)
    assert np.array_equal(saxpy(sassafras.compile(SAXPY)), expected)


def test_one_array_twice_is_one_memory():
    x = np.arange(8, dtype=np.float32)
    sassafras.run(SAXPY, "saxpy", block=8, args=[8, 2.0, x, x])
    assert np.array_equal(x, 3 * np.arange(8, dtype=np.float32))
    every_second = np.zeros((8, 2), dtype=np.float32)
    sassafras.run(SAXPY, "saxpy", block=8, args=[8, 1.0, x, every_second[:, 1]])
    assert np.array_equal(every_second[:, 1], x) and not every_second[:, 0].any()


def test_run_checks_what_it_is_given():
    x = np.zeros(4, dtype=np.float32)
    with pytest.raises(TypeError):
        sassafras.run(SAXPY, "saxpy", args=[1])
    with pytest.raises(ValueError):
        sassafras.run(SAXPY, "no_such_kernel")
    with pytest.raises(sassafras.Fault, match="address|memory|bounds"):
        sassafras.run(SAXPY, "saxpy", grid=4, block=32, args=[np.uint32(100), np.float32(2), x, x])


def test_command(tmp_path):
    source, cubin = tmp_path / "saxpy.ptx", tmp_path / "saxpy.cubin"
    source.write_text(SAXPY)
    command = [sys.executable, "-m", "sassafras", "ptxas", "-arch=sm_90", str(source), "-o", str(cubin)]
    subprocess.run(command, check=True)
    assert cubin.read_bytes()[:4] == b"\x7fELF"
    source.write_text("nothing")
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 255 and "fatal" in failed.stderr
    listing = subprocess.run([sys.executable, "-m", "sassafras", "disasm", str(cubin)], capture_output=True, text=True)
    assert "FFMA" in listing.stdout


def test_triton_calls_it(tmp_path):
    path = sassafras.use_with_triton()
    assert os.environ["TRITON_PTXAS_PATH"] == os.environ["TRITON_PTXAS_BLACKWELL_PATH"] == path
    # What Triton does with it.
    version = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
    assert "release 13.0" in version
    source = tmp_path / "k.ptx"
    source.write_text(SAXPY)
    words = ["-lineinfo", "-v", "--gpu-name=sm_90a", str(source), "-o", str(source) + ".o"]
    subprocess.run([path, *words], check=True, capture_output=True)
    from sassafras import _launcher

    subprocess.run([_launcher._script(), *words], check=True, capture_output=True)


def test_types():
    assert (pathlib.Path(sassafras.__file__).parent / "py.typed").exists()
    assert all(hasattr(sassafras, name) for name in sassafras.__all__)

"""The Python package and the C library on a GPU: Triton through `use_with_triton`, and a kernel that is compiled in
process, by `sassafras.compile` and by nvJitLink's functions of libsassafras, and launched by CuPy.

    gpu.py LIBSASSAFRAS

in an environment with the wheel, Triton, PyTorch and CuPy. Exit code 0: all results are right, and every cubin of
Triton's is ours.
"""

import ctypes
import os
import pathlib
import sys
import tempfile

cache = os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="triton-")

import cupy
import numpy as np
import sassafras
import torch

sassafras.use_with_triton()
import triton
import triton.language as tl

SAXPY = (pathlib.Path(__file__).parents[2] / "examples/saxpy.ptx").read_bytes()


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def matmul(a, b, c, K, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def by_triton():
    x, y = torch.rand(98765, device="cuda"), torch.rand(98765, device="cuda")
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    assert torch.equal(out, x + y)
    size = 1024
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    matmul[(size // 128, size // 128)](a, b, c, size, N=size, BM=128, BN=128, BK=64)
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)
    cubins = list(pathlib.Path(cache).rglob("*.cubin"))
    ours = [cubin for cubin in cubins if b"sassafras" in cubin.read_bytes()]
    assert cubins and len(ours) == len(cubins), f"{len(ours)} of {len(cubins)} cubins are ours"
    print(f"Triton: vector add and matmul are right, {len(ours)} cubins, all ours")


def launch(cubin):
    module = cupy.cuda.function.Module()
    module.load(cubin)
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, dtype=cupy.float32)
    module.get_function("saxpy")((8,), (128,), (np.uint32(1000), np.float32(2), x, y))
    assert (y == 1 + 2 * x).all()


def by_nvjitlink(library):
    link = ctypes.CDLL(library)
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 1)(b"-arch=sm_90")
    calls = [
        lambda: link.__getattr__("__nvJitLinkCreate_13_0")(ctypes.byref(handle), 1, options),
        lambda: link.nvJitLinkAddData(handle, 2, SAXPY, ctypes.c_size_t(len(SAXPY)), b"saxpy"),
        lambda: link.nvJitLinkComplete(handle),
        lambda: link.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)),
    ]
    assert [call() for call in calls] == [0, 0, 0, 0]
    cubin = ctypes.create_string_buffer(size.value)
    assert link.nvJitLinkGetLinkedCubin(handle, cubin) == 0
    assert link.nvJitLinkDestroy(ctypes.byref(handle)) == 0
    return cubin.raw


def main():
    by_triton()
    launch(sassafras.compile(SAXPY, arch="sm_90"))
    launch(by_nvjitlink(sys.argv[1]))
    print("CuPy: kernels of sassafras.compile and of nvJitLink's functions are right")


if __name__ == "__main__":
    main()

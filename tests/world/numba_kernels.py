"""Numba's kernels as PTX, without a GPU: python numba_ptx.py OUT. Needs numba-cuda, nvidia-nvvm and nvidia-cuda-runtime."""
import math, sys, warnings
from pathlib import Path
from numba import complex64, cuda, float32, float64, int8, int32, int64, uint8, uint32, uint64
warnings.filterwarnings("ignore")
OUT = Path(sys.argv[1])

def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]

def grid_stride(x, y):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        y[i] = math.sqrt(x[i]) + math.sin(x[i]) / (1 + math.exp(x[i])) + x[i] ** 3

def matmul(a, b, c):
    sa = cuda.shared.array((16, 16), float32)
    sb = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(a.shape[1] // 16):
        sa[tx, ty] = a[x, ty + k * 16]
        sb[tx, ty] = b[tx + k * 16, y]
        cuda.syncthreads()
        for j in range(16):
            total += sa[tx, j] * sb[j, ty]
        cuda.syncthreads()
    c[x, y] = total

def reduce_warp(x, y):
    i = cuda.grid(1)
    v = x[i]
    d = 16
    while d > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, d)
        d //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(y, 0, v)

def votes(x, y):
    i = cuda.grid(1)
    m = cuda.ballot_sync(0xFFFFFFFF, x[i] > 0)
    y[i] = cuda.popc(m) + cuda.ffs(m) + cuda.clz(m) + cuda.brev(m)
    cuda.syncwarp()

def atomics(x, y):
    i = cuda.grid(1)
    cuda.atomic.max(y, i % 8, x[i])
    cuda.atomic.min(y, i % 7, x[i])
    cuda.atomic.add(y, i % 5, x[i])
    cuda.atomic.exch(y, i % 3, x[i])
    cuda.atomic.cas(y, i % 2, x[i], x[0])
    cuda.threadfence()

def dynamic(x, y):
    s = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    y[i] = s[cuda.blockDim.x - 1 - i]

def local(x, y):
    s = cuda.local.array(32, float64)
    i = cuda.grid(1)
    for k in range(32):
        s[k] = x[(i + k) % x.size]
    t = 0.0
    for k in range(32):
        t += s[int(x[k]) % 32]
    y[i] = t

def checked(x, y):
    i = cuda.grid(1)
    assert i < x.size
    if x[i] == 0:
        raise ValueError("zero")
    y[i] = x[i] // (x[i] - 3)
    print("value", y[i])

def complexes(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * x[i] + x[i] / (x[i] + 1j)

def bits(x, y):
    i = cuda.grid(1)
    y[i] = ((x[i] << 3) ^ (x[i] >> 2)) % 17 + (x[i] & 7) * (x[i] | 9)

def constants(x, y):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    y[i] = table[int(x[i]) % 8]

import numpy as np
TABLE = np.arange(8, dtype=np.float32)

JOBS = []
for t in (float32, float64):
    JOBS += [(saxpy, (t, t[:], t[:])), (grid_stride, (t[:], t[:])), (reduce_warp, (t[:], t[:])), (local, (t[:], t[:]))]
for t in (int32, int64, uint32, uint64, int8, uint8):
    JOBS += [(saxpy, (t, t[:], t[:])), (bits, (t[:], t[:]))]
for t in (int32, int64, uint32, uint64):
    JOBS += [(atomics, (t[:], t[:]))]
JOBS += [(matmul, (float32[:, :],) * 3), (votes, (int32[:], int32[:])), (dynamic, (float32[:],) * 2)]
JOBS += [(checked, (int32[:], int32[:])), (complexes, (complex64[:],) * 2), (constants, (float32[:],) * 2)]
for cc in ((7, 5), (8, 0), (9, 0), (10, 0), (12, 0)):
    for job, signature in JOBS:
        for debug in (False, True):
            name = f"{job.__name__}.{signature[-1].dtype}.{'g' if debug else 'O'}.{cc[0]}{cc[1]}"
            try:
                ptx = cuda.compile_ptx(job, signature, debug=debug, opt=not debug, cc=cc)[0]
                (OUT / f"{name}.ptx").write_text(ptx)
            except Exception as error:
                print(name, type(error).__name__, str(error)[:100].replace("\n", " "))

"""Triton kernels of the kinds that its tutorials teach, each checked against PyTorch.

    kernels.py [NAME...]

Prints a line per case, `NAME pass` or `NAME FAIL why`; leaves with 1 if one failed. The compiler under test is the one
that TRITON_PTXAS_PATH names.
"""

import sys

import cases
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

CASES = {}


def case(*arguments):
    """Registers a check under its function's name and its arguments."""

    def register(function):
        name = "-".join([function.__name__, *(str(a).replace("torch.", "") for a in arguments)])
        CASES[name] = lambda: function(*arguments)
        return function

    return register


def near(actual, expected, absolute, relative=0.0):
    torch.testing.assert_close(actual.float(), expected.float(), atol=absolute, rtol=relative)


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def workspace(size, alignment, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


# ---------------------------------------------------------------- one pass over memory


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@case()
def vector_add():
    x, y = random(98432), random(98432)
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    assert torch.equal(out, x + y)


@triton.jit
def softmax_kernel(x, out, stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        value = tl.load(x + row * stride + column, mask=inside, other=-float("inf"))
        power = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + row * stride + column, power / tl.sum(power, axis=0), mask=inside)


@case(781, 2)
@case(4096, 4)
def softmax(columns, stages):
    x = random(1823, columns)
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    softmax_kernel[(264,)](x, out, x.stride(0), 1823, columns, BLOCK=block, STAGES=stages, num_warps=8)
    near(out, torch.softmax(x, 1), 1e-6)


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=inside) / (1 - p), 0.0), mask=inside)


def philox_uniform(seed, count):
    """What tl.rand gives for the offsets below `count`: Philox 4x32 with ten rounds."""
    mask = 0xFFFFFFFF
    counter = [torch.arange(count, dtype=torch.int64), *(torch.zeros(count, dtype=torch.int64) for _ in range(3))]
    key = [seed & mask, seed >> 32]

    def multiply(constant, word):
        low, high = (word & 0xFFFF) * constant, (word >> 16) * constant
        product = high + (low >> 16)
        return product >> 16, ((product & 0xFFFF) << 16) | (low & 0xFFFF)

    for _ in range(10):
        a, b = multiply(0xD2511F53, counter[0]), multiply(0xCD9E8D57, counter[2])
        counter = [b[0] ^ counter[1] ^ key[0], b[1], a[0] ^ counter[3] ^ key[1], a[1]]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    bits = counter[0]
    positive = torch.where(bits >= 1 << 31, mask - bits, bits)
    return positive.to(torch.float32) * 4.6566127342e-10


@case()
def dropout():
    x = random(100_000)
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), 0.3, 123, BLOCK=1024)
    keep = (philox_uniform(123, x.numel()) > 0.3).cuda()
    near(out, torch.where(keep, x / 0.7, torch.zeros_like(x)), 1e-5)


@triton.jit
def library_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside)
    tl.store(out + at, libdevice.asin(value) + libdevice.cbrt(value) + libdevice.erf(value), mask=inside)


@case(torch.float32)
@case(torch.float64)
def library_functions(dtype):
    x = (torch.rand(98432, device="cuda") * 2 - 1).to(dtype)
    out = torch.empty_like(x)
    library_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    near(out, torch.asin(x) + x.sign() * x.abs() ** (1 / 3) + torch.erf(x), 1e-5)


# ---------------------------------------------------------------- layer norm with locks in its backward pass


@triton.jit
def norm_forward(x, y, w, b, mean, scale, columns, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    mu = tl.sum(value, axis=0) / columns
    centred = tl.where(inside, value - mu, 0.0)
    r = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    tl.store(mean + row, mu)
    tl.store(scale + row, r)
    weight, bias = tl.load(w + column, mask=inside), tl.load(b + column, mask=inside)
    tl.store(y + row * columns + column, centred * r * weight + bias, mask=inside)


@triton.jit
def norm_backward(dx, dy, dw, db, x, w, mean, scale, lock, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(dy + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(w + column, mask=inside).to(tl.float32)
    mu, r = tl.load(mean + row), tl.load(scale + row)
    normal = tl.where(inside, (value - mu) * r, 0.0)
    weighted = tl.where(inside, weight * slope, 0.0)
    along = tl.sum(normal * weighted, axis=0) / columns
    level = tl.sum(weighted, axis=0) / columns
    tl.store(dx + row * columns + column, (weighted - (normal * along + level)) * r, mask=inside)
    # Rows of a group add to one partial sum under a lock; the first of them finds nothing there.
    group = row % GROUPS
    count = lock + GROUPS + group
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    part_w, part_b = slope * normal, slope
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw + group * columns + column, mask=inside)
        part_b += tl.load(db + group * columns + column, mask=inside)
    tl.store(dw + group * columns + column, part_w, mask=inside)
    tl.store(db + group * columns + column, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def norm_sum(part, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    column = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for first in range(0, rows, M):
        row = first + tl.arange(0, M)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.load(part + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(total, axis=0), mask=column < columns)


@case(torch.float32)
@case(torch.float16)
def layer_norm(dtype):
    rows, columns, groups = 1151, 1000, 64
    x, dy = random(rows, columns, dtype=dtype), 0.1 * random(rows, columns, dtype=dtype)
    w, b = random(columns, dtype=dtype), random(columns, dtype=dtype)
    y, dx = torch.empty_like(x), torch.empty_like(x)
    mean, scale = (torch.empty(rows, device="cuda") for _ in range(2))
    dw, db = (torch.zeros(groups, columns, device="cuda") for _ in range(2))
    lock = torch.zeros(2 * groups, device="cuda", dtype=torch.int32)
    norm_forward[(rows,)](x, y, w, b, mean, scale, columns, 1e-5, BLOCK=1024)
    norm_backward[(rows,)](dx, dy, dw, db, x, w, mean, scale, lock, columns, GROUPS=groups, BLOCK=1024)
    sums = [torch.empty(columns, device="cuda") for _ in range(2)]
    for part, out in zip((dw, db), sums):
        norm_sum[(triton.cdiv(columns, 128),)](part, out, groups, columns, M=32, N=128)
    inputs = [t.float().requires_grad_() for t in (x, w, b)]
    expected = torch.nn.functional.layer_norm(inputs[0], (columns,), inputs[1], inputs[2], 1e-5)
    expected.backward(dy.float())
    bound = 1e-3 if dtype == torch.float32 else 2e-2
    near(y, expected, bound, 1e-2)
    for actual, wanted in zip((dx, *sums), inputs):
        near(actual, wanted.grad, bound, 1e-2)


# ---------------------------------------------------------------- products of matrices


@triton.jit
def tile_of(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """The tile's place when tiles are taken GROUP rows at a time, so that neighbours share what the cache holds."""
    columns = tl.cdiv(N, BN)
    first = tile // (GROUP * columns) * GROUP
    height = min(tl.cdiv(M, BM) - first, GROUP)
    return first + (tile % (GROUP * columns)) % height, (tile % (GROUP * columns)) // height


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, LEAKY: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    pm, pn = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rm, rn, rk = (pm * BM + tl.arange(0, BM)) % M, (pn * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    at_a = a + rm[:, None] * sam + rk[None, :] * sak
    at_b = b + rk[:, None] * sbk + rn[None, :] * sbn
    sum = tl.zeros((BM, BN), dtype=SUM)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(at_a, mask=rk[None, :] < K - k * BK, other=0.0)
        right = tl.load(at_b, mask=rk[:, None] < K - k * BK, other=0.0)
        sum = tl.dot(left, right, sum, out_dtype=SUM)
        at_a += BK * sak
        at_b += BK * sbk
    if LEAKY:
        sum = tl.where(sum >= 0, sum, 0.01 * sum)
    rm, rn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * scm + rn[None, :] * scn, sum.to(c.dtype.element_ty), mask=inside)


def operand(rows, columns, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8)
    return (random(rows, columns) / 4).to(dtype)


@case(torch.float16, 128, 256, 64, 3, 8)
@case(torch.float16, 64, 256, 32, 4, 4)
@case(torch.float16, 128, 128, 32, 4, 4)
@case(torch.float16, 128, 64, 32, 4, 4)
@case(torch.float16, 64, 32, 32, 5, 2)
@case(torch.float16, 32, 64, 32, 5, 2)
@case(torch.float16, 16, 16, 16, 2, 1)
@case(torch.bfloat16, 128, 128, 64, 3, 8)
@case(torch.float32, 64, 64, 32, 3, 4)
@case(torch.float8_e4m3fn, 128, 256, 128, 3, 8)
@case(torch.float8_e5m2, 64, 128, 64, 4, 4)
@case(torch.int8, 128, 128, 64, 3, 4)
@case(torch.int8, 16, 32, 32, 2, 2)
@case(torch.float64, 32, 32, 16, 2, 4)
def matmul(dtype, bm, bn, bk, stages, warps):
    m, n, k = 500, 528, 368
    a, b = operand(m, k, dtype), operand(n, k, dtype).T
    whole = {torch.int8: torch.int32, torch.float32: torch.float32, torch.float64: torch.float64}
    c = torch.empty(m, n, device="cuda", dtype=whole.get(dtype, torch.float16))
    leaky = dtype == torch.float16
    total = {torch.int8: tl.int32, torch.float64: tl.float64}.get(dtype, tl.float32)
    grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
    matmul_kernel[grid](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(),
        BM=bm, BN=bn, BK=bk, GROUP=8, LEAKY=leaky, SUM=total, num_stages=stages, num_warps=warps,
    )  # fmt: skip
    expected = a.double() @ b.double()
    if leaky:
        expected = torch.where(expected >= 0, expected, 0.01 * expected)
    if dtype == torch.int8:
        assert torch.equal(c.double(), expected)
    else:
        near(c, expected, 2e-2, 1e-2)


@triton.jit
def grouped_kernel(at_a, at_b, at_c, sizes, strides, count, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    tile = tl.program_id(0)
    done = 0
    for g in range(count):
        M, N, K = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        columns = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * columns
        while tile >= done and tile < done + tiles:
            sa, sb, sc = tl.load(strides + g * 3), tl.load(strides + g * 3 + 1), tl.load(strides + g * 3 + 2)
            a = tl.load(at_a + g).to(tl.pointer_type(tl.float16))
            b = tl.load(at_b + g).to(tl.pointer_type(tl.float16))
            c = tl.load(at_c + g).to(tl.pointer_type(tl.float16))
            pm, pn = (tile - done) // columns, (tile - done) % columns
            rm, rn, rk = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
            pa, pb = a + rm[:, None] * sa + rk[None, :], b + rk[:, None] * sb + rn[None, :]
            sum = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(0, tl.cdiv(K, BK)):
                tl.multiple_of(pa, [16, 16])
                tl.multiple_of(pb, [16, 16])
                sum += tl.dot(tl.load(pa), tl.load(pb))
                pa += BK
                pb += BK * sb
            tl.store(c + rm[:, None] * sc + rn[None, :], sum.to(tl.float16))
            tile += PROGRAMS
        done += tiles


@case(84)
@case(128)
def grouped_gemm(programs):
    shapes = [(1024, 1024, 1024), (512, 512, 512), (256, 256, 256), (128, 128, 128), (256, 512, 128)]
    left = [random(m, k, dtype=torch.float16) / 8 for m, _, k in shapes]
    right = [random(k, n, dtype=torch.float16) for _, n, k in shapes]
    out = [torch.empty(m, n, device="cuda", dtype=torch.float16) for m, n, _ in shapes]
    pointers = [torch.tensor([t.data_ptr() for t in ts], device="cuda") for ts in (left, right, out)]
    sizes = torch.tensor(shapes, device="cuda", dtype=torch.int32)
    strides = torch.tensor([(k, n, n) for _, n, k in shapes], device="cuda", dtype=torch.int32)
    grouped_kernel[(programs,)](*pointers, sizes, strides, len(shapes), PROGRAMS=programs, BM=128, BN=128, BK=32)
    for a, b, c in zip(left, right, out):
        near(c, a.float() @ b.float(), 5e-2, 1e-2)


@triton.jit
def persistent_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr, FLATTEN: tl.constexpr):  # fmt: skip
    tiles, steps = tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.cdiv(K, BK)
    rk = tl.arange(0, BK)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=FLATTEN):
        pm, pn = tile_of(tile, M, N, BM, BN, 8)
        rm, rn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
        rm, rn = tl.where(rm < M, rm, 0), tl.where(rn < N, rn, 0)
        rm = tl.max_contiguous(tl.multiple_of(rm, BM), BM)
        rn = tl.max_contiguous(tl.multiple_of(rn, BN), BN)
        sum = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(steps):
            at = step * BK + rk
            left = tl.load(a + rm[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
            right = tl.load(b + rn[None, :] * K + at[:, None], mask=at[:, None] < K, other=0.0)
            sum = tl.dot(left, right, sum)
        rm, rn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
        inside = (rm[:, None] < M) & (rn[None, :] < N)
        tl.store(c + rm[:, None] * N + rn[None, :], sum.to(c.dtype.element_ty), mask=inside)


@triton.jit
def tma_tile(a, b, c, tile, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HALVES: tl.constexpr):
    pm, pn = tile_of(tile, M, N, BM, BN, 8)
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        sum = tl.dot(a.load([pm * BM, step * BK]), b.load([pn * BN, step * BK]).T, sum)
    if HALVES:
        parts = tl.permute(tl.reshape(sum, (BM, 2, BN // 2)), (0, 2, 1))
        first, second = tl.split(parts)
        c.store([pm * BM, pn * BN], first.to(c.dtype))
        c.store([pm * BM, pn * BN + BN // 2], second.to(c.dtype))
    else:
        c.store([pm * BM, pn * BN], sum.to(c.dtype))


@triton.jit
def tma_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr, HALVES: tl.constexpr, FLATTEN: tl.constexpr, SPECIAL: tl.constexpr):  # fmt: skip
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=FLATTEN, warp_specialize=SPECIAL):
        tma_tile(a, b, c, tile, M, N, K, BM, BN, BK, HALVES)


@triton.jit
def device_tma_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr, HALVES: tl.constexpr, FLATTEN: tl.constexpr, SPECIAL: tl.constexpr):  # fmt: skip
    a = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN // 2 if HALVES else BN])
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=FLATTEN, warp_specialize=SPECIAL):
        tma_tile(a, b, c, tile, M, N, K, BM, BN, BK, HALVES)


def persistent(kind, dtype, halves=False, flatten=False, special=False):
    m, n, k = 1000, 1040, 528
    bm, bn, bk = 128, 256 if dtype == torch.float16 else 128, 64
    a, b = operand(m, k, dtype), operand(n, k, dtype)
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    programs = 24
    triton.set_allocator(workspace)
    sizes = dict(BM=bm, BN=bn, BK=bk, PROGRAMS=programs, num_stages=3, num_warps=8)
    extra = dict(HALVES=halves, FLATTEN=flatten, SPECIAL=special)
    if kind == "plain":
        persistent_kernel[(programs,)](a, b, c, m, n, k, FLATTEN=flatten, **sizes)
    elif kind == "host":
        maps = [TensorDescriptor.from_tensor(t, shape) for t, shape in ((a, [bm, bk]), (b, [bn, bk]), (c, [bm, bn // 2 if halves else bn]))]  # fmt: skip
        tma_kernel[(programs,)](*maps, m, n, k, **sizes, **extra)
    else:
        device_tma_kernel[(programs,)](a, b, c, m, n, k, **sizes, **extra)
    near(c, a.double() @ b.double().T, 2e-2, 1e-2)


@case("plain", torch.float16)
@case("plain", torch.float8_e4m3fn, False, True)
@case("host", torch.float16)
@case("host", torch.float16, True)
@case("host", torch.float8_e4m3fn)
@case("host", torch.float16, False, True)
@case("host", torch.float16, False, False, True)
@case("device", torch.float16)
@case("device", torch.float16, True, True)
@case("device", torch.float8_e4m3fn, False, False, True)
def persistent_matmul(*arguments):
    persistent(*arguments)


@triton.jit
def scaled_kernel(a, sa, b, sb, c, M, N, K, A: tl.constexpr, B: tl.constexpr, PACK_A: tl.constexpr, PACK_B: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    rm, rn = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ka, kb, ks = tl.arange(0, BK // PACK_A), tl.arange(0, BK // PACK_B), tl.arange(0, BK // 32)
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rm[:, None] * (K // PACK_A) + (k // PACK_A + ka)[None, :])
        right = tl.load(b + rn[None, :] * (K // PACK_B) + (k // PACK_B + kb)[:, None])
        scale_a = tl.load(sa + rm[:, None] * (K // 32) + (k // 32 + ks)[None, :])
        scale_b = tl.load(sb + rn[:, None] * (K // 32) + (k // 32 + ks)[None, :])
        sum = tl.dot_scaled(left, scale_a, A, right, scale_b, B, sum)
    tl.store(c + rm[:, None] * N + rn[None, :], sum)


def scaled_operand(kind, rows, k):
    """A matrix of a small float type with a power of two for every 32 elements: its bytes, its scales, its value."""
    scales = torch.randint(120, 134, (rows, k // 32), device="cuda", dtype=torch.uint8)
    factor = torch.exp2(scales.float() - 127).repeat_interleave(32, dim=1)
    if kind == "e2m1":
        codes = torch.randint(0, 16, (rows, k), device="cuda", dtype=torch.uint8)
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
        value = values[(codes & 7).long()] * torch.where(codes >= 8, -1.0, 1.0)
        return codes[:, 0::2] | (codes[:, 1::2] << 4), scales, value * factor
    dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[kind]
    data = random(rows, k).to(dtype)
    return data, scales, data.float() * factor


@case("e4m3", "e4m3")
@case("e5m2", "e4m3")
@case("e2m1", "e2m1")
@case("e4m3", "e2m1")
def block_scaled(left, right):
    m, n, k = 256, 256, 512
    a, sa, value_a = scaled_operand(left, m, k)
    b, sb, value_b = scaled_operand(right, n, k)
    c = torch.empty(m, n, device="cuda")
    pack = {True: 2, False: 1}
    scaled_kernel[(2, 2)](
        a, sa, b, sb, c, m, n, k, A=left, B=right, PACK_A=pack[left == "e2m1"], PACK_B=pack[right == "e2m1"],
        BM=128, BN=128, BK=128, num_warps=8,
    )  # fmt: skip
    expected = value_a.double() @ value_b.double().T
    near(c, expected, 1e-2 * float(expected.abs().max()))


# ---------------------------------------------------------------- attention, forward and backward


@triton.jit
def attention_steps(acc, total, top, Q, k, v, first, last, row, head, scale, MASK: tl.constexpr, BN: tl.constexpr):
    column = tl.arange(0, BN)
    for start in tl.range(first, last, BN):
        start = tl.multiple_of(start, BN)
        score = tl.dot(Q, k.load([head + start, 0]).T)
        if MASK:
            score = score * scale + tl.where(row[:, None] >= (start + column)[None, :], 0, -1.0e6)
            higher = tl.maximum(top, tl.max(score, 1))
            score -= higher[:, None]
        else:
            higher = tl.maximum(top, tl.max(score, 1) * scale)
            score = score * scale - higher[:, None]
        power = tl.math.exp2(score)
        shrink = tl.math.exp2(top - higher)
        total = total * shrink + tl.sum(power, 1)
        acc = tl.dot(power.to(v.dtype), v.load([head + start, 0]), acc * shrink[:, None])
        top = higher
    return acc, total, top


@triton.jit
def attention_forward(q, k, v, o, weight, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    rows = tl.num_programs(1) * S
    q = tl.make_tensor_descriptor(q, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    k = tl.make_tensor_descriptor(k, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    v = tl.make_tensor_descriptor(v, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    o = tl.make_tensor_descriptor(o, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    first, head = tl.program_id(0) * BM, tl.program_id(1) * S
    row = first + tl.arange(0, BM)
    top = tl.full([BM], -float("inf"), dtype=tl.float32)
    total = tl.full([BM], 1.0, dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    Q = q.load([head + first, 0])
    scale *= 1.44269504
    if CAUSAL:
        # Blocks left of the diagonal need no mask.
        acc, total, top = attention_steps(acc, total, top, Q, k, v, 0, first, row, head, scale, False, BN)
        acc, total, top = attention_steps(acc, total, top, Q, k, v, first, first + BM, row, head, scale, True, BN)
    else:
        acc, total, top = attention_steps(acc, total, top, Q, k, v, 0, S, row, head, scale, False, BN)
    tl.store(weight + head + row, top + tl.math.log2(total))
    o.store([head + first, 0], (acc / total[:, None]).to(o.dtype))


@triton.jit
def attention_delta(o, do, delta, D: tl.constexpr, BM: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    at = row[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(delta + row, tl.sum(tl.load(o + at).to(tl.float32) * tl.load(do + at).to(tl.float32), axis=1))


@triton.jit
def attention_backward(q, k, v, do, dq, dk, dv, weight, delta, S, scale, D: tl.constexpr, B: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    """Block `pid` of the keys gets dK and dV from all queries, then the same block of the queries gets dQ."""
    pid, head = tl.program_id(0), tl.program_id(1) * S
    place, dim = tl.arange(0, B), tl.arange(0, D)
    own = head + pid * B + place
    at = own[:, None] * D + dim[None, :]
    K, V = tl.load(k + at), tl.load(v + at)
    sum_k, sum_v = tl.zeros([B, D], tl.float32), tl.zeros([B, D], tl.float32)
    for block in range(pid if CAUSAL else 0, S // B):
        other = head + block * B + place
        there = other[:, None] * D + dim[None, :]
        Q, dO = tl.load(q + there), tl.load(do + there)
        power = tl.math.exp2(tl.dot(K, tl.trans(Q)) * scale * 1.44269504 - tl.load(weight + other)[None, :])
        if CAUSAL:
            power = tl.where((block * B + place)[None, :] >= (pid * B + place)[:, None], power, 0.0)
        sum_v += tl.dot(power.to(dO.dtype), dO)
        slope = power * (tl.dot(V, tl.trans(dO)) - tl.load(delta + other)[None, :])
        sum_k += tl.dot(slope.to(Q.dtype), Q)
    tl.store(dk + at, (sum_k * scale).to(K.dtype))
    tl.store(dv + at, sum_v.to(V.dtype))
    Q, dO = tl.load(q + at), tl.load(do + at)
    level, shift = tl.load(weight + own), tl.load(delta + own)
    sum_q = tl.zeros([B, D], tl.float32)
    for block in range(0, pid + 1 if CAUSAL else S // B):
        there = (head + block * B + place)[:, None] * D + dim[None, :]
        K, V = tl.load(k + there), tl.load(v + there)
        power = tl.math.exp2(tl.dot(Q, tl.trans(K)) * scale * 1.44269504 - level[:, None])
        if CAUSAL:
            power = tl.where((pid * B + place)[:, None] >= (block * B + place)[None, :], power, 0.0)
        slope = power * (tl.dot(dO, tl.trans(V)) - shift[:, None])
        sum_q += tl.dot(slope.to(K.dtype), K)
    tl.store(dq + at, (sum_q * scale).to(Q.dtype))


@case(64, False, 4, torch.float16)
@case(64, True, 4, torch.float16)
@case(128, False, 8, torch.float16)
@case(128, True, 8, torch.float16)
@case(128, False, 4, torch.float16)
@case(128, True, 4, torch.float16)
@case(64, True, 8, torch.bfloat16)
def attention(d, causal, warps, dtype):
    heads, s, scale = 6, 512, 0.5
    triton.set_allocator(workspace)
    q, k, v, do = (random(heads, s, d, dtype=dtype) / 2 for _ in range(4))
    o, dq, dk, dv = (torch.empty_like(q) for _ in range(4))
    weight, delta = (torch.empty(heads * s, device="cuda") for _ in range(2))
    attention_forward[(s // 128, heads)](q, k, v, o, weight, s, scale, D=d, BM=128, BN=64, CAUSAL=causal, num_warps=warps)
    attention_delta[(heads * s // 128,)](o, do, delta, D=d, BM=128)
    attention_backward[(s // 64, heads)](
        q, k, v, do, dq, dk, dv, weight, delta, s, scale, D=d, B=64, CAUSAL=causal, num_warps=warps, num_stages=1
    )
    inputs = [t.float().requires_grad_() for t in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal, scale=scale)
    expected.backward(do.float())
    near(o, expected, 2e-2)
    for actual, wanted in zip((dq, dk, dv), inputs):
        near(actual, wanted.grad, 4e-2, 2e-2)


# ---------------------------------------------------------------- what the library of the language is made of


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def row_kernel(x, out, order, sums, best, bins, N: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, N)
    value = tl.load(x + row * N + column)
    tl.store(order + row * N + column, tl.sort(value))
    tl.store(sums + row * N + column, tl.cumsum(value, 0))
    tl.store(out + row * N + column, tl.flip(value, 0) + tl.associative_scan(value, 0, larger))
    tl.store(best + row, tl.argmax(value, 0))
    tl.store(bins + row * 16 + tl.arange(0, 16), tl.histogram((tl.abs(value) * 4).to(tl.int32) & 15, 16))


@case(128)
@case(1024)
def rows(n):
    x = random(77, n)
    out, order, sums = (torch.empty_like(x) for _ in range(3))
    best = torch.empty(77, device="cuda", dtype=torch.int32)
    bins = torch.empty(77, 16, device="cuda", dtype=torch.int32)
    row_kernel[(77,)](x, out, order, sums, best, bins, N=n)
    assert torch.equal(order, x.sort(1).values), "sort"
    near(sums, x.double().cumsum(1), 1e-3)
    near(out, x.flip(1) + x.cummax(1).values, 1e-6)
    assert torch.equal(best.long(), x.argmax(1)), "argmax"
    digits = (x.abs() * 4).int() & 15
    assert torch.equal(bins, torch.stack([(digits == i).sum(1) for i in range(16)], 1).int()), "histogram"


@triton.jit
def add_kernel_at(keys, values, sums, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.atomic_add(sums + tl.load(keys + at, mask=inside, other=0), tl.load(values + at, mask=inside), mask=inside)


@triton.jit
def max_kernel_at(keys, values, tops, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.atomic_max(tops + tl.load(keys + at, mask=inside, other=0), tl.load(values + at, mask=inside), mask=inside)


@case(torch.int32)
@case(torch.float32)
@case(torch.float16)
def atomics(dtype):
    n, count = 20_000, 97
    keys = torch.randint(0, count, (n,), device="cuda")
    values = torch.randint(-9, 10, (n,), device="cuda")
    sums, tops = (torch.zeros(count, device="cuda", dtype=dtype) for _ in range(2))
    grid = (triton.cdiv(n, 256),)
    add_kernel_at[grid](keys, values.to(dtype), sums, n, BLOCK=256)
    expected = torch.zeros(count, device="cuda", dtype=torch.int64)
    assert torch.equal(sums.long(), expected.index_add(0, keys, values)), "add"
    if dtype != torch.float16:  # Triton has no maximum of halves in memory
        max_kernel_at[grid](keys, values.to(dtype), tops, n, BLOCK=256)
        assert torch.equal(tops.long(), expected.scatter_reduce(0, keys, values, "amax")), "max"


if __name__ == "__main__":
    cases.run(CASES, sys.argv[1:] or list(CASES))

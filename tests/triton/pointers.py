"""Attention over plain pointers: loads by threads, and a mask in every step."""

import triton
import triton.language as tl


@triton.jit
def attention_pointers(q, k, v, o, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    block, base = tl.program_id(0), tl.program_id(1).to(tl.int64) * S * D
    row, dim = block * BM + tl.arange(0, BM), tl.arange(0, D)
    Q = tl.load(q + base + row[:, None] * D + dim[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, (block + 1) * BM if CAUSAL else S, BN):
        column = start + tl.arange(0, BN)
        score = tl.dot(Q, tl.load(k + base + column[None, :] * D + dim[:, None])) * scale
        if CAUSAL:
            score = tl.where(row[:, None] >= column[None, :], score, -1.0e6)
        higher = tl.maximum(top, tl.max(score, 1))
        power = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(power, 1)
        acc = tl.dot(power.to(tl.float16), tl.load(v + base + column[:, None] * D + dim[None, :]), acc * shrink[:, None])
        top = higher
    tl.store(o + base + row[:, None] * D + dim[None, :], (acc / total[:, None]).to(tl.float16))

"""The speed of Triton kernels built by sassafras against the same built by Triton's own ptxas.

    bench.py SASSAFRAS [NAME...]

Times each case in two processes, one for each compiler, in turns, and prints both times and the speed of our code in
units of ptxas's (above 1: ours is faster). A case that is wrong or doesn't compile has no time.
"""

import json
import os
import subprocess
import sys
import tempfile

REPEATS = 2


def cases():
    """Names and functions that give what to time. Triton is imported only where kernels run."""
    import torch
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    import kernels
    from pointers import attention_pointers

    def matmul(bm, bn, bk, stages, warps, dtype=torch.float16, n=4096):
        a, b = kernels.operand(n, n, dtype), kernels.operand(n, n, dtype)
        c = torch.empty(n, n, device="cuda", dtype=torch.float16)
        import triton.language as tl

        grid = (triton.cdiv(n, bm) * triton.cdiv(n, bn),)
        go = lambda: kernels.matmul_kernel[grid](  # noqa: E731
            a, b, c, n, n, n, *a.stride(), *b.stride(), *c.stride(),
            BM=bm, BN=bn, BK=bk, GROUP=8, LEAKY=False, SUM=tl.float32, num_stages=stages, num_warps=warps,
        )  # fmt: skip
        return go, lambda: kernels.near(c, a.float() @ b.float(), 0.5, 1e-2)

    def persistent(n=4096):
        a, b = (kernels.operand(n, n, torch.float16) for _ in range(2))
        c = torch.empty(n, n, device="cuda", dtype=torch.float16)
        maps = [TensorDescriptor.from_tensor(t, s) for t, s in ((a, [128, 64]), (b, [256, 64]), (c, [128, 256]))]
        go = lambda: kernels.tma_kernel[(132,)](  # noqa: E731
            *maps, n, n, n, BM=128, BN=256, BK=64, PROGRAMS=132, HALVES=False, FLATTEN=False, SPECIAL=False,
            num_stages=3, num_warps=8,
        )  # fmt: skip
        return go, lambda: kernels.near(c, a.float() @ b.float().T, 0.5, 1e-2)

    def inputs(d, s, heads):
        q, k, v = (torch.randn(1, heads, s, d, device="cuda", dtype=torch.float16) for _ in range(3))
        return q, k, v, torch.empty_like(q)

    def attention(d, warps, causal, tma, s=4096, heads=32):
        q, k, v, o = inputs(d, s, heads)
        weight = torch.empty(heads * s, device="cuda")
        triton.set_allocator(kernels.workspace)
        if tma:
            go = lambda: kernels.attention_forward[(s // 128, heads)](  # noqa: E731
                q, k, v, o, weight, s, d**-0.5, D=d, BM=128, BN=64, CAUSAL=causal, num_warps=warps
            )
        else:
            go = lambda: attention_pointers[(s // 128, heads)](  # noqa: E731
                q, k, v, o, s, 1.44269504 * d**-0.5, D=d, BM=128, BN=64, CAUSAL=causal, num_warps=warps
            )
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return go, lambda: kernels.near(o, wanted, 2e-2)

    def backward(d, warps, causal, s=2048, heads=16):
        q, k, v, do = inputs(d, s, heads)
        do.normal_()
        out = [torch.empty_like(q) for _ in range(3)]
        weight, delta = torch.randn(heads * s, device="cuda") + 9, torch.randn(heads * s, device="cuda")
        go = lambda: kernels.attention_backward[(s // 64, heads)](  # noqa: E731
            q, k, v, do, *out, weight, delta, s, d**-0.5, D=d, B=64, CAUSAL=causal, num_warps=warps, num_stages=1
        )
        return go, lambda: None

    def softmax(columns):
        x = torch.randn(8192, columns, device="cuda")
        out = torch.empty_like(x)
        go = lambda: kernels.softmax_kernel[(528,)](  # noqa: E731
            x, out, columns, 8192, columns, BLOCK=triton.next_power_of_2(columns), STAGES=2, num_warps=8
        )
        return go, lambda: kernels.near(out, torch.softmax(x, 1), 1e-5)

    yield "matmul 128x256x64 s3", lambda: matmul(128, 256, 64, 3, 8)
    yield "matmul 128x256x64 s4", lambda: matmul(128, 256, 64, 4, 8)
    yield "matmul 128x128x64 w4", lambda: matmul(128, 128, 64, 4, 4)
    yield "matmul 64x64x32 w4", lambda: matmul(64, 64, 32, 4, 4)
    yield "matmul persistent tma", persistent
    for tma in (True, False):
        for d in (64, 128):
            for warps in (4, 8):
                for causal in (False, True):
                    name = f"attention {d} w{warps}{' causal' if causal else ''}{' tma' if tma else ''}"
                    yield name, lambda a=(d, warps, causal, tma): attention(*a)
    for d in (64, 128):
        for causal in (False, True):
            yield f"attention backward {d}{' causal' if causal else ''}", lambda a=(d, 8, causal): backward(*a)
    yield "softmax 4096", lambda: softmax(4096)
    yield "softmax 781", lambda: softmax(781)


def measure(names):
    import torch
    import triton

    for name, prepare in cases():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        print(json.dumps([name, "the process ended here"]), flush=True)
        try:
            go, check = prepare()
            go()
            check()
            time = triton.testing.do_bench(go, return_mode="median")
        except Exception as error:
            time = " ".join(str(error).split())[-160:]
        print(json.dumps([name, time]), flush=True)


def main():
    if sys.argv[1] == "--measure":
        return measure(sys.argv[2:])
    sassafras, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    results = {"ptxas": [], "ours": []}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(REPEATS):
            for who, runs in results.items():
                environment = {**os.environ, "TRITON_CACHE_DIR": f"{cache}/{who}"}
                environment.pop("TRITON_PTXAS_PATH", None)
                if who == "ours":
                    environment["TRITON_PTXAS_PATH"] = sassafras
                done = subprocess.run([sys.executable, __file__, "--measure", *names], env=environment, capture_output=True, text=True)  # fmt: skip
                runs.append(dict(json.loads(line) for line in done.stdout.splitlines()))
    for name in results["ptxas"][0]:
        both = [[run.get(name, "not run") for run in results[who]] for who in ("ptxas", "ours")]
        wrong = [t for times in both for t in times if isinstance(t, str)]
        if wrong:
            print(f"{name:32} {wrong[0]}")
            continue
        theirs, ours = (min(times) for times in both)
        print(f"{name:32} ptxas {theirs:8.4f} ms   ours {ours:8.4f} ms   speed {theirs / ours:.3f}")


if __name__ == "__main__":
    main()

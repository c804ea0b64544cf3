"""The speed of torch.compile's Triton kernels built by sassafras against the same built by Triton's own ptxas.

    compiled_bench.py SASSAFRAS [NAME...]

Compiles functions of a usual size in processes of their own, two for each compiler (or REPEATS), and takes the time of
each Triton kernel on the GPU from the profiler, the least of the processes' medians. Prints, slowest first, both times and the
speed of our code in units of ptxas's (above 1: ours is faster), and the geometric mean over all kernels.
"""

import collections
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

REPEATS = int(os.environ.get("REPEATS", 2))
RUNS = 30


def cases():
    """Names and functions that give a function and its inputs; with `grad`, the gradients are computed, too."""
    import torch
    import torch.nn.functional as F

    half, single = torch.float16, torch.float32

    def new(*shape, dtype=half, grad=True):
        return torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_(grad)

    wide = lambda: new(8192, 4096)  # noqa: E731
    image = lambda: new(64, 64, 112, 112, dtype=single)  # noqa: E731

    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def adam(p, g, m, v):
        m = m * 0.9 + g * 0.1
        v = v * 0.999 + g * g * 0.001
        return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v

    yield "gelu", lambda x: F.gelu(x), lambda: [wide()]
    yield "gated", lambda x, y: F.silu(x) * y, lambda: [wide(), wide()]
    yield "layer_norm", lambda x, w, b: F.layer_norm(x, (4096,), w, b), lambda: [wide(), new(4096), new(4096)]
    yield "rms_norm", lambda x, w: x * torch.rsqrt(x.float().square().mean(-1, True) + 1e-6) * w, lambda: [wide(), new(4096)]
    yield "softmax", lambda x: torch.softmax(x.float(), -1), lambda: [wide()]
    yield "cross_entropy", lambda x, y: F.cross_entropy(x.float(), y), lambda: [
        new(4096, 32000), torch.randint(32000, (4096,), device="cuda")]  # fmt: skip
    yield "dropout", lambda x: F.dropout(x, 0.3), lambda: [wide()]
    yield "rotate", rotate, lambda: [new(8, 32, 2048, 128), new(2048, 128, grad=False), new(2048, 128, grad=False)]
    yield "adam", adam, lambda: [new(8192, 4096, dtype=single, grad=False) for _ in range(4)]
    yield "batch_norm", lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)), lambda: [
        image(), new(64, dtype=single), new(64, dtype=single)]  # fmt: skip
    yield "group_norm", lambda x: F.silu(F.group_norm(x, 8)), lambda: [image()]
    yield "max_pool", lambda x: F.max_pool2d(F.relu(x), 3, 2, 1), lambda: [image()]
    yield "avg_pool", lambda x: F.avg_pool2d(x, 3, 2, 1), lambda: [image()]
    yield "interpolate", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: [
        new(16, 32, 112, 112, dtype=single)]  # fmt: skip
    yield "embedding", lambda i, w: F.embedding(i, w) * 2, lambda: [
        torch.randint(32000, (16384,), device="cuda"), new(32000, 1024)]  # fmt: skip
    yield "masked", lambda x, m: torch.softmax(x.masked_fill(m, -1e4) / 8, -1), lambda: [
        new(16, 16, 512, 512), torch.rand(512, 512, device="cuda") > 0.5]  # fmt: skip
    yield "transpose", lambda x: (x.transpose(1, 2).contiguous() + 1).sum(-1), lambda: [new(64, 1024, 1024)]
    yield "cumsum", lambda x: torch.cumsum(x, -1), lambda: [new(8192, 4096, dtype=single)]
    yield "variance", lambda x: torch.var_mean(x, -1), lambda: [wide()]
    yield "argmax", lambda x: torch.argmax(x, -1), lambda: [new(8192, 4096, grad=False)]
    yield "integers", lambda x: (x * 2654435761 >> 7) % 1000003 // 17, lambda: [
        torch.randint(1 << 30, (1 << 25,), device="cuda", dtype=torch.int32)]  # fmt: skip
    yield "long_integers", lambda x: x % 1000003 + x // 97, lambda: [torch.randint(1 << 40, (1 << 24,), device="cuda")]
    yield "functions", lambda x: torch.sin(x) * torch.exp(-x.abs()) + torch.log1p(x * x), lambda: [
        new(1 << 25, dtype=single)]  # fmt: skip
    yield "double", lambda x: torch.sqrt(x * x + 1) / (x.abs() + 2), lambda: [new(1 << 23, dtype=torch.float64)]
    yield "pow_atan", lambda x: torch.atan2(x, x + 1) + (x.abs() + 0.1) ** 1.7, lambda: [new(1 << 24, dtype=single)]
    yield "loss", lambda x, y: F.smooth_l1_loss(torch.sigmoid(x.float()), y.float()), lambda: [wide(), wide()]
    for size in ((4096, 4096, 4096), (512, 4096, 4096), (64, 4096, 4096), (1, 4096, 4096)):
        name = "mm_" + "x".join(map(str, size))
        m, n, k = size
        make = lambda m=m, n=n, k=k: [new(m, k, grad=False), new(k, n, grad=False)]  # noqa: E731
        yield name, lambda a, b: F.relu(a @ b), make


def measure(names):
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch._inductor.config.max_autotune_gemm_backends = "TRITON"
    torch._inductor.config.autotune_in_subproc = False
    for name, function, make in cases():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        torch._dynamo.reset()
        try:
            inputs = make()
            leaves = [t for t in inputs if t.requires_grad]
            run = torch.compile(function, fullgraph=True, dynamic=False, mode="max-autotune-no-cudagraphs" if "mm" in name else None)
            slopes = None

            def once():
                nonlocal slopes
                results = run(*inputs)
                results = results if isinstance(results, (tuple, list)) else [results]
                live = [r for r in results if r.requires_grad]
                if leaves and live:
                    slopes = slopes or [torch.randn_like(r) for r in live]
                    torch.autograd.grad(live, leaves, slopes, allow_unused=True)

            for _ in range(5):
                once()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as records:
                for _ in range(RUNS):
                    once()
                torch.cuda.synchronize()
            times = collections.defaultdict(list)
            for event in records.events():
                if event.name.startswith("triton_"):
                    times[event.name].append(event.device_time)
            result = {kernel: statistics.median(each) for kernel, each in times.items()}
        except Exception as error:
            result = " ".join(str(error).split())[-200:]
        print(json.dumps([name, result]), flush=True)


def process(sassafras, names):
    """What a process of its own measures, with caches of its own."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, TRITON_CACHE_DIR=cache + "/triton", TORCHINDUCTOR_CACHE_DIR=cache + "/inductor")
        environment.pop("TRITON_PTXAS_PATH", None)
        if sassafras:
            environment["TRITON_PTXAS_PATH"] = sassafras
        command = [sys.executable, __file__, "--measure", *names]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def main(sassafras, names):
    best = {"ptxas": {}, "ours": {}}
    wrong = {}
    for _ in range(REPEATS):
        for who, path in (("ptxas", None), ("ours", sassafras)):
            for name, result in process(path, names).items():
                if isinstance(result, str):
                    wrong[name, who] = result
                    continue
                for kernel, time in result.items():
                    key = (name, kernel)
                    best[who][key] = min(time, best[who].get(key, math.inf))
    both = sorted(best["ptxas"].keys() & best["ours"].keys(), key=lambda key: best["ptxas"][key] / best["ours"][key])
    for key in both:
        theirs, ours = best["ptxas"][key], best["ours"][key]
        print(f"{theirs / ours:6.3f}  {ours:9.1f} us  ptxas {theirs:9.1f} us  {key[0]}: {key[1]}")
    for (name, who), why in wrong.items():
        print(f"{name} with {who}: {why}")
    if both:
        mean = math.exp(statistics.fmean(math.log(best["ptxas"][key] / best["ours"][key]) for key in both))
        alone = len(best["ptxas"].keys() ^ best["ours"].keys())
        print(f"{len(both)} kernels, speed {mean:.3f} in the mean; {alone} that only one of them chose")
    return 0 if both and not wrong else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2:])
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        sys.exit(main(os.path.realpath(sys.argv[1]), sys.argv[2:]))

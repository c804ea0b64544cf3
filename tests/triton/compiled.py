"""Models and single operators under torch.compile, forward and backward, checked against the same without it.

    compiled.py [--part I/N] [NAME...]

Prints a line per case, `NAME pass` or `NAME FAIL why`; leaves with 1 if one failed. The compiler under test is the one
that TRITON_PTXAS_PATH names. With --part, every Nth case from the Ith on: several processes share the work.
"""

import sys

import cases
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

CASES = {}


def leaves(*tensors):
    return [t.detach().clone().requires_grad_(t.is_floating_point()) for t in tensors]


def compare(function, inputs, parameters=(), absolute=1e-4, relative=1e-3, **how):
    """The results and the gradients of `function`, compiled and not."""
    outcomes = []
    torch._dynamo.reset()
    for run in (function, torch.compile(function, fullgraph=True, dynamic=False, **how)):
        for parameter in parameters:
            parameter.grad = None
        torch.manual_seed(1)
        mine = leaves(*inputs)
        results = run(*mine)
        results = results if isinstance(results, (tuple, list)) else [results]
        torch.manual_seed(2)
        scalar = sum((r.float() * torch.randn_like(r.float())).sum() for r in results if r.requires_grad)
        if isinstance(scalar, torch.Tensor):
            scalar.backward()
        slopes = [t.grad for t in [*mine, *parameters] if t.grad is not None]
        outcomes.append([t.detach() for t in [*results, *slopes]])
    assert len(outcomes[0]) == len(outcomes[1])
    for expected, actual in zip(*outcomes):
        torch.testing.assert_close(actual, expected, atol=absolute, rtol=relative, equal_nan=True)


def model(build, *shape, dtype=torch.float32, absolute=2e-3, relative=2e-2, **how):
    torch.manual_seed(0)
    network = build().cuda().to(dtype)
    x = torch.randn(*shape, device="cuda", dtype=dtype)
    compare(network, [x], list(network.parameters()), absolute, relative, **how)


class Block(nn.Module):
    """A transformer block: attention over `heads` heads and a perceptron, each behind a norm."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, w = x.shape
        split = self.qkv(self.norms[0](x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, s, w))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Gated(nn.Module):
    """The other common block: root-mean-square norm, rotated positions, plain softmax, gated perceptron."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads, self.scale = heads, nn.Parameter(torch.ones(width))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def norm(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.scale

    def rotate(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2], device=x.device)[:, None] * 10000.0 ** (-torch.arange(half, device=x.device) / half)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        score = self.rotate(q) @ self.rotate(k).transpose(-1, -2) / (w // self.heads) ** 0.5
        later = torch.ones(s, s, device=x.device, dtype=torch.bool).triu(1)
        weight = score.masked_fill(later, float("-inf")).softmax(-1)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(b, s, w))
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Net(nn.Module):
    """A convolutional network with norms, a shortcut, pools and a classifier."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.third, self.short = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(32, 64, 1, stride=2)
        self.norms = nn.ModuleList([nn.BatchNorm2d(32), nn.BatchNorm2d(64), nn.BatchNorm2d(64)])
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norms[0](self.first(x))), 3, 2, 1)
        y = F.silu(self.norms[1](self.second(x)))
        y = F.relu(self.norms[2](self.third(y)) + self.short(x))
        return F.log_softmax(self.last(F.adaptive_avg_pool2d(y, 1).flatten(1)), -1)


def resnet():
    import torchvision

    return torchvision.models.resnet18()


def products():
    """Triton's own products in place of the library's, chosen by trying: every candidate is compiled and run."""
    import torch._inductor.config as config

    config.max_autotune_gemm_backends = "TRITON"
    build = lambda: nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))  # noqa: E731
    model(build, 128, 256, dtype=torch.float16, absolute=2e-2, mode="max-autotune-no-cudagraphs")


def flexible():
    def near_and_before(score, batch, head, q, k):
        return torch.where((q >= k) & (q - k < 100), score + 0.01 * (k - q), -float("inf"))

    q, k, v = (torch.randn(2, 4, 256, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    mine, reference = leaves(q, k, v), leaves(q.float(), k.float(), v.float())
    run = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    slope = torch.randn_like(q)
    out = run(*mine, score_mod=near_and_before)
    out.backward(slope)
    place = torch.arange(256, device="cuda")
    distance = place[:, None] - place[None, :]
    score = reference[0] @ reference[1].transpose(-1, -2) / 8 - 0.01 * distance
    wanted = score.masked_fill((distance < 0) | (distance >= 100), float("-inf")).softmax(-1) @ reference[2]
    wanted.backward(slope.float())
    torch.testing.assert_close(out.float(), wanted, atol=1e-2, rtol=1e-2)
    for a, b in zip(mine, reference):
        torch.testing.assert_close(a.grad.float(), b.grad, atol=2e-2, rtol=2e-2)


MODELS = {
    "transformer-block": lambda: model(Block, 2, 128, 256),
    "transformer-block-bfloat16": lambda: model(Block, 2, 128, 256, dtype=torch.bfloat16, absolute=6e-1, relative=6e-2),
    "transformer-gated": lambda: model(Gated, 2, 128, 256),
    "cnn": lambda: model(Net, 8, 3, 64, 64, absolute=2e-2),
    "resnet18": lambda: model(resnet, 32, 3, 64, 64, absolute=5e-1, relative=5e-2),
    "autotuned-products": products,
    "flex-attention": flexible,
}

matrix = lambda *shape: torch.randn(*(shape or (129, 257)), device="cuda")  # noqa: E731
positive = lambda: matrix().abs() + 0.1  # noqa: E731
within = lambda: matrix().clamp(-3, 3) / 3.1  # noqa: E731
whole = lambda: torch.randint(-1000, 1000, (129, 257), device="cuda")  # noqa: E731
bits = lambda: torch.randint(-(2**31), 2**31 - 1, (129, 257), device="cuda", dtype=torch.int32)  # noqa: E731
index = lambda: torch.randint(0, 129, (129, 257), device="cuda")  # noqa: E731

# Name: what is computed, of what. Each is one operator; what surrounds it is what the operator needs.
OPERATORS = {
    "add": (lambda a, b: a + b, matrix, matrix),
    "add-broadcast": (lambda a, b: a + b[:, :1], matrix, matrix),
    "div": (lambda a, b: a / b, matrix, positive),
    "floor-div": (lambda a, b: a // (b.abs() + 1), whole, whole),
    "remainder": (lambda a, b: a % (b.abs() + 1), whole, whole),
    "fmod": (lambda a, b: torch.fmod(a, b), matrix, positive),
    "pow": (lambda a, b: a**b, positive, matrix),
    "exp": (torch.exp, matrix),
    "expm1": (torch.expm1, matrix),
    "log": (torch.log, positive),
    "log1p": (torch.log1p, positive),
    "sqrt": (torch.sqrt, positive),
    "rsqrt": (torch.rsqrt, positive),
    "sin": (lambda a: torch.sin(a * 100), matrix),
    "cos": (lambda a: torch.cos(a * 1e5), matrix),
    "tan": (lambda a: torch.tan(a), within),
    "atan2": (torch.atan2, matrix, positive),
    "asin": (torch.asin, within),
    "acosh": (lambda a: torch.acosh(a + 1), positive),
    "tanh": (torch.tanh, matrix),
    "sigmoid": (torch.sigmoid, matrix),
    "erf": (torch.erf, matrix),
    "erfinv": (torch.erfinv, within),
    "lgamma": (torch.lgamma, positive),
    "digamma": (torch.digamma, positive),
    "hypot": (torch.hypot, matrix, positive),
    "gelu": (F.gelu, matrix),
    "softplus": (F.softplus, matrix),
    "where": (lambda a, b: torch.where(a > b, a, b * 2), matrix, matrix),
    "clamp": (lambda a: a.clamp(-0.5, 0.5), matrix),
    "round": (lambda a: torch.round(a * 10), matrix),
    "sum": (lambda a: a.sum(1), matrix),
    "sum-all": (lambda a: a.sum(), matrix),
    "mean-double": (lambda a: a.double().mean(0), matrix),
    "amax": (lambda a: a.amax(0), matrix),
    "argmax": (lambda a: a.argmax(1), matrix),
    "var": (lambda a: a.var(1), matrix),
    "prod": (lambda a: (1 + a.detach() / 100).prod(1), matrix),
    "any": (lambda a: (a > 3).any(1), matrix),
    "logsumexp": (lambda a: a.logsumexp(1), matrix),
    "cumsum": (lambda a: a.cumsum(1), matrix),
    "cumprod": (lambda a: (1 + a.detach() / 100).cumprod(1), matrix),
    "softmax": (lambda a: a.softmax(-1), matrix),
    "layer-norm": (lambda a: F.layer_norm(a, (257,)), matrix),
    "gather": (lambda a, i: a.gather(0, i), matrix, index),
    "scatter-add": (lambda a, i: torch.zeros_like(a).scatter_add(0, i, a), matrix, index),
    "embedding": (lambda a, i: F.embedding(i, a), matrix, index),
    "sort": (lambda a: a.sort(1).values, matrix),
    "transpose": (lambda a: a.t().contiguous() * 2, matrix),
    "cat": (lambda a, b: torch.cat([a, b * 2], 1), matrix, matrix),
    "roll": (lambda a: a.roll(5, 1) + a, matrix),
    "pad": (lambda a: F.pad(a, (3, 5, 1, 2), value=1.5), matrix),
    "interpolate": (
        lambda a: F.interpolate(a[None, None], scale_factor=2, mode="bilinear"),
        matrix,
    ),
    "avg-pool": (lambda a: F.avg_pool2d(a[None, None], 3, 2), matrix),
    "shifts": (lambda a, b: (a << (b & 31)) ^ (a >> (b & 7)), bits, bits),
    "bitwise": (lambda a, b: (a & b) | ~a, bits, bits),
    "convert-half": (lambda a: (a * 3).half(), matrix),
    "convert-bfloat16": (lambda a: (a * 3).bfloat16(), matrix),
    "convert-int": (lambda a: (a * 100).int().to(torch.int8).float() + a, matrix),
    "complex-abs": (lambda a, b: torch.sqrt(a * a + b * b), matrix, positive),
    "dropout": (lambda a: F.dropout(a, 0.0), matrix),
    "double": (lambda a: torch.exp(torch.sin(a.double())), matrix),
    "cross-entropy": (lambda a, i: F.cross_entropy(a, i[:, 0]), matrix, index),
    "nonzero-count": (lambda a: (a != 0).sum(0), whole),
}


def operator(function, *sources):
    torch.manual_seed(0)
    compare(function, [source() for source in sources])


for name, (function, *sources) in OPERATORS.items():
    CASES[name] = lambda function=function, sources=sources: operator(function, *sources)
CASES = {**MODELS, **CASES}


def main():
    arguments = sys.argv[1:]
    first, step = 0, 1
    if arguments[:1] == ["--part"]:
        first, step = (int(n) for n in arguments[1].split("/"))
        arguments = arguments[2:]
    torch.backends.cudnn.allow_tf32 = False  # both sides round alike
    cases.run(CASES, (arguments or list(CASES))[first::step])


if __name__ == "__main__":
    main()

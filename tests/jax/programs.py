"""JAX programs, each run on the GPU and on the processor: the results must agree.

    programs.py [NAME...]      all by default; prints `NAME pass` or `NAME FAIL why` for each
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def bf16_product(x, y):
    return (x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16)).astype(jnp.float32)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def gradient(w0, b0, w1, b1, w2, b2, x, y):
    """Of the loss of a network with three layers."""

    def loss(layers):
        hidden = x
        for weights, bias in layers[:-1]:
            hidden = jax.nn.gelu(hidden @ weights + bias)
        weights, bias = layers[-1]
        return jnp.mean((hidden @ weights + bias - y) ** 2)

    return jax.grad(loss)([(w0, b0), (w1, b1), (w2, b2)])


def network():
    sizes = [(32, 64), (64, 64), (64, 8)]
    layers = [array for i, o in sizes for array in (normal(i, o) * np.float32(0.1), normal(o))]
    return [*layers, normal(128, 32), normal(128, 8)]


# name: the function, its arguments, how far the results may differ (products are rounded to tf32 and bf16).
PROGRAMS = {
    "elementwise": (lambda x, y: jnp.sin(x) + y * 2, [normal(1000), normal(1000)], 1e-4),
    "product": (lambda x, y: x @ y, [normal(256, 128), normal(128, 192)], 5e-2),
    "bf16-product": (bf16_product, [normal(512, 512), normal(512, 512)], 0.5),
    "softmax": (lambda x: jax.nn.softmax(x, axis=-1), [normal(333, 1000)], 1e-4),
    "layer-norm": (layer_norm, [normal(64, 768)], 1e-4),
    "sort": (lambda x: jnp.sort(x, axis=-1), [normal(16, 300)], 0),
    "running-sum": (lambda x: jnp.cumsum(x, axis=0), [normal(200, 20)], 1e-4),
    "gradient": (gradient, network(), 2e-2),
    "random": (lambda x: jax.random.normal(jax.random.PRNGKey(3), (1000,)) + x, [normal(1)], 1e-4),
}


def check(function, arguments, tolerance):
    gpu, cpu = jax.devices("gpu")[0], jax.devices("cpu")[0]
    results = [
        jax.tree_util.tree_leaves(jax.device_get(jax.jit(function)(*jax.device_put(arguments, device))))
        for device in (gpu, cpu)
    ]
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, atol=tolerance, rtol=tolerance)


def main(names):
    failed = 0
    for name in names or PROGRAMS:
        try:
            check(*PROGRAMS[name])
            print(name, "pass", flush=True)
        except Exception as error:  # a program that fails must not stop the others
            failed += 1
            print(name, "FAIL", type(error).__name__, " ".join(str(error).split())[:300], flush=True)
    sys.exit(1 if failed else 0)


main(sys.argv[1:])

"""What JAX takes to trace and compile a program of bench/compile_cases.c: jax_compile.py NAME prints milliseconds of wall time.

A small function is compiled before, as in the bench's own processes. `batches` compiles 300 functions; `transformer` is traced alone,
which is what building a program is.
"""

import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
from jax import lax


def of(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def gradients(f):
    return jax.grad(lambda *args: jnp.sum(f(*args) ** 2), argnums=(0, 1))


def transposed(kernel, stride):
    def f(x, w):
        return lax.conv_transpose(x, w, (stride, stride), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))

    return gradients(f), [of(2, 16, 8, 8), of(16, 16, kernel, kernel)]


def patches():
    def f(x, w):
        return lax.conv_general_dilated(x, w, (16, 16), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))

    return gradients(f), [of(2, 3, 224, 224), of(768, 3, 16, 16)]


def windows():
    at = jnp.arange(98)[:, None] * 160 + jnp.arange(400)[None]
    return jax.grad(lambda x: jnp.sum(x[:, at] ** 2)), [of(8, 16000)]


def chain():
    def f(x, c):
        for _ in range(10000):
            x = jnp.tanh(x * c)
        return x

    return f, [of(1000), of(1000)]


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def transformer():
    size, heads = 64, 4

    def layer(x, w):
        batch, time_, _ = x.shape
        q, k, v = jnp.split((x @ w["in"]).reshape(batch, time_, heads, -1), 3, -1)
        p = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / 4, -1)
        x = norm(x + jnp.einsum("bhts,bshd->bthd", p, v).reshape(batch, time_, size) @ w["out"])
        return norm(x + jax.nn.relu(x @ w["up"]) @ w["down"])

    def step(x, weights):
        for w in weights:
            x = layer(x, w)
        return jnp.sum(x**2)

    one = {"in": of(size, 3 * size), "out": of(size, size), "up": of(size, 2 * size), "down": of(2 * size, size)}
    return jax.grad(step, argnums=(0, 1)), [of(2, 16, size), [one] * 400]


def layers():
    def step(x, weights, m, v):
        def loss(weights):
            y = x
            for w, b in weights:
                y = jax.nn.relu(y @ w + b)
            return jnp.mean(y**2)

        g = jax.grad(loss)(weights)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        weights = jax.tree.map(lambda w, m, v: 0.99999 * w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), weights, m, v)
        return weights, m, v

    weights = [(of(64 + k, 65 + k), of(65 + k)) for k in range(100)]
    return step, [of(64, 64), weights, weights, weights]


def batches():
    def f(x, a, b):
        return jax.nn.softmax(jax.nn.gelu(x @ a, approximate=False) @ b)

    return f, None


def compile_once(f, args):
    jax.jit(f).lower(*args).compile()


def main(name):
    programs = {
        "transposed_64": lambda: transposed(64, 32),
        "transposed_32": lambda: transposed(32, 16),
        "patches": patches,
        "windows": windows,
        "chain": chain,
        "transformer": transformer,
        "layers": layers,
        "batches": batches,
    }
    compile_once(lambda x: jax.nn.relu(x @ x) + 1, [of(64, 64)])
    if name not in programs:
        print(f"jax_compile.py: there is no program {name}", file=sys.stderr)
        return 1
    f, args = programs[name]()
    start = time.perf_counter()
    if name == "transformer":
        jax.jit(f).lower(*args)
    elif args is None:
        for k in range(1, 301):
            compile_once(f, [of(k, 64), of(64, 64), of(64, 10)])
    else:
        compile_once(f, args)
    print(f"{1e3 * (time.perf_counter() - start):.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""lstm256, lstm256_rows, lstm64 in JAX: padded to the longest sequence, states kept by a mask beyond each end. See bench/recurrent.c."""
import sys

import numpy as np

from jax_peer import cross_entropy, jax, jnp, load, third_loss, trainer
from peer import integers, serve

LENGTHS = [97, 85, 81, 80, 78, 76, 74, 73, 65, 65, 62, 57, 57, 55, 55, 55, 52, 51, 42, 38, 36, 35, 34, 18, 17, 16, 16, 15, 13, 11, 10, 5]
BATCH, TIME, WORDS, CLASSES = 32, 97, 5000, 5


def lstm(p, layer, x, mask):
    w_hh = p[f"r.weight_hh_l{layer}"]
    xg = x @ p[f"r.weight_ih_l{layer}"].T + p[f"r.bias_ih_l{layer}"] + p[f"r.bias_hh_l{layer}"]
    zeros = jnp.zeros((BATCH, w_hh.shape[1]))

    def cell(state, now):
        h, c = state
        g, m = now
        i, f, n, o = jnp.split(g + h @ w_hh.T, 4, -1)
        c_next = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(n)
        h_next = jax.nn.sigmoid(o) * jnp.tanh(c_next)
        h, c = jnp.where(m, h_next, h), jnp.where(m, c_next, c)
        return (h, c), h

    (h, _), out = jax.lax.scan(cell, (zeros, zeros), (xg, mask))
    return out, h


def main():
    _, weights, workload, _ = sys.argv[1:]
    if workload not in ("lstm256", "lstm256_rows", "lstm64"):
        sys.exit(f"jax_recurrent.py: no {workload} here")
    x = jnp.asarray(integers(BATCH * TIME, WORDS, 1).reshape(BATCH, TIME).T)
    y = jnp.asarray(integers(BATCH, CLASSES, 2))
    mask = jnp.asarray((np.arange(TIME)[:, None] < np.array(LENGTHS)[None])[..., None])

    def loss_of(p):
        h, _ = lstm(p, 0, p["e.weight"][x], mask)
        _, last = lstm(p, 1, h, mask)
        return cross_entropy(last @ p["o.weight"].T + p["o.bias"], y)

    step = trainer(load(weights), loss_of, 1e-3, 0.0)
    serve(third_loss(step), step)


if __name__ == "__main__":
    main()

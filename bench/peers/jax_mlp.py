"""mlp and tiny in JAX: see bench/mlp.c."""
import sys

from jax_peer import cross_entropy, jax, jnp, load, third_loss, trainer
from peer import checksum, floats, integers, serve

TINY_CALLS = 1000


def mlp(weights):
    x, y = jnp.asarray(floats(128 * 784, 0, 1, 1).reshape(128, 784)), jnp.asarray(integers(128, 10, 2))

    def loss_of(p):
        h = jax.nn.relu(x @ p["0.weight"].T + p["0.bias"])
        h = jax.nn.relu(h @ p["2.weight"].T + p["2.bias"])
        return cross_entropy(h @ p["4.weight"].T + p["4.bias"], y)

    step = trainer(load(weights), loss_of, 1e-3, 1e-2)
    serve(third_loss(step), step)


def tiny(weights):
    p, x = load(weights), jnp.asarray(floats(16, 0, 1, 1).reshape(1, 16))
    forward = jax.jit(lambda p, x: jnp.tanh(x @ p["0.weight"].T + p["0.bias"]) @ p["2.weight"].T + p["2.bias"])

    def step():
        for _ in range(TINY_CALLS):
            y = forward(p, x)
        return jax.block_until_ready(y)

    serve(lambda: checksum(step()), step, TINY_CALLS)


if __name__ == "__main__":
    {"mlp": mlp, "tiny": tiny}[sys.argv[3]](sys.argv[2])

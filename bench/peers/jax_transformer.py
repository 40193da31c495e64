"""transformer4, transformer12 in JAX: see bench/transformer.c."""
import sys

from jax_peer import cross_entropy, jax, jnp, load, third_loss, trainer
from peer import integers, layers_of, serve

WIDE, HEADS, TIME, BATCH, WORDS = 256, 4, 128, 8, 5000


def norm(p, name, x):
    c = x - jnp.mean(x, -1, keepdims=True)
    return c * jax.lax.rsqrt(jnp.mean(c * c, -1, keepdims=True) + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def linear(p, name, x):
    return x @ p[name + ".weight"].T + p[name + ".bias"]


def block(p, name, x):
    qkv = linear(p, name + ".qkv", norm(p, name + ".l1", x)).reshape(BATCH, TIME, 3, HEADS, WIDE // HEADS)
    a = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=True)
    x = x + linear(p, name + ".p", a.reshape(BATCH, TIME, WIDE))
    return x + linear(p, name + ".g", jax.nn.gelu(linear(p, name + ".f", norm(p, name + ".l2", x)), approximate=False))


def main():
    p = load(sys.argv[2])
    p.pop("head.weight", None)  # the tie
    x = jnp.asarray(integers(BATCH * TIME, WORDS, 1).reshape(BATCH, TIME))
    y = jnp.asarray(integers(BATCH * TIME, WORDS, 2))

    def loss_of(p):
        h = p["te.weight"][x] + p["pe.weight"]
        for k in range(layers_of(p)):
            h = block(p, f"b{k}", h)
        return cross_entropy((norm(p, "lf", h) @ p["te.weight"].T).reshape(-1, WORDS), y)

    step = trainer(p, loss_of, 1e-3, 1e-2)
    serve(third_loss(step), step)


if __name__ == "__main__":
    main()

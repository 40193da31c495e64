"""gpt2, gpt2_long in JAX: see bench/gpt2.c."""
import sys

from jax_peer import cross_entropy, jax, jnp, load, third_loss, trainer
from peer import integers, serve

HEADS, LAYERS, WORDS = 12, 12, 50257
SIZES = {"gpt2": (4, 64), "gpt2_long": (1, 1024)}  # batch, time


def norm(p, name, x):
    c = x - jnp.mean(x, -1, keepdims=True)
    return c * jax.lax.rsqrt(jnp.mean(c * c, -1, keepdims=True) + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def conv(p, name, x):
    return x @ p[name + ".weight"] + p[name + ".bias"]


def block(p, name, x):
    b, t, c = x.shape
    qkv = conv(p, name + "attn.c_attn", norm(p, name + "ln_1", x)).reshape(b, t, 3, HEADS, c // HEADS)
    a = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=True)
    x = x + conv(p, name + "attn.c_proj", a.reshape(b, t, c))
    return x + conv(p, name + "mlp.c_proj", jax.nn.gelu(conv(p, name + "mlp.c_fc", norm(p, name + "ln_2", x)), approximate=True))


def main():
    _, weights, workload, _ = sys.argv[1:]
    if workload not in SIZES:
        sys.exit(f"jax_gpt2.py: no {workload} here")
    batch, time = SIZES[workload]
    p = {name.removeprefix("transformer."): v for name, v in load(weights).items() if name != "lm_head.weight"}  # the tie
    x = jnp.asarray(integers(batch * time, WORDS, 1).reshape(batch, time))
    y = jnp.asarray(integers(batch * time, WORDS, 2))

    def loss_of(p):
        h = p["wte.weight"][x] + p["wpe.weight"][:time]
        for k in range(LAYERS):
            h = block(p, f"h.{k}.", h)
        return cross_entropy((norm(p, "ln_f", h) @ p["wte.weight"].T).reshape(-1, WORDS), y)

    step = trainer(p, loss_of, 1e-4, 1e-2)
    serve(third_loss(step), step)


if __name__ == "__main__":
    main()

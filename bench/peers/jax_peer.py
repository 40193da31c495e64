"""What the JAX peers share. JAX takes its threads from the CPUs that the process may use."""
import os

from peer import THREADS, read_weights

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
import jax  # noqa: E402  after the affinity is set
import jax.numpy as jnp  # noqa: E402


def load(path):
    return {name: jnp.asarray(v) for name, v in read_weights(path).items()}


def cross_entropy(logits, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], -1))


def stepper(update, state):
    """step() -> loss; update(state) -> state, loss, with the state's memory donated."""
    compiled = jax.jit(update, donate_argnums=0)

    def step():
        nonlocal state
        state, loss = compiled(state)
        return jax.block_until_ready(loss)

    def peak():
        m = compiled.lower(state).compile().memory_analysis()
        return m.temp_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes, m.argument_size_in_bytes

    step.peak = peak
    return step


def trainer(params, loss_of, lr, weight_decay):
    """step() -> loss before the update; AdamW with PyTorch's constants, parameters and moments donated."""
    tree = jax.tree_util.tree_map

    def update(state):
        p, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(p)
        m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        p = tree(lambda p, m, v: p * (1 - lr * weight_decay) - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), p, m, v)
        return (p, m, v, t + 1), loss

    return stepper(update, (params, tree(jnp.zeros_like, params), tree(jnp.zeros_like, params), jnp.float32(1)))


def momentum_trainer(params, buffers, loss_of, lr, momentum, weight_decay):
    """The same by SGD; loss_of(params, buffers) -> loss, new buffers."""
    tree = jax.tree_util.tree_map

    def update(state):
        p, m, buffers = state
        (loss, buffers), g = jax.value_and_grad(loss_of, has_aux=True)(p, buffers)
        m = tree(lambda m, g, p: momentum * m + g + weight_decay * p, m, g, p)
        return (tree(lambda p, m: p - lr * m, p, m), m, buffers), loss

    return stepper(update, (params, tree(jnp.zeros_like, params), buffers))


def third_loss(step):
    def check():
        step()
        step()
        return float(step())

    return check

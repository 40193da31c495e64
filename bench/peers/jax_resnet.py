"""resnet20, resnet50_training in JAX, with channels last: see bench/resnet.c. The networks have torchvision's names."""
import sys

from jax_peer import cross_entropy, jax, jnp, load, momentum_trainer, third_loss
from peer import floats, integers, serve

# batch, side, classes; first convolution small, blocks with a neck, blocks of each layer: as torch_resnet.py
SIZES = {"resnet20": (64, 32, 10, True, False, (3, 3, 3)), "resnet50_training": (4, 224, 1000, False, True, (3, 4, 6, 3))}
MOMENTUM, EPSILON = 0.1, 1e-5  # of batch norms


def conv(p, name, x, stride=1):
    w = p[name + ".weight"]
    around = w.shape[-1] // 2
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(around, around)] * 2, dimension_numbers=("NHWC", "OIHW", "NHWC")
    )


class Net:
    """One pass: what it makes of the running moments is in `after`."""

    def __init__(self, p, buffers):
        self.p, self.buffers, self.after = p, buffers, {}

    def norm(self, name, x):
        mean = jnp.mean(x, (0, 1, 2))
        c = x - mean
        var, n = jnp.mean(c * c, (0, 1, 2)), x.size // x.shape[-1]
        for key, value in ((name + ".running_mean", mean), (name + ".running_var", var * n / (n - 1))):
            self.after[key] = (1 - MOMENTUM) * self.buffers[key] + MOMENTUM * jax.lax.stop_gradient(value)
        return c * jax.lax.rsqrt(var + EPSILON) * self.p[name + ".weight"] + self.p[name + ".bias"]

    def block(self, name, x, stride, has_neck):
        p, y = self.p, conv(self.p, name + ".conv1", x, 1 if has_neck else stride)
        y = self.norm(name + ".bn2", conv(p, name + ".conv2", jax.nn.relu(self.norm(name + ".bn1", y)), stride if has_neck else 1))
        if has_neck:
            y = self.norm(name + ".bn3", conv(p, name + ".conv3", jax.nn.relu(y)))
        if name + ".downsample.0.weight" in p:
            x = self.norm(name + ".downsample.1", conv(p, name + ".downsample.0", x, stride))
        return jax.nn.relu(y + x)


def main():
    _, weights, workload, _ = sys.argv[1:]
    if workload not in SIZES:
        sys.exit(f"jax_resnet.py: no {workload} here")
    batch, side, classes, is_small, has_neck, layers = SIZES[workload]
    all_of = load(weights)
    running = {name: v for name, v in all_of.items() if "running_" in name}
    params = {name: v for name, v in all_of.items() if name not in running and "num_batches" not in name}
    x = jnp.asarray(floats(batch * 3 * side * side, -1, 1, 1).reshape(batch, 3, side, side).transpose(0, 2, 3, 1))
    y = jnp.asarray(integers(batch, classes, 2))

    def loss_of(p, buffers):
        net = Net(p, buffers)
        h = jax.nn.relu(net.norm("bn1", conv(p, "conv1", x, 1 if is_small else 2)))
        if not is_small:
            h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
        for k, n in enumerate(layers):
            for i in range(n):
                h = net.block(f"layer{k + 1}.{i}", h, 2 if k and not i else 1, has_neck)
        return cross_entropy(jnp.mean(h, (1, 2)) @ p["fc.weight"].T + p["fc.bias"], y), net.after

    step = momentum_trainer(params, running, loss_of, 0.01, 0.9, 1e-4)
    serve(third_loss(step), step)


if __name__ == "__main__":
    main()

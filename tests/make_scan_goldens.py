"""Writes tests/scan_goldens.txt and .bin: what PyTorch computes for the layer-normalised LSTM of tests/test_scan_cell.c.

    python tests/make_scan_goldens.py      (PyTorch 2.13, CPU, float64)

The cell of PyTorch's benchmarks (LayerNormLSTMCell): gates = LN(x W_ih^T) + LN(h W_hh^T), c = LN(f c + i g), h = o tanh c, over packed
sequences in any order of lengths. Inputs and weights come from the generator `fill`, which C states too, so that only results are
stored. Reduced by loss = mean(ys^2) + mean(sin h_last) + mean(exp c_last).
"""
import torch
import torch.nn.functional as F

import goldens

B, T, IN, H = 5, 6, 3, 4
LENGTHS = [2, 6, 1, 6, 4]
NAMES = ["w_ih", "w_hh", "g_ih", "b_ih", "g_hh", "b_hh", "g_c", "b_c"]
SHAPES = [(4 * H, IN), (4 * H, H), (4 * H,), (4 * H,), (4 * H,), (4 * H,), (H,), (H,)]


def fill(shape, seed, scale=1.0):
    n, out = int(torch.tensor(shape).prod()), []
    for _ in range(n):
        seed = (seed * 1664525 + 1013904223) % 2**32
        out.append((seed >> 8) / 8388608.0 - 1)
    return (torch.tensor(out, dtype=torch.float64) * scale).float().double().reshape(shape)


x, h0, c0 = fill((B, T, IN), 1), fill((B, H), 2), fill((B, H), 3)
weights = dict(zip(NAMES, (fill(s, 10 + k, 0.5) for k, s in enumerate(SHAPES))))
leaves = [x, h0, c0, *weights.values()]
for leaf in leaves:
    leaf.requires_grad_()


def norm(v, name):
    return F.layer_norm(v, v.shape[-1:], weights["g_" + name], weights["b_" + name], 1e-5)


def run(reverse):
    steps, last_h, last_c = {}, [], []
    for b in range(B):
        h, c = h0[b : b + 1], c0[b : b + 1]
        for t in reversed(range(LENGTHS[b])) if reverse else range(LENGTHS[b]):
            gates = norm(x[b : b + 1, t] @ weights["w_ih"].T, "ih") + norm(h @ weights["w_hh"].T, "hh")
            i, f, g, o = gates.chunk(4, 1)
            c = norm(f.sigmoid() * c + i.sigmoid() * g.tanh(), "c")
            h = o.sigmoid() * c.tanh()
            steps[t, b] = h
        last_h.append(h)
        last_c.append(c)
    order = sorted(range(B), key=lambda b: -LENGTHS[b])  # stable
    ys = torch.cat([steps[t, b] for t in range(T) for b in order if t < LENGTHS[b]])
    return ys, torch.cat(last_h), torch.cat(last_c)


table = goldens.Table("tests/make_scan_goldens.py")
for reverse in (False, True):
    ys, h, c = run(reverse)
    loss = (ys**2).mean() + h.sin().mean() + c.exp().mean()
    grads = torch.autograd.grad(loss, leaves)
    tag = "back_" if reverse else "fwd_"
    for name, v in {"ys": ys, "h": h, "c": c, "loss": loss}.items():
        table.array(tag + name, v.detach())
    for name, v in zip(["x", "h0", "c0", *NAMES], grads):
        table.array(tag + "d_" + name, v)
table.write("scan_goldens")

#!/usr/bin/env python3
"""Writes tests/goldens_resnet.h: a step of ResNet-20 whose weights are made by a formula, and the state_dicts of others.

    python3 tests/make_resnet_goldens.py > tests/goldens_resnet.h          (PyTorch 2.13, NumPy)

Of each parameter's gradient: its norm, its product with the numbers of seed 1000, and N_SHOWN elements, the k-th at
7919003 k modulo their number. Of a state_dict: how many entries and elements it has, and a hash of its names and shapes.
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "bench", "peers"))
from peer import number  # noqa: E402
from torch_resnet import Resnet  # noqa: E402

BATCH, SIDE, CLASSES, N_SHOWN = 4, 16, 10, 4


def weight(name, shape, seed):
    x = (number(shape.numel(), seed) - 0.5) * 0.125  # exact in f32
    if "bn" in name or "downsample.1" in name:
        x = x + (1 if name.endswith("weight") else 0)
    return torch.from_numpy(x.astype(np.float32).astype(np.float64)).reshape(shape)


def step():
    torch.set_default_dtype(torch.float64)
    net = Resnet(20, CLASSES)
    with torch.no_grad():
        for seed, (name, p) in enumerate(net.named_parameters()):
            p.copy_(weight(name, p.shape, seed))
    x = torch.from_numpy((4 * number(BATCH * 3 * SIDE * SIDE, 98) - 2).astype(np.float32).astype(np.float64))
    y = torch.from_numpy((CLASSES * number(BATCH, 99)).astype(np.int64))
    loss = F.cross_entropy(net(x.reshape(BATCH, 3, SIDE, SIDE)), y)
    loss.backward()
    return net, loss.item()


def hash_of(state):  # FNV-1a
    h = 14695981039346656037
    for line in sorted(f"{name} {' '.join(map(str, v.shape))}".strip() + "\n" for name, v in state.items()):
        for byte in line.encode():
            h = (h ^ byte) * 1099511628211 % 2**64
    return h


def main():
    net, loss = step()
    parameters, buffers = dict(net.named_parameters()), {n: b for n, b in net.named_buffers() if b.dim()}
    print("// Made by tests/make_resnet_goldens.py with PyTorch " + torch.__version__.split("+")[0] + "; do not edit.\n// clang-format off")
    print(f"enum {{ BATCH = {BATCH}, SIDE = {SIDE}, CLASSES = {CLASSES}, N_SHOWN = {N_SHOWN} }};")
    print(f"enum {{ N_PARAMETERS = {len(parameters)}, N_BUFFERS = {len(buffers)} }};")
    print(f"static const double resnet_loss = {loss!r};")
    print("static const struct {\n  const char *path;\n  double norm, product, shown[N_SHOWN];\n} resnet_gradients[N_PARAMETERS] = {")
    for name, p in parameters.items():
        g = p.grad.reshape(-1).numpy()
        shown = ", ".join(repr(float(g[7919003 * k % len(g)])) for k in range(N_SHOWN))
        print(f'    {{"{name}", {float(np.linalg.norm(g))!r}, {float(g @ number(len(g), 1000))!r}, {{{shown}}}}},')
    print("};\n// after the step: sums by the numbers of seed 1000\nstatic const struct {\n  const char *path;\n  double product;\n} resnet_buffers[N_BUFFERS] = {")
    for name, b in buffers.items():
        print(f'    {{"{name}", {float(b.numpy() @ number(len(b), 1000))!r}}},')
    print("};\nstatic const struct {\n  int depth, classes;\n  unsigned n_entries;\n  long long n_elements;\n  unsigned long long hash;\n} resnet_states[] = {")
    torch.set_default_dtype(torch.float32)
    for depth, classes in [(20, 10), (18, 1000), (50, 1000)]:
        state = Resnet(depth, classes).state_dict()
        print(f"    {{{depth}, {classes}, {len(state)}, {sum(v.numel() for v in state.values())}, 0x{hash_of(state):x}}},")
    print("};\n// clang-format on")


if __name__ == "__main__":
    main()

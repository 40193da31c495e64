#!/usr/bin/env python3
"""Writes tests/resnet_goldens.txt and .bin: a step of ResNet-20 whose weights are made by a formula, and the state_dicts of others.

    python3 tests/make_resnet_goldens.py          (PyTorch 2.13, NumPy)

Of each parameter's gradient: its norm, its product with the numbers of seed 1000, and N_SHOWN elements, the k-th at
7919003 k modulo their number. Of a state_dict: how many entries and elements it has, and a hash of its names and shapes.
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

import goldens

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
    return h % 2**53  # exact as a double


def main():
    net, loss = step()
    parameters, buffers = dict(net.named_parameters()), {n: b for n, b in net.named_buffers() if b.dim()}
    table = goldens.Table("tests/make_resnet_goldens.py")
    table.array("loss", loss)
    for name, p in parameters.items():
        g = p.grad.reshape(-1).numpy()
        shown = [float(g[7919003 * k % len(g)]) for k in range(N_SHOWN)]
        table.array(name, [float(np.linalg.norm(g)), float(g @ number(len(g), 1000)), *shown])
    for name, b in buffers.items():  # after the step
        table.array(name, float(b.numpy() @ number(len(b), 1000)))
    torch.set_default_dtype(torch.float32)
    for depth, classes in [(20, 10), (18, 1000), (50, 1000)]:
        state = Resnet(depth, classes).state_dict()
        table.array(f"state_{depth}", [classes, len(state), sum(v.numel() for v in state.values()), hash_of(state)])
    table.write("resnet_goldens")


if __name__ == "__main__":
    main()

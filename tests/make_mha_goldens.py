#!/usr/bin/env python3
"""Writes tests/mha_goldens.txt and .bin: torch.nn.MultiheadAttention and a tied embedding, with gradients.

    python3 tests/make_mha_goldens.py          (PyTorch 2.13)
"""
import itertools

import torch
import torch.nn.functional as F

import goldens

torch.set_default_dtype(torch.float64)
B, T, S, E, H = 2, 3, 4, 6, 2
table, seeds = goldens.Table("tests/make_mha_goldens.py"), itertools.count(1)


def exact(*shape):
    """Values in [-1, 1), exact in f32; each with the next seed."""
    return torch.from_numpy(goldens.units(torch.Size(shape).numel(), next(seeds)) * 2 - 1).reshape(shape)


net = torch.nn.MultiheadAttention(E, H, batch_first=True)
with torch.no_grad():
    for p in net.parameters():
        p.copy_(exact(*p.shape))
names = {"in_proj_weight": "in_w", "in_proj_bias": "in_b", "out_proj.weight": "out_w", "out_proj.bias": "out_b"}
x, memory, other, weight = exact(B, T, E), exact(B, S, E), exact(B, S, E), exact(B, T, E)
lengths = torch.tensor([4, 2])
padding = torch.arange(S)[None] >= lengths[:, None]
causal = torch.ones(T, T, dtype=torch.bool).triu(1)
calls = {
    "self": lambda: net(x, x, x, need_weights=False),
    "causal": lambda: net(x, x, x, attn_mask=causal, need_weights=False),
    "cross": lambda: net(x, memory, memory, key_padding_mask=padding, need_weights=False),
    "three": lambda: net(x, memory, other, need_weights=False),
}
for what, call in calls.items():
    y = call()[0]
    table.array(f"{what}_y", y.detach())
    grads = torch.autograd.grad((y * weight).sum(), list(net.parameters()))
    for (name, _), g in zip(net.named_parameters(), grads):
        table.array(f"{what}_d_{names[name]}", g)

words, index, label = exact(5, 3).requires_grad_(), torch.tensor([1, 4, 1, 0]), torch.tensor([2, 2, 0, 4])
loss = F.cross_entropy(torch.tanh(F.embedding(index, words)) @ words.T, label)
table.array("tied_loss", loss.detach())
table.array("tied_grad", torch.autograd.grad(loss, words)[0])
table.write("mha_goldens")

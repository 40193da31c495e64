#!/usr/bin/env python3
"""Writes tests/gpt2_goldens.txt and .bin: loss and gradients of a GPT-2 of full width with 2 layers, whose weights are made by a formula.

    python3 tests/make_gpt2_goldens.py          (PyTorch 2.13, NumPy)

Of each parameter's gradient: its norm, and N_SHOWN elements, the k-th at 7919003 k modulo their number.
"""
import math

import numpy as np
import torch
import torch.nn.functional as F

import goldens

torch.set_default_dtype(torch.float64)
WORDS, PLACES, WIDTH, LAYERS, HEADS, TIME, N_SHOWN = 50257, 64, 768, 2, 12, 64, 8


def number(n, seed):
    """In [0, 1), exact in f32; as bench_number."""
    h = (np.arange(n, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(seed * 40503)).astype(np.uint32)
    h ^= h >> np.uint32(15)
    h *= np.uint32(2246822519)
    h ^= h >> np.uint32(13)
    return (h >> np.uint32(8)) * 2.0**-24


def weight(name, shape, seed):
    x = (number(math.prod(shape), seed) - 0.5) * 0.125  # exact in f32
    if ".ln_" in name and name.endswith("weight"):
        x = x + 1
    return torch.from_numpy(x.astype(np.float32).astype(np.float64)).reshape(shape).requires_grad_()


names = {"transformer.wte.weight": (WORDS, WIDTH), "transformer.wpe.weight": (PLACES, WIDTH)}
for k in range(LAYERS):
    h = f"transformer.h.{k}."
    names |= {h + "ln_1.weight": (WIDTH,), h + "ln_1.bias": (WIDTH,), h + "attn.c_attn.weight": (WIDTH, 3 * WIDTH)}
    names |= {h + "attn.c_attn.bias": (3 * WIDTH,), h + "attn.c_proj.weight": (WIDTH, WIDTH), h + "attn.c_proj.bias": (WIDTH,)}
    names |= {h + "ln_2.weight": (WIDTH,), h + "ln_2.bias": (WIDTH,), h + "mlp.c_fc.weight": (WIDTH, 4 * WIDTH)}
    names |= {h + "mlp.c_fc.bias": (4 * WIDTH,), h + "mlp.c_proj.weight": (4 * WIDTH, WIDTH), h + "mlp.c_proj.bias": (WIDTH,)}
names |= {"transformer.ln_f.weight": (WIDTH,), "transformer.ln_f.bias": (WIDTH,)}
p = {name: weight(name, shape, seed) for seed, (name, shape) in enumerate(names.items())}


def norm(x, name):
    return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"])


def conv(x, name):
    return x @ p[name + ".weight"] + p[name + ".bias"]


ids = torch.from_numpy((WORDS * number(TIME + 1, 99)).astype(np.int64))
x = p["transformer.wte.weight"][ids[:TIME]] + p["transformer.wpe.weight"]
for k in range(LAYERS):
    h = f"transformer.h.{k}."
    q, key, v = (z.view(TIME, HEADS, -1).transpose(0, 1) for z in conv(norm(x, h + "ln_1"), h + "attn.c_attn").split(WIDTH, 1))
    a = F.scaled_dot_product_attention(q, key, v, is_causal=True).transpose(0, 1).reshape(TIME, WIDTH)
    x = x + conv(a, h + "attn.c_proj")
    x = x + conv(F.gelu(conv(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
loss = F.cross_entropy(norm(x, "transformer.ln_f") @ p["transformer.wte.weight"].T, ids[1:])
loss.backward()

table = goldens.Table("tests/make_gpt2_goldens.py")
table.array("loss", loss)
for name, w in p.items():
    g = w.grad.reshape(-1)
    table.array(name, [g.norm().item()] + [g[7919003 * k % len(g)].item() for k in range(N_SHOWN)])
table.write("gpt2_goldens")

#!/usr/bin/env python3
"""Writes tests/module_cases.txt and .bin: what PyTorch's modules give for the cases of tests/module_cases.def.

    python3 tests/make_module_cases.py          (PyTorch 2.13)
"""
import math
import re

import torch
import torch.nn.functional as F  # used by cases
from torch import nn

from goldens import TESTS, Table
from make_op_cases import band, calls, split, tensor, unquoted

PHASES = ["train", "train", "eval"]
DRAWS = 200


class Sinusoidal(nn.Module):
    def __init__(self, most, size):
        super().__init__()
        angle = torch.arange(most)[:, None].double() * 10000.0 ** (-torch.arange(0, size, 2).double() / size)
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], 2).reshape(most, size), persistent=False)

    def forward(self, x):
        return x + self.pe[: x.shape[-2]]


class Learned(nn.Module):
    def __init__(self, most, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(most, size))

    def forward(self, x):
        return x + self.weight[: x.shape[-2]]


def of_heads(y, weights):
    """Attention's result and, behind it along the last axis, the weights of each head."""
    return torch.cat([y, *weights.unbind(1)], -1)


def made(inputs_text, phase):
    """The inputs of a phase; the evaluation has those of the first batch."""
    ins = []
    for word in split(inputs_text):
        kind, arguments = re.fullmatch(r"(\w+)\((.*)\)", word).groups()
        sizes, seed = eval(f"[{arguments}]"), len(ins) + (10 if phase == 1 else 0)
        if kind == "INTS":
            ins.append(tensor(sizes[1:], torch.int64, lambda k, u: u % sizes[0], seed))
        else:
            ins.append(tensor(sizes, torch.float32, lambda k, u: (u - 32768) / 16384, seed).double().requires_grad_())
    return ins


def set_parameters(m):
    """Each by its place among the parameters, in the order of the state_dict."""
    with torch.no_grad():
        for k, p in enumerate(m.parameters()):
            p.copy_(tensor(p.shape, torch.float32, lambda i, u: (u - 32768) / 32768, 100 + k))


def results(m, call, inputs_text):
    for phase, mode in enumerate(PHASES):
        m.train(mode == "train")
        ins = made(inputs_text, phase)
        y = eval(call, {"m": m, "torch": torch, "F": F, "of_heads": of_heads, "band": band, **dict(zip("abcd", ins))})
        w = 1 + 0.25 * (torch.arange(y.numel()) % 5).reshape(y.shape)
        wanted = [x for x in ins if x.requires_grad] + list(m.parameters())
        grads = torch.autograd.grad((y * w).sum(), wanted, allow_unused=True)
        grads = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, grads)]
        yield y, grads


def first_values(constructor):
    """Mean, standard deviation and largest magnitude of each parameter over many modules."""
    torch.manual_seed(1)
    drawn = [[p.detach().reshape(-1) for p in eval(constructor).parameters()] for _ in range(DRAWS)]
    for values in zip(*drawn):
        v = torch.cat(values)
        yield v.mean(), v.std(), v.abs().max()


def add(table, constructor, call, inputs_text):
    torch.set_default_dtype(torch.float64)
    m = eval(constructor)
    set_parameters(m)
    parts = []
    for y, grads in results(m, call, inputs_text):
        parts += [y, *grads]
    parts += [b for name, b in m.named_buffers() if name in m.state_dict()]
    table.line("case", f"{constructor} | {inputs_text}")
    table.line("names", ",".join(m.state_dict()))
    for first in first_values(constructor):
        table.line("drawn", *(f"{x:.6g}" for x in first))
    table.line("shape", *y.shape)
    table.line("parts", *(table.store(x.float()) for x in parts))


def main():
    table = Table("tests/make_module_cases.py")
    for _, (name, constructor, call, _, _, *rest) in calls((TESTS / "module_cases.def").read_text(), "MODULE_CASE"):
        add(table, unquoted(constructor), unquoted(call), ", ".join(rest))
    table.write("module_cases")


main()

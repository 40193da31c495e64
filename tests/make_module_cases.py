#!/usr/bin/env python3
"""Writes tests/module_cases.literals: what PyTorch's modules give for the cases of tests/module_cases.def.

    python3 tests/make_module_cases.py          (PyTorch 2.13)
"""
import math
import pathlib
import re

import torch
import torch.nn.functional as F  # used by cases
from torch import nn

from make_op_cases import band, bits, calls, numbers, split, tensor, unquoted

FOLDER = pathlib.Path(__file__).parent
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
    text = []
    for values in zip(*drawn):
        v = torch.cat(values)
        text.append(f"{{{v.mean():.6g}, {v.std():.6g}, {v.abs().max():.6g}}}")
    return ", ".join(text) or "{0, 0, 0}"


def literal(constructor, call, inputs_text):
    torch.set_default_dtype(torch.float64)
    m = eval(constructor)
    set_parameters(m)
    parts = []
    for y, grads in results(m, call, inputs_text):
        parts += [numbers(x.detach().float()) for x in [y, *grads]]
    parts += [numbers(b.float() if b.is_floating_point() else b) for name, b in m.named_buffers() if name in m.state_dict()]
    names = ",".join(m.state_dict())
    shape = ", ".join(map(str, y.shape))
    n = len(list(m.parameters()))
    return (f'{{"{constructor} | {inputs_text}", "{names}", {n}, {y.dim()}, {{{shape}}},\n {{{first_values(constructor)}}},\n'
            f' (const double *const[]){{{", ".join(parts)}}}}},')


def main():
    rows = []
    for _, (name, constructor, call, _, _, *rest) in calls((FOLDER / "module_cases.def").read_text(), "MODULE_CASE"):
        rows.append(literal(unquoted(constructor), unquoted(call), ", ".join(rest)))
    head = f"// Made by tests/make_module_cases.py with PyTorch {torch.__version__.split('+')[0]}; do not edit.\n// clang-format off\n"
    (FOLDER / "module_cases.literals").write_text(head + "\n".join(rows) + "\n")


main()

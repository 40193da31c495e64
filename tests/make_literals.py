#!/usr/bin/env python3
"""Fills in the numbers of tests/pointwise_literals.def: value and gradients in float64, by the row's own PyTorch expression.

    python3 tests/make_literals.py tests/pointwise_literals.def          (PyTorch 2.13)

A new row is written as LITERAL(mish, "F.mish(a)", A(0.75), , ), and this script completes it.
"""
import re
import sys

import torch
import torch.nn.functional as F  # used by rows

ROW = re.compile(r'LITERAL\((\w+), "([^"]*)", A\(([^)]*)\), .*\)$')


def number(x):
    text = repr(float(torch.as_tensor(x).detach()))
    return {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}.get(text, text if "e" in text or text == "-0.0" else text.removesuffix(".0"))


def filled(op, expression, points):
    names = dict(zip("abc", (torch.tensor(float(x), dtype=torch.float64, requires_grad=True) for x in points)))
    y = eval(expression, {"torch": torch, "F": F, "attr": 0.125, "lo": -0.5, "hi": 0.75, **names})
    y = torch.as_tensor(y).double()
    grads = [None] * len(names)
    if y.requires_grad and op != "floor_divide":  # which PyTorch refuses to differentiate
        grads = torch.autograd.grad(y, list(names.values()), allow_unused=True)
    texts = [number(0.0 if g is None else g) for g in grads]
    return f'LITERAL({op}, "{expression}", A({", ".join(number(x) for x in points)}), {number(y)}, G({", ".join(texts)}))'


lines = open(sys.argv[1]).read().splitlines()
for k, line in enumerate(lines):
    if row := ROW.match(line):
        lines[k] = filled(row[1], row[2], [float(x) for x in row[3].split(",") if x.strip()])
open(sys.argv[1], "w").write("\n".join(lines) + "\n")

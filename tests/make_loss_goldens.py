#!/usr/bin/env python3
"""Writes tests/goldens_loss.h: PyTorch's cross_entropy by its options, value and gradient.

    python3 tests/make_loss_goldens.py > tests/goldens_loss.h          (PyTorch 2.13)
"""
import itertools

import torch
import torch.nn.functional as F

torch.manual_seed(5)
ROWS, CLASSES = 6, 5
logits = (torch.rand(ROWS, CLASSES, dtype=torch.float64) * 8 - 4).float().double()
weight = torch.tensor([0.5, 2.0, 1.0, 0.0, 3.0], dtype=torch.float64)
REDUCTIONS = ["mean", "sum", "none"]
LABELS = {-100: [0, 4, -100, 3, -100, 1], 1: [1, 4, 2, 0, 1, 3], None: [0, 4, 2, 3, 1, 1], 7: [7] * 6}


def number(x):
    return "NAN" if x != x else f"{x:.9g}"


def numbers(x):
    return "{" + ", ".join(number(v) for v in x.reshape(-1).tolist()) + "}"


print(f"// Made by tests/make_loss_goldens.py with PyTorch {torch.__version__.split(chr(43))[0]}; do not edit.\n// clang-format off")
print(f"static const float logits[{ROWS * CLASSES}] = {numbers(logits)};")
print(f"static const float weights[{CLASSES}] = {numbers(weight)};")
print("static const LossCase cases[] = {")
for reduction, ignore, smoothing, weighs in itertools.product(REDUCTIONS, LABELS, [0.0, 0.1, 1.0], [False, True]):
    if ignore == 7 and (reduction == "none" or smoothing == 1.0):
        continue
    x = logits.clone().requires_grad_()
    y = torch.tensor(LABELS[ignore])
    extra = {} if ignore is None else {"ignore_index": ignore}
    loss = F.cross_entropy(x, y, weight=weight if weighs else None, reduction=reduction, label_smoothing=smoothing, **extra)
    # of rows that count differently, so that each has a gradient of its own
    (loss * torch.arange(1, 1 + loss.numel()).reshape(loss.shape)).sum().backward()
    labels = "{" + ", ".join(map(str, LABELS[ignore])) + "}"
    print(f"  {{TN_REDUCE_{reduction.upper()}, {'false' if ignore is None else 'true'}, {ignore or 0}, {smoothing}, "
          f"{'true' if weighs else 'false'}, {labels},\n   {numbers(loss.detach())},\n   {numbers(x.grad)}}},")
print("};")

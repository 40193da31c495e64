#!/usr/bin/env python3
"""Writes tests/loss_goldens.txt and .bin: PyTorch's cross_entropy by its options, value and gradient.

    python3 tests/make_loss_goldens.py          (PyTorch 2.13)
"""
import itertools

import torch
import torch.nn.functional as F

import goldens

ROWS, CLASSES = 6, 5
logits = torch.from_numpy(goldens.units(ROWS * CLASSES, 1) * 8 - 4).float().double().reshape(ROWS, CLASSES)
weight = torch.tensor([0.5, 2.0, 1.0, 0.0, 3.0], dtype=torch.float64)
REDUCTIONS = ["mean", "sum", "none"]
LABELS = {-100: [0, 4, -100, 3, -100, 1], 1: [1, 4, 2, 0, 1, 3], None: [0, 4, 2, 3, 1, 1], 7: [7] * 6}


table = goldens.Table("tests/make_loss_goldens.py")
for reduction, ignore, smoothing, weighs in itertools.product(REDUCTIONS, LABELS, [0.0, 0.1, 1.0], [False, True]):
    if ignore == 7 and (reduction == "none" or smoothing == 1.0):
        continue
    x = logits.clone().requires_grad_()
    y = torch.tensor(LABELS[ignore])
    extra = {} if ignore is None else {"ignore_index": ignore}
    loss = F.cross_entropy(x, y, weight=weight if weighs else None, reduction=reduction, label_smoothing=smoothing, **extra)
    # of rows that count differently, so that each has a gradient of its own
    (loss * torch.arange(1, 1 + loss.numel()).reshape(loss.shape)).sum().backward()
    name = f"{reduction}_ignore_{ignore}_smoothing_{smoothing:g}_{'weighted' if weighs else 'plain'}"
    table.array(name, [*loss.reshape(-1).tolist(), *x.grad.reshape(-1).tolist()])
table.write("loss_goldens")

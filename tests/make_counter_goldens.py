#!/usr/bin/env python3
"""Writes counter_goldens.txt and .bin: parameters that several functions train, each function some of them, after every step of PyTorch.

One optimizer has all parameters; a step gives no gradient (None) to those that its function does not train, so that PyTorch
passes over them and state['step'] stays. `late` is frozen in all functions but the last. Run: python3 tests/make_counter_goldens.py
"""
import torch

import goldens

torch.set_default_dtype(torch.float32)
STEPS = ["ab", "ab", "bc", "a", "table", "bc", "late", "ab", "table", "late"]
OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01),
    "dampened": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "mixed": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0, weight_decay=0.01),
}


def parameters():
    start = {"a": [0.5, -1.0], "b": [0.25, 2.0], "c": [-0.75, 1.5], "late": [1.0, -0.5]}
    start["table"] = [[0.1 * (2 * r + c) - 0.3 for c in range(2)] for r in range(4)]
    return {k: torch.tensor(v, requires_grad=True) for k, v in start.items()}


def loss_of(name, p, x):
    if name == "ab":
        return (p["a"] * p["a"] * x).sum() + (p["b"] * x).sum() + (p["late"] * p["a"]).sum()
    if name == "bc":
        return (p["b"] * p["c"]).sum() + (p["c"] * x).sum()
    if name == "a":
        return (p["a"].sin() * x).sum()
    if name == "table":
        return (p["table"][torch.tensor([2, 0])] * p["a"]).sum()
    return (p["late"] * p["late"] * p["c"]).sum()


def run(make, is_mixed):
    p, rows = parameters(), []
    optimizer = make(list(p.values()))
    for k, name in enumerate(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss_of(name, p, torch.tensor([1.0 + 0.5 * k, 0.25 * k - 1])).backward()
        if name != "late":
            p["late"].grad = None
        if is_mixed:  # function ab dampens, the others do not
            optimizer.param_groups[0]["dampening"] = 0.5 if name == "ab" else 0
        optimizer.step()
        rows.append([v for q in p.values() for v in q.detach().flatten().tolist()])
    return rows


table = goldens.Table("tests/make_counter_goldens.py")
for name, make in OPTIMIZERS.items():
    table.array(name, run(make, name == "mixed"))
table.write("counter_goldens")

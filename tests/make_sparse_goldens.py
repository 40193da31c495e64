#!/usr/bin/env python3
"""Writes tests/goldens_sparse.h: updates of a table by rows of gradient with an index each, as torch.optim.AdamW makes them
of the dense gradient.

    python3 tests/make_sparse_goldens.py > tests/goldens_sparse.h          (PyTorch 2.13, NumPy)
"""
import sys

import torch

import make_goldens as m
from make_goldens import case, ints, rnd

m.cases.clear()
m.array_prefix[0] = "r"


def update(name, size, width, indices, make, attrs, lr, decay, factor=None):
    table = torch.nn.Parameter(rnd(size, width))
    start = table.detach().clone()
    optimizer = make([table])
    ins, body = {}, "%p0 = param @p\n%m0 = param @exp_avg\n%s0 = param @exp_avg_sq\n"
    if factor is not None:
        body += f"%factor = const {{value={factor}}}\n"
    body += f"%lr = const {{value={lr}}}\n%wd = const {{value={decay}}}\n"
    for k, i in enumerate(indices):
        ins[f"i{k}"], ins[f"g{k}"] = i, rnd(*i.shape, width)
        table.grad = torch.zeros(size, width).index_add(0, i.reshape(-1), ins[f"g{k}"].reshape(-1, width))
        table.grad *= 1 if factor is None else factor
        optimizer.step()
        body += f"%t{k} = const {{value={k + 1}}}\n"
        body += f"%p{k + 1}, %m{k + 1}, %s{k + 1} = adamw_sparse %p{k}, %m{k}, %s{k}, %i{k}, %g{k}, %t{k}, %lr, %wd{', %factor' if factor is not None else ''} {attrs}\n"
    state, zero = optimizer.state[table], torch.zeros(size, width)
    case("adamw_sparse " + name, body, ins, {f"p{len(indices)}": table.detach()},
         params=[("p", start, table.detach()), ("exp_avg", zero, state["exp_avg"]), ("exp_avg_sq", zero, state["exp_avg_sq"])])


betas = "beta1=0.9, beta2=0.99, eps=1e-06"
adamw = lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)
adam = lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.99), eps=1e-6)
for name, size, width, indices in (
        ("", 7, 3, [ints(1, 4, 1, 0, 1), ints(6, 6), ints(2, 5, 3, 4)]), ("of pairs", 5, 17, [ints(1, 4, 1, 0).reshape(2, 2)]),
        ("of one row", 1, 33, [ints(0, 0, 0), ints(0)]), ("of one element", 3, 1, [ints(2, 2, 2, 0)]),
        ("of nothing", 4, 5, [ints(3), ints()]), ("of a scalar index", 4, 16, [ints(2)[0]])):
    update(name, size, width, indices, adamw, "{" + betas + ", decoupled}", 0.01, 0.1)
    update(name + " without decay", size, width, indices, adam, "{" + betas + "}", 0.01, 0)
update("with a factor", 7, 19, [ints(1, 4, 1, 0, 1), ints(6, 6)], adamw, "{" + betas + ", decoupled}", 0.01, 0.1, 0.375)

if __name__ == "__main__":
    m.main(sys.stdout, "tests/make_sparse_goldens.py", "sparse_cases")

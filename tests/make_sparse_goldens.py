#!/usr/bin/env python3
"""Writes tests/op_tables/sparse.txt and .bin: updates of a table by rows of gradient with an index each, as torch.optim.AdamW makes them
of the dense gradient, and as torch.optim makes them of sparse ones, of look-ups and bags; gradients of tables that are looked up in and
multiplied by.

    python3 tests/make_sparse_goldens.py          (PyTorch 2.13, NumPy)
"""
import torch

import make_goldens as m
from make_goldens import case, gradient, ints, rnd

m.cases.clear()


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


# ---- only rows that were looked up: torch.optim's updates by sparse gradients
def sparse(op, make, states, numbers, attrs, bags=(), **options):
    """Three steps with other rows each. bags: operands of embedding_bag beside the index; without them rows are looked up."""
    size, width, look_up = 12, 19, not bags
    table = torch.nn.Parameter(rnd(size, width))
    start, optimizer = table.detach().clone(), make([table])
    zero, ins = torch.zeros(size, width), {}
    body = "%p0 = param @p\n" + "".join(f"%{s}0 = param @{s}\n" for s in states)
    body += "".join(f"%{n} = const {{value={x}}}\n" for n, x in numbers)
    for k in range(3):
        index = ints(*((7 * j + 5 * k) * (j + 1) % 11 for j in range(12))).reshape(4, 3)
        given, more, text = dict(options), {}, ""
        if "offsets" in bags:
            index, given["offsets"] = index.reshape(-1), ints(0, 5, 5, 9)
        if "factor" in bags:
            given["per_sample_weights"] = rnd(*index.shape)
        for name, key in (("offsets", "offsets"), ("factor", "per_sample_weights")):
            if name in bags:
                more[f"{name}{k}"] = given[key]
        y = torch.nn.functional.embedding(index, table, sparse=True) if look_up else torch.nn.functional.embedding_bag(index, table, sparse=True, **given)
        ins[f"i{k}"], ins[f"g{k}"] = index, rnd(*y.shape)
        ins.update(more)
        optimizer.zero_grad()
        (y * ins[f"g{k}"]).sum().backward()
        optimizer.step()
        text = f", index=%i{k}" + "".join(f", {name}=%{name}{k}" for name in bags if name in ("offsets", "factor"))
        body += f"%t{k} = const {{value={k + 1}}}\n"
        results = ", ".join(f"%{s}{k + 1}" for s in ["p", *states])
        operands = ", ".join(f"%{s}{k}" for s in ["p", *states]) + f", %g{k}"
        operands += (f", %t{k}" if op != "sgd" else "") + "".join(f", %{n}" for n, _ in numbers)
        body += f"{results} = {op} {operands}{text} {attrs}\n"
    state = optimizer.state[table]
    case(f"{op} by rows of {' '.join(bags) or 'look-ups'}", body, ins, {"p3": table.detach()},
         params=[("p", start, table.detach()), *((s, zero, state[s]) for s in states)])


rates = (("lr", 0.125), ("wd", 0))
by_sgd = lambda p: torch.optim.SGD(p, lr=0.125)
by_adagrad = lambda p: torch.optim.Adagrad(p, lr=0.125, eps=1e-6, lr_decay=0.25)
# SparseAdam adds eps before it corrects the bias, Adam behind that: here it is too small to be seen.
by_adam = lambda p: torch.optim.SparseAdam(p, lr=0.125, betas=(0.9, 0.99), eps=1e-30)
moments, adam_attrs = ["exp_avg", "exp_avg_sq"], "{beta1=0.9, beta2=0.99, eps=1e-30}"
sums = {"mode": "sum"}
sparse("sgd", by_sgd, [], rates, "")
sparse("adagrad", by_adagrad, ["sum"], rates, "{eps=1e-06, lr_decay=0.25}")
sparse("adamw", by_adam, moments, rates, adam_attrs)
sparse("sgd", by_sgd, [], rates, "", ["bags"], **sums)
sparse("sgd", by_sgd, [], rates, "", ["offsets"], **sums)
sparse("adagrad", by_adagrad, ["sum"], rates, "{eps=1e-06, lr_decay=0.25}", ["offsets", "factor"], **sums)
sparse("adamw", by_adam, moments, rates, adam_attrs, ["factor"], **sums)


# ---- tied tables: the rows of the look-up's gradient go into that of the product
look = torch.nn.functional.embedding


def tied(name, body, words, width, index, fn):
    gradient("tied " + name, body, {"w": rnd(words, width), "i": index}, fn, ["w"])


for name, words, width, index in (("table", 7, 5, ints(1, 4, 1, 0, 1, 6)), ("wide table", 5, 67, ints(1, 4, 1, 0)),
                                  ("table of pairs", 33, 16, ints(32, 4, 32, 0, 1, 5).reshape(3, 2)),
                                  ("table of one row", 1, 3, ints(0, 0, 0))):
    tied(name, "%x = embedding %w, %i\n%h = tanh %x\n%y = linear %h, %w", words, width, index,
         lambda w, i: torch.tanh(look(i, w)) @ w.T)
tied("table with two look-ups", "%x = embedding %w, %i\n%h = tanh %x\n%z = embedding %w, %i\n%g = mul %h, %z\n%y = linear %g, %w",
     9, 18, ints(8, 1, 1, 3), lambda w, i: (torch.tanh(look(i, w)) * look(i, w)) @ w.T)
tied("table with two products", "%x = embedding %w, %i\n%h = tanh %x\n%z = linear %h, %w\n%s = sigmoid %z\n%g = matmul %s, %w\n%y = linear %g, %w",
     9, 18, ints(8, 1, 1, 3), lambda w, i: torch.sigmoid(torch.tanh(look(i, w)) @ w.T) @ w @ w.T)
tied("table behind its product", "%x = embedding %w, %i\n%z = linear %x, %w\n%t = embedding %w, %i\n%y = matmul %z, %t {ta}" ,
     6, 4, ints(5, 1, 1, 3), lambda w, i: (look(i, w) @ w.T).T @ look(i, w))

if __name__ == "__main__":
    m.main("sparse", "tests/make_sparse_goldens.py")

#!/usr/bin/env python3
"""Writes tests/op_tables/ops.txt and .bin: one case per use of an op, with PyTorch's results.

    python3 tests/make_goldens.py          (PyTorch 2.13, NumPy)

A case is a small .tir program, its inputs, and what its outputs (and parameters) must be. Inputs are exact in f32, so that
the same case can be run in single precision; results are PyTorch's in float64. A gradient case has the loss as output 0 and
its gradients as the outputs after it. Random streams come from a second Philox4x32-10, written below in NumPy.
tests/op_tables/README.md has the form of the files.
"""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from goldens import Table, units

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)
NAN, INF = math.nan, math.inf
cases, draws = [], {}


def rnd(*shape, lo=-2.0, hi=2.0):
    """Values in [lo, hi), exact in f32, which tests/op_tables.h draws from the same seed."""
    seed = rnd.seed = rnd.seed + 1
    x = (lo + (hi - lo) * units(math.prod(shape), seed)).astype(np.float32).astype(np.float64)
    draws.setdefault(x.tobytes(), (seed, lo, hi))
    return torch.from_numpy(x).reshape(shape)


rnd.seed = 0


def t(*values):
    return torch.tensor(values).float().double()


def ints(*values):
    return torch.tensor(values, dtype=torch.int64)


def type_of(x, shape=None):
    dims = shape if shape is not None else "[" + ",".join(str(n) for n in x.shape) + "]"
    return ("i64" if x.dtype == torch.int64 else "f32") + dims


def case(name, body, ins, outs, dims=(), params=(), shapes=None, seed=0, counter=0, grad_of=(), fd=True):
    """body: lines; the names in `outs` are its results. ins: {name: tensor}. dims: (name, bound, value).
    params: (name, tensor, tensor after). grad_of: names of the inputs whose gradients are outputs 1, 2, .."""
    shapes = shapes or {}
    text = [f"dim {n} <= {bound}" for n, bound, _ in dims]
    text += [f"param @{n} : {type_of(x)} trainable" for n, x, _ in params]
    text += ["func @f(" + ", ".join(f"%{n}: {type_of(x, shapes.get(n))}" for n, x in ins.items()) + ") {"]
    text += ["  " + line.strip() for line in body.strip().splitlines()]
    text += ["-> " + " ".join(outs)]
    cases.append(dict(name=name, tir=text, ins=list(ins.values()), outs=list(outs.values()),
                      params=[x for _, x, _ in params], after=[a for _, _, a in params], dims=[v for _, _, v in dims],
                      seed=seed, counter=counter, grad_of=[list(ins).index(n) for n in grad_of], fd=fd))


def gradient(name, body, ins, fn, wrt, result="y", dims=(), shapes=None, fd=True, y_shape=None):
    """The program's %result, of shape `y_shape`, is fn(ins) weighted with an extra input and summed; gradients by `wrt`."""
    leaves = {n: x.clone().requires_grad_(n in wrt) for n, x in ins.items()}
    y = fn(**leaves)
    weight = rnd(*y.shape)
    loss = (y * weight).sum()
    grads = torch.autograd.grad(loss, [leaves[n] for n in wrt])
    axes = ",".join(str(k) for k in range(y.dim()))
    lines = body.strip() + f"\n%weighted = mul %{result}, %weight\n%loss = sum %weighted {{axes=[{axes}]}}\n"
    lines += "\n".join(f"%d_{n} = grad_of %loss, %{n}" for n in wrt)
    outs = {"loss": loss.detach(), **{f"d_{n}": g for n, g in zip(wrt, grads)}}
    case(name + " gradient", lines, {**ins, "weight": weight}, outs, dims=dims, shapes={**(shapes or {}), "weight": y_shape},
         grad_of=wrt, fd=fd)


def both(name, body, ins, fn, wrt, y_shape=None, **more):
    case(name, body, ins, {"y": fn(**ins)}, **more)
    gradient(name, body, ins, fn, wrt, y_shape=y_shape, **more)


# ---- pointwise
def unary(op, fn, x, attrs="", grad=True):
    case(op, f"%y = {op} %x{attrs}", {"x": x}, {"y": fn(x)})
    if grad:
        gradient(op, f"%y = {op} %x{attrs}", {"x": x}, lambda x: fn(x), ["x"])


wide = torch.cat([rnd(17, lo=-4, hi=4), t(-30.0, 30.0)])
positive = rnd(13, lo=0.05, hi=9)
unary("copy", lambda x: x * 1, wide)
unary("neg", torch.neg, wide)
unary("abs", torch.abs, wide)
unary("exp", torch.exp, wide)
unary("log", torch.log, positive)
unary("sqrt", torch.sqrt, positive)
unary("tanh", torch.tanh, wide)
unary("sigmoid", torch.sigmoid, wide)
unary("erf", torch.erf, rnd(3, 5, lo=-3, hi=3))
unary("sin", torch.sin, wide)
unary("cos", torch.cos, wide)
unary("floor", torch.floor, torch.cat([wide, t(-0.0, 1.0, -1.0, 0.5)]), grad=False)
unary("relu", torch.relu, wide)
unary("square", torch.square, wide)
unary("rsqrt", torch.rsqrt, positive)
unary("silu", F.silu, wide)
unary("gelu", F.gelu, wide)
unary("softplus", lambda x: torch.logaddexp(x, torch.zeros_like(x)), wide)
unary("leaky_relu", lambda x: F.leaky_relu(x, 0.125), wide, " {slope=0.125}")
edge = t(0.0, -0.0, NAN, INF, -INF, 1.0)
case("relu at the edges", "%y = relu %x", {"x": edge}, {"y": torch.relu(edge)})
case("tanh at the edges", "%y = tanh %x", {"x": edge}, {"y": torch.tanh(edge)})
case("exp at the edges", "%y = exp %x", {"x": edge}, {"y": torch.exp(edge)})
case("log at the edges", "%y = log %x", {"x": edge}, {"y": torch.log(edge)})
case("sigmoid at the edges", "%y = sigmoid %x", {"x": edge}, {"y": torch.sigmoid(edge)})
gradient("relu at zero", "%y = relu %x", {"x": t(0.0, -1.0, 2.0)}, lambda x: torch.relu(x), ["x"], fd=False)
gradient("abs at zero", "%y = abs %x", {"x": t(0.0, -1.0, 2.0)}, lambda x: torch.abs(x), ["x"], fd=False)


def binary(op, fn, lo=-3.0, hi=3.0, grad=True):
    for what, sa, sb in (("", (3, 5), (3, 5)), (" broadcast rows", (3, 5), (5,)), (" broadcast columns", (2, 1, 3), (4, 1)),
                         (" with a scalar", (), (7,)), (" of size 1", (1,), (1,))):
        ins = {"a": rnd(*sa, lo=lo, hi=hi), "b": rnd(*sb, lo=lo, hi=hi)}
        case(op + what, f"%y = {op} %a, %b", ins, {"y": fn(**ins)})
        if grad:
            gradient(op + what, f"%y = {op} %a, %b", ins, fn, ["a", "b"])


binary("add", lambda a, b: a + b)
binary("sub", lambda a, b: a - b)
binary("mul", lambda a, b: a * b)
binary("div", lambda a, b: a / b, lo=0.25)
binary("max", lambda a, b: torch.maximum(a, b))
binary("min", lambda a, b: torch.minimum(a, b))
binary("pow", lambda a, b: torch.pow(a, b), lo=0.25)
special_a, special_b = t(1, 1, NAN, 2, 0, -INF, INF, -0.0), t(1, 2, 3, NAN, NAN, 1, INF, 0.0)
for op, fn in (("gt", torch.gt), ("ge", torch.ge), ("lt", torch.lt), ("le", torch.le), ("eq", torch.eq), ("ne", torch.ne)):
    for what, a, b in (("", special_a, special_b), (" broadcast", ints(1, 2, 3).double()[:, None], t(1, 2, 3))):
        case(op + what, f"%y = {op} %a, %b", {"a": a, "b": b}, {"y": fn(a, b).double()})
case("max at the edges", "%y = max %a, %b", {"a": special_a, "b": special_b}, {"y": torch.maximum(special_a, special_b)})
case("min at the edges", "%y = min %a, %b", {"a": special_a, "b": special_b}, {"y": torch.minimum(special_a, special_b)})
both("select", "%y = select %c, %a, %b", {"c": t(0, 1, -2, 0, 0.5), "a": rnd(3, 5), "b": rnd(3, 1)},
     lambda c, a, b: torch.where(c != 0, a, b), ["a", "b"])
both("a chain of pointwise ops", """
     %m = mul %a, %b
     %s = add %m, %c
     %t = tanh %s
     %q = square %t
     %y = sub %q, %a""", {"a": rnd(4, 7), "b": rnd(7), "c": rnd(4, 1)},
     lambda a, b, c: torch.tanh(a * b + c) ** 2 - a, ["a", "b", "c"])

# ---- pointwise of other kinds
x = t(-2.75, -0.5, 0.0, 0.5, 2.0, 1e6 + 0.5)
case("cast to i64", "%y = cast %x {dtype=i64}", {"x": x}, {"y": x.long()})
case("cast to f32", "%y = cast %x {dtype=f32}", {"x": ints(-3, 0, 7, 1 << 24)}, {"y": ints(-3, 0, 7, 1 << 24).double()})
both("stop_grad", "%s = stop_grad %x\n%y = mul %x, %s", {"x": rnd(3, 3)}, lambda x: x * x.detach(), ["x"], fd=False)
w, v = rnd(3, 4), rnd(4)
case("assign to a parameter", "%w = param @w\n%y = assign %w, %v\n%z = add %y, %v", {"v": v},
     {"y": v.expand(3, 4), "z": v.expand(3, 4) * 2}, params=[("w", w, v.expand(3, 4))])
gradient("assign", "%k = square %x\n%w = assign %k, %v\n%y = square %w", {"x": rnd(3, 4), "v": rnd(4)},
         lambda x, v: (x * x).copy_(v).square(), ["v"])

# ---- shape
both("reshape", "%y = reshape %x {shape=[5,6]}", {"x": rnd(2, 3, 5)}, lambda x: x.reshape(5, 6), ["x"])
both("expand", "%y = expand %x {shape=[2,3,5]}", {"x": rnd(3, 1)}, lambda x: x.expand(2, 3, 5), ["x"])
both("expand of a scalar", "%y = expand %x {shape=[4]}", {"x": rnd()}, lambda x: x.expand(4), ["x"])
both("permute", "%y = permute %x {perm=[2,0,1]}", {"x": rnd(2, 3, 5)}, lambda x: x.permute(2, 0, 1), ["x"])
both("slice", "%y = slice %x {axis=1, start=2, count=3}", {"x": rnd(3, 7, 2)}, lambda x: x[:, 2:5], ["x"])
both("slice of nothing", "%y = slice %x {axis=0, start=3, count=0}", {"x": rnd(3, 2)}, lambda x: x[3:3], ["x"])
both("pad_axis", "%y = pad_axis %x {axis=1, start=2, size=6}", {"x": rnd(3, 3)}, lambda x: F.pad(x, (2, 1)), ["x"])
both("concat", "%y = concat %a, %b, %c {axis=1}", {"a": rnd(2, 3), "b": rnd(2, 1), "c": rnd(2, 4)},
     lambda a, b, c: torch.cat([a, b, c], 1), ["a", "b", "c"])

# ---- partial writes; %x is an input, so that the write goes to a copy, or a value of the function's own
def put_slice(x, part, axis, start):
    """x with the elements start .. along axis replaced, as copy_ into a slice does."""
    y = x * 1
    y.narrow(axis, start, part.shape[axis]).copy_(part)
    return y


for what, shape, axis, start, size in (
        ("first axis", (5, 3), 0, 1, 2), ("last axis", (4, 7), 1, 3, 3), ("middle axis", (3, 7, 5), 1, 2, 4),
        ("one column", (19, 3), 1, 2, 1), ("whole axis", (2, 9), 1, 0, 9), ("nothing", (3, 4), 0, 3, 0),
        ("vector", (37,), 0, 5, 29), ("one of one", (1,), 0, 0, 1), ("rank 4", (2, 3, 4, 5), 2, 1, 2)):
    at = f"{{axis={axis}, start={start}}}"
    ins = {"x": rnd(*shape), "p": rnd(*(size if k == axis else n for k, n in enumerate(shape)))}
    fn = lambda x, p: put_slice(x, p, axis, start)
    case("slice_assign " + what, f"%y = slice_assign %x, %p {at}", ins, {"y": fn(**ins)})
    gradient("slice_assign " + what, f"%q = square %x\n%s = slice_assign %q, %p {at}\n%y = square %s", ins,
             lambda x, p: fn(x * x, p) ** 2, ["x", "p"])
x, p = torch.arange(35).reshape(5, 7) - 3, torch.arange(12).reshape(4, 3) + 100
case("slice_assign of integers", "%r = reshape %p {shape=[4,3]}\n%s = slice %x {axis=0, start=1, count=4}\n"
     "%y = slice_assign %s, %r {axis=1, start=2}", {"x": x, "p": p.reshape(12)}, {"y": put_slice(x[1:], p, 1, 2)})


def big(name, n_x, n_p, put, body, index=None):
    """Many elements from few literals: x[i, j] = a[i] b[j], the part likewise; the sums of y over either axis."""
    ins = {"a": rnd(n_x[0], 1), "b": rnd(n_x[1]), "c": rnd(n_p[0], 1), "d": rnd(n_p[1])}
    x, p = ins["a"] * ins["b"], ins["c"] * ins["d"]
    y = put(x, p)
    body = "%x = mul %a, %b\n%p = mul %c, %d\n" + body
    dims = ",".join(str(n) for n in n_x)
    body += f"\n%z = reshape %y {{shape=[{dims}]}}\n%rows = sum %z {{axes=[1]}}\n%columns = sum %z {{axes=[0]}}"
    y = y.reshape(n_x)
    case(name, body, ins if index is None else {**ins, "i": index}, {"rows": y.sum(1), "columns": y.sum(0)})


big("slice_assign of many rows", (70, 90), (65, 80), lambda x, p: put_slice(x[:, :90], F.pad(p, (0, 10)), 0, 3),
    "%q = pad_axis %p {axis=1, start=0, size=90}\n%y = slice_assign %x, %q {axis=0, start=3}")
big("slice_assign of many columns", (70, 90), (70, 77), lambda x, p: put_slice(x, p, 1, 9),
    "%y = slice_assign %x, %p {axis=1, start=9}")
big("slice_assign of long rows", (150, 60), (150, 50), lambda x, p: put_slice(x.reshape(3, 3000), p.reshape(3, 2500), 1, 301),
    "%u = reshape %x {shape=[3,3000]}\n%v = reshape %p {shape=[3,2500]}\n%y = slice_assign %u, %v {axis=1, start=301}")
x, p = rnd(5, 3, 4), rnd(5, 2, 4)
both("slice_assign over named dims", "%s = slice_assign %x, %p {axis=1, start=1}\n%y = square %s", {"x": x, "p": p},
     lambda x, p: put_slice(x, p, 1, 1) ** 2, ["x", "p"], dims=[("batch", 8, 5)], shapes={"x": "[batch,3,4]", "p": "[batch,2,4]"},
     y_shape="[batch,3,4]")


def put_rows(x, i, p):
    """x with the rows i replaced, one after the other: the last of equal indices stays."""
    y = x * 1
    for k, row in enumerate(i.tolist()):
        y[row] = p[k]
    return y


for what, shape, i in (("rows", (5, 3), ints(4, 0, 2)), ("elements", (7,), ints(6, 1)), ("rank 3", (4, 2, 3), ints(3, 1)),
                       ("wide rows", (3, 71), ints(2, 0)), ("all rows", (3, 2), ints(2, 0, 1)),
                       ("one of one", (1, 1), ints(0))):
    ins = {"x": rnd(*shape), "i": i, "p": rnd(len(i), *shape[1:])}
    case("index_assign " + what, "%y = index_assign %x, %i, %p", ins, {"y": put_rows(**ins)})
    gradient("index_assign " + what, "%q = square %x\n%s = index_assign %q, %i, %p\n%y = square %s", ins,
             lambda x, i, p: (x * x).index_put((i,), p) ** 2, ["x", "p"])
for what, shape, i in (("equal indices", (5, 3), ints(1, 4, 1, 1, 4)), ("wide rows with equal indices", (3, 70), ints(2, 2, 0, 2)),
                       ("no rows", (4, 3), ints()), ("empty rows", (4, 0), ints(2, 1))):
    ins = {"x": rnd(*shape), "i": i, "p": rnd(len(i), *shape[1:])}
    case("index_assign " + what, "%y = index_assign %x, %i, %p", ins, {"y": put_rows(**ins)})
i = torch.randint(0, 300, (290,))
big("index_assign of many rows", (300, 17), (290, 17), lambda x, p: put_rows(x, i, p), "%y = index_assign %x, %i, %p", i)
i = torch.randint(0, 80, (75,))
big("index_assign of many wide rows", (80, 67), (75, 67), lambda x, p: put_rows(x, i, p), "%y = index_assign %x, %i, %p", i)
x, p, i = rnd(5, 3), rnd(4, 3), ints(4, 0, 0, 2)
case("index_assign over named dims", "%y = index_assign %x, %i, %p", {"x": x, "i": i, "p": p}, {"y": put_rows(x, i, p)},
     dims=[("n", 9, 4)], shapes={"i": "[n]", "p": "[n,3]"})

x, i = rnd(5, 3), ints(1, 2, 3, 4, 0)
case("index_assign of the target's own rows", "%q = copy %x\n%y = index_assign %q, %i, %q", {"x": x, "i": i}, {"y": put_rows(x, i, x)})
x, p = rnd(4, 6), rnd(4, 2)
case("clone", "%c = clone %x\n%y = slice_assign %c, %p {axis=1, start=3}\n%z = sub %y, %x", {"x": x, "p": p},
     {"y": put_slice(x, p, 1, 3), "z": put_slice(x, p, 1, 3) - x})

# into parameters, and beside them
w, p, q = rnd(6, 4), rnd(2, 4), rnd(6, 1)
first = put_slice(w, p, 0, 3)
both_written = put_slice(first, q, 1, 2)
case("slice_assign into a parameter", """%w = param @w
     %v = slice_assign %w, %p {axis=0, start=3, into_param}
     %y = slice_assign %v, %q {axis=1, start=2, into_param}""", {"p": p, "q": q}, {"y": both_written}, params=[("w", w, both_written)])
case("slice_assign beside a parameter", """%w = param @w
     %v = slice_assign %w, %p {axis=0, start=3}
     %y = slice_assign %v, %q {axis=1, start=2}
     %z = sub %y, %w""", {"p": p, "q": q}, {"y": both_written, "z": both_written - w}, params=[("w", w, w)])
case("slice_assign beside a written parameter", """%w = param @w
     %v = slice_assign %w, %p {axis=0, start=3, into_param}
     %y = slice_assign %v, %q {axis=1, start=2}
     %z = square %v""", {"p": p, "q": q}, {"y": both_written, "z": first * first}, params=[("w", w, first)])
case("a parameter's old content beside a partial write", """%w = param @w
     %v = slice_assign %w, %p {axis=0, start=3, into_param}
     %y = sub %v, %w""", {"p": p}, {"y": first - w}, params=[("w", w, first)])
i = ints(5, 0, 5)
written = put_rows(w, i, w[1:4])
case("index_assign into a parameter", "%w = param @w\n%y = index_assign %w, %i, %p {into_param}", {"i": i, "p": w[1:4]}, {"y": written},
     params=[("w", w, written)])

# written in place through views, as pass functionalize rewrites it
x, p = rnd(4, 6), rnd(4, 2)
case("write through a view", """%c = square %x
     %s = slice %c {axis=1, start=3, count=2}
     %d = clone %c
     write %s, %p
     %t = square %s
     %y = sub %c, %d""", {"x": x, "p": p}, {"y": put_slice(x * x, p, 1, 3) - x * x, "t": p * p})
gradient("write through views", """%c = square %x
     %r = reshape %c {shape=[3,8]}
     %f = permute %r {perm=[1,0]}
     %s = slice %f {axis=0, start=1, count=5}
     write %s, %p
     %y = square %c""", {"x": x, "p": rnd(5, 3)},
         lambda x, p: put_slice((x * x).reshape(3, 8).T, p, 0, 1).T.reshape(4, 6) ** 2, ["x", "p"])
w, p = rnd(6, 4), rnd(2, 4)
case("write into a parameter", """%w = param @w
     %s = slice %w {axis=0, start=1, count=2}
     write %s, %p {no_grad}
     %y = square %w""", {"p": p}, {"y": put_slice(w, p, 0, 1) ** 2}, params=[("w", w, put_slice(w, p, 0, 1))])
w, p = rnd(6, 4), rnd(3, 3)
inner = lambda w: put_slice(w.reshape(3, 8), p, 1, 2).reshape(6, 4)
case("write into a reshaped parameter", """%w = param @w
     %r = reshape %w {shape=[3,8]}
     %s = slice %r {axis=1, start=2, count=3}
     write %s, %p {no_grad}
     %y = square %w""", {"p": p}, {"y": inner(w) ** 2}, params=[("w", w, inner(w))])
w, a = rnd(6, 4), rnd(6, 4)
case("write of a clone back into its parameter", """%w = param @w
     %d = clone %w
     write %w, %a {no_grad}
     %t = square %w
     write %w, %d {no_grad}
     %y = neg %w""", {"a": a}, {"y": -w, "t": a * a}, params=[("w", w, w)])
case("write of a copy that was written beside", """%w = param @w
     %v = slice_assign %w, %p {axis=1, start=1}
     write %w, %v {no_grad}
     %y = neg %w""", {"p": a[:, :2]}, {"y": -put_slice(w, a[:, :2], 1, 1)}, params=[("w", w, put_slice(w, a[:, :2], 1, 1))])
w, p = rnd(6, 4), rnd(2, 3)
nested = put_slice(w, put_slice(w[1:5], F.pad(p, (0, 1)) + F.pad(w[2:4, 3:], (3, 0)), 0, 1), 0, 1)
case("write into a part of a part of a parameter", """%w = param @w
     %r = slice %w {axis=0, start=1, count=4}
     %q = slice %r {axis=0, start=1, count=2}
     %s = slice %q {axis=1, start=0, count=3}
     write %s, %p {no_grad}
     %y = square %w""", {"p": p}, {"y": nested ** 2}, params=[("w", w, nested)])

# ---- reductions
for axes, keep in (([0], False), ([1], False), ([2], True), ([0, 2], False), ([0, 1, 2], False), ([1, 2], True), ([], False)):
    text = "{axes=[" + ",".join(map(str, axes)) + "]" + (", keepdim}" if keep else "}")
    x = rnd(3, 5, 7)
    both("sum over " + text, "%y = sum %x " + text, {"x": x}, lambda x: x.sum(axes, keepdim=keep) if axes else x * 1, ["x"])
    if axes:
        both("amax over " + text, "%y = amax %x " + text, {"x": x}, lambda x: x.amax(axes, keepdim=keep), ["x"])
tied = t([1, 3, 3], [2, 2, 2], [-INF, -INF, -INF], [5, NAN, 7])
case("amax at the edges", "%y = amax %x {axes=[1]}", {"x": tied}, {"y": tied.amax(1)})
gradient("amax with ties", "%y = amax %x {axes=[1]}", {"x": tied[:2]}, lambda x: x.amax(1), ["x"], fd=False)
case("sum over an empty axis", "%y = sum %x {axes=[1]}", {"x": rnd(3, 0)}, {"y": torch.zeros(3)})
x = rnd(4, 9)
case("argmax", "%y = argmax %x", {"x": x}, {"y": x.argmax(-1)})
case("argmax at the edges", "%y = argmax %x", {"x": tied}, {"y": ints(1, 0, 0, 1)})

# ---- rows
both("softmax", "%y = softmax %x", {"x": rnd(3, 2, 7, lo=-5, hi=5)}, lambda x: x.softmax(-1), ["x"])
both("softmax of one column", "%y = softmax %x", {"x": rnd(3, 1)}, lambda x: x.softmax(-1), ["x"])
both("log_softmax", "%y = log_softmax %x", {"x": rnd(4, 9, lo=-5, hi=5)}, lambda x: x.log_softmax(-1), ["x"])
large = t([1e4, 0, -1e4], [-1e4, -1e4, -1e4])
case("softmax of large values", "%y = softmax %x", {"x": large}, {"y": large.softmax(-1)})
case("log_softmax of large values", "%y = log_softmax %x", {"x": large}, {"y": large.log_softmax(-1)})
logits, labels = rnd(5, 9, lo=-4, hi=4), ints(0, 8, 3, 3, 1)
case("cross_entropy_rows", "%y, %lse = cross_entropy_rows %x, %label", {"x": logits, "label": labels},
     {"y": F.cross_entropy(logits, labels, reduction="none"), "lse": logits.logsumexp(-1)})
gradient("cross_entropy_rows", "%y, %lse = cross_entropy_rows %x, %label", {"x": logits, "label": labels},
         lambda x, label: F.cross_entropy(x, label, reduction="none"), ["x"])
gradient("cross_entropy_rows of rank 3", "%y, %lse = cross_entropy_rows %x, %label", {"x": rnd(2, 3, 5), "label": ints([0, 1, 4], [2, 2, 3])},
         lambda x, label: F.cross_entropy(x.reshape(6, 5), label.reshape(6), reduction="none").reshape(2, 3), ["x"])
gradient("cross_entropy_rows by its lse only", "%n, %y = cross_entropy_rows %x, %label", {"x": logits, "label": labels},
         lambda x, label: x.logsumexp(-1), ["x"])
gradient("cross_entropy_rows by both results", "%n, %lse = cross_entropy_rows %x, %label\n%q = square %lse\n%y = mul %n, %q",
         {"x": rnd(2, 3, 5), "label": ints([0, 1, 4], [2, 2, 3])},
         lambda x, label: F.cross_entropy(x.mT, label, reduction="none") * x.logsumexp(-1) ** 2, ["x"])
s, g = rnd(3, 6).softmax(-1), rnd(3, 6)
s = s.float().double()
case("softmax_grad", "%y = softmax_grad %s, %g", {"s": s, "g": g}, {"y": s * (g - (s * g).sum(-1, keepdim=True))})
s = s.log().float().double()
case("log_softmax_grad", "%y = log_softmax_grad %s, %g", {"s": s, "g": g}, {"y": g - s.exp() * g.sum(-1, keepdim=True)})
lse, g = logits.logsumexp(-1).float().double(), rnd(5)
case("cross_entropy_rows_grad", "%y = cross_entropy_rows_grad %x, %label, %lse, %g", {"x": logits, "label": labels, "lse": lse, "g": g},
     {"y": ((logits - lse[:, None]).exp() - F.one_hot(labels, 9)) * g[:, None]})

# ---- layer norm and RMS norm, from a stream of their own
state = torch.get_rng_state()
torch.manual_seed(21)


def layer(x, w=None, b=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], w, b, eps)


def rms(x, w=None, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], w, eps)


for rows, c in (((3, 2), 7), ((5,), 33), ((2,), 1), ((), 19)):
    x, w, b = rnd(*rows, c), rnd(c), rnd(c)
    size = "x".join(str(n) for n in rows + (c,))
    both(f"layer_norm {size}", "%y, %m, %r = layer_norm %x, %w, %b {eps=1e-05}", {"x": x, "w": w, "b": b}, layer, ["x", "w", "b"])
    both(f"layer_norm {size} without bias", "%y, %m, %r = layer_norm %x, %w {eps=1e-05}", {"x": x, "w": w}, layer, ["x", "w"])
    both(f"layer_norm {size} without weight", "%y, %m, %r = layer_norm %x {eps=1e-05}", {"x": x}, layer, ["x"])
    both(f"rms_norm {size}", "%y, %r = rms_norm %x, %w {eps=1e-05}", {"x": x, "w": w}, rms, ["x", "w"])
    both(f"rms_norm {size} without weight", "%y, %r = rms_norm %x {eps=1e-05}", {"x": x}, rms, ["x"])
x = rnd(3, 11)
case("layer_norm, all results", "%y, %m, %r = layer_norm %x {eps=0.01}", {"x": x},
     {"y": layer(x, eps=0.01), "m": x.mean(-1), "r": (x.var(-1, correction=0) + 0.01).rsqrt()})
gradient("layer_norm by its mean and rstd", "%z, %m, %r = layer_norm %x {eps=0.01}\n%q = square %r\n%y = mul %m, %q", {"x": x},
         lambda x: x.mean(-1) / (x.var(-1, correction=0) + 0.01), ["x"])
gradient("rms_norm by its rstd", "%z, %y = rms_norm %x {eps=0.01}", {"x": x}, lambda x: ((x * x).mean(-1) + 0.01).rsqrt(), ["x"])
far = rnd(2, 40) + 32
case("layer_norm far from 0", "%y, %m, %r = layer_norm %x {eps=1e-05}", {"x": far}, {"y": layer(far)})
case("layer_norm of equal elements", "%y, %m, %r = layer_norm %x {eps=1e-05}", {"x": t([3, 3, 3], [0, 0, 0])}, {"y": torch.zeros(2, 3)})
both("layer_norm over named dims", "%y, %m, %r = layer_norm %x, %w, %b {eps=1e-05}",
     {"x": rnd(3, 4, 5), "w": rnd(5), "b": rnd(5)}, layer, ["x", "w", "b"], dims=[("batch", 8, 3), ("time", 9, 4)],
     shapes={"x": "[batch,time,5]"}, y_shape="[batch,time,5]")
x, w, g = rnd(3, 9), rnd(9), rnd(3, 9)
m, r = x.mean(-1).float().double(), (x.var(-1, correction=0) + 1e-5).rsqrt().float().double()
unit, h = (x - m[:, None]) * r[:, None], g * w
case("layer_norm_grad", "%y = layer_norm_grad %x, %m, %r, %g, %w", {"x": x, "m": m, "r": r, "g": g, "w": w},
     {"y": r[:, None] * (h - h.mean(-1, keepdim=True) - unit * (h * unit).mean(-1, keepdim=True))})
unit = x * r[:, None]
case("rms_norm_grad", "%y = rms_norm_grad %x, %r, %g, %w", {"x": x, "r": r, "g": g, "w": w},
     {"y": r[:, None] * (h - unit * (h * unit).mean(-1, keepdim=True))})
unary("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), rnd(5, 7, lo=-6, hi=6))
torch.set_rng_state(state)

# ---- matrix products
for ta in (False, True):
    for tb in (False, True):
        flags = ", ".join(f for f, on in (("ta", ta), ("tb", tb)) if on)
        text = "%y = matmul %a, %b" + (" {" + flags + "}" if flags else "")
        fn = lambda a, b: (a.mT if ta else a) @ (b.mT if tb else b)
        for what, ba, bb, m, k, n in (("", (), (), 5, 3, 7), (" in batches", (2, 1), (3,), 3, 4, 5), (" thin", (), (), 1, 9, 1)):
            sa, sb = ba + ((k, m) if ta else (m, k)), bb + ((n, k) if tb else (k, n))
            both("matmul" + what + " " + flags, text, {"a": rnd(*sa), "b": rnd(*sb)}, fn, ["a", "b"])
case("matmul with nothing to sum", "%y = matmul %a, %b", {"a": rnd(2, 0), "b": rnd(0, 3)}, {"y": torch.zeros(2, 3)})
both("matmul of sizes beyond a tile", "%y = matmul %a, %b", {"a": rnd(19, 11), "b": rnd(11, 37)}, lambda a, b: a @ b, ["a", "b"])
both("linear", "%y = linear %x, %w, %b", {"x": rnd(5, 3), "w": rnd(7, 3), "b": rnd(7)}, lambda x, w, b: F.linear(x, w, b),
     ["x", "w", "b"])
both("linear of rank 3", "%y = linear %x, %w, %b", {"x": rnd(2, 4, 3), "w": rnd(5, 3), "b": rnd(5)},
     lambda x, w, b: F.linear(x, w, b), ["x", "w", "b"])
both("linear of a vector", "%y = linear %x, %w", {"x": rnd(3), "w": rnd(4, 3)}, lambda x, w: F.linear(x, w), ["x", "w"])

# ---- gather and scatter
both("embedding", "%y = embedding %w, %i", {"w": rnd(6, 3), "i": ints([0, 5, 2], [2, 2, 1])},
     lambda w, i: F.embedding(i, w), ["w"])
both("embedding of one index", "%y = embedding %w, %i", {"w": rnd(4, 5), "i": ints(3)[0]}, lambda w, i: F.embedding(i, w), ["w"])

# ---- named dims
bt = [("batch", 8, 3), ("time", 9, 4)]
both("sum over named dims", "%s = sum %x {axes=[1]}\n%n = dim_size {dim=time}\n%y = div %s, %n", {"x": rnd(3, 4, 5)},
     lambda x: x.mean(1), ["x"], dims=bt, shapes={"x": "[batch,time,5]"}, y_shape="[batch,5]")
both("linear over named dims", "%r = reshape %x {shape=[batch*time,5]}\n%y = linear %r, %w, %b",
     {"x": rnd(3, 4, 5), "w": rnd(2, 5), "b": rnd(2)}, lambda x, w, b: F.linear(x.reshape(12, 5), w, b), ["x", "w", "b"],
     dims=bt, shapes={"x": "[batch,time,5]"}, y_shape="[batch*time,2]")


# ---- random numbers: Philox4x32-10
def philox(counter, key):
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
    0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
SEED, RUN = 0x123456789ABCDEF0, 7


def stream(n, stream_id):
    return [philox([i, 0, stream_id, RUN], [SEED & 0xFFFFFFFF, SEED >> 32]) for i in range(n)]


def uniform(n, stream_id):
    return torch.tensor([(x[0] >> 8) * 2.0**-24 for x in stream(n, stream_id)])


def normal(n, stream_id):
    return torch.tensor([math.sqrt(-2 * math.log(((x[0] >> 8) + 1) * 2.0**-24)) * math.cos(2 * math.pi * (x[1] >> 8) * 2.0**-24)
                         for x in stream(n, stream_id)])


def random_case(name, body, y, ins=None):
    case(name, body, ins or {}, {"y": y}, seed=SEED, counter=RUN)


random_case("rand", "%y = rand {id=5, shape=[3,7]}", uniform(21, 5))
random_case("randn", "%y = randn {id=6, shape=[19]}", normal(19, 6))
random_case("uniform", "%y = uniform {lo=-0.25, hi=0.5, id=1, shape=[4,3]}", uniform(12, 1) * 0.75 - 0.25)
random_case("normal", "%y = normal {mean=1.5, std=0.25, id=2, shape=[9]}", normal(9, 2) * 0.25 + 1.5)
random_case("full", "%y = full {value=2.5, shape=[3,2]}", torch.full((3, 2), 2.5))
x = rnd(3, 7)
kept = (uniform(21, 4) >= 0.25).double().reshape(3, 7)
random_case("dropout", "%y = dropout %x {p=0.25, id=4}", x * kept / 0.75, {"x": x})
random_case("dropout of nothing", "%y = dropout %x {p=0, id=4}", x, {"x": x})
weight = rnd(3, 7)
case("dropout gradient", """%y = dropout %x {p=0.25, id=4}
     %weighted = mul %y, %weight
     %loss = sum %weighted {axes=[0,1]}
     %d_x = grad_of %loss, %x""", {"x": x, "weight": weight},
     {"loss": (x * kept / 0.75 * weight).sum(), "d_x": weight * kept / 0.75}, seed=SEED, counter=RUN, grad_of=["x"])

# ---- training
parts = [rnd(3, 5), rnd(7), rnd()]
case("global_norm", "%y = global_norm %a, %b, %c", dict(zip("abc", parts)),
     {"y": torch.nn.utils.get_total_norm(parts)})


def optimizer(name, make, op, attrs, states, steps=3, as_state=False):
    """`steps` chained updates by fresh gradients; parameters and states afterwards. as_state: the numbers that steer the
    update are entries of the table, set between runs, not constants."""
    p = torch.nn.Parameter(rnd(3, 5))
    start = p.detach().clone()
    grads = [rnd(3, 5) for _ in range(steps)]
    o = make([p])
    for g in grads:
        p.grad = g.clone()
        o.step()
    after = {"p": p.detach(), **{s: o.state[p][s] for s in states}}
    numbers = ["lr", "weight_decay"] + (["momentum"] if op == "sgd_momentum" else [])
    hyper = {n: o.param_groups[0][n] for n in numbers}
    body = [f"%{s}0 = param @{s}" for s in after]
    body += [f"%{n} = " + (f"param @{n}" if as_state else f"const {{value={v}}}") for n, v in hyper.items()]
    for k in range(steps):
        old, new = (", ".join(f"%{s}{i}" for s in after) for i in (k, k + 1))
        body += [f"%t{k} = const {{value={k + 1}}}"] if states else []
        body += [f"{new} = {op} {old}, %g{k}, " + (f"%t{k}, " if states else "") + ", ".join(f"%{n}" for n in numbers) + f" {attrs}"]
    zero = torch.zeros(3, 5)
    case(name, "\n".join(body), {f"g{k}": g for k, g in enumerate(grads)}, {f"p{steps}": p.detach()},
         params=[(s, start if s == "p" else zero, a) for s, a in after.items()] +
                [(n, t(v).reshape(()), t(v).reshape(())) for n, v in hyper.items() if as_state])


adam_state = ["exp_avg", "exp_avg_sq"]
betas = "beta1=0.9, beta2=0.99, eps=1e-06"
optimizer("adamw", lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1), "adamw",
          "{" + betas + ", decoupled}", adam_state)
optimizer("adam with weight decay", lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1), "adamw",
          "{" + betas + "}", adam_state)
optimizer("adam", lambda p: torch.optim.Adam(p, lr=0.03), "adamw", "{beta1=0.9, beta2=0.999, eps=1e-08}", adam_state)
optimizer("sgd", lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05), "sgd", "", [])
optimizer("sgd_momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05), "sgd_momentum",
          "{dampening=0}", ["momentum_buffer"])
optimizer("sgd_momentum nesterov", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), "sgd_momentum",
          "{dampening=0, nesterov}", ["momentum_buffer"])


def nesterov_and_dampening(p):
    """The update rule knows both together; the constructor refuses them."""
    o = torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.25)
    o.param_groups[0]["nesterov"] = True
    return o


optimizer("sgd_momentum dampened", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.25, weight_decay=0.05),
          "sgd_momentum", "{dampening=0.25}", ["momentum_buffer"])
optimizer("sgd_momentum dampened wholly", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5, dampening=1),
          "sgd_momentum", "{dampening=1}", ["momentum_buffer"])
optimizer("sgd_momentum dampened nesterov", nesterov_and_dampening, "sgd_momentum",
          "{dampening=0.25, nesterov}", ["momentum_buffer"])

# ---- packed sequences
LAYOUT = "%L = packed_layout %len {time=time, rows=rows}\n"


def packed_dims(lengths, time):
    return [("batch", len(lengths) + 2, len(lengths)), ("time", time + 3, time), ("rows", (len(lengths) + 2) * (time + 3), -1)]


def packed_data(x, lengths):
    """PackedSequence.data with stable ties: step by step, longest first."""
    order = sorted(range(len(lengths)), key=lambda b: -lengths[b])
    rows = [x[b, step] for step in range(max(lengths)) for b in order if lengths[b] > step]
    return torch.stack(rows)


def check_against_torch(x, lengths):
    p = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    assert p.data.shape == packed_data(x, lengths).shape
    if len(set(lengths)) == len(lengths):
        assert torch.equal(p.data, packed_data(x, lengths))


for what, lengths, time in (("", [2, 4, 1, 3], 4), (" with ties", [2, 4, 4, 1, 2], 5), (" of one sequence", [3], 3)):
    x = rnd(len(lengths), time, 2)
    check_against_torch(x, lengths)
    dims, shapes = packed_dims(lengths, time), {"x": "[batch,time,2]", "len": "[batch]"}
    data = packed_data(x, lengths)
    case("pack" + what, LAYOUT + "%y = pack_padded %x, %L", {"x": x, "len": ints(*lengths)}, {"y": data}, dims=dims, shapes=shapes)
    gradient("pack" + what, LAYOUT + "%k = pack_padded %x, %L\n%q = square %k\n%y = unpack_padded %q, %L {value=0}", {"x": x, "len": ints(*lengths)},
             lambda x, len: x * x * (torch.arange(time)[None, :, None] < len[:, None, None]), ["x"], dims=dims, shapes=shapes, y_shape="[batch,time,2]")
    beyond = torch.arange(time)[None, :, None] >= ints(*lengths)[:, None, None]
    case("pad" + what, LAYOUT + "%k = pack_padded %x, %L\n%y = unpack_padded %k, %L {value=-7.5}", {"x": x, "len": ints(*lengths)},
         {"y": torch.where(beyond, torch.tensor(-7.5), x)}, dims=dims, shapes=shapes)
    case("pack time first" + what, LAYOUT + "%y = pack_padded %x, %L {time_major}", {"x": x.transpose(0, 1), "len": ints(*lengths)},
         {"y": data}, dims=dims, shapes={"x": "[time,batch,2]", "len": "[batch]"})
    case("pad time first" + what, LAYOUT + "%k = pack_padded %x, %L\n%y = unpack_padded %k, %L {time_major, value=0.5}",
         {"x": x, "len": ints(*lengths)}, {"y": torch.where(beyond, torch.tensor(0.5), x).transpose(0, 1)}, dims=dims, shapes=shapes)
lengths = [4, 3, 3, 1]
x = rnd(4, 4)
case("packed_layout sorted", "%L = packed_layout %len {time=time, rows=rows, sorted}\n%y = pack_padded %x, %L", {"x": x, "len": ints(*lengths)},
     {"y": packed_data(x, lengths)}, dims=packed_dims(lengths, 4), shapes={"x": "[batch,time]", "len": "[batch]"})
case("packed_layout of constant lengths", "%L = packed_layout {lengths=[2,3,1], time=3, rows=6}\n%y = pack_padded %x, %L",
     {"x": x[:3, :3]}, {"y": packed_data(x[:3, :3], [2, 3, 1])})

# ---- recurrent
CELLS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "tanh": torch.nn.RNN, "relu": torch.nn.RNN}


def recurrent(cell, lengths, time, n_in, n_hidden, init=True, bias=True, use=("out", "hn", "cn"), what="", bidirectional=True,
              own_input=False):
    lstm = cell == "lstm"
    options = {"nonlinearity": cell} if cell in ("tanh", "relu") else {}
    net = CELLS[cell](n_in, n_hidden, batch_first=True, bidirectional=bidirectional, bias=bias, **options)
    directions = 2 if bidirectional else 1
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(rnd(*p.shape, lo=-0.6, hi=0.6))
    b = len(lengths)
    x = rnd(b, time, n_in).requires_grad_()
    state = [rnd(directions, b, n_hidden, lo=-1, hi=1).requires_grad_() for _ in range(2 if lstm else 1)]
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    hx = None if not init else tuple(state) if lstm else state[0]
    out, last = net(packed, hx)
    out = pad_packed_sequence(out, batch_first=True, total_length=time)[0]
    last = last if lstm else (last,)
    for d in range(directions):
        one_direction(cell, net, d, lengths, time, x, state if init else [], out, last, use, bias, what, own_input)


def one_direction(cell, net, d, lengths, time, x, state, out, last, use, bias, what, own_input):
    lstm, h = cell == "lstm", net.hidden_size
    suffix = "_l0" + ("_reverse" if d else "")
    named = {"w_ih": "weight_ih", "w_hh": "weight_hh", **({"b_ih": "bias_ih", "b_hh": "bias_hh"} if bias else {})}
    leaves = {"x": x, **{n: getattr(net, p + suffix) for n, p in named.items()}}
    values = {"out": out[..., d * h:(d + 1) * h], "hn": last[0][d], **({"cn": last[1][d]} if lstm else {})}
    used = [n for n in values if n in use]
    weights = {n: rnd(*values[n].shape) for n in used}
    loss = sum((values[n] * weights[n]).sum() for n in used)
    grads = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)))
    ins = {n: v.detach() for n, v in leaves.items()}
    for n, s in zip(("h0", "c0"), state):
        grads[n] = torch.autograd.grad(loss, s, retain_graph=True)[0][d]
        ins[n] = s.detach()[d]
    flags = [f'cell="{cell}"'] + (["reverse"] if d else [])
    own = ["w_ih"] if own_input else []
    given = [n for n in ("b_hh", "h0", "c0") if n in ins] + own
    # by position up to the first absent one, by name behind it
    tail = "".join(f", %{n}" if n == at else f", {n}=%{n}" for n, at in zip(given, ("b_hh", "h0", "c0", "w_ih")))
    body = LAYOUT + "%data = pack_padded %x, %L\n"
    if own_input:
        body += "%b = add %b_ih, %b_hh\n" if bias else ""
        first, tail = "data", tail.replace("%b_hh", "%b")
    else:
        body += "%xg = linear %data, %w_ih" + (", %b_ih" if bias else "") + "\n"
        first = "xg"
    body += f"%rows, %hn, %cn, %hp, %cp, %gates = rnn_seq %{first}, %L, %w_hh{tail} {{{', '.join(flags)}}}\n"
    body += "%out = unpack_padded %rows, %L {value=0}\n"
    for n in used:
        body += f"%m_{n} = mul %{n}, %weight_{n}\n%s_{n} = sum %m_{n} {{axes=[{'0,1,2' if n == 'out' else '0,1'}]}}\n"
    total = f"s_{used[0]}"
    for k, n in enumerate(used[1:]):
        body += f"%total{k} = add %{total}, %s_{n}\n"
        total = f"total{k}"
    body += "%loss = copy %" + total + "\n" + "\n".join(f"%d_{n} = grad_of %loss, %{n}" for n in grads)
    ins |= {"len": ints(*lengths)} | {f"weight_{n}": w for n, w in weights.items()}
    shapes = {"x": f"[batch,time,{net.input_size}]", "len": "[batch]", "h0": f"[batch,{h}]", "c0": f"[batch,{h}]",
              "weight_out": f"[batch,time,{h}]", "weight_hn": f"[batch,{h}]", "weight_cn": f"[batch,{h}]"}
    outs = {"loss": loss.detach(), **{f"d_{n}": g for n, g in grads.items()}, **{n: v.detach() for n, v in values.items()}}
    case(f"rnn_seq {cell}{' reverse' if d else ''}{what}", body, ins, outs, dims=packed_dims(lengths, time), shapes=shapes,
         grad_of=list(grads))


for cell in CELLS:
    recurrent(cell, [3, 5, 1, 5, 3], 6, 3, 3)
    recurrent(cell, [2, 4], 4, 2, 1, init=False, bias=False, what=" without bias and state")
    recurrent(cell, [1, 3, 2], 3, 2, 5, init=False, use=("hn",), what=" by its last state only")
    recurrent(cell, [2, 2, 3], 3, 2, 2, use=("out",), what=" by its output only", bidirectional=False)
    recurrent(cell, [4, 2, 7, 7, 1, 3, 4], 7, 5, 9, what=" hidden 9", bidirectional=False)
recurrent("lstm", [1, 3, 2], 3, 2, 4, use=("cn",), what=" by its cell state only")
recurrent("lstm", [1], 1, 1, 1, what=" of one element")


# ---- optimizers whose numbers are entries of the table
for steer in ({"weight_decay": 0.0625}, {"weight_decay": 0.0}):
    word = " set between runs, weight decay " + str(steer["weight_decay"])
    optimizer("adamw" + word, lambda p: torch.optim.AdamW(p, lr=0.125, betas=(0.9, 0.99), eps=1e-6, **steer), "adamw",
              "{" + betas + ", decoupled}", adam_state, as_state=True)
    optimizer("adam" + word, lambda p: torch.optim.Adam(p, lr=0.125, betas=(0.9, 0.99), eps=1e-6, **steer), "adamw",
              "{" + betas + "}", adam_state, as_state=True)
    optimizer("sgd" + word, lambda p: torch.optim.SGD(p, lr=0.125, **steer), "sgd", "", [], as_state=True)
    optimizer("sgd_momentum" + word, lambda p: torch.optim.SGD(p, lr=0.125, momentum=0.75, nesterov=True, **steer),
              "sgd_momentum", "{nesterov}", ["momentum_buffer"], as_state=True)

# ---- dense layouts
x = torch.arange(12.0).reshape(3, 4)
case("dense_layout", "%L = dense_layout {dim=batch, time=time}\n%y = pack_padded %x, %L", {"x": x}, {"y": x.t().reshape(-1)},
     dims=[("batch", 6, 3), ("time", 9, 4)], shapes={"x": "[batch,time]"})
case("dense_layout of constant sizes", "%L = dense_layout {dim=3, time=4}\n%k = pack_padded %x, %L\n%y = unpack_padded %k, %L {time_major}",
     {"x": x}, {"y": x.t()})


# ---- the files
def number(x):
    return str(int(x)) if math.isfinite(x) and x == int(x) and (x or math.copysign(1, x) > 0) else repr(float(x))


def given(kind, x, table):
    """A line for an input: how it is drawn, its numbers, or that they are stored."""
    values = x.detach().double().reshape(-1).contiguous().numpy()
    if len(values) and values.tobytes() in draws:
        seed, lo, hi = draws[values.tobytes()]
        return f"{kind} draw {len(values)} {seed} {lo!r} {hi!r}"
    if len(values) <= 64:
        return " ".join([kind, "is", str(len(values)), *map(number, values.tolist())])
    return f"{kind} stored {table.store(x.double())}"


def add(table, c):
    table.line("case", c["name"])
    table.lines += [given("in", x, table) for x in c["ins"]] + [given("param", x, table) for x in c["params"]]
    for kind, key in ("out", "outs"), ("after", "after"):
        if c[key]:
            table.line(kind, *(table.store(x.double()) for x in c[key]))
    if c["dims"]:
        table.line("dims", *c["dims"])
    if c["grad_of"]:
        table.line("grads", *c["grad_of"], *["differences"] * c["fd"])
    if c["seed"]:
        table.line("stream", c["seed"], c["counter"])
    table.lines += c["tir"]


# ---- rows along another axis than the last
for name, function, axis, x in (("softmax", torch.softmax, 0, rnd(5, 21)), ("softmax", torch.softmax, 1, rnd(3, 4, 17)),
                                ("log_softmax", torch.log_softmax, 0, rnd(3, 2, 9)),
                                ("log_softmax", torch.log_softmax, 1, rnd(2, 70, 3))):
    both(f"{name} along axis {axis} of {x.dim()}", f"%y = {name} %x {{axis={axis}}}", {"x": x},
         lambda x, function=function, axis=axis: function(x, axis), ["x"])
case("softmax of infinities along the first axis", "%y = softmax %x {axis=0}",
     {"x": t([1, -INF, 0, -INF], [2, -INF, INF, 5])}, {"y": t([1, -INF, 0, -INF], [2, -INF, INF, 5]).softmax(0)})


# ---- recurrences that make the product with their input
for cell in ("lstm", "tanh", "relu"):
    recurrent(cell, [3, 5, 1, 5, 3], 6, 3, 3, what=" with its input", own_input=True)
    recurrent(cell, [4, 2, 6, 1], 6, 5, 9, init=False, use=("hn",), what=" with its input, hidden 9", own_input=True)
recurrent("lstm", [2, 4], 4, 1, 2, init=False, bias=False, what=" with its input, without bias and state", own_input=True)

# ---- the other optimizers, in a list of their own: numbers of the op by option of PyTorch's, its tensors of state
class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, which PyTorch has not."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(b1 * m + (1 - b1) * p.grad))
                m.mul_(b2).add_((1 - b2) * p.grad)


def update(op, make, attrs, states, numbers="step lr weight_decay", steps=7, state_of={}, beta1=None):
    """`steps` chained updates by fresh gradients; parameters and states afterwards. beta1: of each step."""
    p = torch.nn.Parameter(rnd(3, 5))
    start = {"p": p.detach().clone(), **{s: torch.full((3, 5), state_of.get(s, 0.0)) for s in states}}
    grads = [rnd(3, 5) for _ in range(steps)]
    o = make([p])
    products = []
    for k, g in enumerate(grads):
        p.grad = g.clone()
        if beta1:
            o.param_groups[0]["betas"] = (beta1[k], o.param_groups[0]["betas"][1])
        o.step()
        products.append(float(o.state[p].get("mu_product", 0)))
    after = {"p": p.detach(), **{s: o.state[p][s] for s in states}}
    hyper = {n: o.param_groups[0][n] for n in numbers.split() if n not in ("step", "mu_product")}
    body = [f"%{s}0 = param @{s}" for s in after]
    body += [f"%{n} = const {{value={v}}}" for n, v in hyper.items()]
    for k in range(steps):
        old, new = (", ".join(f"%{s}{i}" for s in after) for i in (k, k + 1))
        body += [f"%step{k} = const {{value={k + 1}}}", f"%mu_product{k} = const {{value={products[k]!r}}}"]
        body += [f"%beta1{k} = const {{value={beta1[k]}}}"] if beta1 else []
        of_step = [f"%{n}{k}" if n in ("step", "mu_product") else f"%{n}" for n in numbers.split()]
        of_step += [f"beta1=%beta1{k}"] if beta1 else []
        body += [f"{new} = {op} {old}, %g{k}, " + ", ".join(of_step) + (f" {{{attrs}}}" if attrs else "")]
    case(f"{op} {'of a moved beta1 ' if beta1 else ''}{attrs}".strip(), "\n".join(body), {f"g{k}": g for k, g in enumerate(grads)}, {f"p{steps}": p.detach()},
         params=[(s, start[s], a) for s, a in after.items()])


optim, few = torch.optim, (0.9, 0.95)
update("amsgrad", lambda p: optim.AdamW(p, lr=0.01, betas=few, eps=1e-6, weight_decay=0.1, amsgrad=True),
       "beta1=0.9, beta2=0.95, eps=1e-06, decoupled", ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"])
update("amsgrad", lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True), "", ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"])
nadam = "step lr weight_decay mu_product"
update("nadam", lambda p: optim.NAdam(p, weight_decay=0.1), "", ["exp_avg", "exp_avg_sq"], nadam)
update("nadam", lambda p: optim.NAdam(p, lr=0.02, betas=few, weight_decay=0.1, momentum_decay=0.5, decoupled_weight_decay=True),
       "beta1=0.9, beta2=0.95, momentum_decay=0.5, decoupled", ["exp_avg", "exp_avg_sq"], nadam)
update("radam", lambda p: optim.RAdam(p, lr=0.02, weight_decay=0.1), "", ["exp_avg", "exp_avg_sq"], steps=9)
update("radam", lambda p: optim.RAdam(p, lr=0.02, betas=few, eps=1e-3, weight_decay=0.1, decoupled_weight_decay=True),
       "beta1=0.9, beta2=0.95, eps=0.001, decoupled", ["exp_avg", "exp_avg_sq"], steps=9)
update("adamax", lambda p: optim.Adamax(p, weight_decay=0.1), "", ["exp_avg", "exp_inf"])
update("adamax", lambda p: optim.Adamax(p, lr=0.02, betas=few, eps=1e-2), "beta1=0.9, beta2=0.95, eps=0.01", ["exp_avg", "exp_inf"])
update("adagrad", lambda p: optim.Adagrad(p, weight_decay=0.1), "", ["sum"])
update("adagrad", lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.5, eps=1e-3),
       "lr_decay=0.1, eps=0.001", ["sum"], state_of={"sum": 0.5})
plain = "lr weight_decay"
update("adadelta", lambda p: optim.Adadelta(p, weight_decay=0.1), "", ["square_avg", "acc_delta"], plain)
update("adadelta", lambda p: optim.Adadelta(p, lr=0.5, rho=0.7, eps=1e-3), "rho=0.7, eps=0.001", ["square_avg", "acc_delta"], plain)
for centered in (False, True):
    states = ["square_avg"] + ["grad_avg"] * centered
    op = "rmsprop" + "_centered" * centered
    update(op, lambda p: optim.RMSprop(p, centered=centered, weight_decay=0.1), "", states, plain)
    update(op, lambda p: optim.RMSprop(p, lr=0.03, alpha=0.8, eps=1e-3, centered=centered), "alpha=0.8, eps=0.001", states, plain)
    update(op + "_momentum", lambda p: optim.RMSprop(p, lr=0.02, alpha=0.9, momentum=0.8, centered=centered, weight_decay=0.1), "alpha=0.9",
           states + ["momentum_buffer"], plain + " momentum")
update("lion", lambda p: Lion(p, lr=0.01, weight_decay=0.1), "", ["exp_avg"], plain)
update("lion", lambda p: Lion(p, lr=0.01, betas=(0.6, 0.8)), "beta1=0.6, beta2=0.8", ["exp_avg"], plain)

# ---- products, behind all others: they draw no random numbers from those
whole = torch.tensor([[1.5, -2.0, 0.25, 3.0], [2.0, 0.0, -1.0, 0.5], [0.0, 4.0, 0.0, 2.0]])
both("prod", "%y = prod %x {axes=[1]}", {"x": whole[:1]}, lambda x: x.prod(1), ["x"])
gradient("prod with zeros", "%y = prod %x {axes=[1]}", {"x": whole}, lambda x: x.prod(1), ["x"], fd=False)

# ---- Adam whose beta1 a schedule moves, likewise
cycled = {"beta1": [0.95, 0.9, 0.85, 0.875, 0.9, 0.9375, 0.95]}
update("adamw", lambda p: optim.AdamW(p, lr=0.01, betas=few, eps=1e-6, weight_decay=0.1), "beta2=0.95, eps=1e-06, decoupled",
       ["exp_avg", "exp_avg_sq"], **cycled)
update("adamw", lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1), "", ["exp_avg", "exp_avg_sq"], **cycled)
update("amsgrad", lambda p: optim.AdamW(p, lr=0.01, betas=few, eps=1e-6, weight_decay=0.1, amsgrad=True),
       "beta2=0.95, eps=1e-06, decoupled", ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"], **cycled)
update("amsgrad", lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True), "", ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
       **cycled)
for decay, attrs in ({"weight_decay": 0.1}, "beta2=0.95"), ({"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}, "beta2=0.95, decoupled"):
    update("nadam", lambda p: optim.NAdam(p, betas=few, **decay), attrs, ["exp_avg", "exp_avg_sq"], nadam, **cycled)
    update("radam", lambda p: optim.RAdam(p, betas=few, **decay), attrs, ["exp_avg", "exp_avg_sq"], **cycled)
update("adamax", lambda p: optim.Adamax(p, lr=0.02, betas=few, eps=1e-2, weight_decay=0.1), "beta2=0.95, eps=0.01",
       ["exp_avg", "exp_inf"], **cycled)
update("lion", lambda p: Lion(p, lr=0.01, weight_decay=0.1), "", ["exp_avg"], plain, **cycled)
# ---- parts of several axes, likewise
both("crop", "%y = crop %x {starts=[1,0], steps=[1,2], before=[2,0], behind=[0,1], shape=[4,4]}", {"x": rnd(3, 6)},
     lambda x: F.pad(x[1:, ::2], (0, 1, 2, 0)), ["x"])
# ---- windows, likewise
both("windows", "%y = windows %x {axis=1, size=5, step=2, count=4}", {"x": rnd(3, 12)}, lambda x: x.unfold(1, 5, 2), ["x"])
both("windows of rows", "%y = windows %x {axis=0, size=3, step=1, count=4}", {"x": rnd(6, 2)}, lambda x: x.unfold(0, 3, 1), ["x"])


def main(name, script="tests/make_goldens.py"):
    table = Table(script)
    for c in cases:
        add(table, c)
    table.write(f"op_tables/{name}")


if __name__ == "__main__":
    main("ops")

#!/usr/bin/env python3
"""Writes tests/op_tables/linear_scan.txt and .bin: linear recurrences, as cases of make_goldens.py.

    python3 tests/make_linear_scan_goldens.py          (PyTorch 2.13, NumPy)
"""
import torch

import make_goldens as m
from make_goldens import gradient, case, ints, packed_data, packed_dims, rnd

torch.manual_seed(43)
m.cases.clear()


def rounded(x):
    """x in f32, whose gradient is that of x: what a backward reads that takes y as it is stored."""
    return x + (x.float().double() - x).detach()


def scan(a, b, h, reverse, store=lambda y: y):
    """y and the last state of one sequence, time first; h None: the first step is b. Matrices have one axis more than b."""
    y, order = [None] * len(b), range(len(b))
    for t in reversed(order) if reverse else order:
        f = a[t] if len(a) == len(b) else a[0]
        if h is None:
            y[t] = b[t] + 0 * f.sum()
        else:
            y[t] = (f @ h[..., None])[..., 0] + b[t] if a.dim() > b.dim() else f * h + b[t]
        h = y[t] = store(y[t])
    if h is None:
        h = b.sum(0)
    return torch.stack(y) if y else b + 0 * a.sum(), h


def joined(y, hn):
    """One value, so that a gradient reaches both results."""
    return torch.cat([y.reshape(-1), hn.reshape(-1)])


def dense(what, shape, axis, side=0, reverse=False, h0=False, constant=False):
    b = rnd(*shape)
    a_shape = [1 if constant and k == axis else n for k, n in enumerate(shape)] + [side] * (side > 0)
    ins = {"a": rnd(*a_shape, lo=-1 / max(side, 1), hi=1 / max(side, 1)), "b": b}
    state = [n for k, n in enumerate(shape) if k != axis]
    if h0:
        ins["h0"] = rnd(*state)

    def fn(a, b, h0=None):
        y, hn = scan(a.movedim(axis, 0), b.movedim(axis, 0), h0, reverse)
        return joined(y.movedim(0, axis), hn)

    attrs = f"axis={axis}" + ", reverse" * reverse
    body = f"""%s, %hn = linear_scan %a, %b{", %h0" * h0} {{{attrs}}}
        %flat = reshape %s {{shape=[{b.numel()}]}}
        %last = reshape %hn {{shape=[{torch.Size(state).numel()}]}}
        %y = concat %flat, %last {{axis=0}}"""
    name = "linear_scan " + what + " of " + "x".join(map(str, shape)) + f" along {axis}"
    case(name, body, ins, {"y": fn(**ins)})
    gradient(name, body, ins, fn, list(ins))


for shape, axis in (((19,), 0), ((2, 37), 1), ((5, 7), 0), ((4, 9, 3), 1), ((2, 3, 37), 1), ((2, 1100), 0), ((1, 1), 1)):
    for reverse in (False, True):
        dense("from h0" + " reverse" * reverse, shape, axis, reverse=reverse, h0=True)
    dense("reverse", shape, axis, reverse=True)
    dense("of constant factors", shape, axis, h0=True, constant=True)
for side in (1, 2, 3):
    for reverse in (False, True):
        dense(f"of {side} x {side} matrices" + " reverse" * reverse, (2, 5, 21, side), 1, side=side, reverse=reverse, h0=reverse)
dense("of 8 x 8 matrices", (6, 8), 0, side=8, h0=True)
dense("of constant matrices", (9, 3, 2), 0, side=2, h0=True, constant=True)
dense("of matrices, one state", (9, 2), 0, side=2)


# ---- the backward by itself: gradients of both results come in
for what, shape, side, reverse in (("", (9, 5), 0, False), (" reverse", (9, 5), 0, True), (" of matrices", (9, 5, 2), 2, True)):
    a, b, h0 = (x.requires_grad_() for x in (rnd(*shape, *[side] * (side > 0), lo=-1, hi=1), rnd(*shape), rnd(*shape[1:])))
    g, g_hn = rnd(*shape), rnd(*shape[1:])
    y, hn = scan(a, b, h0, reverse, rounded)
    d = torch.autograd.grad((y * g).sum() + (hn * g_hn).sum(), [a, b, h0])
    given = {"a": a.detach(), "g": g, "y": y.detach(), "h0": h0.detach(), "g_hn": g_hn}
    attrs = "axis=0" + ", reverse" * reverse
    case("linear_scan_grad" + what, f"%da, %db, %dh0 = linear_scan_grad %a, %g, %y, %h0, %g_hn {{{attrs}}}", given,
         dict(zip(("da", "db", "dh0"), d)))
    case("linear_scan_grad without y" + what, f"%da, %db, %dh0 = linear_scan_grad %a, g=%g {{{attrs}}}",
         {"a": a.detach(), "g": g}, {"db": torch.autograd.grad((scan(a, b, h0, reverse)[0] * g).sum(), b)[0]})


# ---- no steps: the last state is the initial one
h0 = rnd(3)
for reverse in ("", ", reverse"):
    case("linear_scan of no steps" + reverse, f"%s, %y = linear_scan %a, %b, %h0 {{axis=0{reverse}}}",
         {"a": rnd(0, 3), "b": rnd(0, 3), "h0": h0}, {"y": h0})
case("linear_scan of no steps from none", "%s, %y = linear_scan %a, %b {axis=0}", {"a": rnd(0, 3), "b": rnd(0, 3)}, {"y": 0 * h0})


# ---- packed rows: each sequence alone
def packed(what, lengths, tail, side=0, reverse=False, h0=False, empty=False):
    n, time = len(lengths), max(lengths)
    ins = {"a": rnd(n, time, *tail, *[side] * (side > 0), lo=-1 / max(side, 1), hi=1 / max(side, 1)), "b": rnd(n, time, *tail), "len": ints(*lengths)}
    if h0:
        ins["h0"] = rnd(n, *tail)

    def fn(a, b, len, h0=None):
        of = [scan(a[k, :t], b[k, :t], None if h0 is None else h0[k], reverse) for k, t in enumerate(lengths)]
        padded = torch.stack([torch.cat([y, y.new_zeros(time - y.shape[0], *tail)]) for y, _ in of])
        return torch.cat([padded, torch.stack([hn for _, hn in of])[:, None]], 1)

    sizes = "".join(f",{k}" for k in tail)
    shapes = {"a": f"[batch,time{sizes}{f',{side}' * (side > 0)}]", "b": f"[batch,time{sizes}]", "len": "[batch]", "h0": f"[batch{sizes}]"}
    attrs = "axis=0" + ", reverse" * reverse
    body = f"""%L = packed_layout %len {{time=time, rows=rows{", empty" * empty}}}
        %pa = pack_padded %a, %L
        %pb = pack_padded %b, %L
        %s, %hn = linear_scan %pa, %pb{", %h0" * h0}, layout=%L {{{attrs}}}
        %q = unpack_padded %s, %L {{value=0}}
        %last = reshape %hn {{shape=[batch,1{sizes}]}}
        %y = concat %q, %last {{axis=1}}"""
    name = f"linear_scan {what} of packed {','.join(map(str, lengths))}"
    dims = packed_dims(lengths, time)
    case(name, body, ins, {"y": fn(**ins)}, dims=dims, shapes={k: s for k, s in shapes.items() if k in ins})
    gradient(name, body, ins, fn, [k for k in ins if k != "len"], dims=dims, shapes={k: s for k, s in shapes.items() if k in ins},
             y_shape=f"[batch,time+1{sizes}]")


for lengths in ((3, 5, 2), (1, 2, 17, 33), (4, 4), (0, 3, 0, 1)):
    for reverse in (False, True):
        for h0 in (False, True):
            what = ("from h0" if h0 else "plain") + " reverse" * reverse
            packed(what, lengths, (5,), reverse=reverse, h0=h0, empty=0 in lengths)
packed("wide", (3, 1, 4), (400,), h0=True)
packed("wide reverse", (3, 1, 4), (400,), reverse=True)
packed("of numbers", (3, 1, 4), ())
packed("of numbers reverse", (3, 1, 4), (), reverse=True, h0=True)
packed("of matrices", (3, 1, 4), (3, 2), side=2, h0=True)
packed("of matrices reverse", (3, 1, 4), (3, 2), side=2, reverse=True)


m.main("linear_scan", "tests/make_linear_scan_goldens.py")

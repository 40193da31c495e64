#!/usr/bin/env python3
"""Writes tests/op_tables/order.txt and .bin: scans, order, gather and scatter along an axis, as cases of make_goldens.py.

    python3 tests/make_order_goldens.py          (PyTorch 2.13, NumPy)
"""
import torch

import make_goldens as m
from make_goldens import INF, NAN, both, case, gradient, ints, rnd, t

m.cases.clear()

# ---- scans
shapes = ((1, (19,), 0), (3, (5, 7), 1), (2, (5, 7), 0), (4, (2, 9, 3), 1), (5, (2, 3, 37), 1), (6, (2, 0), 1), (7, (2, 29), 1),
          (8, (1, 1), 1))


def flipped(fn, x, axis):
    return torch.flip(fn(torch.flip(x, (axis,)), axis), (axis,))


def exclusive(x, axis):
    one = torch.ones_like(x.narrow(axis, 0, 1)) if x.shape[axis] else x
    return torch.cumprod(torch.cat([one, x], axis), axis).narrow(axis, 0, x.shape[axis])


def shifted(x, axis):
    return torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)), x], axis).narrow(axis, 0, x.shape[axis]) if x.shape[axis] else x * 1


def linear(a, b, axis):
    a, b = a.movedim(axis, 0), b.movedim(axis, 0)
    y, h = [], None
    for k in range(a.shape[0]):
        h = b[k] + 0 * a[k] if h is None else a[k] * h + b[k]
        y.append(h)
    return torch.stack(y).movedim(0, axis) if y else (a + b).movedim(0, axis)


def flipped_linear(a, b, axis):
    return torch.flip(linear(torch.flip(a, (axis,)), torch.flip(b, (axis,)), axis), (axis,))


for _, shape, axis in shapes:
    at = f"{{axis={axis}}}"
    back = f"{{axis={axis}, reverse}}"
    size = " of " + "x".join(map(str, shape)) + f" along {axis}"
    x = {"x": rnd(*shape)}
    for op, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod), ("logcumsumexp", torch.logcumsumexp)):
        both(op + size, f"%y = {op} %x {at}", x, lambda x, fn=fn: fn(x, axis), ["x"])
        both(op + size + " reverse", f"%y = {op} %x {back}", x, lambda x, fn=fn: flipped(fn, x, axis), ["x"])
    both("cumprod exclusive" + size, f"%y = cumprod %x {{axis={axis}, exclusive}}", x, lambda x: exclusive(x, axis), ["x"])
    both("shift" + size, f"%y = shift %x {at}", x, lambda x: shifted(x, axis), ["x"])
    both("shift" + size + " reverse", f"%y = shift %x {back}", x, lambda x: flipped(shifted, x, axis), ["x"])
    ab = {"a": rnd(*shape, lo=-1, hi=1), "b": rnd(*shape)}
    both("linear_scan" + size, f"%y, %h = linear_scan %a, %b {at}", ab, lambda a, b: linear(a, b, axis), ["a", "b"])
    both("linear_scan" + size + " reverse", f"%y, %h = linear_scan %a, %b {back}", ab, lambda a, b: flipped_linear(a, b, axis), ["a", "b"])
    if 0 in shape:
        continue
    for op, fn in (("cummax", torch.cummax), ("cummin", torch.cummin)):
        y, i = fn(x["x"], axis)
        case(op + size, f"%y, %i = {op} %x {at}", x, {"y": y, "i": i})
        gradient(op + size, f"%y, %i = {op} %x {at}", x, lambda x, fn=fn: fn(x, axis).values, ["x"])
zeros = t(2, 0, 3, 0.5, 0, -1, 0)
both("cumprod with zeros", "%y = cumprod %x {axis=0}", {"x": zeros}, lambda x: torch.cumprod(x, 0), ["x"], fd=True)
both("cumprod with one zero", "%y = cumprod %x {axis=1}", {"x": t([2, 3, 0.5], [2, 0, 4])}, lambda x: torch.cumprod(x, 1), ["x"])
edge = t(-INF, 1, 2, 2, -0.0, INF, 3, INF, NAN, 1, NAN, 5)
for op, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod), ("logcumsumexp", torch.logcumsumexp)):
    case(op + " at the edges", f"%y = {op} %x {{axis=0}}", {"x": edge}, {"y": fn(edge, 0)})
for op, fn in (("cummax", torch.cummax), ("cummin", torch.cummin)):
    for what, x in (("edges", edge), ("ties", t(1, 1, 2, 2, 1, 2, 0, 0))):
        y, i = fn(x, 0)
        case(f"{op} at the {what}", f"%y, %i = {op} %x {{axis=0}}", {"x": x}, {"y": y, "i": i})
whole = ints([3, -1, 4], [1, 5, -9])
for op, fn in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod)):
    case(op + " of i64", f"%y = {op} %x {{axis=1}}", {"x": whole}, {"y": fn(whole, 1)})
y, i = torch.cummax(whole, 0)
case("cummax of i64", "%y, %i = cummax %x {axis=0}", {"x": whole}, {"y": y, "i": i})
both("cumsum of a run-time size", "%y = cumsum %x {axis=1}", {"x": rnd(3, 11)}, lambda x: torch.cumsum(x, 1), ["x"],
     dims=[("n", 20, 11)], shapes={"x": "[3,n]"}, y_shape="[3,n]")


# ---- gather and scatter
def index(n, *shape):
    return torch.randint(0, n, shape)


for xs, axis, at in (((7,), 0, (11,)), ((5, 7), 1, (5, 9)), ((5, 7), 0, (3, 7)), ((4, 6, 5), 1, (4, 2, 5)), ((4, 6, 5), 1, (2, 9, 3)),
                     ((5, 66), 0, (2, 66)), ((9, 17), 1, (9, 1)), ((3, 4), 1, (3, 0)), ((1,), 0, (4,)), ((9, 3, 3), 2, (5, 3, 4))):
    size = " of " + "x".join(map(str, xs)) + " by " + "x".join(map(str, at)) + f" along {axis}"
    i = index(xs[axis], *at)
    both("gather" + size, f"%y = gather %x, %i {{axis={axis}}}", {"x": rnd(*xs), "i": i}, lambda x, i: torch.gather(x, axis, i), ["x"])
    ins = {"x": rnd(*xs), "i": i, "s": rnd(*at)}
    both("scatter_add" + size, f"%y = scatter_add %x, %i, %s {{axis={axis}}}", ins,
         lambda x, i, s: torch.scatter_add(x, axis, i, s), ["x", "s"])
    for op, how in (("scatter_amax", "amax"), ("scatter_amin", "amin")):
        both(op + size, f"%y = {op} %x, %i, %s {{axis={axis}}}", ins,
             lambda x, i, s, how=how: torch.scatter_reduce(x, axis, i, s, how), ["x", "s"])
    # distinct along the axis: what stays of equal indices is open in PyTorch
    n = min(at[axis], xs[axis])
    apart = torch.rand(at).argsort(axis).narrow(axis, 0, n) % max(xs[axis], 1) if at[axis] <= xs[axis] else None
    if apart is not None and n:
        apart = torch.rand([xs[axis] if k == axis else d for k, d in enumerate(at)]).argsort(axis).narrow(axis, 0, n).contiguous()
        own = {"x": rnd(*xs), "i": apart, "s": rnd(*apart.shape)}
        both("scatter" + size, f"%y = scatter %x, %i, %s {{axis={axis}}}", own, lambda x, i, s: torch.scatter(x, axis, i, s), ["x", "s"])
        both("scatter of a number" + size, f"%y = scatter %x, %i, %s {{axis={axis}}}", {**own, "s": rnd()},
             lambda x, i, s: torch.scatter(x, axis, i, s.expand(i.shape)), ["x", "s"])
for xs, axis, n in (((7,), 0, 4), ((5, 7), 1, 9), ((5, 7), 0, 3), ((4, 6, 5), 1, 8), ((3, 5, 70), 1, 4), ((9, 3), 0, 0), ((11, 2, 3), 2, 5)):
    size = " of " + "x".join(map(str, xs)) + f" by {n} along {axis}"
    part = [n if k == axis else d for k, d in enumerate(xs)]
    i = index(xs[axis], n)
    both("index_select" + size, f"%y = index_select %x, %i {{axis={axis}}}", {"x": rnd(*xs), "i": i},
         lambda x, i: torch.index_select(x, axis, i), ["x"])
    both("index_add" + size, f"%y = index_add %x, %i, %s {{axis={axis}}}", {"x": rnd(*xs), "i": i, "s": rnd(*part)},
         lambda x, i, s: torch.index_add(x, axis, i, s), ["x", "s"])
    n = min(n, xs[axis])
    part[axis] = n
    ins = {"x": rnd(*xs), "i": torch.randperm(xs[axis])[:n], "s": rnd(*part)}
    both("index_copy" + size, f"%y = index_copy %x, %i, %s {{axis={axis}}}", ins, lambda x, i, s: torch.index_copy(x, axis, i, s), ["x", "s"])
    both("index_copy of a number" + size, f"%y = index_copy %x, %i, %s {{axis={axis}}}", {**ins, "s": rnd()},
         lambda x, i, s: torch.index_copy(x, axis, i, s.expand(part)), ["x", "s"])
last = {"x": rnd(3, 2), "i": ints([0, 2], [0, 2], [2, 2]), "s": t([1, 2], [3, 4], [5, 6])}
case("scatter: the last of equal indices", "%y = scatter %x, %i, %s {axis=0}", last,
     {"y": torch.stack([torch.stack([t(3.0)[0], last["x"][0, 1]]), last["x"][1], t(5, 6)])})
case("scatter_amax with NaN", "%y = scatter_amax %x, %i, %s {axis=0}", {"x": t(1, NAN, 3), "i": ints(0, 1, 2), "s": t(NAN, 2, 4)},
     {"y": t(NAN, NAN, 4)})
case("gather of i64", "%y = gather %x, %i {axis=1}", {"x": whole, "i": ints([2, 0], [1, 1])}, {"y": torch.gather(whole, 1, ints([2, 0], [1, 1]))})
case("scatter_add of i64", "%y = scatter_add %x, %i, %x {axis=1}", {"x": whole, "i": ints([2, 0, 0], [1, 1, 1])},
     {"y": torch.scatter_add(whole, 1, ints([2, 0, 0], [1, 1, 1]), whole)})
both("gather of a run-time size", "%y = gather %x, %i {axis=0}", {"x": rnd(6, 3), "i": index(6, 5, 3)},
     lambda x, i: torch.gather(x, 0, i), ["x"], dims=[("n", 9, 6), ("k", 8, 5)], shapes={"x": "[n,3]", "i": "[k,3]"}, y_shape="[k,3]")


# ---- order
def of(fn, part):
    return lambda x: getattr(fn(x), part)


def ordered(name, line, x, fn, differences=True):
    """The indices are compared where no two elements are equal: of equal ones PyTorch takes any, but in stable sorts."""
    y, i = fn(x)
    case(name, f"%y, %i = {line}", {"x": x}, {"y": y, "i": i})
    if differences:
        gradient(name, f"%y, %i = {line}", {"x": x}, of(fn, "values"), ["x"])


for xs, axis in (((1,), 0), ((7,), 0), ((5, 16), 1), ((3, 33), 1), ((9, 4), 0), ((2, 5, 3), 1), ((2, 131), 1), ((300,), 0), ((2, 0), 1)):
    size = " of " + "x".join(map(str, xs)) + f" along {axis}"
    small = xs[axis] < 20
    for flag, down in (("", False), (", descending", True)):
        ordered("sort" + flag + size, f"sort %x {{axis={axis}{flag}}}", rnd(*xs),
                lambda x: torch.sort(x, dim=axis, descending=down, stable=True), small)
        for k in sorted(k for k in {0, 1, 3, xs[axis] // 2} if k <= xs[axis]):
            ordered(f"topk {k}" + flag + size, f"topk %x {{axis={axis}, size={k}{flag}}}", rnd(*xs),
                    lambda x: torch.topk(x, k, axis, down), small and k == 1)
    if xs[axis]:
        for k in sorted({1, (xs[axis] + 2) // 3, xs[axis]}):
            ordered(f"kth_value {k}" + size, f"kth_value %x {{axis={axis}, size={k}}}", rnd(*xs),
                    lambda x: torch.kthvalue(x, k, axis, True), small and k == 1)
        ordered("median" + size, f"median %x {{axis={axis}}}", rnd(*xs), lambda x: torch.median(x, axis, True), small)
for down in (False, True):
    flag = ", descending" if down else ""
    for what, x in (("edges", edge), ("ties", torch.randint(0, 4, (200,)).double()), ("ties of i64", torch.randint(-3, 3, (2, 150))),
                    ("large i64", ints(2**40, -(2**50), 3, 2**40, -1, 0)), ("edges often", edge.repeat(20))):
        ordered(f"sort of {what}" + flag, f"sort %x {{axis={x.dim() - 1}{flag}}}", x, lambda x: torch.sort(x, dim=-1, descending=down, stable=True), False)
        y, i = torch.sort(x, dim=-1, descending=down, stable=True)
        k = min(5, x.shape[-1])
        case(f"topk of {what}" + flag, f"%y, %i = topk %x {{axis={x.dim() - 1}, size={k}{flag}}}", {"x": x},
             {"y": y.narrow(-1, 0, k), "i": i.narrow(-1, 0, k)})
case("kth_value of ties", "%y, %i = kth_value %x {axis=0, size=3}", {"x": t(2, 1, 2, 1, 2)}, {"y": t(2.0), "i": ints(0)})
case("median with NaN", "%y, %i = median %x {axis=1}", {"x": t([1, NAN, 0, NAN], [3, 1, 2, 2])}, {"y": t([NAN], [2.0]), "i": ints([1], [2])})
for name, s, x in (("one row", torch.sort(rnd(13)).values, rnd(3, 7)), ("rows", torch.sort(rnd(3, 16)).values, rnd(3, 5)),
                   ("ties", t(1, 1, 2, 2, 2, 5), t(0, 1, 2, 3, 5, 6, NAN, INF, -INF)), ("none", t(1.0)[:0], t(1, 2)),
                   ("i64", ints(1, 3, 3, 9), ints([0, 3], [4, 10]))):
    for flag, right in (("", False), (" {right}", True)):
        case(f"searchsorted in {name}{flag}", f"%y = searchsorted %s, %x{flag}", {"s": s, "x": x},
             {"y": torch.searchsorted(s, x.contiguous(), right=right)})
case("nonzero", "%y, %n = nonzero %x {size=6}", {"x": t([0, 1, -0.0], [NAN, 0, 2])},
     {"y": ints(1, 3, 5, -1, -1, -1), "n": ints(3)[0]})
case("repeat_index", "%y, %n = repeat_index %x {size=7}", {"x": ints(2, 0, 3)},
     {"y": ints(0, 0, 2, 2, 2, -1, -1), "n": ints(5)[0]})
case("nonzero of i64", "%y, %n = nonzero %x {size=2}", {"x": ints(0, 5, 1, 0)}, {"y": ints(1, 2), "n": ints(2)[0]})
case("padded index of none", "%i, %n = nonzero %x {size=3}\n%y = index_select %w, %i {axis=0, padded}\n"
     "  %z = index_add %w, %i, %g {axis=0, padded}", {"x": t(1.0)[:0], "w": rnd(0, 2), "g": rnd(3, 2)}, {"y": torch.zeros(3, 2), "z": rnd(0, 2)})
case("padded index", "%i, %n = nonzero %x {size=5}\n%y = gather %x, %i {axis=0, padded}\n%z = scatter_add %x, %i, %g {axis=0, padded}\n"
     "  %u = scatter %x, %i, %g {axis=0, padded}", {"x": t(0, 3, -2, 0), "g": t(10, 20, 30, 40, 50)},
     {"y": t(3, -2, 0, 0, 0), "z": t(0, 13, 18, 0), "u": t(0, 10, 20, 0)})

# ---- bags
import torch.nn.functional as F


def bag(name, attrs, rows, width, index, offsets=None, mode="sum", factor=False, padding=None):
    ins = {"w": rnd(rows, width), "i": index}
    given = "%w, %i"
    if offsets is not None:
        ins["o"], given = offsets, given + ", %o"
    if factor:
        ins["f"], given = rnd(*index.shape), given + ", factor=%f"
    fn = lambda w, i, o=None, f=None: F.embedding_bag(i, w, o, mode=mode, per_sample_weights=f, padding_idx=padding)
    both("embedding_bag " + name, f"%y, %n, %r = embedding_bag {given}{attrs}", ins, fn, ["w", "f"] if factor else ["w"])


bag("of pairs", "", 5, 3, index(5, 4, 2))
bag("by offsets", "", 7, 19, index(7, 11), ints(0, 3, 3, 8))
bag("with factors", "", 7, 67, index(7, 3, 4), factor=True)
bag("with factors and padding", " {padding=2}", 4, 9, index(4, 9), ints(0, 4, 5), factor=True, padding=2)
bag("with padding", " {padding=0}", 3, 8, index(3, 5, 6), padding=0)
bag("maxima", " {max}", 9, 21, index(9, 5, 3), mode="max")
bag("maxima by offsets", " {max, padding=1}", 6, 5, index(6, 12), ints(0, 0, 5), mode="max", padding=1)
counted = ints([0, 1, 1], [2, 0, 1], [1, 1, 1])
case("embedding_bag counts", "%y, %n, %r = embedding_bag %w, %i {padding=1}", {"w": rnd(3, 2), "i": counted}, {"n": t(1, 2, 0)})

if __name__ == "__main__":
    m.main("order", "tests/make_order_goldens.py")

#!/usr/bin/env python3
"""Writes tests/op_tables/shape.txt and .bin: slices with steps, backward, and from starts that the run gives, as cases of make_goldens.py.

    python3 tests/make_shape_goldens.py          (PyTorch 2.13, NumPy)
"""
import torch

import make_goldens as m
from make_goldens import both, case, gradient, ints, rnd

m.cases.clear()


def places(n, start, count, step, reverse):
    at = start + step * torch.arange(count)
    return n - 1 - at if reverse else at


def put(x, part, axis, at):
    """x with the elements `at` along axis replaced."""
    return (x * 1).index_copy(axis, at, part)


for what, shape, axis, start, count, step, reverse, run in (
        ("in steps", (5, 9), 1, 1, 4, 2, False, None), ("backward", (3, 37), 1, 0, 37, 1, True, None),
        ("backward rows", (7, 3, 5), 0, 2, 3, 2, True, None), ("at a start", (3, 20, 2), 1, 1, 7, 1, False, 9),
        ("of columns at a start", (4, 41), 1, 0, 33, 1, False, 8), ("in steps at a start", (2, 30), 1, 0, 9, 3, False, 5),
        ("backward at a start", (40, 3), 0, 1, 20, 1, True, 19), ("of one", (1,), 0, 0, 1, 1, True, 0),
        ("of nothing", (3, 4), 1, 4, 0, 3, True, 0)):
    attrs = f"axis={axis}, start={start}" + (f", step={step}" if step > 1 else "") + (", reverse" if reverse else "")
    at = places(shape[axis], start + (run or 0), count, step, reverse)
    x, p = rnd(*shape), rnd(*(count if k == axis else n for k, n in enumerate(shape)))
    given = {} if run is None else {"at": torch.tensor(run)}
    operand = "" if run is None else ", %at"
    both("slice " + what, f"%y = slice %x{operand} {{{attrs}, count={count}}}", {"x": x, **given},
         lambda x, **k: x.index_select(axis, at), ["x"])
    ins = {"x": x, "p": p, **given}
    line = f"slice_assign %q, %p{operand} {{{attrs}}}"
    fn = lambda x, p, **k: put(x, p, axis, at)
    case("slice_assign " + what, "%y = " + line.replace("%q", "%x"), ins, {"y": fn(**ins)})
    gradient("slice_assign " + what, f"%q = square %x\n%s = {line}\n%y = square %s", ins,
             lambda x, p, **k: fn(x * x, p) ** 2, ["x", "p"])

big = rnd(66, 37)
case("slice of a large table, backward", "%y = slice %x {axis=1, count=37, reverse}", {"x": big}, {"y": big.flip(1)})
case("slice that is added", "%y0 = slice %x {axis=0, count=33, step=2}\n%y = add %y0, %z", {"x": big, "z": big[:33] * 1},
     {"y": big[::2] + big[:33]})
case("slice_assign of many rows", "%y = slice_assign %x, %p {axis=0, step=2}", {"x": big, "p": big[:33] * 1},
     {"y": put(big, big[:33], 0, 2 * torch.arange(33))})
whole = torch.arange(35).reshape(5, 7) - 3
case("slice of integers", "%y = slice %x {axis=1, start=1, count=3, step=2, reverse}", {"x": whole},
     {"y": whole.index_select(1, ints(5, 3, 1))})

# lanes behind the last result of a row that is read where it lies
row = rnd(3, 33, 1)
both("resize of rows", '%y = resize %x {shape=[34], filter="nearest_exact"}', {"x": row},
     lambda x: torch.nn.functional.interpolate(x.mT, size=34, mode="nearest-exact").mT * 1, ["x"])

if __name__ == "__main__":
    m.main("shape", "tests/make_shape_goldens.py")

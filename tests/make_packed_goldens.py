#!/usr/bin/env python3
"""Writes tests/op_tables/packed.txt and .bin: ops over packed rows, with PyTorch's results as literals; cases as in make_goldens.py.

    python3 tests/make_packed_goldens.py          (PyTorch 2.13, NumPy)
"""
import torch

import make_goldens as m
from make_goldens import INF, NAN, case, gradient, ints, packed_data, packed_dims, rnd, t

torch.manual_seed(41)
m.cases.clear()
LAYOUT = "%L = packed_layout %len {time=time, rows=rows, empty}\n"


def data_of(x, lengths):
    return packed_data(x, lengths) if max(lengths) else x.new_zeros((0,) + x.shape[2:])


def steps_of(x, lengths):
    """The sequences of a padded batch, as a list."""
    return [x[b, :n] for b, n in enumerate(lengths)]


def per_sequence(x, lengths, fn, empty):
    rows = [fn(s) if len(s) else torch.full(x.shape[2:], empty) for s in steps_of(x, lengths)]
    return torch.stack(rows)


def repack(sequences, lengths, like):
    padded = [torch.cat([s, s.new_zeros((like.shape[1] - len(s),) + s.shape[1:])]) for s in sequences]
    return data_of(torch.stack(padded), lengths)


def reduce(name, what, x, lengths, fn, empty, constant=False, fd=True):
    """An op from rows to [B, ..], and its gradient through the packed data."""
    tail = "".join(f",{n}" for n in x.shape[2:])
    dims, shapes, ins = packed_dims(lengths, x.shape[1]), {"x": f"[batch,time{tail}]", "len": "[batch]"}, {"x": x, "len": ints(*lengths)}
    layout, y_shape = LAYOUT, f"[batch{tail}]"
    if constant:
        dims, shapes, ins, y_shape = (), {}, {"x": x}, None
        layout = f"%L = packed_layout {{lengths=[{','.join(map(str, lengths))}], time={x.shape[1]}, rows={sum(lengths)}, empty}}\n"
    body = layout + f"%k = pack_padded %x, %L\n%y = {name.split()[0]} %k, %L{''.join(' ' + w for w in name.split()[1:])}"
    y = per_sequence(x, lengths, fn, empty)
    assert len(lengths) == 0 or y.shape == (len(lengths),) + x.shape[2:]
    case(name + what, body.replace("%y =", "%y, %step =") if name in ("seq_max", "seq_min") else body, ins, {"y": y}, dims=dims, shapes=shapes)
    if not torch.isinf(y).any():
        body = body.replace("%y =", "%y, %step =") if name in ("seq_max", "seq_min") else body
        gradient(name + what, body, ins, lambda x, **_: per_sequence(x, lengths, fn, empty), ["x"], dims=dims, shapes=shapes, y_shape=y_shape, fd=fd)
    return ins, dims, shapes, layout


def rowwise(name, what, x, lengths, fn, op=None):
    """An op from rows to rows, its result padded with zeros. op: the lines that make %z of %k and %L."""
    tail = "".join(f",{n}" for n in x.shape[2:])
    dims, shapes, ins = packed_dims(lengths, x.shape[1]), {"x": f"[batch,time{tail}]", "len": "[batch]"}, {"x": x, "len": ints(*lengths)}
    body = LAYOUT + "%k = pack_padded %x, %L\n" + (op or f"%z = {name} %k, %L") + "\n"
    case(name + what, body + "%y = copy %z", ins, {"y": repack([fn(s) for s in steps_of(x, lengths)], lengths, x)}, dims=dims, shapes=shapes)
    gradient(name + what, body + "%q = square %z\n%y = unpack_padded %q, %L {value=0}", ins,
             lambda x, **_: torch.stack([torch.cat([fn(s) ** 2, s.new_zeros((x.shape[1] - len(s),) + s.shape[1:])]) for s in steps_of(x, lengths)]),
             ["x"], dims=dims, shapes=shapes, y_shape=f"[batch,time{tail}]")


SHAPES = (("", [2, 4, 1, 3], (3,)), (" with ties", [2, 4, 4, 1, 2], (17,)), (" of scalars", [3, 1, 5, 5, 2, 1, 1, 4, 2], ()),
          (" with empty ones", [0, 3, 2, 0], (5,)), (" of whole vectors", [2, 0, 3], (2, 16)), (" of one", [3], (1,)),
          (" of long ones", [150, 3, 70], ()), (" of many", [1 + (7 * k) % 5 for k in range(27)], (3,)))
for what, lengths, tail in SHAPES:
    x = rnd(len(lengths), max(lengths), *tail)
    reduce("seq_sum", what, x, lengths, lambda s: s.sum(0), 0.0)
    reduce("seq_max", what, x, lengths, lambda s: s.max(0).values, -INF)
    rowwise("seq_softmax", what, x, lengths, lambda s: torch.softmax(s, 0))
    if sum(lengths) > 40:
        continue
    reduce("seq_min", what, x, lengths, lambda s: s.min(0).values, INF)
    reduce("seq_select", what, x, lengths, lambda s: s[-1], 0.0)
    reduce("seq_select {first}", what, x, lengths, lambda s: s[0], 0.0)
    rowwise("seq_reverse", what, x, lengths, lambda s: s.flip(0))
    # values of sequences on every row
    axes = "".join(f",{n}" for n in tail)
    v = rnd(len(lengths), *tail)
    ins, dims = {"v": v, "x": x, "len": ints(*lengths)}, packed_dims(lengths, max(lengths))
    shapes = {"v": f"[batch{axes}]", "x": f"[batch,time{axes}]", "len": "[batch]"}
    spread = torch.stack([v[b].expand(x.shape[1:]) for b in range(len(lengths))])
    case("seq_broadcast" + what, LAYOUT + "%y = seq_broadcast %v, %L", ins, {"y": data_of(spread, lengths)}, dims=dims, shapes=shapes)
    body = LAYOUT + "%k = pack_padded %x, %L\n%w = seq_broadcast %v, %L\n%q = mul %w, %k\n%y = unpack_padded %q, %L {value=0}"
    gradient("seq_broadcast" + what, body, ins,
             lambda v, x, len: v[:, None] * x * (torch.arange(x.shape[1])[None] < len[:, None]).view(x.shape[:2] + (1,) * (x.dim() - 2)),
             ["v", "x"], dims=dims, shapes=shapes, y_shape=f"[batch,time{axes}]")
    # one sequence after the other
    flat = torch.cat(steps_of(x, lengths))
    head = f"%L = packed_layout {{lengths=[{','.join(map(str, lengths))}], time={max(lengths)}, rows={sum(lengths)}, empty}}\n"
    case("seq_from_list" + what, head + "%y = seq_from_list %x, %L", {"x": flat}, {"y": data_of(x, lengths)})
    case("seq_to_list" + what, head + "%y = seq_to_list %x, %L", {"x": data_of(x, lengths)}, {"y": flat})
    gradient("seq_lists" + what, head + "%k = seq_from_list %x, %L\n%c = seq_reverse %k, %L\n%l = seq_to_list %c, %L\n%y = square %l", {"x": flat},
             lambda x: torch.cat([s.flip(0) for s in x.split(lengths)]) ** 2, ["x"])

for lengths in ([2, 4, 1, 3], [0, 3, 2]):
    x = rnd(len(lengths), max(lengths), 3)
    reduce("seq_sum", f" of the constant lengths {lengths}", x, lengths, lambda s: s.sum(0), 0.0, constant=True)
    reduce("seq_select", f" of the constant lengths {lengths}", x, lengths, lambda s: s[-1], 0.0, constant=True)

# ties go to the first; a NaN wins, the first of several
x = t(1, 3, 3, 2, NAN, 5, NAN, 4, -INF, -INF, -INF, -INF).view(3, 4)
case("seq_max at the edges", LAYOUT + "%k = pack_padded %x, %L\n%y, %s = seq_max %k, %L", {"x": x, "len": ints(4, 4, 2)},
     {"y": t(3, NAN, -INF), "s": ints(1, 0, 0)}, dims=packed_dims([4, 4, 2], 4), shapes={"x": "[batch,time]", "len": "[batch]"})
case("seq_min at the edges", LAYOUT + "%k = pack_padded %x, %L\n%y, %s = seq_min %k, %L", {"x": -x, "len": ints(3, 4, 0)},
     {"y": t(-3, NAN, INF), "s": ints(1, 0, -1)}, dims=packed_dims([3, 4, 0], 4), shapes={"x": "[batch,time]", "len": "[batch]"})
gradient("seq_max with ties", LAYOUT + "%k = pack_padded %x, %L\n%y, %s = seq_max %k, %L", {"x": t(1, 2, 2, 0, 0, 0).view(2, 3), "len": ints(3, 2)},
         lambda x, len: torch.stack([x[0, :3].max(0).values, x[1, :2].max(0).values]), ["x"], dims=packed_dims([3, 2], 3),
         shapes={"x": "[batch,time]", "len": "[batch]"}, y_shape="[batch]", fd=False)

# labels are moved as they are
lab = ints(7, -3, 1 << 22, 5)
lens = [2, 0, 3, 1]
dims, shapes = packed_dims(lens, 3), {"v": "[batch]", "len": "[batch]"}
case("seq_broadcast of labels", LAYOUT + "%y = seq_broadcast %v, %L", {"v": lab, "len": ints(*lens)},
     {"y": data_of(lab[:, None].expand(4, 3), lens)}, dims=dims, shapes=shapes)
case("seq_select of labels", LAYOUT + "%r = seq_broadcast %v, %L\n%y = seq_select %r, %L", {"v": lab, "len": ints(*lens)},
     {"y": ints(7, 0, 1 << 22, 5)}, dims=dims, shapes=shapes)
case("seq_scatter of given steps", LAYOUT + "%y = seq_scatter %v, %L, %s", {"v": t(1, 2, 3), "s": ints(1, 0, 2), "len": ints(2, 1, 3)},
     {"y": data_of(t(0, 1, 0, 2, 0, 0, 0, 0, 3).view(3, 3), [2, 1, 3])}, dims=packed_dims([2, 1, 3], 3),
     shapes={"v": "[batch]", "s": "[batch]", "len": "[batch]"})
case("seq_softmax_grad", LAYOUT + "%k = pack_padded %x, %L\n%y = seq_softmax_grad %k, %L, %k", {"x": t(1, 2, 3, 9).view(2, 2), "len": ints(2, 1)},
     {"y": data_of(t(1 * (1 - 5), 2 * (2 - 5), 3 * (3 - 9), 0).view(2, 2), [2, 1])}, dims=packed_dims([2, 1], 2),
     shapes={"x": "[batch,time]", "len": "[batch]"})

# the tables themselves
for what, lengths in (("", [2, 4, 2, 4]), (" with empty ones", [0, 3, 2]), (" of empty ones", [0, 0])):
    order = sorted(range(len(lengths)), key=lambda b: -lengths[b])
    sizes = [sum(n > k for n in lengths) for k in range(4)]
    outs = {"sizes": ints(*sizes), "sorted": ints(*order), "unsorted": ints(*[order.index(b) for b in range(len(lengths))]), "lengths": ints(*lengths)}
    for constant in (False, True):
        head = LAYOUT
        dims, shapes, ins = packed_dims(lengths, 4), {"x": "[batch,time]", "len": "[batch]"}, {"x": rnd(len(lengths), 4), "len": ints(*lengths)}
        if constant:
            head = f"%L = packed_layout {{lengths=[{','.join(map(str, lengths))}], time=4, rows={sum(lengths)}, empty}}\n"
            dims, shapes, ins = (), {}, {"x": rnd(len(lengths), 4)}
        body = head + "\n".join(f"%{n} = seq_part %L {{part=\"{'batch_sizes' if n == 'sizes' else n}\"}}" for n in outs)
        case(("constant " if constant else "") + "seq_part" + what, body, ins, outs, dims=dims, shapes=shapes)
        case(("constant " if constant else "") + "pack" + what + " into rows and back", head + "%k = pack_padded %x, %L\n%y = unpack_padded %k, %L {value=-2}", ins,
             {"y": torch.where(torch.arange(4)[None] < ints(*lengths)[:, None], ins["x"], torch.tensor(-2.0))}, dims=dims, shapes=shapes)

# ---- what is pointwise of rows that are packed: in the kernel that packs them
for what, lengths, width, major in (("", [2, 4, 1, 3], 29, ""), (" of whole vectors", [3, 0, 5], 32, ""), (" time-major", [1, 5, 5, 2, 3], 13, " {time_major}"),
                                    (" of one row", [1], 16, ""), (" of many", [1 + (7 * k) % 5 for k in range(27)], 15, "")):
    x, w = rnd(len(lengths), max(lengths), width), rnd(width)
    dims = packed_dims(lengths, x.shape[1])
    body = LAYOUT + f"%k = pack_padded %x, %L{major}\n%h = mul %k, %w\n%g = tanh %h\n%y = add %g, %k\n%q = square %y\n%s = seq_sum %k, %L"
    rows = data_of(x, lengths)
    y = torch.tanh(rows * w) + rows
    case("pointwise of packed rows" + what, body, {"x": x.transpose(0, 1).contiguous() if major else x, "len": ints(*lengths), "w": w},
         {"y": y, "q": y ** 2, "s": per_sequence(x, lengths, lambda v: v.sum(0), 0.0)}, dims=dims,
         shapes={"x": f"[time,batch,{width}]" if major else f"[batch,time,{width}]", "len": "[batch]"})

# windows: three taps, two apart; a sequence of windows moved by two
lengths = [2, 5, 1, 3]
x = rnd(4, 5, 3)
dims, shapes, ins = packed_dims(lengths, 5), {"x": "[batch,time,3]", "len": "[batch]"}, {"x": x, "len": ints(*lengths)}


def windows(s, stride):
    padded = torch.cat([s.new_zeros(2, 3), s, s.new_zeros(2, 3)])
    return torch.stack([torch.cat([padded[t], padded[t + 2], padded[t + 4]]) for t in range(0, len(s), stride)])


body = LAYOUT + "%k = pack_padded %x, %L\n"
case("seq_windows", body + "%y = seq_windows %k, %L, %L {kernel=[3], pad=[2], dilation=[2]}", ins,
     {"y": repack([windows(s, 1) for s in steps_of(x, lengths)], lengths, x.new_zeros(4, 5, 9))}, dims=dims, shapes=shapes)
counts = [torch.tensor([sum(0 <= t + 2 - 2 * k < n for k in range(3)) for t in range(n)])[:, None] for n in lengths]
case("seq_windows_grad", body + "%v = seq_windows %k, %L, %L {kernel=[3], pad=[2], dilation=[2]}\n"
     "%y = seq_windows_grad %v, %L, %L {kernel=[3], pad=[2], dilation=[2]}", ins,
     {"y": repack([s * c for s, c in zip(steps_of(x, lengths), counts)], lengths, x)}, dims=dims, shapes=shapes)
every_other = body + "%n = seq_window_lengths %L {size=5, step=2, padding=4}\n"
halves = [(n - 1) // 2 + 1 for n in lengths]
case("seq_window_lengths", every_other, ins, {"n": ints(*halves)}, dims=dims, shapes=shapes)
gradient("seq_windows", every_other + "%W = packed_layout %n {time=3, rows=half, empty}\n"
         "%v = seq_windows %k, %L, %W {kernel=[3], stride=[2], pad=[2], dilation=[2]}\n%q = square %v\n%y = unpack_padded %q, %W {value=0}",
         ins, lambda x, **_: torch.stack([torch.cat([windows(s, 2), s.new_zeros(3 - n, 9)]) ** 2 for s, n in zip(steps_of(x, lengths), halves)]),
         ["x"], dims=dims + [("half", 18, -1)], shapes=shapes, y_shape="[batch,3,9]")

# scans along the sequences, and steps elsewhere
torch.manual_seed(42)


def back(fn):
    return lambda s: fn(s.flip(0)).flip(0)


def moved(s, by):
    return torch.stack([s[t - by] if 0 <= t - by < len(s) else torch.zeros_like(s[0]) for t in range(len(s))]) if len(s) else s


STEPS = "%t = seq_part %L {part=\"steps\"}\n%b = seq_part %L {part=\"sequences\"}\n"
for what, lengths, tail in (SHAPES[2], SHAPES[3], (" of vectors and more", [9, 2, 0, 1], (18,))):
    x = rnd(len(lengths), max(lengths), *tail)
    for op, fn in (("cumsum", lambda s: s.cumsum(0)), ("cumprod", lambda s: s.cumprod(0)), ("logcumsumexp", lambda s: s.logcumsumexp(0))):
        rowwise(op, " along sequences" + what, x, lengths, fn, f"%z = {op} %k, %L {{axis=0}}")
        rowwise(op, " back along sequences" + what, x, lengths, back(fn), f"%z = {op} %k, %L {{axis=0, reverse}}")
    rowwise("cummax", " along sequences" + what, x, lengths, lambda s: s.cummax(0).values, "%z, %i = cummax %k, %L {axis=0}")
    rowwise("cummin", " along sequences" + what, x, lengths, lambda s: s.cummin(0).values, "%z, %i = cummin %k, %L {axis=0}")
    rowwise("shift", " along sequences" + what, x, lengths, lambda s: moved(s, 1), "%z = shift %k, %L {axis=0}")
    rowwise("seq_row", what, x, lengths, lambda s: moved(s, -2),
            STEPS + "%c = const {value=2, dtype=i64}\n%u = add %t, %c\n%r = seq_row %u, %L, %b\n%z = index_select %k, %r {axis=0, padded}")
x, lengths = torch.randint(-3, 4, (4, 6)), [3, 0, 6, 1]
dims, shapes, ins = packed_dims(lengths, 6), {"x": "[batch,time]", "len": "[batch]"}, {"x": x, "len": ints(*lengths)}
body = LAYOUT + "%k = pack_padded %x, %L\n"
case("cummax of integers along sequences", body + "%y, %i = cummax %k, %L {axis=0}", ins,
     {"y": repack([s.cummax(0).values for s in steps_of(x, lengths)], lengths, x), "i": repack([s.cummax(0).indices for s in steps_of(x, lengths)], lengths, x)},
     dims=dims, shapes=shapes)
case("seq_row of the last but one", LAYOUT + "%n = seq_part %L {part=\"lengths\"}\n%c = const {value=-2, dtype=i64}\n%u = add %n, %c\n"
     "%r = seq_row %u, %L\n%k = pack_padded %x, %L\n%y = index_select %k, %r {axis=0, padded}", ins,
     {"y": torch.stack([s[-2] if len(s) > 1 else torch.tensor(0) for s in steps_of(x, lengths)])}, dims=dims, shapes=shapes)

# lengths far apart, equal, one long among many short ones; of constant lengths, the data are the rows
def of_rows(lengths):
    """A function of a sequence -> that function of packed rows."""
    at, index = 0, torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for b, n in enumerate(lengths):
        index[b, :n] = torch.arange(at, at + n)
        at += n
    order = data_of(index, lengths)
    rows = torch.argsort(order)
    return lambda fn: lambda x: torch.cat([fn(s) for s in x[rows].split(lengths)])[order]


ALONG = (("seq_softmax", lambda s: torch.softmax(s, 0), "%z = seq_softmax %x, %L"),
         ("seq_reverse", lambda s: s.flip(0), "%z = seq_reverse %x, %L"),
         ("cumsum", lambda s: s.cumsum(0), "%z = cumsum %x, %L {axis=0}"),
         ("cumsum back", back(lambda s: s.cumsum(0)), "%z = cumsum %x, %L {axis=0, reverse}"),
         ("cumprod", lambda s: s.cumprod(0), "%z = cumprod %x, %L {axis=0}"),
         ("logcumsumexp", lambda s: s.logcumsumexp(0), "%z = logcumsumexp %x, %L {axis=0}"),
         ("cummax", lambda s: s.cummax(0).values if len(s) else s, "%z, %i = cummax %x, %L {axis=0}"),
         ("cummin", lambda s: s.cummin(0).values if len(s) else s, "%z, %i = cummin %x, %L {axis=0}"),
         ("shift", lambda s: moved(s, 1), "%z = shift %x, %L {axis=0}"),
         ("seq_row", lambda s: moved(s, -5),
          STEPS + "%c = const {value=5, dtype=i64}\n%u = add %t, %c\n%r = seq_row %u, %L, %b\n%z = index_select %x, %r {axis=0, padded}"),
         ("seq_sum", lambda s: s.sum(0).expand(len(s)), "%n = seq_sum %x, %L\n%z = seq_broadcast %n, %L"),
         ("seq_max", lambda s: (s.max(0).values if len(s) else s.sum(0)).expand(len(s)),
          "%n, %m = seq_max %x, %L\n%f = isfinite %n\n%o = const {value=0}\n%e = select %f, %n, %o\n%z = seq_broadcast %e, %L"))
for what, lengths in ((" of 1 to 333 steps", [1, 333, 17, 2, 0, 64]), (" of equal lengths", [7] * 5),
                      (" of one long among many short", [1 + k % 3 for k in range(20)] + [150] + [1 + k % 2 for k in range(20)])):
    head, rows = f"%L = packed_layout {{lengths=[{','.join(map(str, lengths))}], time={max(lengths)}, rows={sum(lengths)}, empty}}\n", of_rows(lengths)
    for name, fn, op in ALONG:
        x = rnd(sum(lengths)) * (0.05 if name == "cumprod" else 1) + (name == "cumprod")
        case(name + what, head + op + "\n%y = copy %z", {"x": x}, {"y": rows(fn)(x)})
        gradient(name + what, head + op + "\n%y = square %z", {"x": x}, lambda x, fn=fn: rows(fn)(x) ** 2, ["x"], fd=False)


m.main("packed", "tests/make_packed_goldens.py")

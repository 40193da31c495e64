#!/usr/bin/env python3
"""Writes tests/op_cases/SUBJECT.txt and .bin: what PyTorch gives for the cases of SUBJECT.def. tests/op_cases/README.md.

    python3 tests/make_op_cases.py [SUBJECT ..]          (PyTorch 2.13)
"""
import math
import re
import sys

import torch
import torch.nn.functional as F  # used by cases

from goldens import TESTS, Table, bits

FLT_MAX, FLT_MIN = 3.4028234663852886e38, 1.1754943508222875e-38
AWKWARD = [0.0, -0.0, 1, -1, math.nan, math.inf, -math.inf, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-40, 0.5, -0.5, 1.5, -2.5, 1e10, -3, 100, -100]
DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool"}
TN_I64, TN_I32, TN_U8 = torch.int64, torch.int32, torch.uint8  # as cases name them
EXTREMES = [0, 1, -1, 2, -2, 3, 7, -7, 8, 31, 32, 63, 64, 100, 127, 128, 255, 2**24 + 1, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)]


# ---- inputs: op_cases.c makes the same
def tensor(dims, dtype, element, seed):
    return torch.tensor([element(k, u) for k, u in enumerate(bits(math.prod(dims), seed))], dtype=dtype).reshape(dims)


KINDS = {
    "NORMAL": lambda s, *d: tensor(d, torch.float32, lambda k, u: (u - 32768) / 16384, s),
    "POSITIVE": lambda s, *d: tensor(d, torch.float32, lambda k, u: 0.25 + u / 32768, s),
    "UNIT": lambda s, *d: tensor(d, torch.float32, lambda k, u: (u + 0.5) / 65536, s),
    "TIES": lambda s, *d: tensor(d, torch.float32, lambda k, u: u % 7 - 3, s),
    "AWKWARD": lambda s, *d: tensor(d, torch.float32, lambda k, u: AWKWARD[(k + 5 * s) % 19], s),
    "INTS": lambda s, lo, hi, *d: tensor(d, torch.int64, lambda k, u: lo + u % (hi - lo), s),
    "RUN_SIZED": lambda s, *d: KINDS["NORMAL"](s, *d),
    "RUN_IMAGES": lambda s, *d: KINDS["NORMAL"](s, *d),
    "INTS_OF": lambda s, t, lo, hi, *d: tensor(d, t, lambda k, u: lo + u % (hi - lo), s),
    "RUN_INTS": lambda s, *d: KINDS["INTS_OF"](s, *d),
    "BOOLS": lambda s, *d: tensor(d, torch.bool, lambda k, u: u % 2 == 1, s),
    "EXTREMES": lambda s, t, *d: tensor(d, torch.int64, lambda k, u: EXTREMES[(k + 5 * s) % 23], s).to(t),
    "SCALAR": lambda s, x: torch.tensor(x, dtype=torch.float32),
    "INT_SCALAR": lambda s, n: torch.tensor(n, dtype=torch.int64),
}


def inputs(text):
    made = []
    for word in split(text):
        kind, arguments = re.fullmatch(r"(\w+)\((.*)\)", word, re.S).groups()
        made.append(KINDS[kind](len(made), *[eval(x) for x in split(arguments)]))
    return made


# ---- what PyTorch has no call for
def rope(x, offset=0, base=10000.0, size=None, interleaved=False):
    """Rotary positions of x [.., T, D], as Llama has them, or interleaved, as GPT-J."""
    size = size or x.shape[-1]
    w = (torch.arange(x.shape[-2]) + offset)[:, None].double() * base ** (-torch.arange(0, size, 2).double() / size)
    turned = x[..., :size]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    y = [a * w.cos() - b * w.sin(), b * w.cos() + a * w.sin()]
    y = torch.stack(y, -1).flatten(-2) if interleaved else torch.cat(y, -1)
    return torch.cat([y, x[..., size:]], -1)


def weighed(q, k, v, mask=None, scale=None):
    """Attention's result and, behind it along the last axis, its weights; heads share keys as repeat_interleave says."""
    k, v = [x if x.dim() < 4 else x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v)]
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    return torch.cat(torch.ops.aten._scaled_dot_product_attention_math(q, k, v, mask, 0.0, False, scale=scale), -1)


def band(n, m, offset=0, window=1 << 40, causal=True):
    """Which of m keys each of n queries sees."""
    away = torch.arange(m)[None] - torch.arange(n)[:, None] - offset
    return (away > -window) & (away < (1 if causal else window))


def conv_packed(x, lengths, w, bias=None, **options):
    """F.conv1d of each sequence of x [B, T, C] alone, padded to as many steps as T give; an empty one stays empty."""
    longest = F.conv1d(x[:1].mT, w, bias, **options).shape[2]
    y = [F.conv1d(s[None, :n].mT, w, bias, **options)[0].T if n else s.new_zeros(0, len(w)) for s, n in zip(x, lengths)]
    return torch.stack([F.pad(s, (0, 0, 0, longest - len(s))) for s in y]) if y else F.conv1d(x.mT, w, bias, **options).mT


FAR = [1, 333, 17, 2, 0, 64]  # lengths of sequences


def each(width, fn, lengths, x):
    """fn of each sequence of the padded x alone, with zeros up to `width` steps."""
    y = [fn(s[:n]) if n else None for s, n in zip(x, lengths)]
    like = next(s for s in y if s is not None)
    y = [like.new_zeros(0, *like.shape[1:]) if s is None else s for s in y]
    return torch.stack([torch.cat([s, s.new_zeros(width - len(s), *s.shape[1:])]) for s in y])


def wholes(of_empty, fn, lengths, x):
    """fn of each sequence of the padded x alone, which is no sequence."""
    y = [fn(s[:n]) if n else None for s, n in zip(x, lengths)]
    like = next(s for s in y if s is not None)
    return torch.stack([torch.full_like(like, of_empty) if s is None else s for s in y])


def moved(s, by, fill):
    """Step t of the sequence at t + by, `fill` where none comes."""
    gap = s.new_full((min(abs(by), len(s)), *s.shape[1:]), fill)
    return torch.cat([gap, s[:len(s) - len(gap)]] if by > 0 else [s[len(gap):], gap])


def rows(x, lengths):
    return torch.cat([s[:n] for s, n in zip(x, lengths)])


# ---- reading a .def
def split(text):
    """The parts between commas that are in no parentheses and no string."""
    parts, depth, quoted, start = [], 0, False, 0
    for k, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted:
            depth += (c in "({[") - (c in ")}]")
            if c == "," and depth == 0:
                parts.append(text[start:k].strip())
                start = k + 1
    last = text[start:].strip()
    return parts + ([last] if last else [])


def calls(text, words):
    """Each use of one of these macros: its name and arguments."""
    text = re.sub(r"^\s*//.*$", "", text, flags=re.M)
    for m in re.finditer(rf"\b({words})\(", text):
        depth, k, quoted = 1, m.end(), False
        while depth:
            quoted ^= text[k] == '"'
            if not quoted:
                depth += (text[k] == "(") - (text[k] == ")")
            k += 1
        yield m[1], split(text[m.end():k - 1])


def unquoted(text):
    return "".join(re.findall(r'"([^"]*)"', text))


def cases(text):
    for word, (op, torch_text, call, *rest) in calls(text, "OP_CASE|OP_VALUES"):
        yield word == "OP_CASE", op, unquoted(torch_text), re.sub(r"\s+", " ", ", ".join(rest))


# ---- evaluating
def results(with_grad, expression, inputs_text):
    """The value, and for each input its gradient or None."""
    ins = inputs(inputs_text)
    if "AWKWARD" not in inputs_text:
        ins = [x.double() if x.is_floating_point() else x for x in ins]
    if with_grad:
        ins = [x.requires_grad_() if x.is_floating_point() else x for x in ins]
    y = eval(expression, {"torch": torch, "F": F, "math": math, "rope": rope, "weighed": weighed, "band": band, "conv_packed": conv_packed, "FAR": FAR, "each": each, "wholes": wholes, "moved": moved, "rows": rows, **dict(zip("abcd", ins))})
    grads = [None] * len(ins)
    if with_grad:
        w = 1 + 0.25 * (torch.arange(y.numel()) % 5).reshape(y.shape)
        wanted = [k for k, x in enumerate(ins) if x.requires_grad]
        for k, g in zip(wanted, torch.autograd.grad((y * w).sum(), [ins[k] for k in wanted], allow_unused=True)):
            grads[k] = g
    return y.float() if y.is_floating_point() else y, [g if g is None else g.float() for g in grads]


def add(table, key, y, grads):
    table.line("case", key)
    table.line("value", DTYPES[y.dtype], *y.shape)
    table.store(y)
    table.line("grads", *("-" if g is None else table.store(g) for g in grads))


def main():
    for path in [TESTS / f"op_cases/{s}.def" for s in sys.argv[1:]] or sorted(TESTS.glob("op_cases/*.def")):
        with_grads = {}
        for with_grad, op, expression, inputs_text in cases(path.read_text()):
            of_key = with_grads.setdefault((expression, inputs_text), [op, with_grad])
            of_key[1] |= with_grad
        table = Table("tests/make_op_cases.py")
        for (expression, inputs_text), (op, with_grad) in with_grads.items():
            try:
                add(table, f"{expression} | {inputs_text}", *results(with_grad, expression, inputs_text))
            except Exception as e:
                sys.exit(f"{path.name}: {op}: {expression} | {inputs_text}: {e}")
        table.write(f"op_cases/{path.stem}")


if __name__ == "__main__":
    main()

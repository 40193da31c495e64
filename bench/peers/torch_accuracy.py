"""accuracy in PyTorch: the rows of bench/accuracy.def, whose results are written to a file. See bench/accuracy.c."""
import os
import pathlib
import re
import sys

import torch
import torch.nn.functional as F  # used by rows

from peer import floats, number, serve
from torch_sweep import RANGES, made, module, table

SEEDS, GRADIENT_SEED = 16, 9  # of a draw: inputs have 1, 2, ..
RANGES.update({"M": (998, 1002), "D": (0.99, 1.01)})
EQUAL = {"E": (0.05, 2), "R": (-12345, 12345)}


def runs(lo, hi, sizes, width, seed):
    """Each run of `width` elements is one number."""
    count = torch.Size(sizes).numel()
    values = floats(-(-count // width), lo, hi, seed)
    return torch.from_numpy(values).repeat_interleave(width)[:count].reshape(sizes)


def drawn(kind, sizes, seed):
    if kind not in EQUAL:
        return made(kind, sizes, seed).contiguous()
    width = torch.Size(sizes).numel() if kind == "E" else sizes[-1]
    return runs(*EQUAL[kind], sizes, width, seed)


def linear_scan(a, b):
    y, out = torch.zeros_like(b[0]), []
    for t in range(len(b)):
        y = a[t] * y + b[t] if t else b[t]
        out.append(y)
    return torch.stack(out)


def results(rows, weights, name, words):
    *sizes, way, draw = words
    made_by, call = rows[name]
    seed = SEEDS * int(draw)
    inputs = [drawn(kind, eval(f"[{dims}]"), seed + 1 + k)
              for k, (kind, dims) in enumerate(re.findall(r"(\w+)\(([^)]*)\)", " ".join(sizes)))]
    m = module(made_by, weights) if made_by else None
    wanted = []
    if m:
        m.train(way == "backward")
    if way == "backward":
        wanted = [x.requires_grad_() for x in inputs if x.is_floating_point()] + ([*m.parameters()] if m else [])
    names = {"torch": torch, "F": F, "m": m, "linear_scan": linear_scan, **dict(zip("abcd", inputs))}
    with torch.set_grad_enabled(bool(wanted)):
        y = eval(call, names)
    g = made("F", list(y.shape), seed + GRADIENT_SEED).contiguous()
    return [y, *(torch.autograd.grad(y, wanted, g) if wanted else [])]


def main():
    _, root, weights, out, _ = sys.argv
    rows = table(pathlib.Path(root) / "bench/accuracy.def")

    def case(name, *words):
        with open(out, "wb") as f:
            for y in results(rows, weights, name, words):
                f.write(y.detach().float().contiguous().numpy().tobytes())

    serve(lambda: 0, lambda: None, 1, case)


if __name__ == "__main__":
    main()

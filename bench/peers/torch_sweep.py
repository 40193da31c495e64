"""sweep in PyTorch: the rows of bench/sweep.def, whose texts are Python. See bench/sweep.c."""
import math
import pathlib
import re
import sys

import torch
import torch.nn.functional as F  # used by rows
from torch import nn  # used by rows

import torch_blocks as blocks  # used by rows
import torch_heads as heads  # used by rows
from peer import checksum, floats, integers, number, read_weights, serve
from torch_peer import in_layout, maybe_compiled

RANGES = {"F": (-2, 2), "N": (-2, 2), "P": (0.25, 2.25), "U": (0, 1)}


def table(path):
    """By name: the texts of an OP or MODULE row."""
    rows = {}
    text = re.sub(r"^//.*$", "", path.read_text(), flags=re.M)
    for kind, name, first, second in re.findall(r'^(OP|MODULE)\((\w+),\s*"([^"]*)",\s*(?:"([^"]*)")?', text, flags=re.M):
        rows[name] = (None, first) if kind == "OP" else (first, second)
    return rows


def made(kind, sizes, seed):
    if kind in RANGES:
        x = torch.from_numpy(floats(math.prod(sizes), *RANGES[kind], seed)).reshape(sizes)
        return in_layout(x) if x.dim() == 4 and kind != "N" else x
    if kind == "I":
        return torch.from_numpy(integers(math.prod(sizes[1:]), sizes[0], seed)).reshape(sizes[1:])
    limit = 2 if kind == "B" else 256
    x = torch.from_numpy((limit * number(math.prod(sizes), seed)).astype("uint8")).reshape(sizes)
    return x.bool() if kind == "B" else x


def inputs(text):
    return [made(kind, eval(f"[{sizes}]"), 1 + k) for k, (kind, sizes) in enumerate(re.findall(r"(\w+)\(([^)]*)\)", text))]


def module(text, weights):
    m = eval(text)
    if any(True for _ in m.parameters()):
        values = {name.split(".", 1)[1]: torch.from_numpy(v) for name, v in read_weights(weights).items()}
        m.load_state_dict(values)
    return m


def stored(grad, of, g):
    """As .grad is: a copy when its strides are not those of its tensor, or when it is `g`, which others have (AccumulateGrad)."""
    same = all(n == 1 or a == b for n, a, b in zip(of.shape, grad.stride(), of.stride()))
    return grad if same and grad.data_ptr() != g.data_ptr() else torch.empty_like(of).copy_(grad)


def backward(run, ins, m):
    wanted = [x.requires_grad_() for x in ins if x.is_floating_point()] + ([*m.parameters()] if m else [])
    y = run()
    g = made("F", list(y.shape), 9)

    def step():
        y = run()
        return [y, *(stored(d, x, g) for d, x in zip(torch.autograd.grad(y, wanted, g), wanted))]

    return step


def forward(run):
    def step():
        with torch.inference_mode():
            return [run()]

    return step


def main():
    _, root, weights, _, peer = sys.argv
    rows = table(pathlib.Path(root) / "bench/sweep.def")
    state = {}

    def case(name, *words):
        *sizes, way = words
        made_by, call = rows[name]
        m, ins = module(made_by, weights) if made_by else None, inputs(" ".join(sizes))
        if m:
            m.train(way == "backward")
            if any(x.dim() == 4 and not x.is_contiguous() for x in ins):
                m.to(memory_format=torch.channels_last)
        names = {"torch": torch, "F": F, "m": m, **dict(zip("abcd", ins))}
        run = maybe_compiled(eval("lambda: " + call, names), peer)
        state["step"] = backward(run, ins, m) if way == "backward" else forward(run)

    def check():
        return sum(checksum(y.detach().float().contiguous().numpy()) for y in state["step"]())

    serve(check, lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

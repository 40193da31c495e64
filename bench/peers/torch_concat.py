"""concat and cast in PyTorch: see bench/concat.c."""
import sys

import torch
from torch.nn.functional import gelu

from peer import checksum, floats, integers, serve
from torch_peer import maybe_compiled


def joined(work, axis):
    if work == "before":
        return lambda x: torch.cat([torch.relu(v) for v in x], axis)
    if work == "after":
        return lambda x: gelu(torch.cat(x, axis))
    return lambda x: torch.cat(x, axis)


def gradient(axis):
    return lambda x: torch.autograd.grad(torch.cat(x, axis).square().sum(), x)


def serve_concat(peer):
    state = {}

    def case(n, axis, work, *sizes):
        sizes = [int(s) for s in sizes]
        numel = torch.Size(sizes).numel()
        x = [torch.from_numpy(floats(numel, -1, 1, k + 1)).reshape(sizes) for k in range(int(n))]
        of_all = gradient(int(axis)) if work == "grad" else joined(work, int(axis))
        for v in x:
            v.requires_grad_(work == "grad")
        state.update(x=x, compute=maybe_compiled(of_all, peer), grad=work == "grad")

    def step():
        with torch.inference_mode(not state["grad"]):
            return state["compute"](state["x"])

    def check():
        y = step()
        return sum(checksum(v.numpy()) for v in (y if state["grad"] else [y]))

    serve(check, step, 1, case)


def serve_cast(peer):
    state = {}

    def case(source, n):
        n = int(n)
        if source == "f32":
            state["x"], to = torch.from_numpy(floats(n, -1000, 1000, 1)), torch.int64
        else:
            state["x"], to = torch.from_numpy(integers(n, 1000, 1)), torch.float32
        state["compute"] = maybe_compiled(lambda x: x.to(to), peer)

    with torch.inference_mode():
        serve(lambda: checksum(state["compute"](state["x"]).numpy()), lambda: state["compute"](state["x"]), 1, case)


if __name__ == "__main__":
    {"concat": serve_concat, "cast": serve_cast}[sys.argv[3]](sys.argv[4])

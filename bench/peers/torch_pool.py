"""pool in PyTorch, in both layouts: see bench/pool.c."""
import sys

import torch
import torch.nn.functional as F

from peer import checksum, floats, serve
from torch_peer import in_layout, maybe_compiled


def images(n, channels, size, seed):
    """Numbers with channels last, seen with channels first."""
    shape = [n, *size, channels]
    return in_layout(torch.from_numpy(floats(torch.Size(shape).numel(), -1, 1, seed)).reshape(shape).movedim(-1, 1))


def pool(kind, kernel, stride, padding):
    if kind == "max":
        return lambda x: F.max_pool2d(x, kernel, stride, padding)
    if kind == "avg":
        return lambda x: F.avg_pool2d(x, kernel, stride, padding)
    if kind == "global":
        return lambda x: F.adaptive_avg_pool2d(x, 1)
    return lambda x: F.interpolate(x, scale_factor=kernel, mode=kind)


def training(of, g):
    def step(x):
        y = of(x)
        return y, torch.autograd.grad(y, x, g)[0]

    return step


def main():
    state = {}

    def case(work, kind, n, c, size, kernel, stride, padding):
        n, c, kernel, stride, padding = (int(v) for v in (n, c, kernel, stride, padding))
        x, of = images(n, c, [int(s) for s in size.split("x")], 1), pool(kind, kernel, stride, padding)
        if work == "forward":
            compute = torch.inference_mode()(maybe_compiled(lambda: (of(x),), sys.argv[4]))
        else:
            x.requires_grad_()
            step = training(maybe_compiled(of, sys.argv[4]), images(n, c, of(x).shape[2:], 2))
            compute = lambda: step(x)
        state["step"] = compute

    def check():
        return sum(checksum(y.detach().movedim(1, -1).contiguous().numpy()) for y in state["step"]())

    serve(check, lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

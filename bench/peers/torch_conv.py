"""conv in PyTorch, in both layouts: see bench/conv.c."""
import sys

import torch
from torch.nn.functional import conv1d, conv2d

from peer import checksum, floats, serve
from torch_peer import in_layout, maybe_compiled


def axes(text):
    return [int(n) for n in text.split("x")]


def images(n, channels, size, seed):
    """Numbers with channels last, seen with channels first."""
    shape = [n, *size, channels]
    x = torch.from_numpy(floats(torch.Size(shape).numel(), -1, 1, seed)).reshape(shape)
    return in_layout(x.movedim(-1, 1))


def weights(shape):
    w = torch.from_numpy(floats(torch.Size(shape).numel(), -0.05, 0.05, 2)).reshape(shape)
    return in_layout(w)


def calls(work, x, w, g, stride, padding, groups):
    if work == "forward":
        conv = conv1d if x.dim() == 3 else conv2d
        return lambda: conv(x, w, None, stride, padding, 1, groups)
    nth = ["data", "weight"].index(work)
    one, wanted = [1] * len(padding), [work == "data", work == "weight", False]
    strides, extra = [stride] * len(padding), [0] * len(padding)
    return lambda: torch.ops.aten.convolution_backward(
        g, x, w, None, strides, padding, one, False, extra, groups, wanted
    )[nth]


def main():
    state = {}

    def case(work, n, c, o, size, kernel, stride, groups):
        n, c, o, stride, groups = (int(v) for v in (n, c, o, stride, groups))
        size, kernel = axes(size), axes(kernel)
        padding = [(k - 1) // 2 for k in kernel]
        out = [(s + 2 * p - k) // stride + 1 for s, p, k in zip(size, padding, kernel)]
        x, w, g = images(n, c, size, 1), weights([o, c // groups, *kernel]), images(n, o, out, 3)
        state.update(work=work, step=maybe_compiled(calls(work, x, w, g, stride, padding, groups), sys.argv[4]))

    def check():
        y = state["step"]()
        if state["work"] != "weight":
            y = y.movedim(1, -1)
        return checksum(y.contiguous().numpy())

    with torch.inference_mode():
        serve(check, lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

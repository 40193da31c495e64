"""linear_scan in PyTorch, which has no op for it: a loop over the steps. See bench/linear_scan.c."""
import sys

import torch

from peer import checksum, floats, serve
from torch_peer import maybe_compiled


def scan(a, b):
    h, y = b[0], [b[0]]
    for t in range(1, len(b)):
        h = torch.addcmul(b[t], a[t], h)
        y.append(h)
    return torch.stack(y)


def main():
    state = {}

    def case(work, steps, channels):
        n, c = int(steps), int(channels)
        a, b, g = (torch.from_numpy(floats(n * c, lo, 1, 1 + k)).reshape(n, c) for k, lo in enumerate((0, -1, -1)))
        run = maybe_compiled(scan, sys.argv[4])
        if work == "forward":
            state["step"] = torch.inference_mode()(lambda: (run(a, b),))
            return
        a.requires_grad_(), b.requires_grad_()

        def step():
            y = run(a, b)
            return y, *torch.autograd.grad(y, (a, b), g)

        state["step"] = step

    def check():
        return sum(checksum(y.detach().numpy()) for y in state["step"]())

    serve(check, lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

"""linalg in PyTorch: see bench/linalg.c."""
import sys

import numpy as np
import torch

from peer import checksum, floats, serve
from torch_peer import maybe_compiled


def matrices(batch, n):
    upper = np.triu(floats(batch * n * n, -1, 1, 1).reshape(batch, n, n) / np.float32(n), 1)
    return torch.from_numpy(upper + upper.swapaxes(1, 2) + 2 * np.eye(n, dtype=np.float32))


def compute(op, batch, n, lanes):
    a = matrices(batch, n)
    if op == "cholesky":
        return lambda: torch.linalg.cholesky(a)
    right = op == "solve_right"
    b = torch.from_numpy(floats(batch * n * lanes, -1, 1, 2)).reshape((batch, lanes, n) if right else (batch, n, lanes))
    return lambda: torch.linalg.solve_triangular(a, b, upper=op == "solve_upper", left=not right)


def main():
    state = {}

    def case(op, *sizes):
        state["compute"] = maybe_compiled(compute(op, *[int(s) for s in sizes]), sys.argv[4])

    with torch.inference_mode():
        serve(lambda: checksum(state["compute"]().contiguous().numpy()), lambda: state["compute"](), 1, case)


if __name__ == "__main__":
    main()

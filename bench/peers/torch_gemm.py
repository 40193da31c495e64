"""gemm and gemm_plain in PyTorch: see bench/gemm.c."""
import sys

import torch
from torch.nn.functional import gelu, linear

from peer import checksum, floats, serve
from torch_peer import maybe_compiled


def main():
    workload, peer = sys.argv[3:]
    with_gelu = workload == "gemm"
    compute = maybe_compiled((lambda x, w, b: gelu(linear(x, w, b))) if with_gelu else (lambda x, w, b: linear(x, w)), peer)
    args = []

    def case(m, n, k):
        m, n, k = int(m), int(n), int(k)
        x, w = torch.from_numpy(floats(m * k, -1, 1, 1)), torch.from_numpy(floats(n * k, -0.05, 0.05, 2))
        args[:] = [x.reshape(m, k), w.reshape(n, k), torch.from_numpy(floats(n, -1, 1, 3))]

    with torch.inference_mode():
        serve(lambda: checksum(compute(*args).numpy()), lambda: compute(*args), 1, case)


if __name__ == "__main__":
    main()

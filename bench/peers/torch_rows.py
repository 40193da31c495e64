"""chain and softmax in PyTorch: see bench/rows.c."""
import sys

import torch
from torch.nn.functional import gelu, layer_norm

from peer import checksum, floats, read_weights, serve
from torch_peer import maybe_compiled

ROWS, WIDTH = 4096, 1024


def main():
    _, weights, workload, peer = sys.argv[1:]
    x = torch.from_numpy(floats(ROWS * WIDTH, -3, 3, 1)).reshape(ROWS, WIDTH)
    if workload == "chain":
        w, b = [torch.from_numpy(read_weights(weights)[f"norm.{name}"]) for name in ("weight", "bias")]
        compute = maybe_compiled(lambda x: layer_norm(gelu(x * 1.1 + 0.3) + x, (WIDTH,), w, b), peer)
    else:
        compute = maybe_compiled(lambda x: torch.softmax(x, -1), peer)
    with torch.inference_mode():
        serve(lambda: checksum(compute(x).numpy()), lambda: compute(x))


if __name__ == "__main__":
    main()

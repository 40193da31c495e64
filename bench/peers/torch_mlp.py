"""mlp and tiny in PyTorch: see bench/mlp.c."""
import sys

import torch

from peer import checksum, floats, integers, serve
from torch_peer import load, maybe_compiled, third_loss, trainer

TINY_CALLS = 1000


def mlp(weights, peer):
    net = torch.nn.Sequential(
        torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
    )
    load(net, weights)
    x = torch.from_numpy(floats(128 * 784, 0, 1, 1)).reshape(128, 784)
    y = torch.from_numpy(integers(128, 10, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
    forward = maybe_compiled(net, peer)
    step = trainer(optimizer, lambda: torch.nn.functional.cross_entropy(forward(x), y))
    serve(third_loss(step), step)


def tiny(weights, peer):
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)).eval()
    load(net, weights)
    x = torch.from_numpy(floats(16, 0, 1, 1)).reshape(1, 16)
    forward = maybe_compiled(net, peer)

    @torch.inference_mode()
    def step():
        for _ in range(TINY_CALLS):
            y = forward(x)
        return y

    serve(lambda: checksum(step().numpy()), step, TINY_CALLS)


if __name__ == "__main__":
    {"mlp": mlp, "tiny": tiny}[sys.argv[3]](sys.argv[2], sys.argv[4])

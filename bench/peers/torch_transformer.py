"""transformer4, transformer12, recompute in PyTorch: see bench/transformer.c."""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from peer import integers, layers_of, read_weights, serve
from torch_peer import Block, load, maybe_compiled, third_loss, trainer

WIDE, HEADS, WORDS, TIME, BATCH = 256, 4, 5000, 128, 8
SIZES = {"recompute": (512, 4)}  # time, batch


def attend(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


class Gpt(nn.Module):
    def __init__(self, layers, time):
        super().__init__()
        self.layers, self.again = layers, False
        self.te, self.pe = nn.Embedding(WORDS, WIDE), nn.Embedding(time, WIDE)
        for k in range(layers):
            self.add_module(f"b{k}", Block(WIDE, HEADS))
        self.lf = nn.LayerNorm(WIDE)

    def forward(self, i):
        x = self.te(i) + self.pe.weight
        for k in range(self.layers):
            b = getattr(self, f"b{k}")
            x = checkpoint(b, x, attend, use_reentrant=False, preserve_rng_state=False) if self.again else b(x, attend)
        return F.linear(self.lf(x), self.te.weight)


def main():
    _, weights, workload, peer = sys.argv[1:]
    state = {}
    time, batch = SIZES.get(workload, (TIME, BATCH))
    x = torch.from_numpy(integers(batch * time, WORDS, 1)).reshape(batch, time)
    y = torch.from_numpy(integers(batch * time, WORDS, 2))

    def case(percent="100"):
        net = Gpt(layers_of(read_weights(weights)), time)
        net.again = int(percent) < 100
        load(net, weights, tied="head.weight")
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
        forward = maybe_compiled(net, peer)
        state["step"] = trainer(optimizer, lambda: F.cross_entropy(forward(x).view(-1, WORDS), y))

    case()
    serve(lambda: third_loss(state["step"])(), lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

"""transformer4, transformer12, transformer12_long in PyTorch: see bench/transformer.c."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import integers, layers_of, read_weights, serve
from torch_peer import Block, again_of, load, maybe_compiled, run_layer, third_loss, trainer

WIDE, HEADS, WORDS, TIME, BATCH = 256, 4, 5000, 128, 8
SIZES = {"transformer12_long": (512, 4)}  # time, batch


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
            x = run_layer(getattr(self, f"b{k}"), self.again, x, attend)
        return F.linear(self.lf(x), self.te.weight)


def main():
    _, weights, workload, peer = sys.argv[1:]
    time, batch = SIZES.get(workload, (TIME, BATCH))
    x = torch.from_numpy(integers(batch * time, WORDS, 1)).reshape(batch, time)
    y = torch.from_numpy(integers(batch * time, WORDS, 2))
    net = Gpt(layers_of(read_weights(weights)), time)
    load(net, weights, tied="head.weight")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
    forward = maybe_compiled(net, peer)
    step = trainer(optimizer, lambda: F.cross_entropy(forward(x).view(-1, WORDS), y))
    serve(third_loss(step), step, again=again_of(peer, net))


if __name__ == "__main__":
    main()

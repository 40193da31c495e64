"""transformer4, transformer12 in PyTorch: see bench/transformer.c."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import integers, layers_of, read_weights, serve
from torch_peer import maybe_compiled, third_loss, trainer

WIDE, HEADS, TIME, BATCH, WORDS = 256, 4, 128, 8, 5000


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)
        self.qkv, self.p = nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)
        self.f, self.g = nn.Linear(WIDE, 4 * WIDE), nn.Linear(4 * WIDE, WIDE)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.qkv(self.l1(x)).split(c, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.p(a)
        return x + self.g(F.gelu(self.f(self.l2(x))))


class Gpt(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers
        self.te, self.pe = nn.Embedding(WORDS, WIDE), nn.Embedding(TIME, WIDE)
        for k in range(layers):
            self.add_module(f"b{k}", Block())
        self.lf = nn.LayerNorm(WIDE)

    def forward(self, i):
        x = self.te(i) + self.pe.weight
        for k in range(self.layers):
            x = getattr(self, f"b{k}")(x)
        return F.linear(self.lf(x), self.te.weight)


def main():
    _, weights, _, peer = sys.argv[1:]
    names = {name: torch.from_numpy(v) for name, v in read_weights(weights).items()}
    net = Gpt(layers_of(names))
    names.pop("head.weight", None)  # the tie
    net.load_state_dict(names)
    x = torch.from_numpy(integers(BATCH * TIME, WORDS, 1)).reshape(BATCH, TIME)
    y = torch.from_numpy(integers(BATCH * TIME, WORDS, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
    forward = maybe_compiled(net, peer)
    step = trainer(optimizer, lambda: F.cross_entropy(forward(x).view(-1, WORDS), y))
    serve(third_loss(step), step)


if __name__ == "__main__":
    main()

"""transformer4, transformer12, recompute in PyTorch: see bench/transformer.c."""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from peer import integers, layers_of, read_weights, serve
from torch_peer import maybe_compiled, third_loss, trainer

WIDE, HEADS, WORDS = 256, 4, 5000
SIZES = {"recompute": (512, 4)}  # time, batch


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
    def __init__(self, layers, time):
        super().__init__()
        self.layers, self.again = layers, False
        self.te, self.pe = nn.Embedding(WORDS, WIDE), nn.Embedding(time, WIDE)
        for k in range(layers):
            self.add_module(f"b{k}", Block())
        self.lf = nn.LayerNorm(WIDE)

    def forward(self, i):
        x = self.te(i) + self.pe.weight
        for k in range(self.layers):
            b = getattr(self, f"b{k}")
            x = checkpoint(b, x, use_reentrant=False, preserve_rng_state=False) if self.again else b(x)
        return F.linear(self.lf(x), self.te.weight)


def main():
    _, weights, workload, peer = sys.argv[1:]
    state = {}
    time, batch = SIZES.get(workload, (128, 8))
    x = torch.from_numpy(integers(batch * time, WORDS, 1)).reshape(batch, time)
    y = torch.from_numpy(integers(batch * time, WORDS, 2))

    def case(percent="100"):
        names = {name: torch.from_numpy(v) for name, v in read_weights(weights).items()}
        net = Gpt(layers_of(names), time)
        net.again = int(percent) < 100
        names.pop("head.weight", None)  # the tie
        net.load_state_dict(names)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
        forward = maybe_compiled(net, peer)
        state["step"] = trainer(optimizer, lambda: F.cross_entropy(forward(x).view(-1, WORDS), y))

    case()
    serve(lambda: third_loss(state["step"])(), lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

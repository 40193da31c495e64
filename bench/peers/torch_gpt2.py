"""gpt2, gpt2_long, gpt2_decode in PyTorch: see bench/gpt2.c."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import checksum, integers, read_weights, serve
from torch_peer import again_of, maybe_compiled, run_layer, third_loss, trainer

WIDTH, LAYERS, HEADS, TOKENS, PLACES, WORDS = 768, 12, 12, 256, 128, 50257
SIZES = {"gpt2": (4, 64), "gpt2_long": (1, 1024)}  # batch, time


class Conv1D(nn.Module):
    """x weight + bias, as the usual GPT-2 has it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = Conv1D(WIDTH, 3 * WIDTH), Conv1D(WIDTH, WIDTH)

    def forward(self, x, cache, at):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.c_attn(x).split(c, 2))
        if cache is not None:
            cache[0][:, :, at : at + t], cache[1][:, :, at : at + t] = k, v
            k, v = cache[0][:, :, : at + t], cache[1][:, :, : at + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(WIDTH, 4 * WIDTH), Conv1D(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x, cache=None, at=0):
        x = x + self.attn(self.ln_1(x), cache, at)
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, places):
        super().__init__()
        self.again = False
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(places, WIDTH)
        self.h, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, ids, caches=None, at=0):
        x = self.wte(ids) + self.wpe.weight[at : at + ids.shape[1]]
        for k, block in enumerate(self.h):
            x = run_layer(block, self.again, x, caches and caches[k], at)
        return F.linear(self.ln_f(x), self.wte.weight)


def training(net, peer, batch, time):
    x = torch.from_numpy(integers(batch * time, WORDS, 1)).reshape(batch, time)
    y = torch.from_numpy(integers(batch * time, WORDS, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=1e-2, fused=True)
    forward = maybe_compiled(net, peer)
    step = trainer(optimizer, lambda: F.cross_entropy(forward(x).view(-1, WORDS), y))
    serve(third_loss(step), step, again=again_of(peer, net))


def decoding(net, peer):
    ids = torch.from_numpy(integers(TOKENS, WORDS, 1))
    caches = [[torch.zeros(1, HEADS, PLACES, WIDTH // HEADS) for _ in range(2)] for _ in range(LAYERS)]
    forward, state = maybe_compiled(net, peer), {"at": 0}

    @torch.inference_mode()
    def step():
        at = state["at"] % PLACES
        state["at"] += 1
        return forward(ids[at].view(1, 1), caches, at)

    serve(lambda: (step(), step(), checksum(step().numpy()))[2], step)


def main():
    _, weights, workload, peer = sys.argv[1:]
    names = {name.removeprefix("transformer."): torch.from_numpy(v) for name, v in read_weights(weights).items()}
    names = {name: v for name, v in names.items() if name != "lm_head.weight"}  # the tie
    net = Gpt2(len(names["wpe.weight"]))
    net.load_state_dict(names)
    if workload == "gpt2_decode":
        decoding(net, peer)
    else:
        training(net, peer, *SIZES[workload])


if __name__ == "__main__":
    main()

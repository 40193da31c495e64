"""packed_transformer in PyTorch: see bench/packed_transformer.c. $TENURE_PEER_FORM is how it has the sequences: packed rows, of
which attention takes one sequence after the other; a batch padded to the longest with a mask; nested tensors with the layout
jagged, whose attention is not causal."""
import os
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from peer import integers, lengths_of, serve
from torch_peer import load, maybe_compiled, third_loss, trainer

warnings.filterwarnings("ignore")  # nested tensors are a prototype
FORM = os.environ.get("TENURE_PEER_FORM", "loop")
LAYERS, WIDE, HEADS, WORDS = 4, 256, 4, 5000


class Loop:
    """Rows of all sequences, one behind the other."""

    def __init__(self, n, causal):
        self.n, self.causal = n, causal

    def of(self, rows):
        return rows

    def steps(self):
        return torch.cat([torch.arange(n) for n in self.n])

    def attend(self, qkv):
        parts = (x.transpose(0, 1).unsqueeze(0).split(self.n, 2) for x in qkv.view(-1, 3, HEADS, WIDE // HEADS).unbind(1))
        y = [F.scaled_dot_product_attention(q, k, v, is_causal=self.causal) for q, k, v in zip(*parts)]
        return torch.cat(y, 2).squeeze(0).transpose(0, 1).reshape(-1, WIDE)

    def rows(self, x):
        return x


class Padded:
    def __init__(self, n, causal):
        self.n, self.longest = n, max(n)
        steps = torch.arange(self.longest)
        self.is_step = steps < torch.tensor(n)[:, None]
        self.mask = self.is_step[:, None, None, :]
        if causal:
            self.mask = self.mask & (steps <= steps[:, None])

    def of(self, rows):
        return nn.utils.rnn.pad_sequence(rows.split(self.n), batch_first=True)

    def steps(self):
        return torch.arange(self.longest)

    def attend(self, qkv):
        b, t = qkv.shape[:2]
        q, k, v = qkv.view(b, t, 3, HEADS, WIDE // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask).transpose(1, 2).reshape(b, t, WIDE)

    def rows(self, x):
        return x[self.is_step]


class Nested(Loop):
    """Products and norms of the values, which are rows; attention of nested tensors."""

    def __init__(self, n, causal):
        super().__init__(n, causal)
        self.offsets = torch.tensor([0, *torch.tensor(n).cumsum(0).tolist()])

    def attend(self, qkv):
        nest = lambda x: torch.nested.nested_tensor_from_jagged(x.contiguous(), self.offsets).transpose(1, 2)
        q, k, v = (nest(x) for x in qkv.view(-1, 3, HEADS, WIDE // HEADS).unbind(1))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).values().reshape(-1, WIDE)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj_weight, self.in_proj_bias = nn.Parameter(torch.empty(3 * WIDE, WIDE)), nn.Parameter(torch.empty(3 * WIDE))
        self.out_proj = nn.Linear(WIDE, WIDE)

    def forward(self, x, form):
        return self.out_proj(form.attend(F.linear(x, self.in_proj_weight, self.in_proj_bias)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = Attention()
        self.norm1, self.norm2 = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)
        self.linear1, self.linear2 = nn.Linear(WIDE, 4 * WIDE), nn.Linear(4 * WIDE, WIDE)

    def forward(self, x, form):
        x = x + self.self_attn(self.norm1(x), form)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDE)


class Net(nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.te, self.pe, self.blocks = nn.Embedding(WORDS, WIDE), nn.Embedding(longest, WIDE), Blocks()

    def forward(self, x, steps, form):
        h = self.te(x) + self.pe(steps)
        for layer in self.blocks.layers:
            h = layer(h, form)
        return F.linear(self.blocks.norm(form.rows(h)), self.te.weight)


def main():
    state = {}

    def case(kind, order=""):
        n, causal = lengths_of(kind), order == "causal"
        state["cannot"] = FORM == "nested" and causal  # no kernel
        if state["cannot"]:
            return
        form = {"loop": Loop, "padded": Padded, "nested": Nested}[FORM](n, causal)
        net = Net(max(n))
        load(net, sys.argv[2], tied="head.weight")
        x, y = (torch.from_numpy(integers(sum(n), WORDS, seed)) for seed in (1, 2))
        x, steps = form.of(x), form.steps()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
        forward = maybe_compiled(net, sys.argv[4])
        state["step"] = trainer(optimizer, lambda: F.cross_entropy(forward(x, steps, form), y))

    def check():
        try:
            return None if state["cannot"] else third_loss(state["step"])()
        except (RuntimeError, NotImplementedError):
            state["cannot"] = True
            return None

    serve(check, lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

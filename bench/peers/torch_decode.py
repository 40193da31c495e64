"""decode_ragged in PyTorch: see bench/decode.c. $TENURE_PEER_FORM is how it has the sequences: `padded`, a padded batch with a mask
and a padded cache; `loop`, rows that exist, and a loop over the sequences for attention."""
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import checksum, integers, number, serve
from torch_peer import Block, load

FORM = os.environ.get("TENURE_PEER_FORM", "padded")
N, LEAST, LONGEST, STEPS, TURNS, MOST = 32, 5, 500, 640, 64, 128
LAYERS, WIDE, HEADS, WORDS = 6, 384, 6, 8192
SIZE = WIDE // HEADS


def lengths():
    n = [int(LEAST * (LONGEST / LEAST) ** x) for x in number(N, 21)]
    tokens = [8 + int((MOST - 7) * x) for x in number(N, 22)]
    n[3], n[20], tokens[7] = LEAST, LONGEST, MOST
    return n, tokens


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.te, self.pe = nn.Embedding(WORDS, WIDE), nn.Embedding(STEPS, WIDE)
        for k in range(LAYERS):
            self.add_module(f"b{k}", Block(WIDE, HEADS))
        self.lf, self.head = nn.LayerNorm(WIDE), nn.Linear(WIDE, WORDS, bias=False)


class Decoder:
    def __init__(self, net):
        self.net = net
        self.n, self.tokens = lengths()
        self.ids = torch.from_numpy(integers(N * LONGEST, WORDS, 1)).view(N, LONGEST)
        self.more = torch.from_numpy(integers(MOST * N, WORDS, 2)).view(MOST, N)
        shape = (N, HEADS, STEPS, SIZE)
        self.caches = [[torch.zeros(shape) for _ in range(2)] for _ in range(LAYERS)]
        self.steps = torch.arange(STEPS)

    def finish(self, h):
        self.logits = self.net.head(self.net.lf(h))
        likely, words = torch.topk(self.logits, 40)
        draw = torch.multinomial(torch.softmax(likely / 0.8, -1), 1)
        return words.gather(-1, draw)

    def blocks(self, h, attend):
        for k, cache in enumerate(self.caches):
            h = getattr(self.net, f"b{k}")(h, lambda q, k, v: attend(cache, q, k, v))
        return h


class Padded(Decoder):
    """Rows [N, longest]; keys that are not seen are masked; rows of sequences that have ended run on."""

    def __init__(self, net):
        super().__init__(net)
        self.rows = torch.arange(N)
        self.last = torch.tensor(self.n) - 1

    def prompts(self):
        self.at = 0
        self.held = torch.tensor(self.n)

        def attend(cache, q, k, v):
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            cache[0][:, :, :LONGEST], cache[1][:, :, :LONGEST] = k, v
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)  # padding lies behind

        h = self.blocks(self.net.te(self.ids) + self.net.pe.weight[:LONGEST], attend)
        return self.finish(h[self.rows, self.last])

    def step(self, running):
        most = int(self.held.max()) + 1
        mask = (self.steps[:most] <= self.held[:, None])[:, None, None, :]

        def attend(cache, q, k, v):
            cache[0][self.rows, :, self.held], cache[1][self.rows, :, self.held] = k, v
            keys, values = cache[0][:, :, :most], cache[1][:, :, :most]
            return F.scaled_dot_product_attention(q.unsqueeze(2), keys, values, attn_mask=mask)

        h = self.blocks(self.net.te(self.more[self.at]) + self.net.pe(self.held), attend)
        self.at, self.held = self.at + 1, self.held + 1
        return self.finish(h)


class Loop(Decoder):
    """Rows of the sequences that run, one behind the other."""

    def prompts(self):
        self.at = 0
        self.held = list(self.n)
        ids = torch.cat([x[:n] for x, n in zip(self.ids, self.n)])
        steps = torch.cat([self.steps[:n] for n in self.n])

        def attend(cache, q, k, v):
            y = []
            for b, part in enumerate(zip(q.split(self.n), k.split(self.n), v.split(self.n))):
                q, k, v = (x.transpose(0, 1) for x in part)
                cache[0][b, :, : self.n[b]], cache[1][b, :, : self.n[b]] = k, v
                y.append(F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0].transpose(0, 1))
            return torch.cat(y)

        h = self.blocks(self.net.te(ids) + self.net.pe(steps), attend)
        return self.finish(h[torch.tensor(self.n).cumsum(0) - 1])

    def step(self, running):
        ids, held = self.more[self.at, running], [self.held[b] for b in running]
        rows, at = torch.tensor(running), torch.tensor(held)

        def attend(cache, q, k, v):
            cache[0][rows, :, at], cache[1][rows, :, at] = k, v
            y = []
            for i, (b, n) in enumerate(zip(running, held)):
                keys, values = cache[0][b : b + 1, :, : n + 1], cache[1][b : b + 1, :, : n + 1]
                y.append(F.scaled_dot_product_attention(q[i : i + 1].unsqueeze(2), keys, values))
            return torch.cat(y)

        h = self.blocks(self.net.te(ids) + self.net.pe(at), attend)
        self.at += 1
        for b in running:
            self.held[b] += 1
        return self.finish(h)


def main():
    _, weights, _, _ = sys.argv[1:]
    net = Gpt()
    load(net, weights)
    state = {}

    def case(what):
        state["what"], state["d"] = what, (Padded if FORM == "padded" else Loop)(net)
        state["d"].at = TURNS

    def running():
        d = state["d"]
        return [k for k in range(N) if state["what"] == "step" or d.at < d.tokens[k]]

    @torch.inference_mode()
    def check():
        if FORM == "nested":
            return None  # no cache of nested tensors
        d = state["d"]
        d.prompts()
        rows = list(range(N))
        for _ in range({"prompts": 0, "step": 3, "texts": 9}[state["what"]]):
            rows = running()
            d.step(rows)
        logits = d.logits if len(d.logits) == len(rows) else d.logits[rows]
        return checksum(logits.numpy())

    @torch.inference_mode()
    def step():
        d = state["d"]
        if state["what"] == "step":
            if d.at >= TURNS:
                d.prompts()
            d.step(running())
            return
        d.prompts()
        while state["what"] == "texts" and d.at < MOST:
            d.step(running())

    serve(check, step, 1, case)


if __name__ == "__main__":
    main()

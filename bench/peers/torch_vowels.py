"""The vowels step in PyTorch: see bench/vowels.c."""
import sys

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from peer import serve
from torch_peer import load

BATCH, N_BATCHES = 30, 9


def read_batches(root):
    lines = open(f"{root}/data/japanese_vowels/JapaneseVowels_TRAIN.ts").read().splitlines()
    cases = [line.split(":") for line in lines[lines.index("@data") + 1 :] if line]
    x = [torch.tensor([[float(v) for v in series.split(",")] for series in c[:-1]]).T.contiguous() for c in cases]
    y = [int(c[-1]) - 1 for c in cases]
    for k in range(N_BATCHES):
        picked = range(k, BATCH * N_BATCHES, N_BATCHES)
        lengths = torch.tensor([len(x[i]) for i in picked])
        yield pad_sequence([x[i] for i in picked], batch_first=True), lengths, torch.tensor([y[i] for i in picked])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(12, 64, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(128, 9)

    def forward(self, x, lengths, dropout):
        _, (h, _) = self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        return self.head(torch.nn.functional.dropout(torch.cat([h[-2], h[-1]], 1), dropout))


def main():
    root, weights = sys.argv[1:3]
    net, batches, done = Net(), list(read_batches(root)), 0
    load(net, weights)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2, fused=True)

    def loss_of(batch, dropout):
        x, lengths, y = batch
        return torch.nn.functional.cross_entropy(net(x, lengths, dropout), y)

    @torch.no_grad()
    def check():
        return loss_of(batches[0], 0.0).item()

    def step():
        nonlocal done
        optimizer.zero_grad(set_to_none=True)
        loss_of(batches[done % N_BATCHES], 0.3).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        done += 1

    serve(check, step)


if __name__ == "__main__":
    main()

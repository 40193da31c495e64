"""The vowels step in PyTorch: torch_vowels.py ROOT WEIGHTS. Protocol: see bench/main.c."""
import json
import os
import statistics
import struct
import sys
import time

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

BATCH, N_BATCHES = 30, 9


def read_weights(path):
    """safetensors: u64 size of a JSON header, the header, then raw little-endian values."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__", None)
    return {
        name: torch.frombuffer(bytearray(raw[8 + n :][slice(*row["data_offsets"])]), dtype=torch.float32).reshape(row["shape"])
        for name, row in header.items()
    }


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
    torch.set_num_threads(int(os.environ.get("TENURE_PEER_THREADS", "2")))
    root, weights = sys.argv[1:]
    net, batches, at = Net(), list(read_batches(root)), 0
    net.load_state_dict(read_weights(weights))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2, fused=True)

    def loss_of(batch, dropout):
        x, lengths, y = batch
        return torch.nn.functional.cross_entropy(net(x, lengths, dropout), y)

    for line in sys.stdin:
        if line.strip() == "check":
            with torch.no_grad():
                print(f"loss {loss_of(batches[0], 0.0).item():.9g}", flush=True)
            continue
        ms = []
        for _ in range(int(line)):
            start = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            loss_of(batches[at], 0.3).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            ms.append(1e3 * (time.perf_counter() - start))
            at = (at + 1) % N_BATCHES
        print(f"{min(ms):.4f} {statistics.median(ms):.4f}", flush=True)


if __name__ == "__main__":
    main()

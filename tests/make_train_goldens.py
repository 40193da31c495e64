"""Writes tests/train_goldens.txt and .bin: what PyTorch computes for tests/test_train.c.

    python tests/make_train_goldens.py      (PyTorch 2.13, CPU)

Six utterances of Japanese Vowels, classified by a packed recurrent network and a linear head on its last hidden state;
cross entropy, gradient clipping, AdamW or SGD with momentum 0.9. Initial weights follow a formula that C states too (`weight`), so that only
results are stored. Reference values are PyTorch's in float64; its own float32 run is compared with them here, and the
largest deviation stands beside each case as a yardstick.
"""
import torch

from goldens import TESTS, Table

UTTERANCES = [0, 47, 94, 141, 188, 235]
STEPS, DECAY = 5, 1e-2
N_SAMPLES = 64
CASES = [  # name, cell, hidden, layers, bidirectional, every element stored, clip, optimizer, learning rate
    ("bilstm8", "LSTM", 8, 1, True, True, 1.0, "AdamW", 3e-3),
    ("bigru8", "GRU", 8, 1, True, True, 0.1, "AdamW", 3e-3),
    ("lstm8x2", "LSTM", 8, 2, False, True, 0.1, "SGD", 0.5),  # AdamW hardly sees a scaled gradient: this one does
    ("bilstm64", "LSTM", 64, 1, True, False, 1.0, "AdamW", 3e-3),
]


def read_utterances():
    lines = (TESTS.parent / "data/japanese_vowels/JapaneseVowels_TRAIN.ts").read_text().splitlines()
    cases = [line.split(":") for line in lines[lines.index("@data") + 1 :] if line]
    picked = [cases[k] for k in UTTERANCES]
    x = [torch.tensor([[float(v) for v in series.split(",")] for series in case[:-1]]).T for case in picked]
    return x, torch.tensor([int(case[-1]) - 1 for case in picked])


def offset(k):
    return (k * 374761393 + 12345) % 2**32


def weight(k, shape):
    """Element i of parameter k, the same to the last bit in C."""
    n = int(torch.tensor(shape).prod())
    w = [(((i * 2654435761 + offset(k)) % 2**32) / 2**32 - 0.5) * 0.25 for i in range(n)]
    return torch.tensor(w, dtype=torch.float64).float().reshape(shape)


class Net(torch.nn.Module):
    def __init__(self, cell, hidden, layers, bidirectional):
        super().__init__()
        self.rnn = getattr(torch.nn, cell)(12, hidden, layers, bidirectional=bidirectional, batch_first=True)
        self.head = torch.nn.Linear(hidden * (2 if bidirectional else 1), 9)
        self.bidirectional = bidirectional

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.rnn(packed)
        last = last[0] if isinstance(last, tuple) else last
        return self.head(torch.cat([last[-2], last[-1]], 1) if self.bidirectional else last[-1])


def train(case, dtype, x, y):
    _, cell, hidden, layers, bidirectional, _, clip, optimizer, lr = case
    net = Net(cell, hidden, layers, bidirectional).to(dtype)
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(weight(k, p.shape))
    lengths = torch.tensor([len(v) for v in x])
    padded = torch.nn.utils.rnn.pad_sequence(x, batch_first=True).to(dtype)
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    optimizer = getattr(torch.optim, optimizer)(net.parameters(), lr=lr, weight_decay=DECAY, **options)
    r = {"loss": [], "norm": []}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(padded, lengths), y)
        loss.backward()
        if step == 0:
            r["grad"] = [p.grad.detach().double().clone() for p in net.parameters()]
        r["norm"].append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), clip)))
        optimizer.step()
        r["loss"].append(float(loss.detach()))
        if step in (0, STEPS - 1):
            r["after1" if step == 0 else "after5"] = [p.detach().double().clone() for p in net.parameters()]
    r["paths"] = [name for name, _ in net.named_parameters()]
    return r


def deviation(a, b):
    return max(float((u - v).abs().max() / v.abs().max()) for u, v in zip(a, b))


def summary(t, whole):
    """All elements, or sum, sum of magnitudes and evenly spaced samples."""
    v = t.flatten()
    return v if whole else torch.stack([v.sum(), v.abs().sum(), *(v[s * len(v) // N_SAMPLES] for s in range(N_SAMPLES))])


def add(table, case, x, y):
    name, cell, hidden, layers, bidirectional, whole, clip, optimizer, lr = case
    r, r32 = train(case, torch.float64, x, y), train(case, torch.float32, x, y)
    d = [deviation(r32[k], r[k]) for k in ("grad", "after1", "after5")]
    d_loss = max(abs(a - b) / b for a, b in zip(r32["loss"], r["loss"]))
    table.line("case", name)
    table.line(f"# float32 deviates by {d_loss:.1e} in losses, {d[0]:.1e} in gradients, {d[1]:.1e} and {d[2]:.1e} in parameters after 1 and {STEPS} steps")
    table.line(cell.lower(), hidden, layers, 2 if bidirectional else 1)
    table.line(optimizer.lower(), lr, clip)
    for path, t in zip(r["paths"], r["grad"]):
        table.line("param", t.numel(), path)
    table.lines += ["whole"] * whole
    for kind in "loss", "norm":
        table.line(kind, table.store(torch.tensor(r[kind], dtype=torch.float64)))
    for kind in "grad", "after1", "after5":
        table.line(kind, table.store(torch.cat([summary(t, whole and kind != "after1") for t in r[kind]])))


def main():
    torch.manual_seed(0)
    x, y = read_utterances()
    table = Table("tests/make_train_goldens.py")
    table.line("# Computed in float64. Deviations are relative to each tensor's largest magnitude.")
    for case in CASES:
        add(table, case, x, y)
    table.write("train_goldens")


if __name__ == "__main__":
    main()

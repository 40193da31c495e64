"""Writes tests/goldens_train.h: what PyTorch computes for tests/test_train.c.

    python tests/make_train_goldens.py > tests/goldens_train.h      (PyTorch 2.13, CPU)

Six utterances of Japanese Vowels, classified by a packed recurrent network and a linear head on its last hidden state;
cross entropy, gradient clipping, AdamW or SGD with momentum 0.9. Initial weights follow a formula that C states too (`weight`), so that only
results are stored. Reference values are PyTorch's in float64; its own float32 run is compared with them here, and the
largest deviation stands in the header as a yardstick.
"""
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
    lines = (ROOT / "data/japanese_vowels/JapaneseVowels_TRAIN.ts").read_text().splitlines()
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


def numbers(values, digits):
    out, line = [], " "
    for v in values:
        text = f" {v:.{digits}g},"
        if len(line) + len(text) > 118:
            out.append(line)
            line = " "
        line += text
    return "\n".join(out + [line])


def emit(name, tensors, whole):
    """One array: for each tensor all elements, or sum, sum of magnitudes and evenly spaced samples."""
    flat = []
    for t in tensors:
        v = t.flatten()
        if whole:
            flat += v.tolist()
        else:
            flat += [float(v.sum()), float(v.abs().sum())]
            flat += [float(v[s * len(v) // N_SAMPLES]) for s in range(N_SAMPLES)]
    print(f"static const double {name}[] = {{\n{numbers(flat, 9)}\n}};")


TYPES = """
// A parameter: its path, number of elements, and the offset in the formula of its initial weights.
typedef struct { const char *path; int64_t n; uint32_t offset; } GoldenParam;
// `whole`: grad and after5 hold every element, parameter after parameter; else per parameter the sum, the sum of magnitudes
// and GOLDEN_SAMPLES elements at s * n / GOLDEN_SAMPLES. after1 is always in that short form.
typedef struct {
  const char *name;
  bool is_gru, bidirectional, whole, is_sgd;
  uint32_t hidden, n_layers, n_params;
  double clip, lr;
  const GoldenParam *params;
  const double *loss, *norm;  // of each step
  const double *grad;         // first step, before clipping
  const double *after1, *after5;
} GoldenCase;
"""


def main():
    torch.manual_seed(0)
    x, y = read_utterances()
    print("// Made by tests/make_train_goldens.py; not edited by hand.")
    print("// PyTorch " + torch.__version__.split("+")[0] + ", float64. Deviations are of its float32 run, relative to each tensor's largest magnitude.")
    print("// clang-format off")
    print("#ifndef TN_GOLDENS_TRAIN_H\n#define TN_GOLDENS_TRAIN_H\n#include <stdbool.h>\n#include <stdint.h>\n")
    print(f"enum {{ GOLDEN_STEPS = {STEPS}, GOLDEN_SAMPLES = {N_SAMPLES}, GOLDEN_BATCH = {len(UTTERANCES)} }};")
    print(f"static const int golden_utterances[] = {{{', '.join(map(str, UTTERANCES))}}};")
    print(f"static const double golden_decay = {DECAY}, golden_momentum = 0.9;  // of SGD")
    print(TYPES)
    rows = []
    for case in CASES:
        name, cell, hidden, layers, bidirectional, whole, clip, optimizer, lr = case
        r, r32 = train(case, torch.float64, x, y), train(case, torch.float32, x, y)
        d = [deviation(r32[k], r[k]) for k in ("grad", "after1", "after5")]
        d_loss = max(abs(a - b) / b for a, b in zip(r32["loss"], r["loss"]))
        print(f"// {name}: float32 deviates by {d_loss:.1e} in losses, {d[0]:.1e} in gradients, {d[1]:.1e} and {d[2]:.1e} in parameters after 1 and {STEPS} steps")
        print(f"{name}: norm {r['norm'][0]:.4f} loss {r['loss'][0]:.4f} deviations {d_loss:.1e} {d}", file=sys.stderr)
        print(f"static const double {name}_loss[] = {{{', '.join(f'{v:.12g}' for v in r['loss'])}}};")
        print(f"static const double {name}_norm[] = {{{', '.join(f'{v:.12g}' for v in r['norm'])}}};")
        emit(f"{name}_grad", r["grad"], whole)
        emit(f"{name}_after1", r["after1"], False)
        emit(f"{name}_after5", r["after5"], whole)
        params = ", ".join(f'{{"{p}", {t.numel()}, {offset(k)}u}}' for k, (p, t) in enumerate(zip(r["paths"], r["grad"])))
        print(f"static const GoldenParam {name}_params[] = {{\n  " + params.replace("}, {", "},\n  {") + "};\n")
        rows.append(f'  {{"{name}", {"true" if cell == "GRU" else "false"}, {"true" if bidirectional else "false"}, {"true" if whole else "false"}, '
                    f'{"true" if optimizer == "SGD" else "false"}, '
                    f"{hidden}, {layers}, {len(r['paths'])}, {clip}, {lr}, {name}_params, {name}_loss, {name}_norm, {name}_grad, {name}_after1, {name}_after5}},")
    print("static const GoldenCase golden_cases[] = {\n" + "\n".join(rows) + "\n};\n#endif")


if __name__ == "__main__":
    main()

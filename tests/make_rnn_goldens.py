"""Writes tests/rnn_goldens.txt and .bin: what PyTorch's recurrent layers give for the matrix of tests/test_rnn.c.

    python tests/make_rnn_goldens.py          (PyTorch 2.13)

Every number that goes in comes from `number`, which the test states too, so that only results are stored; they are
computed in doubles. A tensor is stored as its largest magnitude, two random projections and two elements.
"""
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from goldens import Table

torch.set_default_dtype(torch.float64)
BATCH, TIME, IN, HIDDEN, PROJ = 5, 7, 6, 20, 9
LENGTHS = {"sorted": [7, 6, 6, 3, 1], "unsorted": [3, 6, 1, 7, 6], "dense": [7] * 5}
KINDS = ["tanh", "relu", "lstm", "gru", "lstm projected"]


def number(seed, n, scale):
    i = torch.arange(n, dtype=torch.int64)
    mask = 0xFFFFFFFF
    u = (seed * 0x9E3779B1 + i * 0x85EBCA77) & mask
    u = ((u ^ (u >> 15)) * 0x2C1B3C6D) & mask
    u = ((u ^ (u >> 12)) * 0x297A2D39) & mask
    u ^= u >> 15
    return ((u >> 8).double() / (1 << 23) - 1) * scale


def tensor(seed, scale, *shape):
    return number(seed, int(torch.tensor(shape).prod()), scale).reshape(shape).requires_grad_()


def store(out, t):
    flat = t.detach().reshape(-1)
    n = flat.numel()
    out += [flat.abs().max(), (flat * number(1001, n, 1)).sum(), (flat * number(1002, n, 1)).sum(), flat[n // 3],
            flat[2 * n // 3]]


def layer(kind, layers, ways, bias):
    options = dict(num_layers=layers, bidirectional=ways == 2, bias=bias, batch_first=True)
    if kind in ("tanh", "relu"):
        return torch.nn.RNN(IN, HIDDEN, nonlinearity=kind, **options)
    if kind == "gru":
        return torch.nn.GRU(IN, HIDDEN, **options)
    return torch.nn.LSTM(IN, HIDDEN, proj_size=PROJ if kind == "lstm projected" else 0, **options)


def case(out, kind, layers, ways, bias, form):
    net = layer(kind, layers, ways, bias)
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(number(10 + k, p.numel(), 0.25).reshape(p.shape))
    lengths, lstm, state = torch.tensor(LENGTHS[form]), kind.startswith("lstm"), PROJ if "projected" in kind else HIDDEN
    x = tensor(1, 1.0, BATCH, TIME, IN)
    h0, c0 = tensor(2, 0.5, layers * ways, BATCH, state), tensor(3, 0.5, layers * ways, BATCH, HIDDEN)
    initial = (h0, c0) if lstm else h0
    if form == "dense":
        y, last = net(x, initial)
    else:
        y, last = net(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=form == "sorted"), initial)
        y = pad_packed_sequence(y, batch_first=True, total_length=TIME)[0]
    last = last if lstm else (last,)
    loss = (y * tensor(4, 1.0, *y.shape)).sum() + sum((s * tensor(5 + k, 1.0, *s.shape)).sum() for k, s in enumerate(last))
    leaves = [x, h0] + ([c0] if lstm else []) + list(net.parameters())
    for t in [y, *last, *torch.autograd.grad(loss, leaves)]:
        store(out, t)


table = Table("tests/make_rnn_goldens.py")
for kind in KINDS:
    for layers in (1, 2, 3):
        for ways in (1, 2):
            for bias in (False, True):
                for form in LENGTHS:
                    out = []
                    case(out, kind, layers, ways, bias, form)
                    table.line(f"case {kind}, {layers} layers, {ways} ways, {'bias' if bias else 'no bias'}, {form}")
                    table.line("stored", table.store(torch.tensor(out)))
table.write("rnn_goldens")

#!/usr/bin/env python3
"""Writes tests/second_grad_sequences.txt and .bin: gradients of gradients of recurrences and of attention, each sequence run alone,
by torch.autograd with create_graph, in float64.

    python3 tests/make_second_grad_sequences.py          (PyTorch 2.13)

Of l, the sum of the sines of all results: m is the sum of the sines of dl/dv over all inputs and parameters v. A line `case`
has what tests/test_second_grad_sequences.c builds it of; lines `value` name m, then each v with its sizes: dm/dv.
"""
import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import goldens

torch.set_default_dtype(torch.float64)
SCALE = {"x": 2, "q": 3, "k": 3, "v": 3, "bias": 2}


def number(shape, scale, seed):
    """In steps of float32"""
    u = torch.from_numpy(goldens.units(math.prod(shape), seed)).reshape(shape)
    return ((u - 0.5) * scale).float().double().requires_grad_()


class Values:
    """v, in their order: the seed of each is its place."""

    def __init__(self):
        self.list = []

    def add(self, name, shape):
        t = number(shape, SCALE.get(name, 1), len(self.list) + 1)
        self.list.append((name, t))
        return t


def sines(x):
    return torch.sin(x).sum()


def recurrence(v, cell, layers, both, proj, bias, states, dense, size, hidden, steps, lengths):
    make = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(cell, torch.nn.RNN)
    more = {"proj_size": proj} if cell == "lstm" else {} if cell == "gru" else {"nonlinearity": cell}
    rnn = make(size, hidden, layers, bias=bool(bias), bidirectional=bool(both), batch_first=True, **more)
    d, p = layers * (1 + both), proj or hidden
    x = v.add("x", (len(lengths), steps, size))
    h0 = v.add("h0", (d, len(lengths), p)) if states else torch.zeros(d, len(lengths), p)
    c0 = v.add("c0", (d, len(lengths), hidden)) if states and cell == "lstm" else torch.zeros(d, len(lengths), hidden)
    weights = {name: v.add("m." + name, w.shape) for name, w in rnn.named_parameters()}
    loss = 0
    for b, n in enumerate(lengths):
        h, c = h0[:, b : b + 1].contiguous(), c0[:, b : b + 1].contiguous()
        if n:
            state = (h, c) if cell == "lstm" else h
            out, state = torch.func.functional_call(rnn, weights, (x[b : b + 1, :n], state))
            h, c = state if cell == "lstm" else (state, c)
            loss = loss + sines(out)
        loss = loss + sines(h) + (sines(c) if cell == "lstm" else 0)
    return loss


def attention(v, cross, causal, window, bias, weights, h, g, d, tq, tk, lengths):
    batch = len(lengths) // (1 + cross)
    of_q, of_k = lengths[:batch], lengths[-batch:]
    q, k, val = v.add("q", (batch, tq, h, d)), v.add("k", (batch, tk, g, d)), v.add("v", (batch, tk, g, d))
    add = v.add("bias", (batch, h, tq, tk)) if bias else torch.zeros(batch, h, tq, tk)
    loss = 0
    for b in range(batch):
        n, m = of_q[b], of_k[b]
        if not n or not m:
            continue
        at, key = torch.arange(n)[:, None], torch.arange(m)
        sees = torch.ones(n, m, dtype=torch.bool)
        if causal:
            sees &= key <= at
        if window:
            sees &= (key > at - window) & (key < at + window)
        for i in range(h):
            s = q[b, :n, i] @ k[b, :m, i * g // h].T / d**0.5 + add[b, i, :n, :m]
            p = torch.softmax(s.masked_fill(~sees, -1e30), -1) * sees
            loss = loss + sines(p @ val[b, :m, i * g // h]) + (sines(p) if weights else 0)
    return loss


def encoder(v, first, heads, feedforward, size, steps, lengths):
    layer = torch.nn.TransformerEncoderLayer(size, heads, feedforward, 0.0, batch_first=True, norm_first=bool(first))
    x = v.add("x", (len(lengths), steps, size))
    weights = {name: v.add("m." + name, w.shape) for name, w in layer.named_parameters()}
    with sdpa_kernel(SDPBackend.MATH):
        return sum(sines(torch.func.functional_call(layer, weights, (x[b : b + 1, :n],))) for b, n in enumerate(lengths) if n)


CASES = [
    # cell, layers, both directions, projection, bias, states, dense, sizes of input and state, steps, lengths
    (recurrence, "lstm", 1, 0, 0, 1, 1, 0, 3, 4, 5, [2, 5, 1]),
    (recurrence, "lstm", 2, 1, 0, 1, 0, 0, 3, 5, 6, [6, 0, 3, 1]),
    (recurrence, "lstm", 1, 1, 2, 1, 1, 0, 2, 3, 4, [4, 4]),
    (recurrence, "lstm", 1, 0, 0, 0, 0, 1, 3, 17, 3, [3, 3]),
    (recurrence, "gru", 1, 0, 0, 1, 1, 0, 3, 4, 5, [0, 5, 2]),
    (recurrence, "gru", 2, 1, 0, 0, 0, 0, 2, 3, 7, [7, 1, 4, 4, 2]),
    (recurrence, "gru", 1, 0, 0, 1, 0, 1, 9, 8, 4, [4]),
    (recurrence, "tanh", 2, 1, 0, 1, 1, 0, 3, 7, 4, [3, 1, 4]),
    (recurrence, "relu", 1, 1, 0, 1, 0, 0, 3, 5, 4, [1, 4, 2]),
    (recurrence, "gru", 1, 0, 0, 1, 0, 0, 2, 3, 4, [0, 0]),
    # keys of another layout, causal, window, bias, weights, heads, heads of keys, size, steps of queries and keys, lengths
    (attention, 0, 0, 0, 0, 0, 2, 2, 3, 5, 5, [5, 1, 3]),
    (attention, 0, 1, 0, 1, 0, 4, 2, 3, 6, 6, [0, 6, 2]),
    (attention, 0, 0, 2, 0, 1, 3, 1, 5, 5, 5, [3, 5]),
    (attention, 0, 1, 3, 0, 0, 1, 1, 8, 17, 17, [17, 1, 9]),
    (attention, 1, 0, 0, 1, 0, 2, 1, 4, 3, 6, [3, 1, 2, 0, 6, 4]),
    (attention, 1, 1, 0, 0, 1, 2, 2, 3, 4, 5, [4, 2, 3, 5]),
    (attention, 0, 0, 0, 1, 1, 2, 2, 3, 4, 4, [0, 0]),
    # norm first, heads, feedforward, size, steps, lengths
    (encoder, 0, 2, 7, 4, 5, [5, 2, 1]),
    (encoder, 1, 3, 5, 6, 4, [1, 0, 4]),
]

table = goldens.Table("tests/make_second_grad_sequences.py")
for kind, *given in CASES:
    v = Values()
    loss = kind(v, *given) + 0.0 * sum(t.sum() for _, t in v.list)
    of = [t for _, t in v.list]
    m = sum(sines(d) for d in torch.autograd.grad(loss, of, create_graph=True))
    again = torch.autograd.grad(m, of, allow_unused=True, materialize_grads=True) if m.requires_grad else of
    table.line("case", kind.__name__, *given[:-1], *given[-1])
    table.line("value", "m")
    table.store(m.detach().double())
    for (name, t), d in zip(v.list, again):
        table.line("value", name, *t.shape)
        table.store(d if m.requires_grad else torch.zeros_like(t))
table.write("second_grad_sequences")

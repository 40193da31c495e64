#!/usr/bin/env python3
"""Writes tests/second_grad_goldens.txt and .bin: gradients of gradients by torch.autograd with create_graph, in float64.

    python3 tests/make_second_grad_goldens.py          (PyTorch 2.13)

Of y = op(x, w), l = sum(sin(y)), g = dl/dx, gw = dl/dw (0 where l does not depend on w): m = sum(g^2) / 2 + sum(gw w),
then m, dm/dx and dm/dw.
"""
import torch
import torch.nn.functional as F

import goldens

ROWS = [(3, 5), (1, 1), (2, 17), (4, 1), (7, 3)]
LENGTHS = [2, 4, 1]


def fill(shape, a, b, period, shift):
    n = 1
    for s in shape:
        n *= s
    k = torch.arange(n, dtype=torch.float64)
    return (((k * a + b) % period) / 8 - shift).reshape(shape).requires_grad_()


def labels(x):
    return (torch.arange(x.shape[0]) * 2 + 1) % x.shape[1]


def ignored(x):
    y = labels(x)
    y[-1] = -100
    return y


def packed(f):
    return lambda x, w: torch.cat([f(x[i, :n], w[i, :n]) for i, n in enumerate(LENGTHS)])


def scan(x, w):
    h, out = torch.zeros_like(x[0]), []
    for t in range(x.shape[0]):
        h = torch.tanh(h @ w + x[t])
        out.append(h)
    return torch.stack(out)


def norm(x, w):
    y = torch.sum(torch.sin(x * w))
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return torch.linalg.vector_norm(g) + 0 * w.sum()


def row_norm(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-2)


def heads(x, n):
    b, t, d = x.shape
    return x[:, :, : d * n // 2].reshape(b, t, n, d // 2).transpose(1, 2)


def attend(q, k, v, sees, bias=0):
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
    at, key = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])
    return torch.softmax(s.masked_fill(~sees(at, key), -torch.inf), -1) @ v


def attention(x, w):
    return attend(heads(x, 2), heads(w, 2), heads(x * w, 2), lambda at, key: key <= at)


def attention_grouped(x, w):
    k, v = (heads(a, 1).expand(-1, 2, -1, -1) for a in (w, x * w))
    return attend(heads(x, 2), k, v, lambda at, key: (key - at).abs() < 2, w[:, 0, 0].reshape(-1, 1, 1, 1))


def attention_in_scan(x, w):
    return attend(x, w, x * w, lambda at, key: key >= 0)


CASES = [  # name, shapes of x, shape of w by that of x, y
    ("softmax", ROWS, lambda s: s, lambda x, w: torch.softmax(x, -1) * w),
    ("softmax_first", ROWS, lambda s: s, lambda x, w: torch.softmax(x * w, 0)),
    ("log_softmax", ROWS, lambda s: s, lambda x, w: torch.log_softmax(x * w, -1)),
    ("layer_norm", ROWS, lambda s: (2, s[1]), lambda x, w: F.layer_norm(x, (x.shape[1],), w[0], w[1], 1e-2)),
    ("layer_norm_plain", ROWS, lambda s: s, lambda x, w: F.layer_norm(x * w, (x.shape[1],), eps=1e-2)),
    ("rms_norm", ROWS, lambda s: (s[1],), lambda x, w: row_norm(x) * w),
    ("rms_norm_plain", ROWS, lambda s: s, lambda x, w: row_norm(x + w * w)),
    ("cross_entropy", ROWS, lambda s: s, lambda x, w: F.cross_entropy(x * w, labels(x), reduction="none")),
    ("cross_entropy_ignored", ROWS[:3:2], lambda s: s,
     lambda x, w: F.cross_entropy(x * w, ignored(x), reduction="none")),
    ("cross_entropy_smoothed", ROWS, lambda s: s,
     lambda x, w: F.cross_entropy(x * w, labels(x), reduction="none", label_smoothing=0.25)),
    ("matmul", [(3, 5), (1, 1)], lambda s: (4, s[1]), lambda x, w: x @ w.T),
    ("matmul_batch", [(2, 3, 4)], lambda s: (s[2], 2), lambda x, w: torch.tanh(x @ w)),
    ("attention", [(2, 5, 6), (1, 1, 2)], lambda s: s, attention),
    ("attention_grouped", [(2, 4, 6)], lambda s: s, attention_grouped),
    ("attention_in_scan", [(3, 4, 5)], lambda s: s, attention_in_scan),
    ("mean", ROWS, lambda s: s, lambda x, w: ((x - x.mean(-1, keepdim=True)) * w).mean(0)),
    ("amax", [(3, 5), (2, 9)], lambda s: s, lambda x, w: (x * x * x).amax(-1) * w.sum(-1)),
    ("pow", ROWS, lambda s: s, lambda x, w: (x * x + 0.5) ** w),
    ("roots", ROWS, lambda s: s, lambda x, w: torch.sqrt(x * x + 1) + torch.rsqrt(w * w + 1) + torch.log(x * x + w * w + 1)),
    ("gates", ROWS, lambda s: s, lambda x, w: torch.sigmoid(x * w) * torch.tanh(x) + F.softplus(x) + F.silu(x * w)),
    ("gelu", ROWS, lambda s: s, lambda x, w: F.gelu(x * w) + F.gelu(x + w, approximate="tanh") + torch.erf(x)),
    ("quotient", ROWS, lambda s: s, lambda x, w: x / (w * w + 1) + torch.exp(x) * torch.cos(w)),
    ("kinks", [(3, 5)], lambda s: s,
     lambda x, w: F.leaky_relu(x * x * w, 0.125) + torch.relu(x * w * w) + torch.maximum(x * x, w) + (x * w).abs()),
    ("shapes", [(3, 5), (2, 4)], lambda s: s,
     lambda x, w: torch.cat([x[:, 1:] * w[:, 1:], (x * x).T.reshape(x.shape[0], -1)], 1)),
    ("global_norm", [(3, 5)], lambda s: s, norm),
    ("scan", [(4, 2, 3)], lambda s: (s[2], s[2]), scan),
    ("packed_softmax", [(3, 4, 2)], lambda s: s, packed(lambda x, w: torch.softmax(x * w, 0))),
    ("packed_max", [(3, 4, 2)], lambda s: s, packed(lambda x, w: (x * x * w).amax(0))),
    ("packed_last", [(3, 4, 2)], lambda s: s, packed(lambda x, w: torch.sin(x * w)[-1] * (x * x)[0] + (x * w).sum(0))),
]


def grads(l, of):
    got = torch.autograd.grad(l, of, create_graph=True, allow_unused=True) if l.requires_grad else [None] * len(of)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(of, got)]


table = goldens.Table("tests/make_second_grad_goldens.py")
for name, shapes, of_w, op in CASES:
    for shape in shapes:
        x, w = fill(shape, 7, 3, 11, 0.6875), fill(of_w(shape), 5, 2, 9, 0.4375)
        g, gw = grads(torch.sin(op(x, w)).sum(), [x, w])
        m = (g * g).sum() / 2 + (gw * w).sum()
        dx, dw = grads(m, [x, w])
        key = "_".join([name, "x".join(map(str, x.shape)), "x".join(map(str, w.shape))])
        table.array(key, [m.item(), *dx.reshape(-1).tolist(), *dw.reshape(-1).tolist()])

x = torch.tensor([0.1, -0.5, 0.7, 1.2], dtype=torch.float64, requires_grad=True)
w = torch.tensor([1, 2, -1, 0.5], dtype=torch.float64, requires_grad=True)
(g,) = grads((torch.softmax(x, -1) * w).sum(), [x])
table.array("softmax_again", grads((g * x).sum(), [x])[0].detach())
loss = (torch.log_softmax(x * w, -1) * x * x).sum()
(g,) = grads(loss, [x])
table.array("penalty", grads(loss + ((g * g).sum().sqrt() - 1) ** 2, [w])[0].detach())
table.write("second_grad_goldens")

#!/usr/bin/env python3
"""Writes tests/goldens_mha.h: torch.nn.MultiheadAttention and a tied embedding, with gradients.

    python3 tests/make_mha_goldens.py > tests/goldens_mha.h          (PyTorch 2.13)
"""
import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
B, T, S, E, H = 2, 3, 4, 6, 2


def exact(*shape):
    """Values in [-1, 1), exact in f32."""
    return (torch.rand(shape) * 2 - 1).float().double()


def put(name, x):
    values = ", ".join(repr(v) for v in x.detach().reshape(-1).tolist())
    print(f"static const double {name}[] = {{{values}}};")


print("// Made by tests/make_mha_goldens.py with PyTorch " + torch.__version__.split("+")[0] + "; do not edit.\n// clang-format off")
net = torch.nn.MultiheadAttention(E, H, batch_first=True)
with torch.no_grad():
    for p in net.parameters():
        p.copy_(exact(*p.shape))
names = {"in_proj_weight": "in_w", "in_proj_bias": "in_b", "out_proj.weight": "out_w", "out_proj.bias": "out_b"}
for name, p in net.named_parameters():
    put("mha_" + names[name], p)
x, memory, other, weight = exact(B, T, E), exact(B, S, E), exact(B, S, E), exact(B, T, E)
for name, v in {"x": x, "memory": memory, "other": other, "weight": weight}.items():
    put("mha_" + name, v)
lengths = torch.tensor([4, 2])
padding = torch.arange(S)[None] >= lengths[:, None]
causal = torch.ones(T, T, dtype=torch.bool).triu(1)
calls = {
    "self": lambda: net(x, x, x, need_weights=False),
    "causal": lambda: net(x, x, x, attn_mask=causal, need_weights=False),
    "cross": lambda: net(x, memory, memory, key_padding_mask=padding, need_weights=False),
    "three": lambda: net(x, memory, other, need_weights=False),
}
for what, call in calls.items():
    y = call()[0]
    put(f"mha_{what}_y", y)
    grads = torch.autograd.grad((y * weight).sum(), list(net.parameters()))
    for (name, _), g in zip(net.named_parameters(), grads):
        put(f"mha_{what}_d_{names[name]}", g)

table, index, label = exact(5, 3).requires_grad_(), torch.tensor([1, 4, 1, 0]), torch.tensor([2, 2, 0, 4])
loss = F.cross_entropy(torch.tanh(F.embedding(index, table)) @ table.T, label)
put("tied_table", table)
put("tied_loss", loss)
put("tied_grad", torch.autograd.grad(loss, table)[0])

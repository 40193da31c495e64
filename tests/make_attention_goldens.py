#!/usr/bin/env python3
"""Writes tests/op_tables/attention.txt and .bin: attention as F.scaled_dot_product_attention computes it, as cases of make_goldens.py.

    python3 tests/make_attention_goldens.py          (PyTorch 2.13, NumPy)
"""
import torch
import torch.nn.functional as F

import make_goldens as m
from make_goldens import INF, RUN, SEED, both, case, gradient, ints, rnd, stream

m.cases.clear()


def attend(q, k, v, causal=False, scale=None, length=None):
    """q, k, v [B,H,T,D]. Keys from a sequence's length on are not seen."""
    if length is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    mask = torch.arange(k.shape[2])[None, None, None, :] < length[:, None, None, None]
    if causal:
        mask = mask & torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def apart(name, b, h, tq, tk, d, attrs="", **how):
    ins = {"q": rnd(b, h, tq, d), "k": rnd(b, h, tk, d), "v": rnd(b, h, tk, d)}
    both("sdpa " + name, f"%y, %lse = sdpa %q, %k, %v{attrs}", ins, lambda q, k, v: attend(q, k, v, **how), ["q", "k", "v"])


apart("", 2, 2, 5, 7, 3)
apart("of one", 1, 1, 1, 1, 1)
apart("one query", 2, 3, 1, 19, 5)
apart("causal", 2, 5, 6, 6, 4, " {causal}", causal=True)
apart("causal, more keys", 1, 2, 4, 9, 3, " {causal}", causal=True)
apart("causal, more queries", 1, 2, 9, 4, 3, " {causal}", causal=True)
apart("scaled", 1, 2, 3, 4, 16, " {scale=0.75}", scale=0.75)
apart("scaled below zero", 1, 2, 3, 4, 17, " {scale=-0.25}", scale=-0.25)
apart("wide heads", 1, 8, 2, 3, 37)
apart("several blocks", 1, 1, 70, 150, 2)
apart("several blocks, causal", 1, 1, 70, 70, 2, " {causal}", causal=True)
apart("several blocks and heads, causal", 2, 4, 35, 67, 1, " {causal}", causal=True)

# heads inside time, and packed
ins = {"q": rnd(2, 5, 2, 3), "k": rnd(2, 4, 2, 3), "v": rnd(2, 4, 2, 3)}
both("sdpa heads inside", "%y, %lse = sdpa %q, %k, %v {heads_inside}", ins,
     lambda q, k, v: attend(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2), ["q", "k", "v"])
both("sdpa packed keys and values", "%y, %lse = sdpa %q, %kv", {"q": rnd(2, 3, 2, 5), "kv": rnd(2, 6, 2, 2, 5)},
     lambda q, kv: attend(q.transpose(1, 2), kv[:, :, 0].transpose(1, 2), kv[:, :, 1].transpose(1, 2)).transpose(1, 2),
     ["q", "kv"])


def from_packed(x, **how):
    return attend(*(x[:, :, k].transpose(1, 2) for k in range(3)), **how).transpose(1, 2)


for b, t, h, d in ((2, 6, 2, 4), (3, 33, 3, 1), (1, 3, 2, 18)):
    both(f"sdpa packed {b},{t},{h},{d}", "%y, %lse = sdpa %x {causal}", {"x": rnd(b, t, 3, h, d)},
         lambda x: from_packed(x, causal=True), ["x"])

# lengths
for what, attrs, causal in (("", "", False), (" causal", " {causal}", True)):
    ins = {"x": rnd(3, 5, 3, 2, 3), "n": ints(2, 5, 1)}
    both("sdpa lengths" + what, f"%y, %lse = sdpa %x, lengths=%n{attrs}", ins,
         lambda x, n: from_packed(x, causal=causal, length=n), ["x"])
x, n = rnd(2, 3, 3, 1, 2), ints(0, 2)
case("sdpa nothing seen", "%y, %lse = sdpa %x, lengths=%n", {"x": x, "n": n},
     {"y": torch.cat([torch.zeros(1, 3, 1, 2), from_packed(x[1:], length=n[1:])])})
ins = {"q": rnd(2, 2, 3, 2), "k": rnd(2, 2, 4, 2), "v": rnd(2, 2, 4, 2), "n": ints(4, 3)}
both("sdpa lengths apart", "%y, %lse = sdpa %q, %k, %v, %n", ins,
     lambda q, k, v, n: attend(q, k, v, length=n), ["q", "k", "v"])

# ---- bias, groups of heads, offset, window
def seen(tq, tk, causal, offset, window, length=None):
    at, key = torch.arange(tq)[:, None] + offset, torch.arange(tk)[None, :]
    mask = torch.ones(tq, tk, dtype=torch.bool)
    if causal:
        mask = mask & (key <= at)
    if window:
        mask = mask & (key > at - window) & (key < at + window)
    return mask if length is None else mask & (key < length[:, None, None, None])


def attend_all(q, k, v, bias=None, causal=False, offset=0, window=0, scale=None, length=None):
    """Composed, since rows that see nothing are zeros here and PyTorch's gradients of them are not numbers."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.mT * (scale if scale is not None else q.shape[-1] ** -0.5)
    if bias is not None:
        s = s + bias
    mask = seen(q.shape[2], k.shape[2], causal, int(offset), window, length) & (s > -INF)
    top = torch.where(mask, s, torch.full_like(s, -1e9)).amax(-1, keepdim=True).detach()
    e = torch.where(mask, torch.exp(torch.where(mask, s, top) - top), torch.zeros_like(s))
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, torch.ones_like(total), total) @ v


def options(name, q, k, operands="", attrs="", extra=None, wrt=(), **how):
    """q: b, h, tq, d; k: heads, tk. extra: more operands."""
    (b, h, tq, d), (g, tk) = q, k
    ins = {"q": rnd(b, h, tq, d), "k": rnd(b, g, tk, d), "v": rnd(b, g, tk, d), **(extra or {})}
    both("sdpa " + name, f"%y, %lse = sdpa %q, %k, %v{operands}{attrs}", ins,
         lambda q, k, v, **more: attend_all(q, k, v, **more, **how), ["q", "k", "v", *wrt])


for what, shape in (("", (2, 3, 5, 7)), (" over batch", (1, 3, 5, 7)), (" over batch and heads", (1, 1, 5, 7)), (" over heads", (2, 1, 5, 7)),
                    (" of keys", (2, 1, 1, 7)), (" of queries", (1, 3, 5, 1)), (" of all", (1, 1, 1, 1))):
    options("bias" + what, (2, 3, 5, 3), (3, 7), ", attn_bias=%bias", extra={"bias": rnd(*shape)}, wrt=["bias"])
options("bias, causal, many heads", (2, 5, 9, 2), (5, 9), ", attn_bias=%bias", " {causal, scale=0.5}", extra={"bias": rnd(1, 5, 9, 9)},
        wrt=["bias"], causal=True, scale=0.5)
hidden = rnd(1, 2, 4, 6)
hidden[:, :, :, 2:4] = -INF
hidden[:, 1, 2] = -INF
options("bias that hides keys", (1, 2, 4, 3), (2, 6), ", attn_bias=%bias", extra={"bias": hidden})
options("groups of heads", (2, 6, 5, 3), (2, 7))
options("one head of keys", (2, 4, 5, 3), (1, 7), attrs=" {causal}", causal=True)
options("groups of many heads", (4, 4, 3, 2), (2, 3), attrs=" {causal}", causal=True)
options("groups and a bias", (2, 4, 5, 3), (2, 7), ", attn_bias=%bias", extra={"bias": rnd(1, 4, 5, 7)}, wrt=["bias"])
for offset in (3, -100):
    options(f"offset {offset}", (1, 2, 5, 3), (2, 9), ", offset=%offset", " {causal}", extra={"offset": torch.tensor(offset)}, causal=True)
for offset in (-2, 100):
    options(f"constant offset {offset}", (1, 2, 5, 3), (2, 9), attrs=f" {{causal, offset={offset}}}", causal=True, offset=offset)
for window in (1, 3):
    options(f"window {window}", (1, 2, 9, 3), (2, 11), attrs=f" {{causal, window={window}}}", causal=True, window=window)
for window in (3, 50):
    options(f"window {window} to both sides", (2, 4, 9, 3), (4, 7), attrs=f" {{window={window}}}", window=window)
options("window, offset and a bias", (2, 4, 5, 2), (2, 12), ", attn_bias=%bias, offset=%offset", " {causal, window=4}",
        extra={"bias": rnd(1, 1, 5, 12), "offset": torch.tensor(5)}, wrt=["bias"], causal=True, window=4)
ins = {"q": rnd(2, 5, 4, 3), "k": rnd(2, 4, 2, 3), "v": rnd(2, 4, 2, 3)}
both("sdpa groups inside", "%y, %lse = sdpa %q, %k, %v {heads_inside}", ins,
     lambda q, k, v: attend_all(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2), ["q", "k", "v"])
both("sdpa groups, packed keys and values", "%y, %lse = sdpa %q, %kv", {"q": rnd(2, 3, 6, 5), "kv": rnd(2, 6, 2, 2, 5)},
     lambda q, kv: attend_all(q.transpose(1, 2), kv[:, :, 0].transpose(1, 2), kv[:, :, 1].transpose(1, 2)).transpose(1, 2),
     ["q", "kv"])
ins = {"q": rnd(3, 2, 4, 2), "k": rnd(3, 2, 6, 2), "v": rnd(3, 2, 6, 2), "n": ints(6, 3, 1), "bias": rnd(3, 1, 4, 6)}
both("sdpa lengths, offset and a bias", "%y, %lse = sdpa %q, %k, %v, lengths=%n, attn_bias=%bias {causal, offset=1}", ins,
     lambda q, k, v, n, bias: attend_all(q, k, v, bias, True, 1, length=n), ["q", "k", "v", "bias"])

# named dims
dims = [("batch", 4, 2), ("time", 9, 5), ("steps", 40, 7)]
both("sdpa over named dims", "%y, %lse = sdpa %q, %k, %v", {"q": rnd(2, 2, 5, 3), "k": rnd(2, 2, 7, 3), "v": rnd(2, 2, 7, 3)},
     lambda q, k, v: attend(q, k, v), ["q", "k", "v"], dims=dims,
     shapes={"q": "[batch,2,time,3]", "k": "[batch,2,steps,3]", "v": "[batch,2,steps,3]"}, y_shape="[batch,2,time,3]")
both("sdpa packed over named dims", "%y, %lse = sdpa %x {causal}", {"x": rnd(2, 5, 3, 2, 3)}, lambda x: from_packed(x, causal=True),
     ["x"], dims=dims[:2], shapes={"x": "[batch,time,3,2,3]"}, y_shape="[batch,time,2,3]")

# dropout: on the probabilities, by element of [B,H,Tq,Tk]
q, k, v, weight = rnd(2, 2, 3, 2), rnd(2, 2, 5, 2), rnd(2, 2, 5, 2), rnd(2, 2, 3, 2)
kept = torch.tensor([float((x[0] >> 8) * 2.0**-24 >= 0.25) for x in stream(60, 4)]).reshape(2, 2, 3, 5) / 0.75
leaves = [x.clone().requires_grad_() for x in (q, k, v)]
y = (torch.softmax(leaves[0] @ leaves[1].mT / 2**0.5, -1) * kept) @ leaves[2]
loss = (y * weight).sum()
grads = torch.autograd.grad(loss, leaves)
case("sdpa dropout", """%y, %lse = sdpa %q, %k, %v {p=0.25, id=4}
     %weighted = mul %y, %weight
     %loss = sum %weighted {axes=[0,1,2,3]}
     %d_q = grad_of %loss, %q
     %d_k = grad_of %loss, %k
     %d_v = grad_of %loss, %v""", {"q": q, "k": k, "v": v, "weight": weight},
     {"loss": loss.detach(), **dict(zip(("d_q", "d_k", "d_v"), grads)), "y": y.detach()}, seed=SEED, counter=RUN,
     grad_of=["q", "k", "v"])

if __name__ == "__main__":
    m.main("attention", "tests/make_attention_goldens.py")

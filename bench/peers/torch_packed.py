"""packed_attention in PyTorch: see bench/packed_attention.c. $TENURE_PEER_FORM is how it has the sequences: a loop over them,
a batch padded to the longest with a mask, or nested tensors with the layout jagged."""
import os
import sys
import warnings

import torch
import torch.nn.functional as F

from peer import checksum, floats, lengths_of, serve
import torch_peer  # sets the threads

warnings.filterwarnings("ignore")  # nested tensors are a prototype
FORM = os.environ.get("TENURE_PEER_FORM", "loop")
HEADS, SIZE = 8, 64


def sequences(n, seed):
    """[heads, steps, size] of each, contiguous."""
    rows = torch.from_numpy(floats(sum(n) * HEADS * SIZE, -2, 2, seed)).reshape(-1, HEADS, SIZE)
    return [x.transpose(0, 1).contiguous() for x in rows.split(n)]


class Loop:
    def __init__(self, n, causal):
        self.causal = causal
        self.q, self.k, self.v, self.g = ([x.unsqueeze(0) for x in sequences(n, seed)] for seed in (1, 2, 3, 4))

    def leaves(self):
        return [*self.q, *self.k, *self.v]

    def forward(self):
        return [F.scaled_dot_product_attention(q, k, v, is_causal=self.causal) for q, k, v in zip(self.q, self.k, self.v)]

    def backward(self, y):
        return torch.autograd.grad(y, self.leaves(), self.g)

    def rows(self, x):
        return [y.squeeze(0).transpose(0, 1) for y in x]

    def parts(self, grads):
        n = len(self.q)
        return [self.rows(grads[k : k + n]) for k in (0, n, 2 * n)]


class Padded:
    def __init__(self, n, causal):
        self.n = n
        most, steps = max(n), torch.arange(max(n))
        self.mask = (steps < torch.tensor(n)[:, None])[:, None, None, :]
        if causal:
            self.mask = self.mask & (steps <= steps[:, None])
        pad = lambda seed: torch.stack([F.pad(x, (0, 0, 0, most - x.shape[1])) for x in sequences(n, seed)])
        self.q, self.k, self.v, self.g = (pad(seed) for seed in (1, 2, 3, 4))

    def leaves(self):
        return [self.q, self.k, self.v]

    def forward(self):
        return F.scaled_dot_product_attention(self.q, self.k, self.v, attn_mask=self.mask)

    def backward(self, y):
        return torch.autograd.grad(y, self.leaves(), self.g)

    def rows(self, x):
        return [y[:, :n].transpose(0, 1) for y, n in zip(x, self.n)]

    def parts(self, grads):
        return [self.rows(g) for g in grads]


class Nested:
    def __init__(self, n, causal):
        self.causal = causal
        offsets = torch.tensor([0, *torch.tensor(n).cumsum(0).tolist()])
        nest = lambda seed: torch.nested.nested_tensor_from_jagged(
            torch.cat([x.transpose(0, 1) for x in sequences(n, seed)]), offsets
        )
        self.q, self.k, self.v, self.g = (nest(seed) for seed in (1, 2, 3, 4))

    def leaves(self):
        return [self.q, self.k, self.v]

    def forward(self):
        q, k, v = (x.transpose(1, 2) for x in self.leaves())
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2)

    def backward(self, y):
        return torch.autograd.grad(y, self.leaves(), self.g)

    def rows(self, x):
        return list(x.unbind())

    def parts(self, grads):
        return [self.rows(g) for g in grads]


def main():
    state = {}

    def case(kind, what, order=""):
        n, trains = lengths_of(kind), what == "training"
        state["cannot"] = FORM == "nested" and (kind == "long" or order == "causal")  # no kernel, or no memory
        if state["cannot"]:
            return
        form = {"loop": Loop, "padded": Padded, "nested": Nested}[FORM](n, order == "causal")
        for x in form.leaves():
            x.requires_grad_(trains)

        def step():
            y = form.forward()
            return form.backward(y) if trains else y

        state["step"], state["parts"] = step, form.parts if trains else lambda y: [form.rows(y)]

    def check():
        try:
            results = None if state["cannot"] else state["parts"](state["step"]())
        except (RuntimeError, NotImplementedError):
            results = None
        state["cannot"] = results is None
        return None if results is None else sum(checksum(torch.cat(rows).detach().numpy()) for rows in results)

    serve(check, lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

"""ops in PyTorch: see bench/ops.c."""
import sys

import torch
from torch.nn.functional import embedding_bag

from peer import checksum, floats, integers, serve
from torch_peer import maybe_compiled


def numbers(*dims):
    return torch.from_numpy(floats(torch.Size(dims).numel(), -2, 2, 1)).reshape(dims)


def indices(bound, *dims):
    return torch.from_numpy(integers(torch.Size(dims).numel(), bound, 7)).reshape(dims)


def bag(mode, rows, width, bags, length):
    table, index = numbers(rows, width), indices(rows, bags, length)
    return lambda: embedding_bag(index, table, mode=mode)


def einsum(heads, time, width):
    q, k = numbers(time, heads, width), numbers(time, heads, width)
    return lambda: torch.einsum("ihd,jhd->hij", q, k).contiguous()


DTYPES = {"i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}


def reduction(op, dtype, a, b, axis):
    x, call = indices(2 if dtype == "bool" else 100, a, b).to(DTYPES[dtype]), getattr(torch, op)
    return lambda: call(x, axis)


def along(op, a, b, axis):
    name, _, dtype = op.rpartition("_")
    if dtype in DTYPES:
        return reduction(name, dtype, a, b, axis)
    x, n = numbers(a, b), (a, b)[axis]
    if op == "sort":
        return lambda: torch.sort(x, dim=axis, stable=True).values
    if op.startswith("topk"):
        k = int(op[4:])
        return lambda: torch.topk(x, k, axis).values
    if op == "cumsum":
        return lambda: torch.cumsum(x, axis)
    index = indices(n, n) if op.startswith("index_") else indices(n, a, b)
    if op in ("gather", "index_select"):
        return lambda: getattr(torch, op)(x, axis, index)
    return lambda: getattr(torch, op)(torch.zeros(a, b), axis, index, x)


def main():
    state = {}

    def case(op, *sizes):
        sizes = [int(s) for s in sizes]
        if op.startswith("bag_"):
            compute = bag(op[4:], *sizes)
        elif op == "einsum":
            compute = einsum(*sizes)
        else:
            compute = along(op, *sizes)
        state["compute"] = maybe_compiled(compute, sys.argv[4])

    with torch.inference_mode():
        serve(lambda: checksum(state["compute"]().float().numpy()), lambda: state["compute"](), 1, case)


if __name__ == "__main__":
    main()

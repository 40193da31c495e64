"""lstm256, transformer4 shared by processes of one thread each: PyTorch's DistributedDataParallel over gloo. See bench/ddp.py.

    torch_ddp.py

Reads lines WORKLOAD WEIGHTS RANKS STEPS, and for each starts as many processes, by fork: importing PyTorch takes longer than all steps. Prints
as tenure_ddp does: the third loss; ms of a step, the least and the median; ms of it that synchronising takes, which is the
median less that of steps without it (no_sync).
"""
import os
import statistics
import sys
import time

os.environ["TENURE_PEER_THREADS"] = "1"
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import torch_recurrent as recurrent
import torch_transformer as transformer
from peer import integers, layers_of, read_weights
from torch_peer import load


def lstm256(weights, part):
    net = recurrent.Net(torch.nn.LSTM, 256, False)
    load(net, weights)
    x = torch.from_numpy(integers(recurrent.BATCH * recurrent.TIME, recurrent.WORDS, 1)).reshape(recurrent.BATCH, -1)
    y, lengths = torch.from_numpy(integers(recurrent.BATCH, recurrent.CLASSES, 2)), torch.tensor(recurrent.LENGTHS)
    rows = part(recurrent.BATCH)
    x, y, lengths = x[rows], y[rows], lengths[rows]
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    return net, optimizer, lambda forward: F.cross_entropy(forward(x, lengths), y)


def transformer4(weights, part):
    net = transformer.Gpt(layers_of(read_weights(weights)), transformer.TIME)
    load(net, weights, tied="head.weight")
    shape = (transformer.BATCH, transformer.TIME)
    rows = part(transformer.BATCH)
    x, y = (torch.from_numpy(integers(shape[0] * shape[1], transformer.WORDS, k)).reshape(shape)[rows] for k in (1, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
    return net, optimizer, lambda forward: F.cross_entropy(forward(x).view(-1, transformer.WORDS), y.reshape(-1))


def timed(step, n):
    ms = []
    for _ in range(n):
        start = time.perf_counter()
        step()
        ms.append(1e3 * (time.perf_counter() - start))
    return ms


def run(rank, weights, workload, ranks, steps):
    torch.set_num_threads(1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    make = {"lstm256": lstm256, "transformer4": transformer4}[workload]
    net, optimizer, loss_of = make(weights, lambda n: slice(rank * n // ranks, (rank + 1) * n // ranks))
    shared = DistributedDataParallel(net)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(shared)
        loss.backward()
        optimizer.step()
        return loss

    def step_alone():
        with shared.no_sync():
            return step()

    step(), step()
    loss = step().detach()
    dist.all_reduce(loss)
    ms, alone = timed(step, steps), timed(step_alone, steps)
    if rank == 0:
        middle = statistics.median(ms)
        print(f"{loss.item() / ranks:.9g} {min(ms):.4f} {middle:.4f} {max(0.0, middle - statistics.median(alone)):.4f} 0 0", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    for number, line in enumerate(sys.stdin):
        workload, weights, ranks, steps = line.split()
        os.environ["MASTER_PORT"] = str(20000 + (os.getpid() + number) % 20000)
        mp.start_processes(run, (weights, workload, int(ranks), int(steps)), int(ranks), start_method="fork")

"""sparse in PyTorch, with sparse gradients: see bench/sparse.c."""
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from peer import floats, integers, serve
from torch_peer import maybe_compiled

TABLES, BAGS, LENGTH, FEATURES, WORDS, OTHERS, WIDE, SETS = 8, 512, 20, 64, 1024, 6, 128, 4
OPTIMIZERS = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.SparseAdam}


def table(rows, width, k):
    return nn.Parameter(torch.from_numpy(floats(rows * width, -1, 1, 1 + k)).reshape(rows, width))


def bags_loss(mode):
    def loss(tables, index):
        bags = [F.embedding_bag(i, t, mode=mode, sparse=True) for t, i in zip(tables, index)]
        return torch.cat(bags, 1).square().sum() / BAGS

    return loss


def words_loss(tables, index):
    word, others = (F.embedding(i, t, sparse=True) for t, i in zip(tables, index))
    near = (word * others).sum(2)
    return -(F.logsigmoid(near[:, :1]).sum() + F.logsigmoid(-near[:, 1:]).sum())


def main():
    warnings.filterwarnings("ignore")
    state = {}

    def case(model, optimizer, rows):
        rows, words = int(rows), model == "words"
        shapes = [(WORDS, 1), (WORDS, OTHERS)] if words else [(BAGS, LENGTH)] * TABLES
        tables = [table(rows, WIDE if words else FEATURES, k) for k in range(len(shapes))]
        sets = [
            [torch.from_numpy(integers(n * m, rows, 100 + s * TABLES + k)).reshape(n, m) for k, (n, m) in enumerate(shapes)]
            for s in range(SETS)
        ]
        loss_of = maybe_compiled(words_loss if words else bags_loss("mean" if model == "means" else "sum"), sys.argv[4])
        update = OPTIMIZERS[optimizer](tables, lr=0.01)
        state["at"] = 0

        def step():
            update.zero_grad(set_to_none=True)
            loss = loss_of(tables, sets[state["at"] % SETS])
            state["at"] += 1
            loss.backward()
            update.step()
            return loss

        state["step"] = step

    def check():
        state["at"] = 0
        return [state["step"]() for _ in range(SETS + 1)][-1].item()

    serve(check, lambda: state["step"](), 1, case)


if __name__ == "__main__":
    main()

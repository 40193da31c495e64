"""lstm256 lstm256_rows lstm64 gru256 bilstm256 in PyTorch: see bench/recurrent.c."""
import sys

import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from peer import integers, serve
from torch_peer import again_of, load, maybe_compiled, third_loss, trainer

LENGTHS = [97, 85, 81, 80, 78, 76, 74, 73, 65, 65, 62, 57, 57, 55, 55, 55, 52, 51, 42, 38, 36, 35, 34, 18, 17, 16, 16, 15, 13, 11, 10, 5]
BATCH, TIME, WORDS, CLASSES = 32, 97, 5000, 5


class Net(torch.nn.Module):
    def __init__(self, kind, size, both_ways):
        super().__init__()
        self.e = torch.nn.Embedding(WORDS, size)
        self.r = kind(size, size, 2, bidirectional=both_ways)
        self.o = torch.nn.Linear(size * (1 + both_ways), CLASSES)
        self.ways = 1 + both_ways

    def forward(self, x, lengths):
        ids = pack_padded_sequence(x, lengths, batch_first=True)
        _, h = self.r(PackedSequence(self.e(ids.data), ids.batch_sizes, ids.sorted_indices, ids.unsorted_indices))
        h = h[0] if isinstance(h, tuple) else h
        return self.o(torch.cat([h[-2], h[-1]], 1) if self.ways == 2 else h[-1])


def main():
    _, weights, workload, peer = sys.argv[1:]
    net = Net(torch.nn.GRU if "gru" in workload else torch.nn.LSTM, 64 if "64" in workload else 256, "bi" in workload)
    load(net, weights)
    x = torch.from_numpy(integers(BATCH * TIME, WORDS, 1)).reshape(BATCH, TIME)
    y, lengths = torch.from_numpy(integers(BATCH, CLASSES, 2)), torch.tensor(LENGTHS)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    forward = maybe_compiled(net, peer)
    step = trainer(optimizer, lambda: torch.nn.functional.cross_entropy(forward(x, lengths), y))
    serve(third_loss(step), step, again=again_of(peer))


if __name__ == "__main__":
    main()

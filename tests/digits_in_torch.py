#!/usr/bin/env python3
"""The model, folds and training of examples/digits.c in PyTorch: prints the accuracy of each fold and their mean.

    python3 tests/digits_in_torch.py [EPOCHS [SEED]]          (PyTorch 2.13, NumPy; 30 epochs, seed 0)

Initial values and the order of images are PyTorch's own.
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIDE, FOLDS = 32, 8, 5


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity() if inputs == outputs else conv(inputs, outputs, 1, stride)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.downsample(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = conv(1, 16, 3), nn.BatchNorm2d(16), nn.Linear(32, 10)
        self.layer1, self.layer2 = Block(16, 16, 1), Block(16, 32, 2)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(F.relu(self.bn(self.conv(x))))).mean((2, 3)))


def shifted(x):
    """Each image moved by up to one pixel along both axes."""
    padded = F.pad(x, (1, 1, 1, 1))
    at = torch.randint(0, 3, (len(x), 2)).tolist()
    return torch.stack([padded[k, :, i : i + SIDE, j : j + SIDE] for k, (i, j) in enumerate(at)])


def accuracy(x, y, fold, epochs, seed):
    torch.manual_seed(fold + FOLDS * seed)
    held_out = torch.arange(len(x)) % FOLDS == fold
    train_x, train_y, net = x[~held_out], y[~held_out], Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    steps = epochs * -(-len(train_x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(train_x)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(net(shifted(train_x[chosen])), train_y[chosen]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return (net.eval()(x[held_out]).argmax(1) == y[held_out]).double().mean().item()


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    table = np.loadtxt(os.path.join(root, "data", "digits", "digits.csv"), delimiter=",")
    x = torch.from_numpy(table[:, :64] / 16).float().reshape(-1, 1, SIDE, SIDE)
    y = torch.from_numpy(table[:, 64]).long()
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found = []
    for fold in range(FOLDS):
        found.append(accuracy(x, y, fold, epochs, seed))
        print(f"fold {fold}: accuracy {found[-1]:.4f}", flush=True)
    print(f"mean accuracy {sum(found) / FOLDS:.4f}")


if __name__ == "__main__":
    main()

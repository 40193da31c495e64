"""resnet20, resnet50_training, resnet50 in PyTorch, in both layouts: see bench/resnet.c. The networks have torchvision's names."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import checksum, floats, integers, serve
from torch_peer import IS_CHANNELS_FIRST, again_of, in_layout, load, maybe_compiled, run_layer, third_loss, trainer

# depth: first convolution small, blocks with a neck, blocks of each layer; as examples/resnet/model.c
TABLE = {20: (True, False, 16, (3, 3, 3)), 18: (False, False, 64, (2, 2, 2, 2)), 50: (False, True, 64, (3, 4, 6, 3))}


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, width, stride, has_neck):
        super().__init__()
        outputs = 4 * width if has_neck else width
        self.conv1, self.bn1 = (conv(inputs, width, 1) if has_neck else conv(inputs, width, 3, stride)), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride if has_neck else 1), nn.BatchNorm2d(width)
        if has_neck:
            self.conv3, self.bn3 = conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        self.has_neck, self.downsample = has_neck, None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.has_neck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class Resnet(nn.Module):
    def __init__(self, depth, classes):
        super().__init__()
        self.is_small, has_neck, width, blocks = TABLE[depth]
        self.conv1, self.bn1 = conv(3, width, 3 if self.is_small else 7, 1 if self.is_small else 2), nn.BatchNorm2d(width)
        inputs, self.layers, self.again = width, [], False
        for k, n in enumerate(blocks):
            layer = []
            for i in range(n):
                layer.append(Block(inputs, width, 2 if k and not i else 1, has_neck))
                inputs = 4 * width if has_neck else width
            self.add_module(f"layer{k + 1}", nn.Sequential(*layer))
            self.layers.append(f"layer{k + 1}")
            width *= 2
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.is_small:
            x = F.max_pool2d(x, 3, 2, 1)
        for name in self.layers:
            for block in getattr(self, name):
                x = run_layer(block, self.again, x)
        return self.fc(x.mean((2, 3)))


def images(n, side):
    return in_layout(torch.from_numpy(floats(n * 3 * side * side, -1, 1, 1)).reshape(n, 3, side, side))


def training(net, peer, batch, side, classes):
    x, y = images(batch, side), torch.from_numpy(integers(batch, classes, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=True)
    forward = maybe_compiled(net, peer)
    step = trainer(optimizer, lambda: F.cross_entropy(forward(x), y))
    serve(third_loss(step), step, again=again_of(peer, net))


def forward(net, peer):
    x, net = images(4, 224), net.eval()
    run = maybe_compiled(net, peer)
    with torch.inference_mode():
        serve(lambda: checksum(run(x).numpy()), lambda: run(x))


def main():
    _, weights, workload, peer = sys.argv[1:]
    depth, batch, side, classes = (20, 64, 32, 10) if workload == "resnet20" else (50, 4, 224, 1000)
    net = Resnet(depth, classes)
    load(net, weights)
    if not IS_CHANNELS_FIRST:
        net = net.to(memory_format=torch.channels_last)
    if workload == "resnet50":
        forward(net, peer)
    else:
        training(net, peer, batch, side, classes)


if __name__ == "__main__":
    main()

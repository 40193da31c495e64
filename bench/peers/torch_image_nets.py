"""mobilenet, efficientnet, convnext in PyTorch, in both layouts: see bench/image_nets.c, which has the same names."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import floats, integers, serve
from torch_peer import IS_CHANNELS_FIRST, again_of, in_layout, load, maybe_compiled, run_layer, third_loss, trainer

SIDE, CLASSES = 224, 1000
BATCHES = {"mobilenet": 8, "efficientnet": 8, "convnext": 2}
# by stage: times as wide in the middle, kernel, stride, channels, blocks
STAGES = {
    "mobilenet": ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 3, 2, 32, 3), (6, 3, 2, 64, 4), (6, 3, 1, 96, 3), (6, 3, 2, 160, 3), (6, 3, 1, 320, 1)),
    "efficientnet": ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)),
}
STEM, HEAD = 32, 1280


def layer(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    )


class MobileBlock(nn.Module):
    def __init__(self, inputs, expand, kernel, stride, outputs, act, squeezes):
        super().__init__()
        wide = inputs * expand
        self.expand = layer(inputs, wide, 1) if expand > 1 else None
        self.depthwise = layer(wide, wide, kernel, stride, wide)
        if squeezes:
            self.squeeze, self.excite = nn.Conv2d(wide, inputs // 4, 1), nn.Conv2d(inputs // 4, wide, 1)
        self.project, self.act, self.squeezes = layer(wide, outputs, 1), act, squeezes
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.act(self.expand(x)) if self.expand else x
        y = self.act(self.depthwise(y))
        if self.squeezes:
            y = y * torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        y = self.project(y)
        return x + y if self.adds else y


class Mobile(nn.Module):
    def __init__(self, stages, squeezes):
        super().__init__()
        act = F.silu if squeezes else F.relu6
        inputs, blocks, self.again, self.act = STEM, [], False, act
        self.stem = layer(3, STEM, 3, 2)
        for expand, kernel, stride, outputs, n in stages:
            for i in range(n):
                blocks.append(MobileBlock(inputs, expand, kernel, 1 if i else stride, outputs, act, squeezes))
                inputs = outputs
        self.blocks, self.head, self.fc = nn.ModuleList(blocks), layer(inputs, HEAD, 1), nn.Linear(HEAD, CLASSES)

    def forward(self, x):
        x = self.act(self.stem(x))
        for block in self.blocks:
            x = run_layer(block, self.again, x)
        return self.fc(self.act(self.head(x)).mean((2, 3)))


def rows_of(image):
    return image.permute(0, 2, 3, 1)


def image_of(rows):
    return rows.permute(0, 3, 1, 2)


class NextBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.wide, self.narrow = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.empty(channels))

    def forward(self, x):
        y = self.norm(rows_of(self.depthwise(x)))
        return x + image_of(self.narrow(F.gelu(self.wide(y))) * self.scale)


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(inputs, eps=1e-6), nn.Conv2d(inputs, outputs, 2, 2)

    def forward(self, x):
        return self.conv(image_of(self.norm(rows_of(x))))


class ConvNext(nn.Module):
    DEPTHS, CHANNELS = (3, 3, 9, 3), (96, 192, 384, 768)

    def __init__(self):
        super().__init__()
        c = self.CHANNELS
        self.stem, self.stem_norm = nn.Conv2d(3, c[0], 4, 4), nn.LayerNorm(c[0], eps=1e-6)
        self.downs = nn.ModuleList(Down(c[k], c[k + 1]) for k in range(3))
        self.blocks = nn.ModuleList(NextBlock(c[k]) for k in range(4) for _ in range(self.DEPTHS[k]))
        self.norm, self.fc, self.again = nn.LayerNorm(c[3], eps=1e-6), nn.Linear(c[3], CLASSES), False

    def forward(self, x):
        x, first = image_of(self.stem_norm(rows_of(self.stem(x)))), 0
        for k, depth in enumerate(self.DEPTHS):
            x = self.downs[k - 1](x) if k else x
            for block in self.blocks[first : first + depth]:
                x = run_layer(block, self.again, x)
            first += depth
        return self.fc(self.norm(x.mean((2, 3))))


def main():
    _, weights, workload, peer = sys.argv[1:]
    net = ConvNext() if workload == "convnext" else Mobile(STAGES[workload], workload == "efficientnet")
    load(net, weights)
    if not IS_CHANNELS_FIRST:
        net = net.to(memory_format=torch.channels_last)
    batch = BATCHES[workload]
    x = in_layout(torch.from_numpy(floats(batch * 3 * SIDE * SIDE, -1, 1, 1)).reshape(batch, 3, SIDE, SIDE))
    y = torch.from_numpy(integers(batch, CLASSES, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4, foreach=True)
    forward = maybe_compiled(net, peer)
    step = trainer(optimizer, lambda: F.cross_entropy(forward(x), y))
    serve(third_loss(step), step, again=again_of(peer, net))


if __name__ == "__main__":
    main()

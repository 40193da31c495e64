"""Blocks of known networks: see bench/blocks.c, which has the same names."""
import torch
import torch.nn.functional as F
from torch import nn


def layer(inputs, outputs, kernel=1, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    )


class Inverted(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand, self.depthwise = layer(24, 144), layer(144, 144, 5, groups=144)
        self.squeeze, self.excite = nn.Conv2d(144, 36, 1), nn.Conv2d(36, 144, 1)
        self.project = layer(144, 24)

    def forward(self, x):
        y = F.hardswish(self.depthwise(F.hardswish(self.expand(x))))
        y = y * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.project(y)


class DenseLayer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(F.relu(self.norm1(x)))
        return torch.cat((x, self.conv2(F.relu(self.norm2(y)))), 1)


def Dense():
    return nn.Sequential(*(DenseLayer(64 + 32 * k, 32) for k in range(3)))


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.depthwise, self.last = layer(58, 58), layer(58, 58, 3, groups=58), layer(58, 58)

    def forward(self, x):
        left, right = x.chunk(2, 1)
        y = F.relu(self.last(self.depthwise(F.relu(self.first(right)))))
        return torch.stack((left, y), 2).flatten(1, 2)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.first, self.last = nn.ConvTranspose2d(128, 64, 2, 2), layer(128, 64, 3), layer(64, 64, 3)

    def forward(self, x, other):
        return F.relu(self.last(F.relu(self.first(torch.cat((other, self.up(x)), 1)))))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.three0, self.three1 = layer(192, 64), layer(192, 96), layer(96, 128, 3)
        self.five0, self.five1, self.pool = layer(192, 16), layer(16, 32, 5), layer(192, 32)

    def forward(self, x):
        ways = (
            self.one(x),
            self.three1(F.relu(self.three0(x))),
            self.five1(F.relu(self.five0(x))),
            self.pool(F.max_pool2d(x, 3, 1, 1)),
        )
        return torch.cat([F.relu(y) for y in ways], 1)


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = layer(256, 128), layer(128, 128, 3, groups=32), layer(128, 256)

    def forward(self, x):
        return F.relu(x + self.last(F.relu(self.middle(F.relu(self.first(x))))))


class Next(nn.Module):
    def __init__(self):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(96, 96, 7, padding=3, groups=96), nn.LayerNorm(96)
        self.wide, self.narrow = nn.Linear(96, 384), nn.Linear(384, 96)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(256), nn.LayerNorm(256)
        self.patches1, self.patches2 = nn.Linear(196, 128), nn.Linear(128, 196)
        self.channels1, self.channels2 = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        x = x + self.patches2(F.gelu(self.patches1(self.norm1(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.channels2(F.gelu(self.channels1(self.norm2(x))))


class Windows(nn.Module):
    SIDE, WIDE, HEADS, WINDOW = 28, 96, 3, 7

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(self.WIDE), nn.Linear(self.WIDE, 3 * self.WIDE), nn.Linear(self.WIDE, self.WIDE)

    def forward(self, x):
        n, windows, pixels = x.shape[0], self.SIDE // self.WINDOW, self.WINDOW**2
        y = torch.roll(self.norm(x).reshape(n, self.SIDE, self.SIDE, self.WIDE), (-3, -3), (1, 2))
        y = y.reshape(n, windows, self.WINDOW, windows, self.WINDOW, self.WIDE).permute(0, 1, 3, 2, 4, 5).reshape(-1, pixels, self.WIDE)
        q, k, v = self.qkv(y).reshape(-1, pixels, 3, self.HEADS, self.WIDE // self.HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, pixels, self.WIDE)
        y = self.out(y).reshape(n, windows, windows, self.WINDOW, self.WINDOW, self.WIDE).permute(0, 1, 3, 2, 4, 5)
        y = torch.roll(y.reshape(n, self.SIDE, self.SIDE, self.WIDE), (3, 3), (1, 2))
        return x + y.reshape(x.shape)


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.step = nn.GroupNorm(16, 64), nn.GroupNorm(16, 64), nn.Linear(128, 64)
        self.conv1, self.conv2 = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x, other):
        y = self.conv1(F.silu(self.norm1(x))) + self.step(F.silu(other))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(y)))


class Pixels(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(16, 64), nn.Conv2d(64, 192, 1), nn.Conv2d(64, 64, 1)

    def forward(self, x):
        q, k, v = (part.transpose(1, 2) for part in self.qkv(self.norm(x)).flatten(2).chunk(3, 1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = layer(3, 64, 7, 2)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.first(x)), 3, 2, 1)


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.out = nn.Conv1d(64, 128, 2, dilation=8, padding=4), nn.Conv1d(64, 64, 1)

    def forward(self, x):
        a, b = self.gate(x).chunk(2, 1)
        return x + self.out(torch.tanh(a) * torch.sigmoid(b))


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide = nn.LayerNorm(144), nn.Conv1d(144, 288, 1)
        self.depthwise, self.middle = nn.Conv1d(144, 144, 31, padding=15, groups=144), nn.BatchNorm1d(144)
        self.out = nn.Conv1d(144, 144, 1)

    def forward(self, x):
        y = F.glu(self.wide(self.norm(x).transpose(1, 2)), 1)
        return x + self.out(F.silu(self.middle(self.depthwise(y)))).transpose(1, 2)

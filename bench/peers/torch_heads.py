"""Blocks of transformers: see bench/heads.c, which has the same names."""
import torch
import torch.nn.functional as F
from torch import nn


def split(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class Gpt(nn.Module):
    def __init__(self, wide, heads):
        super().__init__()
        self.wide, self.heads = wide, heads
        self.ln_1, self.c_attn, self.c_proj = nn.LayerNorm(wide), nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.ln_2, self.c_fc, self.c_out = nn.LayerNorm(wide), nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x):
        q, k, v = (split(part, self.heads) for part in self.c_attn(self.ln_1(x)).split(self.wide, 2))
        x = x + self.c_proj(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


def turned(x, cosine, sine):
    a, b = x.chunk(2, -1)
    return x * cosine + torch.cat((-b, a), -1) * sine


class Llama(nn.Module):
    def __init__(self, wide, heads, kv_heads, inner, most=1024):
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, wide // heads
        kv = size * kv_heads
        self.norm1, self.norm2 = nn.RMSNorm(wide, 1e-6), nn.RMSNorm(wide, 1e-6)
        self.q, self.k, self.v = nn.Linear(wide, wide, False), nn.Linear(wide, kv, False), nn.Linear(wide, kv, False)
        self.o = nn.Linear(wide, wide, False)
        self.gate, self.up, self.down = nn.Linear(wide, inner, False), nn.Linear(wide, inner, False), nn.Linear(inner, wide, False)
        w = torch.arange(most, dtype=torch.float64)[:, None] * 10000 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        w = torch.cat((w, w), -1)
        self.register_buffer("cosine", w.cos().float(), persistent=False)
        self.register_buffer("sine", w.sin().float(), persistent=False)

    def forward(self, x):
        y, n = self.norm1(x), x.shape[1]
        q, k, v = split(self.q(y), self.heads), split(self.k(y), self.kv_heads), split(self.v(y), self.kv_heads)
        q, k = (turned(part, self.cosine[:n], self.sine[:n]) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.o(merge(y))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Vit(nn.Module):
    def __init__(self, wide, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.proj = nn.LayerNorm(wide), nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(wide), nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x):
        n, steps, wide = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, steps, 3, self.heads, wide // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.proj(merge(F.scaled_dot_product_attention(q, k, v)))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Swin(nn.Module):
    def __init__(self, wide, heads, side):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.table = nn.Parameter(torch.zeros((2 * side - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None] + side - 1
        self.register_buffer("index", apart[0] * (2 * side - 1) + apart[1], persistent=False)

    def forward(self, x):
        n, pixels, wide = x.shape
        bias = self.table[self.index.view(-1)].view(pixels, pixels, self.heads).permute(2, 0, 1).contiguous().unsqueeze(0)
        q, k, v = self.qkv(x).reshape(n, pixels, 3, self.heads, wide // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=bias)))


class Cross(nn.Module):
    def __init__(self, wide, heads, of_memory):
        super().__init__()
        self.heads, self.q, self.o = heads, nn.Linear(wide, wide, False), nn.Linear(wide, wide)
        self.k, self.v = nn.Linear(of_memory, wide, False), nn.Linear(of_memory, wide, False)

    def forward(self, x, memory):
        q, k, v = split(self.q(x), self.heads), split(self.k(memory), self.heads), split(self.v(memory), self.heads)
        return self.o(merge(F.scaled_dot_product_attention(q, k, v)))

    def step(self, x, k, v):
        q = split(self.q(x), self.heads)
        k, v = torch.cat((k, split(self.k(x), self.heads)), 2), torch.cat((v, split(self.v(x), self.heads)), 2)
        return self.o(merge(F.scaled_dot_product_attention(q, k, v)))

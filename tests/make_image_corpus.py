#!/usr/bin/env python3
"""Writes tests/corpus/image and tests/goldens_images.h: small PNG and JPEG files, and what they are as numbers.

    python3 tests/make_image_corpus.py          (NumPy, Pillow 12, PyTorch 2.13)

Decoded by Pillow, resized by PyTorch (bilinear, antialias). How JPEG is decoded is free by one or two of 255.
"""
import io
import os
import struct
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

root = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(root, "corpus", "image")
os.makedirs(folder, exist_ok=True)


def put(name, data):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)
    return data


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, color, depth, rows):
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


y, x = np.mgrid[0:12, 0:17]
smooth = np.stack([10 + 12 * x, 20 * y, 250 - 5 * x - 9 * y], -1).astype("u1")
color = Image.fromarray(((np.arange(5 * 4 * 3) * 37) % 256).astype("u1").reshape(4, 5, 3))
gray = Image.fromarray((np.arange(12 * 17) % 251).astype("u1").reshape(12, 17))
clear = np.dstack([np.array(color), np.where(np.arange(20) % 3, 255, 0).reshape(4, 5)]).astype("u1")

rgb = put("rgb.png", saved(color, "PNG"))
put("gray.png", saved(gray, "PNG"))
put("wide16.png", png(3, 2, 0, 16, b"".join(b"\0" + struct.pack(">3H", *row) for row in [[0, 257, 32896], [65535, 2570, 25700]])))
put("palette.png", saved(color.quantize(8), "PNG"))
put("clear.png", saved(Image.fromarray(clear, "RGBA"), "PNG"))
put("one.png", saved(color.crop((0, 0, 1, 1)), "PNG"))
photo = put("photo.jpg", saved(Image.fromarray(smooth), "JPEG", quality=95, subsampling=0))
put("scans.jpg", saved(Image.fromarray(smooth), "JPEG", quality=95, progressive=True))
put("gray.jpg", saved(gray, "JPEG", quality=98))
put("four.jpg", saved(Image.fromarray(smooth).convert("CMYK"), "JPEG"))
# damaged
put("cut.png", rgb[:-20])
put("damaged.png", rgb[:45] + bytes([rgb[45] ^ 255]) + rgb[46:])
put("huge.png", png(1 << 30, 1 << 30, 2, 8, b""))
put("large.png", png(9000, 9000, 2, 8, b""))
put("none.png", png(0, 4, 2, 8, b""))
put("head.png", rgb[:8])
put("cut.jpg", photo[: len(photo) * 2 // 3])
put("head.jpg", photo[:3])
size = photo.index(b"\xff\xc0") + 5
put("huge.jpg", photo[:size] + b"\xff\xdc\xff\xdc" + photo[size + 4 :])
put("other", b"BM is neither")
put("empty", b"")


def pixels(name):
    image = Image.open(os.path.join(folder, name))
    if name == "wide16.png":
        return np.array([[0, 1, 128], [255, 10, 100]])[..., None].repeat(3, 2)
    if image.mode == "RGBA":
        return np.array(image)[..., :3] * (np.array(image)[..., 3:] == 255)
    return np.array(image.convert("RGB"))


def resized(name, height, width, channels, stretch):
    p = torch.from_numpy(pixels(name).astype("f8")).permute(2, 0, 1)[None]
    h, w = height, width
    if not stretch:
        down, across = height / p.shape[2], width / p.shape[3]
        h, w = (max(int(p.shape[2] * across + 0.5), h), w) if down < across else (h, max(int(p.shape[3] * down + 0.5), w))
    p = F.interpolate(p, (h, w), mode="bilinear", antialias=True)
    top, left = (h - height) // 2, (w - width) // 2
    return p[0, :channels, top : top + height, left : left + width].reshape(-1)


cases = [("rgb.png", 4, 5, 3, 0), ("gray.png", 12, 17, 1, 0), ("wide16.png", 2, 3, 1, 0), ("palette.png", 4, 5, 3, 0)]
cases += [("clear.png", 4, 5, 3, 0), ("one.png", 3, 2, 3, 0), ("rgb.png", 2, 2, 3, 0), ("rgb.png", 7, 3, 3, 0), ("rgb.png", 6, 9, 3, 1)]
cases += [("gray.png", 5, 5, 1, 0), ("gray.png", 3, 4, 1, 1), ("photo.jpg", 12, 17, 3, 0), ("photo.jpg", 5, 5, 3, 0)]
cases += [("scans.jpg", 4, 4, 3, 0), ("gray.jpg", 5, 7, 1, 0)]
with open(os.path.join(root, "goldens_images.h"), "w") as out:
    print("// Made by tests/make_image_corpus.py; do not edit.\n// clang-format off", file=out)
    print("static const struct {\n  const char *name;\n  int height, width, channels, stretch;\n  float value[640];\n} goldens_images[] = {", file=out)
    for case in cases:
        values = ", ".join(f"{v:.7g}" for v in resized(*case).tolist())
        print(f'    {{"{case[0]}", {", ".join(map(str, case[1:]))}, {{{values}}}}},', file=out)
    print("};\n// clang-format on", file=out)

#!/usr/bin/env python3
"""Writes tests/corpus/image, tests/image_goldens.txt and .bin: small PNG and JPEG files, and what they are as numbers.

    python3 tests/make_image_corpus.py          (NumPy, Pillow 12 or 13, PyTorch 2.13)

Decoded by Pillow, resized by PyTorch (bilinear, antialias). How JPEG is decoded is free by one or two of 255.
"""
import io
import os
import struct
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps

import goldens

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
four = np.stack([(x * 15) % 256, y * 20, 255 - x * 9 - y * 8, (x * y * 7) % 200], -1).astype("u1")
put("four.jpg", saved(Image.fromarray(four, "CMYK"), "JPEG", quality=95, subsampling=0))
# the same bytes, said to be luma, two differences and black
put("ycck.jpg", open(os.path.join(folder, "four.jpg"), "rb").read().replace(b"Adobe\0\x64\0\0\0\0\0", b"Adobe\0\x64\0\0\0\0\2"))
# how the camera was held: in both byte orders, behind another entry, in a chunk of PNG
for k in range(1, 9):
    order = "<>"[k % 2]
    entries = struct.pack(order + "HHI4s", 0x10F, 2, 3, b"us\0\0") + struct.pack(order + "HHIHH", 0x112, 3, 1, k, 0)
    exif = (b"MM" if k % 2 else b"II") + struct.pack(order + "HIH", 42, 8, 2) + entries + bytes(4)
    if k > 4:
        put(f"turned{k}.jpg", saved(Image.fromarray(smooth), "JPEG", quality=95, subsampling=0, exif=b"Exif\0\0" + exif))
    else:
        put(f"turned{k}.png", rgb[:33] + chunk(b"eXIf", exif) + rgb[33:])
# the orientation as a long, and as a byte, which is passed over
for name, kind, value in [("long", 4, struct.pack("<I", 3)), ("byte", 1, b"\6\0\0\0")]:
    exif = struct.pack("<2sHIHHHI", b"II", 42, 8, 1, 0x112, kind, 1) + value + bytes(4)
    put(f"turned{name}.jpg", saved(Image.fromarray(smooth), "JPEG", quality=95, subsampling=0, exif=b"Exif\0\0" + exif))
# colors whose luma is not that of the red, green and blue which they are clipped to
vivid = np.random.default_rng(1).choice([0, 255], (12, 17, 3)).astype("u1")
put("vivid.jpg", saved(Image.fromarray(vivid), "JPEG", quality=75, subsampling=2))
# what a PNG may be else: gray of few bits, a transparent color, levels, in seven passes, gamma
bits = Image.fromarray((np.add.outer(np.arange(5), np.arange(11)) % 3 == 0).astype("u1") * 255)
put("bits.png", saved(bits.convert("1"), "PNG"))
put("deep.png", png(2, 2, 6, 16, b"".join(b"\0" + struct.pack(">8H", *row) for row in [range(900, 8900, 1000), range(65535, 25535, -5000)])))
put("few.png", saved(color.quantize(3), "PNG", bits=2, transparency=1))
put("key.png", saved(color, "PNG", transparency=tuple(np.array(color)[1, 1].tolist())))
put("graya.png", saved(Image.fromarray(np.dstack([np.arange(20).reshape(4, 5) * 12, np.arange(20).reshape(4, 5) * 11]).astype("u1"), "LA"), "PNG"))
put("gamma.png", rgb[:33] + chunk(b"gAMA", struct.pack(">I", 100000)) + rgb[33:])
passes = b"".join(
    b"\0" + np.array(color)[r, left::across].tobytes()
    for top, down, left, across in [(0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1)]
    for r in range(top, 4, down) if left < 5)
head = struct.pack(">IIBBBBB", 5, 4, 8, 2, 0, 0, 1)
put("passes.png", rgb[:8] + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(passes)) + chunk(b"IEND", b""))
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


def pixels(name, channels):
    image = Image.open(os.path.join(folder, name))
    if name == "wide16.png":
        return np.array([[0, 1, 128], [255, 10, 100]])[..., None].repeat(channels, 2)
    return np.atleast_3d(np.array(ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")))


def resized(name, height, width, channels, stretch):
    p = torch.from_numpy(pixels(name, channels).astype("f8")).permute(2, 0, 1)[None]
    h, w = height, width
    if not stretch:
        down, across = height / p.shape[2], width / p.shape[3]
        h, w = (max(int(p.shape[2] * across + 0.5), h), w) if down < across else (h, max(int(p.shape[3] * down + 0.5), w))
    p = F.interpolate(p, (h, w), mode="bilinear", antialias=True)
    top, left = (h - height) // 2, (w - width) // 2
    return p[0, :, top : top + height, left : left + width].reshape(-1)


cases = [("rgb.png", 4, 5, 3, 0), ("gray.png", 12, 17, 1, 0), ("wide16.png", 2, 3, 1, 0), ("palette.png", 4, 5, 3, 0)]
cases += [("clear.png", 4, 5, 3, 0), ("one.png", 3, 2, 3, 0), ("rgb.png", 2, 2, 3, 0), ("rgb.png", 7, 3, 3, 0), ("rgb.png", 6, 9, 3, 1)]
cases += [("gray.png", 5, 5, 1, 0), ("gray.png", 3, 4, 1, 1), ("photo.jpg", 12, 17, 3, 0), ("photo.jpg", 5, 5, 3, 0)]
cases += [("scans.jpg", 4, 4, 3, 0), ("gray.jpg", 5, 7, 1, 0)]
cases += [("four.jpg", 12, 17, 3, 0), ("four.jpg", 5, 4, 1, 0), ("ycck.jpg", 5, 4, 3, 0), ("photo.jpg", 6, 5, 1, 0)]
cases += [(f"turned{k}.png", 4, 5, 3, 1) for k in range(1, 5)] + [(f"turned{k}.jpg", 17, 12, 3, 0) for k in range(5, 9)]
cases += [("turnedlong.jpg", 12, 17, 3, 0), ("turnedbyte.jpg", 17, 12, 3, 0), ("vivid.jpg", 12, 17, 1, 0), ("vivid.jpg", 4, 5, 1, 0)]
cases += [("bits.png", 5, 11, 1, 0), ("deep.png", 2, 2, 3, 0), ("few.png", 4, 5, 3, 0), ("key.png", 4, 5, 3, 0), ("graya.png", 4, 5, 3, 0)]
cases += [("gamma.png", 4, 5, 3, 0), ("passes.png", 4, 5, 3, 0), ("rgb.png", 4, 5, 1, 0), ("clear.png", 4, 5, 1, 0), ("bits.png", 5, 11, 3, 0)]
table = goldens.Table("tests/make_image_corpus.py")
for name, *sizes in cases:
    table.array(name, [*sizes, *resized(name, *sizes).tolist()])
table.write("image_goldens")

"""Files that tests/test_readers.c reads and the fuzzers of readers begin with: python3 tests/make_reader_corpus.py
Needs NumPy. Values are written out in the test."""
import gzip
import io
import os
import struct
import warnings
import zipfile

import numpy as np

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def put(folder, name, data):
    os.makedirs(os.path.join(here, folder), exist_ok=True)
    with open(os.path.join(here, folder, name), "wb") as f:
        f.write(data)


def npy(array, version=None):
    f = io.BytesIO()
    np.lib.format.write_array(f, array, version=version)
    return f.getvalue()


grid = np.arange(12).reshape(4, 3)
for code in ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2", "<i8", ">i8", "<i4", ">i4", "<i2", "|i1", "|u1", "<u2", ">u4", "<u8"]:
    name = code.replace("<", "le_").replace(">", "be_").replace("|", "")
    put("npy", name, npy((grid - 5 if code[1] != "u" else grid).astype(code)))
put("npy", "bool", npy(grid % 2 == 0))
put("npy", "fortran", npy(np.asfortranarray(np.arange(24, dtype="<f4").reshape(2, 3, 4))))
put("npy", "version2", npy(grid.astype("<f4"), (2, 0)))
put("npy", "version3", npy(grid.astype("<f4"), (3, 0)))
put("npy", "empty", npy(np.zeros((0, 5), "<f4")))
put("npy", "scalar", npy(np.array(3.0)))
put("npy", "large_u8", npy(np.array([1, 2**63], "<u8")))
put("npy", "record", npy(np.zeros(2, [("a", "<f4"), ("b", "<i4")])))
put("npy", "truncated", npy(grid.astype("<f8"))[:-1])
put("npy", "huge_shape", npy(grid.astype("<f4")).replace(b"(4, 3), }", b"(4,99999)}"))
put("npy", "no_array", b"PK\x03\x04 nothing")

f = io.BytesIO()
np.savez(f, x=grid.astype("<f4"), y=np.arange(4))
put("zip", "stored.npz", f.getvalue())
f = io.BytesIO()
np.savez_compressed(f, x=np.tile(grid, (1, 50)).astype("<f4"), y=np.arange(4))
deflated = f.getvalue()
put("zip", "deflated.npz", deflated)
put("zip", "truncated.npz", deflated[:-10])
damaged = bytearray(deflated)
damaged[90] ^= 0x55
put("zip", "damaged.npz", bytes(damaged))
f = io.BytesIO()
with zipfile.ZipFile(f, "w") as z:
    z.writestr("y.npy", npy(np.arange(4)))
    z.comment = b"a comment"
put("zip", "comment.npz", f.getvalue())
with warnings.catch_warnings(), zipfile.ZipFile(f := io.BytesIO(), "w") as z:
    warnings.simplefilter("ignore")  # of two members of one name
    for name, values in [("x.npy", [1, 2]), ("y.npy", [3]), ("x.npy", [4, 5]), ("z.npy", [6]), ("z", [7])]:
        z.writestr(zipfile.ZipInfo(name), npy(np.array(values)))
put("zip", "same_names.npz", f.getvalue())
put("zip", "empty.npz", b"PK\x05\x06" + bytes(18))
put("zip", "no_zip.npz", b"nothing at all")

# The first byte of these chooses options of fuzz_csv.c; tests/test_readers.c writes its own tables.
put("csv", "plain", b"\0a,b\n1,2\n3.5,-4e2\n")
put("csv", "quotes", b'\0"a ""x""","b\nc"\r\n"1","2"\r\n3,4')
put("csv", "missing", b"\x0da;b\n;NA\n1;2\n")
put("csv", "no_header", b"\x021\n\n2\n")
put("csv", "ragged", b"\0a,b\n1,2,3\n")
put("csv", "open_quote", b'\0a\n"1\n2\n')
put("csv", "zero", b"\0a,b\n1\0zz,2\n")
put("csv", "same_names", b"\0a,a,b\n1,2,3\n")
put("csv", "marked", b"\0\xef\xbb\xbfa\n7\n")
put("csv", "missing_class", b"\x84,1\n2,3\n")
put("csv", "missing_as", b"\x9cNA,1\n2,3\n,5\n")
put("csv", "classes", b'\x801,1\n"3",3\n')
put("csv", "cr", b'\0a,b\r1,2\r"3",4\r')
put("csv", "cr_in_quotes", b'\x02"1\r\n\r",2\r3,4\r\n\r')
f = io.BytesIO()
with zipfile.ZipFile(f, "w") as z:
    for name, values in [("a/w.npy", grid.astype("<f4")), ("b/w.npy", grid.astype("<f4") + 1), ("b.w.npy", np.arange(4))]:
        z.writestr(zipfile.ZipInfo(name), npy(values))
    z.writestr(zipfile.ZipInfo("a/"), b"")
put("zip", "folders.npz", f.getvalue())

head = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[8,12]},'
head += b'"b":{"dtype":"F4","shape":[2,4],"data_offsets":[12,16]},"c":{"dtype":"C64","shape":[1],"data_offsets":[16,24]}}'
put("safetensors", "unread_dtypes", struct.pack("<Q", len(head)) + head + bytes(24))

put("text", "ascii", b"to be or not to be, that is the question")
put("text", "utf8", "gr\u00fc\u00dfe \u2192 \u4e16\u754c \U0001f600!".encode())
put("text", "cut", "\u4e16\u754c".encode()[:-1])
put("text", "empty", b"")
put("text", "marked", b"\xef\xbb\xbfnot UTF-8, or is it")


# ---- IDX: 0 0 type rank, sizes, numbers, all big-endian
def idx(array, code=None, sizes=None):
    codes = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    array = np.asarray(array)
    kind = codes[array.dtype.str[1:]] if code is None else code
    head = bytes([0, 0, kind, array.ndim]) + b"".join(struct.pack(">I", n) for n in sizes or array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


for code in ["u1", "i1", "i2", "i4", "f4", "f8"]:
    put("idx", code, idx((grid - (0 if code == "u1" else 5)).astype(code)))
put("idx", "images", idx(np.arange(24).astype("u1").reshape(2, 3, 4)))
put("idx", "labels", idx(np.array([7, 3]).astype("u1")))
put("idx", "truncated", idx(grid.astype("u1"))[:-1])
put("idx", "longer", idx(grid.astype("u1")) + b"\0")
put("idx", "huge", idx(np.zeros((1, 1, 1), "u1"), sizes=[0xFFFFFFFF] * 3))
put("idx", "type", idx(grid.astype("u1"), code=10))
put("idx", "rank", b"\0\0\x08\x09" + bytes(36))
put("idx", "cut_sizes", b"\0\0\x08\x03\0\0\0\x01")
packed = [gzip.compress(part, mtime=0) for part in (idx(np.arange(24).astype("u1").reshape(2, 3, 4))[:9], idx(np.arange(24).astype("u1").reshape(2, 3, 4))[9:])]
put("idx", "images.gz", packed[0] + packed[1] + bytes(5))
put("idx", "cut.gz", packed[0][:-9])
put("idx", "damaged.gz", packed[0][:-6] + bytes(6))
put("idx", "head.gz", b"\x1f\x8b\x08\0\0\0")
put("idx", "other", b"PNG?")
put("idx", "empty", b"")

# ---- CIFAR: the first byte chooses the kind for fuzz_cifar.c (0: CIFAR-10, 1: CIFAR-100)
pixels = bytes(k * 7 % 256 for k in range(3072))
put("cifar", "ten", b"\0" + b"\x09" + pixels + b"\x00" + pixels[::-1])
put("cifar", "hundred", b"\x01" + b"\x13\x63" + pixels)
put("cifar", "label", b"\0" + b"\x0a" + pixels)
put("cifar", "coarse", b"\x01" + b"\x14\x63" + pixels)
put("cifar", "truncated", b"\0" + b"\x09" + pixels[:-1])
put("cifar", "empty", b"\0")


# ---- WAV
def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def riff(*parts):
    body = b"WAVE" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def fmt(code, bits, channels, rate=8000, frame=None, more=b""):
    size = frame or channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", code, channels, rate, rate * size, size, bits) + more)


frames = np.array([[0, 1], [-1, 64], [127, -128]])  # of 8 bits; wider ones are shifted to the left


def pcm(bits):
    if bits == 8:
        return (frames + 128).astype("u1").tobytes()
    wide = (frames.astype("i8") << (bits - 8)).astype("<i4").tobytes()
    return b"".join(wide[k : k + bits // 8] for k in range(0, len(wide), 4))


for bits in [8, 16, 24, 32]:
    put("wav", f"pcm{bits}", riff(fmt(1, bits, 2), chunk(b"data", pcm(bits))))
for bits in [32, 64]:
    put("wav", f"float{bits}", riff(fmt(3, bits, 2), chunk(b"data", (frames / 128).astype(f"<f{bits // 8}").tobytes())))
guid = struct.pack("<HHIH", 22, 16, 3, 1) + bytes.fromhex("000000001000800000aa00389b71")
put("wav", "extensible", riff(fmt(0xFFFE, 16, 2, more=guid), chunk(b"LIST", b"odd"), chunk(b"data", pcm(16))))
put("wav", "mono", riff(fmt(1, 16, 1), chunk(b"data", struct.pack("<hhhhh", 0, 16384, -32768, 32767, 1))))
put("wav", "rate", riff(fmt(1, 16, 1, rate=16000), chunk(b"data", bytes(4))))
put("wav", "silent", riff(fmt(1, 16, 1), chunk(b"data", b"")))
put("wav", "law", riff(fmt(7, 8, 1), chunk(b"data", bytes(4))))
put("wav", "short_fmt", riff(chunk(b"fmt ", bytes(14)), chunk(b"data", bytes(4))))
put("wav", "channels", riff(fmt(1, 16, 0, frame=2), chunk(b"data", bytes(4))))
put("wav", "frame", riff(fmt(1, 16, 2, frame=3), chunk(b"data", bytes(4))))
put("wav", "odd", riff(fmt(1, 16, 2), chunk(b"data", bytes(5))))
put("wav", "no_fmt", riff(chunk(b"data", bytes(4))))
put("wav", "no_data", riff(fmt(1, 16, 1)))
streamed = fmt(1, 16, 1) + b"data%b" + struct.pack("<hhhh", 1, 2, 3, 4)
put("wav", "pipe", riff(streamed % b"\xff\xff\xff\xff"))
put("wav", "pipe_zero", b"RIFF\0\0\0\0WAVE" + streamed % bytes(4))
put("wav", "pipe_all", b"RIFF\xff\xff\xff\xffWAVE" + streamed % bytes(4) + b"\5")
put("wav", "pipe_head", b"RIFF\x24\0\0\0WAVE" + streamed % bytes(4))
put("wav", "silent_list", riff(fmt(1, 16, 1), chunk(b"data", b""), chunk(b"LIST", b"some")))
put("wav", "cut_data", riff(streamed % b"\xfe\xff\xff\xff"))
put("wav", "truncated", riff(fmt(1, 16, 2), chunk(b"data", pcm(16)))[:-1])
put("wav", "cut_head", riff(fmt(1, 16, 1), b"dat"))
put("wav", "other", b"RIFX" + bytes(20))

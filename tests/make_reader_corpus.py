"""Files that tests/test_readers.c reads and the fuzzers of readers begin with: python3 tests/make_reader_corpus.py
Needs NumPy. Values are written out in the test."""
import io
import os
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
put("text", "ascii", b"to be or not to be, that is the question")
put("text", "utf8", "gr\u00fc\u00dfe \u2192 \u4e16\u754c \U0001f600!".encode())
put("text", "cut", "\u4e16\u754c".encode()[:-1])
put("text", "empty", b"")
put("text", "marked", b"\xef\xbb\xbfnot UTF-8, or is it")

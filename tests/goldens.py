"""What the scripts tests/make_*.py share: inputs drawn as C draws them, and the files that tests/golden_file.h reads."""
import pathlib

import numpy as np
import torch

TESTS = pathlib.Path(__file__).resolve().parent


# ---- inputs: tests/case_numbers.h draws the same
def hashes(n, seed):
    """case_hash of the elements 0 to n - 1."""
    h = (np.arange(n, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(((seed + 1) * 0x9E3779B9) & 0xFFFFFFFF)).astype(np.uint32)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def bits(n, seed):
    """case_bits: 16 bits of each element."""
    return (hashes(n, seed) >> np.uint32(16)).tolist()


def units(n, seed):
    """case_unit: [0, 1), of 24 bits."""
    return (hashes(n, seed) >> np.uint32(8)) / 2.0**24


# ---- files
class Table:
    """Lines of NAME.txt, and the numbers that they name, in NAME.bin: little-endian, each in the dtype of its tensor."""

    def __init__(self, script):
        self.lines = [f"# Made by {script} with PyTorch {torch.__version__.split('+')[0]}; do not edit."]
        self.bytes = []

    def line(self, *words):
        self.lines.append(" ".join(map(str, words)))

    def store(self, x):
        """Gives the number of elements. All NaN have the same bits."""
        x = x.detach().reshape(-1).numpy()
        if x.dtype.kind == "f":
            x = np.where(np.isnan(x), x.dtype.type(np.nan), x)
        self.bytes.append(x.astype(x.dtype.newbyteorder("<")).tobytes())
        return len(x)

    def array(self, name, x):
        """What golden_array of tests/golden_file.h finds: numbers as doubles."""
        self.line(name, self.store(torch.as_tensor(x, dtype=torch.float64)))

    def write(self, name):
        (TESTS / f"{name}.txt").write_text("\n".join(self.lines) + "\n")
        (TESTS / f"{name}.bin").write_bytes(b"".join(self.bytes))

"""What the peers share: weights, numbers and the protocol of bench/main.c. Arguments: ROOT WEIGHTS WORKLOAD PEER."""
import json
import os
import resource
import statistics
import struct
import sys
import time

import numpy as np

LEAST_STEPS, MOST_SECONDS = 3, 3.0  # of a burst; one of twice as many seconds ends whatever the steps
DTYPES = {"F32": np.float32, "I64": np.int64}  # of safetensors
THREADS = int(os.environ.get("TENURE_PEER_THREADS", "2"))


def number(n, seed, start=0):
    """Element k is bench_number(k, seed): float64 in [0, 1)."""
    h = (np.arange(start, start + n, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(seed * 40503)).astype(np.uint32)
    h ^= h >> np.uint32(15)
    h *= np.uint32(2246822519)
    h ^= h >> np.uint32(13)
    return (h >> np.uint32(8)) * 2.0**-24


def floats(n, lo, hi, seed):
    return (lo + (hi - lo) * number(n, seed)).astype(np.float32)


def integers(n, bound, seed):
    return (bound * number(n, seed)).astype(np.int64)


SEQUENCES = 64


def lengths_of(kind):
    """Lengths of sequences: as bench_lengths_of makes them."""
    if kind == "equal":
        return [128] * SEQUENCES
    if kind == "short":
        return [1 + int(4 * x) for x in number(SEQUENCES, 10)]
    if kind == "uniform":
        return [16 + int(497 * x) for x in number(SEQUENCES, 8)]
    if kind == "long":
        return [2048 if k == 20 else 10 + int(31 * x) for k, x in enumerate(number(SEQUENCES, 9))]
    z = number(12 * SEQUENCES, 7).reshape(SEQUENCES, 12)
    n = []
    for k in range(SEQUENCES):
        sum_of = -6.0
        for x in z[k]:
            sum_of += float(x)
        n.append(200 if k == 20 else max(1, min(200, int(np.exp(3.4 + 0.7 * sum_of)))))
    return n


def checksum(v):
    v = np.asarray(v, dtype=np.float64).reshape(-1)
    return float(np.sum(np.abs(v) * number(len(v), 99)))


def read_weights(path):
    """safetensors: u64 size of a JSON header, the header, then raw little-endian values."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__", None)
    body = raw[8 + n :]
    return {
        name: np.frombuffer(body[slice(*row["data_offsets"])], dtype=DTYPES[row["dtype"]]).reshape(row["shape"]).copy()
        for name, row in header.items()
    }


def one_call(step):
    """ms, and ms of CPU time, of processes that it started and waited for too."""
    start, before = time.perf_counter(), sum(os.times()[:4])
    step()
    return f"{1e3 * (time.perf_counter() - start):.3f} {1e3 * (sum(os.times()[:4]) - before):.3f}"


def layers_of(weights):
    """How many blocks b0, b1, .. have weights."""
    return len({name.split(".")[0] for name in weights if name[0] == "b" and name[1].isdigit()})


def resident_mb():
    """At most, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def serve(check, step, calls=1, case=None, again=None):
    """check() -> float, None where it cannot be computed; step() is timed, divided by calls; case(text) sets the shape. step.peak()
    -> bytes of a step, bytes between steps; again(budget="") -> False where nothing can run again."""
    before = resident_mb()
    for line in sys.stdin:
        word = line.split()
        if word[0] == "check":
            loss = check()
            print("cannot" if loss is None else f"loss {loss:.9g}", flush=True)
        elif word[0] == "case":
            case(*word[1:])
            print("ok", flush=True)
        elif word[0] == "memory":
            print(f"{resident_mb():.1f} {resident_mb() - before:.1f}", flush=True)
        elif word[0] == "peak":
            print(*step.peak(), flush=True)
        elif word[0] == "again":
            print("cannot" if again is None or again(*word[1:]) is False else "ok", flush=True)
        elif word[0] == "compile":
            print(one_call(step), one_call(step), flush=True)
        else:
            ms, begin = [], time.perf_counter()
            for _ in range(int(word[0])):
                seconds = time.perf_counter() - begin
                if seconds > MOST_SECONDS and (len(ms) >= LEAST_STEPS or seconds > 2 * MOST_SECONDS):
                    break
                start = time.perf_counter()
                step()
                ms.append(1e3 * (time.perf_counter() - start) / calls)
            print(f"{min(ms):.6f} {statistics.median(ms):.6f}", flush=True)

"""Data-parallel training steps beside PyTorch's: 1 and 2 processes of one thread each, in turn, the same model, batch and weights.

    tools/bench ddp [--python PATH] [--rounds N] [--steps N] [--progress-thread] [WORKLOAD ..]

PATH is a Python that has PyTorch. For each workload and peer: the least and the median of ms for a step, over rounds; how many times faster
than one process two are; with 2 processes the part of a step that exchanges take, and bytes that a step sends beside ZeRO-1's formula. The third
loss of both must agree. With --progress-thread each of Tenure's processes has one. Takes some minutes.
"""
import argparse
import os
import subprocess
import sys
import tempfile

ENV = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
LIMIT_S = 300  # of one run


def numbers(text):
    return [float(x) for x in text.split()]


class Torch:
    """One Python, which imports PyTorch once and forks the processes of each run."""

    def __init__(self, o, log):
        peer = os.path.join(o.root, "bench/peers/torch_ddp.py")
        self.log = log
        self.process = subprocess.Popen(
            ["timeout", str(LIMIT_S * 4 * o.rounds), o.python, peer], cwd=o.root, env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )

    def run(self, workload, weights, n, steps):
        self.process.stdin.write(f"{workload} {weights} {n} {steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            sys.exit(f"ddp: PyTorch, {workload}, {n} processes:\n{self.log.read()}")
        return numbers(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def run_tenure(o, workload, weights, n):
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(n), o.program, workload, weights, str(n), str(o.steps)]
    command += ["thread"] if o.progress_thread else []
    try:
        done = subprocess.run(command, cwd=o.root, env=ENV, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        sys.exit(f"ddp: {' '.join(command)}: no end within {LIMIT_S} s")
    if done.returncode:
        sys.exit(f"ddp: {' '.join(command)}:\n{done.stderr}")
    return numbers(done.stdout)


class Runs:
    """What runs of one peer found: loss, least, median, exchange, bytes, formula."""

    def __init__(self):
        self.rows = []

    def least(self):
        return min(row[1] for row in self.rows)

    def median(self):
        return sorted(row[2] for row in self.rows)[len(self.rows) // 2]

    def share(self):
        return sorted(row[3] / row[2] for row in self.rows)[len(self.rows) // 2]


def show(o, workload, ours, theirs):
    print(f"{workload}: ms for a step, least (median) of {o.rounds} rounds of {o.steps} steps, processes of one thread")
    for n in (1, 2):
        a, b = ours[n], theirs[n]
        text = f"  {n} process{'es' if n > 1 else '  '}  tenure {a.least():8.2f} ({a.median():8.2f})   PyTorch DDP {b.least():8.2f} ({b.median():8.2f})"
        print(f"{text}   {b.least() / a.least():.2f} ({b.median() / a.median():.2f}) times")
        if abs(a.rows[0][0] - b.rows[0][0]) > 1e-4 * abs(b.rows[0][0]):
            sys.exit(f"ddp: the third losses differ: {a.rows[0][0]} and {b.rows[0][0]}")
    gain = [f"{p[1].least() / p[2].least():.2f} ({p[1].median() / p[2].median():.2f})" for p in (ours, theirs)]
    print(f"  two are faster than one: tenure {gain[0]} times, PyTorch {gain[1]} times")
    row = ours[2].rows[0]
    print(f"  part of a step in exchanges, waiting included: tenure {ours[2].share():.0%}, PyTorch {theirs[2].share():.0%} (steps less those of no_sync)")
    print(f"  bytes that a step sends: {row[4]:.0f}; 8 N (R - 1), ZeRO-1's formula: {row[5]:.0f}; beyond it {row[4] / row[5] - 1:.3%}", flush=True)


def compare(o, torch, workload, weights):
    ours, theirs = {1: Runs(), 2: Runs()}, {1: Runs(), 2: Runs()}
    for _ in range(o.rounds):
        for n in (1, 2):
            ours[n].rows.append(run_tenure(o, workload, weights, n))
            theirs[n].rows.append(torch.run(workload, weights, n, o.steps))
    show(o, workload, ours, theirs)


def main():
    p = argparse.ArgumentParser(prog="bench ddp")
    p.add_argument("workloads", nargs="*", default=["lstm256", "transformer4"])
    p.add_argument("--python", default="python3")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--progress-thread", action="store_true")
    p.add_argument("--root", required=True)
    o = p.parse_args()
    o.root = os.path.abspath(o.root)
    o.program = os.path.join(o.root, "build/release/bin/tenure_ddp")
    if not os.access(o.program, os.X_OK):
        sys.exit("ddp: there is no MPI here: tenure_ddp was not built (Debian 12: libopenmpi-dev, openmpi-bin)")
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w+") as log:
        torch = Torch(o, log)
        for workload in o.workloads:
            compare(o, torch, workload, os.path.join(folder, f"{workload}.safetensors"))
        torch.end()


if __name__ == "__main__":
    main()

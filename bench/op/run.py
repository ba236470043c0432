#!/usr/bin/env python3
"""Times every op on the CPU, forward and backward, beside PyTorch's same op, and says what share of the machine's ceiling it reaches.

    bench/op/run.py --bench build/release/op_bench [--output bench/results/op.txt]

The cases are those of src/ops/*/cases.h that are marked for timing. The share is the least time that the op's bytes and operations
take at the ceilings (measured in the same run: a triad over arrays that fit no cache; multiply-adds in registers), divided by the time
taken. An op whose values fit into a cache may exceed 100 %. Ops of one phase of a case are summed; PyTorch's backward is one call of
autograd. Both use the same threads; each figure is the median of repetitions.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, table  # noqa: E402

REPETITIONS = 5


def run_ours(arguments, names):
    """Milliseconds, counters and kernels by benchmark name."""
    pattern = "^(" + "|".join(re.escape(name) for name in [*names, "ceiling"]) + ")/"
    command = [arguments.bench, "--benchmark_format=json", f"--benchmark_repetitions={REPETITIONS}", "--benchmark_min_time=0.05"]
    command += [f"--benchmark_filter={pattern}"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "GOMP_SPINCOUNT": "20000"}
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
    found = {}
    for row in report["benchmarks"]:
        if row.get("aggregate_name") == "median":
            found[row["run_name"].removesuffix("/real_time")] = row
    return found


def torch_times(arguments, case):
    """PyTorch's median milliseconds, forward and backward, in a process of its own."""
    command = [arguments.python, os.path.abspath(__file__), "--torch-case", json.dumps(case), "--threads", str(arguments.threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "GOMP_SPINCOUNT": "20000"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{case['case']}: {case['torch']}\n{done.stderr}")
    return json.loads(done.stdout)


def time_torch(case, threads):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    scope = {"torch": torch, "F": F}
    for name, dtype, extents in re.findall(r"^(?:input|param|state)\s+(\S+)\s+(\w+)[\w.]*\[([^\]]*)\]", case["graph"], re.M):
        shape = [int(extent) for extent in extents.split(",")]
        if dtype.startswith("f"):
            scope[name] = (2 * torch.rand(shape) - 1).requires_grad_(case["differentiate"])
        else:
            scope[name] = torch.randint(case["integer_limit"], shape)
    code = compile(case["torch"], case["case"], "eval")

    def once():
        start = time.perf_counter()
        output = eval(code, scope)
        middle = time.perf_counter()
        if output.requires_grad:
            output.backward(torch.ones_like(output))
        return middle - start, time.perf_counter() - middle

    warm = sum(once())
    rounds = [once() for _ in range(max(5, min(50, int(0.5 / warm))))]
    print(json.dumps([1000 * statistics.median(column) for column in zip(*rounds)]))


def phase_of(found, case, phase, ceilings):
    """Milliseconds, share of the ceiling and kernels of a phase, or nothing."""
    rows = [row for name, row in found.items() if name.startswith(f"{case}/{phase}/")]
    if not rows:
        return None
    taken = sum(row["real_time"] for row in rows)
    least = sum(1000 * max(row["flops"] / ceilings["arithmetic"], row["bytes"] / ceilings["memory"]) for row in rows)
    return taken, least / taken, ", ".join(dict.fromkeys(row.get("label", "") for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/release/op_bench")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter with torch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--output", help="also write the report there")
    parser.add_argument("--torch-case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch_case:
        return time_torch(json.loads(arguments.torch_case), arguments.threads)

    cases = json.loads(subprocess.run([arguments.bench, "--cases"], check=True, capture_output=True, text=True).stdout)
    cases = [case for case in cases if not arguments.only or arguments.only in case["case"]]
    found = run_ours(arguments, [case["case"] for case in cases])
    memory, arithmetic = found["ceiling/memory"], found["ceiling/arithmetic"]
    ceilings = {
        "memory": 1000 * memory["bytes"] / memory["real_time"],
        "arithmetic": 1000 * arithmetic["flops"] / arithmetic["real_time"],
    }
    rows = [["case", "phase", "Outsize ms", "of ceiling", "PyTorch ms", "ratio", "kernels"]]
    for case in cases:
        theirs = torch_times(arguments, case) if case["torch"] else [None, None]
        for phase, peer in zip(("forward", "backward"), theirs):
            ours = phase_of(found, case["case"], phase, ceilings)
            if ours is None:
                continue
            taken, share, kernels = ours
            beside = ["-", "-"] if peer is None else [f"{peer:.3f}", f"{taken / peer:.2f}"]
            rows.append([case["case"], phase, f"{taken:.3f}", f"{100 * share:.0f} %", *beside, kernels])
    text = (
        f"{datetime.date.today()}, {arguments.threads} threads; ceilings: memory {ceilings['memory'] / 1e9:.1f} GB/s, "
        f"arithmetic {ceilings['arithmetic'] / 1e9:.0f} GFLOP/s; ratio is Outsize / PyTorch, less is better\n\n{table(rows)}\n\n"
        f"bench/op/run.py --bench build/release/op_bench{' --only ' + arguments.only if arguments.only else ''}\n"
    )
    give_out(text, arguments.output)


if __name__ == "__main__":
    main()

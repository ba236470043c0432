#!/usr/bin/env python3
"""Models whose weights, gradients and optimizer state do not fit: what `stream` makes of them, beside every other planner.

    bench/reach/stream.py [--outsize build/release/outsize] [--part simulated|executed]... [--without PLANNER]...
                          [--output bench/results/reach/stream.txt]

Simulated: a row is one run of `outsize compare`, on a described card; seconds of a step over those of `keep`, which does not fit. The
bound is what no plan within the budget is faster than (docs/bounds.md); it is planned in so many seconds of a processor, those for graph and `keep`
among them. Executed: GPT-2 small is trained on this machine's processor,
its disk the only lower tier; the process is what the operating system counts at its peak (VmHWM), and the weights must be those that
`keep` comes to, bit by bit. Each of these runs is once more under a hard limit of the operating system (RLIMIT_DATA).
"""

import argparse
import datetime
import os
import resource
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, output_of, processor, size_flag, table  # noqa: E402

# Model, batch, extent, optimizer, device, budget, what is to be reached over `keep` (none: that it fits).
CELLS = [
    ("gpt2-xl", 4, 1024, "adamw", "rtx-3090-24", "12GiB", 1.3),
    ("gpt2-xl", 4, 1024, "adamw", "rtx-3090-24", "8GiB", 1.5),
    ("gpt2-xl", 4, 1024, "adamw", "rtx-3090-24", "4GiB", None),
    ("gpt2-xl", 4, 1024, "adamw", "rtx-4090-24", "16GiB", 1.3),
    ("gpt2-xl", 1, 512, "adamw", "rtx-3090-24", "40%", 4),
    ("gpt2-xl", 8, 1024, "sgd", "rtx-3080-10", "10GiB", 1.3),
    ("gpt2-medium", 2, 1024, "adamw", "rtx-3080-10", "4GiB", 1.3),
    ("bert-large", 4, 512, "adamw", "rtx-3080-10", "3GiB", 1.3),
    ("gpt2-xl", 4, 1024, "adamw", "h200-141", "12GiB", 1.3),
]
PLANNER = "stream"

# Of GPT-2 small: the budget, and MiB that the process is given beside it under a hard limit.
BUDGETS = ["40%", "25%"]
BESIDE = 192


def request(model, batch, extent, optimizer):
    return [model, "--batch", str(batch), size_flag(model), str(extent), "--optimizer", optimizer]


def processor_seconds(command):
    """What a command takes of processors, its own time and the system's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output_of(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def simulated(outsize, without):
    listed = output_of([outsize, "planners", "--json"])["rows"]
    names = [planner["name"] for planner in listed if planner["name"] not in without]
    rows = [["model", "optimizer", "device", "memory", "best other", "over keep", PLANNER, "goal", "bound", "peak GiB", "planned in"]]
    for model, batch, extent, optimizer, device, memory, goal in CELLS:
        asked = [*request(model, batch, extent, optimizer), "--device", device, "--memory", memory, "--json"]
        made = output_of([outsize, "compare", *asked, "--planners", ",".join(names)])["rows"]
        seconds = processor_seconds([outsize, "plan", *asked, "--planner", PLANNER])
        fitting = [row for row in made if row["fits"]]
        others = [row for row in fitting if row["planner"] not in (PLANNER, "auto")]
        ours = next((row for row in fitting if row["planner"] == PLANNER), None)
        best = min(others, key=lambda row: row["step_s"], default=None)
        bound = made[0]["lower_bound_s"] / made[0]["keep_step_s"]
        rows.append([f"{model} {batch} x {extent}", optimizer, device, memory,
                     best["planner"] if best else "refused", f"{best['ratio_to_keep']:.2f}" if best else "-",
                     f"{ours['ratio_to_keep']:.3f}" if ours else "refused", f"{goal}" if goal else "fits", f"{bound:.2f}",
                     f"{ours['peak_bytes'] / 2**30:.2f}" if ours else "-", f"{seconds:.2f} s"])
        print(" ".join(rows[-1]), file=sys.stderr)
    return table(rows)


def executed(outsize):
    train = [outsize, "train", *request("gpt2", 2, 256, "adamw"), "--lr", "1e-4", "--steps", "3", "--threads", "2", "--json"]
    keep = output_of(train + ["--planner", "keep"])
    rows = [["memory", "MiB", "peak MiB", "process MiB", "over keep, predicted", "weights as keep's", f"within {BESIDE} MiB more"]]
    whole = keep["measured_peak_bytes"]
    rows.append(["100% (keep)", f"{whole / 2**20:.0f}", f"{whole / 2**20:.0f}", f"{keep['process_peak_bytes'] / 2**20:.0f}", "1", "-", "-"])
    with tempfile.TemporaryDirectory() as folder:
        for memory in BUDGETS:
            command = train + ["--planner", PLANNER, "--memory", memory, "--spill", folder]
            made = output_of(command)
            plan = output_of([outsize, "plan", *request("gpt2", 2, 256, "adamw"), "--planner", PLANNER, "--memory", memory, "--spill",
                              folder, "--json"])
            limit = made["budget_bytes"] // 1024 + BESIDE * 1024
            held = subprocess.run(["sh", "-c", f"ulimit -c 0; ulimit -d {limit}; exec {shlex.join(command)}"], capture_output=True)
            rows.append([memory, f"{made['budget_bytes'] / 2**20:.0f}", f"{made['measured_peak_bytes'] / 2**20:.0f}",
                         f"{made['process_peak_bytes'] / 2**20:.0f}", f"{plan['ratio_to_keep']:.2f}",
                         "yes" if (made["params_sha256"], made["states_sha256"]) == (keep["params_sha256"], keep["states_sha256"]) else "NO",
                         "trains" if held.returncode == 0 else f"ends with {held.returncode}"])
            print(" ".join(rows[-1]), file=sys.stderr)
    return table(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--part", action="append", choices=["simulated", "executed"])
    parser.add_argument("--without", action="append", default=[], metavar="PLANNER", help="a planner that is not compared with")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    parts = arguments.part or ["simulated", "executed"]
    text = f"{shlex.join(['bench/reach/stream.py'] + sys.argv[1:])}\n{datetime.date.today()}, {processor()}\n"
    if "simulated" in parts:
        text += f"\nSimulated, over `keep`:\n{simulated(arguments.outsize, arguments.without)}\n"
    if "executed" in parts:
        text += f"\nExecuted: GPT-2 small, AdamW, 2 x 256 tokens, 3 steps, disk as the only lower tier:\n{executed(arguments.outsize)}\n"
    give_out(text, arguments.output)


if __name__ == "__main__":
    main()

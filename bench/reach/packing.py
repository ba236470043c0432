#!/usr/bin/env python3
"""What packing loses: on public hard cases, and on the plans of swapping planners.

    bench/reach/packing.py [--bench build/release/packing_bench] [--before OUTSIZE] [--results bench/results/reach] [--only files]

Cases of google/minimalloc beside the capacity that they are known to fit, and of cappadokes/idealloc beside the largest sum of live
bytes, in units that keep sizes multiples of the alignment. Then the networks of bench/papers/offload.py: the step of each planner's
plan, packed into whatever that takes, and of the plan that is taken, which fits. `--before` names another binary to compare with.
"""

import argparse
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(os.path.dirname(ROOT), "shared", "data", "packing")
HARD = ["A", "C", "E", "G", "I", "K"]
CAPACITY = 1048576
LARGE = ["somas-resnet50", "iopddl-S_1"]
ALIGNMENT = 256
DEVICE = "v100-pcie-16"
PLANNERS = ["dynprog", "greedy", "vdnn", "tsplit"]
# Network, image, batch, MiB that `keep` takes, and limits in percent of that.
CASES = [
    ("resnet18", 224, 32, 726, [45, 58, 70, 85]),
    ("resnet34", 224, 32, 1110, [40, 52, 64, 80]),
    ("resnet50", 224, 32, 2771, [25, 40, 60, 80]),
    ("resnet101", 224, 32, 4165, [25, 50, 75]),
    ("densenet121", 224, 32, 3900, [20, 45, 70, 88]),
    ("inception_v3", 299, 32, 2944, [30, 50, 70]),
]


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def pack_table(bench):
    rows = [f"{'case':16}{'lifetimes':>10}  {'beside':10}{'quick':>9}{'Mlooks':>8}{'seconds':>9}{'thorough':>10}{'Mlooks':>8}{'seconds':>9}"]
    for name in HARD + LARGE:
        hard = name in HARD
        path = os.path.join(DATA, f"{name}.{CAPACITY}.csv" if hard else f"{name}.csv")
        if not os.path.exists(path):
            rows.append(f"{name:16}{path} is absent")
            continue
        row = ""
        for effort in ("quick", "thorough"):
            unit = 1 if hard else ALIGNMENT
            [line] = lines_of(bench, "pack", path, str(unit), str(CAPACITY if hard else 0), effort)
            count, live, peak, looks, seconds = line.split()
            whole = CAPACITY if hard else int(live)
            row += f"{int(peak) / whole:>{10 if row else 9}.5f}{int(looks) / 1e6:>8.0f}{float(seconds):>9.3f}"
        rows.append(f"{name:16}{count:>10}  {'capacity' if hard else 'live sum':10}{row}")
    return rows


def step_before(binary, case, limit):
    network, image, batch = case
    command = [binary, "compare", network, "--batch", str(batch), "--image", str(image), "--device", DEVICE, "--profile", "roofline"]
    command += ["--memory", str(limit), "--planners", ",".join(PLANNERS), "--json"]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    return {row["planner"]: row["step_s"] for row in answer["rows"]}


def price_table(bench, before):
    rows = [f"{'network':14}{'limit':>6}  {'planner':9}{'unpacked ms':>12}{'before':>9}{'packed':>9}{'seconds':>9}"]
    ratios = {planner: ([], []) for planner in PLANNERS}
    for network, image, batch, whole, percents in CASES:
        limits = [whole * 2**20 * percent // 100 for percent in percents]
        lines = lines_of(bench, "price", network, str(image), str(batch), DEVICE, ",".join(PLANNERS), *map(str, limits))
        earlier = {limit: step_before(before, (network, image, batch), limit) if before else {} for limit in limits}
        for line in lines:
            limit, planner, estimate, packed, seconds = line.split()
            estimate, packed = float(estimate), float(packed)
            old = earlier[int(limit)].get(planner)
            cells = [f"{value / estimate:.4f}" if value and estimate else "-" for value in (old, packed)]
            for values, value in zip(ratios[planner], (old, packed)):
                if value and estimate:
                    values.append(value / estimate)
            percent = percents[limits.index(int(limit))]
            rows.append(f"{network:14}{percent:>4} %  {planner:9}{1e3 * estimate:>12.2f}{cells[0]:>9}{cells[1]:>9}{float(seconds):>9.2f}")
    summary = [f"{'planner':9}{'':8}{'cases':>6}{'mean':>9}{'largest':>9}{'within 1 %':>12}"]
    for planner in PLANNERS:
        for what, values in zip(("before", "packed"), ratios[planner]):
            if values:
                near = sum(value <= 1.01 for value in values)
                mean = sum(values) / len(values)
                summary.append(f"{planner:9}{what:8}{len(values):>6}{mean:>9.4f}{max(values):>9.4f}{near:>12}")
    return summary + [""] + rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=os.path.join(ROOT, "build", "release", "packing_bench"))
    parser.add_argument("--before", help="a binary `outsize` of before")
    parser.add_argument("--results", default=os.path.join(ROOT, "bench", "results", "reach"))
    parser.add_argument("--only", choices=["files"], help="no plans")
    arguments = parser.parse_args()
    text = ["bench/reach/packing.py: peak over the capacity, or over the largest sum of live bytes; processor seconds", ""]
    text += pack_table(arguments.bench)
    if not arguments.only:
        text += ["", "The step of the plan that is taken over that of the planner's first plan packed into whatever it takes", ""]
        text += price_table(arguments.bench, arguments.before)
    os.makedirs(arguments.results, exist_ok=True)
    with open(os.path.join(arguments.results, "packing.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()

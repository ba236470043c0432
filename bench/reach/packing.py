#!/usr/bin/env python3
"""What packing loses: on public hard cases, and on the plans of swapping planners.

    bench/reach/packing.py [--bench build/release/packing_bench] [--before OUTSIZE] [--results bench/results/reach] [--only files|NETWORK]

Cases of google/minimalloc beside the capacity that they are known to fit, and of cappadokes/idealloc beside the largest sum of live
bytes, in units that keep sizes multiples of the alignment. Then the 40 cases of bench/papers/offload.py: the step of each planner's
first plan, packed into whatever that takes; the same within the limit, were memory a sum of bytes ("in bytes"); and of the plan that is
taken, which fits. `--before` names another binary to compare with.
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
# The 40 cases of the offload paper: network, image, batch, and the percent of what `keep` takes that its table begins at
# (bench/results/papers/offload.txt). Limits are so far from there to what `keep` takes.
SHARES = [0.125, 0.375, 0.625]
SMALLEST = {
    ("resnet18", 224, 32): 42, ("resnet18", 224, 64): 41, ("resnet18", 500, 8): 41, ("resnet18", 1000, 2): 42,
    ("resnet34", 224, 32): 36, ("resnet34", 224, 64): 31, ("resnet34", 500, 8): 33, ("resnet34", 1000, 2): 34,
    ("resnet50", 224, 32): 20, ("resnet50", 224, 64): 17, ("resnet50", 500, 8): 19, ("resnet50", 1000, 2): 19,
    ("resnet101", 224, 32): 17, ("resnet101", 224, 64): 14, ("resnet101", 500, 8): 16, ("resnet101", 1000, 2): 16,
    ("resnet152", 224, 32): 14, ("resnet152", 224, 64): 11, ("resnet152", 500, 8): 12, ("resnet152", 1000, 2): 12,
    ("densenet121", 224, 32): 11, ("densenet121", 224, 64): 9, ("densenet121", 500, 8): 9, ("densenet121", 1000, 2): 9,
    ("densenet161", 224, 32): 9, ("densenet161", 224, 64): 9, ("densenet161", 500, 8): 9, ("densenet161", 1000, 2): 9,
    ("densenet169", 224, 32): 9, ("densenet169", 224, 64): 8, ("densenet169", 500, 8): 9, ("densenet169", 1000, 2): 9,
    ("densenet201", 224, 32): 8, ("densenet201", 224, 64): 8, ("densenet201", 500, 8): 8, ("densenet201", 1000, 2): 8,
    ("inception_v3", 299, 32): 19, ("inception_v3", 299, 64): 16, ("inception_v3", 500, 8): 22, ("inception_v3", 1000, 2): 20,
}  # fmt: skip


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


def price_table(bench, before, cases):
    rows = [f"{'network':14}{'image':>6}{'batch':>6}{'limit':>6}  {'planner':9}{'unpacked ms':>12}{'in bytes':>9}{'before':>9}{'packed':>9}{'seconds':>9}"]
    ratios = {planner: {"before": [], "packed": [], "packed over in bytes": []} for planner in PLANNERS}
    for case in cases:
        network, image, batch = case
        percents = [round(SMALLEST[case] + share * (100 - SMALLEST[case])) for share in SHARES]
        lines = lines_of(bench, "price", network, str(image), str(batch), DEVICE, ",".join(PLANNERS), *map(str, percents))
        earlier = {}
        for line in lines:
            percent, limit, planner, *figures = line.split()
            if before and limit not in earlier:
                earlier[limit] = step_before(before, case, limit)
            unpacked, in_bytes, packed, seconds = map(float, figures)
            old = earlier[limit].get(planner) if before else None
            cells = [f"{value / unpacked:.4f}" if value and unpacked else "-" for value in (in_bytes, old, packed)]
            pairs = {"before": (old, unpacked), "packed": (packed, unpacked), "packed over in bytes": (packed, in_bytes)}
            for what, (value, of) in pairs.items():
                if value and of:
                    ratios[planner][what].append(value / of)
            head = f"{network:14}{image:>6}{batch:>6}{percent:>4} %  {planner:9}{1e3 * unpacked:>12.2f}"
            rows.append(head + "".join(f"{cell:>9}" for cell in cells) + f"{seconds:>9.2f}")
    summary = [f"{'planner':9}{'':21}{'points':>7}{'mean':>9}{'largest':>9}{'within 1 %':>12}"]
    for planner in PLANNERS:
        for what, values in ratios[planner].items():
            if values:
                near = sum(value <= 1.01 for value in values)
                mean = sum(values) / len(values)
                summary.append(f"{planner:9}{what:21}{len(values):>7}{mean:>9.4f}{max(values):>9.4f}{near:>12}")
    return summary + [""] + rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=os.path.join(ROOT, "build", "release", "packing_bench"))
    parser.add_argument("--before", help="a binary `outsize` of before")
    parser.add_argument("--results", default=os.path.join(ROOT, "bench", "results", "reach"))
    parser.add_argument("--only", help="`files`: no plans; else the network whose plans alone are made")
    arguments = parser.parse_args()
    text = ["bench/reach/packing.py: peak over the capacity, or over the largest sum of live bytes; processor seconds", ""]
    text += pack_table(arguments.bench)
    cases = [case for case in SMALLEST if arguments.only in (None, case[0])]
    if cases:
        text += ["", "The step of the plan that is taken (packed) over that of the planner's first plan packed into whatever it takes (unpacked),"]
        text += ["and over that of the first plan within the limit, were memory a sum of bytes (in bytes)", ""]
        text += price_table(arguments.bench, arguments.before, cases)
    os.makedirs(arguments.results, exist_ok=True)
    with open(os.path.join(arguments.results, "packing.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Plans large networks with every planner, and prints the processor seconds that each takes and what it finds.

    bench/reach/planning.py [--outsize build/release/outsize] [--before OTHER] [--planner NAME]... [--output FILE]

Seconds are those of a whole `outsize plan`, user and system; other programs on the machine make them some tenths longer. With
--before, another build's stand beside them, and whether its plan is the same: fits, step and peak, or the bytes that are missing.
"""

import argparse
import json
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, processor, table  # noqa: E402

# Model, its flags, the device, the budget.
CELLS = [
    ("resnet1001", "--batch 8 --image 32", "rtx-3080-10", "60%"),
    ("resnet1001", "--batch 8 --image 224", "rtx-3080-10", "30%"),
    ("resnet1001", "--batch 8 --image 32", "cpu", "40%"),
    ("gpt2-xl", "--batch 4 --seq 1024 --optimizer adamw", "rtx-3090-24", "60%"),
    ("gpt2-xl", "--batch 4 --seq 1024 --optimizer adamw", "rtx-3090-24", "12GiB"),
    ("densenet201", "--batch 8", "rtx-3080-10", "30%"),
    ("inception_v4", "--batch 4", "rtx-3080-10", "30%"),
]
SAME = ("fits", "step_s", "peak_bytes", "missing_bytes")


def planners_of(outsize):
    listed = subprocess.run([outsize, "planners"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line and not line.startswith(" ")]


def plan(outsize, cell, planner):
    """What `outsize plan` answers, and the processor seconds that it took."""
    model, flags, device, memory = cell
    command = [outsize, "plan", model, *flags.split(), "--device", device, "--memory", memory, "--planner", planner]
    command += ["--json", "--advice", "0", "--profile", "roofline"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout), after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def cell_rows(arguments, cell):
    rows = []
    for planner in arguments.planner or planners_of(arguments.outsize):
        answer, seconds = plan(arguments.outsize, cell, planner)
        ratio = answer["ratio_to_keep"]
        row = [planner, f"{seconds:.1f}", f"{ratio:.3f}" if ratio else "refused"]
        if arguments.before:
            other, other_seconds = plan(arguments.before, cell, planner)
            row += [f"{other_seconds:.1f}", "same" if all(other[key] == answer[key] for key in SAME) else "another"]
        rows.append(row)
        print(*cell, *row, file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--before", help="another build to compare with")
    parser.add_argument("--planner", action="append", help="only these")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    text = f"Processor seconds of planning, on {processor()}.\n"
    for cell in CELLS:
        head = ["planner", "seconds", "step / keep"] + (["seconds before", "plan"] if arguments.before else [])
        text += f"\n{' '.join(cell[:2])} on {cell[2]}, {cell[3]}\n\n{table([head, *cell_rows(arguments, cell)])}\n"
    give_out(text, arguments.output)


if __name__ == "__main__":
    main()

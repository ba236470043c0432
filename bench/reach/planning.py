#!/usr/bin/env python3
"""Plans large networks with every planner, and prints the processor seconds that each takes and what it finds.

    bench/reach/planning.py [--outsize build/release/outsize] [--before OTHER] [--planner NAME]... [--cell N]...
                            [--tier with|without]... [--output bench/results/reach/planning.txt]

Every cell is planned with a lower tier, the host's memory, and without one. Seconds are those of a whole `outsize plan`, user and
system; other programs on the machine make them some tenths longer. With --before, another build's stand beside them, and whether its
plan is the same: fits, step and peak, or the bytes that are missing.
"""

import argparse
import datetime
import json
import os
import resource
import shlex
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
    ("gpt2-xl", "--batch 4 --seq 1024 --optimizer adamw", "h200-141", "12GiB"),
    ("densenet201", "--batch 8", "rtx-3080-10", "30%"),
    ("inception_v4", "--batch 4", "rtx-3080-10", "30%"),
    ("inception_v4", "--batch 4", "cpu", "42%"),
]
# The host's memory with a lower tier, and without one: described cards have some, unless hardly any is given; a processor has none.
WITH, HARDLY_ANY = "256GiB", "1MiB"
SAME = ("fits", "step_s", "peak_bytes", "missing_bytes")
MOST = 5  # seconds that no planner is to take more than


def planners_of(outsize):
    listed = subprocess.run([outsize, "planners", "--json"], capture_output=True, text=True, check=True).stdout
    return [planner["name"] for planner in json.loads(listed)["rows"]]


def plan(outsize, cell, planner, tier):
    """What `outsize plan` answers, and the processor seconds that it took."""
    model, flags, device, memory = cell
    command = [outsize, "plan", model, *flags.split(), "--device", device, "--memory", memory, "--planner", planner]
    if tier == "with" or device != "cpu":
        command += ["--host-memory", WITH if tier == "with" else HARDLY_ANY]
    command += ["--json", "--advice", "0", "--profile", "roofline"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout:
        sys.exit(f"{shlex.join(command)}\nended with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout), after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def is_same(one, other):
    return all(one.get(key) == other.get(key) for key in SAME)


def cell_rows(arguments, cell, slow):
    rows = []
    for planner in arguments.planner or planners_of(arguments.outsize):
        row = [planner]
        for tier in arguments.tier:
            answer, seconds = plan(arguments.outsize, cell, planner, tier)
            ratio = answer["ratio_to_keep"]
            row += [f"{seconds:.1f}", f"{ratio:.3f}" if ratio else "refused"]
            if seconds > MOST:
                slow.append(f"{planner} {seconds:.1f} s for {' '.join(cell)} {tier} a lower tier")
            if arguments.before:
                other, other_seconds = plan(arguments.before, cell, planner, tier)
                row += [f"{other_seconds:.1f}", "same" if is_same(other, answer) else "another"]
        rows.append(row)
        print(*cell, *row, file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--before", help="another build to compare with")
    parser.add_argument("--planner", action="append", help="only these")
    parser.add_argument("--cell", action="append", type=int, choices=range(len(CELLS)), help="only these, counted from 0")
    parser.add_argument("--tier", action="append", choices=["with", "without"], help="only with, or only without a lower tier")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    arguments.tier = arguments.tier or ["with", "without"]
    text = f"{shlex.join(sys.argv)}\n{datetime.date.today()}, {processor()}\n\nProcessor seconds of planning\n"
    slow = []
    for cell in [CELLS[k] for k in arguments.cell or range(len(CELLS))]:
        head = ["planner"]
        for tier in arguments.tier:
            head += [f"{tier} a lower tier: s", "step / keep"] + (["s before", "plan"] if arguments.before else [])
        text += f"\n{' '.join(cell[:2])} on {cell[2]}, {cell[3]}\n\n{table([head, *cell_rows(arguments, cell, slow)])}\n"
    text += f"\nMore than {MOST} s: {'; '.join(slow) or 'none'}\n"
    give_out(text, arguments.output)


if __name__ == "__main__":
    main()

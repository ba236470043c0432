#!/usr/bin/env python3
"""Recomputation without a lower tier: planner `remake` beside the fastest other planner, simulated, over `keep`.

  bench/reach/remake.py [MODEL ...]      all cells, or those of these models

Each row is one budget, in per cent of what `keep` takes: the best of the other planners (`outsize compare`), `remake`, the bound, and the
goal. `seconds` are those of the processor that planning with `remake` took.
"""
import json
import os
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build/release/outsize")

# Model, its flags, and the goal at each budget; None: refused, as weights and states, or one map beside them, take more.
CELLS = [
    ("resnet50", "--batch 16", {60: 1.03, 42: 1.07, 30: 1.18}),
    ("densenet121", "--batch 8", {60: 1.03, 42: 1.05, 30: 1.07}),
    ("convnext-tiny", "--batch 8", {60: 1.03, 42: 1.075, 30: 1.22}),
    ("inception_v4", "--batch 4", {60: 1.015, 42: 1.23, 30: None}),
    ("unet2d", "--batch 2 --image 256", {60: 1.02, 42: 1.3, 30: None}),
    ("unet3d", "--batch 1 --image 64", {60: 1.03, 42: 1.08, 33: 1.25, 30: float("inf")}),
]


def outsize(*words):
    run = subprocess.run([PROGRAM, *words, "--json"], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(f"{' '.join(words)}: {run.stderr}")
    return json.loads(run.stdout)


def planners():
    names = [row["name"] for row in outsize("planners")["rows"]]
    return [name for name in names if name != "remake"]


def show(ratio):
    if ratio is None:
        return "refused"
    return "fits" if ratio == float("inf") else f"{ratio:.3f}"


def main():
    others = ",".join(planners())
    print(f"{'model':<14} {'budget':>6} {'others':>8} {'by':<16} {'remake':>8} {'tiles':>5} {'bound':>6} {'goal':>8} {'seconds':>7}")
    for model, flags, goals in CELLS:
        if len(sys.argv) > 1 and model not in sys.argv[1:]:
            continue
        task = [model, *flags.split(), "--backend", "cpu"]
        for percent, goal in goals.items():
            memory = ["--memory", f"{percent}%"]
            rows = [row for row in outsize("compare", *task, *memory, "--planners", others)["rows"] if row["fits"]]
            best = min(rows, key=lambda row: row["ratio_to_keep"], default=None)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            ours = outsize("plan", *task, *memory, "--planner", "remake", "--advice", "0")
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            bound = ours["lower_bound_s"] / ours["keep_step_s"]
            print(f"{model:<14} {percent:>4} % {show(best and best['ratio_to_keep']):>8} {best['planner'] if best else '':<16} "
                  f"{show(ours['ratio_to_keep'] if ours['fits'] else None):>8} {ours.get('tiles') or 0:>5} {bound:>6.3f} {show(goal):>8} "
                  f"{seconds:>7.1f}", flush=True)


if __name__ == "__main__":
    main()

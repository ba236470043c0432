#!/usr/bin/env python3
"""Recomputation without a lower tier: planner `remake` beside the fastest other planner, simulated, over `keep`.

  bench/reach/remake.py [MODEL ...]            all cells, or those of these models
  bench/reach/remake.py --execute [MODEL ...]  trains them, beside `keep`

Each row is one budget, in per cent of what `keep` takes: the best of the other planners (`outsize compare`), `remake`, the bound, and the
goal. `seconds` are those of the processor that planning with `remake` took.

With --execute, ops are measured first and plans made by that. Then each round trains a few steps with `keep` and with each plan in turn;
the first step of each does not count. `ratio` is the median, over the rounds, of the plan's median step over that of `keep` in the same
round; `apart` is how far it is from what was predicted. `bits` says whether weights and states are those of `keep`.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Model, its flags, and the goal at each budget; None: refused, as weights and states, or one map beside them, take more.
CELLS = [
    ("resnet50", "--batch 16", {60: 1.03, 42: 1.07, 30: 1.18}),
    ("densenet121", "--batch 8", {60: 1.03, 42: 1.05, 30: 1.07}),
    ("convnext-tiny", "--batch 8", {60: 1.03, 42: 1.075, 30: 1.22}),
    ("inception_v4", "--batch 4", {60: 1.015, 42: 1.23, 30: None}),
    ("unet2d", "--batch 2 --image 256", {60: 1.02, 42: 1.3, 30: None}),
    ("unet3d", "--batch 1 --image 64", {60: 1.03, 42: 1.08, 33: 1.25, 30: float("inf")}),
]


class Program:
    def __init__(self, path, cache=None):
        self.path = path
        self.environment = {**os.environ, **({"XDG_CACHE_HOME": cache} if cache else {})}

    def text(self, *words):
        run = subprocess.run([self.path, *words], env=self.environment, capture_output=True, text=True, check=False)
        if run.returncode not in (0, 1):
            sys.exit(f"{' '.join(words)}: {run.stderr}")
        return run.stdout

    def __call__(self, *words):
        return json.loads(self.text(*words, "--json"))

    def other_planners(self):
        names = [row["name"] for row in self("planners")["rows"]]
        return [name for name in names if name not in ("remake", "auto")]  # auto takes the best of all


def show(ratio):
    if ratio is None:
        return "refused"
    return "fits" if ratio == float("inf") else f"{ratio:.3f}"


def simulate(program, cells):
    others = ",".join(program.other_planners())
    print(f"{'model':<14} {'budget':>6} {'others':>8} {'by':<16} {'remake':>8} {'tiles':>5} {'bound':>6} {'goal':>8} {'seconds':>7}")
    for model, flags, goals in cells:
        task = [model, *flags.split(), "--backend", "cpu", "--profile", "roofline"]
        for percent, goal in goals.items():
            memory = ["--memory", f"{percent}%"]
            rows = [row for row in program("compare", *task, *memory, "--planners", others)["rows"] if row["fits"]]
            best = min(rows, key=lambda row: row["ratio_to_keep"], default=None)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            ours = program("plan", *task, *memory, "--planner", "remake", "--advice", "0")
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            bound = ours["lower_bound_s"] / ours["keep_step_s"]
            print(f"{model:<14} {percent:>4} % {show(best and best['ratio_to_keep']):>8} {best['planner'] if best else '':<16} "
                  f"{show(ours['ratio_to_keep'] if ours['fits'] else None):>8} {ours.get('tiles') or 0:>5} {bound:>6.3f} {show(goal):>8} "
                  f"{seconds:>7.1f}", flush=True)


def execute(path, cells, rounds, steps):
    print(f"{'model':<14} {'budget':>6} {'predicted':>9} {'ratio':>6} {'(least-most)':<13} {'apart':>6} {'peak':>5} {'bits':>5} {'tiles':>5}")
    for model, flags, goals in cells:
        with tempfile.TemporaryDirectory() as folder:
            program = Program(path, folder)
            task = [model, *flags.split(), "--backend", "cpu"]
            program("plan", *task, "--planner", "keep", "--profile", "measured")
            plans = {}
            for percent in goals:
                words = [*task, "--memory", f"{percent}%", "--planner", "remake", "--advice", "0"]
                plan = program("plan", *words)
                if not plan["fits"]:
                    print(f"{model:<14} {percent:>4} %   refused", flush=True)
                    continue
                file = os.path.join(folder, f"{percent}.plan")
                with open(file, "w", encoding="utf-8") as out:
                    out.write(program.text("plan", *words, "--dump", "plan"))
                plans[percent] = (file, plan["ratio_to_keep"])
            train = ["train", *task, "--steps", str(steps + 1)]
            found = {percent: [] for percent in plans}
            for _ in range(rounds):
                keep = program(*train, "--planner", "keep")
                for percent, (file, _) in plans.items():
                    found[percent].append((keep, program(*train, "--plan", file, "--memory", f"{percent}%")))
            for percent, (_, predicted) in plans.items():
                print(executed_row(model, percent, predicted, found[percent]), flush=True)


def executed_row(model, percent, predicted, turns):
    step = lambda run: statistics.median(run["step_seconds"][1:])
    ratios = [step(ours) / step(keep) for keep, ours in turns]
    ratio = statistics.median(ratios)
    peak = all(ours["measured_peak_bytes"] == ours["predicted_peak_bytes"] for _, ours in turns)
    bits = all(ours[key] == keep[key] for keep, ours in turns for key in ("params_sha256", "states_sha256", "losses"))
    return (f"{model:<14} {percent:>4} % {predicted:>9.3f} {ratio:>6.3f} {f'({min(ratios):.3f}-{max(ratios):.3f})':<13} "
            f"{100 * (ratio / predicted - 1):>+5.1f}% {'as' if peak else 'not':>5} {'same' if bits else 'other':>5} {turns[0][1]['tiles']:>5}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default=os.path.join(ROOT, "build/release/outsize"))
    parser.add_argument("--execute", action="store_true", help="train, and print measured beside predicted")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="that count in each round")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    arguments = parser.parse_args()
    cells = [cell for cell in CELLS if not arguments.models or cell[0] in arguments.models]
    if arguments.execute:
        execute(arguments.outsize, cells, arguments.rounds, arguments.steps)
    else:
        simulate(Program(arguments.outsize), cells)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Predicts the training step of several models and runs it, and prints how far the two are apart.

    bench/predict/run.py [--outsize build/release/outsize] [--planner NAME]... [--output bench/results/predict.txt]

Each round begins with nothing measured: `outsize plan --profile measured` times every op of the model, one by one, and predicts;
then `outsize train` makes some steps with the same plan, of which the first does not count. What a description of the processor
alone predicts (`--profile roofline`) stands beside it.
"""

import argparse
import datetime
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, output_of, processor, size_flag, table  # noqa: E402

# Model, batch, extent (of an image's side, or of the sequence).
MODELS = [
    ("vgg16-features", 1, 128),
    ("resnet50", 2, 128),
    ("densenet121", 2, 64),
    ("inception_v3", 2, 299),
    ("unet3d", 1, 32),
    ("bert-base", 1, 64),
    ("gpt2", 1, 64),
]


def one_round(arguments, planner, model, batch, extent):
    """What is predicted from measured ops and from the roofline, and the median step."""
    same = [model, "--batch", str(batch), size_flag(model), str(extent), "--threads", str(arguments.threads), "--json"]
    same += (["--plan", arguments.plan] if arguments.plan else ["--planner", planner]) + arguments.extra
    with tempfile.TemporaryDirectory() as folder:
        cache = {"XDG_CACHE_HOME": folder}
        plan = output_of([arguments.outsize, "plan", *same, "--profile", "measured"], cache)
        train = output_of([arguments.outsize, "train", *same, "--steps", str(arguments.steps + 1)], cache)
        roofline = output_of([arguments.outsize, "plan", *same, "--profile", "roofline"], cache)
    return plan, roofline["step_s"], statistics.median(train["step_seconds"][1:])


def row_of(arguments, planner, task):
    rounds = [one_round(arguments, planner, *task) for _ in range(arguments.rounds)]
    measured = statistics.median(seconds for _, _, seconds in rounds)
    ratios = [plan["step_s"] / seconds for plan, _, seconds in rounds]
    ratio = statistics.median(ratios)
    plan, roofline, _ = rounds[0]
    cells = [planner, task[0], task[1], task[2], f"{plan['measured_ops']} of {plan['distinct_ops']}"]
    cells += [f"{statistics.median(plan['step_s'] for plan, _, _ in rounds):.4f}", f"{measured:.4f}"]
    cells += [f"{ratio:.3f} ({min(ratios):.3f}-{max(ratios):.3f})", f"{roofline / measured:.3f}"]
    return [str(cell) for cell in cells], ratio


def report(arguments, tasks):
    rows = [["planner", "model", "batch", "size", "measured ops", "predicted s", "step s", "predicted / step", "roofline / step"]]
    errors = []
    for planner in [arguments.plan] if arguments.plan else arguments.planner or ["keep"]:
        for task in tasks:
            cells, ratio = row_of(arguments, planner, task)
            rows.append(cells)
            errors.append(abs(ratio - 1))
    lines = [
        f"One training step: as predicted from ops timed one by one, and as it is; medians (least-most) of {arguments.rounds} rounds.",
        f"{datetime.date.today()}, {processor()}, {arguments.threads} threads",
        "$ " + " ".join(["bench/predict/run.py", *sys.argv[1:]]),
        "",
        table(rows),
        "",
        f"median distance {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=7, help="steps that count in each round")
    parser.add_argument("--planner", action="append", help="again for more [keep]")
    parser.add_argument("--plan", help="run this plan instead; give one --model")
    parser.add_argument("--model", action="append", help="only this one (again for more)")
    parser.add_argument("--output", help="also write the report there")
    parser.add_argument("extra", nargs="*", help="further flags of both commands, after --")
    arguments = parser.parse_args()
    tasks = [task for task in MODELS if not arguments.model or task[0] in arguments.model]
    give_out(report(arguments, tasks), arguments.output)


if __name__ == "__main__":
    main()

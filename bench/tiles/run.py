#!/usr/bin/env python3
"""Trains networks in budgets far below what they take as a whole, beside `keep` where that fits.

    bench/tiles/run.py [--outsize build/release/outsize] [--large] [--output bench/results/tiles.txt]

A row is one run of `outsize train`: the peak is measured, and the same as predicted. Times are medians over the steps, and count as
ratios within one run of this script. --large adds rows that take minutes and some 20 GiB of host memory.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, output_of, processor, table  # noqa: E402

# Model, image side, batch, planner, budget in MiB (0: none).
ROWS = [
    ("vgg16-features", 512, 1, "keep", 0),
    ("vgg16-features", 512, 1, "2ps-h", 300),
    ("vgg16-features", 1024, 1, "keep", 0),
    ("vgg16-features", 1024, 1, "2ps-h", 300),
    ("vgg16-features", 2048, 1, "2ps-h", 300),
    ("resnet50", 1024, 1, "keep", 0),
    ("resnet50", 1024, 1, "2ps-h", 471),
    ("resnet50", 224, 8, "keep", 0),
    ("resnet50", 224, 8, "2ps-h", 450),
    ("resnet50", 224, 64, "keep", 0),
    ("resnet50", 224, 64, "2ps-h", 450),
]
LARGE = [("vgg16-features", 4096, 1, "2ps-h", 300), ("resnet50", 224, 512, "2ps-h", 450)]


def one_row(arguments, model, side, batch, planner, budget):
    command = [arguments.outsize, "train", model, "--image", str(side), "--batch", str(batch), "--planner", planner, "--profile", "roofline"]
    command += ["--steps", str(arguments.steps), "--json"] + (["--memory", f"{budget}MiB"] if budget else [])
    found = output_of(command)
    assert found["measured_peak_bytes"] == found["predicted_peak_bytes"], command
    pixels = side * side * batch
    return [
        model, str(side), str(batch), planner, str(budget or "-"), f"{found['measured_peak_bytes'] / 2**20:.1f}",
        f"{found['host_bytes'] / 2**20:.0f}", f"{found['measured_step_s']:.2f}", f"{found['measured_step_s'] / pixels * 1e6:.2f}",
        str(found["tiles"]), f"{found['losses'][0]:.6f}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--output", help="also write the table there")
    arguments = parser.parse_args()
    rows = [one_row(arguments, *row) for row in ROWS + (LARGE if arguments.large else [])]
    heads = ["model", "side", "batch", "planner", "budget MiB", "peak MiB", "host MiB", "step s", "us a pixel", "tiles", "first loss"]
    command = "bench/tiles/run.py" + (" --large" if arguments.large else "")
    give_out(f"{command}\n{processor()}\n\n{table([heads] + rows)}\n", arguments.output)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains networks in budgets far below what they take as a whole, beside `keep` where that fits.

    bench/tiles/run.py [--outsize build/release/outsize] [--large] [--only MODEL,…] [--output bench/results/tiles.txt]

A row is one run of `outsize train`: the peak is measured, and the same as predicted. Times are medians over the steps, and count as
ratios within one run of this script. --large makes the rows that take minutes, 20 GiB of host memory and some 25 GB of disk instead
(one step each but for `keep`).
"""

import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, output_of, processor, table  # noqa: E402

# Model, image side, dimensions, batch, planner, budget in MiB (0: none), and what else the command is given.
ROWS = [
    ("vgg16-features", 512, 2, 1, "keep", 0, []),
    ("vgg16-features", 512, 2, 1, "2ps-h", 300, []),
    ("vgg16-features", 1024, 2, 1, "keep", 0, []),
    ("vgg16-features", 1024, 2, 1, "2ps-h", 300, []),
    ("vgg16-features", 2048, 2, 1, "2ps-h", 300, []),
    ("resnet50", 1024, 2, 1, "keep", 0, []),
    ("resnet50", 1024, 2, 1, "2ps-h", 471, []),
    ("resnet50", 224, 2, 8, "keep", 0, []),
    ("resnet50", 224, 2, 8, "2ps-h", 450, []),
    ("resnet50", 224, 2, 64, "keep", 0, []),
    ("resnet50", 224, 2, 64, "2ps-h", 450, []),
]
SPILL = ["--host-memory", "10GiB", "--spill", "SPILL"]
SLIDES = ["--data", "generated:slides"]
LARGE = [
    ("vgg16-features", 1024, 2, 1, "keep", 0, []),
    ("vgg16-features", 1024, 2, 1, "2ps-h", 300, []),
    ("vgg16-features", 4096, 2, 1, "2ps-h", 300, []),
    ("slide-s", 2048, 2, 1, "keep", 0, SLIDES),
    ("slide-s", 30000, 2, 1, "overl-h", 256, SLIDES + ["--host-memory", "1GiB"]),
    ("slide-s", 2048, 2, 1, "keep", 0, SLIDES),  # again: machines change in minutes
    ("resnet50", 224, 2, 512, "2ps-h", 450, SPILL),
    ("unet3d", 192, 3, 1, "2ps-h", 2048, SPILL),
]


def one_row(arguments, model, side, dimensions, batch, planner, budget, more):
    command = [arguments.outsize, "train", model, "--image", str(side), "--batch", str(batch), "--planner", planner]
    command += ["--profile", "roofline", "--json"] + (["--memory", f"{budget}MiB"] if budget else [])
    command += ["--steps", str(1 if arguments.large and budget else arguments.steps)]
    with tempfile.TemporaryDirectory() as directory:
        found = output_of(command + [directory if word == "SPILL" else word for word in more])
    assert found["measured_peak_bytes"] == found["predicted_peak_bytes"], command
    pixels = side**dimensions * batch
    row = [
        model, str(side), str(batch), planner, str(budget or "-"), f"{found['measured_peak_bytes'] / 2**20:.1f}",
        f"{found['host_bytes'] / 2**20:.0f}", f"{found['peak_resident_bytes'] / 2**20:.0f}", f"{found['measured_step_s']:.2f}",
        f"{found['measured_step_s'] / pixels * 1e6:.3f}", str(found["tiles"]), f"{found['losses'][0]:.6f}",
    ]
    print(*row, file=sys.stderr, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", help="rows of these models alone")
    parser.add_argument("--output", help="also write the table there")
    arguments = parser.parse_args()
    models = arguments.only.split(",") if arguments.only else None
    rows = [one_row(arguments, *row) for row in (LARGE if arguments.large else ROWS) if not models or row[0] in models]
    heads = ["model", "side", "batch", "planner", "budget MiB", "peak MiB", "host MiB", "RSS MiB", "step s", "us a pixel", "tiles", "first loss"]
    command = "bench/tiles/run.py" + (" --large" if arguments.large else "") + (f" --only {arguments.only}" if arguments.only else "")
    command += f" --steps {arguments.steps}" if arguments.steps != parser.get_default("steps") else ""
    give_out(f"{command}\n{processor()}\n\n{table([heads] + rows)}\n", arguments.output)


if __name__ == "__main__":
    main()

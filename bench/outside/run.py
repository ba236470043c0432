#!/usr/bin/env python3
"""What a process takes beside its plan: for every model of the zoo, for large images in tiles, and for a long run.

    bench/outside/run.py [--outsize build/release/outsize] [--part zoo|images|long]... [--only MODEL]... [--output bench/results/outside.txt]

A row is one run of `outsize train`. Budget and peak are of the plan; the process is what the operating system counts at its peak
(VmHWM), and what of it lies outside the plan is to be at most 128 MiB.
"""

import argparse
import datetime
import json
import os
import shlex
import struct
import subprocess
import sys
import tempfile
from random import Random

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, output_of, processor, size_flag, table  # noqa: E402

MOST = 128 << 20  # bytes outside the plan

# Models of the zoo whose networks are too small or too large for what is taken otherwise: batch, extent, and more flags.
OWN = {
    "inception_v3": (2, 299, []),
    "inception_v4": (2, 96, []),
    "unet3d": (1, 32, []),
    "gpt2-xl": (1, 64, ["--width", "0.5"]),  # whole it is 6 GiB of weights, and as much of gradients
}

# Model, extent, planner, budget in MiB, steps, more flags. A narrow VGG has the program of the whole one.
NARROW = ["--width", "0.25"]
IMAGES = [
    ("vgg16-features", 1024, "2ps-h", 300, 2, []),
    ("vgg16-features", 2048, "2ps-h", 600, 1, []),
    ("vgg16-features", 2048, "sft", 400, 1, NARROW),
    ("vgg16-features", 4096, "2ps-h", 400, 1, NARROW),
    ("vgg16-features", 8192, "2ps-h", 700, 1, NARROW),
    ("resnet50", 1024, "2ps-h", 500, 2, []),
    ("resnet50", 2048, "2ps-h", 1000, 1, []),
    ("unet2d", 1024, "2ps-h", 600, 1, NARROW + ["--classes", "4"]),
    ("slide-s", 2048, "2ps-h", 300, 2, []),
    ("slide-s", 4096, "2ps-h", 300, 1, []),
    ("slide-s", 8192, "2ps-h", 300, 1, []),
    ("slide-s", 16384, "overl-h", 300, 1, ["--data", "generated:slides"]),
]

# FOLDER is a directory of the run's own, which holds the data.
LONG = [
    ("resnet18", ["--image", "32", "--batch", "128", "--width", "0.25", "--planner", "checkpoint", "--memory", "75%", "--steps", "500",
                  "--data", "FOLDER/x.npy", "--augment", "flip,crop", "--eval-data", "FOLDER/x.npy", "--eval-every", "50",
                  "--checkpoint-every", "10", "--checkpoint", "FOLDER/checkpoints"]),
]


def write_npy(path, kind, shape, content):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def write_data(folder, samples=2000, classes=10):
    random = Random(0)
    write_npy(folder + "/x.npy", "|u1", (samples, 3, 32, 32), random.randbytes(samples * 3 * 32 * 32))
    write_npy(folder + "/y.npy", "|u1", (samples,), bytes(random.randrange(classes) for _ in range(samples)))


def zoo_tasks(arguments):
    for model in output_of([arguments.outsize, "models", "--json"])["rows"]:
        name = model["name"]
        batch, extent, more = OWN.get(name, (2, 64, []))
        yield name, [size_flag(name), str(extent), "--batch", str(batch), "--steps", "3", *more]


def image_tasks(_):
    for model, extent, planner, budget, steps, more in IMAGES:
        flags = ["--image", str(extent), "--batch", "1", "--planner", planner, "--memory", f"{budget}MiB", "--steps", str(steps)]
        yield model, flags + more


def long_tasks(_):
    yield from LONG


PARTS = {"zoo": zoo_tasks, "images": image_tasks, "long": long_tasks}


def mebibytes(size):
    return f"{size / 2**20:.1f}"


def row_of(arguments, model, flags):
    """The cells of a run, and what of it lies outside the plan."""
    with tempfile.TemporaryDirectory() as folder:
        words = [word.replace("FOLDER", folder) for word in flags]
        if words != flags:
            write_data(folder)
        command = [arguments.outsize, "train", model, *words, "--profile", "roofline", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    shown = " ".join(flags)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["nothing said"]
        return [model, shown, "", "", "", "", f"status {done.returncode}: {said[0][:120]}"], None
    found = json.loads(done.stdout)
    outside = found["outside_bytes"]
    sizes = [found["budget_bytes"], found["measured_peak_bytes"], found["process_peak_bytes"], outside]
    return [model, shown, *map(mebibytes, sizes), "yes" if outside <= MOST else "NO"], outside


def report(arguments):
    rows = [["model", "flags", "budget", "peak", "process", "outside", "at most 128 MiB"]]
    most = []
    for part in arguments.part or PARTS:
        for model, flags in PARTS[part](arguments):
            if arguments.only and model not in arguments.only:
                continue
            cells, outside = row_of(arguments, model, flags)
            print(*cells, file=sys.stderr, flush=True)
            rows.append(cells)
            most.append((outside is None, outside or 0, model))
    failed = sum(missing for missing, _, _ in most)
    over = sum(not missing and outside > MOST for missing, outside, _ in most)
    _, largest, model = max((one for one in most if not one[0]), default=(True, 0, "none"))
    lines = [
        "What a process takes beside its plan, in MiB.",
        f"{datetime.date.today()}, {processor()}, {os.cpu_count()} threads",
        "$ " + shlex.join(["bench/outside/run.py", *sys.argv[1:]]),
        "",
        table(rows),
        "",
        f"{len(most)} runs; {over} above 128 MiB, {failed} that did not run; the most outside is {mebibytes(largest)} ({model})",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one (again for more)")
    parser.add_argument("--only", action="append", help="only this model (again for more)")
    parser.add_argument("--output", help="also write the report there")
    arguments = parser.parse_args()
    give_out(report(arguments), arguments.output)


if __name__ == "__main__":
    main()

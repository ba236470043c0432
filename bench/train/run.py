#!/usr/bin/env python3
"""Trains the same models with Outsize and with PyTorch, side by side, and prints how they compare in time and memory.

    bench/train/run.py --outsize build/release/outsize [--output bench/results/train.txt]

Both get the same threads. Both are first tried under several settings (OpenMP wait policy; for PyTorch also layout and malloc
thresholds), and the fastest of each are used. Then processes of both alternate, so that a slow spell of the machine hits both; the
first steps of each process warm up and do not count. Memory is the peak device arena of Outsize (which holds parameters, gradients, momentum, activations and
workspace) against PyTorch's peak resident memory above what it has after loading its libraries.
"""

import argparse
import datetime
import os
import shlex
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from common import TOKENS, give_out, output_of, processor, size_flag, table  # noqa: E402

# Model, batch, extent (of an image's side, or of the sequence), planner. Neither side drops out.
MODELS = [
    ("vgg16-features", 1, 512, "keep"),
    ("resnet50", 8, 224, "keep"),
    ("resnet50", 8, 224, "recompute-cheap"),
    ("densenet121", 8, 224, "keep"),
    ("inception_v3", 8, 299, "keep"),
    ("unet3d", 1, 64, "keep"),
    ("bert-base", 4, 128, "keep"),
]
WARM_UP = 1
MIB = 1024 * 1024

PASSIVE = {"OMP_WAIT_POLICY": "passive"}
SHORT_SPIN = {"GOMP_SPINCOUNT": "20000"}  # what Outsize gives itself where nothing is set
# Keeps freed blocks in the process instead of giving the pages back after every step.
KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 26)}
SETTINGS = {
    "contiguous": (PASSIVE, []),
    "channels_last": (PASSIVE, ["--channels-last"]),
    "contiguous, kept pages": ({**PASSIVE, **KEEP_PAGES}, []),
    "channels_last, kept pages": ({**PASSIVE, **KEEP_PAGES}, ["--channels-last"]),
    "contiguous, short spin": (SHORT_SPIN, []),
    "channels_last, short spin": (SHORT_SPIN, ["--channels-last"]),
    "contiguous, active wait": ({}, []),
}
OUR_SETTINGS = {"passive wait": PASSIVE, "short spin": SHORT_SPIN}


def settings_of(model):
    """A model of tokens has no layout to choose."""
    return {name: value for name, value in SETTINGS.items() if "--channels-last" not in value[1] or not model.startswith(TOKENS)}


def run_torch(arguments, task, setting, steps):
    model, batch, extent, _ = task
    environment, flags = SETTINGS[setting]
    command = [arguments.python, os.path.join(HERE, "torch_step.py"), model, "--batch", str(batch), size_flag(model), str(extent)]
    command += ["--steps", str(steps), "--threads", str(arguments.threads)] + flags
    report = output_of(command, {**environment, "OMP_NUM_THREADS": str(arguments.threads)})
    return report["seconds"][WARM_UP:], report["peak_bytes"]


def run_outsize(arguments, task, setting, steps):
    model, batch, extent, planner = task
    command = [arguments.outsize, "train", model, "--json", "--planner", planner, "--batch", str(batch), size_flag(model), str(extent)]
    command += ["--dropout", "0", "--steps", str(steps), "--threads", str(arguments.threads)] + arguments.extra
    report = output_of(command, OUR_SETTINGS[setting])
    return report["step_seconds"][WARM_UP:], report


def compare(arguments, task):
    """The medians and peaks of both sides for one model."""
    probes = {name: statistics.median(run_torch(arguments, task, name, WARM_UP + 2)[0]) for name in settings_of(task[0])}
    best = min(probes, key=probes.get)
    our_probes = {name: statistics.median(run_outsize(arguments, task, name, WARM_UP + 2)[0]) for name in OUR_SETTINGS}
    our_best = min(our_probes, key=our_probes.get)
    ours, theirs, our_peaks, their_peaks, resident = [], [], [], [], []
    for _ in range(arguments.rounds):
        seconds, report = run_outsize(arguments, task, our_best, WARM_UP + arguments.steps)
        ours += seconds
        our_peaks.append(report["measured_peak_bytes"])
        resident.append(report["peak_resident_bytes"])
        seconds, peak = run_torch(arguments, task, best, WARM_UP + arguments.steps)
        theirs += seconds
        their_peaks.append(peak)
    return {
        "task": task,
        "setting": best,
        "probes": probes,
        "our_setting": our_best,
        "our_probes": our_probes,
        "ours": ours,
        "theirs": theirs,
        "our_peak": max(our_peaks),
        "our_resident": max(resident),
        "their_peak": min(their_peaks),
    }


def spread(seconds):
    return f"{statistics.median(seconds):.3f} ({min(seconds):.3f}-{max(seconds):.3f})"


def rows_of(results):
    rows = [["model", "batch", "size", "planner", "Outsize s", "PyTorch s", "time ratio", "Outsize MiB", "PyTorch MiB", "memory ratio"]]
    for result in results:
        model, batch, extent, planner = result["task"]
        time_ratio = statistics.median(result["ours"]) / statistics.median(result["theirs"])
        rows.append(
            [
                model,
                str(batch),
                str(extent),
                planner,
                spread(result["ours"]),
                spread(result["theirs"]),
                f"{time_ratio:.3f}",
                f"{result['our_peak'] / MIB:.0f}",
                f"{result['their_peak'] / MIB:.0f}",
                f"{result['our_peak'] / result['their_peak']:.3f}",
            ]
        )
    return rows


def listed(probes):
    return "; ".join(f"{name} {seconds:.3f} s" for name, seconds in probes.items())


def report(arguments, results):
    versions = subprocess.run(
        [arguments.python, "-c", "import torch, torchvision; print('PyTorch', torch.__version__, 'torchvision', torchvision.__version__)"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    steps = arguments.rounds * arguments.steps
    lines = [
        "One training step, f32: Outsize and PyTorch, medians (least-most) of "
        f"{steps} steps in {arguments.rounds} alternating processes each; ratios are Outsize / PyTorch, less is better.",
        f"{datetime.date.today()}, {processor()}, {arguments.threads} threads, {versions}",
        "",
        table(rows_of(results)),
        "",
    ]
    for result in results:
        lines.append(f"{result['task'][0]}, {result['task'][3]}:")
        lines.append(f"  PyTorch ran as '{result['setting']}'; tried: {listed(result['probes'])}")
        lines.append(f"  Outsize ran as '{result['our_setting']}'; tried: {listed(result['our_probes'])}")
        lines.append(f"  peak resident memory of the whole Outsize process: {result['our_resident'] / MIB:.0f} MiB")
    lines += ["", "bench/train/run.py --outsize build/release/outsize " + shlex.join(arguments.given)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter with torch and torchvision")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--steps", type=int, default=3, help="steps that count in each process")
    parser.add_argument("--model", action="append", help="only this one (again for more)")
    parser.add_argument("--output", help="also write the report there")
    parser.add_argument("extra", nargs="*", help="further flags of `outsize train`, after --")
    arguments = parser.parse_args()
    if arguments.rounds * arguments.steps < 5:
        parser.error("give at least five steps that count")
    given = sys.argv[1:]
    arguments.given = [word for i, word in enumerate(given) if word != "--outsize" and (i == 0 or given[i - 1] != "--outsize")]
    tasks = [task for task in MODELS if not arguments.model or task[0] in arguments.model]
    give_out(report(arguments, [compare(arguments, task) for task in tasks]), arguments.output)


if __name__ == "__main__":
    main()

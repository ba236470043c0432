#!/usr/bin/env python3
"""Tables IV, V and VI and figures 12 to 14 of "TSPLIT: fine-grained GPU memory management for efficient DNN training via tensor splitting".

    bench/papers/tsplit.py [--outsize build/release/outsize] [--results bench/results/papers]

The largest batch (tables IV and VI) and the largest factor on all channels or hidden sizes with batch 16 (table V) that each planner fits
into the 24 GB of a Titan RTX; throughput by batch on it and on a 1080 Ti; the largest batch at a share of the throughput without a limit, with
and without splitting.
"""

import argparse
import os

from answers import add_arguments, answers_of, give_out, table
from svg import Panel, plot

DEVICE = ["--device", "titan-rtx-24", "--profile", "roofline", "--memory", "24GiB", "--host-memory", "256GiB"]
SMALLER = ["--device", "gtx-1080ti-11", "--profile", "roofline", "--memory", "11GiB", "--host-memory", "128GiB"]
MODELS = {
    "VGG-16": "vgg16",
    "VGG-19": "vgg19",
    "ResNet-50": "resnet50",
    "ResNet-101": "resnet101",
    "InceptionV4": "inception_v4",
    "Transformer": "transformer",
}
BASELINES = {"Base": "keep", "vDNN-conv": "vdnn-conv", "vDNN-all": "vdnn-all", "Checkpoints": "checkpoint", "SuperNeurons": "superneurons"}
TSPLIT, NO_SPLIT = "tsplit", "tsplit:split=false"
OFFLOADING = {"Base": "keep", "Zero-Offload": "zero-offload", "FairScale": "fairscale"}
# As printed, in the order of the columns, TSPLIT last; None: the method cannot be used.
TABLE_4 = {
    "VGG-16": [67, 176, 413, 316, 462, 661],
    "VGG-19": [61, 164, 411, 293, 441, 661],
    "ResNet-50": [76, 201, 783, 192, 591, 1278],
    "ResNet-101": [51, 138, 783, 124, 361, 1096],
    "InceptionV4": [36, 131, 864, 220, 882, 1372],
    "Transformer": [62, None, 452, 117, None, 730],
}
TABLE_5 = {
    "VGG-16": [4, 10, 25, 19, 28, 40],
    "VGG-19": [3, 10, 25, 18, 27, 40],
    "ResNet-50": [4, 12, 48, 12, 36, 79],
    "ResNet-101": [3, 8, 48, 7, 22, 68],
    "InceptionV4": [2, 8, 54, 13, 55, 23],
    "Transformer": [3, None, 18, 5, None, 30],
}
TABLE_6 = {"VGG-16": [48, 176, 383, 485], "ResNet-50": [32, 162, 502, 920], "Transformer": [34, 130, 440, 540]}
# Batches, in times the largest of Base.
FACTORS = [1, 1.25, 1.5, 2, 3, 4, 6]
# Title, the paper's figures, columns, what is made larger.
TABLES = [
    ("Table IV: the largest batch", TABLE_4, BASELINES, ["--by", "batch"]),
    ("Table V: the largest factor on the channels (the Transformer's hidden size), batch 16", TABLE_5, BASELINES, ["--by", "width", "--batch", "16"]),
    ("Table VI: the largest batch", TABLE_6, OFFLOADING, ["--by", "batch"]),
]


def fit(answers, task):
    model, planner, by = task
    row = answers.ask("fit", MODELS[model], *by, *DEVICE, "--planners", planner)["rows"][0]
    return row["largest"], row["stopped"]


def shown(size, whole):
    """A size and how many times the one of Base it is."""
    if size is None:
        return "x"
    return f"{size:g}" if not whole else f"{size:g} (×{size / whole:.1f})"


def section(title, printed, columns, found):
    ours = {**columns, "TSPLIT": TSPLIT, "… without split": NO_SPLIT}
    rows = [["model", "", *ours]]
    for model, cells in printed.items():
        sizes = [found[model, planner] for planner in ours.values()]
        rows.append([model, "paper", *(shown(cell, cells[0] if i else None) for i, cell in enumerate(cells)), ""])
        marks = ["*" if stopped else "" for _, stopped in sizes]
        rows.append(["", "ours", *(shown(size, sizes[0][0] if i else None) + marks[i] for i, (size, _) in enumerate(sizes))])
    return [title, "", table(rows), ""]


def rate(row):
    """Of what the same batch takes without a limit, or None where it does not fit."""
    return row["keep_step_s"] / row["step_s"] if row["fits"] else None


def compare(answers, model, batch, device, planners):
    names = ",".join(planners)
    rows = answers.ask("compare", MODELS[model], "--batch", str(batch), *device, "--planners", names)["rows"]
    options = lambda row: ",".join(f"{key}={value}" for key, value in row["planner_options"].items())  # noqa: E731
    return {row["planner"] + (":" + options(row) if row["planner_options"] else ""): row for row in rows}


def throughput(answers, number, device, results):
    """Figures 12 and 13: throughput by batch, in times the largest batch of Base."""
    columns = {**BASELINES, "TSPLIT": TSPLIT, "… without split": NO_SPLIT}
    models = ["VGG-16", "ResNet-50", "InceptionV4", "Transformer"]
    base = dict(zip(models, answers.each(models, lambda model: largest(answers, model, "keep", device), f"Fig. {number}, Base")))
    tasks = [(model, times) for model in models for times in FACTORS]
    work = lambda task: compare(answers, task[0], round(base[task[0]] * task[1]), device, list(columns.values()))  # noqa: E731
    found = dict(zip(tasks, answers.each(tasks, work, f"Fig. {number}")))
    rows = [["model", "batch", "times Base's", *columns]]
    panels = []
    for model in models:
        lines = {name: [] for name in columns}
        for times in FACTORS:
            rates = {name: rate(found[model, times][planner]) for name, planner in columns.items()}
            for name, share in rates.items():
                lines[name].append((times, share))
            cells = ["-" if share is None else f"{share:.2f}" for share in rates.values()]
            rows.append([model if times == FACTORS[0] else "", str(round(base[model] * times)), f"{times:g}", *cells])
        panels.append(Panel(model, lines))
    title = f"Fig. {number}: throughput on {device[1]}, of that without a limit"
    plot(os.path.join(results, f"tsplit-fig{number}.svg"), title, panels, "batch, times the largest of Base", "of unlimited", columns=2, y_from=0)
    return [title, "", table(rows), ""]


def largest(answers, model, planner, device):
    return answers.ask("fit", MODELS[model], "--by", "batch", *device, "--planners", planner)["rows"][0]["largest"]


def largest_at(answers, task):
    """The largest batch at a share of the throughput without a limit, by halving between one that reaches it and one that does not."""
    model, planner, share = task
    reaches = lambda batch: (rate(compare(answers, model, batch, DEVICE, [planner])[planner]) or 0) >= share  # noqa: E731
    low = largest(answers, model, "keep", DEVICE)
    high = 2 * low
    while reaches(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return low


def ablation(answers):
    """Figure 14."""
    columns = {"SuperNeurons": "superneurons", "TSPLIT without split": NO_SPLIT, "TSPLIT": TSPLIT}
    tasks = [(model, planner, share) for model in ("VGG-16", "ResNet-101") for share in (0.6, 0.5) for planner in columns.values()]
    found = dict(zip(tasks, answers.each(tasks, lambda task: largest_at(answers, task), "Fig. 14(a)")))
    rows = [["model", "of Base's throughput", *columns]]
    for model in ("VGG-16", "ResNet-101"):
        for share in (0.6, 0.5):
            sizes = [found[model, planner, share] for planner in columns.values()]
            rows.append([model, f"{share:.0%}", *(shown(size, sizes[0] if i else None) for i, size in enumerate(sizes))])
    text = ["Fig. 14(a): the largest batch at a share of the throughput without a limit; in brackets, how many times SuperNeurons'", "", table(rows), ""]
    rows = [["device", "batch", "swapped GiB", "recomputed ops", "tiles", "of unlimited"]]
    for device in (DEVICE, SMALLER):
        batch = round(1.5 * largest(answers, "VGG-16", "keep", device))
        row = compare(answers, "VGG-16", batch, device, [TSPLIT])[TSPLIT]
        cells = [f"{row['swapped_bytes'] / 2**30:.1f}", str(row["recomputed_ops"]), str(row["tiles"]), f"{rate(row):.2f}"] if row["fits"] else ["-"] * 4
        rows.append([device[1], str(batch), *cells])
    return text + ["Fig. 14(b): what TSPLIT chooses for VGG-16 at 1.5 times Base's largest batch", "", table(rows), ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    answers = answers_of(arguments)
    text = [
        "What fits into the 24 GB of a Titan RTX: as printed in the TSPLIT paper, and here; in brackets, how many times Base",
        "bench/papers/tsplit.py; f32, sgd with momentum; x: the method cannot be used; *: the search was stopped, larger may fit",
        "",
    ]
    for title, printed, columns, by in TABLES:
        tasks = [(model, planner, by) for model in printed for planner in [*columns.values(), TSPLIT, NO_SPLIT]]
        found = answers.each(tasks, lambda task: fit(answers, task), title.split(":")[0])
        text += section(title, printed, columns, {task[:2]: size for task, size in zip(tasks, found)})
    text += throughput(answers, 12, DEVICE, arguments.results) + throughput(answers, 13, SMALLER, arguments.results) + ablation(answers)
    give_out("\n".join(text), os.path.join(arguments.results, "tsplit.txt"))


if __name__ == "__main__":
    main()

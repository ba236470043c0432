#!/usr/bin/env python3
"""Tables IV, V and VI of "TSPLIT: fine-grained GPU memory management for efficient DNN training via tensor splitting".

    bench/papers/tsplit.py [--outsize build/release/outsize] [--results bench/results/papers]

The largest batch (tables IV and VI) and the largest factor on all channels or hidden sizes with batch 16 (table V) that each planner fits
into the 24 GB of a Titan RTX. TSPLIT's own column is the paper's alone: no planner here splits tensors.
"""

import argparse
import os

from answers import add_arguments, answers_of, give_out, table

DEVICE = ["--device", "titan-rtx-24", "--profile", "roofline", "--memory", "24GiB", "--host-memory", "256GiB"]
MODELS = {
    "VGG-16": "vgg16",
    "VGG-19": "vgg19",
    "ResNet-50": "resnet50",
    "ResNet-101": "resnet101",
    "InceptionV4": "inception_v4",
    "Transformer": "transformer",
}
BASELINES = {"Base": "keep", "vDNN-conv": "vdnn-conv", "vDNN-all": "vdnn-all", "Checkpoints": "checkpoint", "SuperNeurons": "superneurons"}
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
    rows = [["model", "", *columns, "TSPLIT"]]
    for model, cells in printed.items():
        ours = [found[model, planner] for planner in columns.values()]
        rows.append([model, "paper", *(shown(cell, cells[0] if i else None) for i, cell in enumerate(cells))])
        marks = ["*" if stopped else "" for _, stopped in ours]
        rows.append(["", "ours", *(shown(size, ours[0][0] if i else None) + marks[i] for i, (size, _) in enumerate(ours)), "-"])
    return [title, "", table(rows), ""]


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
        tasks = [(model, planner, by) for model in printed for planner in columns.values()]
        found = answers.each(tasks, lambda task: fit(answers, task), title.split(":")[0])
        text += section(title, printed, columns, {task[:2]: size for task, size in zip(tasks, found)})
    give_out("\n".join(text), os.path.join(arguments.results, "tsplit.txt"))


if __name__ == "__main__":
    main()

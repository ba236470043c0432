#!/usr/bin/env python3
"""Figures 6 to 11 and Table I of Wang et al., "LR-CNN: lightweight row-centric convolutional neural network training".

    bench/papers/lrcnn.py [--outsize build/release/outsize] [--results bench/results/papers] [--only batch]

VGG-16 and ResNet-50 with ten classes on an RTX 3090 of 24 GB and an RTX 3080 of 10 GB: the largest batch and image, the time of an epoch,
time and memory over the number of rows, and a short training in rows beside one of whole values. The paper's figures are plots
without numbers in its text; what the text says of them stands beside ours.
"""

import argparse
import hashlib
import os
import re

from answers import add_arguments, answers_of, give_out, table
from svg import Panel, plot

PLAIN = "ResNet-50, no norms"
MODELS = {"VGG-16": "vgg16", "ResNet-50": "resnet50", PLAIN: None}
DEVICES = {"RTX 3090": ("rtx-3090-24", "24GiB"), "RTX 3080": ("rtx-3080-10", "10GiB")}
AS_PRINTED = "cut=rows,stream=none"  # rows of the whole batch, and no host memory
PLANNERS = {
    "Base": "keep",
    "Ckp": "checkpoint",
    "OffLoad": "offload-ratio",
    "OverL": f"overl:{AS_PRINTED}",
    "2PS": f"2ps:{AS_PRINTED}",
    "OverL-H": f"overl-h:{AS_PRINTED}",
    "2PS-H": f"2ps-h:{AS_PRINTED}",
    "free": "2ps-h",
}
IMAGES = 13000  # of an epoch
ROWS = range(1, 15)
# What the text says of the plots: by how much more than OffLoad's at most (Figs. 6 and 7) and than Tsplit's batch, how much longer an
# epoch takes than Base's at most (Fig. 8), and how much less memory the best number of rows takes than one (Fig. 10).
OVER_OFFLOAD = {
    "batch": {"OverL": 0.69, "2PS": 1.46, "OverL-H": 1.08, "2PS-H": 1.95},
    "image": {"OverL": 4.23, "2PS": 3.00, "OverL-H": 9.80, "2PS-H": 7.16},
}
TSPLIT = {"VGG-16": 661, "ResNet-50": 1278, PLAIN: 1278}  # batches of its own paper, 24 GB
OVER_TSPLIT = {"OverL": 0.16, "2PS": 0.69, "OverL-H": 0.36, "2PS-H": 0.78}
SLOWER = {"Ckp": 0.15, "OffLoad": 3.56, "OverL": 0.40, "2PS": 0.81, "OverL-H": 1.08, "2PS-H": 0.99}
LESS_MEMORY = {"OverL-H": 0.44, "2PS-H": 0.53}
# Table I: layers in rows, sum of their rows.
TABLE_1 = {
    ("VGG-16", "OverL"): (6, 42),
    ("VGG-16", "OverL-H"): (13, 54),
    ("VGG-16", "2PS"): (7, 42),
    ("VGG-16", "2PS-H"): (13, 54),
    ("ResNet-50", "OverL"): (10, 80),
    ("ResNet-50", "OverL-H"): (22, 128),
    ("ResNet-50", "2PS"): (10, 40),
    ("ResNet-50", "2PS-H"): (49, 142),
}


class Text:
    """A network as a text, layer by layer."""

    def __init__(self, name, batch, size):
        self.lines = [f"graph {name}", f"input x f32[{batch}, 3, {size}, {size}]", f"input labels i32[{batch}]"]

    def conv(self, name, value, channels, out, kernel, stride):
        pad = kernel // 2
        self.lines.append(f"param {name}.weight f32[{out}, {channels}, {kernel}, {kernel}] init=normal:0.02")
        self.lines.append(f"param {name}.bias f32[{out}] init=zeros")
        window = f"stride=[{stride}, {stride}] padding=[{pad}, {pad}, {pad}, {pad}]"
        return self.op(name, f"conv2d({value}, {name}.weight, {name}.bias) {window}")

    def op(self, name, call):
        self.lines.append(f"{name}: {name}.y = {call}")
        return f"{name}.y"


def plain_resnet(folder, batch):
    """A file with ResNet-50 as rows see it where norms do not wait for a whole batch: each is part of its convolution, as a bias."""
    text = Text("resnet50-plain", batch, 224)
    value = text.op("relu", f"relu({text.conv('conv1', 'x', 3, 64, 7, 2)})")
    value = text.op("maxpool", f"max_pool({value}) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]")
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, outer = 64 << stage, 256 << stage
        for i in range(blocks):
            name, stride = f"layer{stage + 1}.{i}", 2 if stage > 0 and i == 0 else 1
            y = text.op(f"{name}.relu1", f"relu({text.conv(f'{name}.conv1', value, channels, inner, 1, 1)})")
            y = text.op(f"{name}.relu2", f"relu({text.conv(f'{name}.conv2', y, inner, inner, 3, stride)})")
            y = text.conv(f"{name}.conv3", y, inner, outer, 1, 1)
            skip = value if channels == outer else text.conv(f"{name}.downsample", value, channels, outer, 1, stride)
            value = text.op(f"{name}.relu3", f"relu({text.op(f'{name}.add', f'add({y}, {skip})')})")
            channels = outer
    value = text.op("flatten", f"reshape({text.op('avgpool', f'adaptive_avg_pool({value}) output=[1, 1]')}) shape=[-1, {channels}]")
    text.lines += [f"param fc.weight f32[10, {channels}] init=normal:0.02", "param fc.bias f32[10] init=zeros"]
    text.lines += [f"loss: loss = softmax_cross_entropy({text.op('fc', f'linear({value}, fc.weight, fc.bias)')}, labels)", "output loss", ""]
    written = "\n".join(text.lines)
    path = os.path.join(folder, f"resnet50-plain-{batch}-{hashlib.sha256(written.encode()).hexdigest()[:8]}.graph")
    with open(path, "w") as file:
        file.write(written)
    return path


def on(device, memory=None):
    name, all_of_it = DEVICES[device]
    return ["--device", name, "--profile", "roofline", "--memory", memory or all_of_it, "--host-memory", "64GiB"]


def with_batch(answers, model, batch):
    if MODELS[model] is None:
        return [plain_resnet(answers.folder, batch)]
    return [MODELS[model], "--classes", "10", "--batch", str(batch)]


def fit(answers, task):
    model, device, planner, by = task
    sized = with_batch(answers, model, 8) if by == "image" or MODELS[model] is None else [MODELS[model], "--classes", "10"]
    limit = ["--probe-limit", "5"] if planner == "free" and by == "image" else []  # what it reaches is a question of patience
    return answers.ask("fit", *sized, "--by", by, *on(device), "--planners", PLANNERS[planner], *limit)["rows"][0]


def fits(answers, by, what):
    cases = [(model, device) for model in MODELS for device in DEVICES if (by, model, device) != ("image", PLAIN, "RTX 3080")]  # slow
    tasks = [(*case, planner, by) for case in cases for planner in PLANNERS]
    return {task[:3]: row for task, row in zip(tasks, answers.each(tasks, lambda task: fit(answers, task), what))}


def cases_of(found):
    return list(dict.fromkeys(key[:2] for key in found))


def by_planner(found, cell):
    """A table with a line a model and device and a column a planner."""
    return table([["model", "device", *PLANNERS]] + [[*case, *(cell(*case, planner) for planner in PLANNERS)] for case in cases_of(found)])


def beside(printed, ours):
    """The paper's largest figures over those of ours, by planner; both are parts of one."""
    lines = [["", *printed], ["the paper", *(f"{part:+.0%}" for part in printed.values())]]
    return table([*lines, ["ours", *("-" if ours(name) is None else f"{ours(name):+.0%}" for name in printed)]])


def largest_tables(found, printed):
    def cell(model, device, planner):
        row = found[model, device, planner]
        if row["largest"] is None:
            return "-"
        mark = "*" if row["stopped"] else ""
        return f"{row['largest']}{mark} (×{row['largest'] / found[model, device, 'OffLoad']['largest']:.2f})"

    def most(planner):
        return max((found[*case, planner]["largest"] or 0) / found[*case, "OffLoad"]["largest"] for case in cases_of(found)) - 1

    return [by_planner(found, cell), "", "at most more than OffLoad's", "", beside(printed, most), ""]


def rows_of(answers, model, planner, batch):
    """Of a plan: the convolutions of forward that run in passes, and the sum of the most rows that each has in one."""
    sized = [*with_batch(answers, model, batch), *on("RTX 3090")]
    plan = answers.text("plan", *sized, "--planner", PLANNERS[planner], "--dump", "plan")
    graph = answers.text("plan", *sized, "--dump", "graph")
    most = dict.fromkeys(re.findall(r"^([\w.]+): .* = conv2d\(", graph, re.MULTILINE), 0)
    for line in plan.splitlines():
        if not line.startswith("pass "):
            continue
        grid = re.search(r"grid=\[([\d, ]+)\]", line)
        cuts = re.search(r"cuts\.2=\[([\d, ]*)\]", line)
        rows = len(cuts.group(1).split(", ")) + 1 if cuts else int(grid.group(1).split(", ")[2])
        for op in re.search(r"ops=\[([^\]]*)\]", line).group(1).split(", "):
            if op in most:
                most[op] = max(most[op], rows)
    return sum(rows > 0 for rows in most.values()), sum(most.values())


def batch_section(answers, place):
    found = fits(answers, "batch", "Fig. 6")

    def epoch(model, device, planner):
        row = found[model, device, planner]
        return row["step_s"] * IMAGES / row["largest"]

    def epoch_cell(model, device, planner):
        seconds = epoch(model, device, planner)
        return f"{seconds:.0f} s ({seconds / epoch(model, device, 'Base') - 1:+.0%})"

    def slower(planner):
        return max(epoch(*case, planner) / epoch(*case, "Base") for case in cases_of(found)) - 1

    def over_tsplit(planner):
        return max(found[model, "RTX 3090", planner]["largest"] / batch for model, batch in TSPLIT.items()) - 1

    table_1 = [["model", "planner", "layers: paper", "ours", "rows: paper", "ours"]]
    printed = TABLE_1 | {(PLAIN, planner): cells for (model, planner), cells in TABLE_1.items() if model == "ResNet-50"}
    for (model, planner), (layers, rows) in printed.items():
        ours = rows_of(answers, model, planner, found[model, "RTX 3090", planner]["largest"])
        table_1.append([model, planner, str(layers), str(ours[0]), str(rows), str(ours[1])])
    return [
        "Fig. 6: the largest batch, images of 224²; in brackets over OffLoad's",
        "",
        *largest_tables(found, OVER_OFFLOAD["batch"]),
        f"at most more than Tsplit's as printed ({', '.join(f'{model} {batch}' for model, batch in TSPLIT.items())}), RTX 3090",
        "",
        beside(OVER_TSPLIT, over_tsplit),
        "",
        f"Fig. 8: an epoch of {IMAGES} images at the batches of Fig. 6; in brackets over Base's",
        "",
        by_planner(found, epoch_cell),
        "",
        "at most longer than Base's",
        "",
        beside(SLOWER, slower),
        "",
        "Table I: convolutions that run in passes, and the sum of the most rows of each, at the batches of Fig. 6 on the RTX 3090",
        "",
        table(table_1),
        "",
    ]


def image_section(answers, place):
    found = fits(answers, "image", "Fig. 7")
    return ["Fig. 7: the largest image, batch 8; in brackets over OffLoad's", "", *largest_tables(found, OVER_OFFLOAD["image"])]


def over_rows(answers, task):
    """Seconds of a step with all of the memory, and about the least memory, with so many rows: a memory is asked for that is a
    thirtieth less than what the last plan took, until it is refused."""
    planner, device, rows = task
    name = f"{PLANNERS[planner].split(':')[0]}:rows={rows},stream=none" if rows > 1 else "keep"
    seconds, least, memory = None, None, None
    while True:
        sized = with_batch(answers, "VGG-16", 64)
        row = answers.ask("compare", *sized, *on(device, memory), "--planners", name)["rows"][0]
        if not row["fits"]:
            return seconds, least
        seconds = seconds or row["step_s"]
        least = row["peak_bytes"]
        if rows == 1 or device != "RTX 3090":
            return seconds, least
        memory = str(least * 29 // 30)


def rows_section(answers, place):
    planners = ("OverL-H", "2PS-H")
    tasks = [(planner, device, rows) for planner in planners for device in DEVICES for rows in ROWS]
    found = dict(zip(tasks, answers.each(tasks, lambda task: over_rows(answers, task), "Figs. 9 and 10")))
    cells = [["planner", "", *(f"N={rows}" for rows in ROWS)]]
    for planner in planners:
        for device in DEVICES:
            times = [found[planner, device, rows][0] for rows in ROWS]
            cells.append([planner, f"ms, {device}", *("-" if seconds is None else f"{seconds * 1e3:.0f}" for seconds in times)])
        least = [found[planner, "RTX 3090", rows][1] for rows in ROWS]
        cells.append(["", "GiB", *("-" if bytes_ is None else f"{bytes_ / 2**30:.2f}" for bytes_ in least)])

    def less(planner):
        least = [found[planner, "RTX 3090", rows][1] for rows in ROWS]
        return min(bytes_ for bytes_ in least if bytes_) / least[0] - 1

    panels = [
        Panel(f"VGG-16, batch 64, {device}", {p: [(rows, found[p, device, rows][0]) for rows in ROWS] for p in planners}) for device in DEVICES
    ]
    plot(place("fig09"), "Fig. 9: time of a step", panels, "rows", "seconds", y_from=0)
    memory = {p: [(rows, least and least / 2**30) for rows in ROWS for least in [found[p, "RTX 3090", rows][1]]] for p in planners}
    plot(place("fig10"), "Fig. 10: the least memory", [Panel("VGG-16, batch 64", memory)], "rows", "GiB", y_from=0)
    return [
        "Figs. 9 and 10: VGG-16, batch 64, in N rows (1: Base) without host memory: time of a step with all of the memory; about the least memory",
        "",
        table(cells),
        "",
        "memory of the best N over Base's",
        "",
        beside({planner: -part for planner, part in LESS_MEMORY.items()}, less),
        "",
    ]


def losses(answers, model, planner, threads):
    """Of a short training of a narrow network on made-up images, on this machine."""
    small = ["--width", "0.125", "--image", "64", "--batch", "16", "--classes", "10", "--steps", "40", "--lr", "0.001", "--seed", "1"]
    return answers.ask("train", model, *small, "--planner", planner, "--memory", "100%", "--threads", threads)["losses"]


def loss_section(answers, place):
    trained = {}
    for model, small in (("VGG-16", "vgg16_bn"), ("ResNet-50", "resnet50")):
        ways = {"Base": ("keep", "2"), "Base, one thread": ("keep", "1"), "2PS-H": ("2ps-h:rows=2", "2")}
        trained[model] = {name: losses(answers, small, *way) for name, way in ways.items()}
    panels = [Panel(m, {p: list(enumerate(of, 1)) for p, of in runs.items()}) for m, runs in trained.items()]
    plot(place("fig11"), "Fig. 11: loss", panels, "step", "loss")
    steps = [1, 10, 20, 30, 40]
    cells = [["model", "planner", *map(str, steps)]]
    for model, runs in trained.items():
        cells += [[model, planner, *(f"{of[step - 1]:.6f}" for step in steps)] for planner, of in runs.items()]
    return [
        "Fig. 11: loss of 40 steps of a network of an eighth of the width, images of 64², batch 16, in two rows and whole, on this machine",
        "",
        table(cells),
        "",
    ]


SECTIONS = {"batch": batch_section, "image": image_section, "rows": rows_section, "loss": loss_section}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--only", choices=SECTIONS, nargs="+", default=list(SECTIONS), help="these sections")
    arguments = parser.parse_args()
    answers = answers_of(arguments)
    text = [
        "LR-CNN's figures and table, made anew",
        "bench/papers/lrcnn.py; f32, sgd with momentum, ten classes, 64 GiB of host memory; times from rooflines",
        "OverL to 2PS-H: rows of the whole batch, no host memory, as in the paper; free: the planner 2ps-h as it is, which cuts samples",
        "before rows and streams maps from host memory; -: refused; *: the search was stopped, larger may fit",
        "",
    ]
    for section in arguments.only:
        text += SECTIONS[section](answers, lambda name: os.path.join(arguments.results, f"lrcnn-{name}.svg"))
    give_out("\n".join(text), os.path.join(arguments.results, "lrcnn.txt"))


if __name__ == "__main__":
    main()

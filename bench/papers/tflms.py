#!/usr/bin/env python3
"""Table 3 and figures 6 to 9 of "TFLMS: large model support in TensorFlow by graph rewriting".

    bench/papers/tflms.py [--outsize build/release/outsize] [--results bench/results/papers]

ResNet-50 and a 3-D U-Net on a P100 of 16 GB with NVLink: the largest batch with and without swapping, and samples a second by batch for
the parameters of the paper. Its networks have 317 and 2397 tensors that can leave, ours fewer (an op here is several of TensorFlow's):
where the paper swaps 200 or 100 of 317, or 1000 of 2397, the same share of ours leaves.
"""

import argparse
import os

from answers import add_arguments, answers_of, give_out, table
from svg import Panel, plot

DEVICE = ["--device", "p100-nvlink-16", "--profile", "roofline", "--memory", "16GiB"]
RESNET = ["resnet50", "--image", "224"]
UNET = ["unet3d", "--image", "128"]
UNET_192 = ["unet3d", "--image", "192"]
RESNET_BATCHES = [*range(32, 385, 32)]
UNET_BATCHES = [*range(1, 9)]
KEEP = ("without", "keep")
ALL = "tflms:n_tensors=-1,lb=1"


def tensors(answers, model, batch):
    """How many values leave when all that can do: each is copied to the host once."""
    plan = answers.text("plan", *model, "--batch", str(batch), *DEVICE, "--planner", ALL, "--dump", "plan")
    return sum(line.split()[:1] == ["out"] for line in plan.splitlines())


def option_text(row):
    """The planner of a row as it was asked for."""
    options = ",".join(f"{name}={value}" for name, value in row["planner_options"].items())
    return row["planner"] + (":" + options if options else "")


class Figure:
    """Samples a second by batch, and the largest batch, for several settings: (name, planner with options)."""

    def __init__(self, answers, number, title, model, batches, settings):
        self.number, self.title, self.batches, self.settings = number, title, batches, settings
        planners = ",".join(planner for _, planner in settings)
        self.rates = {name: [] for name, _ in settings}
        for batch in batches:
            answer = answers.ask("compare", *model, "--batch", str(batch), *DEVICE, "--planners", planners)
            seconds = {option_text(row): row["step_s"] for row in answer["rows"]}
            for name, planner in settings:
                self.rates[name].append(seconds[planner] and batch / seconds[planner])
        rows = answers.ask("fit", *model, *DEVICE, "--planners", planners)["rows"]
        largest = {option_text(row): row["largest"] for row in rows}
        self.largest = {name: largest[planner] for name, planner in settings}

    def panel(self):
        return Panel("", {name: list(zip(self.batches, rates)) for name, rates in self.rates.items()})

    def table(self):
        rows = [["", "largest", *(f"at {batch}" for batch in self.batches)]]
        for name, rates in self.rates.items():
            cells = ["-" if rate is None else f"{rate:.3g}" for rate in rates]
            rows.append([name, str(self.largest[name] or "-"), *cells])
        return f"Fig. {self.number}: {self.title}\n\n{table(rows)}\n"


def figures(answers):
    resnet, unet = tensors(answers, RESNET, 128), tensors(answers, UNET, 2)  # batches that fit without
    share = {name: round(resnet * int(name) / 317) for name in ("200", "100")}

    def setting(name, options):
        return name, "tflms:" + options

    yield Figure(
        answers,
        6,
        f"n_tensors (of 317; here of {resnet}: {share['200']}, {share['100']}) and lb, ResNet-50, images/s by batch",
        RESNET,
        RESNET_BATCHES,
        [KEEP]
        + [setting(f"TFLMS(all, {lb})", f"n_tensors=-1,lb={lb}") for lb in (1, 3, 5)]
        + [setting(f"TFLMS({n}, {lb})", f"n_tensors={count},lb={lb}") for n, count in share.items() for lb in (1, 5)],
    )
    yield Figure(
        answers,
        7,
        "ctrld_strategy, ResNet-50, images/s by batch",
        RESNET,
        RESNET_BATCHES,
        [KEEP]
        + [
            setting(f"TFLMS(all, {lb}, {strategy})", f"n_tensors=-1,lb={lb},ctrld_strategy={strategy}")
            for lb in (1, 5)
            for strategy in ("chain_rule", "direct_order")
        ],
    )
    yield Figure(
        answers,
        8,
        "fuse_swapins, ResNet-50, images/s by batch",
        RESNET,
        RESNET_BATCHES,
        [KEEP]
        + [setting(f"TFLMS(all, {lb}, {fuse})", f"n_tensors=-1,lb={lb},fuse_swapins={fuse}") for lb in (1, 5) for fuse in ("false", "true")],
    )
    some = round(unet * 1000 / 2397)
    yield Figure(
        answers,
        9,
        f"n_tensors (of 2397; here of {unet}: {some}), lb, swap_branches, branch_threshold, 3-D U-Net at 128³, volumes/s by batch",
        UNET,
        UNET_BATCHES,
        [KEEP]
        + [setting(f"TFLMS(all, {lb}, false, 0)", f"n_tensors=-1,lb={lb}") for lb in (1, 5)]
        + [setting("TFLMS(all, 1, true, 20)", "n_tensors=-1,lb=1,swap_branches=true,branch_threshold=20")]
        + [setting("TFLMS(1000, 1, false, 0)", f"n_tensors={some},lb=1")],
    )


def table_3(answers):
    rows = [["model", "image", "", "without", "with TFLMS", "ratio", "all out, ops wait"]]
    printed = [(RESNET, "224²", 176, 832, "4.7"), (UNET, "128³", 2, 4, "2"), (UNET_192, "192³", "OOM", 1, "")]
    for model, image, without, with_tflms, ratio in printed:
        planners = ["keep", ALL, "vdnn-all"]
        found = {}
        for row in answers.ask("fit", *model, *DEVICE, "--planners", ",".join(planners))["rows"]:
            found[option_text(row)] = row["largest"] or 0
        keep, tflms, waiting = (found[planner] for planner in planners)
        rows.append([model[0], image, "paper", str(without), str(with_tflms), ratio, ""])
        ours = [str(size or "OOM") for size in (keep, tflms)] + [f"{tflms / keep:.1f}" if keep else ""]
        rows.append(["", "", "ours", *ours, f"{waiting} ({waiting / keep:.1f})" if keep else str(waiting or "OOM")])
    return "Table 3: the largest batch when all tensors leave\n\n" + table(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    answers = answers_of(arguments)
    text = [
        "Large model support by graph rewriting: Table 3 and Figs. 6 to 9 of the TFLMS paper, and here",
        "bench/papers/tflms.py; P100 of 16 GB, NVLink; f32, sgd with momentum; times from rooflines; '-': does not fit",
        "",
        table_3(answers),
    ]
    for figure in figures(answers):
        text.append(figure.table())
        place = os.path.join(arguments.results, f"tflms-fig{figure.number:02}.svg")
        plot(place, f"Fig. {figure.number}: {figure.title}", [figure.panel()], "batch", "samples/s", y_from=0)
    give_out("\n".join(text), os.path.join(arguments.results, "tflms.txt"))


if __name__ == "__main__":
    main()

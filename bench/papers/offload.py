#!/usr/bin/env python3
"""Figures 5 to 19 of Beaumont, Eyraud-Dubois and Shilova, "Optimal GPU-CPU offloading strategies for deep neural network training".

    bench/papers/offload.py [--outsize build/release/outsize] [--results bench/results/papers] [--only fig5]

Networks, images and batches on a V100 with a link of 12.2 GB/s, half duplex; limits of memory from the smallest that a planner fits to
what `keep` takes. Shown is the step's time over the paper's lower bound (Proposition 3), and the images a second.
"""

import argparse
import itertools
import os

from answers import add_arguments, answers_of, give_out, table
from svg import Panel, plot

DEVICE = "v100-pcie-16"
BANDWIDTH = 12.2e9  # bytes a second of its link, which does one direction at a time: the paper's and the description's
PLANNERS = ["greedy", "dynprog", "vdnn", "tflms", "autoswap"]
LIMITS = 9  # of memory, evenly from the smallest to M_peak
STEPS_TO_MINIMUM = 6  # halvings: the smallest limit is known to 1/64 of M_peak
CEILING = 3.0  # ratios above it stand at the top of the plots

RESNETS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]
DENSENETS = ["densenet121", "densenet161", "densenet169", "densenet201"]
BATCHES = {224: [32, 64], 500: [8], 1000: [2]}
# Figure of the ratios, figure of the throughput, title, networks, images.
FIGURES = [
    (6, 13, "ResNet, 224 × 224", RESNETS, [224]),
    (7, 14, "ResNet, 500 × 500", RESNETS, [500]),
    (8, 15, "ResNet, 1000 × 1000", RESNETS, [1000]),
    (9, 16, "DenseNet, 224 × 224", DENSENETS, [224]),
    (10, 17, "DenseNet, 500 × 500", DENSENETS, [500]),
    (11, 18, "DenseNet, 1000 × 1000", DENSENETS, [1000]),
    (12, 19, "Inception v3", ["inception_v3"], [299, 500, 1000]),  # its auxiliary head needs 299
]
BATCHES[299] = BATCHES[224]


class Case:
    """One network, image and batch: the answers at every limit."""

    def __init__(self, answers, case):
        self.answers = answers
        self.network, self.image, self.batch = case
        whole = self.compare(2**60, ["keep"])["rows"][0]
        self.m_peak, self.keep_seconds = whole["keep_peak_bytes"], whole["keep_step_s"]
        refused, self.minimum = 0, self.m_peak
        for _ in range(STEPS_TO_MINIMUM):
            middle = (refused + self.minimum) // 2
            if self.compare(middle, [planner for planner in PLANNERS if planner != "tflms"])["fits"]:
                self.minimum = middle
            else:
                refused = middle
        shares = [i / (LIMITS - 1) for i in range(LIMITS)]
        self.limits = [self.minimum + round(share * (self.m_peak - self.minimum)) for share in shares]
        self.seconds = {planner: [] for planner in PLANNERS}  # None: refused
        for limit in self.limits:
            rows = {row["planner"]: row for row in self.compare(limit, PLANNERS)["rows"]}
            for planner in PLANNERS:
                self.seconds[planner].append(rows[planner]["step_s"])

    def compare(self, memory, planners):
        model = [self.network, "--batch", str(self.batch), "--image", str(self.image)]
        device = ["--device", DEVICE, "--profile", "roofline", "--memory", str(memory)]
        return self.answers.ask("compare", *model, *device, "--planners", ",".join(planners))

    def bound(self, limit):
        """Proposition 3: all ops, or what is too much out and in again over a link that does one at a time."""
        return max(self.keep_seconds, 2 * (self.m_peak - limit) / BANDWIDTH)

    def ratios(self, planner):
        return [seconds and seconds / self.bound(limit) for limit, seconds in zip(self.limits, self.seconds[planner])]

    def panel(self, value, ceiling):
        """`value(limit, seconds)` over the limit in percent of the way from the smallest to M_peak."""
        lines = {
            planner: [
                (100 * i / (LIMITS - 1), seconds and value(self.limits[i], seconds)) for i, seconds in enumerate(self.seconds[planner])
            ]
            for planner in PLANNERS
        }
        size = f", {self.image}" if self.network == "inception_v3" else ""
        return Panel(f"{self.network}{size}, batch {self.batch}", lines, ceiling)


def ratio_panel(case):
    return case.panel(lambda limit, seconds: seconds / case.bound(limit), CEILING)


def throughput_panel(case):
    return case.panel(lambda limit, seconds: case.batch / seconds, float("inf"))


def draw(arguments, cases):
    x_label = "memory limit, % from smallest to M_peak"

    def place(number):
        return os.path.join(arguments.results, f"offload-fig{number:02}.svg")

    def chosen(networks, images, batches=lambda image: BATCHES[image]):
        wanted = [(n, i, b) for n in networks for i in images for b in batches(i)]
        return [cases[case] for case in wanted if case in cases]

    first = chosen(RESNETS + DENSENETS, [224], lambda _: [32]) + chosen(["inception_v3"], [299], lambda _: [32])
    if first:
        plot(place(5), "Fig. 5: time / lower bound, batch 32", [ratio_panel(c) for c in first], x_label, "time / bound", y_from=1)
    for ratio, throughput, title, networks, images in FIGURES:
        found = chosen(networks, images)
        if not found:
            continue
        plot(place(ratio), f"Fig. {ratio}: time / lower bound, {title}", [ratio_panel(c) for c in found], x_label, "time / bound", 4, 1)
        plot(place(throughput), f"Fig. {throughput}: {title}", [throughput_panel(c) for c in found], x_label, "images/s", 4, 0)


def ratio_table(cases):
    rows = [["network", "image", "batch", "M_peak MiB", "smallest", "planner"]]
    rows[0] += [f"{100 * i / (LIMITS - 1):g} %" for i in range(LIMITS)]
    for case in cases:
        for planner in PLANNERS:
            head = [case.network, str(case.image), str(case.batch), f"{case.m_peak / 2**20:.0f}", f"{case.minimum / case.m_peak:.0%}"]
            cells = ["-" if ratio is None else f"{ratio:.2f}" for ratio in case.ratios(planner)]
            rows.append((head if planner == PLANNERS[0] else [""] * len(head)) + [planner] + cells)
    return table(rows)


def summary(cases):
    """The paper's statements, counted over all cases and limits."""
    points = [{planner: case.ratios(planner)[i] for planner in PLANNERS} for case in cases for i in range(LIMITS)]
    rows = [["planner", "fits", "median", "largest", "at most 1.2", "at most 1.001"]]
    for planner in PLANNERS:
        ratios = sorted(point[planner] for point in points if point[planner] is not None)
        within = [sum(ratio <= most for ratio in ratios) for most in (1.2, 1.001)]
        middle, largest = (f"{ratios[len(ratios) // 2]:.3f}", f"{ratios[-1]:.3f}") if ratios else ("-", "-")
        rows.append([planner, f"{len(ratios)} of {len(points)}", middle, largest, str(within[0]), str(within[1])])
    lines = [table(rows), "", "pairs: both fit, the first faster by more than 0.1 %, as fast, slower; only the first fits, only the second"]
    pairs = [["first", "second", "both", "faster", "as fast", "slower", "first only", "second only"]]
    for a, b in itertools.combinations(PLANNERS, 2):
        both = [(point[a], point[b]) for point in points if point[a] is not None and point[b] is not None]
        faster, slower = sum(x < y / 1.001 for x, y in both), sum(x > y * 1.001 for x, y in both)
        alone = [sum(point[x] is not None and point[y] is None for point in points) for x, y in ((a, b), (b, a))]
        pairs.append([a, b, *(str(n) for n in (len(both), faster, len(both) - faster - slower, slower, *alone))])
    return "\n".join([*lines, table(pairs)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--only", choices=["fig5"], help="only image 224 and batch 32")
    arguments = parser.parse_args()
    answers = answers_of(arguments)
    wanted = [(n, i, b) for _, _, _, networks, images in FIGURES for n in networks for i in images for b in BATCHES[i]]
    wanted = [case for case in wanted if arguments.only is None or (case[1] < 300 and case[2] == 32)]
    found = answers.each(wanted, lambda case: Case(answers, case), "cases")
    draw(arguments, dict(zip(wanted, found)))
    text = [
        'Time of a step over the lower bound of Proposition 3 in "Optimal GPU-CPU offloading strategies", Figs. 5 to 12',
        f"bench/papers/offload.py{' --only ' + arguments.only if arguments.only else ''}; times from rooflines; '-': the planner refuses the limit",
        f"limits: {LIMITS}, evenly from the smallest that one of the planners fits (to 1/64 of M_peak) to M_peak (what keep takes)",
        "",
        summary(found),
        "",
        ratio_table(found),
    ]
    give_out("\n".join(text) + "\n", os.path.join(arguments.results, "offload.txt"))


if __name__ == "__main__":
    main()

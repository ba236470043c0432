#!/usr/bin/env python3
"""Figure 8 of Xu et al., "Training of deep learning pipelines on memory-constrained GPUs via segmented fused-tiled execution".

    bench/papers/sft.py [--outsize build/release/outsize] [--results bench/results/papers]

One image of 512² to 20,480² through the convolutions of VGG-16 and VGG-19 and through DarkNet-19, on a 2080 Ti of 11 GiB and an A100 of
40 GiB: what trains as it is, with checkpoints, and in segments of tiles, and in what time. The bytes of all activations at 10,240²
are the paper's 118, 129 and 43 GiB.
"""

import argparse
import hashlib
import os
import re

from answers import add_arguments, answers_of, give_out, table
from svg import Panel, plot

SIZES = [512, 1024, 2048, 3072, 4096, 5120, 6144, 8192, 10240, 20480]
DEVICES = {"2080 Ti": ("rtx-2080ti-11", "11GiB", "128GiB"), "A100": ("a100-40", "40GiB", "384GiB")}
PLANNERS = {"base": "keep", "checkpoint": "checkpoint", "sft": "sft"}
PLAIN = "DarkNet-19, no norms"
MODELS = {"VGG-16": "vgg16-features", "VGG-19": "vgg19-features", "DarkNet-19": "darknet19", PLAIN: None}
# Printed: seconds of the published runs, and GiB of all activations at 10,240².
SECONDS = {
    ("VGG-16", "A100", 10240): 28.0,
    ("VGG-16", "A100", 20480): 105.9,
    ("VGG-16", "2080 Ti", 10240): 43.8,
    ("VGG-16", "2080 Ti", 20480): 176.5,
    (PLAIN, "A100", 20480): 65.2,
}
ACTIVATIONS = {"VGG-16": 118, "VGG-19": 129, PLAIN: 43}
# Of DarkNet-19: channels and kernel of each convolution; None is a pooling.
LAYERS = [(32, 3), None, (64, 3), None, (128, 3), (64, 1), (128, 3), None, (256, 3), (128, 1), (256, 3), None, (512, 3), (256, 1)]
LAYERS += [(512, 3), (256, 1), (512, 3), None, (1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3), (1000, 1)]


def plain_darknet(folder, size):
    """A file with DarkNet-19 as the paper's 43 GiB have it: convolutions and poolings alone, loss by mean squared error."""
    lines, value, channels, height = [f"graph darknet19-plain-{size}", f"input x f32[1, 3, {size}, {size}]"], "x", 3, size
    for i, layer in enumerate(LAYERS):
        if layer is None:
            height //= 2
            lines.append(f"l{i}: v{i} = max_pool({value}) kernel=[2, 2] stride=[2, 2]")
        else:
            out, kernel = layer
            pad = kernel // 2
            lines.append(f"param l{i}.weight f32[{out}, {channels}, {kernel}, {kernel}] init=normal:0.05")
            lines.append(f"l{i}: v{i} = conv2d({value}, l{i}.weight) padding=[{pad}, {pad}, {pad}, {pad}]")
            channels = out
        value = f"v{i}"
    lines += [f"input target f32[1, {channels}, {height}, {height}]", f"loss: loss = mean_squared_error({value}, target)", "output loss", ""]
    text = "\n".join(lines)
    path = os.path.join(folder, f"darknet19-plain-{size}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.graph")
    with open(path, "w") as file:
        file.write(text)
    return path


def model_arguments(answers, model, size):
    if MODELS[model] is None:
        return [plain_darknet(answers.folder, size)]
    return [MODELS[model], "--image", str(size), "--batch", "1"]


def compare(answers, task):
    model, device, size = task
    name, memory, host = DEVICES[device]
    # In f32, as on the other card: the text says nothing of TF32.
    where = ["--device", name, "--profile", "roofline", "--precision", "f32", "--memory", memory, "--host-memory", host]
    rows = answers.ask("compare", *model_arguments(answers, model, size), *where, "--planners", ",".join(PLANNERS.values()))["rows"]
    return {row["planner"]: row for row in rows}


def activation_bytes(answers, model, size):
    """The input and what each convolution and pooling makes, as PyTorch would keep them."""
    text = answers.text("plan", *model_arguments(answers, model, size), "--dump", "graph", "--memory", "0")
    found = re.findall(r"^(?:input x |.* = (?:conv2d|max_pool)\(.*: )f32\[([\d, ]+)\]", text, re.MULTILINE)
    total = 0
    for shape in found:
        elements = 1
        for extent in shape.split(", "):
            elements *= int(extent)
        total += 4 * elements
    return total


def seconds_of(row):
    return row["step_s"] if row["fits"] else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    answers = answers_of(arguments)
    tasks = [(model, device, size) for model in MODELS for device in DEVICES for size in SIZES]
    found = dict(zip(tasks, answers.each(tasks, lambda task: compare(answers, task), "Fig. 8")))

    rows = [["model", "device", "image", *PLANNERS, "sft / base", "tiles", "peak GiB", "the paper's sft", "ours / paper"]]
    for (model, device, size), by_planner in found.items():
        times = {name: seconds_of(by_planner[planner]) for name, planner in PLANNERS.items()}
        sft = by_planner["sft"]
        printed = SECONDS.get((model, device, size))
        whole = sft["keep_step_s"]
        rows.append(
            [
                model if (device, size) == (next(iter(DEVICES)), SIZES[0]) else "",
                device if size == SIZES[0] else "",
                str(size),
                *("-" if time is None else f"{time:.3f}" for time in times.values()),
                "-" if times["sft"] is None else f"{times['sft'] / whole:.2f}",
                str(sft["tiles"]) if sft["fits"] else "-",
                f"{sft['peak_bytes'] / 2**30:.1f}" if sft["fits"] else "-",
                f"{printed:.1f}" if printed else "",
                f"{times['sft'] / printed:.2f}" if printed and times["sft"] else "",
            ]
        )
    sizes = [["model", "the paper", "ours"]]
    for model, printed in ACTIVATIONS.items():
        sizes.append([model, f"{printed} GiB", f"{activation_bytes(answers, model, 10240) / 2**30:.1f} GiB"])
    text = [
        'Seconds of a training step with one image, Fig. 8 of "segmented fused-tiled execution"',
        "bench/papers/sft.py; f32, sgd with momentum; times from rooflines; '-': the planner refuses the memory",
        "sft / base: over keep with memory without limit",
        "",
        table(rows),
        "",
        "All activations of one image of 10,240²: the input and what each convolution and pooling makes",
        "",
        table(sizes),
        "",
    ]
    give_out("\n".join(text), os.path.join(arguments.results, "sft.txt"))
    panels = []
    for model in MODELS:
        for device in DEVICES:
            lines = {name: [(size, seconds_of(found[model, device, size][planner])) for size in SIZES] for name, planner in PLANNERS.items()}
            lines["the paper's sft"] = [(size, SECONDS.get((model, device, size))) for size in SIZES]
            panels.append(Panel(f"{model}, {device}", lines))
    plot(os.path.join(arguments.results, "sft-fig08.svg"), "Fig. 8: one training step", panels, "image", "seconds", 2, 0)


if __name__ == "__main__":
    main()

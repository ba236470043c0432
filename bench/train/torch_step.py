"""One process of training steps in PyTorch; prints a JSON object with the seconds of each step and the peak memory above its start.

Threads, wait policy and malloc settings come from the environment, which run.py sets before the interpreter starts.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "torch"))
import models


def resident(key):
    """VmRSS or VmHWM in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(key)


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def make_task(arguments):
    """A module, its loss and a batch, as tests/torch has them."""
    volume = arguments.model == "unet3d"
    if arguments.seq:
        classes = {"bert": 30522, "gpt2": 50257}.get(arguments.model.split("-")[0], 37000)
        size = models.Size(arguments.batch, sequence=arguments.seq, classes=classes)
        x = torch.randint(classes, (arguments.batch, arguments.seq))
        return models.build(arguments.model, size), x, torch.randint(classes, x.shape)
    size = models.Size(arguments.batch, (arguments.image,) * (3 if volume else 2), classes=2 if arguments.model.startswith("unet") else 1000)
    model = models.build(arguments.model, size)
    x = torch.randn(arguments.batch, 1 if volume else 3, *size.spatial())
    if hasattr(model, "regression"):
        with torch.no_grad():
            return model, x, torch.randn_like(model(x[:1])).expand(arguments.batch, -1, -1, -1)
    return model, x, torch.randint(size.classes, (arguments.batch, *(size.spatial() if size.classes == 2 else ())))


def loss_of(model, x, y):
    if hasattr(model, "loss"):
        return model.loss(x, y)
    return F.mse_loss(model(x), y) if y.is_floating_point() else F.cross_entropy(model(x), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--image", type=int, default=0)
    parser.add_argument("--seq", type=int, default=0)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    # The libraries are loaded; from here on memory is the model's and the training's.
    reset_peak()
    start = resident("VmRSS")

    model, x, y = make_task(arguments)
    layout = torch.contiguous_format
    if arguments.channels_last:
        layout = torch.channels_last_3d if x.dim() == 5 else torch.channels_last
    if x.is_floating_point():
        x = x.to(memory_format=layout)
    model = model.to(memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seconds = []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, x, y).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "peak_bytes": resident("VmHWM") - start}))


if __name__ == "__main__":
    main()

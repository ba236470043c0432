"""One process of training steps in PyTorch; prints a JSON object with the seconds of each step and the peak memory above its start.

Threads, wait policy and malloc settings come from the environment, which run.py sets before the interpreter starts.
"""

import argparse
import json
import time

import torch
import torchvision


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--image", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    # The libraries are loaded; from here on memory is the model's and the training's.
    reset_peak()
    start = resident("VmRSS")

    layout = torch.channels_last if arguments.channels_last else torch.contiguous_format
    x = torch.randn(arguments.batch, 3, arguments.image, arguments.image).to(memory_format=layout)
    if arguments.model.endswith("-features"):
        model = getattr(torchvision.models, arguments.model[: -len("-features")])().features
        loss_of = torch.nn.MSELoss()
        with torch.no_grad():
            y = torch.randn_like(model(x[:1])).expand(arguments.batch, -1, -1, -1)
    else:
        model = getattr(torchvision.models, arguments.model)()
        loss_of = torch.nn.CrossEntropyLoss()
        y = torch.randint(1000, (arguments.batch,))
    model = model.to(memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seconds = []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "peak_bytes": resident("VmHWM") - start}))


if __name__ == "__main__":
    main()

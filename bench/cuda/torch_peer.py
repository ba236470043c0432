#!/usr/bin/env python3
"""PyTorch's training step on the card, as a user would run it: TF32, channels-last, cudnn.benchmark; forward, loss, backward, without an
optimizer. One JSON object: the median step and the memory, eager and by torch.compile.

torch_peer.py MODEL BATCH SIZE [warm] [kernels=SECONDS] [width=W] [dropout=P] [cap=GIB means=MEANS [largest=batch|size] [by=N]]
MODEL: a name of torchvision, vgg16-features, volume (volume.py), bert-large or gpt2; SIZE: the side of an image or volume, or the
tokens of a text. `warm` compiles and times nothing. cap=GIB: PyTorch has no more of the card than that. means: how it is to do with
it: plain, compiled, checkpoint (of blocks), save_on_cpu (all that backward needs, in pinned memory), or budget (torch.compile with
activation_memory_budget 0.3). largest: where the batch or size given does not fit, the largest multiple of N that was found to. kernels=SECONDS: where the faster way takes less than that, also a table of its
kernels. The language models call scaled_dot_product_attention, which takes the fastest kernel that PyTorch has."""
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import volume

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True


class Language(nn.Module):
    """BERT with its masked language model head, or GPT-2, with the parameters that the zoo's have."""

    def __init__(self, words, width, layers, tokens, gpt, dropout):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(1024 if gpt else 512, width) * 0.02)
        self.tokens, self.drop = tokens, nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout, F.gelu, batch_first=True, norm_first=gpt) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        if not gpt:
            self.segment, self.first = nn.Parameter(torch.randn(2, width) * 0.02), nn.LayerNorm(width)
            self.transform, self.bias = nn.Linear(width, width), nn.Parameter(torch.zeros(words))
        self.gpt = gpt
        self.register_buffer("mask", torch.full((tokens, tokens), float("-inf")).triu(1) if gpt else None)

    def forward(self, tokens):
        x = self.words(tokens) + self.places[:self.tokens]
        x = self.drop(x if self.gpt else self.first(x + self.segment[0]))
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True) if self.gpt else layer(x)
        if self.gpt:
            return F.linear(self.last(x), self.words.weight)
        return F.linear(self.last(F.gelu(self.transform(x))), self.words.weight, self.bias)


def make(name, batch, size, width, dropout):
    """The model, its input, its labels, and its loss of output and labels."""
    if name in ("bert-large", "gpt2"):
        words, heads, layers = (30522, 16, 24) if name == "bert-large" else (50257, 12, 12)
        model = Language(words, 64 * max(1, round(heads * width)), layers, size, name == "gpt2", dropout).to(DEVICE)
        x = torch.randint(0, words, (batch, size), device=DEVICE)
        return model, x, x.roll(1, 1), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten())
    if name == "volume":
        model = volume.module(round(32 * width)).to(DEVICE).to(memory_format=torch.channels_last_3d)
        x = torch.randn(batch, 1, size, size, size, device=DEVICE).to(memory_format=torch.channels_last_3d)
        return model, x, torch.randint(0, volume.CLASSES, (batch, size, size, size), device=DEVICE), F.cross_entropy
    import torchvision
    features = name == "vgg16-features"
    model = torchvision.models.vgg16().features if features else getattr(torchvision.models, name)()
    x = torch.randn(batch, 3, size, size, device=DEVICE).to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device=DEVICE)
    loss = (lambda out, _: out.square().mean()) if features else F.cross_entropy
    return model.to(DEVICE).to(memory_format=torch.channels_last), x, y, loss


def checkpointed(model, name):
    """Has the model's blocks keep what goes into them alone, and be computed again in backward."""
    from torch.utils.checkpoint import checkpoint

    def wrap(module):
        forward = module.forward
        module.forward = lambda *inputs, **named: checkpoint(forward, *inputs, use_reentrant=False, **named)

    if name in ("bert-large", "gpt2"):
        blocks = list(model.layers)
    elif name == "volume":
        blocks = [*model.down, *model.merge]
    elif name == "vgg16-features":
        return nn.Sequential(*(Checkpointed(run) for run in runs_between_pools(model)))
    elif hasattr(model, "layer1"):
        blocks = [block for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for block in layer]
    else:
        model.features = nn.Sequential(*(Checkpointed(run) for run in runs_between_pools(model.features)))
        return model
    for block in blocks:
        wrap(block)
    return model


class Checkpointed(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint
        return checkpoint(self.layers, x, use_reentrant=False)


def runs_between_pools(layers):
    """The layers of a sequence in runs that end with a pool."""
    runs = [[]]
    for layer in layers:
        runs[-1].append(layer)
        if isinstance(layer, nn.MaxPool2d):
            runs.append([])
    return [run for run in runs if run]


def step_of(model, loss, means):
    """The loss of a batch, by one of the means."""
    def loss_of(x, y):
        return loss(model(x), y)

    if means == "save_on_cpu":
        def saved(x, y):
            with torch.autograd.graph.save_on_cpu(pin_memory=DEVICE == "cuda"):
                return loss_of(x, y)
        return saved
    if means == "budget":
        from torch._functorch import config
        config.activation_memory_budget = 0.3
        return torch.compile(loss_of)
    return torch.compile(loss_of) if means == "compiled" else loss_of


def under_cap(name, batch, size, options):
    """What one of PyTorch's means does with so much memory: seconds and bytes of the batch and size given, or of the largest that fits."""
    means, varied, step = options["means"], options.get("largest"), int(options.get("by", 1))
    if DEVICE == "cuda":
        torch.cuda.set_per_process_memory_fraction(min(1.0, float(options["cap"]) * 2**30 / torch.cuda.get_device_properties(0).total_memory))
    asked = {"batch": batch, "size": size}

    def attempt(value):
        now = dict(asked, **({varied: value} if varied else {}))
        x = y = model = run = None
        try:
            torch.manual_seed(0)
            model, x, y, loss = make(name, now["batch"], now["size"], float(options.get("width", 1)), 0.0)
            if means == "checkpoint":
                model = checkpointed(model, name)
            model.train()
            run = step_of(model, loss, means)
            times, bytes_ = steps(model, run, x, y, 3 if DEVICE == "cuda" else 1, 2 if DEVICE == "cuda" else 1)
            return {**now, "seconds": sorted(times)[len(times) // 2], "bytes": bytes_}
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            return {**now, "error": f"out of memory: {error}"[:160]}
        finally:
            del x, y, model, run
            if DEVICE == "cuda":
                torch.cuda.empty_cache()

    found = attempt(asked[varied] if varied else 0)
    if not varied or "error" not in found:
        return found
    fits, too_much, best = 0, asked[varied] // step, found
    while too_much - fits > 1 and (fits == 0 or too_much / fits > 1.15):
        middle = (fits + too_much) // 2 if fits else max(1, too_much // 2)
        found = attempt(middle * step)
        if "error" in found:
            too_much = middle
        else:
            fits, best = middle, found
    return best


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def steps(model, run, x, y, count, first=3):
    """Seconds of each step after the first few, and the most memory that was taken, in bytes."""
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(first + count):
        synchronize()
        begin = time.perf_counter()
        for parameter in model.parameters():
            parameter.grad = None
        run(x, y).backward()
        synchronize()
        times.append(time.perf_counter() - begin)
    return times[first:], torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0


def kernels(run, x, y, rows=24):
    """The step's kernels, by torch.profiler."""
    from torch.profiler import ProfilerActivity, profile
    activities = [ProfilerActivity.CUDA] if DEVICE == "cuda" else [ProfilerActivity.CPU]
    with profile(activities=activities) as profiled:
        run(x, y).backward()
        synchronize()
    total = lambda event: getattr(event, "self_device_time_total", 0) or getattr(event, "self_cuda_time_total", 0) or event.self_cpu_time_total
    events = sorted(profiled.key_averages(), key=lambda event: -total(event))
    return [[event.key[:120], event.count, total(event) / 1e3] for event in events[:rows]]


def main():
    name, batch, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    options = dict(word.split("=") for word in sys.argv[4:] if "=" in word)
    if "cap" in options:
        try:
            print(json.dumps(under_cap(name, batch, size, options)))
        except Exception as error:  # the compiler's own, or what this version does not have
            print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}))
        return
    torch.manual_seed(0)
    model, x, y, loss = make(name, batch, size, float(options.get("width", 1)), float(options.get("dropout", 0)))
    model.train()
    count = 10 if DEVICE == "cuda" else 1

    def loss_of(x, y):
        return loss(model(x), y)

    compiled = torch.compile(loss_of) if hasattr(torch, "compile") and DEVICE == "cuda" else None
    if "warm" in sys.argv:
        if compiled:
            steps(model, compiled, x, y, 1, 0)
        print("{}")
        return
    found = {"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters())}
    ways = {"eager": loss_of} | ({"compiled": compiled} if compiled else {})
    for way, run in ways.items():
        try:
            times, bytes_ = steps(model, run, x, y, count, 3 if DEVICE == "cuda" else 1)
            found[way] = {"seconds": sorted(times)[len(times) // 2], "bytes": bytes_}
        except Exception as error:  # out of memory, or the compiler's own
            found[way] = {"error": f"{type(error).__name__}: {error}"[:300]}
    well = [way for way in ways if "seconds" in found[way]]
    if well:
        best = min(well, key=lambda way: found[way]["seconds"])
        if found[best]["seconds"] < float(options.get("kernels", 0)):
            try:
                found["kernels"] = kernels(ways[best], x, y)
            except Exception as error:  # a profiler that this machine does not allow
                found["kernels"] = [[f"{type(error).__name__}: {error}"[:200], 0, 0.0]]
    print(json.dumps(found))


main()

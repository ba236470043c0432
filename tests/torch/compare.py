"""Trains a model with Outsize and with PyTorch from the same weights and data and compares everything that comes out.

Compared after one step and after three: the losses, what the steps have added to every parameter and to running statistics, the
optimizer's states, and the last gradient of every parameter and of the input.
The error of a tensor is |a - b| / |b| (L2), b from PyTorch in double precision; where a
gradient is zero but for rounding (the bias of a key, a bias before a norm), |b| is that of the largest gradient, and likewise of the
largest update and state. An update is read off two stored values: what storing them may round in so many steps, half a unit in the last
place of each element, is not counted against it.

--planner NAME, once or more often, compares what that planner makes of half the memory that `keep` takes, with a lower tier for what
leaves. The peak must be within that half, and the plan must do what the planner is there for: see PLANNED.

In single precision a fresh network with many relus cannot be compared so: where rounding flips the sign of one relu's input, or
which element of a window is the largest, all gradients before it change by 1e-3 to 1e-2 (a fresh ResNet: PyTorch's own f32 differs
from its f64 by 3e-2). Three ways out:
  --norms shifted   the norms are given weights that keep most inputs of a relu away from 0 and damp the residual branches, as
                    training does;
  --margin M        the data set (--seed) is one in which PyTorch, in double precision, has no input of a relu nearer to 0 than M and
                    no two largest elements of a max pool's window nearer to each other, relative to the inputs of that relu or
                    pool: whether a data set serves never depends on Outsize. --search N finds seeds;
  --deep            for the very deep: the error may be twice PyTorch's own in single precision, over all tensors of a kind together
                    and at its worst.
In double precision fresh weights are compared on any data set.

Exit status: 0 equal, 1 different, 77 PyTorch is not there.
"""

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile

import numpy as np

import tensors

try:
    import torch
    import torch.nn.functional as F
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import models
import random_bits

OPTIMIZERS = {
    "sgd": {"lr": 0.01, "momentum": 0.9, "weight-decay": 1e-4},
    "adamw": {"lr": 0.001, "weight-decay": 0.01},
}
# The project's tolerances. Adam divides by the gradient's size: that of a key's bias, which is nothing but rounding, comes to 1.1e-9.
LIMITS = {("f32", "sgd"): 1e-4, ("f64", "sgd"): 1e-9, ("f64", "adamw"): 2e-9}
# Of the largest norm of its kind: what is less is zero but for rounding.
ZERO = 1e-10
# The most that storing a number rounds it by, relative to it.
HALF_UNIT = {"f32": 2.0**-24, "f64": 2.0**-53}
# What Outsize calls the optimizer's states, and what PyTorch calls them.
STATES = {".momentum": "momentum_buffer", ".adam_m": "exp_avg", ".adam_v": "exp_avg_sq"}
# What at least one must be other than 0 of, in the report of a plan: or else nothing was done to fit.
PLANNED = {
    "2ps-h": ["tiles"],
    "sft": ["tiles"],
    "tsplit": ["tiles", "swapped_bytes", "recomputed_ops"],
    "dynprog": ["swapped_bytes"],
    "stream": ["swapped_bytes", "recomputed_ops"],
    "remake": ["recomputed_ops"],
}


def shift_norms(model):
    """See --norms. The stem's norm is shifted the other way, or else nothing would clip between it and the next norm, and its
    gradient would be 0."""
    generator = torch.Generator().manual_seed(3)
    for name, norm in model.named_modules():
        if not isinstance(norm, (torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)):
            continue
        shift = torch.empty_like(norm.bias).uniform_(2, 3, generator=generator)
        with torch.no_grad():
            norm.weight.uniform_(0.5, 1.5, generator=generator)
            norm.bias.copy_(norm.weight * (shift if name != "bn1" else -1))
    for block in model.modules():
        if isinstance(block, (torchvision.models.resnet.BasicBlock, torchvision.models.resnet.Bottleneck)):
            last = block.bn3 if hasattr(block, "bn3") else block.bn2
            with torch.no_grad():
                last.weight *= 0.3
                last.bias.zero_()


def relu_margin(x, *_arguments, **_named):
    """The distance of the input nearest to 0, relative to the root mean square of the inputs."""
    return x.abs().min() / x.square().mean().sqrt()


def pool_margin(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The least gap between the two largest of a window, relative to the root mean square of the inputs. A largest of 0 is the output
    of a relu that lets no gradient through, so a tie there is harmless; how near that relu is to letting it through is its own margin."""
    if dilation != 1 or ceil_mode:
        raise ValueError("no margin is known for a dilated pool or one that rounds its size up")

    def per_dimension(value):
        return [value] * (x.dim() - 2) if isinstance(value, int) else list(value)

    windows = F.pad(x, [p for p in reversed(per_dimension(padding)) for _ in range(2)], value=-math.inf)
    for i, (extent, step) in enumerate(zip(per_dimension(kernel_size), per_dimension(stride or kernel_size))):
        windows = windows.unfold(2 + i, extent, step)
    largest, second = windows.flatten(x.dim()).topk(2).values.unbind(-1)
    gaps = (largest - second)[largest != 0]
    return gaps.min() / x.square().mean().sqrt() if len(gaps) else torch.tensor(math.inf)


class Task:
    """A model as Outsize's zoo has it, with a batch for each of three steps."""

    def __init__(self, name, size, shifted, seed, optimizer):
        torch.manual_seed(1)
        self.name, self.size, self.optimizer = name, size, optimizer
        self.exact = None  # what `train` returns in double precision, once that is known
        self.model = models.build(name, size)
        if shifted:
            shift_norms(self.model)
        self.initial = {key: value.clone() for key, value in self.model.state_dict().items()}
        samples, generator = 3 * size.batch, np.random.default_rng(seed)
        if size.sequence:
            self.x = generator.integers(0, size.classes, (samples, size.sequence)).astype(np.int32)
            self.y = generator.integers(0, size.classes, (samples, size.sequence))
            if name.startswith("bert"):
                self.y[generator.random(self.y.shape) < 0.5] = -100
            return
        channels = 1 if len(size.image) == 3 else 3
        self.x = generator.standard_normal((samples, channels, *size.spatial())).astype(np.float32)
        if hasattr(self.model, "regression"):
            with torch.no_grad():
                shape = self.model(torch.from_numpy(self.x[:1])).shape[1:]
            self.y = generator.standard_normal((samples, *shape)).astype(np.float32)
        elif name.startswith("unet"):
            self.y = generator.integers(0, size.classes, (samples, *size.spatial()))
        else:
            self.y = generator.integers(0, size.classes, samples)

    def loss(self, model, x, y):
        if hasattr(model, "loss"):
            return model.loss(x, y)
        return F.mse_loss(model(x), y) if hasattr(model, "regression") else F.cross_entropy(model(x), y)

    def margin(self):
        """How near a relu or maximum comes to a flip in three steps in double precision, whose results are kept in `exact`."""
        nearest, distances = [], {"relu": relu_margin, "leaky_relu": relu_margin, "max_pool2d": pool_margin, "max_pool3d": pool_margin}
        originals = {name: getattr(F, name) for name in distances}

        def measured(name):
            def call(x, *arguments, **named):
                nearest.append(distances[name](x.detach(), *arguments, **named).item())
                return originals[name](x, *arguments, **named)

            return call

        for name in originals:
            setattr(F, name, measured(name))
        try:
            self.exact = self.train(torch.float64)
        finally:
            for name, function in originals.items():
                setattr(F, name, function)
        return float(np.min(nearest)) if nearest else 1.0  # of which a NaN is the least

    def train(self, dtype):
        """PyTorch's losses, last gradients and state after one step and after three."""
        self.model.load_state_dict(self.initial)
        model, flags = self.model.to(dtype).train(), OPTIMIZERS[self.optimizer]
        if self.optimizer == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), flags["lr"], flags["momentum"], weight_decay=flags["weight-decay"])
        else:
            optimizer = torch.optim.AdamW(model.parameters(), flags["lr"], weight_decay=flags["weight-decay"])
        losses, after = [], {}
        for step in range(3):
            random_bits.set_step(step)
            rows = slice(step * self.size.batch, (step + 1) * self.size.batch)
            x, y = torch.from_numpy(self.x[rows]), torch.from_numpy(self.y[rows])
            if x.is_floating_point():
                x = x.to(dtype).requires_grad_()
            loss = self.loss(model, x, y.to(dtype) if y.is_floating_point() else y)
            optimizer.zero_grad()
            loss.backward()
            gradients = {name: value.grad.numpy().copy() for name, value in model.named_parameters()}
            if x.is_floating_point():
                gradients["x"] = x.grad.numpy().copy()
            optimizer.step()
            losses.append(loss.item())
            if step != 1:
                state = {name: value.numpy().copy() for name, value in model.state_dict().items()}
                for name, value in model.named_parameters():
                    for suffix, kind in STATES.items():
                        if kind in optimizer.state[value]:
                            state[name + suffix] = optimizer.state[value][kind].numpy().copy()
                after[step + 1] = losses.copy(), gradients, state
        return after


def run_outsize(arguments, task, steps, folder, flags):
    """Outsize's losses, last gradients, state and report after so many steps, with further flags, from the files in `folder`."""
    saved, gradients = os.path.join(folder, "saved.safetensors"), os.path.join(folder, "gradients.safetensors")
    command = [*shlex.split(arguments.outsize), "train", task.name, "--json", "--threads", "2", "--shuffle", "off"]
    command += ["--batch", str(task.size.batch), "--width", repr(task.size.width)]
    if not task.name.endswith("-features"):  # which have targets, not labels
        command += ["--classes", str(task.size.classes)]
    command += ["--seq", str(task.size.sequence)] if task.size.sequence else ["--image", "x".join(map(str, task.size.image))]
    command += ["--dropout", str(task.size.dropout), "--seed", str(random_bits.SEED)]
    command += ["--precision", arguments.precision, "--steps", str(steps), "--optimizer", task.optimizer]
    for flag, value in OPTIMIZERS[task.optimizer].items():
        command += [f"--{flag}", str(value)]
    command += ["--data", os.path.join(folder, "data.npz"), "--weights", os.path.join(folder, "weights.safetensors")]
    command += ["--save", saved, "--save-gradients", gradients] + arguments.extra + flags
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stderr}")
    report = json.loads(done.stdout)
    if report["measured_peak_bytes"] != report["predicted_peak_bytes"]:
        sys.exit(f"the measured peak {report['measured_peak_bytes']} is not the predicted {report['predicted_peak_bytes']}")
    found = tensors.read(gradients)
    losses = list(found.pop("losses"))
    if losses != report["losses"]:
        sys.exit("the losses saved are not the losses reported")
    return losses, {name[len("grad.") :]: array for name, array in found.items()}, tensors.read(saved), report


def planned_flags(arguments, task, folder, planner):
    """The flags of half the memory that `keep` takes, and that memory in bytes."""
    whole = run_outsize(arguments, task, 1, folder, ["--planner", "keep"])[3]["measured_peak_bytes"]
    return ["--planner", planner, "--memory", str(whole // 2), "--host-memory", "8GiB"], whole


def plain_name(planner):
    """Without options."""
    return planner.split(":")[0]


def check_planned(planner, report, whole):
    """That the plan is the planner's, and what fits is not simply everything."""
    planner = plain_name(planner)
    if report["planner"] != planner:
        sys.exit(f"planner {report['planner']} where {planner} is asked for")
    if not 0 < 2 * report["measured_peak_bytes"] <= whole:
        sys.exit(f"{planner}: a peak of {report['measured_peak_bytes']} bytes, where half of what `keep` takes is {whole // 2}")
    if not any(report[key] > 0 for key in PLANNED[planner]):
        sys.exit(f"{planner}: {' and '.join(PLANNED[planner])} are 0, so everything is kept")


class Errors:
    """The relative errors of a group of tensors, of each and of all together. `zeros`: names of those that are zero but for rounding,
    besides those that are so small; `rounding`: by name, the part of a difference's norm that is not counted; `least`: by name, what
    a difference is divided by where the tensor's own norm is less."""

    def __init__(self, found, expected, zeros=frozenset(), rounding=None, least=None):
        self.each, self.wrong = {}, []
        if set(found) != set(expected):
            self.wrong.append(f"only in one: {sorted(set(found) ^ set(expected))[:8]}")
        norms = {name: np.linalg.norm(np.asarray(array, np.float64)) for name, array in expected.items()}
        largest, difference_squares, norm_squares = max(norms.values(), default=0), 0.0, 1e-300
        for name in sorted(set(found) & set(expected)):
            a, b = np.asarray(found[name], np.float64), np.asarray(expected[name], np.float64)
            if a.shape != b.shape:
                self.wrong.append(f"{name}: shape {a.shape}, expected {b.shape}")
                continue
            difference = np.linalg.norm(a - b) - (rounding[name] if rounding else 0)
            if difference < 0:  # which a NaN is not
                difference = 0.0
            zero = name in zeros or norms[name] < ZERO * largest
            self.each[name] = difference / max(largest if zero else norms[name], least.get(name, 0) if least else 0, 1e-300)
            difference_squares += difference**2
            norm_squares += norms[name] ** 2
        self.together = (difference_squares / norm_squares) ** 0.5

    def worst(self):
        """The largest error and whose it is; a NaN is larger than any."""
        return max(((math.inf if math.isnan(error) else error, name) for name, error in self.each.items()), default=(0.0, ""))


class Comparison:
    """Errors of groups against limits."""

    def __init__(self, limit):
        self.limit, self.failures, self.lines = limit, [], []

    def check(self, group, found, expected, peer=None, **how):
        """`peer`: PyTorch's own in single precision, where twice its error is allowed; `how`: as Errors takes it."""
        errors = Errors(found, expected, **how)
        self.failures += [f"{group}: {text}" for text in errors.wrong]
        worst, name = errors.worst()
        line = f"{group:28} {worst:.3g} {name}"
        if peer is None:
            for each, error in errors.each.items():
                if not error <= self.limit:
                    self.failures.append(f"{group} {each}: relative error {error:.3g}, at most {self.limit:g} expected")
        else:
            own = Errors(peer, expected, **how)
            line += f"; together {errors.together:.3g}; PyTorch's own {own.worst()[0]:.3g}, together {own.together:.3g}"
            if not (worst <= max(self.limit, 2 * own.worst()[0]) and errors.together <= max(self.limit, 2 * own.together)):
                self.failures.append(f"{group}: error {worst:.3g} ({errors.together:.3g} together) is over twice PyTorch's own")
        self.lines.append(line)


def split_state(state, initial):
    """By kind: what was added to parameters and to running statistics, and the optimizer's states; without counters."""
    kinds = {"updates": {}, "running statistics": {}}
    for name, array in state.items():
        suffix = next((suffix for suffix in STATES if name.endswith(suffix)), "")
        if suffix:
            kinds.setdefault(suffix, {})[name] = array
        elif not name.endswith((".num_batches_tracked", "training.steps")):
            added = np.asarray(array, np.float64) - np.asarray(initial[name], np.float64)
            kinds["running statistics" if ".running_" in name else "updates"][name] = added
    return kinds


def make_task(arguments, seed):
    size = models.Size(
        batch=arguments.batch,
        image=tuple(map(int, arguments.image.split("x"))) if not arguments.seq else (),
        sequence=arguments.seq,
        classes=arguments.classes,
        width=arguments.width,
        dropout=arguments.dropout,
    )
    if len(size.image) == 1:
        size.image *= 3 if arguments.model == "unet3d" else 2
    return Task(arguments.model, size, arguments.norms == "shifted", seed, arguments.optimizer)


def compare_runs(comparison, arguments, task, folder, planner, exact_after, peer_after):
    """One and three steps of Outsize beside PyTorch's."""
    flags, whole = planned_flags(arguments, task, folder, planner) if planner else ([], 0)
    initial = {name: np.asarray(value.numpy(), np.float64) for name, value in task.initial.items()}
    for steps in (1, 3):
        losses, gradients, state, report = run_outsize(arguments, task, steps, folder, flags)
        if planner:
            check_planned(planner, report, whole)
            done = ", ".join(f"{key} {report[key]}" for key in ("tiles", "swapped_bytes", "recomputed_ops") if report[key])
            comparison.lines.append(f"{planner}: {report['measured_peak_bytes']} of {whole} bytes; {done}")
        exact_losses, exact_gradients, exact_state = exact_after[steps]
        peer = peer_after.get(steps)
        when = f"{planner}, " if planner else ""
        when += "1 step" if steps == 1 else f"{steps} steps"
        comparison.check(f"{when}: losses", {"": losses}, {"": exact_losses}, peer and {"": peer[0]})
        norms = {name: np.linalg.norm(array) for name, array in exact_gradients.items() if name in initial}
        zeros = {name for name, norm in norms.items() if norm < ZERO * max(norms.values())}
        zeros |= {name + suffix for name in zeros for suffix in STATES}
        # What so many roundings of each element may come to.
        unit = steps * HALF_UNIT[arguments.precision]
        rounding = {name: unit * max(np.linalg.norm(array), np.linalg.norm(exact_state[name])) for name, array in initial.items()}
        found, peers = split_state(state, initial), split_state(peer[2], initial) if peer else {}
        for kind, exact in split_state(exact_state, initial).items():
            stored = None if kind in STATES else rounding
            comparison.check(f"{when}: {kind}", found.pop(kind, {}), exact, peers.get(kind), zeros=zeros, rounding=stored)
        comparison.failures += [f"{when}: {kind}, of which PyTorch has none" for kind in found]
        # Training makes some gradients small (of the queries' and keys' weights, within two steps, 1/500): what rounding has moved
        # until then is of the size that they had at first.
        first = {name: np.linalg.norm(array) for name, array in exact_after[1][1].items()} if arguments.precision == "f32" else {}
        comparison.check(f"{when}: gradients", gradients, exact_gradients, peer and peer[1], least=first)


def compare(arguments, task):
    """The comparison on one data set."""
    comparison = Comparison(LIMITS[(arguments.precision, arguments.optimizer)])
    with tempfile.TemporaryDirectory() as folder:
        weights = {name: value.numpy() for name, value in task.initial.items()}
        tensors.write(os.path.join(folder, "weights.safetensors"), weights)
        np.savez(os.path.join(folder, "data.npz"), x=task.x, y=task.y)
        exact_after = task.exact or task.train(torch.float64)
        peer_after = task.train(torch.float32) if arguments.deep else {}
        for planner in arguments.planner or [""]:
            compare_runs(comparison, arguments, task, folder, planner, exact_after, peer_after)
    return comparison


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--outsize", default="build/release/outsize", help="the words that start it")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--image", default="64")
    parser.add_argument("--seq", type=int, default=0)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="sgd")
    parser.add_argument("--seed", type=int, default=5, help="of the data set")
    parser.add_argument("--norms", choices=["fresh", "shifted"], default="fresh")
    parser.add_argument("--margin", type=float, default=0, help="refuse a data set with a relu or maximum nearer to a flip")
    parser.add_argument("--search", type=int, default=0, help="print the margins of so many seeds and stop")
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--planner", action="append", help="at half of what `keep` takes; may be repeated, and have options")
    parser.add_argument("--precision", choices=["f32", "f64"], default="f32")
    parser.epilog = "Further flags of `outsize train` stand after --."
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:end])
    arguments.extra = sys.argv[end + 1 :]
    for planner in arguments.planner or []:
        if plain_name(planner) not in PLANNED:
            parser.error(f"--planner: what {planner} is there for is not known; there are {', '.join(sorted(PLANNED))}")
    torch.set_num_threads(2)
    for seed in range(arguments.seed, arguments.seed + arguments.search):
        print(f"seed {seed}: margin {make_task(arguments, seed).margin():.2g}", flush=True)
    if arguments.search:
        return
    task = make_task(arguments, arguments.seed)
    if arguments.margin and not task.margin() >= arguments.margin:
        sys.exit(f"in data set {arguments.seed} a relu or maximum is nearer to a flip than {arguments.margin:g}; --search finds another")
    comparison = compare(arguments, task)
    print(f"worst relative errors (at most {comparison.limit:g} expected{', or twice PyTorch’s own' if arguments.deep else ''}):")
    for line in comparison.lines:
        print("  " + line)
    for failure in comparison.failures[:20]:
        print("  FAILED", failure)
    if len(comparison.failures) > 20:
        print(f"  FAILED and {len(comparison.failures) - 20} more")
    sys.exit(1 if comparison.failures else 0)


if __name__ == "__main__":
    main()

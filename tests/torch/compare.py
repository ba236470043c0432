"""Trains a model with Outsize and with PyTorch from the same weights and data and compares everything that comes out.

Compared after one step: the loss, the gradient of every parameter and of the input, running statistics. After three steps of SGD
with momentum and weight decay: the losses, every parameter, running statistics. The error of a tensor is |a - b| / |b| (L2), b from
PyTorch in double precision.

In single precision a freshly initialised ResNet cannot be compared so: where rounding flips the sign of one relu's input, all gradients
before it change by 1e-3 to 1e-2 (PyTorch's own f32 differs from its f64 by 3e-2). Its norms are therefore given weights that keep most
inputs of a relu away from 0 and damp the residual branches, as training does, and the data set (--seed) is one in which PyTorch, in
double precision, has no input of a relu nearer to 0 than --margin, relative to the inputs of that relu: whether a data set serves
never depends on Outsize. `--search N` finds such seeds. In double precision the fresh weights are compared on any data set.

Exit status: 0 equal, 1 different, 77 PyTorch is not there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import tensors

try:
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.01, 0.9, 1e-4
# f32: the project's tolerance for PyTorch. f64: rounding alone, amplified by the depth of the network.
LIMITS = {"f32": 2e-4, "f64": 1e-9}


def condition_norms(model):
    """See above. The stem's norm is shifted the other way, or else nothing would clip between it and the next norm, and its
    gradient would be 0."""
    generator = torch.Generator().manual_seed(3)
    for name, norm in model.named_modules():
        if not isinstance(norm, torch.nn.BatchNorm2d):
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


class Task:
    """A model of torchvision as Outsize's zoo has it, with a batch for each of three steps."""

    def __init__(self, name, batch, height, width, conditioned, seed, classes=10):
        torch.manual_seed(1)
        self.name, self.batch, self.size, self.classes = name, batch, (height, width), classes
        if name.endswith("-features"):
            whole = getattr(torchvision.models, name[: -len("-features")])()
            # As a child named "features", so that the state_dict has the names of the whole network.
            self.model = torch.nn.Sequential()
            self.model.add_module("features", whole.features)
            self.loss = torch.nn.MSELoss()
        else:
            self.model = getattr(torchvision.models, name)(num_classes=classes)
            for module in self.model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0  # the zoo's VGG has no dropout
            self.loss = torch.nn.CrossEntropyLoss()
        if conditioned:
            condition_norms(self.model)
        self.initial = {key: value.clone() for key, value in self.model.state_dict().items()}
        samples = 3 * batch
        generator = np.random.default_rng(seed)
        self.x = generator.standard_normal((samples, 3, height, width)).astype(np.float32)
        if name.endswith("-features"):
            with torch.no_grad():
                shape = self.model(torch.from_numpy(self.x[:1])).shape[1:]
            self.y = generator.standard_normal((samples, *shape)).astype(np.float32)
        else:
            self.y = generator.integers(0, classes, samples)

    def margin(self):
        """How near to 0 an input of a relu comes in three steps in double precision, relative to its call's root mean square."""
        nearest = []

        def measure(_module, inputs):
            sizes = inputs[0].detach().abs()
            nearest.append((sizes.min() / sizes.square().mean().sqrt()).item())

        relus = [module for module in self.model.modules() if isinstance(module, torch.nn.ReLU)]
        hooks = [relu.register_forward_pre_hook(measure) for relu in relus]
        self.train(3, torch.float64)
        for hook in hooks:
            hook.remove()
        return min(nearest)

    def train(self, steps, dtype):
        """PyTorch's losses, last gradients and state after so many steps."""
        self.model.load_state_dict(self.initial)
        model = self.model.to(dtype).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
        losses = []
        for step in range(steps):
            rows = slice(step * self.batch, (step + 1) * self.batch)
            x = torch.from_numpy(self.x[rows]).to(dtype).requires_grad_()
            y = torch.from_numpy(self.y[rows])
            loss = self.loss(model(x), y.to(dtype) if y.is_floating_point() else y)
            optimizer.zero_grad()
            loss.backward()
            gradients = {name: value.grad.numpy().copy() for name, value in model.named_parameters()}
            gradients["x"] = x.grad.numpy().copy()
            optimizer.step()
            losses.append(loss.item())
        state = {name: value.numpy().copy() for name, value in model.state_dict().items()}
        return losses, gradients, state


def run_outsize(arguments, task, steps, folder):
    """Outsize's losses, last gradients and state after so many steps from the files in `folder`."""
    saved, gradients = os.path.join(folder, "saved.safetensors"), os.path.join(folder, "gradients.safetensors")
    command = [arguments.outsize, "train", task.name, "--json", "--threads", "2", "--shuffle", "off"]
    command += ["--batch", str(task.batch), "--image", "{}x{}".format(*task.size), "--classes", str(task.classes)]
    command += ["--precision", arguments.precision, "--steps", str(steps)]
    command += ["--lr", str(LEARNING_RATE), "--momentum", str(MOMENTUM), "--weight-decay", str(WEIGHT_DECAY)]
    command += ["--data", os.path.join(folder, "data.npz"), "--weights", os.path.join(folder, "weights.safetensors")]
    command += ["--save", saved, "--save-gradients", gradients] + arguments.extra
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stderr}")
    report = json.loads(done.stdout)
    if report["measured_peak_bytes"] > report["predicted_peak_bytes"]:
        sys.exit(f"the measured peak {report['measured_peak_bytes']} exceeds the predicted {report['predicted_peak_bytes']}")
    found = tensors.read(gradients)
    losses = list(found.pop("losses"))
    if losses != report["losses"]:
        sys.exit("the losses saved are not the losses reported")
    return losses, {name[len("grad.") :]: array for name, array in found.items()}, tensors.read(saved)


class Comparison:
    """Collects relative errors against limits, and remembers the worst of each group."""

    def __init__(self, limit):
        self.limit, self.failures, self.worst = limit, [], {}

    def check(self, group, name, found, expected):
        found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
        if found.shape != expected.shape:
            self.failures.append(f"{group} {name}: shape {found.shape}, expected {expected.shape}")
            return
        error = np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-300)
        if error > self.worst.get(group, (-1, ""))[0]:
            self.worst[group] = (error, name)
        if not error <= self.limit:
            self.failures.append(f"{group} {name}: relative error {error:.3g}, at most {self.limit:g} expected")

    def check_all(self, group, found, expected):
        if set(found) != set(expected):
            self.failures.append(f"{group}: only in one: {sorted(set(found) ^ set(expected))[:8]}")
        for name in sorted(set(found) & set(expected)):
            self.check(group, name, found[name], expected[name])


def split_state(state):
    """Parameters and running statistics, without counters and optimizer state."""
    running = {name: array for name, array in state.items() if ".running_" in name}
    others = {
        name: array
        for name, array in state.items()
        if name not in running and not name.endswith((".momentum", ".num_batches_tracked"))
    }
    return others, running


def make_task(arguments, seed):
    height, _, width = arguments.image.partition("x")
    return Task(arguments.model, arguments.batch, int(height), int(width or height), arguments.precision == "f32", seed)


def compare(arguments, task):
    """The comparison on one data set."""
    comparison = Comparison(LIMITS[arguments.precision])
    with tempfile.TemporaryDirectory() as folder:
        tensors.write(
            os.path.join(folder, "weights.safetensors"),
            {name: value.numpy() for name, value in task.initial.items()},
        )
        np.savez(os.path.join(folder, "data.npz"), x=task.x, y=task.y)
        for steps in (1, 3):
            losses, gradients, state = run_outsize(arguments, task, steps, folder)
            expected_losses, expected_gradients, expected_state = task.train(steps, torch.float64)
            parameters, running = split_state(state)
            expected_parameters, expected_running = split_state(expected_state)
            when = "1 step" if steps == 1 else f"{steps} steps"
            comparison.check(f"{when}: losses", "", losses, expected_losses)
            comparison.check_all(f"{when}: parameters", parameters, expected_parameters)
            comparison.check_all(f"{when}: running statistics", running, expected_running)
            if steps == 1:
                comparison.check_all(f"{when}: gradients", gradients, expected_gradients)
    return comparison


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--outsize", default="build/release/outsize")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--image", default="64")
    parser.add_argument("--seed", type=int, default=5, help="of the data set")
    parser.add_argument("--margin", type=float, default=0, help="refuse a data set with an input of a relu nearer to 0")
    parser.add_argument("--search", type=int, default=0, help="print the margins of so many seeds and stop")
    parser.add_argument("--precision", choices=["f32", "f64"], default="f32")
    parser.add_argument("extra", nargs="*", help="further flags of `outsize train`, after --")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    for seed in range(arguments.seed, arguments.seed + arguments.search):
        print(f"seed {seed}: margin {make_task(arguments, seed).margin():.2g}", flush=True)
    if arguments.search:
        return
    task = make_task(arguments, arguments.seed)
    if arguments.margin and task.margin() < arguments.margin:
        sys.exit(f"in data set {arguments.seed} an input of a relu is nearer to 0 than {arguments.margin:g}; --search finds another")
    comparison = compare(arguments, task)
    print(f"worst relative errors (at most {comparison.limit:g} expected):")
    for group, (error, name) in comparison.worst.items():
        print(f"  {group:28} {error:.3g} {name}")
    for failure in comparison.failures:
        print("  FAILED", failure)
    sys.exit(1 if comparison.failures else 0)


if __name__ == "__main__":
    main()

"""Every case of every op that PyTorch has too: the reference kernels' result and gradients in f64 against PyTorch's.

Exit status: 0 equal, 1 different, 77 PyTorch is not there.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import tensors

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIMIT = 1e-9
# Inputs that PyTorch takes a gradient of and Outsize does not.
UNDIFFERENTIATED = {"target", "mask"}


def relative_error(found, expected):
    if found.shape != expected.shape:
        return np.inf
    return np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-12)


def check(case, arrays):
    """The errors of one case, by name."""
    key = case["case"]
    scope = {"torch": torch, "F": F}
    leaves = {}
    for entry in case["inputs"]:
        tensor = torch.from_numpy(arrays[f"{key}/{entry['name']}"].copy())
        if entry["float"]:
            leaves[entry["name"]] = tensor.requires_grad_(case["differentiate"])
        else:
            tensor = tensor.long()
        scope[entry["name"]] = tensor
    for name, tensor in list(scope.items()):
        if "." in name:
            scope[name.replace(".", "_")] = tensor
    output = eval(case["torch"], scope)
    expected = arrays[f"{key}/output"]
    errors = {"output": relative_error(output.detach().numpy().reshape(expected.shape), expected)}
    if case["differentiate"]:
        output.backward(torch.from_numpy(arrays[f"{key}/seed"].copy()).reshape(output.shape))
        for name, leaf in leaves.items():
            ours = arrays.get(f"{key}/grad.{name}")
            if ours is None and (leaf.grad is None or name in UNDIFFERENTIATED):
                continue
            both = ours is not None and leaf.grad is not None
            errors["grad." + name] = relative_error(leaf.grad.numpy(), ours) if both else np.inf
    return errors


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cases.safetensors")
        cases = json.loads(subprocess.run([sys.argv[1], path], check=True, capture_output=True, text=True).stdout)
        arrays = tensors.read(path)
    failures, compared, worst = [], 0, 0.0
    for case in cases:
        try:
            errors = check(case, arrays)
        except Exception as error:  # a wrong expression is a wrong case
            failures.append(f"{case['case']}: {case['torch']}: {error}")
            continue
        for name, error in errors.items():
            compared += 1
            worst = max(worst, error)
            if not error <= LIMIT:
                failures.append(f"{case['case']}: {name}: relative error {error:.3g}, at most {LIMIT:g} expected")
    print(f"{len(cases)} cases, {compared} tensors, worst relative error {worst:.3g}")
    for failure in failures:
        print("  FAILED", failure)
    sys.exit(1 if failures or not cases else 0)


if __name__ == "__main__":
    main()

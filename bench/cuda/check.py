#!/usr/bin/env python3
"""Training steps on a card beside each other: check.py zoo | ladder | race | budget, with OUTSIZE the program (default: outsize)

zoo:    three steps of each model in strict f32 on the card and on cpu: losses side by side.
ladder: planners under budgets: the same parameters to the bit as `keep` where nothing is tiled, the same losses to rounding where it is;
        the measured peak beside the predicted one, and the step's time.
race:   one plan that swaps and one that tiles, again and again: one hash each.
budget: large work in small budgets: time for each pixel, image or token beside that of work that fits.

Exit status: 1 where something is not well."""
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import time

PROGRAM = os.environ.get("OUTSIZE", "outsize").split()


def train(arguments, seconds=170):
    begin = time.time()
    try:
        done = subprocess.run([*PROGRAM, "train", *arguments.split(), "--json"], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {seconds} s", "status": -1}
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"error": (done.stderr or done.stdout).strip()[-300:], "status": done.returncode}
    found["seconds"] = time.time() - begin
    return found


def gib(count):
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def apart(a, b):
    """The largest relative difference of two lists; infinite where a number is none."""
    if len(a) != len(b) or not a or any(not math.isfinite(x) for x in a + b):
        return math.inf
    return max(abs(x - y) / max(abs(y), 1e-30) for x, y in zip(a, b))


def zoo():
    models = ("mlp --batch 8", "resnet18 --batch 8", "resnet50 --batch 4", "vgg16 --batch 2", "densenet121 --batch 4", "inception_v3 --batch 4",
              "convnext-tiny --batch 4", "vit-b16 --batch 4", "darknet19 --batch 4", "unet2d --batch 1 --image 128", "unet3d --batch 1 --image 32",
              "bert-base --batch 2 --seq 128 --dropout 0.1", "gpt2 --batch 2 --seq 128", "transformer --batch 4 --seq 32")
    bad = 0

    def both(model):
        steps = " --steps 3 --lr 0.001 "
        return model, train(model + steps + "--backend cuda --precision f32"), train(model + steps + "--backend cpu --threads 4"), \
            train(model + steps + "--backend cuda")

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for model, card, cpu, tf32 in pool.map(both, models):
            if "error" in card or "error" in cpu:
                print(f"{model:44s} {card.get('error', '')[:160]} {cpu.get('error', '')[:80]}")
                bad += 1
                continue
            first, all_ = apart(card["losses"][:1], cpu["losses"][:1]), apart(card["losses"], cpu["losses"])
            exact = card["measured_peak_bytes"] == card["predicted_peak_bytes"]
            bad += not (first <= 1e-4 and exact)
            print(f"{model:44s} first loss {first:.1e}, three {all_:.1e} apart from cpu; tf32 {apart(tf32.get('losses', []), cpu['losses']):.1e}; "
                  f"peak {gib(card['measured_peak_bytes'])} {'as' if exact else 'NOT as'} predicted")
    print("zoo:", "well" if bad == 0 else f"{bad} NOT well")
    return bad


LADDER = ("resnet50 --batch 32", "densenet121 --batch 16", "vgg16 --batch 16", "inception_v3 --batch 16", "unet3d --batch 1 --image 64",
          "bert-base --batch 8 --seq 128", "gpt2 --batch 4 --seq 256")
PLANNERS = ("recompute-cheap", "checkpoint", "dynprog", "vdnn-all", "superneurons", "tflms", "autoswap", "zero-offload", "fairscale", "tsplit",
            "sft", "2ps-h", "overl-h")
TILED = ("tsplit", "sft", "2ps-h", "overl-h", "2ps", "overl")


def ladder(rungs=(60, 35)):
    bad = fits = refused = 0
    for model in LADDER:
        steps = f"{model} --steps 3 --backend cuda"
        keep = train(steps)
        if "error" in keep:
            print(f"{model}: keep: {keep['error'][:200]}")
            bad += 1
            continue
        print(f"{model}: keep {gib(keep['measured_peak_bytes'])}, {1e3 * keep['measured_step_s']:.1f} ms (predicted {1e3 * keep['predicted_step_s']:.1f})")
        runs = [(planner, rung) for rung in rungs for planner in PLANNERS]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            results = list(pool.map(lambda run: train(f"{steps} --planner {run[0]} --memory {run[1]}% --advice 0", 60), runs))
        for (planner, rung), it in zip(runs, results):
            if "error" in it:
                well = it.get("status") == 1
                refused += well
                bad += not well
                if not well:
                    print(f"  {planner:16s} {rung:3d} %  FAILED: {it['error'][:200]}")
                continue
            fits += 1
            exact = it["measured_peak_bytes"] == it["predicted_peak_bytes"] and it["measured_peak_bytes"] <= it["budget_bytes"]
            same = it["params_sha256"] == keep["params_sha256"]
            near = apart(it["losses"][:1], keep["losses"][:1])
            well = exact and (same or (it.get("tiles", 0) > 0 and near <= 1e-3))
            bad += not well
            print(f"  {planner:16s} {rung:3d} %  {'same bits' if same else f'loss {near:.0e} apart'}, tiles {it.get('tiles', 0)}, peak {gib(it['measured_peak_bytes'])}"
                  f"{'' if exact else ' NOT as predicted'}, {it['measured_step_s'] / keep['measured_step_s']:.2f} x keep"
                  f" (predicted {it['predicted_step_s'] / keep['predicted_step_s']:.2f}), swapped {gib(it['swapped_bytes'])}{'' if well else '  NOT WELL'}")
        sys.stdout.flush()
    print(f"ladder: {fits} fit, {refused} refused, {'all well' if bad == 0 else f'{bad} NOT well'}")
    return bad


def race(times=12):
    bad = 0
    for arguments in ("resnet50 --batch 32 --planner vdnn-all --memory 60%", "vgg16-features --batch 1 --image 512 --planner 2ps-h --memory 35%",
                      "gpt2 --batch 4 --seq 256 --planner zero-offload --memory 60%"):
        hashes, errors = {}, 0
        for _ in range(times):
            it = train(f"{arguments} --steps 3 --backend cuda")
            key = it.get("params_sha256", it.get("error", "?"))[:60]
            hashes[key] = hashes.get(key, 0) + 1
            errors += "params_sha256" not in it
        bad += errors > 0 or len(hashes) != 1
        print(f"{arguments}: {times} runs, {len(hashes)} hash{'es' if len(hashes) > 1 else ''}: {hashes}")
    return bad


def budget():
    bad = 0
    work = (("vgg16-features --batch 1 --image 2048", 2048**2, "px", ("", "--memory 11GiB")),
            ("resnet50 --batch 256", 256, "image", ("",)),
            ("resnet50 --batch 1024", 1024, "image", ("--memory 24GiB --planner checkpoint", "--memory 24GiB --planner 2ps-h", "--memory 24GiB --planner tsplit",
                                                      "--memory 24GiB --planner recompute-cheap")),
            ("vgg16-features --batch 1 --image 8192", 8192**2, "px", ("--memory 11GiB --planner 2ps-h", "--memory 11GiB --planner overl-h", "--memory 11GiB --planner sft")),
            ("bert-large --batch 64 --seq 512", 64, "sequence", ("--memory 24GiB --planner checkpoint", "--memory 24GiB --planner dynprog")),
            ("unet3d --batch 1 --image 256", 256**3, "voxel", ("--memory 24GiB --planner 2ps-h", "--memory 24GiB --planner sft")))
    for model, units, unit, ways in work:
        for way in ways:
            it = train(f"{model} {way} --steps 3 --backend cuda --advice 0", 150)
            if "error" in it:
                print(f"{model} {way}: {it['error'][:300]}")
                bad += it.get("status") != 1  # a budget may be refused
            else:
                step = it["measured_step_s"]
                rate = f"{1e9 * step / units:.2f} ns a {unit}" if units > 1e5 else f"{units / step:.1f} {unit}s a second"
                print(f"{model} {way}: {1e3 * step:.1f} ms, {rate}; predicted {1e3 * it['predicted_step_s']:.1f} ms; peak {gib(it['measured_peak_bytes'])} of "
                      f"{gib(it['budget_bytes'])}, swapped {gib(it['swapped_bytes'])}, in all {it['seconds']:.0f} s")
            sys.stdout.flush()
    return bad


sys.exit(1 if sum({"zoo": zoo, "ladder": ladder, "race": race, "budget": budget}[stage]() for stage in sys.argv[1:]) else 0)

"""Training steps on the card beside each other: the zoo beside the cpu, planners and budgets beside `keep`, one plan again and again."""
import json
import re
import shlex
import sys

from cells import BACKEND, HERE, PROCESSES, TINY, apart, exact, gib, median, program, refused, run, train
from speed import graph_file, have_torch

TINY_NET = "resnet18 --batch 4 --image 64 --width 0.1"
MODELS = ("mlp --batch 8", "resnet18 --batch 8", "resnet50 --batch 4", "vgg16 --batch 2", "densenet121 --batch 4", "inception_v3 --batch 4",
          "convnext-tiny --batch 4", "vit-b16 --batch 4", "darknet19 --batch 4", "unet2d --batch 1 --image 128", "unet3d --batch 1 --image 32",
          "bert-base --batch 2 --seq 128 --dropout 0.1", "gpt2 --batch 2 --seq 128", "transformer --batch 4 --seq 32")


# Every model of the zoo as tests/torch has it beside PyTorch: small, three steps, with data sets in which rounding flips no relu where
# such a one is known. GPT-2 large and XL are gpt2 with more layers.
IMAGES = ("mlp --batch 4 --image 8 --width 0.1", "slide-s --image 64 --width 0.5", "darknet19 --batch 4 --image 96 --width 0.125 --seed 7",
          "unet2d --batch 1 --image 32 --width 0.0625 --classes 3 --seed 7", "unet3d --batch 1 --image 16x24x8 --width 0.125 --classes 3 --seed 7",
          "vit-b16 --image 48 --width 0.0834", "convnext-tiny --image 64 --width 0.125",
          "resnet1001 --batch 2 --image 16 --norms shifted", "inception_v3 --batch 4 --image 299 --norms shifted",
          "inception_v4 --batch 4 --image 160 --width 0.0625 --norms shifted --seed 20")
BESIDE_TORCH = (
    *IMAGES,
    *(f"vgg{depth}-features --batch 1 --image 64" for depth in (11, 13, 16, 19)), *(f"vgg{depth} --batch 2 --image 64" for depth in (11, 13, 16, 19)),
    *(f"vgg{depth}_bn --batch 2 --image 32 --norms shifted --seed {seed}" for depth, seed in ((11, 6), (13, 9), (16, 7), (19, 5))),
    "resnet18 --batch 4 --image 64 --norms shifted --seed 8", "resnet50 --batch 2 --image 64 --norms shifted --seed 14",
    *(f"{name} --batch 2 --image 64" for name in ("resnet34", "resnet101", "resnet152", "wide_resnet50_2")),
    *(f"densenet{depth} --batch 2 --image 64 --width 0.25" for depth in (121, 161, 169, 201)),
    "bert-base --seq 12 --classes 50 --width 0.0834", "bert-large --seq 12 --classes 50 --width 0.0625",
    "gpt2 --seq 12 --classes 50 --width 0.0834", "gpt2-medium --seq 12 --classes 50 --width 0.0625",
    "transformer --seq 9 --classes 50 --width 0.125")
TINY_BESIDE_TORCH = ("mlp --batch 4 --image 8 --width 0.1", "gpt2 --seq 6 --classes 50 --width 0.0834")


def beside_torch(stage):
    """Updates, statistics, gradients and losses of three steps in strict f32 beside the PyTorch that is here in f64: within 1e-4, or twice
    what PyTorch's own f32 is off (tests/torch/compare.py). Returns how many agree."""
    compare = (HERE / "torch" if (HERE / "torch").is_dir() else HERE.parent.parent / "tests" / "torch") / "compare.py"

    def one(model):
        words = [sys.executable, str(compare), *model.split(), "--deep", "--outsize", shlex.join(program("outsize")), "--", "--backend", BACKEND]

        def measure(seconds):
            done = run(words, seconds, 240)
            updates = re.search(r"3 steps: updates +(\S+)", done["output"])
            found = {"status": done["status"], "seconds": done["seconds"], "updates": float(updates[1]) if updates else None,
                     "said": re.findall(r"FAILED.*", done["output"])[:4]}
            if done["status"] not in (0, 1) or (done["status"] == 1 and not updates):
                found["error"] = (done["output"] + done["errors"]).strip()[-300:]
            if done.get("cut off"):
                found["cut off"] = True
            return found

        return "beside PyTorch: " + model, measure

    models = TINY_BESIDE_TORCH if TINY else BESIDE_TORCH
    agree = 0
    for model, found in zip(models, stage.cells([one(model) for model in models], 6)):
        if found is None:
            continue
        well = found["status"] == 0
        agree += well
        stage.expect(well, f"{model}: not as PyTorch")
        stage.say(f"{model:64s} " + (found["error"] if "error" in found else f"updates of three steps {found['updates']:.1e} from PyTorch's f64")
                  + ("" if well else "  NOT WELL " + "; ".join(found["said"])))
    return f"{agree} of {len(models)} as PyTorch"


def zoo(stage):
    """Three steps of each model in strict f32 on the card and on cpu, and in the card's own precision; then beside PyTorch."""
    models = ("mlp --batch 2 --image 16", TINY_NET) if TINY else MODELS

    def both(model):
        steps = f"{model} --steps 3 --lr 0.001"

        def measure(seconds):
            found = {"card": train(steps + (" --precision f32" if not TINY else ""), seconds, 120)}
            found["cpu"] = train(steps + " --threads 4" if not TINY else steps, seconds - found["card"]["seconds"], 120, backend="cpu")
            if not TINY:
                found["tf32"] = train(steps, seconds - found["card"]["seconds"] - found["cpu"]["seconds"], 120)
            if any("cut off" in run for run in found.values()):
                found["cut off"] = True
            elif any("error" in run for run in found.values()):
                found["error"] = "; ".join(run["error"][:160] for run in found.values() if "error" in run)
            return found

        return model, measure

    for model, found in zip(models, stage.cells([both(model) for model in models], 3)):
        if found is None:
            continue
        if "error" in found:
            stage.say(f"{model:44s} {found['error']}")
            stage.expect(False, f"{model} failed")
            continue
        card, cpu = found["card"], found["cpu"]
        first, three = apart(card["losses"][:1], cpu["losses"][:1]), apart(card["losses"], cpu["losses"])
        stage.expect(first <= 1e-4, f"{model}: first loss {first:.1e} apart")
        stage.expect(exact(card), f"{model}: peak not as predicted")
        stage.say(f"{model:44s} first loss {first:.1e}, three {three:.1e} apart from cpu"
                  + (f"; tf32 {apart(found['tf32']['losses'], cpu['losses']):.1e}" if "tf32" in found else "")
                  + f"; peak {gib(card['measured_peak_bytes'])} {'as' if exact(card) else 'NOT as'} predicted")
    if TINY and not have_torch():
        return f"{len(models)} models"
    return f"{len(models)} models; {beside_torch(stage)}"


LADDER = ("resnet50 --batch 32", "densenet121 --batch 16", "vgg16 --batch 16", "inception_v3 --batch 16", "unet3d --batch 1 --image 64",
          "bert-base --batch 8 --seq 128", "gpt2 --batch 4 --seq 256")
RUNGS = (75, 50, 35, 25)


def planners_but_keep():
    done = run([*program("outsize"), "planners", "--json"], 30)
    return [row["name"] for row in json.loads(done["output"])["rows"] if row["name"] != "keep"]


def ladder(stage):
    """Planners under budgets: fits and has keep's bits where nothing is tiled, its losses to rounding where it is; or refuses. Runs are
    side by side, so that their times are only those of keep, which runs alone, and of the predictions of runs that go alone too."""
    models = (TINY_NET,) if TINY else LADDER
    rungs, planners = ((75,), ("recompute-cheap", "vdnn-all", "2ps-h")) if TINY else (RUNGS, planners_but_keep())
    host = " --host-memory 1GiB" if TINY else ""
    fit = refusals = 0
    keeps = {model: stage.cell(f"{model} keep", lambda seconds: train(f"{model} --steps 3", seconds, 60), 5) for model in models}
    work = [(model, rung, planner) for rung in rungs for model in models for planner in planners
            if keeps[model] and "error" not in keeps[model]]
    one = lambda model, rung, planner: (f"{model} {planner} {rung} %", lambda seconds: train(
        f"{model} --steps 3 --planner {planner} --memory {rung}% --advice 0{host}", seconds, 60))
    results = dict(zip(work, stage.cells([one(*item) for item in work])))
    for model in models:
        keep = keeps[model]
        if keep is None:
            continue
        if "error" in keep:
            stage.say(f"{model}: keep: {keep['error'][:200]}")
            stage.expect(False, f"{model}: keep failed")
            continue
        stage.say(f"{model}: keep {gib(keep['measured_peak_bytes'])}, {1e3 * keep['measured_step_s']:.1f} ms (predicted {1e3 * keep['predicted_step_s']:.1f})")
        for rung in rungs:
            no = []
            for planner in planners:
                it = results.get((model, rung, planner))
                if it is None:
                    continue
                name = f"{model.split()[0]} {planner} {rung} %"
                if "error" in it:
                    no += [planner] if refused(it) else []
                    refusals += refused(it)
                    if not stage.expect(refused(it), f"{name} failed"):
                        stage.say(f"  {planner:16s} {rung:3d} %  FAILED: {it['error'][:200]}")
                    continue
                fit += 1
                same = it["params_sha256"] == keep["params_sha256"]
                near = apart(it["losses"][:1], keep["losses"][:1])
                well = exact(it) and (same or (it.get("tiles", 0) > 0 and near <= 1e-3))
                stage.expect(well, name)
                stage.say(f"  {planner:16s} {rung:3d} %  {'same bits' if same else f'loss {near:.0e} apart'}, tiles {it.get('tiles', 0)}, peak "
                          f"{gib(it['measured_peak_bytes'])}{'' if exact(it) else ' NOT as predicted'}, predicted "
                          f"{it['predicted_step_s'] / keep['predicted_step_s']:.2f} x keep, swapped {gib(it['swapped_bytes'])}{'' if well else '  NOT WELL'}")
            if no:
                stage.say(f"  refused at {rung} %: {', '.join(no)}")
    if stage.missing:
        return f"{fit} fit, {refusals} refused"
    return f"{fit} fit, {refusals} refused; " + predictions(stage, models, keeps, results)


def predictions(stage, models, keeps, results):
    """Steps that run alone, with measured ops, beside their prediction: the median and the worst error."""
    by_model = {model: [(rung, planner) for (m, rung, planner), it in results.items() if m == model and it and "error" not in it]
                for model in models}
    errors = []
    for model in models:
        # A few of each model, spread over rungs and planners; all of them would take an hour.
        chosen = [(100, "keep")] + by_model[model][:: max(1, len(by_model[model]) // 4)]
        for rung, planner in chosen[: 2 if TINY else 5]:
            host = " --host-memory 1GiB" if TINY else ""
            it = stage.cell(f"{model} {planner} {rung} % alone", lambda seconds: train(
                f"{model} --steps 6 --planner {planner} --memory {rung}% --advice 0 --profile measured{host}", seconds, 90), 10)
            if it is None or "error" in it:
                if it and not refused(it):
                    stage.expect(False, f"{model} {planner} {rung} % alone failed")
                continue
            error = it["predicted_step_s"] / it["measured_step_s"] - 1
            errors.append((abs(error), f"{model.split()[0]} {planner} {rung} %"))
            stage.say(f"  alone: {model} {planner} {rung} %: {1e3 * it['measured_step_s']:.2f} ms, predicted {1e3 * it['predicted_step_s']:.2f} ({100 * error:+.0f} %)")
    if not errors:
        return "no step timed alone"
    middle, worst = median([error for error, _ in errors]), max(errors)
    if not TINY:
        stage.expect(middle <= 0.10, f"predicted step {100 * middle:.0f} % off (median)")
        stage.expect(worst[0] <= 0.25, f"predicted step {100 * worst[0]:.0f} % off ({worst[1]})")
    return f"predicted step of {len(errors)} plans that ran alone: {100 * middle:.0f} % off (median), {100 * worst[0]:.0f} % ({worst[1]}, worst)"


# Plans of small nets: name, arguments, and the same small for a backend that stands in. TILED stores maps between its passes in host memory and
# brings them back in windows; the slide's pixels are made as they are read.
TILED = "--planner 2ps-h:rows=4,stream=all --memory 1GiB --host-memory 1GiB"
RACE = (("swaps", "resnet18 --batch 16 --image 128 --width 0.25 --planner vdnn-all --host-memory 2GiB --steps 4",
         "resnet18 --batch 2 --image 32 --width 0.1 --planner vdnn-all --host-memory 1GiB --steps 2"),
        ("tiled, swaps", f"{graph_file(32, 8)} {TILED} --steps 4", f"{graph_file(16, 4)} {TILED} --steps 2"),
        ("tiled, streamed", f"slide-s --batch 1 --image 512 --data generated:slides:size=512x512,count=1 {TILED} --steps 3",
         f"slide-s --batch 1 --image 128 --data generated:slides:size=128x128,count=1 {TILED} --steps 2"))


def race(stage):
    """Each plan 100 times, several processes at once, which disturb each other's times: one hash each."""
    times = 4 if TINY else 100
    for name, arguments, tiny in RACE:
        arguments = tiny if TINY else arguments
        one = lambda seconds: train(arguments, seconds, 90)
        # Alone at first: what it times to choose its kernels, the others take from the cache.
        found = [stage.cell(f"{name} 1", one, 5)]
        found += stage.cells([(f"{name} {i}", one) for i in range(2, times + 1)], PROCESSES) if found[0] else []
        hashes, failed = {}, []
        for it in found:
            if it and "error" in it:
                failed.append(it["error"])
            elif it:
                hashes[it["params_sha256"]] = hashes.get(it["params_sha256"], 0) + 1
        stage.say(f"{name}: {sum(hashes.values())} of {times} runs, {len(hashes)} hash{'es' if len(hashes) != 1 else ''}"
                  f"{': ' + ', '.join(f'{h[:16]} {n} times' for h, n in hashes.items())}{f', {len(failed)} FAILED: {failed[0][:200]}' if failed else ''}")
        stage.expect(not failed, f"{name}: {len(failed)} runs failed")
        if hashes or not stage.missing:
            stage.expect(len(hashes) == 1, f"{name}: {len(hashes)} hashes")
    return f"{times} runs of each of {len(RACE)} plans"

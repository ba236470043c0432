"""The papers on the card: with their memory as the budget, what their planners reach and in what time, executed beside what was planned.

Networks, columns and printed figures are those of bench/papers. There devices are described and times are rooflines; here each largest
size is planned for the card and then trained, so that a size stands in the table only where a step of it ended."""
import dataclasses
import json
import shlex
import sys

from cells import HERE, TINY, BACKEND, exact, gib, median, program, refused, run, train
from speed import have_torch, peer

BENCH = HERE if (HERE / "papers").is_dir() else HERE.parent
sys.path[:0] = [str(BENCH), str(BENCH / "papers")]

import lrcnn  # noqa: E402
import tflms  # noqa: E402
import tsplit  # noqa: E402

FIT_SECONDS = 100
RUN_SECONDS = 100
STEPS = 2 if TINY else 3
HOST = "1GiB" if TINY else "60GiB"
MODELS = {**tsplit.MODELS, "3-D U-Net": "unet3d"}
# A backend that stands in has a network and memory that take no time.
TINY_NETWORK, TINY_MEMORY = "resnet18 --width 0.1 --image 32 --classes 4", "24MiB"


@dataclasses.dataclass(frozen=True)
class Edge:
    """The largest size of a network that a planner of the paper reaches in so much memory."""
    paper: str
    label: str         # of the network, in the table
    model: str         # its arguments
    by: str            # what is made larger
    memory: str
    column: str        # the planner's name in the paper
    planner: str
    printed: str = ""  # the paper's figure, or nothing
    most: int = 0      # sizes beyond it are not run; 0: none

    def key(self):
        return f"{self.paper}: {self.label}, {self.memory}, largest {self.by}: {self.column}"

    def arguments(self):
        model, memory = (TINY_NETWORK, TINY_MEMORY) if TINY else (self.model, self.memory)
        return f"{model} --memory {memory} --host-memory {HOST}"


def of_tsplit():
    """Table IV on 24 GiB: the baselines and TSPLIT."""
    columns = {**tsplit.BASELINES, "TSPLIT": tsplit.TSPLIT, "without split": tsplit.NO_SPLIT}
    for model, printed in tsplit.TABLE_4.items():
        figures = dict(zip([*tsplit.BASELINES, "TSPLIT"], printed))
        for column, planner in columns.items():
            figure = figures.get(column, "")
            yield Edge("TSPLIT", model, tsplit.MODELS[model], "batch", "24GiB", column, planner, "x" if figure is None else str(figure), 4096)


def of_lrcnn():
    """Figures 6 and 7: the largest batch of 224², and the largest image of a batch of 8."""
    for _, memory in lrcnn.DEVICES.values():
        for label in ("VGG-16", "ResNet-50"):
            model = f"{lrcnn.MODELS[label]} --classes 10"
            for column, planner in lrcnn.PLANNERS.items():
                more = lambda by: f"up to {lrcnn.OVER_OFFLOAD[by][column]:+.0%} of OffLoad" if column in lrcnn.OVER_OFFLOAD[by] else ""
                yield Edge("LR-CNN", label, model, "batch", memory, column, planner, more("batch"), 4096)
                yield Edge("LR-CNN", label, model + " --batch 8", "image", memory, column, planner, more("image"), 12288)


def of_tflms():
    """Table 3 on 16 GiB."""
    cells = {("resnet50", "224"): (176, 832), ("unet3d", "128"): (2, 4), ("unet3d", "192"): ("x", 1)}
    for (model, image), printed in cells.items():
        for (column, planner), figure in zip((tflms.KEEP, ("TFLMS", tflms.ALL)), printed):
            yield Edge("TFLMS", f"{model} {image}", f"{model} --image {image}", "batch", "16GiB", column, planner, str(figure), 1024)


def of_sft():
    """Figure 8 on 11 GiB: one image, up to 20,480²."""
    for label, model in (("VGG-16", "vgg16-features"), ("DarkNet-19", "darknet19")):
        for column, planner in (("base", "keep"), ("checkpoint", "checkpoint"), ("sft", "sft")):
            yield Edge("SFT", label, model + " --batch 1", "image", "11GiB", column, planner, "20480" if column == "sft" else "", 20480)


EDGES = {"SFT": of_sft, "TFLMS": of_tflms, "LR-CNN": of_lrcnn, "TSPLIT": of_tsplit}


def plan_edge(edge):
    """The largest size that is planned, by rooflines: what the size depends on is bytes."""
    def measure(seconds):
        words = [*program("outsize"), "fit", *shlex.split(edge.arguments()), "--by", edge.by, "--planners", edge.planner, "--backend", BACKEND,
                 "--profile", "roofline", "--json"]
        done = run(words, seconds, FIT_SECONDS)
        try:
            row = json.loads(done["output"])["rows"][0]
        except (ValueError, KeyError, IndexError):
            if done.get("cut off"):
                return {"cut off": True}
            return {"error": (done["errors"] or done["output"]).strip()[-300:] or f"status {done['status']}"}
        return {"largest": row["largest"], "stopped": row["stopped"]}

    return edge.key() + ": planned", measure


def run_at(edge, size):
    def measure(seconds):
        words = f"{edge.arguments()} --{edge.by} {size} --planner {edge.planner} --steps {STEPS} --advice 0"
        return train(words, seconds, RUN_SECONDS)

    return measure


def batch_of(edge, size):
    words = shlex.split(edge.arguments())
    return size if edge.by == "batch" else int(words[words.index("--batch") + 1]) if "--batch" in words else 1


def edges(stage, paper, errors):
    """The largest sizes of one paper, planned side by side and executed one after another, breadth first."""
    some = list(EDGES[paper]())
    if TINY:
        some = [dataclasses.replace(edge, by="batch", most=8) for edge in some[-1:]]
    planned = dict(zip(some, stage.cells([plan_edge(edge) for edge in some])))
    reached = 0
    for edge in some:
        found = planned[edge]
        if found is None:
            continue
        line = f"{edge.label:12s} {edge.memory:6s} {edge.by:6s} {edge.column:14s} paper {edge.printed or '-':>22s}; "
        if "error" in found:
            stage.say(line + f"FAILED: {found['error'][:200]}")
            stage.expect(False, f"{edge.key()}: planning failed")
            continue
        largest = found["largest"]
        if largest is None:
            stage.say(line + "none fits")
            continue
        size = min(largest, edge.most) if edge.most else largest
        seen = stage.cell(f"{edge.key()}: at {size}", run_at(edge, size), 10)
        if seen is None:
            continue
        if "error" in seen:
            stage.say(line + f"{size}: {'refused' if refused(seen) else 'FAILED'}: {seen['error'][:160]}")
            stage.expect(False, f"{edge.key()}: {size} was planned and did not run")
            continue
        reached += 1
        stage.expect(exact(seen), f"{edge.key()}: peak not as predicted")
        wrong = seen["predicted_step_s"] / seen["measured_step_s"] - 1
        errors.append(abs(wrong))
        more = "" if size == largest and not found["stopped"] else f" (of {largest} planned{' or more' if found['stopped'] else ''})"
        stage.say(line + f"trains {size}{more}: {1e3 * seen['measured_step_s']:.1f} ms, {batch_of(edge, size) / seen['measured_step_s']:.1f} samples/s, "
                  f"predicted {wrong:+.0%}; peak {gib(seen['measured_peak_bytes'])}, swapped {gib(seen['swapped_bytes'])}")
    return reached


# PyTorch's side: of each paper the networks that torchvision has: what torch_peer.py is asked for, and the memory. It searches for the
# largest that fits downwards from there.
TORCH = {
    "SFT": [("VGG-16", "vgg16-features 1 20480 largest=size by=128", 11)],
    "TFLMS": [("resnet50 224", "resnet50 1024 224 largest=batch by=16", 16)],
    "LR-CNN": [(f"{label}, {what}", f"{model} {size} largest={varied} by={step}", int(memory.removesuffix("GiB")))
               for _, memory in lrcnn.DEVICES.values() for label, model in (("VGG-16", "vgg16"), ("ResNet-50", "resnet50"))
               for what, size, varied, step in (("batch", "4096 224", "batch", 8), ("image, batch 8", "8 8192", "size", 64))],
    "TSPLIT": [(label, f"{model} 2048 224 largest=batch by=8", 24) for label, model in (("VGG-16", "vgg16"), ("ResNet-50", "resnet50"))],
}


def beside_torch(stage, paper):
    """The largest that PyTorch trains in the same memory, as it is and with checkpoints of blocks."""
    if TINY and (not have_torch() or paper != "SFT"):
        return
    for label, words, memory in TORCH[paper]:
        for means in ("plain", "checkpoint"):
            asked = "vgg16-features 1 64" if TINY else words
            found = stage.cell(f"{paper}: {label}, {memory} GiB, PyTorch {means}", lambda seconds: peer(
                [*asked.split(), f"cap={memory}", f"means={means}"], seconds, 200), 20)
            if found is None:
                continue
            seen = found["error"][:140] if "seconds" not in found else (
                f"batch {found['batch']}, size {found['size']}: {1e3 * found['seconds']:.1f} ms, {found['batch'] / found['seconds']:.1f} samples/s, "
                f"{gib(found['bytes'])}")
            stage.say(f"{label:24s} {memory} GiB PyTorch {means:10s} {seen}")


def largest_of_base(stage, model):
    for edge in of_tsplit():
        if edge.label == model and edge.column == "Base":
            found = stage.cell(*plan_edge(edge))
            return found.get("largest") if found else None
    return None


def throughput(stage, errors):
    """TSPLIT's figure 12: throughput by batch, in times the largest of Base, beside Base's own at its largest."""
    factors, columns = (1, 1.5, 2, 3, 6), {"TSPLIT": tsplit.TSPLIT, "without split": tsplit.NO_SPLIT, "Checkpoints": "checkpoint", "vDNN-all": "vdnn-all"}
    if TINY:
        factors, columns = (1,), {"Checkpoints": "checkpoint"}
    for model in ("VGG-16", "ResNet-50")[: 1 if TINY else 2]:
        base = largest_of_base(stage, model)
        if not base:
            continue
        base = min(base, 8) if TINY else base
        edge = Edge("TSPLIT", model, tsplit.MODELS[model], "batch", "24GiB", "Base", "keep")
        alone = stage.cell(f"{edge.key()}: at {base}", run_at(edge, base), 10)
        if alone is None or "error" in alone:
            continue
        for factor in factors:
            for column, planner in columns.items():
                size = round(base * factor)
                one = dataclasses.replace(edge, column=column, planner=planner)
                seen = stage.cell(f"{one.key()}: at {size}", run_at(one, size), 10)
                if seen is None:
                    continue
                if "error" in seen:
                    stage.expect(refused(seen), f"{one.key()}: {size} failed")
                    stage.say(f"{model:12s} {factor:4g} x Base ({size}) {column:14s} {'refused' if refused(seen) else 'FAILED'}")
                    continue
                errors.append(abs(seen["predicted_step_s"] / seen["measured_step_s"] - 1))
                share = (size / seen["measured_step_s"]) / (base / alone["measured_step_s"])
                stage.say(f"{model:12s} {factor:4g} x Base ({size}) {column:14s} {share:.2f} of Base's throughput, predicted "
                          f"{seen['predicted_step_s'] / seen['measured_step_s'] - 1:+.0%}")


def offloading(stage, errors):
    """Offloading: the step over the paper's Proposition 3, with the link and the step in memory as measured."""
    cases = ((TINY_NETWORK + " --batch 4", 80),) if TINY else tuple(
        (f"{model} --batch 32 --image 224", share) for model in ("resnet18", "resnet50", "densenet121") for share in (80, 60, 45))
    link = stage.cell("link", lambda seconds: link_of(seconds))
    if not link or "error" in link:
        return
    for model, share in cases:
        keep = stage.cell(f"offload: {model} keep", lambda seconds: train(f"{model} --steps {STEPS}", seconds, RUN_SECONDS), 5)
        if keep is None or "error" in keep:
            continue
        for planner in ("dynprog", "greedy", "vdnn")[: 1 if TINY else 3]:
            seen = stage.cell(f"offload: {model} {share} % {planner}", lambda seconds: train(
                f"{model} --memory {share}% --host-memory {HOST} --planner {planner} --steps {STEPS} --advice 0", seconds, RUN_SECONDS), 5)
            if seen is None:
                continue
            if "error" in seen:
                stage.expect(refused(seen), f"offload: {model} {share} % {planner} failed")
                stage.say(f"{model:40s} {share} % {planner:8s} {'refused' if refused(seen) else 'FAILED'}")
                continue
            # What is too much goes out and comes back; a link that does both at once needs the longer of the two.
            too_much = keep["measured_peak_bytes"] - seen["budget_bytes"]
            out, back = too_much / link["out"], too_much / link["in"]
            bound = max(keep["measured_step_s"], max(out, back) if link["full duplex"] else out + back)
            errors.append(abs(seen["predicted_step_s"] / seen["measured_step_s"] - 1))
            stage.say(f"{model:40s} {share} % {planner:8s} {seen['measured_step_s'] / bound:.2f} of the bound ({1e3 * bound:.1f} ms; paper: DynProg "
                      f"below 1.2), predicted {seen['predicted_step_s'] / seen['measured_step_s'] - 1:+.0%}")


def link_of(seconds):
    done = run([*program("outsize"), "devices", "--json"], seconds, 60)
    try:
        machine = json.loads(done["output"])["machine"]
        card = machine.get("card")
        if card:
            return {"out": card["link_out"], "in": card["link_in"], "full duplex": card.get("full_duplex", True)}
        return {"out": machine["link"], "in": machine["link"], "full duplex": False}
    except (ValueError, KeyError):
        return {"error": done["errors"][-300:]}


def papers(stage):
    errors, reached = [], 0
    for paper in EDGES:
        stage.say(f"-- {paper}")
        reached += edges(stage, paper, errors)
        beside_torch(stage, paper)
        if paper == "TSPLIT":
            throughput(stage, errors)
    stage.say("-- offloading")
    offloading(stage, errors)
    wrong = f"the simulator is off by {median(errors):.0%} (median), {max(errors):.0%} at the most, of {len(errors)} steps" if errors else "no step ran"
    return f"{reached} largest sizes trained; {wrong}"

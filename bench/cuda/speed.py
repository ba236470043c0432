"""Speed on the card: in memory beside PyTorch, and under budgets beside memory."""
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import threading

import kernels
import volume
from cells import HERE, TINY, exact, gib, program, refused, run, train

SCRATCH = pathlib.Path(tempfile.gettempdir()) / f"outsize-card-{os.getuid()}"


def graph_file(side, first=32):
    """The 3-D U-Net of volume.py for one volume of that side."""
    SCRATCH.mkdir(exist_ok=True)
    path = SCRATCH / f"volume{side}-{first}.graph"
    path.write_text(volume.graph(side, first))
    return str(path)


@dataclasses.dataclass
class Work:
    name: str
    ours: str         # arguments of `outsize train`
    peer: str         # arguments of torch_peer.py
    units: float      # a step
    unit: str
    peer_gib: int     # that PyTorch takes at most, about
    tiny: tuple       # the same small, for a backend that stands in: ours, peer

    def train(self):
        if TINY:
            return self.tiny[0]
        return self.ours

    def words(self):
        return (self.tiny[1] if TINY else self.peer).split()


MEMORY = (
    Work("resnet50 256", "resnet50 --batch 256", "resnet50 256 224", 256, "image", 28,
         ("resnet50 --batch 2 --image 32 --width 0.125", "")),
    Work("densenet121 128", "densenet121 --batch 128", "densenet121 128 224", 128, "image", 18,
         ("densenet121 --batch 2 --image 32 --width 0.25", "")),
    Work("vgg16-features 4096", "vgg16-features --batch 1 --image 4096", "vgg16-features 1 4096", 4096**2, "px", 26,
         ("vgg16-features --batch 1 --image 32 --width 0.1", "vgg16-features 1 32")),
    Work("volume 192", f"{graph_file(192)}", "volume 1 192", 192**3, "voxel", 16,
         (graph_file(8, 8), "volume 1 8 width=0.25")),
    Work("bert-large 32x512", "bert-large --batch 32 --seq 512 --dropout 0", "bert-large 32 512", 32, "sequence", 64,
         ("bert-base --batch 1 --seq 16 --width 0.084 --classes 50 --dropout 0", "")),
    Work("gpt2 8x1024", "gpt2 --batch 8 --seq 1024 --dropout 0", "gpt2 8 1024", 8, "sequence", 40,
         ("gpt2 --batch 1 --seq 16 --width 0.084 --classes 50 --dropout 0", "")),
)


def rate(seconds, units, unit):
    return f"{1e9 * seconds / units:6.2f} ns/{unit}" if units > 1e5 else f"{units / seconds:6.0f} {unit}s/s"


def have_torch():
    return importlib.util.find_spec("torch") is not None


def peer_environment():
    # Kernels that were compiled once are kept: all of them are compiled beside each other before anything is timed.
    return {"PYTHONPATH": str(HERE), "TORCHINDUCTOR_CACHE_DIR": str(SCRATCH / "inductor"), "TRITON_CACHE_DIR": str(SCRATCH / "triton"),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}


def peer(words, seconds, limit):
    done = run([sys.executable, str(HERE / "torch_peer.py"), *words], seconds, limit, peer_environment())
    try:
        found = json.loads(done["output"].strip().splitlines()[-1])
    except (ValueError, IndexError):
        said = done["errors"].strip().splitlines() or [f"status {done['status']}"]
        found = {"error": said[-1][-300:]}
    found["took"] = done["seconds"]
    if done.get("cut off"):
        found["cut off"] = True
    return found


def compile_peers(stage, work, gib_there=130):
    """Compiles PyTorch's side of what is still to be timed, beside each other as far as they fit on the card together."""
    todo = [it for it in work if it.words() and ("memory-speed", "peer " + it.name) not in stage.results.cells
            and not (SCRATCH / ("compiled " + it.name)).exists()]
    if TINY or not todo or stage.left() < 120:
        return
    free, change = [gib_there], threading.Condition()

    def compile_one(it):
        with change:
            change.wait_for(lambda: free[0] >= it.peer_gib)
            free[0] -= it.peer_gib
        found = peer(it.words() + ["warm"], stage.left() - 60, 240)
        with change:
            free[0] += it.peer_gib
            change.notify_all()
        if "error" not in found and "cut off" not in found:
            (SCRATCH / ("compiled " + it.name)).touch()
        return f"{it.name} {found['took']:.0f} s{' (' + found['error'][:120] + ')' if 'error' in found else ''}"

    with concurrent.futures.ThreadPoolExecutor(len(todo)) as pool:
        took = list(pool.map(compile_one, sorted(todo, key=lambda it: -it.peer_gib)))
    # Which of its kernels is the fastest PyTorch decides by timing them: that it shall do alone.
    for choice in (SCRATCH / "inductor").rglob("*.best_config"):
        choice.unlink()
    stage.say("PyTorch's compiler beside each other: " + ", ".join(took))


def ours_in_memory(stage, it):
    def measure(seconds):
        trace = SCRATCH / "trace.json"
        found = train(f"{it.train()} --steps {2 if TINY else 12}", seconds, 120, trace=trace)
        if trace.exists():
            seen = kernels.Trace(trace)
            found["gaps"] = kernels.gaps(seen)
            stage.results.note("kernels.txt", f"{it.name}, Outsize", "\n".join(kernels.table(seen, 14)))
            trace.unlink()
        return found

    return stage.cell("ours " + it.name, measure, 15)


def peer_in_memory(stage, it, ours):
    def measure(seconds):
        below = ours["measured_step_s"] if ours and "error" not in ours else 0
        found = peer(it.words() + [f"kernels={below}"], seconds, 200)
        rows = found.pop("kernels", None)
        if rows:
            lines = [f"  {name:120s} {calls:5d} calls {spent:9.3f} ms" for name, calls, spent in rows]
            stage.results.note("kernels.txt", f"{it.name}, PyTorch at its better", "\n".join(lines))
        return found

    return stage.cell("peer " + it.name, measure, 30) if it.words() else None


def better(found):
    """The faster of PyTorch's two ways, by name."""
    ways = [way for way in ("eager", "compiled") if "seconds" in found.get(way, {})]
    return min(ways, key=lambda way: found[way]["seconds"]) if ways else None


def memory_speed(stage, ours=True, peers=True):
    """In memory: Outsize's step, its update included, beside PyTorch's forward and backward at its better."""
    if peers:
        compile_peers(stage, MEMORY)
    met = 0
    for it in MEMORY:
        mine = ours_in_memory(stage, it) if ours else None
        theirs = peer_in_memory(stage, it, mine) if peers else None
        line = f"{it.name:22s}"
        if mine and "error" in mine:
            line += f" Outsize: {mine['error'][-200:]}"
            stage.expect(False, f"{it.name}: Outsize failed")
        elif mine:
            line += (f" {1e3 * mine['measured_step_s']:8.2f} ms {rate(mine['measured_step_s'], it.units, it.unit)} "
                     f"{mine['measured_peak_bytes'] / 2**30:6.2f} GiB, gaps {100 * mine.get('gaps', 0):.1f} %, predicted {1e3 * mine['predicted_step_s']:.2f} ms;")
            stage.expect(exact(mine), f"{it.name}: peak not as predicted")
        if theirs:
            for way in ("eager", "compiled"):
                if "seconds" in theirs.get(way, {}):
                    line += f" {way} {1e3 * theirs[way]['seconds']:8.2f} ms {rate(theirs[way]['seconds'], it.units, it.unit)} {theirs[way]['bytes'] / 2**30:6.2f} GiB;"
                elif way in theirs:
                    line += f" {way}: {theirs[way]['error'][:120]};"
            if "error" in theirs:
                line += f" PyTorch: {theirs['error'][-160:]};"
                stage.expect(False, f"{it.name}: PyTorch failed")
            best = better(theirs)
            if best and mine and "error" not in mine:
                ratio = theirs[best]["seconds"] / mine["measured_step_s"]
                less = mine["measured_peak_bytes"] < theirs[best]["bytes"]
                met += ratio >= 1 and less
                line += f" {ratio:.2f} x {best}{'' if ratio >= 1 else ' BELOW 1'}{'' if less or TINY else ', memory NOT less'}"
                same = mine["parameters"] == theirs["parameters"]
                line += f"; {mine['parameters']} parameters each" if same else f"; parameters {mine['parameters']} and {theirs['parameters']} DIFFER"
                if not TINY:
                    stage.expect(ratio >= 1, f"{it.name}: {ratio:.2f} x {best}")
                    stage.expect(less, f"{it.name}: more memory than PyTorch {best}")
                    stage.expect(same, f"{it.name}: another number of parameters than PyTorch's")
        stage.say(line)
    if ours:
        lanes(stage)
    return f"{met} of {len(MEMORY)} at least as fast as PyTorch's better and in less memory" if ours and peers else ""


def lanes(stage):
    """Gaps between kernels; copies beside compute: their rate beside the link's, and how much slower kernels are."""
    model = "resnet50 --batch 4 --image 64 --width 0.125" if TINY else "resnet50 --batch 256"

    def measure(seconds):
        alone, moving = SCRATCH / "alone.json", SCRATCH / "moving.json"
        keep = train(f"{model} --steps 4", seconds, 60, trace=alone)
        swap = train(f"{model} --steps 4 --planner vdnn-all --host-memory {'1GiB' if TINY else '60GiB'}", seconds - keep["seconds"], 90,
                     trace=moving)
        for found in (keep, swap):
            if "error" in found:
                return found
        done = run([*program("outsize"), "devices", "--json"], seconds - keep["seconds"] - swap["seconds"], 60)
        try:
            machine = json.loads(done["output"])["machine"]
        except ValueError:
            return {"error": done["errors"][-300:]}
        a, b = kernels.Trace(alone), kernels.Trace(moving)
        card = machine.get("card") or {"link_out": machine["link"], "link_in": machine["link"]}
        return {"gaps": kernels.gaps(a), "copies": kernels.copies(b), "slower": kernels.slower(b, a), "card": card}

    found = stage.cell("lanes", measure, 40)
    if not found:
        return
    if "error" in found:
        stage.say(f"lanes: {found['error']}")
        stage.expect(False, "lanes failed")
        return
    stage.say(f"lanes: {model}: gaps between kernels {100 * found['gaps']:.1f} % of the step (bar: 5)")
    if not TINY:
        stage.expect(found["gaps"] < 0.05, "gaps of ResNet-50")
    for action, moved in found["copies"].items():
        link = found["card"]["link_out" if action == "copy_out" else "link_in"]
        share = moved["rate"] / link
        stage.say(f"lanes: vdnn-all: {action} {moved['bytes'] / 2**30:.2f} GiB at {moved['rate'] / 1e9:.1f} GB/s, {share:.2f} of the pinned link "
                  f"({link / 1e9:.1f} GB/s; bar: 0.90)")
        if not TINY:
            stage.expect(share >= 0.9, f"{action} {share:.2f} of the link")
    if found["slower"] is not None:
        stage.say(f"lanes: kernels beside copies take {found['slower']:.3f} x their time alone (bar: 1.05)")
        if not TINY:
            stage.expect(found["slower"] < 1.05, "kernels beside copies")


@dataclasses.dataclass
class Budget:
    name: str
    memory: str        # arguments of the step in memory that it is measured by
    memory_units: float
    work: str          # arguments of the step under the budget
    units: float
    unit: str
    most: float        # times the time a unit in memory
    ways: tuple        # what is tried, in this order; the best counts
    peer: str          # what PyTorch did under the same cap when it was measured first
    tiny: tuple        # (memory, units, work, units, ways) for a backend that stands in
    steps: int = 3
    asked: tuple = ()  # of PyTorch: model, batch, size, what is made smaller until it fits, in which steps; GiB; the same small


# Ways in the order in which the described card is predicted to be fastest; each is planned within 4 s.
BUDGET = (
    Budget("vgg16-features 20480, 11 GiB", "vgg16-features --batch 1 --image 4096", 4096**2,
           "vgg16-features --batch 1 --image 20480 --memory 11GiB --host-memory 40GiB", 20480**2, "px", 1.25,
           ("--planner overl-h", "--planner sft", "--planner 2ps-h"),
           "2560 x 2560 at the most under 11 GiB, at 8.85 ns/px compiled",
           ("vgg16-features --batch 1 --image 32 --width 0.1", 32**2,
            "vgg16-features --batch 1 --image 64 --width 0.1 --memory 80% --host-memory 1GiB", 64**2, ("--planner overl-h",)),
           asked=("vgg16-features 1 20480 largest=size by=128", 11, "vgg16-features 1 64")),
    Budget("resnet50 1024, 24 GiB", "resnet50 --batch 256", 256, "resnet50 --batch 1024 --memory 24GiB --host-memory 40GiB", 1024, "image",
           1 / 0.85, ("--planner tsplit", "--planner checkpoint", "--planner 2ps-h"),
           "batch 768 at the most under 24 GiB, 2401 images/s with checkpoints; compiled 384 at 3335",
           ("resnet50 --batch 2 --image 64 --width 0.125", 2, "resnet50 --batch 4 --image 64 --width 0.125 --memory 80% --host-memory 1GiB", 4,
            ("--planner tsplit",)),
           asked=("resnet50 1024 224 largest=batch by=32", 24, "resnet18 2 32")),
    Budget("volume 512, 24 GiB", graph_file(192), 192**3, f"{graph_file(512)} --memory 24GiB --host-memory 100GiB", 512**3, "voxel", 1.5,
           ("--planner 2ps-h", "--planner overl-h", "--planner sft"),
           "224 at the most under 24 GiB, 256 with checkpoints at 21.2 ns/voxel",
           (graph_file(8, 8), 8**3, f"{graph_file(16, 8)} --memory 60% --host-memory 1GiB", 16**3, ("--planner 2ps-h",)), steps=2,
           asked=("volume 1 512 largest=size by=32", 24, "volume 1 16 width=0.25")),
    Budget("bert-large 64x512, 24 GiB", "bert-large --batch 32 --seq 512 --dropout 0", 32,
           "bert-large --batch 64 --seq 512 --dropout 0 --memory 24GiB --host-memory 60GiB", 64, "sequence", 1 / 0.85,
           ("--planner tsplit", "--planner 2ps-h", "--planner checkpoint"),
           "batch 16 at the most under 24 GiB, 64 with checkpoints at 94 sequences/s",
           ("bert-base --batch 1 --seq 64 --width 0.084 --classes 50 --dropout 0", 1,
            "bert-base --batch 4 --seq 64 --width 0.084 --classes 50 --dropout 0 --memory 80% --host-memory 1GiB", 4, ("--planner checkpoint",)),
           asked=("bert-large 64 512 largest=batch by=8", 24, "")),
    # Its pixels are made as they are read, window by window: nothing holds the image's 112 GiB.
    Budget("slide-s 100000, 4 GiB", "", 0,
           "slide-s --batch 1 --image 100000 --data generated:slides:size=100000x100000,count=1 --memory 4GiB --host-memory 20GiB", 1e10, "px", 0,
           ("--planner overl-h", "--planner sft"), "none",
           ("", 0, "slide-s --batch 1 --image 256 --data generated:slides:size=256x256,count=1 --memory 20MiB --host-memory 1GiB", 256**2,
            ("--planner sft",)), steps=1),
)


# PyTorch's own means against a lack of memory.
MEANS = ("plain", "compiled", "checkpoint", "save_on_cpu", "budget")


def say_means(stage, it):
    """What PyTorch does under the same cap, by each of its means; the largest where what is asked for does not fit."""
    if not it.asked or (TINY and not it.asked[2]):
        stage.say(f"{it.name}: PyTorch: {it.peer}")
        return
    words, cap, tiny = it.asked
    asked = (tiny if TINY else words).split()
    for means in MEANS:
        if TINY and means in ("compiled", "budget"):
            continue
        found = stage.cell(f"{it.name}: PyTorch, {means}", lambda seconds: peer([*asked, f"cap={cap}", f"means={means}"], seconds, 150), 20)
        if found is None:
            continue
        line = f"{it.name}: PyTorch {means} under {cap} GiB: "
        if "seconds" not in found:
            stage.say(line + found.get("error", "nothing")[:160])
            continue
        units = found["batch"] if it.unit in ("image", "sequence") else found["batch"] * found["size"] ** (3 if it.unit == "voxel" else 2)
        stage.say(line + f"batch {found['batch']}, size {found['size']}: {1e3 * found['seconds']:.1f} ms, {rate(found['seconds'], units, it.unit)}, "
                  f"{gib(found['bytes'])}")


def in_budget(stage, it, way=None):
    """The step in memory, or under the budget by one of the ways; None where its time is over or there is none."""
    memory, _, work, _, _ = it.tiny if TINY else (it.memory, it.memory_units, it.work, it.units, it.ways)
    if way is None:
        return stage.cell(f"{it.name}: in memory", lambda seconds: train(f"{memory} --steps 4", seconds, 120), 10) if memory else None
    limit = 150 if memory else 300
    return stage.cell(f"{it.name}: {way}", lambda seconds: train(f"{work} {way} --steps {it.steps} --advice 0", seconds, limit), 10)


def budget_speed(stage):
    """Under a budget: seconds a unit of the best way beside those in memory. The first way of all work comes before the second of any; further
    ways are tried where those before miss the bar."""
    units_of = lambda it: (it.tiny[1], it.tiny[3]) if TINY else (it.memory_units, it.units)
    ways_of = lambda it: it.tiny[4] if TINY else it.ways

    def ratio_of(it, base, found):
        memory_units, units = units_of(it)
        return (found["measured_step_s"] / units) / (base["measured_step_s"] / memory_units)

    bases, tried = {it.name: in_budget(stage, it) for it in BUDGET}, {it.name: {} for it in BUDGET}
    ran = lambda it: [found for found in tried[it.name].values() if found and "error" not in found]

    def met_by(it):
        base = bases[it.name]
        if not it.memory:
            return bool(ran(it))
        return bool(base) and "error" not in base and any(ratio_of(it, base, found) <= it.most for found in ran(it))

    for i in range(max(len(ways_of(it)) for it in BUDGET)):
        for it in BUDGET:
            if i < len(ways_of(it)) and not met_by(it):
                tried[it.name][ways_of(it)[i]] = in_budget(stage, it, ways_of(it)[i])

    for it in BUDGET:
        base, (memory_units, units) = bases[it.name], units_of(it)
        if base and "error" in base:
            stage.say(f"{it.name}: in memory: {base['error'][-200:]}")
            stage.expect(False, f"{it.name}: in memory failed")
            base = None
        if base:
            stage.say(f"{it.name}: in memory {1e3 * base['measured_step_s']:.1f} ms, {rate(base['measured_step_s'], memory_units, it.unit)}, "
                      f"{gib(base['measured_peak_bytes'])}")
        for way, found in tried[it.name].items():
            if found is None:
                continue
            if "error" in found:
                stage.say(f"{it.name}: {way}: {'refused' if refused(found) else 'FAILED'}: {found['error'][:200]}")
                stage.expect(refused(found), f"{it.name}: {way} failed")
                continue
            stage.expect(exact(found), f"{it.name}: {way}: peak not as predicted")
            stage.say(f"{it.name}: {way}: {1e3 * found['measured_step_s']:.1f} ms, {rate(found['measured_step_s'], units, it.unit)}"
                      + (f", {ratio_of(it, base, found):.2f} x the time in memory" if base else "")
                      + f"; predicted {1e3 * found['predicted_step_s']:.1f} ms; peak {gib(found['measured_peak_bytes'])} of "
                      f"{gib(found['budget_bytes'])}, host {gib(found['host_bytes'])}, swapped {gib(found['swapped_bytes'])}, planned in "
                      f"{found['plan_seconds']:.0f} s, in all {found['seconds']:.0f} s")
        if not ran(it):
            if len(tried[it.name]) == len(ways_of(it)) and None not in tried[it.name].values():
                stage.expect(False, f"{it.name}: nothing fits")
        elif not it.memory:
            stage.say(f"{it.name}: executed; PyTorch: {it.peer}, for it holds the image's pixels alone in 112 GiB")
        elif base:
            best = min(ratio_of(it, base, found) for found in ran(it))
            stage.say(f"{it.name}: best {best:.2f} x the time in memory (bar: {it.most:.2f}); PyTorch when first measured: {it.peer}")
            if not TINY:
                stage.expect(best <= it.most, f"{it.name}: {best:.2f} x, more than {it.most:.2f}")
    if not TINY or have_torch():
        for it in BUDGET:
            if it.memory:
                say_means(stage, it)
    return f"{sum(map(met_by, BUDGET))} of {len(BUDGET)} within their bars"

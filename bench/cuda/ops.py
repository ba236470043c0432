"""Single ops on the card: every case of every op folder, calls above 2³¹ elements, compute-sanitizer, kernels by themselves."""
import concurrent.futures
import re

from cells import PROCESSES, TINY, program, run
from check import TILED
from speed import SCRATCH, graph_file


def tests(name, filters, environment, shards):
    """Runs a test program in parts, as cells' measurements: passed, failed, and what failed."""
    def part(index):
        def measure(seconds):
            alone = {} if shards == 1 else {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index), "OMP_NUM_THREADS": "1"}
            done = run([*program(name), "--gtest_filter=" + filters], seconds, 300, {**environment, **alone})
            output = done["output"]
            found = {"passed": len(re.findall(r"^\[       OK \]", output, re.M)), "skipped": len(re.findall(r"^\[  SKIPPED \].*ms\)", output, re.M)),
                     "failed": sorted(set(re.findall(r"^\[  FAILED  \] (\S+?),? .*ms\)", output, re.M))), "status": done["status"],
                     "seconds": done["seconds"]}
            # What the first failures said.
            said = re.findall(r"^(.*?: Failure\n(?:.+\n){1,6})", output, re.M)
            found["said"] = "".join(said[:6])[:3000]
            if done["status"] not in (0, 1):
                found["error"] = f"ended with status {done['status']}: {(done['errors'] or output)[-300:]}"
            if done.get("cut off"):
                found["cut off"] = True
            return found

        return measure

    return [(f"{index + 1} of {shards}", part(index)) for index in range(shards)]


def say_tests(stage, what, found):
    found = [part for part in found if part]
    passed, skipped = sum(part["passed"] for part in found), sum(part["skipped"] for part in found)
    failed = sorted(name for part in found for name in part["failed"])
    for part in found:
        if "error" in part:
            stage.say(f"{what}: {part['error']}")
            stage.expect(False, f"{what}: a process ended early")
        if part["said"]:
            stage.results.note("errors.txt", f"{stage.name}, {what}", part["said"])
    stage.say(f"{what}: {passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    for name in failed[:60]:
        stage.say(f"  FAILED {name}")
    stage.expect(not failed, f"{what}: {len(failed)} failed")
    if not stage.missing:
        stage.expect(passed > 0, f"{what}: nothing ran")
    return passed


def driver(stage, precision, filters):
    """The driver of tests/ops on the card, in a precision."""
    environment = {} if TINY else {"OUTSIZE_TEST_CARD": precision}
    if TINY:
        filters = "Ops/Forward.EveryOp/relu*cuda_host"
    shards = 2 if TINY else 36
    work = [(f"{precision} {key}", measure) for key, measure in tests("test_ops", filters, environment, shards)]
    return say_tests(stage, f"every op's cases in {precision}", stage.cells(work, PROCESSES + PROCESSES // 2))


def ops(stage):
    """Every case against reference f64: forward, gradients, boxes, in place, odd sizes, NaN and infinities; and above 2³¹ elements."""
    passed = driver(stage, "f32", "*cuda_f32*")
    if TINY:  # takes 19 GiB and a minute where there is no card
        return f"{passed} cases"
    work = [(f"large {key}", measure) for key, measure in tests("test_large", "*", {"OUTSIZE_TEST_CARD": "f32"}, 1)]
    # Its reference runs on all threads of the host.
    passed += say_tests(stage, "calls above 2^31 elements", stage.cells(work, 1))
    return f"{passed} cases"


def tf32(stage):
    """The same cases with factors rounded to TF32, to 1e-3 of reference f64."""
    return f"{driver(stage, 'tf32', '*cuda_tf32*')} cases within 1e-3"


# A training step of each kind of plan, with a small net.
NET = "resnet18 --batch 2 --image 64 --width 0.125 --steps 1 --host-memory 1GiB"
PLANS = (("keep", f"{NET} --planner keep"), ("swap", f"{NET} --planner vdnn-all"), ("recompute", f"{NET} --planner recompute-cheap"),
         ("tiles, swap", f"{graph_file(16, 4) if TINY else graph_file(32, 8)} {TILED} --steps 1"),
         ("tiles, streamed pixels", f"slide-s --batch 1 --image 128 --data generated:slides:size=128x128,count=1 {TILED} --steps 1"))
TOOLS = ("memcheck", "racecheck", "initcheck")
SHARDS = 2 if TINY else 12  # of the ops' cases


def summary_of(output):
    """What a tool says at its end: the number of errors and its line; None where it did not come to its end."""
    found = re.findall(r"=+ (ERROR SUMMARY: (\d+) errors?.*|RACECHECK SUMMARY: (\d+) hazards? displayed.*)", output)
    return (int(found[-1][1] or found[-1][2]), found[-1][0]) if found else None


FILTERS = "Ops/Forward.EveryOp/relu*cuda_host" if TINY else "Ops/Forward.EveryOp*cuda_f32*"


def plan_words(arguments):
    return [*program("outsize"), "train", *arguments.split(), "--backend", "cuda-host" if TINY else "cuda"]


def choose(stage, environment):
    """Runs what the tools will watch once without a tool, unless that was done on this machine or all is measured."""
    done = SCRATCH / "sanitized" / "chosen"
    if done.exists() or sum(key[0] == stage.name for key in stage.results.cells) >= len(TOOLS) * (len(PLANS) + SHARDS):
        return
    card = {} if TINY else {"OUTSIZE_TEST_CARD": "f32"}
    runs = [([*program("test_ops"), "--gtest_brief=1", "--gtest_filter=" + FILTERS], card)] + [(plan_words(plan), {}) for _, plan in PLANS]
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        for it in pool.map(lambda one: run(one[0], stage.left(), 120, {**environment, **one[1], "OMP_NUM_THREADS": "1"}), runs):
            if it["status"] != 0:
                stage.say(f"without a tool: {(it['errors'] or it['output']).strip()[-200:]}")
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()


def sanitizer(stage):
    """compute-sanitizer over the small cases of every op and one training step of each kind of plan."""
    shards = SHARDS
    # Kernels are chosen by their times, which under a tool would be wrong, slow to take, and kept for later runs: so they are chosen
    # before, without a tool, and kept apart.
    apart = {"XDG_CACHE_HOME": str(SCRATCH / "sanitized")}
    choose(stage, apart)

    def under(tool, words, environment, limit):
        def measure(seconds):
            prefix = [] if TINY else ["compute-sanitizer", "--tool", tool, "--print-limit", "20"]
            done = run(prefix + words, seconds, limit, {**apart, **environment, "OMP_NUM_THREADS": "1"})
            output = done["output"] + done["errors"]
            found = {"status": done["status"], "seconds": done["seconds"]}
            summary = (0, "no tool") if TINY and done["status"] == 0 else summary_of(output)
            if summary:
                found["errors"], found["summary"] = summary
            elif not done.get("cut off"):
                found["error"] = f"did not come to its end: {output.strip()[-300:]}"
            found["passed"] = sum(map(int, re.findall(r"\[  PASSED  \] (\d+) tests?", output)))
            if summary and summary[0]:
                lines = [line for line in output.splitlines() if line.startswith("=========")]
                found["said"] = "\n".join(lines[:60])[:6000]
            if done.get("cut off"):
                found["cut off"] = True
            return found

        return measure

    work = []
    for tool in TOOLS:
        for name, arguments in PLANS:
            work.append((f"{tool} {name}", under(tool, plan_words(arguments), {}, 120)))
    for tool in TOOLS:
        for index in range(shards):
            environment = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index)} | ({} if TINY else {"OUTSIZE_TEST_CARD": "f32"})
            words = [*program("test_ops"), "--gtest_brief=1", "--gtest_filter=" + FILTERS]
            work.append((f"{tool} ops {index + 1} of {shards}", under(tool, words, environment, 240)))
    # The tool puts the kernels of a process in a row: several processes fill the card and the host.
    found = dict(zip([key for key, _ in work], stage.cells(work, PROCESSES)))
    for tool in TOOLS:
        mine = {key: it for key, it in found.items() if it and key.startswith(tool)}
        errors = sum(it.get("errors", 0) for it in mine.values())
        stopped = [key for key, it in mine.items() if "error" in it]
        cases = sum(it["passed"] for it in mine.values())
        stage.say(f"{tool}: {errors} errors in {cases} cases and {sum(' ops ' not in key for key in mine)} of {len(PLANS)} training steps"
                  + (f"; did not end: {', '.join(stopped)}" if stopped else ""))
        for key, it in mine.items():
            if "error" in it:
                stage.say(f"  {key}: {it['error']}")
            if "said" in it:
                stage.results.note("errors.txt", f"{stage.name}, {key}", it["said"])
                stage.say(f"  {key}: {it['summary']}")
        stage.expect(errors == 0, f"{tool}: {errors} errors")
        stage.expect(not stopped, f"{tool}: {len(stopped)} did not end")
    return f"{len(TOOLS)} tools"


def kernels(stage):
    """Single kernels of a training step in TF32, as shares of what the card does (bench/cuda/card_bench.cpp)."""
    if TINY:
        return "only on a card"
    found = stage.cell("all", lambda seconds: run(program("card_bench"), seconds, 200), 10)
    if found:
        stage.expect(found["status"] == 0, "card_bench failed")
        stage.results.note("kernels.txt", "kernels by themselves", found["output"] + found["errors"][-500:])
        return shares(stage, found["output"])
    return ""


def shares(stage, output):
    """What own kernels have of the card's copy rate: at least 85 % on large maps; what else is memory's is shown beside."""
    below = many = 0
    for part, body in re.findall(r"^-- (\S+)\n((?:(?!-- ).*\n?)*)", output, re.M):
        for what, share in re.findall(r"^(.{44}).*?(\d+) % of copy", body, re.M):
            if part not in ("maps", "rows"):
                continue
            large = part == "maps"
            many += large
            below += large and int(share) < 85
            stage.say(f"{what} {share:>4s} % of copy" + (" BELOW 85" if large and int(share) < 85 else ""))
            if large:
                stage.expect(int(share) >= 85, f"{what.strip()}: {share} % of copy")
    stage.expect(many > 0, "no map was timed")
    return f"{many - below} of {many} kernels at 85 % of copy or above"


def selfcheck(stage):
    """`outsize selfcheck`."""
    backend = "cuda-host" if TINY else "cuda"
    found = stage.cell("all", lambda seconds: run([*program("outsize"), "selfcheck", "--backend", backend], seconds, 150), 10)
    if found:
        stage.say(found["output"].rstrip() or found["errors"].strip()[-600:])
        stage.expect(found["status"] == 0, f"status {found['status']}: {found['errors'].strip()[-200:]}")
        stage.expect(found["seconds"] < 120, f"took {found['seconds']:.0f} s")
        return f"in {found['seconds']:.0f} s"
    return ""

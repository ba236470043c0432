"""Stages of `scripts/card` as cells: each cell is one measurement under a name, and what was found is kept in a file at once, so that
a stage that was cut off goes on with the cells that are missing.

A results folder holds `cells.jsonl` (a line a cell), `report.txt` (a table and a verdict a stage), `kernels.txt` (where steps spend
their time) and `errors.txt` (what programs said that failed)."""
import concurrent.futures
import json
import math
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
BACKEND = os.environ.get("OUTSIZE_CARD_BACKEND", "cuda")
# Another backend stands in for the card: the same stages with tiny work, which show that the scripts run.
TINY = BACKEND != "cuda"
PROCESSES = int(os.environ.get("PROCESSES", "8" if not TINY else "2"))


def program(name):
    """The words that start a program: of a bundle, of the folder OUTSIZE_PROGRAMS, or of the build."""
    if (HERE / "run").exists():
        return [str(HERE / "run"), name]
    folder = os.environ.get("OUTSIZE_PROGRAMS") or HERE.parent.parent / "build" / "release"
    return [str(pathlib.Path(folder) / name)]


class Results:
    """The cells of all stages in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cells = {}
        self.lock = threading.Lock()
        path = self.folder / "cells.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                cell = json.loads(line)
            except ValueError:
                continue  # a line that was cut off
            self.cells[cell["stage"], cell["key"]] = cell["found"]

    def keep(self, stage, key, found):
        with self.lock:
            self.cells[stage, key] = found
            with open(self.folder / "cells.jsonl", "a") as file:
                file.write(json.dumps({"stage": stage, "key": key, "found": found}) + "\n")

    def note(self, file, title, text):
        """Puts a section into a file of the folder, in the place of one of the same title."""
        with self.lock:
            path = self.folder / file
            sections = {}
            for section in path.read_text().split("==== ")[1:] if path.exists() else []:
                head, _, body = section.partition("\n")
                sections[head] = body
            sections[title] = text.rstrip("\n") + "\n\n"
            path.write_text("".join(f"==== {head}\n{body}" for head, body in sections.items()))


class Stage:
    """One stage in the time it has: cell() measures what is missing, say() adds to its table, end() gives the verdict."""

    def __init__(self, name, results, seconds, again=False):
        self.name, self.results, self.again = name, results, again
        self.begin = time.time()
        self.end_at = self.begin + seconds
        self.lines, self.wrong, self.missing = [], [], []

    def left(self):
        return self.end_at - time.time()

    def cell(self, key, measure, least=2.0):
        """What was found under this key: kept, or measured now by measure(seconds), which gives a dictionary, with "error" in it
        where it failed. None where the stage's time is over, or ended within the measurement, or where less than `least` seconds are
        left for it."""
        found = self.results.cells.get((self.name, key))
        if found is not None and not (self.again and "error" in found):
            return found
        if self.left() < least:
            self.missing.append(key)
            return None
        found = measure(self.left())
        if found.get("cut off"):
            self.missing.append(key)
            return None
        self.results.keep(self.name, key, found)
        return found

    def cells(self, work, processes=None):
        """Many cells side by side: (key, measure) each; what was found, in their order."""
        with concurrent.futures.ThreadPoolExecutor(processes or PROCESSES) as pool:
            return list(pool.map(lambda item: self.cell(*item), work))

    def say(self, line):
        self.lines.append(line)

    def expect(self, well, what):
        """Notes what is wrong where `well` does not hold."""
        if not well:
            self.wrong.append(what)
        return well

    def end(self, summary):
        """The last line of the table; returns the exit status: 0 well, 1 not well, 3 to be gone on with."""
        if self.wrong:
            verdict = f"{len(self.wrong)} NOT well: " + "; ".join(self.wrong[:12])
        else:
            verdict = "well"
        if self.missing:
            verdict += f"; unfinished: {len(self.missing)} missing ({', '.join(self.missing[:3])} …), run it again"
        self.lines.append(f"{self.name}: {summary}{', ' if summary else ''}{verdict} ({time.time() - self.begin:.0f} s)")
        self.results.note("report.txt", self.name, "\n".join(self.lines))
        print("\n".join(self.lines), flush=True)
        return 1 if self.wrong else 3 if self.missing else 0


def run(words, seconds, limit=None, environment=None):
    """Runs a program: status, output, errors, seconds, and "cut off" where the stage's `seconds` ended it before its own `limit`."""
    allowed = seconds if limit is None else min(seconds, limit)
    begin = time.time()
    try:
        # In a group of its own, which ends as a whole: what runs under a tool is the tool's child.
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                   env={**os.environ, **(environment or {})}, process_group=0)
    except OSError as error:
        return {"status": -1, "output": "", "errors": str(error), "seconds": 0.0}
    try:
        output, errors = process.communicate(timeout=max(allowed, 0.1))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        found = {"status": -1, "output": output, "errors": f"took more than {allowed:.0f} s: {errors}", "seconds": time.time() - begin}
        if limit is None or seconds < limit:
            found["cut off"] = True
        return found
    except BaseException:  # this program is stopped
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return {"status": process.returncode, "output": output, "errors": errors, "seconds": time.time() - begin}


KEPT = ("measured_step_s", "predicted_step_s", "measured_peak_bytes", "predicted_peak_bytes", "budget_bytes", "device_outside_bytes",
        "process_peak_bytes", "host_bytes", "parameters", "plan_seconds", "swapped_bytes", "recomputed_ops", "tiles", "losses",
        "params_sha256", "profile", "error", "status", "waited_s", "rounding")


def train(arguments, seconds, limit=170, backend=BACKEND, trace=None, environment=None):
    """A training run's figures; "error" and "status" where it ended otherwise (status 1: the budget cannot be met)."""
    words = [*program("outsize"), "train", *shlex.split(arguments), "--backend", backend, "--json"]
    if TINY:
        words += ["--threads", "1"]
    if trace:
        pathlib.Path(trace).unlink(missing_ok=True)  # no file is written over
        words += ["--trace", str(trace)]
    done = run(words, seconds, limit, environment)
    try:
        found = json.loads(done["output"])
    except ValueError:
        found = {"error": (done["errors"] or done["output"]).strip()[-400:] or f"status {done['status']}", "status": done["status"]}
    if done["status"] not in (0, 1):
        found.setdefault("error", f"status {done['status']}: " + done["errors"].strip()[-300:])
    found = {key: found[key] for key in KEPT if key in found}
    found["seconds"] = done["seconds"]
    if done.get("cut off"):
        found["cut off"] = True
    return found


def refused(found):
    """Whether a run ended because its budget cannot be met, which is an answer."""
    return found.get("status") == 1


def exact(found):
    """Whether the peak is the predicted one and within the budget."""
    return found["measured_peak_bytes"] == found["predicted_peak_bytes"] and found["measured_peak_bytes"] <= found["budget_bytes"]


def gib(count):
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def apart(a, b):
    """The largest relative difference of two lists; infinite where a number is none."""
    if len(a) != len(b) or not a or any(not math.isfinite(x) for x in a + b):
        return math.inf
    return max(abs(x - y) / max(abs(y), 1e-30) for x, y in zip(a, b))


def median(numbers):
    return statistics.median(numbers) if numbers else math.nan

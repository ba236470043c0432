#!/usr/bin/env python3
"""Where a step's time goes, from a trace that `outsize train --trace FILE` wrote: kernels.py FILE [ROWS] [beside KEEP.json]

A row for each kind of op: calls, time and share; then the instructions that took longest; the gaps between kernels; the rate of copies
over the link. `beside` names a trace of the same step without copies: how much slower kernels are that run beside copies."""
import collections
import json
import sys


class Trace:
    """The events of a step by lane, in microseconds."""

    def __init__(self, path):
        events = json.load(open(path))["traceEvents"]
        self.lanes = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        step = next(e for e in events if e.get("cat") == "step")
        self.step = step["dur"]
        self.work = [e for e in events if e["ph"] == "X" and e is not step]

    def of(self, lane):
        return [e for e in self.work if self.lanes[e["tid"]] == lane]


def spans(events):
    """Where at least one of the events runs: disjoint (begin, end), ascending."""
    merged = []
    for begin, end in sorted((e["ts"], e["ts"] + e["dur"]) for e in events):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(merged):
    return sum(end - begin for begin, end in merged)


def common(begin, end, merged):
    """How much of [begin, end) lies in disjoint spans."""
    return sum(max(0.0, min(end, hi) - max(begin, lo)) for lo, hi in merged)


def gaps(trace):
    """The share of the step in which the compute lane runs nothing."""
    return 1 - length(spans(trace.of("compute"))) / trace.step if trace.step > 0 else 0.0


# Copies below this size are bound by the call, not by the link.
LARGE = 1 << 20


def copies(trace):
    """By direction: bytes, microseconds in which large copies ran, and bytes a second then."""
    found = {}
    for action in ("copy_out", "copy_in"):
        events = [e for e in trace.work if e["cat"] == action and e["args"].get("bytes", 0) >= LARGE]
        if events:
            busy, moved = length(spans(events)), sum(e["args"]["bytes"] for e in events)
            found[action] = {"bytes": moved, "us": busy, "rate": 1e6 * moved / busy if busy > 0 else 0.0}
    return found


def slower(trace, alone):
    """Time of the kernels that run beside copies for at least half of their time, over that of the same kernels in a step without
    copies; None where there are none."""
    moving = spans([e for e in trace.work if e["cat"] in ("copy_out", "copy_in")])
    before = collections.defaultdict(list)
    for e in alone.of("compute"):
        before[e["name"], e["args"].get("kernel")].append(e["dur"])
    beside = by_itself = 0.0
    for e in trace.of("compute"):
        times = before.get((e["name"], e["args"].get("kernel")))
        if times and common(e["ts"], e["ts"] + e["dur"], moving) >= e["dur"] / 2:
            beside += e["dur"]
            by_itself += sum(times) / len(times)
    return beside / by_itself if by_itself > 0 else None


def table(trace, rows=12):
    """The lines that say where the time goes."""
    lines = [f"step {trace.step / 1e3:.3f} ms, gaps between kernels {100 * gaps(trace):.1f} %"]
    for lane in trace.lanes.values():
        busy = trace.of(lane)
        if not busy:
            continue
        total = sum(e["dur"] for e in busy)
        span = max(e["ts"] + e["dur"] for e in busy) - min(e["ts"] for e in busy)
        lines.append(f"lane {lane}: {len(busy)} instructions, {total / 1e3:.3f} ms busy of {span / 1e3:.3f}")
        kinds = collections.defaultdict(lambda: [0, 0.0])
        for e in busy:
            kinds[e["cat"]][0] += 1
            kinds[e["cat"]][1] += e["dur"]
        for kind, (calls, spent) in sorted(kinds.items(), key=lambda item: -item[1][1])[:rows]:
            lines.append(f"  {kind:28s} {calls:6d} calls {spent / 1e3:10.3f} ms {100 * spent / max(total, 1e-9):5.1f} %")
    for action, moved in copies(trace).items():
        lines.append(f"{action}: {moved['bytes'] / 2**30:.2f} GiB in pieces of at least 1 MiB, {moved['rate'] / 1e9:.1f} GB/s")
    lines.append("longest:")
    for e in sorted(trace.work, key=lambda e: -e["dur"])[:rows]:
        kernel = e["args"].get("kernel", "")
        lines.append(f"  {e['name'][:44]:44s} {e['cat'][:24]:24s} {kernel[:20]:20s} {e['dur'] / 1e3:9.3f} ms"
                     f" (predicted {e['args'].get('predicted_us', 0) / 1e3:.3f})")
    return lines


def main():
    words = sys.argv[1:]
    trace = Trace(words[0])
    rows = next((int(word) for word in words[1:] if word.isdigit()), 12)
    print("\n".join(table(trace, rows)))
    if "beside" in words:
        ratio = slower(trace, Trace(words[words.index("beside") + 1]))
        print("kernels beside copies: none" if ratio is None else f"kernels beside copies: {ratio:.3f} x their time alone")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Where a step's time goes, from a trace that `outsize train --trace FILE` wrote: kernels.py FILE [ROWS]

A row for each kind of op: calls, time and share; then the instructions that took longest."""
import collections
import json
import sys


def main():
    events = json.load(open(sys.argv[1]))["traceEvents"]
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    step = next(e for e in events if e.get("cat") == "step")
    work = [e for e in events if e["ph"] == "X" and e is not step]
    print(f"step {step['dur'] / 1e3:.3f} ms")
    for lane, name in lanes.items():
        busy = [e for e in work if e["tid"] == lane]
        if not busy:
            continue
        total = sum(e["dur"] for e in busy)
        span = max(e["ts"] + e["dur"] for e in busy) - min(e["ts"] for e in busy)
        print(f"lane {name}: {len(busy)} instructions, {total / 1e3:.3f} ms busy of {span / 1e3:.3f}")
        kinds = collections.defaultdict(lambda: [0, 0.0])
        for e in busy:
            kinds[e["cat"]][0] += 1
            kinds[e["cat"]][1] += e["dur"]
        for kind, (calls, spent) in sorted(kinds.items(), key=lambda item: -item[1][1])[:rows]:
            print(f"  {kind:28s} {calls:6d} calls {spent / 1e3:10.3f} ms {100 * spent / total:5.1f} %")
    print("longest:")
    for e in sorted(work, key=lambda e: -e["dur"])[:rows]:
        kernel = e["args"].get("kernel", "")
        print(f"  {e['name'][:44]:44s} {e['cat'][:24]:24s} {kernel[:20]:20s} {e['dur'] / 1e3:9.3f} ms"
              f" (predicted {e['args'].get('predicted_us', 0) / 1e3:.3f})")


main()

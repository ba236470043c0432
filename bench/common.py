"""What the benchmarks share: running a command that answers in JSON, describing the machine, setting a table, giving out a report."""

import json
import os
import platform
import shlex
import subprocess
import sys

TOKENS = ("bert", "gpt2", "transformer")  # what the names of models begin with that take tokens


def size_flag(model):
    return "--seq" if model.startswith(TOKENS) else "--image"


def output_of(command, environment=None):
    """The object that a command prints; ends the program where it fails."""
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}\nended with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def table(rows):
    """Rows of cells, the first of them the head, as lines whose columns begin under each other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def give_out(text, path):
    """Prints a report, and writes it to the file where there is one."""
    print(text, end="")
    if path:
        with open(path, "w") as file:
            file.write(text)

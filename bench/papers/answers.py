"""What `outsize` answers, asked once: answers are kept in a folder, so that a script that was stopped goes on where it was."""

import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import give_out, table  # noqa: E402, F401  (the scripts take them from here)

REFUSED = 1  # exit status of a budget that cannot be met: an answer too


class Answers:
    """Runs a binary with arguments and remembers what it printed; another binary is asked anew."""

    def __init__(self, binary, folder, jobs):
        self.binary, self.folder, self.jobs = binary, folder, jobs
        with open(binary, "rb") as file:
            self.build = hashlib.sha256(file.read()).hexdigest()
        os.makedirs(folder, exist_ok=True)

    def text(self, *arguments):
        """What is printed for these arguments; ends the program where the command fails."""
        key = "\0".join([self.build, *arguments])
        place = os.path.join(self.folder, hashlib.sha256(key.encode()).hexdigest())
        if not os.path.exists(place):
            done = subprocess.run([self.binary, *arguments], capture_output=True, text=True)
            if done.returncode not in (0, REFUSED):
                sys.exit(f"outsize {' '.join(arguments)}\nended with status {done.returncode}:\n{done.stderr}")
            with open(place + ".part", "w") as file:
                file.write(done.stdout)
            os.replace(place + ".part", place)
        with open(place) as file:
            return file.read()

    def ask(self, *arguments):
        """The object that is printed for these arguments and --json."""
        return json.loads(self.text(*arguments, "--json"))

    def each(self, tasks, work, what):
        """`work(task)` of every task, some at once, in the order of the tasks; says on standard error how far it is."""
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            futures = [pool.submit(work, task) for task in tasks]
            for done, _ in enumerate(concurrent.futures.as_completed(futures), 1):
                print(f"\r{what}: {done} of {len(tasks)}, {time.monotonic() - begun:.0f} s ", end="", file=sys.stderr)
            print(file=sys.stderr)
            return [future.result() for future in futures]


def add_arguments(parser):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--outsize", default=os.path.join(root, "build/release/outsize"), help="the binary")
    parser.add_argument("--answers", default=os.path.join(root, "build/papers"), help="folder of the answers kept")
    parser.add_argument("--results", default=os.path.join(root, "bench/results/papers"), help="folder of tables and plots")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="commands at once [one a core]")


def answers_of(arguments):
    os.makedirs(arguments.results, exist_ok=True)
    return Answers(arguments.outsize, arguments.answers, arguments.jobs)

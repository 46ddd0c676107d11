"""What a worker process costs a sweep; the limit is 15 %.

Times the quick sweep in a worker and in pytest's own process, in turns; `--models` narrows it down.
Runs pytest in a folder of its own, once before to fill the cache, and prints Markdown:
python benchmarks/worker_cost.py --repetitions 3
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

LIMIT = 1.15
EXECUTORS = ("in-process", "worker")


def sweep_s(executor: str, folder: str, arguments: Sequence[str]) -> float:
    """Seconds of wall time of a sweep, from the start of pytest to its end."""
    command = [sys.executable, "-P", "-m", "pytest", "--pyargs", "benchrack.suites", "-q"]
    command += ["-p", "no:cacheprovider", "-m", "inference", *arguments]
    command += [f"--set=executor={executor}"]
    started = time.perf_counter()
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stdout}{run.stderr}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--models", help="of the sweep, with commas between them; all, if not given"
    )
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    if options.repetitions < 1:
        parser.error("needs at least 1 repetition")
    arguments = [f"--device={options.device}"]
    if options.models:
        arguments.append(f"--models={options.models}")
    taken: dict[str, list[float]] = {executor: [] for executor in EXECUTORS}
    with tempfile.TemporaryDirectory() as folder:
        sweep_s(EXECUTORS[0], folder, arguments)
        for repetition in range(options.repetitions):
            # Each goes first as often as the other: what drifts does not favour one of them.
            for executor in EXECUTORS if repetition % 2 == 0 else reversed(EXECUTORS):
                taken[executor].append(sweep_s(executor, folder, arguments))
    print(f"quick sweep, {options.models or 'all models'}; {options.repetitions} runs each\n")
    print("| executor | median s | lowest | highest |")
    print("|---|---|---|---|")
    for executor, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"| {executor} | {median:.1f} | {min(seconds):.1f} | {max(seconds):.1f} |")
    pairs = zip(taken["worker"], taken["in-process"], strict=True)
    ratio = statistics.median(worker / own for worker, own in pairs)
    verdict = "within" if ratio <= LIMIT else "ABOVE"
    print(f"\nworker ÷ in-process, median of pairs: {ratio:.2f}, {verdict} the limit of {LIMIT}")


if __name__ == "__main__":
    main()

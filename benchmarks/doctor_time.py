"""How long `benchrack doctor` takes in a fresh process, without a GPU; the limit is 3 s.

Beside it, in turns: a fresh process that only finds the plugins, and one that imports torch, which
doctor must not do on a machine without cards. Prints Markdown:
python benchmarks/doctor_time.py --repetitions 5
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time

LIMIT_S = 3.0
# As if no card were visible, on machines that have some too.
DOCTOR = """
from benchrack.machine import devices
devices.visible_cards = lambda: ()
from benchrack.command.doctor import render, run_doctor
from benchrack.registry.registry import load_registry
print(render(run_doctor(load_registry())))
"""
PLUGINS = """
from benchrack.registry.registry import load_registry
load_registry()
"""
TORCH = """
import torch
"""


def fresh_s(script: str) -> float:
    """Seconds of wall time of a script in a new process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    scripts = {"doctor, all of it": DOCTOR, "finding the plugins alone": PLUGINS}
    if importlib.util.find_spec("torch"):
        scripts["import of torch alone, for comparison"] = TORCH
    rounds = [
        {what: fresh_s(script) for what, script in scripts.items()} for _ in range(repetitions)
    ]
    print(f"median of {repetitions} fresh processes\n")
    print("| what | s |")
    print("|---|---|")
    for what in scripts:
        print(f"| {what} | {statistics.median(taken[what] for taken in rounds):.2f} |")
    slowest = max(taken["doctor, all of it"] for taken in rounds)
    verdict = "within" if slowest <= LIMIT_S else "ABOVE"
    print(f"\nslowest {slowest:.2f} s: {verdict} the limit of {LIMIT_S:g} s")


if __name__ == "__main__":
    main()

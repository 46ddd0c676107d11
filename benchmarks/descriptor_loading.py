"""How long loading all built-in descriptors takes, beside parsing alone; the limit is 20 ms.

Both are timed in turns, in this process, after one run to warm the disk's cache; the first load of
a fresh process, imports included, is timed in child processes. Prints Markdown:
python benchmarks/descriptor_loading.py --repetitions 50
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

from benchrack.hardware import descriptors

LIMIT_MS = 20.0
FIRST_LOAD = """
import time
start = time.perf_counter()
from benchrack.hardware import descriptors
imported = time.perf_counter()
descriptors.built_in()
print((time.perf_counter() - imported) * 1e3, (imported - start) * 1e3)
"""


def parse_alone() -> None:
    """The least that any loader does: read the same files and parse their TOML."""
    for path in Path(descriptors.__file__).parent.glob("*/*.toml"):
        tomllib.loads(path.read_text(encoding="utf-8"))


def timed_ms(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=50)
    repetitions = parser.parse_args().repetitions
    loaded = descriptors.built_in()
    parse_alone()
    pairs = [(timed_ms(descriptors.built_in), timed_ms(parse_alone)) for _ in range(repetitions)]
    fresh = [
        tuple(map(float, subprocess.check_output([sys.executable, "-c", FIRST_LOAD]).split()))
        for _ in range(max(1, repetitions // 10))
    ]
    load, parse = (statistics.median(column) for column in zip(*pairs, strict=True))
    first, imports = (statistics.median(column) for column in zip(*fresh, strict=True))
    print(f"{len(loaded)} descriptors, median of {repetitions} (fresh process: {len(fresh)})\n")
    print("| what | ms | of parsing alone |")
    print("|---|---|---|")
    print(f"| load and check | {load:.1f} | {load / parse:.2f}× |")
    print(f"| read and parse TOML alone | {parse:.1f} | 1× |")
    print(f"| load and check, first in a fresh process | {first:.1f} | {first / parse:.2f}× |")
    print(f"| import of the loader there | {imports:.1f} | |")
    verdict = "within" if max(load, first) <= LIMIT_MS else "ABOVE"
    print(f"\n{verdict} the limit of {LIMIT_MS:g} ms")


if __name__ == "__main__":
    main()

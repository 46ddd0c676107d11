"""What the harness costs a batch: measures a session that does nothing, as it measures any other.

Prints microseconds a batch as Benchrack reports them, those of a bare loop over the same calls, and
the difference, which is the harness's. Ends with 1 if that is above 20 µs anywhere.

    python benchmarks/null_session.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes import laboratory

from benchrack.execution.running import run_case
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.models import LoadedModel
from benchrack.vocabulary.results import Measurement

LIMIT_US = 20.0
Transfer = Literal["include", "exclude"]
TRANSFERS: tuple[Transfer, ...] = ("exclude", "include")
BARE_CALLS, BARE_LOOPS = 20_000, 11


@dataclass
class NullSession:
    """Hands back what it is given; the outputs are constant, and nobody looks at the verdict."""

    engine: Engine
    loaded: LoadedModel
    logits: np.ndarray

    def place(self, images: np.ndarray) -> Any:
        return images

    def run(self, placed: Any) -> Any:
        return placed

    def synchronize(self) -> None:
        return None

    def fetch(self, output: Any) -> np.ndarray:
        return self.logits[: len(output)]

    def close(self) -> None:
        return None


def null_session(engine: Engine, loaded: LoadedModel) -> NullSession:
    return NullSession(engine, loaded, np.ones((64, laboratory.CLASSES), np.float32))


def measured(scenario: str, transfer: Transfer) -> float:
    """Seconds a batch of a null session, as Benchrack reports them."""
    with tempfile.TemporaryDirectory() as folder:
        bench = laboratory.bench(
            Path(folder),
            laboratory.backend(session=null_session),
            clock=time.perf_counter,
            transfer=transfer,
            time_limit_s=2,
        )
        case = Case(scenario=scenario, model="matrix", backend="numpy-fp32", batch_size=8)
        found: Measurement = run_case(bench, case)
    return statistics.median(found.seconds_per_batch)


def bare(transfer: Transfer) -> float:
    """Seconds a batch of the same calls in a loop that does nothing else."""
    session = null_session(laboratory.ENGINE, laboratory.load("auto", None))
    images = np.ones((8, *laboratory.SHAPE), np.float32)
    batch: Callable[[], object] = {
        "exclude": lambda: session.run(images),
        "include": lambda: session.fetch(session.run(session.place(images))),
    }[transfer]

    def loop() -> float:
        started = time.perf_counter()
        for _ in range(BARE_CALLS):
            batch()
        return (time.perf_counter() - started) / BARE_CALLS

    return statistics.median(loop() for _ in range(BARE_LOOPS))


def main() -> int:
    rows, worst = [], 0.0
    for scenario in ("throughput", "latency"):
        for transfer in TRANSFERS:
            reported_us, bare_us = measured(scenario, transfer) * 1e6, bare(transfer) * 1e6
            worst = max(worst, reported_us - bare_us)
            cells = (reported_us, bare_us, reported_us - bare_us)
            rows.append([scenario, transfer, *(f"{cell:.2f}" for cell in cells)])
    headers = ("scenario", "copies", "reported, µs a batch", "bare loop", "harness")
    print(tabulate.tabulate(rows, headers, tablefmt="github", disable_numparse=True))
    print(f"\nat most {LIMIT_US:g} µs a batch: {'yes' if worst <= LIMIT_US else 'no'}")
    return int(worst > LIMIT_US)


if __name__ == "__main__":
    sys.exit(main())

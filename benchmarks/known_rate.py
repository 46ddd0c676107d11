"""Is a rate that is known by construction reported? On a fake clock, so that nothing else happens.

Fake devices take known times for a batch, asynchronously; run_case measures them as any backend,
from warm-up to verdict. Prints the error of each, and ends with 1 if one is above 0.2 %.

    python benchmarks/known_rate.py
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes import laboratory

from benchrack.execution.running import run_case
from benchrack.vocabulary.cases import Case

LIMIT = 0.002
BATCH_SIZE = 4


@dataclass(frozen=True)
class Known:
    """A device whose batches take `cost(index)` seconds, in the long run `batch_s` on average."""

    name: str
    batch_s: float
    cost: Callable[[int], float]
    scenario: str = "throughput"
    behaviour: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def noisy(median_s: float, deviation: float, seed: int = 1) -> Callable[[int], float]:
    """Log-normal batch times, whose median is known and whose mean is hardly larger."""
    draw = random.Random(seed)
    return lambda index: median_s * draw.lognormvariate(0, deviation)


COPIES = {"copy_in_s": 0.002, "copy_out_s": 0.0005}
TIGHT = {"interval": 0.001, "time_limit_s": 600}
DEVICES = (
    Known("steady, 10 ms", 0.010, lambda index: 0.010),
    Known("steady, 0.3 ms", 0.0003, lambda index: 0.0003),
    Known("longer than a round, 1.7 s", 1.7, lambda index: 1.7),
    Known(
        "first batch 3 s, then faster for 200",
        0.010,
        lambda index: 3.0 if index == 0 else 0.010 * max(1.0, 1.5 - index / 400),
    ),
    Known(
        "8 and 12 ms in turn, five batches a round",
        0.010,
        lambda index: 0.008 + 0.004 * (index % 2),
    ),
    Known("noise of 1 %, to ±0.1 %", 0.010, noisy(0.010, 0.01), settings=TIGHT),
    Known("noise of 3 %, to ±0.1 %", 0.010, noisy(0.010, 0.03), settings=TIGHT),
    Known("copies outside", 0.010, lambda index: 0.010, behaviour=COPIES),
    Known(
        "copies inside",
        0.0125,
        lambda index: 0.010,
        behaviour=COPIES,
        settings={"transfer": "include"},
    ),
    Known("latency, copies inside", 0.0125, lambda index: 0.010, "latency", COPIES),
    Known(
        "latency, copies outside",
        0.010,
        lambda index: 0.010,
        "latency",
        COPIES,
        {"transfer": "exclude"},
    ),
)


def reported(known: Known) -> float:
    """Seconds a batch that Benchrack reports of a device."""
    clock = laboratory.Clock()
    backend = laboratory.backend(clock=clock, cost=known.cost, **known.behaviour)
    with tempfile.TemporaryDirectory() as folder:
        bench = laboratory.bench(Path(folder), backend, clock=clock, **known.settings)
        found = run_case(
            bench,
            Case(
                scenario=known.scenario,
                model="matrix",
                backend="numpy-fp32",
                batch_size=BATCH_SIZE,
            ),
        )
    if known.scenario == "throughput":
        return BATCH_SIZE / float(found.result.images_per_s.value)
    return statistics.median(found.seconds_per_batch)


def main() -> int:
    rows, worst = [], 0.0
    for known in DEVICES:
        error = reported(known) / known.batch_s - 1
        worst = max(worst, abs(error))
        rows.append([known.name, f"{1000 * known.batch_s:g}", f"{error:+.4%}"])
    headers = ("device", "ms a batch", "reported")
    print(tabulate.tabulate(rows, headers, tablefmt="github", disable_numparse=True))
    print(f"\nwithin {LIMIT:.1%}: {'yes' if worst <= LIMIT else 'no'}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

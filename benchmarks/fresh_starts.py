"""How far fresh starts of one case differ, and what six of them say of all.

Measures a real case in fresh worker processes, after one that fills the cache and is not counted.
Prints Markdown: python benchmarks/fresh_starts.py --starts 12

How often the pooled interval of six starts covers the median of all is told twice. Over all choices
of six it follows from counting alone where no two starts are equal (922 of 924 for six of twelve):
it says what independent starts would give, and nothing of this machine. Over six in a row, as a
user measures them, it is less where the machine drifts from start to start.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchrack.cache import Cache
from benchrack.execution.executors import Worker
from benchrack.execution.messages import Setup
from benchrack.machine.devices import resolve
from benchrack.reports.numbers import figure
from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import MINIMUM_FOR_MEDIAN, median_interval, modes
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.settings import Settings

MOST_SUBSETS = 20_000


@dataclass(frozen=True, slots=True)
class Start:
    """One fresh process: its images/s with its own interval, its verdict, its wall time."""

    rate: Interval
    reasons: tuple[str, ...]
    wall_s: float


def measure(worker: Worker, case: Case, count: int) -> Iterator[Start]:
    """The starts of a case one by one, each in a process of its own."""
    worker.run(case)
    for _ in range(count):
        started = time.perf_counter()
        found: Measurement = worker.run(case, fresh=True)
        yield Start(found.result.images_per_s, found.reasons, time.perf_counter() - started)


def covers(interval: Interval, value: float) -> bool:
    return (
        interval.low is not None
        and interval.high is not None
        and interval.low <= value <= interval.high
    )


def pooled_cover(choices: Iterable[Sequence[float]], value: float) -> tuple[int, int]:
    """Choices of starts whose pooled interval covers a value, and all choices."""
    hits = [covers(median_interval(chosen), value) for chosen in choices]
    return sum(hits), len(hits)


def subsets(rates: Sequence[float], seed: int) -> Iterable[Sequence[float]]:
    """All choices of six, or where there are too many, random ones."""
    if math.comb(len(rates), MINIMUM_FOR_MEDIAN) <= MOST_SUBSETS:
        return itertools.combinations(rates, MINIMUM_FOR_MEDIAN)
    rng = random.Random(seed)
    return (rng.sample(rates, MINIMUM_FOR_MEDIAN) for _ in range(MOST_SUBSETS))


def in_a_row(rates: Sequence[float]) -> Iterable[Sequence[float]]:
    ends = range(MINIMUM_FOR_MEDIAN, len(rates) + 1)
    return (rates[end - MINIMUM_FOR_MEDIAN : end] for end in ends)


def half_width(interval: Interval) -> float | None:
    if interval.low is None or interval.high is None:
        return None
    return max(interval.high - interval.value, interval.value - interval.low) / interval.value


def percent(share: float | None) -> str:
    return "–" if share is None else f"±{share:.1%}"


def row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def print_summary(starts: Sequence[Start], seed: int) -> None:
    rates = [start.rate.value for start in starts]
    median = median_interval(rates).value
    own = [width for start in starts if (width := half_width(start.rate)) is not None]
    choices, every = pooled_cover(subsets(rates, seed), median)
    rows, windows = pooled_cover(in_a_row(rates), median)
    print()
    row("of all starts", "")
    row("---", "---")
    row("median, images/s", f"{figure(median)}")
    row("spread of the reported medians, (highest − lowest) ÷ median", f"{spread(rates):.1%}")
    row(
        "own interval of one start, median of all",
        percent(median_interval(own).value if own else None),
    )
    row(
        "modes, images/s",
        ", ".join(f"{count} near {figure(value)}" for value, count in modes(rates)),
    )
    alone = sum(covers(start.rate, median) for start in starts)
    row("own interval of one start covers the median of all", f"{alone} of {len(starts)}")
    row("interval of six covers it: any six", f"{choices} of {every} ({choices / every:.1%})")
    row("interval of six covers it: six in a row", f"{rows} of {windows}")


def spread(rates: Sequence[float]) -> float:
    return (max(rates) - min(rates)) / median_interval(rates).value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--model", default="alexnet")
    parser.add_argument("--backend", default="onnxruntime-int8")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--time-limit", type=float, default=2.0, help="seconds of rounds a start")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.starts < MINIMUM_FOR_MEDIAN:
        parser.error(f"an interval needs at least {MINIMUM_FOR_MEDIAN} starts")
    case = Case(
        scenario="throughput",
        model=options.model,
        backend=options.backend,
        batch_size=options.batch_size,
    )
    settings = Settings.of(seed=options.seed, time_limit_s=options.time_limit)
    device = resolve(options.device)[0]
    cache = str(Cache.default().root)
    worker = Worker(Setup(settings=settings, device=device, cache=cache))
    print(
        f"{case.id}, {options.starts} fresh processes, at most {options.time_limit:g} s of rounds\n"
    )
    row("start", "images/s", "own 95 % interval", "wall s", "verdict")
    row(*["---"] * 5)
    starts = []
    try:
        for number, start in enumerate(measure(worker, case, options.starts), 1):
            starts.append(start)
            verdict = ", ".join(r.partition(":")[0] for r in start.reasons) or "valid"
            width = percent(half_width(start.rate))
            row(str(number), f"{figure(start.rate.value)}", width, f"{start.wall_s:.1f}", verdict)
    finally:
        worker.close()
    print_summary(starts, options.seed)


if __name__ == "__main__":
    main()

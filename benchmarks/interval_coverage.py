"""How often the interval of `statistics.blocks` covers the truth, and how soon the rules decide.

Simulates rounds whose truth is known, runs the stop rule on them, and prints Markdown tables:
python benchmarks/interval_coverage.py --repetitions 500
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchrack.statistics.blocks import Assessment, assess, checkpoints, merge, percentile
from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import (
    median_interval,
    quantile,
    quantile_interval,
    sorted_finite,
)
from benchrack.statistics.trends import steady

HALF_WIDTH = 0.01
WARM_UP_CORRELATION = 0.3
LONG_RUN = 200_000

Process = Callable[[random.Random], Iterator[float]]


def correlated(rng: random.Random, rho: float, cv: float) -> Iterator[float]:
    """Log-normal rounds around 1 whose logarithms are autoregressive of order 1."""
    z = rng.gauss(0, 1)
    while True:
        yield math.exp(cv * z)
        z = rho * z + math.sqrt(1 - rho * rho) * rng.gauss(0, 1)


def stalling(rng: random.Random) -> Iterator[float]:
    """One round in ten, at random, takes half as long again."""
    for noise in correlated(rng, 0, 0.03):
        yield noise * (1.5 if rng.random() < 0.1 else 1)


def every_tenth(rng: random.Random) -> Iterator[float]:
    """Exactly each tenth round takes half as long again."""
    for i, noise in enumerate(correlated(rng, 0, 0.03), rng.randrange(10)):
        yield noise * (1.5 if i % 10 == 0 else 1)


def periodic(rng: random.Random) -> Iterator[float]:
    """A wave of ±3 % with a period of 12 rounds."""
    for i, noise in enumerate(correlated(rng, 0, 0.01), rng.randrange(12)):
        yield noise * (1 + 0.03 * math.sin(math.tau * i / 12))


def two_modes(rng: random.Random, dwell: float) -> Iterator[float]:
    """Two states, 10 % apart, left after `dwell` rounds on average."""
    slow = rng.random() < 0.5
    for noise in correlated(rng, 0, 0.01):
        yield noise * (1.1 if slow else 1)
        slow ^= rng.random() < 1 / dwell


def drifting(rng: random.Random, per_round: float) -> Iterator[float]:
    """Each round takes a little longer than the last: there is no truth to cover."""
    for i, noise in enumerate(correlated(rng, 0, 0.01)):
        yield noise * (1 + per_round * i)


PROCESSES: dict[str, Process] = {
    f"correlation {rho}, CV {cv:.0%}": functools.partial(correlated, rho=rho, cv=cv)
    for cv in (0.01, 0.03)
    for rho in (0.0, 0.3, 0.6, 0.9)
} | {
    "stall in one of ten": stalling,
    "stall each tenth": every_tenth,
    "wave, period 12": periodic,
    "two modes, 5 rounds each": functools.partial(two_modes, dwell=5),
    "two modes, 50 rounds each": functools.partial(two_modes, dwell=50),
}

DRIFTS: dict[str, Process] = {
    "drift 1 % in 1000 rounds": functools.partial(drifting, per_round=1e-5),
    "drift 10 % in 1000 rounds": functools.partial(drifting, per_round=1e-4),
    "drift 100 % in 1000 rounds": functools.partial(drifting, per_round=1e-3),
}


WARM_UPS: dict[str, Callable[[int], float]] = {
    "already steady": lambda i: 1.0,
    "20 % slower, then a step after 8": lambda i: 1.2 if i < 8 else 1.0,
    "20 % slower, straight down over 20": lambda i: 1 + 0.2 * max(0.0, 1 - i / 20),
    "20 % slower, straight down over 50": lambda i: 1 + 0.2 * max(0.0, 1 - i / 50),
    "20 % slower, decaying by e each 5": lambda i: 1 + 0.2 * math.exp(-i / 5),
    "20 % faster, straight up over 20": lambda i: 1 - 0.2 * max(0.0, 1 - i / 20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one run of the stop rule ended, and whether intervals of the same rounds cover that take
    the blocks for independent, or the bare rounds."""

    rounds: int
    stops: bool
    covers: bool
    blocks_cover: bool
    bare_cover: bool


def stop_rule(rounds: Sequence[float]) -> tuple[int, Assessment, bool]:
    """The rounds it looked at last, what they say, and whether it stopped before the limit."""
    for checkpoint in checkpoints():
        seen = min(checkpoint, len(rounds))
        assessment = assess(rounds[:seen])
        half_width = assessment.interval.half_width
        stops = assessment.independent and half_width is not None and half_width <= HALF_WIDTH
        if stops or seen == len(rounds):
            break
    return seen, assessment, stops


def simulate(process: Process, repetitions: int, limit: int, seed: int) -> list[Run]:
    rng = random.Random(seed)
    long_run = list(itertools.islice(process(rng), LONG_RUN))

    @functools.cache
    def truth(block_size: int) -> float:
        return median_interval(merge(long_run, block_size)).value

    runs = []
    for _ in range(repetitions):
        rounds = list(itertools.islice(process(rng), limit))
        seen, assessment, stops = stop_rule(rounds)
        size = assessment.block_size
        runs.append(
            Run(
                rounds=seen,
                stops=stops,
                covers=covers(assessment.interval, truth(size)),
                blocks_cover=covers(median_interval(merge(rounds[:seen], size)), truth(size)),
                bare_cover=covers(median_interval(rounds[:seen]), truth(1)),
            )
        )
    return runs


def windows_until_steady(
    trend: Callable[[int], float], rng: random.Random, cv: float, minimum: int, limit: int = 300
) -> int:
    """The number of windows after which warm-up ends; `limit` where it never does."""
    noise = correlated(rng, WARM_UP_CORRELATION, cv)
    windows: list[float] = []
    while len(windows) < limit and not steady(windows, minimum=minimum):
        windows.append(trend(len(windows)) * next(noise))
    return len(windows)


def rank(values: Sequence[float], q: float) -> float:
    return sorted(values)[round(q * (len(values) - 1))]


def row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def share(hits: Sequence[bool]) -> str:
    return f"{sum(hits) / len(hits):.1%}" if hits else "–"


def print_coverage(repetitions: int, limit: int, seed: int) -> None:
    print(
        f"Stop rule ±{HALF_WIDTH:.0%} or {limit} rounds; {repetitions} runs a row; nominal 95 %\n"
    )
    row(
        "rounds",
        "stops",
        "rounds needed: median, p90",
        "covers",
        "of the stopped",
        "if blocks were independent",
        "if rounds were",
    )
    row(*["---"] * 7)
    for name, process in (PROCESSES | DRIFTS).items():
        runs = simulate(process, repetitions, limit, seed)
        needed = [run.rounds for run in runs]
        coverage = [
            share([run.covers for run in runs]),
            share([run.covers for run in runs if run.stops]),
            share([run.blocks_cover for run in runs]),
            share([run.bare_cover for run in runs]),
        ]
        row(
            name,
            share([run.stops for run in runs]),
            f"{rank(needed, 0.5)}, {rank(needed, 0.9)}",
            *(["–"] * 4 if name in DRIFTS else coverage),
        )


def print_percentiles(repetitions: int, samples: int, seed: int) -> None:
    print(f"\nPercentiles of {samples} single batches; {repetitions} runs a row; nominal 95 %\n")
    row("single batches", "percentile", "has an interval", "covers", "if they were independent")
    row(*["---"] * 5)
    for name, process in PROCESSES.items():
        if "CV 3%" in name:  # the ranks are the same
            continue
        rng = random.Random(seed)
        long_run = sorted_finite(list(itertools.islice(process(rng), LONG_RUN)))
        runs = [list(itertools.islice(process(rng), samples)) for _ in range(repetitions)]
        for q in (0.5, 0.9, 0.99):
            truth = quantile(long_run, q)
            own = [percentile(run, q) for run in runs]
            bare = [quantile_interval(run, q) for run in runs]
            row(
                name,
                f"p{100 * q:g}",
                share([i.low is not None for i in own]),
                share([covers(i, truth) for i in own if i.low is not None]),
                share([covers(i, truth) for i in bare if i is not None]),
            )


def covers(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= truth <= interval.high


def print_warm_up(repetitions: int, seed: int) -> None:
    print(f"\nWarm-up; {repetitions} runs a row\n")
    row("windows", "at least", "noise", "needed: median, p95", "still off by: median, p95")
    row(*["---"] * 5)
    cases = itertools.product((12, 6), WARM_UPS.items(), (0.003, 0.01, 0.03))
    for minimum, (name, trend), cv in cases:
        rng = random.Random(seed)
        needed = [windows_until_steady(trend, rng, cv, minimum) for _ in range(repetitions)]
        off = [abs(trend(n) - 1) for n in needed]
        row(
            name,
            f"{minimum}",
            f"CV {cv:.1%}, correlation {WARM_UP_CORRELATION}",
            f"{rank(needed, 0.5)}, {rank(needed, 0.95)}",
            f"{rank(off, 0.5):.1%}, {rank(off, 0.95):.1%}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500, help="simulated runs a row")
    parser.add_argument("--limit", type=int, default=1000, help="rounds after which a run ends")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.repetitions < 1 or options.limit < 6:
        parser.error("needs at least 1 repetition and a limit of at least 6 rounds")
    print_coverage(options.repetitions, options.limit, options.seed)
    print_percentiles(options.repetitions, options.limit, options.seed)
    print_warm_up(options.repetitions, options.seed)


if __name__ == "__main__":
    main()

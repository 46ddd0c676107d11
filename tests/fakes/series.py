"""Simulated series of round times whose truth is known."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from benchrack.statistics.interval import Interval


def ar1(rng: random.Random, rho: float, cv: float) -> Iterator[float]:
    """Normal rounds around exactly 1, autocorrelated: blocks of any size have the median 1."""
    z = rng.gauss(0, 1)
    while True:
        yield 1 + cv * z
        z = rho * z + math.sqrt(1 - rho * rho) * rng.gauss(0, 1)


def take(n: int, rounds: Iterator[float]) -> list[float]:
    return list(itertools.islice(rounds, n))


def covers(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high

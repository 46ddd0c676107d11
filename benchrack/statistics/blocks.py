"""Samples of one process are correlated: blocks of them, and intervals that do not ignore it.

docs/statistics.md has the reasons, and the coverage that was simulated. Times are in any one unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import (
    MINIMUM_FOR_MEDIAN,
    lower_rank,
    median_interval,
    quantile,
    rank_autocorrelation,
    require_finite,
    sorted_finite,
)

ALTERNATING = -0.5
"""A lag-1 autocorrelation that 20 independent rounds go below in 1.4 % of cases: they alternate,
and the median of an odd number of them is one of two values, neither of which is the rate."""

EQUAL = 1e-9
"""Samples that differ by less, relatively, are equal: rounding has patterns of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What a series of rounds says about its long-run median.

    `interval` is of the median over `blocks` means of `block_size` consecutive rounds. Where
    `independent` is False it is an indication, not a 95 % interval. `autocorrelation` is the rank
    lag-1 autocorrelation that decided so: of these blocks, or of the last that were still too
    correlated; None where there were too few rounds to tell. `coefficient_of_variation` is of the
    bare rounds: their sample standard deviation over their mean.
    """

    interval: Interval
    blocks: int
    block_size: int
    autocorrelation: float | None
    coefficient_of_variation: float | None
    independent: bool


def assess(rounds: Sequence[float], *, minimum_blocks: int = 20, limit: float = 0.2) -> Assessment:
    """Merge rounds into blocks until the blocks are hardly correlated, and take their median.

    Block sizes grow (1, 2, 3, 5, 8, 12, …) until the rank lag-1 autocorrelation of the blocks is
    under `limit`, and they do not alternate, as long as `minimum_blocks` whole blocks remain: the
    method of batch means with its batch size chosen by the lag-1 test (G. S. Fishman, 1978), on
    ranks and with a median.
    The interval is wider than that of independent samples by what correlation is left.
    Where no size passes, the rounds are not independent, and the interval is from the largest
    blocks that leave 6 of them, 6 to 11 (their range, or from nine on all but the two ends), or has
    no ends under 6 rounds.

    Raises ValueError for no rounds, a round that is not finite, minimum_blocks under 6, or a limit
    outside (0, 0.5].
    """
    require_finite(rounds)
    if not rounds:
        raise ValueError("no rounds")
    if minimum_blocks < MINIMUM_FOR_MEDIAN or not 0 < limit <= 0.5:
        raise ValueError(
            f"needs at least {MINIMUM_FOR_MEDIAN} blocks, got minimum_blocks={minimum_blocks}, "
            f"and a limit in (0, 0.5], got {limit}"
        )
    autocorrelation: float | None = None
    for size in _block_sizes(len(rounds), minimum_blocks):
        blocks = merge(rounds, size)
        autocorrelation = rank_autocorrelation(blocks)
        if autocorrelation is not None and ALTERNATING < autocorrelation < limit:
            independent = True
            interval = _widened(sorted_finite(blocks), 0.5, _left(autocorrelation, len(blocks)))
            break
    else:
        independent = False
        size = max(1, len(rounds) // MINIMUM_FOR_MEDIAN)
        blocks = merge(rounds, size)
        interval = median_interval(blocks)
    return Assessment(
        interval=interval,
        blocks=len(blocks),
        block_size=size,
        autocorrelation=autocorrelation,
        coefficient_of_variation=_coefficient_of_variation(rounds),
        independent=independent,
    )


def checkpoints(first: int = 20, growth: float = 1.5) -> Iterator[int]:
    """The numbers of rounds at which the stop rule looks, without end: 20, 30, 45, 68, …

    Each look is another chance to stop by luck, so the looks get rarer. Raises ValueError, when
    the first is taken, for `first` under 1 or `growth` not above 1.
    """
    if first < 1 or growth <= 1:
        raise ValueError(f"looks start at 1 or more and grow, got {first} and {growth}")
    rounds = first
    while True:
        yield rounds
        rounds = math.ceil(rounds * growth)


def merge(samples: Sequence[float], size: int) -> list[float]:
    """Means of each `size` consecutive samples; an incomplete tail is dropped.

    Raises ValueError for a size under 1.
    """
    if size < 1:
        raise ValueError(f"a block holds at least one sample, got {size}")
    whole = len(samples) - len(samples) % size
    return [math.fsum(samples[i : i + size]) / size for i in range(0, whole, size)]


def percentile(
    samples: Sequence[float], q: float, *, minimum_blocks: int = 20, limit: float = 0.2
) -> Interval:
    """The `q`-quantile of samples that may be correlated, with a distribution-free 95 % interval.

    The number of samples under the quantile varies more than that of independent ones would; how
    much more, the numbers in blocks of consecutive samples tell: batch means again. Block sizes
    grow as in `assess`, until these numbers are hardly correlated; the ranks of the ends move
    outwards by the root of the factor. There are no ends where such ranks are not among the
    samples, or under `minimum_blocks` samples.

    Raises ValueError for no samples, a sample that is not finite, or `q` outside (0, 1).
    """
    if not 0 < q < 1:
        raise ValueError(f"q lies between 0 and 1, got {q}")
    ordered = sorted_finite(samples)
    value = quantile(ordered, q)
    under = [sample <= value * (1 + EQUAL) for sample in samples]
    share = sum(under) / len(under)
    factor = math.inf
    for size in _block_sizes(len(samples), minimum_blocks):
        counts = [size * mean for mean in merge(under, size)]
        autocorrelation = rank_autocorrelation(counts) or 0.0
        independent = size * share * (1 - share)
        ratio = _variance(counts) / independent if size > 1 and independent else 1.0
        factor = ratio * _left(autocorrelation, len(counts))
        if autocorrelation < limit:
            break
    return _widened(ordered, q, max(1.0, factor))


def _block_sizes(samples: int, minimum_blocks: int) -> Iterator[int]:
    return itertools.takewhile(lambda size: samples // size >= minimum_blocks, checkpoints(1))


def _left(autocorrelation: float, blocks: int) -> float:
    """How much more the number of blocks under a quantile varies than that of independent ones.

    A lag-1 autocorrelation of ρ makes it about (1 + ρ) / (1 - ρ). What n blocks show of ρ is about
    (1 + 4ρ) / n too small (M. G. Kendall, 1954).
    """
    rho = min(0.8, max(0.0, autocorrelation + (1 + 4 * autocorrelation) / blocks))
    return (1 + rho) / (1 - rho)


def _widened(ordered: Sequence[float], q: float, factor: float) -> Interval:
    """The 95 % interval of a quantile whose number of samples below it has a variance `factor`
    times that of independent samples."""
    n = len(ordered)
    value, centre = quantile(ordered, q), q * (n + 1)
    below, above = lower_rank(n, q, 0.025), lower_rank(n, 1 - q, 0.025)
    if not (below and above) or factor == math.inf:
        return Interval(value=value)
    low = math.floor(centre - (centre - below) * math.sqrt(factor))
    high = math.ceil(centre + (n + 1 - above - centre) * math.sqrt(factor))
    if low < 0 or high > n + 1:
        return Interval(value=value)
    # Ranks are whole: an end that is less than one beyond the samples is at the last of them.
    return Interval(value=value, low=ordered[max(1, low) - 1], high=ordered[min(n, high) - 1])


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _coefficient_of_variation(samples: Sequence[float]) -> float | None:
    mean = math.fsum(samples) / len(samples)
    if len(samples) < 2 or mean == 0:
        return None
    return math.sqrt(_variance(samples)) / abs(mean)

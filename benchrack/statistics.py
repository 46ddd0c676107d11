"""How far timings can be trusted: distribution-free intervals, blocks of correlated rounds, the
stop rule's looks, warm-up, and the modes of fresh starts.

docs/statistics.md has the reasons, and the coverage that was simulated. Times are in any one unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchrack.results import Interval

MINIMUM_FOR_MEDIAN = 6
"""Samples that a two-sided 95 % interval of a median needs: five cover 93.75 %."""

ALTERNATING = -0.5
"""A lag-1 autocorrelation that 20 independent rounds go below in 1.4 % of cases: they alternate,
and the median of an odd number of them is one of two values, neither of which is the rate."""


def quantile_interval(
    samples: Sequence[float], q: float, confidence: float = 0.95
) -> Interval | None:
    """The `q`-quantile of independent samples, with a distribution-free interval.

    The ends are order statistics. They are equal-tailed: each misses the true quantile with a
    probability of at most (1 - confidence) / 2, by the binomial distribution of the number of
    samples below it (W. J. Conover, Practical Nonparametric Statistics, section 3.2). At 95 % that
    needs 6 samples for the median, 36 for the 90th percentile, 368 for the 99th; None under that.
    The value interpolates linearly between order statistics, as numpy.quantile does (type 7 of
    R. J. Hyndman and Y. Fan, 1996).

    Raises ValueError for `q` or `confidence` outside (0, 1), or a sample that is not finite.
    """
    if not 0 < q < 1 or not 0 < confidence < 1:
        raise ValueError(f"q and confidence lie between 0 and 1, got {q} and {confidence}")
    ordered = _ordered(samples)
    tail = (1 - confidence) / 2
    below = _rank(len(ordered), q, tail)
    above = _rank(len(ordered), 1 - q, tail)
    if not (below and above):
        return None
    return Interval(value=_quantile(ordered, q), low=ordered[below - 1], high=ordered[-above])


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median with its distribution-free interval; without ends under 6 samples (at 95 %).

    Raises ValueError for no samples, a sample that is not finite, or a confidence outside (0, 1).
    """
    interval = quantile_interval(samples, 0.5, confidence)
    return interval or Interval(value=_quantile(_ordered(samples), 0.5))


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """A share with E. B. Wilson's score interval (1927).

    Raises ValueError unless 0 <= successes <= n, n > 0 and confidence is between 0 and 1.
    """
    if not 0 <= successes <= n or n == 0 or not 0 < confidence < 1:
        raise ValueError(f"no share of {successes} in {n} at a confidence of {confidence}")
    # The standard library's module takes longer to import than all of this one.
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    # At 0 and n the bound is the share itself, but for rounding.
    return Interval(
        value=share,
        low=min(share, max(0.0, centre - half)),
        high=max(share, min(1.0, centre + half)),
    )


def rank_autocorrelation(samples: Sequence[float]) -> float | None:
    """Lag-1 autocorrelation of the ranks (ties share their mean rank): blind to outliers' size.

    0.0 for a constant series, None under 3 samples.
    """
    if len(samples) < 3:
        return None
    ranks = _ranks(samples)
    variation = _dot(ranks, ranks)
    return _dot(ranks, ranks[1:]) / variation if variation else 0.0


def merge(samples: Sequence[float], size: int) -> list[float]:
    """Means of each `size` consecutive samples; an incomplete tail is dropped.

    Raises ValueError for a size under 1.
    """
    if size < 1:
        raise ValueError(f"a block holds at least one sample, got {size}")
    whole = len(samples) - len(samples) % size
    return [math.fsum(samples[i : i + size]) / size for i in range(0, whole, size)]


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

    @property
    def half_width(self) -> float | None:
        """The distance from the value to the farther end, relative to the value; None without."""
        value, low, high = self.interval.value, self.interval.low, self.interval.high
        if low is None or high is None or value == 0:
            return None
        return max(high - value, value - low) / abs(value)


def assess(rounds: Sequence[float], *, minimum_blocks: int = 20, limit: float = 0.2) -> Assessment:
    """Merge rounds into blocks until the blocks are hardly correlated, and take their median.

    Block sizes grow (1, 2, 3, 5, 8, 12, …) until the rank lag-1 autocorrelation of the blocks is
    under `limit`, and they do not alternate, as long as `minimum_blocks` whole blocks remain: the
    method of batch means with its batch size chosen by the lag-1 test (G. S. Fishman, 1978), on
    ranks and with a median.
    The interval is wider than that of independent samples by what correlation is left.
    Where no size passes, the rounds are not independent, and the interval is from the largest
    blocks that leave 6 of them (their whole range), or has no ends under 6 rounds.

    Raises ValueError for no rounds, a round that is not finite, minimum_blocks under 6, or a limit
    outside (0, 0.5].
    """
    _require_finite(rounds)
    if not rounds:
        raise ValueError("no rounds")
    if minimum_blocks < MINIMUM_FOR_MEDIAN or not 0 < limit <= 0.5:
        raise ValueError(
            f"needs at least {MINIMUM_FOR_MEDIAN} blocks, got minimum_blocks={minimum_blocks}, "
            f"and a limit in (0, 0.5], got {limit}"
        )
    autocorrelation: float | None = None
    sizes = itertools.takewhile(lambda size: len(rounds) // size >= minimum_blocks, checkpoints(1))
    for size in sizes:
        blocks = merge(rounds, size)
        autocorrelation = rank_autocorrelation(blocks)
        if autocorrelation is not None and ALTERNATING < autocorrelation < limit:
            independent = True
            interval = _interval_of_blocks(blocks, autocorrelation)
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


def steady(windows: Sequence[float], *, tolerance: float = 0.02, minimum: int = 12) -> bool:
    """Whether the times of consecutive equal windows of work, oldest first, have become steady.

    Looks at the latest third of the windows, and at `minimum` of them at least, so that what was
    seen while warming up is forgotten, and a longer warm-up is judged on more. They are steady when

    * the medians of their older and newer half differ by at most `tolerance` (relative), and
    * their ranks show no trend: the rank correlation with time is within one standard error,
      1/√(n - 1), of zero (H. E. Daniels, 1950). That is a low bar to call something a trend: to
      wait for a few more windows is cheap, a warm-up inside the measurement is not.

    A trend that moves the medians by less than a tenth of the tolerance is let through. A ramp
    slower than the noise can't be seen this early; `assess` may still see it in the rounds.

    Raises ValueError for a window that is not finite, or a minimum under 4.
    """
    if minimum < 4:
        raise ValueError(f"a trend needs at least 4 windows, got minimum={minimum}")
    if len(windows) < minimum:
        return False
    recent = windows[-max(minimum, len(windows) // 3) :]
    half = len(recent) // 2
    older, newer = (_quantile(_ordered(part), 0.5) for part in (recent[:half], recent[-half:]))
    change = abs(newer - older)
    if change <= tolerance / 10 * abs(older):
        return True
    trend = _rank_correlation_with_time(recent)
    return change <= tolerance * abs(older) and abs(trend) * math.sqrt(len(recent) - 1) <= 1


def drift(samples: Sequence[float]) -> float:
    """How far a series moved, oldest first: the median of its last third over that of its first,
    less 1. 0.0 where that is no trend: a rank correlation with time (H. E. Daniels, 1950) within
    three standard errors, 3/√(n - 1), of zero; so always for fewer than ten samples.

    Raises ValueError for a sample that is not finite.
    """
    if len(samples) < 10:
        return 0.0
    if abs(_rank_correlation_with_time(samples)) * math.sqrt(len(samples) - 1) <= 3:
        return 0.0
    third = len(samples) // 3
    first, last = (_quantile(_ordered(part), 0.5) for part in (samples[:third], samples[-third:]))
    return last / first - 1 if first else 0.0


def modes(values: Sequence[float], gap: float = 0.03) -> list[tuple[float, int]]:
    """Clusters of values, as (median, count), smallest first: the modes of fresh starts.

    A new cluster begins where the next larger value is more than `gap` (relative) away.
    Raises ValueError for a value that is negative or not finite.
    """
    clusters: list[list[float]] = []
    for value in _ordered(values):
        if value < 0:
            raise ValueError(f"gaps are relative to values of at least 0, got {value}")
        if clusters and value <= clusters[-1][-1] * (1 + gap):
            clusters[-1].append(value)
        else:
            clusters.append([value])
    return [(_quantile(cluster, 0.5), len(cluster)) for cluster in clusters]


def _interval_of_blocks(blocks: Sequence[float], autocorrelation: float) -> Interval:
    """The 95 % interval of the median of blocks that are still a little correlated.

    A lag-1 autocorrelation of ρ inflates the variance of the number of blocks under the median
    about (1 + ρ) / (1 - ρ) times, so the ranks of the ends move outwards by the root of it. What n
    blocks show of ρ is about (1 + 4ρ) / n too small (M. G. Kendall, 1954).
    """
    n = len(blocks)
    rho = max(0.0, autocorrelation + (1 + 4 * autocorrelation) / n)
    centre = (n + 1) / 2
    reach = (centre - _rank(n, 0.5, 0.025)) * math.sqrt((1 + rho) / (1 - rho))
    rank = math.floor(centre - reach)
    ordered = _ordered(blocks)
    value = _quantile(ordered, 0.5)
    if rank < 1:
        return Interval(value=value)
    return Interval(value=value, low=ordered[rank - 1], high=ordered[-rank])


def _coefficient_of_variation(samples: Sequence[float]) -> float | None:
    n = len(samples)
    mean = math.fsum(samples) / n
    if n < 2 or mean == 0:
        return None
    return math.sqrt(math.fsum((s - mean) ** 2 for s in samples) / (n - 1)) / abs(mean)


def _require_finite(samples: Sequence[float]) -> None:
    if not all(map(math.isfinite, samples)):
        raise ValueError("a sample is not a finite number")


def _ordered(samples: Sequence[float]) -> list[float]:
    _require_finite(samples)
    return sorted(samples)


def _quantile(ordered: Sequence[float], q: float) -> float:
    if not ordered:
        raise ValueError("no samples")
    position = q * (len(ordered) - 1)
    i = int(position)
    below, above = ordered[i], ordered[min(i + 1, len(ordered) - 1)]
    return below + (position - i) * (above - below)


def _ranks(samples: Sequence[float]) -> list[float]:
    """Ranks less their mean; equal samples share the mean of theirs."""
    _require_finite(samples)
    centre = (len(samples) - 1) / 2
    ranks = [0.0] * len(samples)
    order = sorted(range(len(samples)), key=samples.__getitem__)
    first = 0
    for _, equal in itertools.groupby(order, key=samples.__getitem__):
        tied = list(equal)
        for i in tied:
            ranks[i] = first + (len(tied) - 1) / 2 - centre
        first += len(tied)
    return ranks


def _rank_correlation_with_time(samples: Sequence[float]) -> float:
    """Spearman's correlation of the samples with their order; 0.0 for a constant series."""
    ranks = _ranks(samples)
    times = [i - (len(samples) - 1) / 2 for i in range(len(samples))]
    variation = _dot(ranks, ranks) * _dot(times, times)
    return _dot(ranks, times) / math.sqrt(variation) if variation else 0.0


def _dot(a: Iterable[float], b: Iterable[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=False))


def _rank(n: int, q: float, tail: float) -> int:
    """The largest r with P(B < r) <= tail for B ~ Binomial(n, q); 0 where r = 1 is too large."""
    # What lies more than ten standard deviations under the mean weighs nothing.
    r = max(0, int(n * q - 10 * math.sqrt(n * q * (1 - q))))
    probability = math.exp(
        math.lgamma(n + 1)
        - math.lgamma(r + 1)
        - math.lgamma(n - r + 1)
        + r * math.log(q)
        + (n - r) * math.log1p(-q)
    )
    below = 0.0
    while below + probability <= tail:
        below += probability
        probability *= (n - r) / (r + 1) * q / (1 - q)
        r += 1
    return r

"""Distribution-free statistics of samples: intervals, ranks, and the modes of fresh starts.

docs/statistics.md has the reasons. Times are in any one unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from benchrack.statistics.interval import Interval

MINIMUM_FOR_MEDIAN = 6
"""Samples that a two-sided 95 % interval of a median needs: five cover 93.75 %."""


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
    ordered = sorted_finite(samples)
    tail = (1 - confidence) / 2
    below = lower_rank(len(ordered), q, tail)
    above = lower_rank(len(ordered), 1 - q, tail)
    if not (below and above):
        return None
    return Interval(value=quantile(ordered, q), low=ordered[below - 1], high=ordered[-above])


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median with its distribution-free interval; without ends under 6 samples (at 95 %).

    Raises ValueError for no samples, a sample that is not finite, or a confidence outside (0, 1).
    """
    interval = quantile_interval(samples, 0.5, confidence)
    return interval or Interval(value=quantile(sorted_finite(samples), 0.5))


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


def modes(values: Sequence[float], gap: float = 0.03) -> list[tuple[float, int]]:
    """Clusters of values, as (median, count), smallest first: the modes of fresh starts.

    A new cluster begins where the next larger value is more than `gap` (relative) away.
    Raises ValueError for a value that is negative or not finite.
    """
    clusters: list[list[float]] = []
    for value in sorted_finite(values):
        if value < 0:
            raise ValueError(f"gaps are relative to values of at least 0, got {value}")
        if clusters and value <= clusters[-1][-1] * (1 + gap):
            clusters[-1].append(value)
        else:
            clusters.append([value])
    return [(quantile(cluster, 0.5), len(cluster)) for cluster in clusters]


def quantile(ordered: Sequence[float], q: float) -> float:
    if not ordered:
        raise ValueError("no samples")
    position = q * (len(ordered) - 1)
    i = int(position)
    below, above = ordered[i], ordered[min(i + 1, len(ordered) - 1)]
    return below + (position - i) * (above - below)


def sorted_finite(samples: Sequence[float]) -> list[float]:
    require_finite(samples)
    return sorted(samples)


def require_finite(samples: Sequence[float]) -> None:
    if not all(map(math.isfinite, samples)):
        raise ValueError("a sample is not a finite number")


def rank_autocorrelation(samples: Sequence[float]) -> float | None:
    """Lag-1 autocorrelation of the ranks (ties share their mean rank): blind to outliers' size.

    0.0 for a constant series, None under 3 samples.
    """
    if len(samples) < 3:
        return None
    ranks = centred_ranks(samples)
    variation = _dot(ranks, ranks)
    return _dot(ranks, ranks[1:]) / variation if variation else 0.0


def rank_correlation_with_time(samples: Sequence[float]) -> float:
    """Spearman's correlation of the samples with their order; 0.0 for a constant series."""
    ranks = centred_ranks(samples)
    times = [i - (len(samples) - 1) / 2 for i in range(len(samples))]
    variation = _dot(ranks, ranks) * _dot(times, times)
    return _dot(ranks, times) / math.sqrt(variation) if variation else 0.0


def centred_ranks(samples: Sequence[float]) -> list[float]:
    """Ranks less their mean; equal samples share the mean of theirs."""
    require_finite(samples)
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


def _dot(a: Iterable[float], b: Iterable[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=False))


def lower_rank(n: int, q: float, tail: float) -> int:
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

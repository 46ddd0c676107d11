"""Intervals, ranks and modes: by exact calculation and on simulated series."""

from __future__ import annotations

import math
import random
import sys

import pytest
from fakes.series import ar1, take

from benchrack.statistics.blocks import assess
from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import (
    median_interval,
    modes,
    quantile_interval,
    rank_autocorrelation,
    wilson,
)
from benchrack.statistics.trends import steady


def binomial_cdf(k: int, n: int, q: float) -> float:
    return math.fsum(math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k + 1))


# -- Intervals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("q", "enough"), [(0.5, 6), (0.9, 36), (0.1, 36), (0.95, 72), (0.99, 368)])
def test_smallest_number_of_samples(q, enough):
    """The extreme order statistic is out by more than 2.5 % of the time until max(q, 1-q)^n is."""
    assert max(q, 1 - q) ** enough <= 0.025 < max(q, 1 - q) ** (enough - 1)
    assert quantile_interval(range(enough), q) is not None
    assert quantile_interval(range(enough - 1), q) is None


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [6, 7, 20, 36, 46, 100, 368, 482, 601])
def test_ends_are_the_tightest_equal_tailed_ranks(n, q):
    """Samples 1..n make each end its own rank; the tails come from exact binomial sums."""
    interval = quantile_interval(range(1, n + 1), q)
    if interval is None:
        assert max(q, 1 - q) ** n > 0.025
        return
    low, high = interval.low, interval.high
    assert binomial_cdf(low - 1, n, q) <= 0.025 < binomial_cdf(low, n, q)
    assert 1 - binomial_cdf(high - 1, n, q) <= 0.025 < 1 - binomial_cdf(high - 2, n, q)
    assert low <= interval.value <= high


@pytest.mark.parametrize(
    ("n", "ranks"), [(6, (1, 6)), (10, (2, 9)), (20, (6, 15)), (100, (40, 61))]
)
def test_median_ranks_of_the_printed_tables(n, ranks):
    interval = median_interval(range(n, 0, -1))
    assert (interval.low, interval.high) == ranks


def test_many_samples_do_not_underflow():
    """0.5^10000 is no float; the exact ranks lie where the normal approximation puts them."""
    interval = quantile_interval(range(1, 10_001), 0.5)
    assert (interval.low, interval.high) == (4902, 5099)
    interval = quantile_interval(range(1, 1_000_001), 0.99)
    assert interval.low == pytest.approx(990_000 - 1.96 * 99.5, abs=3)
    assert interval.high == pytest.approx(990_000 + 1.96 * 99.5, abs=3)


def test_a_higher_confidence_needs_more_samples_and_is_wider():
    assert median_interval(range(7), 0.99).low is None
    wide, narrow = median_interval(range(100), 0.99), median_interval(range(100), 0.9)
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("n", [36, 37, 100, 401])
@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
def test_values_are_numpys(n, q):
    numpy = pytest.importorskip("numpy")
    samples = take(n, ar1(random.Random(n), 0, 0.05))
    assert quantile_interval(samples, q).value == pytest.approx(
        numpy.quantile(samples, q), rel=1e-14
    )


def test_the_median_without_an_interval():
    assert median_interval([3.0]) == Interval(value=3.0)
    assert median_interval([1.0, 4.0]) == Interval(value=2.5)
    assert median_interval([5.0, 1.0, 2.0, 4.0, 3.0]) == Interval(value=3.0)
    assert quantile_interval([], 0.5) is None


@pytest.mark.parametrize("q", [0, 1, -0.1, 50, 99, math.nan])
def test_quantiles_are_shares(q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_interval(range(100), q)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_samples_that_are_not_numbers_are_refused(bad):
    samples = [1.0] * 20 + [bad]
    for function in (median_interval, rank_autocorrelation, assess, steady, modes):
        with pytest.raises(ValueError, match="not a finite number"):
            function(samples)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (18, 20, 0.699, 0.9721),
    ],
)
def test_wilson(successes, n, low, high):
    """The first four as printed by R. G. Newcombe (1998), table I, method 3."""
    interval = wilson(successes, n)
    assert interval.value == successes / n
    assert interval.low == pytest.approx(low, abs=6e-5)
    assert interval.high == pytest.approx(high, abs=6e-5)


def test_wilson_at_the_borders():
    """None of n leaves z² / (n + z²) open; the bound at the border is the border itself."""
    z2 = 1.959963984540054**2
    assert wilson(0, 7).low == 0
    assert wilson(0, 7).high == pytest.approx(z2 / (7 + z2))
    assert wilson(7, 7).low == pytest.approx(7 / (7 + z2))
    assert wilson(7, 7).high == 1


def test_wilson_solves_the_score_equation():
    """At its ends the observed share is z standard errors of the supposed share away."""
    z = 2.5758293035489004
    interval = wilson(730, 1000, confidence=0.99)
    for end in (interval.low, interval.high):
        assert abs(0.73 - end) == pytest.approx(z * math.sqrt(end * (1 - end) / 1000), rel=1e-9)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_is_no_share(successes, n):
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, n)


# -- Ranks --------------------------------------------------------------------------------------


def test_rank_autocorrelation_of_small_series():
    assert rank_autocorrelation([1, 2]) is None
    assert rank_autocorrelation([1, 2, 3, 4]) == pytest.approx(0.25)
    assert rank_autocorrelation([4, 3, 2, 1]) == pytest.approx(0.25)
    assert rank_autocorrelation([1, 4, 2, 3]) == pytest.approx((-2.25 - 0.75 - 0.25) / 5)
    assert rank_autocorrelation([7.0] * 50) == 0.0


def test_ties_share_their_mean_rank():
    """1 1 2 2 has the ranks ½ ½ 2½ 2½: (1 - 1 + 1) / 4."""
    assert rank_autocorrelation([1, 1, 2, 2]) == pytest.approx(0.25)


def test_rank_autocorrelation_is_blind_to_the_size_of_an_outlier():
    series = take(50, ar1(random.Random(0), 0.5, 0.01))
    worst = max(series)
    blown_up = [1e9 if s == worst else s for s in series]
    assert rank_autocorrelation(series) == rank_autocorrelation(blown_up)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.9])
def test_rank_autocorrelation_finds_the_correlation(rho):
    """Ranks of normal samples have the correlation 6/π asin(ρ/2)."""
    series = take(20_000, ar1(random.Random(1), rho, 0.01))
    expected = 6 / math.pi * math.asin(rho / 2)
    assert rank_autocorrelation(series) == pytest.approx(expected, abs=0.02)


# -- Modes -------------------------------------------------------------------------------------


def test_modes_of_ten_starts_of_one_case():
    """p50 in ms of ten fresh processes of one model: two modes, 10 % apart."""
    starts = [42.3, 38.4, 38.7, 43.2, 38.9, 42.5, 38.9, 42.8, 39.1, 43.0]
    assert modes(starts) == [(38.9, 5), (42.8, 5)]
    assert modes(starts, gap=0.1) == [(pytest.approx(40.7), 10)]


def test_modes_of_few_and_equal_values():
    assert modes([]) == []
    assert modes([5.0]) == [(5.0, 1)]
    assert modes([5.0, 5.0, 5.0]) == [(5.0, 3)]
    assert modes([0.0, 1.0]) == [(0.0, 1), (1.0, 1)]
    with pytest.raises(ValueError, match="at least 0"):
        modes([-1.0, 1.0])


def test_a_gap_is_between_neighbours_not_to_the_centre():
    """2.5 % steps make one wide cluster."""
    assert modes([1.025**i for i in range(9)]) == [(pytest.approx(1.025**4), 9)]


def test_importing_is_light():
    """Neither numpy nor the standard library's statistics, which is slower than all of this."""
    import subprocess

    code = (
        "import sys, benchrack.statistics.blocks, benchrack.statistics.trends; "
        "print(sorted({'numpy', 'torch', 'statistics', 'fractions'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Intervals, blocks, looks, warm-up and modes: by exact calculation and on simulated series."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterator

import pytest

from benchrack.results import Interval
from benchrack.statistics import (
    Assessment,
    assess,
    checkpoints,
    drift,
    median_interval,
    merge,
    modes,
    quantile_interval,
    rank_autocorrelation,
    steady,
    wilson,
)


def binomial_cdf(k: int, n: int, q: float) -> float:
    return math.fsum(math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k + 1))


def ar1(rng: random.Random, rho: float, cv: float) -> Iterator[float]:
    """Normal rounds around exactly 1, autocorrelated: blocks of any size have the median 1."""
    z = rng.gauss(0, 1)
    while True:
        yield 1 + cv * z
        z = rho * z + math.sqrt(1 - rho * rho) * rng.gauss(0, 1)


def take(n: int, rounds: Iterator[float]) -> list[float]:
    return list(itertools.islice(rounds, n))


def stop(rounds: list[float], half_width: float = 0.01) -> tuple[int, Assessment, bool]:
    """The stop rule as measurement uses it: looks at checkpoints, until narrow or out of rounds."""
    for checkpoint in checkpoints():
        seen = min(checkpoint, len(rounds))
        assessment = assess(rounds[:seen])
        width = assessment.half_width
        if assessment.independent and width is not None and width <= half_width:
            return seen, assessment, True
        if seen == len(rounds):
            return seen, assessment, False
    raise AssertionError


def covers(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


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


# -- Blocks ------------------------------------------------------------------------------------


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


def test_merge():
    assert merge([1, 3, 5, 7, 100], 2) == [2.0, 6.0]
    assert merge([1, 3], 1) == [1.0, 3.0]
    assert merge([1, 3], 3) == []
    with pytest.raises(ValueError, match="at least one sample"):
        merge([1, 3], 0)


def test_a_constant_series_is_as_narrow_as_can_be():
    assessment = assess([0.05] * 20)
    assert assessment.interval == Interval(value=0.05, low=0.05, high=0.05)
    assert assessment.half_width == 0
    assert assessment.independent
    assert (assessment.blocks, assessment.block_size) == (20, 1)
    assert assessment.coefficient_of_variation == 0


def test_independent_rounds_stay_single():
    assessment = assess(take(200, ar1(random.Random(2), 0, 0.03)))
    assert assessment.independent
    assert (assessment.blocks, assessment.block_size) == (200, 1)
    assert assessment.coefficient_of_variation == pytest.approx(0.03, rel=0.15)


def test_correlated_rounds_are_merged_and_give_a_wider_interval():
    rounds = take(1000, ar1(random.Random(3), 0.8, 0.03))
    assessment, bare = assess(rounds), median_interval(rounds)
    assert assessment.independent
    assert assessment.block_size > 3
    assert assessment.blocks == 1000 // assessment.block_size >= 20
    assert rank_autocorrelation(rounds) > 0.2 > assessment.autocorrelation
    assert assessment.interval.high - assessment.interval.low > 1.5 * (bare.high - bare.low)


def test_correlation_that_is_left_moves_the_ends_outwards():
    """20 rounds: ranks 6 and 15 if independent, further out where they show more correlation than
    independent rounds do on average, which is negative: (1 + 4ρ) / n too little."""
    for seed in range(60):
        rounds = take(20, ar1(random.Random(seed), 0, 0.01))
        autocorrelation = rank_autocorrelation(rounds)
        if autocorrelation >= 0.2:
            assert not assess(rounds).independent
            continue
        ranks = (6,) if autocorrelation < -1 / 24 else (5,) if autocorrelation < 0.1 else (4, 5)
        interval, ordered = assess(rounds).interval, sorted(rounds)
        assert (interval.low, interval.high) in [(ordered[r - 1], ordered[-r]) for r in ranks]


def test_too_few_rounds_are_not_called_independent():
    rounds = take(19, ar1(random.Random(4), 0, 0.01))
    assessment = assess(rounds)
    assert not assessment.independent
    assert assessment.autocorrelation is None
    assert (assessment.blocks, assessment.block_size) == (6, 3)
    blocks = merge(rounds, 3)
    assert (assessment.interval.low, assessment.interval.high) == (min(blocks), max(blocks))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_under_six_rounds_there_is_a_median_and_no_interval(n):
    assessment = assess([1.0, 2.0, 3.0, 4.0, 5.0][:n])
    assert assessment.interval == Interval(value=(n + 1) / 2)
    assert assessment.half_width is None
    assert not assessment.independent
    assert assessment.blocks == n
    assert (assessment.coefficient_of_variation is None) == (n == 1)


def test_half_width_is_to_the_farther_end():
    assessment = Assessment(
        interval=Interval(value=100.0, low=99.0, high=103.0),
        blocks=20,
        block_size=1,
        autocorrelation=0.0,
        coefficient_of_variation=0.01,
        independent=True,
    )
    assert assessment.half_width == pytest.approx(0.03)


def test_assess_refuses_what_gives_no_interval():
    with pytest.raises(ValueError, match="no rounds"):
        assess([])
    with pytest.raises(ValueError, match="at least 6 blocks"):
        assess([1.0] * 20, minimum_blocks=5)
    with pytest.raises(ValueError, match="limit"):
        assess([1.0] * 20, limit=1.0)


# -- The stop rule on simulated series ---------------------------------------------------------


def test_checkpoints_grow():
    assert take(6, checkpoints()) == [20, 30, 45, 68, 102, 153]
    assert take(7, checkpoints(1)) == [1, 2, 3, 5, 8, 12, 18]
    assert take(4, checkpoints(3, 1.01)) == [3, 4, 5, 6]
    for first, growth in ((0, 1.5), (20, 1.0)):
        with pytest.raises(ValueError, match="grow"):
            next(checkpoints(first, growth))


@pytest.mark.parametrize(
    ("rho", "bare_at_most"), [(0.0, 1.0), (0.3, 0.95), (0.6, 0.85), (0.9, 0.6)]
)
def test_coverage_at_the_stop(rho, bare_at_most):
    """Nominal 95 %: the blocks keep close to it, the bare rounds fall behind as ρ grows."""
    rng = random.Random(5)
    hits = bare_hits = 0
    runs = 300
    for _ in range(runs):
        rounds = take(800, ar1(rng, rho, 0.02))
        seen, assessment, _ = stop(rounds)
        hits += covers(assessment.interval, 1)
        bare_hits += covers(median_interval(rounds[:seen]), 1)
    assert 0.9 <= hits / runs <= 0.99
    assert bare_hits / runs <= bare_at_most


def test_quiet_independent_rounds_stop_at_the_first_looks():
    rng = random.Random(6)
    stops = [stop(take(500, ar1(rng, 0, 0.01))) for _ in range(50)]
    assert all(stopped for *_, stopped in stops)
    assert sorted(seen for seen, *_ in stops)[25] <= 30


def test_a_drift_is_not_independent_and_does_not_stop():
    noise = ar1(random.Random(7), 0, 0.003)
    rounds = [x * (1 + 0.002 * i) for i, x in enumerate(take(300, noise))]
    seen, assessment, stopped = stop(rounds)
    assert not stopped
    assert seen == 300
    assert not assessment.independent
    assert assessment.autocorrelation > 0.2
    assert assessment.half_width > 0.1


def test_one_stall_in_ten_hardly_moves_the_interval():
    rng = random.Random(8)
    rounds = [x * (1.5 if rng.random() < 0.1 else 1) for x in take(1000, ar1(rng, 0, 0.02))]
    _, assessment, stopped = stop(rounds)
    assert stopped
    assert assessment.interval.value == pytest.approx(1, abs=0.015)
    assert assessment.coefficient_of_variation > 0.1


def test_a_wave_is_merged_away():
    """Blocks of whole periods are alike, whatever single rounds do."""
    noise = ar1(random.Random(9), 0, 0.002)
    wave = (1 + 0.03 * math.sin(math.tau * i / 40) for i in itertools.count())
    rounds = [x * w for x, w in zip(take(1500, noise), wave, strict=False)]
    assessment = assess(rounds)
    assert assessment.independent
    assert assessment.block_size > 10
    assert covers(assessment.interval, 1)


def test_a_change_of_mode_is_seen_once_it_has_happened():
    """Fifteen rounds in one mode, fifteen in the other, which is 10 % slower, and so on."""
    noise = take(200, ar1(random.Random(10), 0, 0.005))
    rounds = [x * (1.1 if i // 15 % 2 else 1) for i, x in enumerate(noise)]
    seen, assessment, stopped = stop(rounds)
    assert not stopped
    assert seen == 200
    assert assessment.half_width > 0.01


def test_what_has_not_happened_yet_is_not_seen():
    """The limit of any rule on one run, and the reason for fresh starts."""
    noise = take(200, ar1(random.Random(10), 0, 0.005))
    seen, assessment, stopped = stop([x * (1.1 if i >= 50 else 1) for i, x in enumerate(noise)])
    assert stopped
    assert seen <= 45
    assert not covers(assessment.interval, 1.1)


# -- Warm-up -----------------------------------------------------------------------------------


def windows_needed(trend, cv: float, seed: int, limit: int = 400) -> int:
    noise = ar1(random.Random(seed), 0.3, cv)
    windows: list[float] = []
    while len(windows) < limit and not steady(windows):
        windows.append(trend(len(windows)) * next(noise))
    return len(windows)


def high(values: list[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


@pytest.mark.parametrize("cv", [0.0, 0.003, 0.01, 0.03])
def test_what_is_steady_is_soon_found_so(cv):
    needed = [windows_needed(lambda i: 1.0, cv, seed) for seed in range(100)]
    assert min(needed) == 12
    assert high(needed) <= 20


@pytest.mark.parametrize("cv", [0.0, 0.003, 0.01])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("length", [10, 20, 30])
def test_a_ramp_of_20_percent_is_waited_for(cv, sign, length):
    """Slower or faster at first, straight to the steady state: hardly anything of it is left."""

    def ramp(i: int) -> float:
        return 1 + sign * 0.2 * max(0.0, 1 - i / length)

    needed = [windows_needed(ramp, cv, seed) for seed in range(40)]
    assert high([abs(ramp(n) - 1) for n in needed]) <= 0.01
    assert high(needed) <= 2 * length + 20


def test_a_decay_is_waited_for():
    needed = [windows_needed(lambda i: 1 + 0.2 * math.exp(-i / 8), 0.01, s) for s in range(40)]
    assert high([0.2 * math.exp(-n / 8) for n in needed]) <= 0.02


def test_a_stall_in_ten_does_not_hold_it_up():
    rng = random.Random(11)
    for _ in range(50):
        windows = [x * (3 if rng.random() < 0.1 else 1) for x in take(40, ar1(rng, 0, 0.01))]
        assert any(steady(windows[:n]) for n in range(12, 41))


def test_a_jump_is_forgotten_only_when_it_is_old():
    windows = [1.2] * 30 + [1.0] * 4
    assert not steady([1.2] * 6 + [1.0] * 6)
    assert not steady([*windows, 1.0, 1.0])
    assert steady(windows + [1.0] * 30)


def test_halves_that_differ_without_a_trend_are_not_steady():
    """Each half holds both of two modes, the older mostly the slow one."""
    older, newer = [1.0, 1.0, 1.1, 1.1, 1.1, 1.1], [1.0, 1.0, 1.0, 1.0, 1.1, 1.1]
    assert not steady(older + newer)
    assert steady(older + newer, tolerance=0.2)


def test_a_longer_warm_up_is_judged_on_more_windows():
    """A slow ramp that hides in the noise of 12 windows shows in 30."""
    noise = ar1(random.Random(3), 0, 0.01)
    windows = [x * (1.1 - 0.0008 * i) for i, x in enumerate(take(90, noise))]
    assert steady(windows[-12:])
    assert not steady(windows)


def test_a_trend_too_small_to_matter_is_let_through():
    assert steady([1 + 1e-5 * i for i in range(12)])
    assert not steady([1 + 1e-3 * i for i in range(12)])


def test_steady_needs_windows():
    assert not steady([])
    assert not steady([1.0] * 11)
    assert steady([1.0] * 12)
    assert steady([1.0] * 5, minimum=5)
    with pytest.raises(ValueError, match="at least 4 windows"):
        steady([1.0] * 12, minimum=3)


def test_rounds_that_alternate_are_merged():
    """Two kinds of batches in turn, an odd number a round: no round has the rate of the whole."""
    for rounds in (45, 68):
        found = assess([9.6, 10.4] * (rounds // 2) + [9.6] * (rounds % 2))
        assert found.block_size == 2
        assert found.interval.value == pytest.approx(10)
        assert found.half_width == pytest.approx(0)


# -- Drift -------------------------------------------------------------------------------------


def test_a_drift_is_how_far_the_last_third_is_from_the_first():
    assert drift([1.0] * 10 + [2.0] * 10 + [3.0] * 10) == pytest.approx(2)
    assert drift([3.0] * 10 + [2.0] * 10 + [1.0] * 10) == pytest.approx(-2 / 3)
    assert drift([1 + 0.01 * i for i in range(30)]) == pytest.approx(1.245 / 1.045 - 1)


def test_no_drift_without_a_trend():
    assert drift([1.0] * 30) == 0
    assert drift([1.0, 2.0] * 15) == 0
    assert drift([0.0] * 30) == 0
    assert drift(range(9)) == 0
    with pytest.raises(ValueError, match="not a finite"):
        drift([math.nan] * 30)


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_noise_is_seldom_taken_for_a_drift(n):
    """Beyond three standard errors: 0.3 % of the runs."""
    rng = random.Random(n)
    found = [drift([rng.gauss(1, 0.05) for _ in range(n)]) for _ in range(400)]
    assert sum(value != 0 for value in found) <= 5


def test_a_drift_is_found_in_noise_as_large():
    rng = random.Random(1)
    found = [drift([rng.gauss(1 + 0.001 * i, 0.05) for i in range(100)]) for _ in range(100)]
    assert sum(value > 0.05 for value in found) >= 65
    assert sum(value > 0.02 for value in found) >= 95


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
        "import sys, benchrack.statistics; "
        "print(sorted({'numpy', 'torch', 'statistics', 'fractions'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

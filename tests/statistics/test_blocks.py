"""Blocks of correlated rounds, the looks of the stop rule, percentiles of correlated samples."""

from __future__ import annotations

import itertools
import math
import random
from statistics import NormalDist

import pytest
from fakes.series import ar1, covers, take

from benchrack.statistics.blocks import Assessment, assess, checkpoints, merge, percentile
from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import (
    median_interval,
    quantile_interval,
    rank_autocorrelation,
)


def stop(rounds: list[float], half_width: float = 0.01) -> tuple[int, Assessment, bool]:
    """The stop rule as measurement uses it: looks at checkpoints, until narrow or out of rounds."""
    for checkpoint in checkpoints():
        seen = min(checkpoint, len(rounds))
        assessment = assess(rounds[:seen])
        width = assessment.interval.half_width
        if assessment.independent and width is not None and width <= half_width:
            return seen, assessment, True
        if seen == len(rounds):
            return seen, assessment, False
    raise AssertionError


def test_merge():
    assert merge([1, 3, 5, 7, 100], 2) == [2.0, 6.0]
    assert merge([1, 3], 1) == [1.0, 3.0]
    assert merge([1, 3], 3) == []
    with pytest.raises(ValueError, match="at least one sample"):
        merge([1, 3], 0)


def test_a_constant_series_is_as_narrow_as_can_be():
    assessment = assess([0.05] * 20)
    assert assessment.interval == Interval(value=0.05, low=0.05, high=0.05)
    assert assessment.interval.half_width == 0
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
    assert assessment.interval.half_width is None
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
    assert assessment.interval.half_width == pytest.approx(0.03)


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
    assert assessment.interval.half_width > 0.1


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
    assert assessment.interval.half_width > 0.01


def test_what_has_not_happened_yet_is_not_seen():
    """The limit of any rule on one run, and the reason for fresh starts."""
    noise = take(200, ar1(random.Random(10), 0, 0.005))
    seen, assessment, stopped = stop([x * (1.1 if i >= 50 else 1) for i, x in enumerate(noise)])
    assert stopped
    assert seen <= 45
    assert not covers(assessment.interval, 1.1)


def test_rounds_that_alternate_are_merged():
    """Two kinds of batches in turn, an odd number a round: no round has the rate of the whole."""
    for rounds in (45, 68):
        found = assess([9.6, 10.4] * (rounds // 2) + [9.6] * (rounds % 2))
        assert found.block_size == 2
        assert found.interval.value == pytest.approx(10)
        assert found.interval.half_width == pytest.approx(0)


# -- Percentiles of correlated samples -----------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "rho", "bare_at_most"),
    [
        (0.5, 0.0, 1.0),
        (0.5, 0.3, 0.95),
        (0.5, 0.6, 0.85),
        (0.5, 0.9, 0.6),
        (0.9, 0.0, 1.0),
        (0.9, 0.6, 0.9),
        (0.99, 0.0, 1.0),
        (0.99, 0.6, 0.97),
    ],
)
def test_percentiles_are_covered_however_correlated(q, rho, bare_at_most):
    """Nominal 95 %, of a thousand normal samples: those for independent ones fall behind."""
    rng, truth, runs = random.Random(7), 1 + 0.02 * NormalDist().inv_cdf(q), 100
    found = [take(1000, ar1(rng, rho, 0.02)) for _ in range(runs)]
    hits = [covers(i, truth) for x in found if (i := percentile(x, q)).low is not None]
    assert len(hits) >= 0.9 * runs
    assert sum(hits) / len(hits) >= 0.9
    assert sum(covers(quantile_interval(x, q), truth) for x in found) / runs <= bare_at_most


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_independent_samples_have_hardly_wider_intervals(q):
    rng = random.Random(8)
    widths = []
    for _ in range(50):
        samples = take(1000, ar1(rng, 0, 0.02))
        own, bare = percentile(samples, q), quantile_interval(samples, q)
        assert own.value == bare.value
        assert own.low <= bare.low
        assert own.high >= bare.high
        widths.append((own.high - own.low) / (bare.high - bare.low))
    assert sorted(widths)[25] < 1.1


def test_a_percentile_beyond_the_samples_has_no_ends():
    """All that is slow was in one stretch: how often such a one comes, nobody knows."""
    noise = take(1000, ar1(random.Random(9), 0, 0.001))
    samples = [x * (1.1 if 500 <= i < 520 else 1) for i, x in enumerate(noise)]
    assert quantile_interval(samples, 0.99).high is not None
    assert percentile(samples, 0.99) == Interval(value=quantile_interval(samples, 0.99).value)
    assert percentile(samples, 0.5).high is not None


def test_percentiles_of_few_and_of_equal_samples():
    assert percentile([1.0, 2.0, 3.0], 0.5) == Interval(value=2.0)
    assert percentile([float(i) for i in range(19)], 0.5) == Interval(value=9.0)
    assert percentile([0.05] * 20, 0.5) == Interval(value=0.05, low=0.05, high=0.05)
    rounded = [0.05 * (1 + 1e-15 * (i // 100 % 2)) for i in range(500)]
    assert percentile(rounded, 0.5).high == pytest.approx(0.05)
    for samples, q, message in (([], 0.5, "no samples"), ([1.0], 1.0, "between 0 and 1")):
        with pytest.raises(ValueError, match=message):
            percentile(samples, q)


def test_a_drift_has_no_interval_or_a_wide_one():
    samples = [1 + 0.001 * i for i in range(100)]
    found = percentile(samples, 0.5)
    assert found.value == pytest.approx(1.0495)
    assert found.low is None or found.high - found.low > 0.05

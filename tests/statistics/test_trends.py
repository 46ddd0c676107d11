"""When a series is called steady, and when it is called drifting."""

from __future__ import annotations

import math
import random

import pytest
from fakes.series import ar1, take

from benchrack.statistics.trends import drift, steady

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

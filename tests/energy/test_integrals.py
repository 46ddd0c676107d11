"""Integrals, window edges, counter wraps and uncertainties against values known by hand."""

from __future__ import annotations

import random

import pytest
from fakes.power import TRACES, PowerTrace, recorded

from benchrack.energy.integrals import (
    UNSEEN_RIPPLE,
    Tick,
    counter_uncertainty,
    energy_at,
    images_per_j,
    pulses_uncertainty,
    sampled_uncertainty,
    trapezoid,
    value_at,
    wrapped_difference,
)


def test_value_at_interpolates_and_holds_the_ends():
    times, values = [1.0, 3.0], [10.0, 20.0]
    assert [value_at(times, values, t) for t in (0.0, 1.0, 2.5, 3.0, 9.0)] == [10, 10, 17.5, 20, 20]


def test_value_at_without_samples():
    with pytest.raises(ValueError, match="nothing was sampled"):
        value_at([], [], 0.0)


def test_trapezoid_is_exact_for_linear_power():
    assert trapezoid([0, 1, 2, 3], [0, 10, 20, 30], 0, 3) == pytest.approx(45)


def test_trapezoid_interpolates_the_edges():
    """0 W at 0 s to 100 W at 10 s: from 2.5 to 7.5 s it is 50 W on average."""
    assert trapezoid([0, 10], [0, 100], 2.5, 7.5) == pytest.approx(250)


def test_trapezoid_holds_the_nearest_sample_outside():
    assert trapezoid([2.0, 3.0], [50, 70], 0.0, 5.0) == pytest.approx(100 + 60 + 140)


def test_trapezoid_of_one_sample_is_a_rectangle():
    assert trapezoid([1.0], [42.0], 0.0, 2.0) == pytest.approx(84)


def test_trapezoid_follows_a_recorded_trace():
    """Sampled every 20 ms, at a phase of its own, a recorded ramp integrates to within 0.1 %."""
    trace = recorded(TRACES / "tesla-v100-sxm2-16gb.csv")
    times = [0.5 + 0.02 * k for k in range(200)]
    sampled = trapezoid(times, [trace.power(t) for t in times], 0.5, 4.4)
    assert sampled == pytest.approx(trace.energy(0.5, 4.4), rel=1e-3)


def test_uncertainty_of_constant_power_is_the_unseen_ripple():
    times = [0.05 * k for k in range(41)]
    assert sampled_uncertainty(times, [100.0] * 41, 0, 2, lag_s=0.1) == pytest.approx(
        UNSEEN_RIPPLE * 200
    )


def test_uncertainty_of_slow_drift_is_what_the_sensor_is_late():
    """10 W a second for ten seconds; 0.1 s late is 10 J, and the small steps add little."""
    times = [0.05 * k for k in range(201)]
    powers = [100 + 10 * t for t in times]
    stated = sampled_uncertainty(times, powers, 0, 10, lag_s=0.1) - UNSEEN_RIPPLE * 1500
    assert 10 <= stated < 12


def test_uncertainty_falls_with_the_number_of_samples():
    rng = random.Random(0)
    times = [0.05 * k for k in range(2001)]
    powers = [rng.gauss(100, 5) for _ in times]
    short, long = (sampled_uncertainty(times, powers, 0, s, lag_s=0.05) / s for s in (4, 100))
    # A standard error falls with the root of 25 times as many samples.
    floor = UNSEEN_RIPPLE * 100
    assert (long - floor) / (short - floor) == pytest.approx(1 / 5, rel=0.25)


def test_uncertainty_covers_white_noise():
    """Of windows over noise, sampled at 20 Hz, the truth lies within what is stated."""
    rng = random.Random(1)
    for _ in range(50):
        trace = PowerTrace([(k / 100, rng.gauss(200, 10)) for k in range(1000)])
        times = [2 + 0.05 * k for k in range(81)]
        powers = [trace.power(t) for t in times]
        error = abs(trapezoid(times, powers, 2, 6) - trace.energy(2, 6))
        assert error <= sampled_uncertainty(times, powers, 2, 6, lag_s=0.0)


def test_uncertainty_of_a_gap_is_larger():
    times = [0.1 * k for k in range(101)]
    powers = [100.0 if k % 2 else 120.0 for k in range(101)]
    kept = [i for i in range(101) if not 30 < i < 70]
    whole = sampled_uncertainty(times, powers, 0, 10, lag_s=0.1)
    gap = sampled_uncertainty([times[i] for i in kept], [powers[i] for i in kept], 0, 10, lag_s=0.1)
    assert gap > whole + 3 * 20


@pytest.mark.parametrize("samples", [[], [(0.5, 80.0)], [(0.2, 60.0), (0.8, 80.0)]])
def test_with_hardly_a_sample_nothing_is_known(samples):
    times, powers = [t for t, _ in samples], [p for _, p in samples]
    assert sampled_uncertainty(times, powers, 0, 1, lag_s=0.1) == max(powers, default=0.0)


def in_step(busy, limit_w=250.0, power_w=(200.0,) * 100):
    return pulses_uncertainty(power_w, 10.0, busy_share=busy, limit_w=limit_w)


def test_a_load_that_does_not_pause_has_no_pulses_to_miss():
    assert in_step(1.0) == in_step(0.99) == 0.0
    assert pulses_uncertainty([], 10.0, busy_share=0.5, limit_w=250.0) == 0.0


def test_a_sensor_in_step_may_show_only_the_busy_part():
    """200 W seen for 10 s; the pauses, 40 % of the time, may draw nothing: 800 J less."""
    assert in_step(0.6) == pytest.approx(800)
    assert pulses_uncertainty([200.0] * 9, 10, busy_share=0.6, limit_w=200) == pytest.approx(800)


def test_what_the_pauses_draw_is_no_less_than_rest():
    found = pulses_uncertainty([200.0] * 9, 10, busy_share=0.6, limit_w=200, rest_w=50)
    assert found == pytest.approx(0.4 * 150 * 10)


def test_a_sensor_in_step_with_short_pauses_shows_the_work():
    """5 % of the time is pauses: 150 W above rest may be missing in them, and nothing else."""
    found = pulses_uncertainty([200.0] * 9, 10, busy_share=0.95, limit_w=400, rest_w=50)
    assert found == pytest.approx(0.05 * 150 * 10)


def test_a_sensor_in_step_may_show_only_the_pauses():
    """50 W seen for 10 s; 80 % of the time it may be the 250 W of the limit: 1600 J more."""
    assert in_step(0.8, power_w=(50.0,) * 100) == pytest.approx(1600)


def test_each_passage_through_the_pulses_narrows_what_is_in_doubt():
    """Four falls and three rises between 200 and 100 W: three and a half passages."""
    wandering = ([200.0] * 10 + [100.0] * 10) * 4
    doubt_j = max(0.4 * 150, 0.6 * 100) * 10
    assert in_step(0.6, power_w=wandering) == pytest.approx(doubt_j / 4.5)
    noise = [200.0, 205.0] * 40  # crosses its own middle, and shows no pulse
    assert in_step(0.6, power_w=noise) == pytest.approx(0.4 * 202.5 * 10)


def test_counter_is_read_on_from_its_tick():
    tick = Tick(10.0, 5000.0)
    assert energy_at(tick, 10.25, 200.0) == pytest.approx(5050)
    assert energy_at(tick, 9.75, 200.0) == pytest.approx(4950)


def test_counter_uncertainty_is_dating_and_the_ends():
    first, last = Tick(0.0, 0.0, error_s=0.002), Tick(9.95, 2000.0, error_s=0.003)
    stated = counter_uncertainty(first, last, 0.01, 10.0, power_w=210, spread_w=20)
    assert stated == pytest.approx(0.005 * 210 + (0.01 + 0.05) * 20)


def test_counter_wrap():
    assert wrapped_difference(100, 250, 1000) == 150
    assert wrapped_difference(900, 50, 1000) == 150
    assert wrapped_difference(70, 70, 1000) == 0


def test_images_per_joule_by_both_definitions():
    assert images_per_j(1000.0, 200.0) == pytest.approx(5)
    assert images_per_j(1000.0, 200.0, idle_w=50.0) == pytest.approx(1000 / 150)


@pytest.mark.parametrize(
    ("images_per_s", "power_w", "idle_w"),
    [(None, 200.0, 0.0), (1000.0, None, 0.0), (1000.0, 50.0, 50.0), (1000.0, 0.0, 0.0)],
)
def test_images_per_joule_of_nothing_measured(images_per_s, power_w, idle_w):
    assert images_per_j(images_per_s, power_w, idle_w) is None

"""Timing on a clock of our own: what is timed, when it stops, what it reports."""

import gc
import itertools
import random

import pytest
from fakes.settings import make_measuring

from benchrack.timing.rounds import measure_rounds, measure_singly, warm_up


class Machine:
    """A device on a clock of its own: batches take what `seconds(index)` says, and run
    asynchronously, so that time passes only when somebody waits for them."""

    def __init__(self, seconds):
        self.now, self.due, self.steps = 0.0, 0.0, []
        self._seconds = seconds

    def clock(self):
        return self.now

    def step(self, index):
        self.due = max(self.due, self.now) + self._seconds(len(self.steps))
        self.steps.append(index)

    def synchronize(self):
        self.now = max(self.now, self.due)


def steady(index):
    return 0.010


def noisy(deviation, seed=1, median=0.010):
    draw = random.Random(seed)
    return lambda index: median * draw.lognormvariate(0, deviation)


def rounds_of(machine, **settings):
    settings = make_measuring(**settings)
    return measure_rounds(machine.step, machine.synchronize, settings, machine.clock, 0.010)


def test_a_rate_known_by_construction_is_reported():
    machine = Machine(noisy(0.01))
    found = rounds_of(machine, round_s=0.05, interval=0.01, time_limit_s=60)
    assert found.assessment.interval.value == pytest.approx(0.010, rel=0.002)
    assert found.stop_reason == "interval"


def test_a_round_holds_enough_batches():
    found = rounds_of(Machine(steady), round_s=0.055, time_limit_s=1)
    assert found.batches_per_round == 6


def test_a_batch_longer_than_a_round_is_a_round():
    machine = Machine(lambda index: 0.2)
    found = measure_rounds(
        machine.step, machine.synchronize, make_measuring(time_limit_s=1), machine.clock, 0.2
    )
    assert found.batches_per_round == 1
    assert found.seconds_per_batch == pytest.approx([0.2] * 5)


def test_it_stops_at_the_first_look_when_nothing_varies():
    exact = Machine(lambda index: 2**-7)  # without rounding, so that all rounds are equal
    assert len(rounds_of(exact).seconds_per_batch) == 20


def test_it_stops_at_the_time_limit_when_the_interval_is_not_reached():
    found = rounds_of(Machine(noisy(0.5)), interval=0.001, time_limit_s=5)
    assert found.stop_reason == "time-limit"
    assert sum(found.seconds_per_batch) * found.batches_per_round == pytest.approx(5, rel=0.05)


def test_three_rounds_are_taken_whatever_the_limit():
    assert len(rounds_of(Machine(steady), time_limit_s=0).seconds_per_batch) == 3


def test_inputs_go_on_rotating_across_rounds():
    machine = Machine(steady)
    rounds_of(machine, time_limit_s=0)
    assert machine.steps == list(range(15))


def test_work_is_synchronised_before_the_clock_is_read():
    """Without waiting, these asynchronous batches would take no time at all."""
    found = rounds_of(Machine(steady), time_limit_s=0)
    assert found.seconds_per_batch == pytest.approx([0.010] * 3)


def test_garbage_collection_is_held_off_while_timing_and_put_back():
    seen = []
    machine = Machine(lambda index: seen.append(gc.isenabled()) or 0.01)
    rounds_of(machine, time_limit_s=0)
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_garbage_collection_is_put_back_when_a_batch_raises():
    def broken(index):
        raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError):
        measure_singly(broken, lambda: None, make_measuring(), lambda: 0.0)
    assert gc.isenabled()


def test_warm_up_ends_when_windows_are_steady():
    machine = Machine(steady)
    found = warm_up(machine.step, machine.synchronize, make_measuring(), machine.clock)
    assert found.steady
    assert found.seconds < 1
    assert found.batch_s == pytest.approx(0.010)


def test_warm_up_times_the_first_batch_apart():
    machine = Machine(lambda index: 2.0 if index == 0 else 0.010)
    found = warm_up(machine.step, machine.synchronize, make_measuring(), machine.clock)
    assert found.first_batch_s == pytest.approx(2.0)
    assert found.steady


def test_a_window_that_was_held_up_does_not_shorten_the_rounds():
    """Half a second for a batch of the last window is not what a batch takes."""
    machine = Machine(lambda index: 0.5 if index == 48 else 0.010)
    found = warm_up(
        machine.step, machine.synchronize, make_measuring(warmup_limit_s=0.5), machine.clock
    )
    assert found.seconds == pytest.approx(1.01)
    assert found.batch_s == pytest.approx(0.010)


def test_warm_up_sees_a_window_though_the_first_batch_took_all_its_time():
    machine = Machine(lambda index: 5.0 if index == 0 else 0.010)
    found = warm_up(
        machine.step, machine.synchronize, make_measuring(warmup_limit_s=3), machine.clock
    )
    assert (found.first_batch_s, found.windows) == (pytest.approx(5.0), 1)
    assert found.batch_s == pytest.approx(0.010)
    assert not found.steady


def test_warm_up_tells_how_many_windows_it_needed():
    """Of batches that take two seconds six are enough, and four fit in."""
    machine = Machine(lambda index: 2.0)
    found = warm_up(machine.step, machine.synchronize, make_measuring(), machine.clock)
    assert (found.windows, found.windows_needed, found.steady) == (4, 6, False)
    longer = make_measuring(warmup_limit_s=13.5)
    found = warm_up(machine.step, machine.synchronize, longer, machine.clock)
    assert (found.windows, found.windows_needed, found.steady) == (6, 6, True)


def test_warm_up_that_never_settles_ends_at_its_limit_and_says_so():
    growing = itertools.count(1)
    machine = Machine(lambda index: 0.010 * 1.02 ** next(growing))
    found = warm_up(
        machine.step, machine.synchronize, make_measuring(warmup_limit_s=3), machine.clock
    )
    assert not found.steady
    assert found.seconds >= 3


def test_warm_up_follows_a_slow_start():
    """A card whose clock ramps up over half a second is warm only after that."""
    machine = Machine(lambda index: max(0.010, 0.030 - 0.0005 * index))
    found = warm_up(machine.step, machine.synchronize, make_measuring(), machine.clock)
    assert found.steady
    assert found.batch_s == pytest.approx(0.010, rel=0.05)


def test_single_batches_are_counted_and_each_is_synchronised():
    machine = Machine(steady)
    samples = measure_singly(
        machine.step, machine.synchronize, make_measuring(latency_samples=50), machine.clock
    )
    assert samples == pytest.approx([0.010] * 50)


def test_single_batches_end_at_the_time_limit_with_at_least_one():
    machine = Machine(lambda index: 4.0)
    samples = measure_singly(
        machine.step, machine.synchronize, make_measuring(time_limit_s=1), machine.clock
    )
    assert samples == pytest.approx([4.0])

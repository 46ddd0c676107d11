"""Measuring in step with others: the same code as alone, on clocks of our own."""

import dataclasses
import threading

import pytest
from fakes import laboratory as lab, measurements as made
from fakes.seats import together
from fakes.settings import make_measuring

from benchrack.errors import UnsupportedError
from benchrack.execution import running
from benchrack.timing.ranks import ALONE, RanksError, agreed, prepared_by_all
from benchrack.timing.rounds import measure_rounds, measure_singly, warm_up

QUICK = make_measuring(round_s=0.05, interval=0.01, time_limit_s=1.0, warmup_limit_s=1.0)


class Machine:
    """A device whose batches take `seconds` of a clock of its own."""

    def __init__(self, seconds):
        self.now, self.steps, self.seconds = 0.0, 0, seconds

    def clock(self):
        return self.now

    def step(self, index):
        self.now += self.seconds(self.steps)
        self.steps += 1

    def synchronize(self):
        return None


def measured(measure, *speeds, **settings):
    """What each rank's machine measured, and the machines."""
    machines = [Machine(speed) for speed in speeds]
    chosen = dataclasses.replace(QUICK, **settings)

    def run(ranks):
        machine = machines[ranks.rank]
        return measure(machine.step, machine.synchronize, chosen, machine.clock, ranks=ranks)

    return together(len(speeds), run), machines


def all_of(seconds, samples):
    return pytest.approx((seconds,) * len(samples))


def rounds(*arguments, **keywords):
    return measure_rounds(*arguments, 0.02, **keywords)


def test_a_round_takes_what_the_slowest_took():
    (first, second), _ = measured(rounds, lambda n: 0.01, lambda n: 0.02)
    assert first.seconds_per_batch == second.seconds_per_batch
    assert first.seconds_per_batch == all_of(0.02, first.seconds_per_batch)
    assert first.own_seconds_per_batch == all_of(0.01, first.own_seconds_per_batch)
    assert second.own_seconds_per_batch == all_of(0.02, second.own_seconds_per_batch)
    assert first.assessment == second.assessment


def test_the_slowest_may_be_another_in_each_round():
    def slow_in(rounds_of):
        return lambda n: 0.03 if n // 3 % 2 == rounds_of else 0.01

    (first, _), _ = measured(rounds, slow_in(0), slow_in(1))
    assert first.seconds_per_batch == all_of(0.03, first.seconds_per_batch)


def test_all_run_as_many_rounds_and_stop_together():
    """The slow one's clock reaches the limit first, and a constant one alone would stop early."""
    speeds = (lambda n: 0.01, lambda n: 0.02 + 0.01 * (n % 7))
    found, machines = measured(rounds, *speeds, interval=0.0)
    assert {one.stop_reason for one in found} == {"time-limit"}
    assert len({len(one.own_seconds_per_batch) for one in found}) == 1
    assert machines[0].steps == machines[1].steps
    assert machines[0].now < 1.0 <= machines[1].now


def test_warm_up_is_in_step_too():
    found, machines = measured(
        warm_up, lambda n: 0.01, lambda n: 0.1 if n < 9 else 0.02, warmup_limit_s=9
    )
    first, second = found
    assert first.steady
    assert second.steady
    assert first.batches == second.batches == machines[0].steps
    assert first.first_batch_s == second.first_batch_s == pytest.approx(0.1)
    assert first.batch_s == second.batch_s == pytest.approx(0.02)


def test_single_batches_are_each_ones_own_and_equally_many():
    def singly(*arguments, **keywords):
        return measure_singly(*arguments, batch_s=0.02, **keywords)

    found, _ = measured(singly, lambda n: 0.01, lambda n: 0.02, latency_samples=120, time_limit_s=9)
    assert [len(samples) for samples in found] == [120, 120]
    assert found[0] == all_of(0.01, found[0])
    assert found[1] == all_of(0.02, found[1])
    limited, _ = measured(singly, lambda n: 0.01, lambda n: 0.02, time_limit_s=1.5)
    assert [len(samples) for samples in limited] == [75, 75]  # met after 1 s and at the limit


def test_what_passes_between_rounds_is_nobodys_time():
    """A clock that goes on by 1 ms while the ranks meet."""
    machines = [Machine(lambda n: 0.02) for _ in range(2)]

    def run(ranks):
        machine, most = machines[ranks.rank], ranks.all_reduce_max

        def slow_most(*values):
            machine.now += 0.001
            return most(*values)

        ranks.all_reduce_max = slow_most
        arguments = (machine.step, machine.synchronize, QUICK, machine.clock, 0.02)
        return measure_rounds(*arguments, ranks=ranks)

    for found in together(2, run):
        assert found.between_s == pytest.approx(0.001)
        assert found.own_seconds_per_batch == all_of(0.02, found.own_seconds_per_batch)


def test_rank_0_decides():
    assert together(2, lambda ranks: agreed(ranks, ranks.rank == 0)) == [True, True]
    assert together(2, lambda ranks: agreed(ranks, ranks.rank == 1)) == [False, False]


def test_alone_nothing_is_waited_for():
    assert ALONE.all_reduce_max(1.0, 2.0) == (1.0, 2.0)
    assert ALONE.gather("mine") == ["mine"]
    assert agreed(ALONE, True)
    assert not agreed(ALONE, False)
    machine = Machine(lambda n: 0.01)
    found = rounds(machine.step, machine.synchronize, QUICK, machine.clock, ranks=ALONE)
    assert found.own_seconds_per_batch == found.seconds_per_batch
    assert found.between_s == pytest.approx(0, abs=1e-9)


# --- preparing --------------------------------------------------------------------------------


class Prepared:
    def __init__(self, rank):
        self.rank, self.closed = rank, False

    def close(self):
        self.closed = True


def test_one_of_each_machine_prepares_before_the_others():
    order = []

    def prepare(ranks):
        def make():
            order.append(ranks.rank)
            return Prepared(ranks.rank)

        return prepared_by_all(ranks, make, in_turn=True).rank

    assert together(4, prepare, local_size=2) == [0, 1, 2, 3]
    assert set(order[:2]) == {0, 2}


def test_all_prepare_at_once_where_nobody_has_to_be_first():
    """Each waits, while it prepares, until the other does so too."""
    both = threading.Barrier(2)

    def prepare(ranks):
        def make():
            both.wait(timeout=10)
            return Prepared(ranks.rank)

        return prepared_by_all(ranks, make, in_turn=False).rank

    assert together(2, prepare) == [0, 1]


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("failing", [0, 1])
def test_where_one_can_not_prepare_all_know_and_nothing_is_left_open(failing, in_turn):
    made = []

    def prepare(ranks):
        def make():
            if ranks.rank == failing:
                raise UnsupportedError("too old a card")
            made.append(Prepared(ranks.rank))
            return made[-1]

        with pytest.raises(RanksError) as caught:
            prepared_by_all(ranks, make, in_turn=in_turn)
        return caught.value.failures

    for (failure,) in together(2, prepare):
        assert (failure.rank, failure.kind) == (failing, "UnsupportedError")
        assert failure.message == "too old a card"
        assert "in make" in failure.details
    assert all(one.closed for one in made)


def test_alone_an_error_is_raised_as_it_is():
    def make():
        raise UnsupportedError("too old a card")

    with pytest.raises(UnsupportedError, match="too old"):
        prepared_by_all(ALONE, make, in_turn=True)


# --- a whole case -----------------------------------------------------------------------------


def of_two(tmp_path, case, **settings):
    """What each of two ranks measured of a case; a batch takes one 10 ms and the other 20 ms."""

    def run(ranks):
        clock = lab.Clock()
        cost = 0.010 * (1 + ranks.rank)
        backend = lab.backend(clock=clock, cost=lambda index: cost)
        bench = lab.bench(tmp_path, backend, clock=clock, **settings)
        return running.measure(dataclasses.replace(bench, ranks=ranks), case)

    return together(2, run)


def test_throughput_is_that_of_all_at_the_slowests_pace(tmp_path):
    """10 ms and 20 ms a batch of 4: two processes give 8 images in 20 ms."""
    for measurement, found in of_two(tmp_path, made.case(device_count=2), time_limit_s=1):
        assert measurement.result.images_per_s.value == pytest.approx(400, rel=0.002)
        assert len(found.own_seconds_per_batch) == len(measurement.seconds_per_batch)


def test_latency_is_each_ones_own_until_they_are_combined(tmp_path):
    case = made.case(scenario="latency", batch_size=1, device_count=2)
    found = [measurement for measurement, _ in of_two(tmp_path, case, latency_samples=50)]
    assert [m.result.p50.value for m in found] == [pytest.approx(10), pytest.approx(20)]

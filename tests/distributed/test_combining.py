"""What the processes of a world found, as one measurement."""

import dataclasses

import pytest
from fakes import measurements as made
from fakes.scenarios import SCENARIOS

from benchrack.distributed.combining import RankResult, combined, disagreement
from benchrack.errors import DatasetError, WeightsError
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.results import (
    Power,
    Preparation,
    Surroundings,
)

MEASUREMENT = made.throughput(
    batch_size=8,
    device_count=2,
    engine={"device": "Tesla P4", "precision": "fp16"},
    preparation={"prepare_s": 1.0},
    seconds_per_batch=(0.10, 0.12, 0.10),
    images_per_s=160.0,
    output_check=made.output_check(max_relative_error=1e-3, cosine=0.999, input_spread=0.5),
    surroundings=Surroundings(foreign_cpu_share=0.01, threads_used=4, usable_cores=8),
)


def together(ranks):
    """One measurement of them, as their scenario has it."""
    return combined(ranks, SCENARIOS[ranks[0].measurement.case.scenario])


def rank(own, measurement=MEASUREMENT, node=0, **changes):
    return RankResult(
        measurement=made.but(measurement, **changes),
        own_seconds_per_batch=own,
        between_s=0.001,
        startup_s=3.0,
        node=node,
        placement="cpu, CPUs 0",
    )


def test_each_ranks_rate_is_its_own_and_the_skew_that_of_the_rounds():
    """In the rounds the fastest is 20 %, 50 % and 0 % below the slowest."""
    found = together([rank((0.08, 0.06, 0.10)), rank((0.10, 0.12, 0.10))]).world
    assert found.ranks == 2
    assert found.nodes == 1
    assert found.rank_images_per_s == (100.0, 80.0)
    assert found.skew == pytest.approx(0.2)
    assert found.barrier_s == 0.001
    assert found.startup_s == 3.0
    assert found.placement == ("cpu, CPUs 0", "cpu, CPUs 0")


def prepared(**changes):
    return dataclasses.replace(MEASUREMENT.preparation, **changes)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"weights_digest": "9ab1"}, WeightsError, "the weights of rank 0 (node 0) and rank 1"),
        ({"multiply_accumulates": 7}, WeightsError, "the networks of rank 0 (node 0) and rank 1"),
        ({"data_digest": "9ab1"}, DatasetError, "the images of rank 0 (node 0) and rank 1"),
    ],
)
def test_other_weights_or_pictures_under_the_same_name_are_found(changes, kind, words):
    own = (0.1, 0.1, 0.1)
    other = rank(own, node=1, preparation=prepared(**changes))
    assert disagreement([rank(own), rank(own, node=1)]) is None
    error = disagreement([rank(own), other])
    assert isinstance(error, kind)
    assert str(error).startswith(f"{words} (node 1) differ: ")


def test_of_single_batches_the_slowest_ranks_percentiles_count():
    """Each rank has its own number of outliers, but the same number of samples."""

    def latency(own):
        return {
            "seconds_per_batch": own,
            "scenario": "latency",
            "steadiness": None,
            "samples": len(own),
            "p50": Interval(value=1e3 * sorted(own)[1]),
        }

    fast, slow = (0.001, 0.002, 0.900), (0.003, 0.004, 0.005)
    found = together([rank(fast, **latency(fast)), rank(slow, **latency(slow))])
    assert found.result.p50.value == 4.0
    assert found.seconds_per_batch == slow
    assert found.world.skew == pytest.approx(0.5)


def test_preparation_took_as_long_as_the_longest():
    others = Preparation(prepare_s=7.0)
    assert together([rank((1.0,)), rank((1.0,), preparation=others)]).preparation.prepare_s == 7.0


def test_the_worst_output_counts():
    worse = dataclasses.replace(
        MEASUREMENT.output_check, max_relative_error=0.5, cosine=0.8, agreement=0.5, input_spread=0
    )
    found = together([rank((1.0,)), rank((1.0,), output_check=worse)]).output_check
    assert found == worse


def test_a_rank_that_fell_back_is_named():
    engine = dataclasses.replace(MEASUREMENT.engine, deviations=("computes in FP32",))
    both = dataclasses.replace(engine, deviations=("computes in FP32", "fell back to the CPU"))
    found = together([rank((1.0,), engine=engine), rank((1.0,), engine=both)])
    assert found.engine.deviations == ("computes in FP32", "rank 1: fell back to the CPU")


def test_surroundings_are_those_of_the_most_disturbed():
    busy = Surroundings(
        foreign_cpu_share=0.4, threads_used=8, usable_cores=4, other_processes=("process 7",)
    )
    found = together([rank((1.0,)), rank((1.0,), surroundings=busy)]).surroundings
    assert found.foreign_cpu_share == 0.4
    assert (found.threads_used, found.usable_cores) == (8, 4)
    assert found.other_processes == ("rank 1: process 7",)


POWER = Power(
    meters=("nvml",),
    metered_devices=("cuda:0",),
    energy_j=100.0,
    energy_uncertainty_j=1.0,
    energy_by_device_j=(100.0,),
    energy_window_s=1.0,
    energy_window_too_short=False,
    energy_method="counter",
    average_power_w=100.0,
    idle_power_w=20.0,
    images_per_s_per_w=1.6,
    temperature_max_c=60.0,
    sm_clock_mhz_min=1000.0,
)


SYSTEM = {"energy_j": 300.0, "energy_uncertainty_j": 6.0, "power_w": 300.0}
SYSTEM |= {"idle_power_w": 100.0, "idle_power_spread_w": 1.0}
WALL = dataclasses.replace(
    POWER,
    energy_per_image_j=100 / 160,
    system_meter="wall",
    system_images_per_s_per_w=160 / 300,
    **{f"system_{name}": value for name, value in SYSTEM.items()},
)


def test_the_systems_of_several_machines_are_summed():
    power = together([rank((1.0,), power=WALL), rank((1.0,), node=1, power=WALL)]).power
    assert power.energy_per_image_j == pytest.approx(200 / 160)
    assert (power.system_meter, power.system_power_w) == ("wall", 600.0)
    assert (power.system_energy_j, power.system_energy_uncertainty_j) == (600.0, 12.0)
    assert (power.system_idle_power_w, power.system_idle_power_spread_w) == (200.0, 2.0)
    assert power.system_images_per_s_per_w == pytest.approx(160 / 600)
    assert power.system_images_per_s_per_w_above_idle == pytest.approx(160 / 400)


def test_a_machine_without_a_meter_at_the_wall_leaves_no_system():
    power = together([rank((1.0,), power=WALL), rank((1.0,), node=1, power=POWER)]).power
    assert power.system_power_w is None
    assert power.system_images_per_s_per_w is None
    assert power.images_per_s_per_w == pytest.approx(160 / 200)


def test_machines_that_are_metered_at_the_wall_only():
    blind = {"energy_j": None, "average_power_w": None, "images_per_s_per_w": None}
    walls = dataclasses.replace(WALL, **blind)
    power = together([rank((1.0,), power=walls), rank((1.0,), node=1, power=walls)]).power
    assert power.energy_per_image_j is None
    assert power.system_images_per_s_per_w == pytest.approx(160 / 600)


def test_one_process_meters_a_machine():
    found = together([rank((1.0,), power=POWER), rank((1.0,))]).power
    assert found == POWER


def test_machines_energy_is_summed_and_their_conditions_are_the_worst():
    hot = dataclasses.replace(
        POWER,
        energy_j=60.0,
        energy_by_device_j=(60.0,),
        average_power_w=60.0,
        images_per_s_per_w=160 / 60,
        temperature_max_c=85.0,
        sm_clock_mhz_min=700.0,
        energy_window_too_short=True,
        energy_method="sampled",
        throttle_reasons=("hw_thermal_slowdown",),
    )
    found = together([rank((1.0,), power=POWER), rank((1.0,), node=1, power=hot)])
    power = found.power
    assert power.energy_j == 160.0
    assert power.energy_by_device_j == (100.0, 60.0)
    assert power.average_power_w == 160.0
    assert power.idle_power_w == 40.0
    assert power.images_per_s_per_w == pytest.approx(1.0)
    assert power.images_per_s_per_w_above_idle == pytest.approx(160 / 120)
    assert power.metered_devices == ("node 0: cuda:0", "node 1: cuda:0")
    assert power.temperature_max_c == 85.0
    assert power.sm_clock_mhz_min == 700.0
    assert power.energy_window_too_short
    assert power.energy_method == "counter and sampled"
    assert power.throttle_reasons == ("hw_thermal_slowdown",)
    assert found.world.nodes == 2
    assert found.world.placement == ("node 0: cpu, CPUs 0", "node 1: cpu, CPUs 0")


def test_energy_that_one_machine_can_not_tell_is_nobodys():
    blind = dataclasses.replace(POWER, energy_j=None, average_power_w=None, images_per_s_per_w=None)
    power = together([rank((1.0,), power=POWER), rank((1.0,), node=1, power=blind)]).power
    assert power.energy_j is None
    assert power.images_per_s_per_w is None
    assert power.images_per_s_per_w_above_idle is None

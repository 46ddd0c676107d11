"""What is watched and metered beside a case of each scenario: a fake card, host and clock."""

import dataclasses
import os

import pytest
from fakes import laboratory as lab, measurements as made, nvml
from fakes.power import PowerTrace
from fakes.scenarios import SCENARIOS

from benchrack.energy.metering import Idle, Metering, Opened, open_meters
from benchrack.execution.running import run_case
from benchrack.machine.surroundings import CpuTimes
from benchrack.plugins.meters.nvml import benchrack_meters
from benchrack.records.record import from_record, to_record
from benchrack.vocabulary.devices import Device

HOT = 0x40  # hw_thermal_slowdown


@pytest.fixture(scope="module")
def pools():
    """The distinct inputs of all benches here: making them takes longer than all else."""
    return {}


@pytest.fixture
def make(tmp_path, fake_nvml, pools):
    """`make(…)` is a lab of its own."""

    def build(card=None, **behaviour):
        return Lab(tmp_path, fake_nvml, pools, card, **behaviour)

    return build


class Lab:
    """A V100 at a steady 250 W, or a P4 at 60 W, whose batches take 10 ms; `phases` are what the
    bench reported, and `reasons` gives the card's throttle bits now."""

    def __init__(self, tmp_path, fake_nvml, pools, card, **behaviour):
        steady = PowerTrace([(0, 250.0), (1, 250.0)])
        self.clock, self.phases = lab.Clock(), []
        self.card = card or nvml.v100(0x1A, [], trace=steady, processes=((os.getpid(), 1),))
        self.fake = fake_nvml(nvml.Machine(cards=[self.card], clock=self.clock))
        self.reasons = lambda: 0
        self.fake.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: self.reasons()
        device = Device(kind="cuda", name=self.card.name, uuid=self.card.uuid)
        engine = dataclasses.replace(lab.ENGINE, device=self.card.name, threads=None)
        tested = lab.backend(**{"clock": self.clock, "engine": engine} | behaviour)
        bench = lab.bench(
            tmp_path, tested, clock=self.clock, device=device, time_limit_s=5, interval=0.2
        )
        opened = open_meters(benchrack_meters(), [device], self.clock)
        idle = Idle(power_w=40.0, spread_w=1.0, windows=5, window_s=1.0)
        self.bench = dataclasses.replace(
            bench,
            progress=self.phases.append,
            metering=Metering(
                opened=dataclasses.replace(opened, threaded=False), idle={"accelerator": idle}
            ),
            cpu_times=self.cpu_times,
            data=dataclasses.replace(bench.data, _pools=pools),
        )

    def cpu_times(self):
        """A fifth of two cores' time goes to others."""
        now = self.clock.now
        return CpuTimes(busy_s=0.9 * now, total_s=2 * now, own_s=0.5 * now, cpus=2, tick_s=0.01)

    def measure(self, scenario):
        return run_case(self.bench, made.case(scenario=scenario))


@pytest.mark.parametrize("scenario", ["throughput", "latency", "accuracy"])
def test_surroundings_and_conditions_are_recorded_beside_every_case(make, scenario):
    found = make().measure(scenario)
    assert found.surroundings.foreign_cpu_share == pytest.approx(0.2)
    assert found.surroundings.other_processes == ()
    assert found.power.meters == ("nvml",)
    assert found.power.metered_devices == ("cuda:0 Tesla V100-SXM2-16GB 00000000:1A:00.0",)
    assert (found.power.sm_clock_mhz_min, found.power.memory_clock_mhz_min) == (1530, 877)
    assert found.power.temperature_max_c == 35
    assert found.power.power_limit_w == 300
    assert found.power.memory_used_peak_gib == pytest.approx(10 / 1024)
    assert from_record(to_record(found), found.seconds_per_batch, SCENARIOS) == found


def test_a_card_that_throttles_during_accuracy_says_so(make):
    one = make()
    one.reasons = lambda: HOT
    assert one.measure("accuracy").power.throttle_reasons == ("hw_thermal_slowdown",)


def test_a_reason_at_the_end_of_a_short_window_is_seen(make):
    """Ten batches are two samples, and the conditions come with every fifth."""
    one = make()
    started = []

    def late():
        started.append(one.clock.now)
        return HOT if one.clock.now > started[0] else 0

    one.reasons = late
    assert one.measure("accuracy").power.throttle_reasons == ("hw_thermal_slowdown",)


def test_accuracy_that_is_over_too_soon_for_the_sensor_has_no_energy(make):
    """Nor a pass of its own, nor a reason against it."""
    one = make()
    found = one.measure("accuracy")
    assert "measuring energy" not in one.phases
    assert found.power.energy_j is None
    assert found.power.average_power_w is None
    assert found.power.energy_window_s is None
    assert not any(reason.startswith("power-window") for reason in found.reasons)


def test_accuracy_that_takes_long_enough_has_energy_and_nothing_per_image(make):
    """Images are decoded in the same window."""
    found = make(cost=lambda index: 0.5).measure("accuracy")
    assert found.power.energy_window_s == pytest.approx(5, rel=0.01)
    assert found.power.energy_j == pytest.approx(1250, rel=0.01)
    assert (found.power.average_power_w, found.power.idle_power_w) == (pytest.approx(250), 40.0)
    assert found.power.energy_per_image_j is None
    assert found.power.images_per_s_per_w is None


def test_the_pass_that_measures_energy_does_not_hide_what_held_the_rounds_back(make):
    steady = PowerTrace([(0, 60.0), (1, 60.0)])
    card = nvml.p4(trace=steady, processes=((os.getpid(), 1),))
    one = make(card)
    one.reasons = lambda: 0x4 if "measuring energy" in one.phases else HOT
    found = one.measure("throughput")
    assert found.power.throttle_reasons == ("hw_thermal_slowdown", "sw_power_cap")
    throttled, hardly_sampled = found.reasons[-2:]  # the fake's clock gives the sampler no turn
    assert throttled.startswith("throttled: hw_thermal_slowdown")
    assert hardly_sampled.startswith("energy-uncertain")
    assert found.power.energy_window_s >= found.power.energy_window_minimum_s == 10.0
    assert found.power.average_power_w == pytest.approx(60, rel=0.01)


def test_the_energy_of_an_image(make):
    """400 images a second at 250 W."""
    found = make().measure("throughput").power
    assert found.energy_per_image_j == pytest.approx(250 / 400, rel=0.02)
    assert found.images_per_s_per_w == pytest.approx(1 / found.energy_per_image_j)


def test_without_meters_there_is_no_power(tmp_path):
    bench = lab.bench(tmp_path, lab.backend(clock=lab.Clock()))
    found = run_case(bench, made.case(scenario="accuracy"))
    assert found.power is None
    assert found.surroundings.threads_used == 1


def test_of_latency_too_a_meter_that_may_not_be_read_says_why(tmp_path):
    clock = lab.Clock()
    bench = lab.bench(tmp_path, lab.backend(clock=clock), clock=clock, time_limit_s=1)
    opened = Opened(absent={"rapl": "root only"}, clock=clock)
    bench = dataclasses.replace(bench, metering=Metering(opened=opened))
    assert run_case(bench, made.case(scenario="latency")).power.meters_absent == (
        "rapl: root only",
    )

"""The tool tested against itself: each way to spoil a measurement gives its reason, and no other.

On a fake clock, with a fake card behind a fake NVML and a fake host: exact, and never flaky."""

import dataclasses
import os

import numpy as np
import pytest
from fakes import laboratory as lab, measurements as made, nvml
from fakes.power import PowerTrace

from benchrack.energy.metering import Metering, open_meters
from benchrack.execution.running import run_case
from benchrack.hardware.descriptors import built_in
from benchrack.machine.surroundings import CpuTimes
from benchrack.plugins.meters.nvml import benchrack_meters
from benchrack.vocabulary.devices import Device

MINE = (os.getpid(), 1 << 30)
CARDS = {card.name: card for card in built_in() if card.name.startswith("tesla-v100-sxm2-16gb")}


def card(**changes):
    """A V100 that works at a steady 250 W, and that only this process uses."""
    steady = PowerTrace([(0, 250.0), (1, 250.0)])
    return nvml.v100(0x1A, [], **{"trace": steady, "processes": (MINE,)} | changes)


@dataclasses.dataclass
class Host:
    """CPU times of two cores on the fake clock: we keep one busy, and others take their share."""

    clock: lab.Clock
    taken: float = 0.0

    def __call__(self):
        total_s = 2 * self.clock.now
        own_s = self.clock.now / 2
        busy_s = own_s + self.taken * total_s
        return CpuTimes(busy_s=busy_s, total_s=total_s, own_s=own_s, cpus=2, tick_s=0.01)


def as_fp32(images, matrix):
    return images.reshape(len(images), -1) @ matrix


def in_bf16(images, matrix):
    """What was asked for is FP32; weights and activations are rounded to 8 bits of mantissa."""
    return rounded(rounded(images.reshape(len(images), -1)) @ rounded(matrix))


def rounded(values):
    """To the nearest BF16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.fixture(scope="module")
def pools():
    """The distinct inputs of all benches here: making them takes longer than all else."""
    return {}


@pytest.fixture
def verdict(tmp_path, fake_nvml, pools):
    """`verdict(…)` measures a backend that behaves as told, and returns the measurement.

    Its batches take 10 ms on the card. The reference computes the same in FP32.
    """

    def measure(
        *,
        scenario="throughput",
        at=None,
        others=0.0,
        macs=None,
        asked="fp32",
        said=None,
        metered_by=lambda meter: meter,
        settings=None,
        **behaviour,
    ):
        clock, device_card = lab.Clock(), at or card()
        fake_nvml(nvml.Machine(cards=[device_card], clock=clock))
        device = Device(kind="cuda", name=device_card.name, uuid=device_card.uuid)
        engine = dataclasses.replace(
            lab.ENGINE, device=device_card.name, threads=None, **(said or {})
        )
        behaviour = {"clock": clock, "engine": engine} | behaviour
        tested, reference = lab.backend("tested", **behaviour), lab.backend()
        tested = dataclasses.replace(tested, precision=asked)
        bench = lab.bench(
            tmp_path,
            reference,
            tested,
            clock=clock,
            device=device,
            **{"time_limit_s": 5, "limit_foreign_load": 0.05} | (settings or {}),
        )
        bench.registry.provided["accelerator"] = CARDS
        if macs is not None:
            bench.registry.provided["model"] = {"matrix": model_of(macs)}
        opened = open_meters(benchrack_meters(), [device], clock)
        opened = dataclasses.replace(
            opened, meters=tuple(map(metered_by, opened.meters)), threaded=False
        )
        bench = dataclasses.replace(
            bench,
            metering=Metering(opened=opened),
            cpu_times=Host(clock, others),
            data=dataclasses.replace(bench.data, _pools=pools),
        )
        return run_case(bench, made.case(scenario=scenario, backend="tested"))

    return measure


def model_of(macs):
    """The fake model, said to take so many multiply-accumulates."""

    def load(weights, cache):
        return dataclasses.replace(lab.load(weights, cache), multiply_accumulates=macs)

    return dataclasses.replace(lab.MODEL, load=load)


@dataclasses.dataclass
class Altered:
    """A meter whose readings say something else."""

    meter: object
    change: object

    def __getattr__(self, name):
        return getattr(self.meter, name)

    def end(self, start_s, stop_s):
        readings = self.meter.end(start_s, stop_s)
        return [dataclasses.replace(r, **self.change(r)) for r in readings]


def reading(change):
    """What makes a meter read otherwise: `change(reading)` are the fields that it changes."""
    return lambda meter: Altered(meter, change)


def rules(measurement):
    return [reason.partition(":")[0] for reason in measurement.reasons]


@pytest.mark.parametrize("scenario", ["throughput", "latency", "accuracy"])
def test_the_clean_control_is_valid(verdict, scenario):
    found = verdict(scenario=scenario, compute=as_fp32)
    assert found.reasons == ()


def test_the_clean_control_was_really_watched(verdict):
    """Valid because everything was looked at, not because nothing was."""
    found = verdict(compute=as_fp32)
    assert found.result.images_per_s.value == pytest.approx(400, rel=0.002)
    assert found.power.sm_clock_mhz_median == 1530
    assert found.power.energy_j == pytest.approx(250 * found.power.energy_window_s, rel=0.01)
    assert found.power.energy_window_s >= found.power.energy_window_minimum_s > 0
    assert found.surroundings.foreign_cpu_share == pytest.approx(0)
    assert found.surroundings.other_processes == ()
    assert found.steadiness.unsynchronised_share == pytest.approx(0)
    assert found.share_of_peak > 0
    assert found.output_check.max_relative_error < 1e-5


def test_a_stall_in_one_round_of_ten(verdict):
    """Five batches make a round; every fiftieth batch waits for 40 ms."""
    found = verdict(cost=lambda index: 0.050 if index % 50 == 0 else 0.010)
    assert rules(found) == ["noisy"]
    assert "vary by 2" in found.reasons[0]


def test_stalls_do_not_move_the_median(verdict):
    found = verdict(cost=lambda index: 0.050 if index % 50 == 0 else 0.010)
    assert found.result.images_per_s.value == pytest.approx(400, rel=0.002)


@pytest.mark.parametrize("scenario", ["throughput", "latency"])
@pytest.mark.parametrize("each", [1e-3, 5e-5], ids=["0.1 % a batch", "0.005 % a batch"])
def test_a_drift(verdict, scenario, each):
    """Fast enough to be seen while warming up, or in the measurement only."""
    settings = {"latency_samples": 2000, "time_limit_s": 60, "interval": 0.0, "warmup_limit_s": 5}
    found = verdict(
        scenario=scenario, settings=settings, cost=lambda index: 0.010 * (1 + each * index)
    )
    assert rules(found) == ["not-steady"]
    assert found.steadiness.warmup_steady == (each < 1e-3)


def test_a_warm_up_that_never_settled(verdict):
    """It grows faster until its limit. That it is steady from then on, nobody could know."""
    found = verdict(
        settings={"warmup_limit_s": 1}, cost=lambda index: 0.010 * max(1.0, 2 - index / 75)
    )
    assert rules(found) == ["not-steady"]
    assert "no steady state was seen in 1" in found.reasons[0]


def test_a_warm_up_too_short_for_batches_so_long(verdict):
    found = verdict(settings={"time_limit_s": 60}, cost=lambda index: 2.0)
    said = "6 windows are needed, and 4 fit in (a larger warmup_limit_s helps)"
    assert found.reasons == (f"not-steady: no steady state was seen in 10 s of warm-up: {said}",)
    longer = {"time_limit_s": 60, "warmup_limit_s": 15}
    assert verdict(settings=longer, cost=lambda index: 2.0).reasons == ()


@pytest.mark.parametrize("scenario", ["throughput", "latency"])
def test_a_backend_that_returns_before_its_work_is_done(verdict, scenario):
    """Its rate is that of launching batches: ten times the true one."""
    found = verdict(scenario=scenario, settings={"transfer": "exclude"}, waits=False, launch_s=1e-3)
    assert rules(found) == ["unsynchronised"]
    assert found.steadiness.unsynchronised_share > 0.9
    if scenario == "throughput":
        assert found.result.images_per_s.value == pytest.approx(4000, rel=0.01)


def test_with_the_copies_inside_its_time_is_the_true_one(verdict):
    """Who fetches every output waits for it, whatever `synchronize` does."""
    found = verdict(settings={"transfer": "include"}, waits=False, launch_s=1e-3)
    assert found.reasons == ()
    assert found.result.images_per_s.value == pytest.approx(4 / 0.011, rel=0.002)


def test_a_backend_that_computes_only_what_is_fetched(verdict):
    """Lazy evaluation: nothing but launching is timed, and there is nothing to synchronise."""

    class Lazy(lab.Session):
        def run(self, placed):
            self._pass(1e-3)
            return {"input": placed}

        def fetch(self, output):
            if "logits" not in output:
                self._pass(0.010)
                output["logits"] = self.compute(output["input"], self.loaded.module)
            return output["logits"]

    found = verdict(session=Lazy)
    assert rules(found) == ["unsynchronised"]


def test_a_slow_first_copy_by_chance_is_not_held_against_a_backend(verdict):
    """The first of the three tries is held up: two fetches check the outputs, the third is its."""
    held_up = iter([0.0, 0.0, 0.5])

    class Hiccuping(lab.Session):
        def fetch(self, output):
            self._pass(next(held_up, 0.0))
            return super().fetch(output)

    found = verdict(session=Hiccuping)
    assert next(held_up, None) is None
    assert found.reasons == ()


def test_a_backend_that_falls_back(verdict):
    engine = dataclasses.replace(lab.ENGINE, device="cpu", deviations=("ran on the CPU provider",))
    found = verdict(engine=engine)
    assert found.reasons == ("fell-back: ran on the CPU provider",)


def test_a_backend_that_falls_back_and_says_nothing(verdict):
    """It names what it computed with, and the rule compares."""
    bf16 = dataclasses.replace(lab.ENGINE, device="Tesla V100", precision="bf16")
    assert verdict(engine=bf16).reasons == ("fell-back: fp32 was asked for, and bf16 was computed",)
    assert rules(verdict(engine=lab.ENGINE)) == ["fell-back"]


@pytest.mark.parametrize("scenario", ["throughput", "accuracy"])
def test_a_constant_output(verdict, scenario):
    def constant(images, matrix):
        return np.tile(as_fp32(images[:1] * 0 + 1, matrix), (len(images), 1))

    assert rules(verdict(scenario=scenario, compute=constant)) == ["output-mismatch"]


def test_a_constant_output_of_the_reference_itself(tmp_path):
    """It equals itself, and is caught all the same."""

    def constant(images, matrix):
        return np.ones((len(images), lab.CLASSES), np.float32)

    clock = lab.Clock()
    bench = lab.bench(tmp_path, lab.backend(clock=clock, compute=constant), clock=clock)
    found = run_case(bench, made.case())
    assert found.output_check.max_relative_error == 0
    assert rules(found) == ["output-mismatch"]


@pytest.mark.parametrize("scenario", ["throughput", "latency", "accuracy"])
def test_bf16_that_was_asked_for_as_fp32(verdict, scenario):
    assert rules(verdict(scenario=scenario, compute=in_bf16)) == ["output-mismatch"]


def test_outputs_that_are_not_numbers(verdict):
    found = verdict(compute=lambda images, matrix: as_fp32(images, matrix) * np.nan)
    assert found.reasons == ("output-mismatch: outputs are not finite numbers",)


@pytest.mark.parametrize(
    "hot",
    [{"throttle": 0x40}, {"throttle": 0x8}, {"throttle": 0x80}, {"sm_clock_mhz": 900}],
    ids=["thermal", "slowdown", "power brake", "clock below three quarters of base"],
)
@pytest.mark.parametrize("scenario", ["throughput", "latency"])
def test_a_card_that_throttles(verdict, scenario, hot):
    assert rules(verdict(scenario=scenario, at=card(**hot))) == ["throttled"]


def test_a_network_of_which_some_convolutions_ran_in_int8(verdict):
    """It says so of itself, as a backend reads it from its framework."""
    partly = {
        "precision": "int8 (33), fp32 (20)",
        "compute_nodes": 53,
        "low_precision_nodes": 33,
        "deviations": ("20 of 53 convolutions and matrix products did not run in INT8",),
    }
    said = "unfused-int8: 33 of 53 convolutions and matrix products ran in INT8"
    assert verdict(asked="int8", said=partly).reasons == (said,)
    allowed = {"limit_int8_share": 0.6}
    assert verdict(asked="int8", said=partly, settings=allowed).reasons == ()
    whole = {"precision": "int8", "compute_nodes": 53, "low_precision_nodes": 53}
    assert verdict(asked="int8", said=whole).reasons == ()


def test_energy_over_less_than_its_sensor_needs(verdict):
    """The sensor turns out to be slower, while it is read, than was assumed."""
    slower = reading(lambda _: {"minimum_window_s": 100.0})
    found = verdict(metered_by=slower)
    assert rules(found) == ["power-window-too-short"]
    assert found.power.energy_window_too_short
    assert verdict(metered_by=slower, settings={"limit_power_window": 0.01}).reasons == ()


def test_energy_that_its_sensor_hardly_knows(verdict):
    """As that of a card that pauses in step with it."""
    in_step = reading(lambda r: {"uncertainty_j": 0.3 * r.energy_j})
    found = verdict(metered_by=in_step)
    assert rules(found) == ["energy-uncertain"]
    assert verdict(metered_by=in_step, settings={"limit_energy_uncertainty": 0.4}).reasons == ()


def test_a_card_at_its_power_limit_is_no_fault(verdict):
    assert verdict(at=card(throttle=0x4, sm_clock_mhz=1100)).reasons == ()


@pytest.mark.parametrize("scenario", ["throughput", "latency"])
def test_a_card_that_another_process_uses(verdict, scenario):
    found = verdict(scenario=scenario, at=card(processes=(MINE, (4242, 1 << 20))))
    assert found.reasons == ("shared-device: also on the card: process 4242",)


@pytest.mark.parametrize("scenario", ["throughput", "latency"])
def test_a_host_whose_cpu_others_take(verdict, scenario):
    found = verdict(scenario=scenario, others=0.3)
    assert rules(found) == ["cpu-contention"]
    assert found.surroundings.foreign_cpu_share == pytest.approx(0.3)


def test_foreign_load_in_a_window_too_short_for_the_kernels_clock(verdict):
    """Three rounds of 50 ms: a tick at each edge is 13 %, so 12 % can't be told from nothing."""
    brief = {"time_limit_s": 0, "limit_power_window": 0}
    assert rules(verdict(settings=brief, others=0.12)) == ["noisy"]  # of three rounds
    assert rules(verdict(settings=brief, others=0.30)) == ["noisy", "cpu-contention"]


def test_more_threads_than_cores(tmp_path):
    clock = lab.Clock()
    engine = dataclasses.replace(lab.ENGINE, threads=100_000)
    bench = lab.bench(tmp_path, lab.backend(clock=clock, engine=engine), clock=clock)
    assert rules(run_case(bench, made.case())) == ["oversubscribed-cpu"]


@pytest.mark.parametrize("scenario", ["throughput", "latency"])
def test_a_rate_above_the_cards_peak(verdict, scenario):
    """15.7e12 operations/s in FP32, and 2.25 times that where Winograd saves multiplications."""
    most = 2.25 * 15.7e12 / 2 / 400
    settings = {"transfer": "exclude"}
    assert verdict(scenario=scenario, macs=int(0.99 * most), settings=settings).reasons == ()
    above = verdict(scenario=scenario, macs=int(1.01 * most), settings=settings)
    assert rules(above) == ["impossible"]


def test_every_threshold_can_be_set(verdict):
    """What a wide threshold allows is valid."""
    stalling = {"cost": lambda index: 0.050 if index % 50 == 0 else 0.010}
    assert verdict(settings={"limit_variation": 0.5}, **stalling).reasons == ()
    drifting = {"cost": lambda index: 0.010 * (1 + 5e-5 * index)}
    wide = {"limit_drift": 0.5, "limit_interval": 0.5}
    assert verdict(settings=wide | {"interval": 0}, **drifting).reasons == ()
    early = {"waits": False, "launch_s": 1e-3}
    assert verdict(settings={"limit_unsynchronised": 1}, **early).reasons == ()
    assert verdict(settings={"limit_output_error": 1e4}, compute=in_bf16).reasons == ()
    assert verdict(settings={"limit_clock_share": 0.5}, at=card(sm_clock_mhz=900)).reasons == ()
    shared = card(processes=(MINE, (4242, 1 << 20)))
    assert verdict(settings={"limit_other_processes": 1}, at=shared).reasons == ()
    assert verdict(settings={"limit_foreign_load": 0.5}, others=0.3).reasons == ()
    assert verdict(settings={"limit_peak_share": 1e9}, macs=10**12).reasons == ()


def test_the_parts_of_a_batch_on_a_card(verdict):
    found = verdict(scenario="latency", copy_in_s=0.002, launch_s=0.001, copy_out_s=0.0005).result
    assert found.copy_in_ms == pytest.approx(2)
    assert found.compute_ms == pytest.approx(11)
    assert found.copy_out_ms == pytest.approx(0.5)
    assert found.p50.value == pytest.approx(13.5)


def test_latency_is_metered_apart_from_its_samples(verdict):
    found = verdict(scenario="latency")
    assert found.result.samples == pytest.approx(5 / 0.010, abs=1)
    assert found.power.energy_window_s >= found.power.energy_window_minimum_s
    assert found.power.average_power_w == pytest.approx(250, rel=0.01)

"""Windows, the sampler, and what goes into the record, with meters made for the test."""

from __future__ import annotations

import threading
import time
import types
from pathlib import Path

import pytest
from fakes.power import FakeClock

from benchrack.energy.metering import (
    Idle,
    Metering,
    Opened,
    Window,
    measure_idle,
    open_meters,
    window,
)
from benchrack.energy.power import power_of
from benchrack.energy.sampler import Sampler
from benchrack.errors import UnsupportedError
from benchrack.flattening import flatten, unflatten
from benchrack.registry.registry import load_registry
from benchrack.vocabulary.meters import Conditions, Meter, Reading
from benchrack.vocabulary.results import Power


class SteadyMeter:
    """Reads a constant power; counts how it is called."""

    method = "sampled"
    devices = ("thing",)
    sensor_period_s = 0.1

    def __init__(self, clock, power_w=100.0, name="steady", domain="accelerator", period_s=0.1):
        self.clock, self.power_w, self.name, self.domain = clock, power_w, name, domain
        self.period_s = period_s
        self.times, self.begun, self.closed = [], 0, 0

    def begin(self):
        self.begun += 1
        self.times = []

    def sample(self):
        self.times.append(self.clock())

    def end(self, start_s, stop_s):
        return [reading(self, stop_s - start_s)]

    def close(self):
        self.closed += 1


class BrokenMeter(SteadyMeter):
    """Its driver fails after some samples."""

    def sample(self):
        super().sample()
        if len(self.times) > 3:
            raise RuntimeError("cable pulled")


def reading(meter, window_s=2.0, **changes):
    return Reading(
        **{
            "meter": meter.name,
            "domain": meter.domain,
            "devices": meter.devices,
            "method": meter.method,
            "window_s": window_s,
            "energy_j": meter.power_w * window_s,
            "uncertainty_j": 1.0,
            "sampling_period_s": meter.period_s,
            "sensor_period_s": meter.sensor_period_s,
            "minimum_window_s": 1.0,
            "energy_by_device_j": (meter.power_w * window_s,),
        }
        | changes
    )


def seen(*readings, faults=()):
    """A window that is closed."""
    sampler = Sampler([], FakeClock())
    return Window(sampler=sampler, start_s=0.0, stop_s=2.0, readings=readings, faults=faults)


def power_of_card(readings, **changes):
    given = {"idle": {}, "device_kind": "cuda", "images_per_s": 9.0} | changes
    opened = given.pop("opened", Opened(meters=(SteadyMeter(FakeClock()),)))
    metering = Metering(opened=opened, idle=given.pop("idle"))
    return power_of(seen(*readings), metering, **given)


def test_a_meter_that_cannot_be_opened_is_absent_with_its_reason():
    def refuse(devices, clock):
        raise UnsupportedError("the cable is missing")

    def break_down(devices, clock):
        raise ZeroDivisionError("oops")

    clock = FakeClock()
    steady = SteadyMeter(clock)
    opened = open_meters(
        [
            Meter(name="refusing", summary="", open=refuse),
            Meter(name="broken", summary="", open=break_down),
            Meter(name="steady", summary="", open=lambda devices, clock: steady),
        ],
        [],
        clock,
    )
    assert opened.meters == (steady,)
    assert opened.absent["refusing"] == "the cable is missing"
    assert "ZeroDivisionError: oops" in opened.absent["broken"]
    assert opened.minimum_window_s == pytest.approx(10.0)  # it is sampled
    opened.close()
    assert steady.closed == 1


def test_a_window_is_sampled_at_both_edges_and_at_its_period_between():
    clock = FakeClock()
    meter = SteadyMeter(clock)
    with window([meter], clock, threaded=False) as seen:
        while clock() < 10.0:
            clock.sleep(max(1e-3, seen.sampler.sample_due()))
    assert (meter.times[0], meter.times[-1]) == (seen.start_s, seen.stop_s)
    assert len(meter.times) == pytest.approx(102, abs=3)
    gaps = [b - a for a, b in zip(meter.times, meter.times[1:], strict=False)][:-1]
    assert 0.05 <= min(gaps) < 0.06
    assert 0.14 < max(gaps) <= 0.152


def test_an_exception_passes_through_and_leaves_no_readings():
    clock = FakeClock()
    with pytest.raises(KeyboardInterrupt), window([SteadyMeter(clock)], clock) as seen:
        raise KeyboardInterrupt
    assert seen.readings == ()
    assert not [t for t in threading.enumerate() if t.name == "benchrack-sampler"]


def test_no_meters_no_thread():
    before = threading.active_count()
    with window([]) as seen:
        assert threading.active_count() == before
    assert seen.readings == ()
    assert measure_idle([]) == {}


def test_the_thread_samples_and_stops():
    """In real time, without sleeping on it: waits for three samples, then for the thread's end."""
    enough = threading.Event()

    class Waiting(SteadyMeter):
        def sample(self):
            super().sample()
            if len(self.times) == 3:
                enough.set()

    meter = Waiting(time.perf_counter, period_s=0.05)
    with window([meter]) as seen:
        assert enough.wait(5)
    assert not [t for t in threading.enumerate() if t.name == "benchrack-sampler"]
    assert len(meter.times) >= 4
    assert seen.readings[0].energy_j == pytest.approx(100 * seen.readings[0].window_s)


def test_a_meter_that_fails_is_reported_and_the_others_go_on():
    clock = FakeClock()
    broken, steady = BrokenMeter(clock, name="broken"), SteadyMeter(clock)
    with window([broken, steady], clock, threaded=False) as seen:
        while clock() < 2.0:
            clock.sleep(max(1e-3, seen.sampler.sample_due()))
    first, second = seen.readings
    assert first.energy_j is None
    assert first.faults == ("broken failed: RuntimeError: cable pulled",)
    assert len(broken.times) == 4
    assert second.energy_j == pytest.approx(100 * seen.readings[1].window_s)


def test_a_costly_sample_is_taken_less_often():
    """3 ms of CPU a sample: the period grows until that is less than half a percent of a core."""
    clock = FakeClock()

    class Costly(SteadyMeter):
        def sample(self):
            super().sample()
            until = time.thread_time() + 0.003
            while time.thread_time() < until:
                pass

    meter = Costly(clock, period_s=0.01)
    sampler = Sampler([meter], clock)
    while clock() < 10.0:
        clock.sleep(max(1e-3, sampler.sample_due()))
    assert sampler.cpu_s < 0.005 * clock()


def test_a_meter_can_not_ask_for_too_high_a_rate():
    clock = FakeClock()
    meter = SteadyMeter(clock, period_s=0.0001)
    sampler = Sampler([meter], clock)
    while clock() < 10.0:
        clock.sleep(max(1e-4, sampler.sample_due()))
    assert len(meter.times) <= 210


class Rude(SteadyMeter):
    """Raises wherever it is told to."""

    def __init__(self, clock, where):
        super().__init__(clock, name="rude")
        self.where = where

    def begin(self):
        self.fail("begin")

    def end(self, start_s, stop_s):
        self.fail("end")
        return super().end(start_s, stop_s)

    def close(self):
        self.fail("close")

    def fail(self, where):
        if where == self.where:
            raise OSError("no such bus")


@pytest.mark.parametrize("where", ["begin", "end"])
def test_a_meter_that_raises_does_not_stop_the_measurement(where):
    clock = FakeClock()
    meters = [Rude(clock, where), SteadyMeter(clock)]
    with window(meters, clock, threaded=False) as metered:
        clock.sleep(2.0)
    assert metered.faults == ("rude failed: OSError: no such bus",)
    assert [r.meter for r in metered.readings] == ["steady"]
    power = power_of(metered, Metering(), device_kind="cuda", images_per_s=None)
    assert power.meter_faults == metered.faults


def test_closing_goes_on_after_a_meter_that_raises():
    clock = FakeClock()
    steady = SteadyMeter(clock)
    Opened(meters=(Rude(clock, "close"), steady)).close()
    assert steady.closed == 1


def test_power_of_a_card_and_its_host():
    clock = FakeClock()
    card, cpu = SteadyMeter(clock, 250.0), SteadyMeter(clock, 90.0, "rapl", "cpu")
    dram = SteadyMeter(clock, 10.0, "rapl", "dram")
    conditions = Conditions(sm_clock_mhz_min=1300.0, throttle_reasons=("sw_power_cap",))
    power = power_of_card(
        [reading(card, conditions=conditions), reading(cpu), reading(dram)],
        opened=Opened(meters=(card, cpu), absent={"wall": "no cable"}),
        idle={"accelerator": Idle(power_w=50.0, spread_w=0.5, windows=5, window_s=1.0)},
        images_per_s=1000.0,
    )
    assert power.meters == ("steady", "rapl")
    assert power.meters_absent == ("wall: no cable",)
    assert (power.energy_j, power.average_power_w, power.host_energy_j) == (500.0, 250.0, 200.0)
    assert (power.idle_power_w, power.idle_power_spread_w) == (50.0, 0.5)
    assert power.energy_per_image_j == pytest.approx(0.25)
    assert power.images_per_s_per_w == pytest.approx(4.0)
    assert power.images_per_s_per_w_above_idle == pytest.approx(5.0)
    assert (power.energy_method, power.sampling_period_s) == ("sampled", 0.1)
    assert power.energy_window_too_short is False
    assert (power.sm_clock_mhz_min, power.throttle_reasons) == (1300.0, ("sw_power_cap",))


def test_power_of_a_cpu_is_its_packages_and_dram():
    clock = FakeClock()
    cpu, dram = (SteadyMeter(clock, w, "rapl", d) for w, d in ((90.0, "cpu"), (10.0, "dram")))
    power = power_of_card(
        [reading(cpu), reading(dram)],
        idle={
            "cpu": Idle(power_w=30.0, spread_w=1.0, windows=5, window_s=1.0),
            "dram": Idle(power_w=5.0, spread_w=0.1, windows=5, window_s=1.0),
        },
        device_kind="cpu",
        images_per_s=100.0,
    )
    assert (power.energy_j, power.idle_power_w) == (200.0, 35.0)
    assert power.images_per_s_per_w_above_idle == pytest.approx(100 / 65)


def test_what_was_not_measured_is_empty():
    flat = flatten(power_of_card([], opened=Opened(absent={"nvml": "no driver"})))
    assert flat["meters_absent"] == ["nvml: no driver"]
    assert {k for k, v in flat.items() if v not in (None, [])} == {"meters_absent"}


def test_a_lost_card_leaves_no_energy_and_no_efficiency():
    card = SteadyMeter(FakeClock())
    lost = reading(card, energy_j=None, energy_by_device_j=(9.0, None), faults=("card 1 is lost",))
    power = power_of_card([lost])
    assert (power.energy_j, power.average_power_w, power.images_per_s_per_w) == (None,) * 3
    assert power.energy_by_device_j == ()
    assert power.meter_faults == ("card 1 is lost",)


def test_without_idle_power_nothing_is_above_idle():
    power = power_of_card([reading(SteadyMeter(FakeClock()))])
    assert power.images_per_s_per_w == pytest.approx(0.09)
    assert power.images_per_s_per_w_above_idle is None


@pytest.mark.parametrize("device_kind", ["cuda", "cpu"])
def test_a_meter_at_the_wall_is_a_figure_of_its_own(device_kind):
    """It sees the card and the packages too: added to them, they would count twice."""
    clock = FakeClock()
    card, cpu = SteadyMeter(clock, 250.0), SteadyMeter(clock, 90.0, "rapl", "cpu")
    wall = SteadyMeter(clock, 450.0, "wall", "system")
    power = power_of_card(
        [reading(card), reading(cpu), reading(wall)],
        device_kind=device_kind,
        idle={
            "accelerator": Idle(power_w=50.0, spread_w=0.5, windows=5, window_s=1.0),
            "cpu": Idle(power_w=30.0, spread_w=0.5, windows=5, window_s=1.0),
            "system": Idle(power_w=150.0, spread_w=2.0, windows=5, window_s=1.0),
        },
        images_per_s=900.0,
    )
    own_w = {"cuda": 250.0, "cpu": 90.0}[device_kind]
    assert (power.average_power_w, power.energy_j) == (own_w, 2 * own_w)
    assert (power.system_meter, power.system_power_w) == ("wall", 450.0)
    assert (power.system_energy_j, power.system_energy_uncertainty_j) == (900.0, 1.0)
    assert (power.system_idle_power_w, power.system_idle_power_spread_w) == (150.0, 2.0)
    assert power.system_images_per_s_per_w == pytest.approx(2.0)
    assert power.system_images_per_s_per_w_above_idle == pytest.approx(3.0)


def test_a_meter_at_the_wall_alone():
    """As on a CPU without RAPL: the devices' own power stays empty."""
    wall = SteadyMeter(FakeClock(), 200.0, "wall", "system")
    power = power_of_card([reading(wall, minimum_window_s=5.0)], device_kind="cpu")
    assert power.average_power_w is None
    assert power.energy_per_image_j is None
    assert power.system_images_per_s_per_w == pytest.approx(9 / 200)
    assert (power.energy_window_s, power.energy_window_minimum_s) == (2.0, 5.0)
    assert power.energy_window_too_short is True


def test_of_two_meters_of_the_whole_system_the_first_counts():
    clock = FakeClock()
    wall, ipmi = (SteadyMeter(clock, w, n, "system") for w, n in ((450.0, "wall"), (440.0, "ipmi")))
    power = power_of_card([reading(wall), reading(ipmi)])
    assert (power.system_meter, power.system_power_w) == ("wall", 450.0)


def test_meters_of_other_cards_add_up_and_so_does_their_idle_power():
    clock = FakeClock()
    meters = [SteadyMeter(clock, w, n) for w, n in ((100.0, "one"), (50.0, "other"))]
    idle = measure_idle(meters, clock, threaded=False)
    assert idle["accelerator"].power_w == pytest.approx(150)
    power = power_of_card([reading(meter) for meter in meters], idle=idle)
    assert (power.average_power_w, power.idle_power_w) == pytest.approx((150, 150))


def test_idle_power_needs_ten_periods_and_no_longer_window():
    clock = FakeClock()
    slow = SteadyMeter(clock)
    slow.sensor_period_s = 0.3
    assert measure_idle([slow], clock, threaded=False)["accelerator"].window_s == pytest.approx(3)
    assert measure_idle([SteadyMeter(clock)], clock, threaded=False)["accelerator"].window_s == 1


MEASURED = Conditions(
    sm_clock_mhz_min=1300.0,
    sm_clock_mhz_median=1350.0,
    temperature_start_c=60.0,
    temperature_max_c=82.0,
    throttle_reasons=("hw_thermal_slowdown",),
    memory_used_peak_gib=4.0,
)
AFTER = Conditions(
    sm_clock_mhz_min=1400.0,
    sm_clock_mhz_median=1450.0,
    memory_clock_mhz_min=3000.0,
    temperature_start_c=80.0,
    temperature_max_c=81.0,
    throttle_reasons=("sw_power_cap",),
    memory_used_peak_gib=5.0,
)


def test_an_energy_pass_gives_the_energy_and_hides_nothing_of_the_rounds():
    """A card that throttled while it was measured is not acquitted by the pass that followed."""
    card = SteadyMeter(FakeClock())
    short = seen(reading(card, window_s=0.2, conditions=MEASURED, faults=("1 sample failed",)))
    power = power_of_card([reading(card, window_s=12.0, conditions=AFTER)], rounds=short)
    assert (power.energy_j, power.energy_window_s) == (1200.0, 12.0)
    assert power.throttle_reasons == ("hw_thermal_slowdown", "sw_power_cap")
    assert (power.sm_clock_mhz_min, power.sm_clock_mhz_median) == (1300.0, 1350.0)
    assert power.memory_clock_mhz_min == 3000.0
    assert (power.temperature_start_c, power.temperature_max_c) == (60.0, 82.0)
    assert power.memory_used_peak_gib == 5.0
    assert power.meter_faults == ("1 sample failed",)


def test_a_window_that_nobody_extends_keeps_its_conditions_and_no_energy():
    card, wall = SteadyMeter(FakeClock()), SteadyMeter(FakeClock(), 300.0, "wall", "system")
    readings = [reading(card, window_s=0.5, conditions=MEASURED), reading(wall, window_s=5.0)]
    power = power_of_card(readings, images_per_s=None, flagged=False)
    assert power.temperature_max_c == 82.0
    assert power.metered_devices == ("thing",)
    assert power.energy_j is None
    assert power.average_power_w is None
    assert power.system_power_w == 300.0  # for it the window was long enough
    assert power.energy_window_too_short is False


def test_power_survives_the_record():
    power = power_of_card([reading(SteadyMeter(FakeClock()))])
    assert unflatten(Power, flatten(power)) == power


def page_meter():
    """The meter of docs/plugins.md, as a reader would copy it."""
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    section = page.split("### `benchrack_meters(")[1]
    source = section.split("```python\n")[1].split("```")[0]
    found = {}
    exec(compile(source, "docs/plugins.md", "exec"), found)
    return found


def test_the_meter_of_the_page_meters(tmp_path):
    clock = FakeClock()
    shown = tmp_path / "power_w"
    shown.write_text("230.5\n")
    meter = page_meter()["WallMeter"]([], clock, shown)
    with window([meter], clock, threaded=False) as metered:
        while clock() < 26.0:
            clock.sleep(max(1e-3, metered.sampler.sample_due()))
    (wall,) = metered.readings
    assert wall.domain == "system"
    assert wall.energy_j == pytest.approx(230.5 * wall.window_s)
    assert not wall.too_short


def test_hook_benchrack_meters():
    registry = load_registry()
    assert {"nvml", "rapl"} <= set(registry.meters)
    conftest = types.ModuleType("conftest")
    conftest.__file__ = "conftest.py"
    conftest.benchrack_meters = page_meter()["benchrack_meters"]
    wall = load_registry(conftests=[conftest]).meters["wall"]
    opened = open_meters([wall], [], FakeClock())
    assert "start the wall meter's daemon" in opened.absent["wall"]

"""The NVML meter against the fake: energy by counter and by sampling, conditions, and faults."""

from __future__ import annotations

import itertools

import pynvml
import pytest
from fakes import nvml
from fakes.power import FakeClock, PowerTrace, Sensor, idle_ramp_plateau

from benchrack.energy.metering import measure_idle, open_meters, window
from benchrack.errors import UnsupportedError
from benchrack.machine.nvml import throttle_reasons
from benchrack.plugins.meters.nvml import benchrack_meters, open_nvml, watch
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import minimum_window_s

ONE = (Device(kind="cuda", index=0),)


def cuda(count):
    return [Device(kind="cuda", index=i) for i in range(count)]


def run_for(seconds, clock, metered):
    """The load: time passes, and the sampler gets its turns."""
    until = clock() + seconds
    while clock() < until:
        clock.sleep(min(metered.sampler.sample_due() or 1e-3, until - clock()))


def metered(machine, devices, start_s, seconds):
    """The reading of a window that opens near `start_s`, and the window."""
    clock = machine.clock
    meter = open_nvml(devices, clock)
    clock.now_s = max(clock(), start_s)
    with window([meter], clock, threaded=False) as seen:
        run_for(seconds, clock, seen)
    meter.close()
    (reading,) = seen.readings
    return reading, seen


def truth(machine, seen, cards=None):
    return sum(c.trace.energy(seen.start_s, seen.stop_s) for c in cards or machine.cards)


@pytest.mark.parametrize("seconds", [1.0, 3.3, 20.0])
@pytest.mark.parametrize(
    ("machine", "method"),
    [
        (nvml.four_p4, "sampled"),
        (nvml.three_p40, "sampled"),
        (nvml.four_v100_sxm2, "counter"),
        (nvml.one_h200, "counter"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_energy_on_a_plateau_is_the_traces_integral(fake_nvml, machine, method, seconds):
    machine = machine()
    fake_nvml(machine)
    reading, seen = metered(machine, cuda(len(machine.cards)), 20.0, seconds)
    assert reading.method == method
    assert reading.energy_j == pytest.approx(truth(machine, seen), rel=0.005)
    assert reading.window_s == pytest.approx(seconds, abs=0.01)
    assert not reading.faults


@pytest.mark.parametrize("start_s", [9.8, 10.4, 70.0])
@pytest.mark.parametrize("machine", [nvml.four_p4, nvml.three_p40, nvml.four_v100_sxm2])
def test_uncertainty_covers_a_window_over_a_ramp(fake_nvml, machine, start_s):
    """Power moves under the window; the error is larger, and so is what is stated."""
    machine = machine()
    fake_nvml(machine)
    reading, seen = metered(machine, cuda(len(machine.cards)), start_s, 1.5)
    assert abs(reading.energy_j - truth(machine, seen)) <= reading.uncertainty_j


def test_several_cards_sum_and_are_named(fake_nvml):
    machine = nvml.four_p4()
    fake_nvml(machine)
    reading, seen = metered(machine, [*cuda(4)][2:], 20.0, 2.0)
    assert reading.devices == (
        "cuda:2 Tesla P4 00000000:AF:00.0",
        "cuda:3 Tesla P4 00000000:D8:00.0",
    )
    assert reading.energy_j == pytest.approx(sum(reading.energy_by_device_j))
    assert reading.energy_j == pytest.approx(truth(machine, seen, machine.cards[2:]), rel=0.005)


def test_a_card_is_found_by_its_uuid_whatever_cudas_order(fake_nvml):
    machine = nvml.three_p40()
    fake_nvml(machine)
    meter = open_nvml([Device(kind="cuda", index=0, uuid=machine.cards[2].uuid)], machine.clock)
    assert meter.devices == ("cuda:0 Tesla P40 00000000:D8:00.0",)


def test_counter_is_checked_by_sampling(fake_nvml):
    machine = nvml.four_v100_sxm2()
    fake_nvml(machine)
    reading, _ = metered(machine, cuda(4), 20.0, 2.0)
    assert reading.sampled_energy_j == pytest.approx(reading.energy_j, rel=0.01)


def test_sensor_period_is_observed_where_values_move(fake_nvml):
    machine = nvml.one_h200()
    fake_nvml(machine)
    meter = open_nvml(ONE, machine.clock)
    assert meter.sensor_period_s == pytest.approx(0.1, abs=0.003)
    assert minimum_window_s(meter) == pytest.approx(1.0, abs=0.03)


def test_sensor_period_is_assumed_where_power_rests(fake_nvml):
    """Idle power of the fake is constant: how often it is renewed can't be seen."""
    machine = nvml.three_p40()
    fake_nvml(machine)
    reading, _ = metered(machine, ONE, 20.0, 1.0)
    assert (reading.sensor_period_s, reading.sensor_period_observed) == (0.1, False)


def resting_until(load_s, seconds=60):
    """Power that rests, and from a time on moves with every hundredth of a second."""
    moving = ((load_s + t / 100, 150 + t % 7) for t in range(seconds * 100))
    return PowerTrace([(0.0, 50.0), (load_s, 50.0), *moving])


@pytest.mark.parametrize("period_s", [0.2, 0.3, 0.6])
def test_a_slow_sensor_is_observed_where_power_moves(fake_nvml, period_s):
    """Fewer ticks come than are waited for: the longest gap between two is on the safe side."""
    slow = Sensor(period_s=period_s, phase_s=0.07)
    machine = nvml.Machine(cards=[nvml.p40(trace=resting_until(0.0), sensor=slow)])
    fake_nvml(machine)
    meter = open_nvml(ONE, machine.clock)
    assert meter.sensor_period_s == pytest.approx(period_s, abs=0.006)
    assert minimum_window_s(meter) == pytest.approx(max(10.0, 25 * period_s), rel=0.02)


@pytest.mark.parametrize("period_s", [0.25, 1.0])
def test_a_slow_sensor_of_power_that_rested_is_recognised_under_load(fake_nvml, period_s):
    """The window that showed it is flagged, and the next is as long as it must be."""
    slow = Sensor(period_s=period_s, phase_s=0.07)
    machine = nvml.Machine(cards=[nvml.p40(trace=resting_until(10.0), sensor=slow)])
    fake_nvml(machine)
    clock = machine.clock
    meter = open_nvml(ONE, clock)
    assert meter.sensor_period_s == 0.1
    clock.now_s = 20.0
    with window([meter], clock, threaded=False) as seen:
        run_for(10.0, clock, seen)
    (reading,) = seen.readings
    assert not reading.sensor_period_observed
    assert reading.sensor_period_s == pytest.approx(period_s, rel=0.1)
    assert reading.too_short == (period_s > 0.4)
    assert minimum_window_s(meter) == reading.minimum_window_s


def test_power_that_hardly_moved_when_idle_is_not_taken_for_a_slow_sensor(fake_nvml):
    """One tick in 0.4 s, since the values between were equal; under load it is renewed in 20 ms."""
    flickering = [(t * 0.4 + d, 50.0 + t % 2) for t in range(25) for d in (0.0, 0.399)]
    load = zip(resting_until(10.0).times_s, resting_until(10.0).power_w, strict=True)
    machine = nvml.Machine(cards=[nvml.p40(trace=PowerTrace([*flickering, *list(load)[1:]]))])
    fake_nvml(machine)
    clock = machine.clock
    meter = open_nvml(ONE, clock)
    assert meter.sensor_period_s > 0.3
    clock.now_s = 20.0
    with window([meter], clock, threaded=False) as seen:
        run_for(1.0, clock, seen)
    assert (meter.sensor_period_s, seen.readings[0].sensor_period_observed) == (0.1, False)


def test_a_slow_counter_is_observed(fake_nvml):
    counter = Sensor(period_s=0.7, phase_s=0.1)
    machine = nvml.Machine(cards=[nvml.v100(0x1A, [], counter=counter)])
    fake_nvml(machine)
    reading, seen = metered(machine, ONE, 20.0, 8.0)
    assert (reading.sensor_period_s, reading.sensor_period_observed) == (
        pytest.approx(0.7, abs=0.01),
        True,
    )
    assert (
        abs(reading.energy_j - truth(machine, seen))
        <= reading.uncertainty_j
        < 0.01 * reading.energy_j
    )
    assert not reading.too_short


@pytest.mark.parametrize("error", ["INVALID_ARGUMENT", "UNKNOWN", "ARGUMENT_VERSION_MISMATCH"])
def test_a_driver_that_refuses_the_field_of_power_in_its_own_way(fake_nvml, error):
    """Whatever it answers, the function of old is asked."""
    machine = nvml.four_p4()
    fake = fake_nvml(machine)

    def refuse(handle, fields):
        raise pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{error}"))

    fake.nvmlDeviceGetFieldValues = refuse
    reading, seen = metered(machine, ONE, 20.0, 1.0)
    assert reading.energy_j == pytest.approx(truth(machine, seen, machine.cards[:1]), rel=0.005)


def test_sensor_period_of_moving_power_is_observed(fake_nvml):
    noisy = PowerTrace([(t / 100, 50 + t % 7) for t in range(300)])
    machine = nvml.Machine(cards=[nvml.p40(trace=noisy)])
    fake_nvml(machine)
    assert open_nvml(ONE, machine.clock).sensor_period_s == pytest.approx(0.02, abs=0.004)


def test_power_that_averages_a_second_needs_longer_windows(fake_nvml):
    """An A10-like card without counter and without the field of instantaneous power."""
    card = nvml.h200(capability=(8, 6), counter=None, instant=False)
    machine = nvml.Machine(cards=[card])
    fake_nvml(machine)
    meter = open_nvml(ONE, machine.clock)
    assert meter.method == "sampled"
    assert minimum_window_s(meter) == pytest.approx(27.5)


def test_instantaneous_power_is_preferred(fake_nvml):
    machine = nvml.one_h200()
    fake_nvml(machine)
    clock = machine.clock
    meter = open_nvml(ONE, clock)
    clock.now_s = 10.9  # late on the ramp, where the mean of a second lags by far
    with window([meter], clock, threaded=False) as seen:
        clock.sleep(0.05)
    (trace,) = seen.readings[0].traces
    assert trace.power_w[0] > 480


def test_a_load_that_repeats_at_the_sampling_rate_does_not_hide(fake_nvml):
    """Pulses of 25 of 50 ms: samples every 50 ms would see only one of the two powers."""
    knots = [
        (k * 0.05 + dt, p)
        for k in range(800)
        for dt, p in ((0.0, 60.0), (0.025, 60.0), (0.025, 20.0), (0.05, 20.0))
    ]
    card = nvml.p4(trace=PowerTrace(knots), sensor=Sensor(period_s=0.001))
    machine = nvml.Machine(cards=[card])
    fake_nvml(machine)
    reading, seen = metered(machine, ONE, 5.0, 20.0)
    assert reading.energy_j == pytest.approx(truth(machine, seen), rel=0.02)


def test_an_observed_sensor_is_late_by_half_its_period_on_average(fake_nvml):
    """The load begins with the window: the mean error over all phases of the sensor is small."""
    idle = [(0.0, 19.0)]  # rises, so that each tick shows
    trace = PowerTrace([*idle, (1.0, 20.0), (1.0, 70.0), (9.0, 70.0)])
    errors = []
    for phase in range(20):
        sensor = Sensor(period_s=0.1, phase_s=phase / 200)
        machine = nvml.Machine(cards=[nvml.p4(trace=trace, sensor=sensor)])
        fake_nvml(machine)
        reading, seen = metered(machine, ONE, 1.0, 2.0)
        assert reading.sensor_period_observed
        errors.append(reading.energy_j / truth(machine, seen) - 1)
    assert abs(sum(errors) / len(errors)) < 0.01  # 2 % if it were taken as it is shown


def test_ticks_are_dated_between_two_polls():
    clock = FakeClock()
    ticks, never, gone = watch(
        [lambda: int(clock() / 0.0963), lambda: 7, lambda: None], 3, clock, 0.5
    )
    assert [tick.energy_j for tick in ticks] == [0.001, 0.002, 0.003]
    for tick, when in zip(ticks, (0.0963, 0.1926, 0.2889), strict=True):
        assert abs(tick.time_s - when) <= tick.error_s + 1e-9
        assert tick.error_s == pytest.approx(0.0025)
    assert (never, gone) == ([], [])
    assert clock() == pytest.approx(0.5, abs=0.006)


def test_reasons_add_up_over_the_window(fake_nvml):
    """Idle at its start, at the power limit later: both are told."""
    machine = nvml.Machine(cards=[nvml.p4(throttle=0x4)])
    fake_nvml(machine)
    reading, _ = metered(machine, ONE, 9.0, 3.0)
    assert reading.conditions.throttle_reasons == ("gpu_idle", "sw_power_cap")


def test_a_short_window_is_flagged(fake_nvml):
    machine = nvml.one_h200()
    fake_nvml(machine)
    short, _ = metered(machine, ONE, 20.0, 0.3)
    machine.clock.now_s = 0.0
    long, _ = metered(machine, ONE, 20.0, 1.5)
    assert short.too_short
    assert not long.too_short


def test_conditions_are_recorded(fake_nvml):
    trace = idle_ramp_plateau(7.0, 62.0)
    throttle = (
        pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonSwThermalSlowdown
    )
    machine = nvml.Machine(
        cards=[
            nvml.p4(0x3B, trace=trace, memory_used_mib=1024),
            nvml.p4(0x5E, trace=trace, memory_used_mib=2048, throttle=throttle, sm_clock_mhz=885),
        ]
    )
    fake_nvml(machine)
    reading, _ = metered(machine, cuda(2), 20.0, 3.0)
    seen = reading.conditions
    assert (seen.sm_clock_mhz_min, seen.sm_clock_mhz_median) == (885, (885 + 1063) / 2)
    assert (seen.memory_clock_mhz_min, seen.memory_clock_mhz_median) == (3003, 3003)
    assert (seen.temperature_start_c, seen.temperature_max_c) == (75, 75)
    assert seen.throttle_reasons == ("sw_power_cap", "sw_thermal_slowdown")
    assert seen.power_limit_w == 75.0
    assert seen.memory_used_peak_gib == 2.0
    assert seen.utilisation_median == 1.0


def test_throttle_reasons_are_read_by_their_old_name(fake_nvml):
    """Drivers before 535 know the function as ...ClocksThrottleReasons."""
    machine = nvml.four_p4()
    machine.missing = ("nvmlDeviceGetCurrentClocksEventReasons",)
    fake_nvml(machine)
    reading, _ = metered(machine, ONE, 0.0, 1.0)
    assert reading.conditions.throttle_reasons == ("gpu_idle",)


def test_every_throttle_bit_of_the_package_has_its_name():
    bits = {
        value
        for name, value in vars(pynvml).items()
        if name.startswith(("nvmlClocksEventReason", "nvmlClocksThrottleReason"))
        and not name.endswith(("All", "None"))
    }
    names = [throttle_reasons(bit) for bit in sorted(bits)]
    assert not any(name.startswith("unknown") for name in itertools.chain(*names))
    assert throttle_reasons(sum(bits)) == tuple(itertools.chain(*names))
    assert throttle_reasons(0x8004) == ("sw_power_cap", "unknown_0x8000")


@pytest.mark.parametrize("phase_s", [0.005, 0.015], ids=["busy", "pause"])
def test_a_sensor_in_step_with_a_load_that_pauses_is_hardly_trusted(fake_nvml, phase_s):
    """60 W for 12 of 20 ms, else 30 W, and a sensor that is renewed every 20 ms: it shows one of
    them for as long as one may look, and NVML counts kernels in 60 % of the time."""
    knots = [(0.0, 7.0), (4.0, 7.0)]
    for k in range(200, 1000):
        knots += [(k / 50, 30.0), (k / 50, 60.0), (k / 50 + 0.012, 60.0), (k / 50 + 0.012, 30.0)]
    sensor = Sensor(period_s=0.02, phase_s=phase_s)
    machine = nvml.Machine(cards=[nvml.p4(0x3B, trace=PowerTrace(knots), sensor=sensor)])
    fake_nvml(machine)
    reading, seen = metered(machine, ONE, 5.0, 10.0)
    error_j = abs(reading.energy_j - truth(machine, seen))
    assert error_j > 0.2 * truth(machine, seen)
    assert error_j <= reading.uncertainty_j


def test_a_single_sample_of_a_card_that_pauses_is_no_fault(fake_nvml):
    """All others failed: what is left is told, with an uncertainty to match."""
    card = nvml.p4(0x3B, trace=PowerTrace([(0.0, 7.0), (1.0, 60.0)]))
    machine = nvml.Machine(cards=[card])
    fake_nvml(machine)
    (metered_card,) = open_nvml(ONE, machine.clock).cards
    metered_card.sample()
    metered_card.seen["power_limit"] = []
    found = metered_card.result("sampled", 0.0, 1.0)
    assert found.energy_j is not None
    assert found.uncertainty_j >= found.energy_j


def test_a_card_that_disappears_is_reported_and_keeps_what_was_sampled(fake_nvml):
    machine = nvml.lost_card(at_s=22.0)
    fake_nvml(machine)
    reading, seen = metered(machine, cuda(2), 20.0, 4.0)
    assert reading.energy_j is None
    assert reading.average_power_w is None
    kept, lost = reading.energy_by_device_j
    assert kept == pytest.approx(truth(machine, seen, machine.cards[:1]), rel=0.005)
    assert lost is None
    (fault,) = reading.faults
    assert "00000000:5E:00.0" in fault
    assert "GPU is lost" in fault
    assert 1.8 < reading.traces[1].times_s[-1] < 2.0
    assert reading.traces[0].times_s[-1] == pytest.approx(4.0, abs=0.01)


def test_a_lost_card_stays_lost(fake_nvml):
    machine = nvml.lost_card(at_s=22.0)
    fake_nvml(machine)
    meter = open_nvml(cuda(2), machine.clock)
    machine.clock.now_s = 30.0
    for _ in range(2):
        with window([meter], machine.clock, threaded=False) as seen:
            run_for(1.0, machine.clock, seen)
        assert seen.readings[0].energy_j is None
        assert "GPU is lost" in seen.readings[0].faults[0]
    meter.close()


def test_a_counter_that_is_lost_gives_no_energy(fake_nvml):
    machine = nvml.Machine(cards=[nvml.v100(0x1A, [], lost_at_s=21.0)])
    fake_nvml(machine)
    reading, _ = metered(machine, ONE, 20.0, 2.0)
    assert reading.energy_j is None
    assert "GPU is lost" in reading.faults[0]


def test_samples_that_fail_for_a_while_are_counted(fake_nvml):
    machine = nvml.four_p4()
    fake_nvml(machine)
    clock = machine.clock
    meter = open_nvml(ONE, clock)
    clock.now_s = 20.0
    with window([meter], clock, threaded=False) as seen:
        run_for(1.0, clock, seen)
        machine.error = pynvml.NVML_ERROR_TIMEOUT
        run_for(0.2, clock, seen)
        machine.error = None
        run_for(1.0, clock, seen)
    (reading,) = seen.readings
    assert reading.energy_j == pytest.approx(62.0 * seen.readings[0].window_s, rel=0.01)
    assert "samples failed: " in reading.faults[0]
    assert "Timeout" in reading.faults[0]


def test_a_counter_without_power_readings_still_counts(fake_nvml):
    machine = nvml.Machine(cards=[nvml.v100(0x1A, [], power_supported=False)])
    fake_nvml(machine)
    reading, seen = metered(machine, ONE, 20.0, 2.0)
    assert abs(reading.energy_j - truth(machine, seen)) <= reading.uncertainty_j
    assert reading.energy_j == pytest.approx(truth(machine, seen), rel=0.02)
    assert reading.sampled_energy_j is None


def test_a_counter_that_rests_is_dated_to_its_period(fake_nvml):
    """No two ticks within the limit: all of it is assumed, and what is stated still covers."""
    counter = Sensor(period_s=9.0, phase_s=8.5)
    machine = nvml.Machine(cards=[nvml.v100(0x1A, [], counter=counter)])
    fake_nvml(machine)
    reading, seen = metered(machine, ONE, 30.1, 0.2)
    assert (reading.sensor_period_s, reading.sensor_period_observed) == (2.0, False)
    assert reading.too_short
    assert abs(reading.energy_j - truth(machine, seen)) <= reading.uncertainty_j


@pytest.mark.parametrize("late_s", [1e-4, 1e-3, 3e-3, 6e-3])
def test_a_tick_right_after_the_window_is_not_missed(fake_nvml, late_s):
    """A call takes 2 ms, and the counter is renewed while it is read at the edge, or next."""
    machine = nvml.one_h200()
    fake = fake_nvml(machine)
    clock, read = machine.clock, fake.nvmlDeviceGetTotalEnergyConsumption

    def slowly(handle):
        shown = read(handle)
        clock.sleep(0.002)
        return shown

    fake.nvmlDeviceGetTotalEnergyConsumption = slowly
    meter = open_nvml(ONE, clock)
    clock.now_s = 20.0
    with window([meter], clock, threaded=False) as seen:
        run_for(22.047 - late_s - clock(), clock, seen)  # its phase, and a multiple of its period
    (reading,) = seen.readings
    assert reading.energy_j == pytest.approx(truth(machine, seen), rel=0.005)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (nvml.no_driver, "no NVIDIA driver is installed"),
        (nvml.driver_mismatch, "different driver versions"),
        (nvml.no_permission, "this user may not ask"),
        (nvml.unknown_card, "tells neither its power nor its energy"),
        (nvml.no_card, "Invalid Argument"),
    ],
    ids=lambda value: getattr(value, "__name__", "words"),
)
def test_a_meter_that_may_not_be_read_says_why(fake_nvml, machine, words):
    machine = machine()
    fake = fake_nvml(machine)
    opened = open_meters(benchrack_meters(), ONE, machine.clock)
    assert opened.meters == ()
    assert words in opened.absent["nvml"]
    assert fake.library.users == 0


def test_a_run_without_cards_does_not_ask_nvml(fake_nvml):
    fake = fake_nvml(nvml.four_p4())
    with pytest.raises(UnsupportedError, match="no NVIDIA card"):
        open_nvml([Device(kind="cpu")], nvml.FakeClock())
    assert fake.library.users == 0


def test_a_card_split_by_mig_is_refused(fake_nvml):
    machine = nvml.Machine(cards=[nvml.h200(mig=(1, 1))])
    fake = fake_nvml(machine)
    with pytest.raises(UnsupportedError, match="MIG off"):
        open_nvml(ONE, machine.clock)
    assert fake.library.users == 0


def test_close_gives_nvml_back(fake_nvml):
    machine = nvml.four_p4()
    fake = fake_nvml(machine)
    meter = open_nvml(ONE, machine.clock)
    assert fake.library.users == 1
    meter.close()
    assert fake.library.users == 0


@pytest.mark.parametrize("machine", [nvml.four_p4, nvml.four_v100_sxm2, nvml.one_h200])
def test_idle_power_has_its_spread(fake_nvml, machine):
    machine = machine()
    fake_nvml(machine)
    devices = cuda(len(machine.cards))
    meter = open_nvml(devices, machine.clock)
    idle = measure_idle([meter], machine.clock, threaded=False)["accelerator"]
    assert idle.power_w == pytest.approx(sum(c.trace.power(0) for c in machine.cards), rel=0.005)
    assert 0 <= idle.spread_w < 0.01 * idle.power_w
    assert idle.windows == 5
    assert machine.clock() < 10.0


def test_idle_power_that_moves_has_a_spread(fake_nvml):
    trace = PowerTrace([(0.0, 10.0), (10.0, 20.0)])
    machine = nvml.Machine(cards=[nvml.p4(trace=trace)])
    fake_nvml(machine)
    meter = open_nvml(ONE, machine.clock)
    idle = measure_idle([meter], machine.clock, threaded=False)["accelerator"]
    assert idle.spread_w == pytest.approx(1.58, abs=0.1)  # of 1, 2, 3, 4, 5

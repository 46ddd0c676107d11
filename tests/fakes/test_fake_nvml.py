"""The fake NVML is like the real `pynvml`: names, arguments, structures, errors, units."""

from __future__ import annotations

import inspect
import random
import sys

import pynvml
import pytest
from fakes import nvml
from fakes.power import TRACES, FakeClock, PowerTrace, Sensor, idle_ramp_plateau, recorded


def started(machine):
    fake = nvml.module(machine)
    fake.nvmlInit()
    return fake


def functions():
    return [name for name in vars(nvml._Library) if name.startswith("nvml")]


@pytest.mark.parametrize("name", functions())
def test_each_function_has_the_real_ones_name_and_arguments(name):
    ours = list(inspect.signature(getattr(nvml._Library, name)).parameters)[1:]
    theirs = list(inspect.signature(getattr(pynvml, name)).parameters)
    assert ours == theirs


def test_constants_structures_and_errors_are_the_real_ones():
    fake = nvml.module(nvml.four_p4())
    assert fake.NVML_CLOCK_SM == pynvml.NVML_CLOCK_SM
    assert fake.NVMLError_NotSupported is pynvml.NVMLError_NotSupported
    assert fake.NVMLError is pynvml.NVMLError


def test_the_rest_is_a_function_that_this_driver_lacks():
    fake = started(nvml.four_p4())
    with pytest.raises(pynvml.NVMLError_FunctionNotFound, match="Function Not Found"):
        fake.nvmlDeviceGetFanSpeed(fake.nvmlDeviceGetHandleByIndex(0))


def test_the_fixture_replaces_the_module_and_gives_it_back(fake_nvml):
    fake = fake_nvml(nvml.four_p4())
    assert sys.modules["pynvml"] is fake
    import pynvml as imported

    assert imported.library.machine.cards[0].name == "Tesla P4"


def test_before_init_everything_is_uninitialized():
    fake = nvml.module(nvml.four_p4())
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        fake.nvmlDeviceGetCount()
    fake.nvmlInit()
    fake.nvmlInit()
    fake.nvmlShutdown()
    assert fake.nvmlDeviceGetCount() == 4
    fake.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        fake.nvmlDeviceGetCount()


def test_values_have_the_types_of_the_real_ones():
    fake = started(nvml.one_h200())
    handle = fake.nvmlDeviceGetHandleByIndex(0)
    assert isinstance(fake.nvmlDeviceGetName(handle), str)
    assert isinstance(fake.nvmlDeviceGetPowerUsage(handle), int)
    assert isinstance(fake.nvmlDeviceGetPciInfo(handle), pynvml.nvmlPciInfo_t)
    assert fake.nvmlDeviceGetPciInfo(handle).busId == "00000000:19:00.0"
    assert fake.nvmlDeviceGetPciInfo(handle).pciDeviceId == 0x233510DE
    assert fake.nvmlDeviceGetEccMode(handle) == [1, 1]
    assert fake.nvmlDeviceGetMemoryInfo(handle).total == 143771 << 20
    assert fake.nvmlDeviceGetUtilizationRates(handle).gpu == 0
    assert fake.nvmlDeviceGetCudaComputeCapability(handle) == (9, 0)


def test_power_is_in_milliwatts_and_energy_in_millijoules():
    machine = nvml.four_v100_sxm2()
    fake = started(machine)
    handle = fake.nvmlDeviceGetHandleByIndex(0)
    machine.clock.now_s = 20.0
    assert fake.nvmlDeviceGetPowerUsage(handle) == 270_000
    before = fake.nvmlDeviceGetTotalEnergyConsumption(handle)
    machine.clock.now_s = 30.0
    assert fake.nvmlDeviceGetTotalEnergyConsumption(handle) - before == pytest.approx(2_700_000)
    assert fake.nvmlDeviceGetEnforcedPowerLimit(handle) == 300_000


def test_pascal_has_no_energy_counter_no_mig_and_no_nvlink():
    fake = started(nvml.four_p4())
    handle = fake.nvmlDeviceGetHandleByIndex(0)
    for call in (
        lambda: fake.nvmlDeviceGetTotalEnergyConsumption(handle),
        lambda: fake.nvmlDeviceGetMigMode(handle),
        lambda: fake.nvmlDeviceGetNvLinkState(handle, 0),
    ):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call()


def test_fields_answer_one_by_one():
    """An unsupported field is no exception; its own return code says so."""
    fields = [pynvml.NVML_FI_DEV_POWER_INSTANT, pynvml.NVML_FI_DEV_POWER_AVERAGE]
    hopper, pascal = (started(m) for m in (nvml.one_h200(), nvml.four_p4()))
    now, average = hopper.nvmlDeviceGetFieldValues(hopper.nvmlDeviceGetHandleByIndex(0), fields)
    assert (now.nvmlReturn, now.value.uiVal) == (pynvml.NVML_SUCCESS, 76_000)
    assert average.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
    (old, _) = pascal.nvmlDeviceGetFieldValues(pascal.nvmlDeviceGetHandleByIndex(0), fields)
    assert old.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_handles_by_uuid_and_bus():
    machine = nvml.three_p40()
    fake = started(machine)
    handle = fake.nvmlDeviceGetHandleByUUID(machine.cards[1].uuid)
    assert fake.nvmlDeviceGetIndex(handle) == 1
    handle = fake.nvmlDeviceGetHandleByPciBusId("00000000:D8:00.0")
    assert fake.nvmlDeviceGetIndex(handle) == 2
    with pytest.raises(pynvml.NVMLError_NotFound):
        fake.nvmlDeviceGetHandleByUUID("GPU-nobody")
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvmlDeviceGetHandleByIndex(3)


def test_nvlink_of_four_cards_is_a_mesh():
    fake = started(nvml.four_v100_sxm2())
    handle = fake.nvmlDeviceGetHandleByIndex(0)
    ranks = [fake.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).bus for link in range(6)]
    assert ranks == [0x1C, 0x1C, 0x1D, 0x1D, 0x1E, 0x1E]
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvmlDeviceGetNvLinkState(handle, 6)


def test_processes_are_told():
    fake = started(nvml.Machine(cards=[nvml.p4(processes=((4711, 3 << 30),))]))
    (process,) = fake.nvmlDeviceGetComputeRunningProcesses(fake.nvmlDeviceGetHandleByIndex(0))
    assert (process.pid, process.usedGpuMemory) == (4711, 3 << 30)


def test_a_card_falls_off_the_bus_half_way():
    machine = nvml.lost_card(at_s=20.0)
    fake = started(machine)
    handles = [fake.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    machine.clock.now_s = 21.0
    assert fake.nvmlDeviceGetPowerUsage(handles[0]) == 62_000
    with pytest.raises(pynvml.NVMLError_GpuIsLost, match="GPU is lost"):
        fake.nvmlDeviceGetPowerUsage(handles[1])


@pytest.mark.parametrize(
    ("machine", "error"),
    [
        (nvml.driver_mismatch, pynvml.NVMLError_LibRmVersionMismatch),
        (nvml.no_driver, pynvml.NVMLError_LibraryNotFound),
    ],
)
def test_machines_on_which_nvml_does_not_start(machine, error):
    with pytest.raises(error):
        started(machine())


def test_without_permission_cards_are_counted_and_not_told():
    fake = started(nvml.no_permission())
    assert fake.nvmlDeviceGetCount() == 1
    with pytest.raises(pynvml.NVMLError_NoPermission):
        fake.nvmlDeviceGetHandleByIndex(0)


@pytest.mark.parametrize("machine", nvml.MACHINES, ids=lambda machine: machine.__name__)
def test_every_machine_can_be_built(machine):
    assert nvml.module(machine()).nvmlInit


def test_the_integral_of_a_trace_is_exact():
    """Idle 10 W for 10 s, a ramp to 110 W in 2 s, 8 s there, and down in 1 s."""
    trace = idle_ramp_plateau(10, 110, idle_s=10, ramp_s=2, plateau_s=8, fall_s=1)
    assert trace.energy(0, 21) == pytest.approx(100 + 120 + 880 + 60)
    assert trace.energy(10.5, 11.5) == pytest.approx(60)
    assert trace.energy(-5, 0) == pytest.approx(50)
    assert trace.energy(21, 25) == pytest.approx(40)
    assert [trace.power(t) for t in (-1, 5, 11, 15, 20.5, 30)] == [10, 10, 60, 110, 60, 10]


def test_the_integral_of_random_traces_is_that_of_a_fine_sum():
    rng = random.Random(3)
    times = sorted(rng.uniform(0, 10) for _ in range(40))
    trace = PowerTrace([(t, rng.uniform(10, 200)) for t in times])
    a, b, n = 1.234, 8.765, 20_000
    step = (b - a) / n
    fine = sum(trace.power(a + (k + 0.5) * step) for k in range(n)) * step
    assert trace.energy(a, b) == pytest.approx(fine, rel=1e-5)


def test_a_step_is_two_knots_at_one_time():
    trace = PowerTrace([(0, 10), (1, 10), (1, 50), (2, 50)])
    assert [trace.power(t) for t in (0.999, 1.0, 1.5)] == pytest.approx([10, 50, 50])
    assert trace.energy(0, 2) == pytest.approx(60)


def test_a_sensor_holds_its_value_for_a_period():
    trace = PowerTrace([(0, 0), (10, 1000)])
    sensor = Sensor(period_s=0.1, phase_s=0.03)
    assert [sensor.power(trace, t) for t in (1.029, 1.03, 1.1, 1.129, 1.13)] == pytest.approx(
        [93, 103, 103, 103, 113]
    )


def test_a_sensor_averages():
    trace = PowerTrace([(0, 0), (1, 0), (1, 100), (9, 100)])
    assert Sensor(period_s=0.1, averaging_s=1.0).power(trace, 1.34) == pytest.approx(30)


def test_the_recorded_trace_is_read():
    trace = recorded(TRACES / "tesla-v100-sxm2-16gb.csv")
    assert trace.power(0.5) == pytest.approx(68.9, abs=0.1)
    assert trace.energy(2, 4) / 2 == pytest.approx(164.3, abs=0.5)


def test_the_clock_moves_when_somebody_sleeps():
    clock = FakeClock(5.0)
    clock.sleep(0.5)
    clock.advance(1.0)
    assert clock() == 6.5

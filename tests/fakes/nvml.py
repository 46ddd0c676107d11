"""A faithful fake of NVML at the boundary of the `pynvml` module (nvidia-ml-py).

`module(machine)` is a module whose constants, structures and exceptions are the real package's,
and whose functions answer for a machine made of `Card`s: same names, arguments, units and errors.
What the fake does not know raises `NVMLError_FunctionNotFound`, as an older driver does.
The machines of the tests stand at the end.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml as real
from fakes.power import FakeClock, PowerTrace, Sensor, idle_ramp_plateau

MIB = 1 << 20
PASCAL, VOLTA, HOPPER = (
    real.NVML_DEVICE_ARCH_PASCAL,
    real.NVML_DEVICE_ARCH_VOLTA,
    real.NVML_DEVICE_ARCH_HOPPER,
)


@dataclass(frozen=True, kw_only=True)
class Card:
    """One card. `counter` is None where there is no energy counter (before Volta).

    `lost_at_s`: from then on every call raises GPU_IS_LOST. `instant` says whether the driver
    knows the field of instantaneous power, `power_supported` whether it tells power at all.
    """

    name: str
    pci_device: int
    bus: int
    capability: tuple[int, int]
    architecture: int
    memory_mib: int
    power_limit_w: float
    trace: PowerTrace
    sensor: Sensor = field(default_factory=Sensor)
    counter: Sensor | None = None
    instant: bool = False
    power_supported: bool = True
    sm_clock_mhz: int = 1000
    boost_clock_mhz: int = 1000
    memory_clock_mhz: int = 3000
    pcie: tuple[int, int, int, int] = (3, 3, 16, 16)  # generation now, at most; width now, at most
    ecc: tuple[int, int] | None = (1, 1)
    mig: tuple[int, int] | None = None
    nvlinks: tuple[int | None, ...] = ()  # the bus of the peer behind each link, None: inactive
    persistence: int = 1
    vbios: str = "86.04.8C.00.01"
    throttle: int = 0
    memory_used_mib: int = 500
    idle_temperature_c: int = 35
    processes: tuple[tuple[int, int], ...] = ()  # (process id, bytes)
    lost_at_s: float = float("inf")

    @property
    def uuid(self) -> str:
        return f"GPU-{self.pci_device:08x}-0000-4000-8000-{self.bus:012x}"


@dataclass(kw_only=True)
class Machine:
    """What NVML finds. `init_error` is raised by nvmlInit, `error` by each call on a card."""

    cards: Sequence[Card] = ()
    driver: str = "570.86.15"
    cuda: int = 12080
    clock: FakeClock = field(default_factory=FakeClock)
    init_error: int | None = None
    error: int | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Handle:
    """Stands for the opaque device pointer."""

    index: int


class _Library:
    """The functions, as methods of the name that `pynvml` gives them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.users = 0
        self.calls: list[str] = []

    # the library

    def nvmlInit(self) -> None:
        self.nvmlInitWithFlags(0)

    def nvmlInitWithFlags(self, flags: int) -> None:
        if self.machine.init_error is not None:
            raise real.NVMLError(self.machine.init_error)
        self.users += 1

    def nvmlShutdown(self) -> None:
        self._initialised()
        self.users -= 1

    def _initialised(self) -> None:
        if not self.users:
            raise real.NVMLError(real.NVML_ERROR_UNINITIALIZED)

    def nvmlSystemGetDriverVersion(self) -> str:
        self._initialised()
        return self.machine.driver

    def nvmlSystemGetNVMLVersion(self) -> str:
        self._initialised()
        return f"12.{self.machine.driver}"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        self._initialised()
        return self.machine.cuda

    nvmlSystemGetCudaDriverVersion = nvmlSystemGetCudaDriverVersion_v2

    # finding cards

    def nvmlDeviceGetCount(self) -> int:
        self._initialised()
        return len(self.machine.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> _Handle:
        self._initialised()
        if not 0 <= index < len(self.machine.cards):
            raise real.NVMLError(real.NVML_ERROR_INVALID_ARGUMENT)
        handle = _Handle(index)
        self._card(handle)
        return handle

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> _Handle:
        return self._find(lambda card: card.uuid == uuid)

    def nvmlDeviceGetHandleByPciBusId(self, pciBusId: str) -> _Handle:
        return self._find(lambda card: _bus_id(card.bus) == pciBusId)

    def _find(self, wanted: Callable[[Card], bool]) -> _Handle:
        self._initialised()
        for index, card in enumerate(self.machine.cards):
            if wanted(card):
                return _Handle(index)
        raise real.NVMLError(real.NVML_ERROR_NOT_FOUND)

    def _card(self, handle: _Handle) -> Card:
        self._initialised()
        if self.machine.error is not None:
            raise real.NVMLError(self.machine.error)
        card = self.machine.cards[handle.index]
        if self.machine.clock() >= card.lost_at_s:
            raise real.NVMLError(real.NVML_ERROR_GPU_IS_LOST)
        return card

    # what a card is

    def nvmlDeviceGetIndex(self, handle: _Handle) -> int:
        self._card(handle)
        return handle.index

    def nvmlDeviceGetName(self, handle: _Handle) -> str:
        return self._card(handle).name

    def nvmlDeviceGetUUID(self, handle: _Handle) -> str:
        return self._card(handle).uuid

    def nvmlDeviceGetPciInfo_v3(self, handle: _Handle) -> Any:
        card = self._card(handle)
        return _pci_info(card.bus, card.pci_device << 16 | 0x10DE)

    def nvmlDeviceGetPciInfo(self, handle: _Handle) -> Any:
        return self.nvmlDeviceGetPciInfo_v3(handle)

    def nvmlDeviceGetCudaComputeCapability(self, handle: _Handle) -> tuple[int, int]:
        return self._card(handle).capability

    def nvmlDeviceGetArchitecture(self, device: _Handle) -> int:
        return self._card(device).architecture

    def nvmlDeviceGetVbiosVersion(self, handle: _Handle) -> str:
        return self._card(handle).vbios

    def nvmlDeviceGetEccMode(self, handle: _Handle) -> list[int]:
        return list(_supported(self._card(handle).ecc))

    def nvmlDeviceGetMigMode(self, device: _Handle) -> list[int]:
        return list(_supported(self._card(device).mig))

    def nvmlDeviceGetPersistenceMode(self, handle: _Handle) -> int:
        return self._card(handle).persistence

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: _Handle) -> int:
        return self._card(handle).pcie[0]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: _Handle) -> int:
        return self._card(handle).pcie[1]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: _Handle) -> int:
        return self._card(handle).pcie[2]

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: _Handle) -> int:
        return self._card(handle).pcie[3]

    def nvmlDeviceGetNvLinkState(self, device: _Handle, link: int) -> int:
        links = self._card(device).nvlinks
        if not links:
            raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
        if not 0 <= link < len(links):
            raise real.NVMLError(real.NVML_ERROR_INVALID_ARGUMENT)
        return int(links[link] is not None)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: _Handle, link: int) -> Any:
        if not self.nvmlDeviceGetNvLinkState(device, link):
            raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
        bus = self._card(device).nvlinks[link]
        assert bus is not None
        return _pci_info(bus, 0)

    # limits and clocks

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: _Handle) -> int:
        return round(self._card(handle).power_limit_w * 1000)

    def nvmlDeviceGetPowerManagementLimit(self, handle: _Handle) -> int:
        return self.nvmlDeviceGetEnforcedPowerLimit(handle)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: _Handle) -> int:
        return self.nvmlDeviceGetEnforcedPowerLimit(handle)

    def nvmlDeviceGetClockInfo(self, handle: _Handle, type: int) -> int:
        card = self._card(handle)
        if type == real.NVML_CLOCK_MEM:
            return card.memory_clock_mhz
        return card.sm_clock_mhz

    def nvmlDeviceGetMaxClockInfo(self, handle: _Handle, type: int) -> int:
        card = self._card(handle)
        return card.memory_clock_mhz if type == real.NVML_CLOCK_MEM else card.boost_clock_mhz

    def nvmlDeviceGetApplicationsClock(self, handle: _Handle, type: int) -> int:
        return self.nvmlDeviceGetMaxClockInfo(handle, type)

    def nvmlDeviceGetDefaultApplicationsClock(self, handle: _Handle, type: int) -> int:
        return self.nvmlDeviceGetMaxClockInfo(handle, type)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: _Handle) -> int:
        card = self._card(handle)
        idle = real.nvmlClocksEventReasonGpuIdle if self._busy(card) < 0.02 else 0
        return card.throttle | idle

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons

    # what it does now

    def _busy(self, card: Card) -> float:
        """0 at the least power of the trace, 1 at the most: drives the temperature."""
        least, most = min(card.trace.power_w), max(card.trace.power_w)
        now = card.trace.power(self.machine.clock())
        return (now - least) / (most - least) if most > least else 0.0

    def nvmlDeviceGetPowerUsage(self, handle: _Handle) -> int:
        card = self._card(handle)
        if not card.power_supported:
            raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
        return round(1000 * card.sensor.power(card.trace, self.machine.clock()))

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: _Handle) -> int:
        card = self._card(handle)
        if card.counter is None:
            raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
        return round(1000 * card.trace.energy(-1000.0, card.counter.tick(self.machine.clock())))

    def nvmlDeviceGetFieldValues(self, handle: _Handle, fieldIds: Sequence[int]) -> Any:
        card = self._card(handle)
        values = (real.c_nvmlFieldValue_t * len(fieldIds))()
        for value, field_id in zip(values, fieldIds, strict=True):
            value.fieldId = field_id
            if field_id == real.NVML_FI_DEV_POWER_INSTANT and card.instant:
                now = dataclasses.replace(card.sensor, averaging_s=0.0)
                power_w = now.power(card.trace, self.machine.clock())
                value.valueType = real.NVML_VALUE_TYPE_UNSIGNED_INT
                value.value.uiVal = round(1000 * power_w)
            else:
                value.nvmlReturn = real.NVML_ERROR_NOT_SUPPORTED
        return values

    def nvmlDeviceGetTemperature(self, handle: _Handle, sensor: int) -> int:
        card = self._card(handle)
        return card.idle_temperature_c + round(40 * self._busy(card))

    def nvmlDeviceGetUtilizationRates(self, handle: _Handle) -> Any:
        """The share of the last sixth of a second (NVML: 1/6 to 1 s) with a kernel running, which
        is one where the power is above the middle of the trace's range."""
        trace, now_s = self._card(handle).trace, self.machine.clock()
        middle_w = (min(trace.power_w) + max(trace.power_w)) / 2
        busy = round(100 * trace.share_above(middle_w, now_s - 1 / 6, now_s))
        return real.c_nvmlUtilization_t(gpu=busy, memory=busy // 2)

    def nvmlDeviceGetMemoryInfo(self, handle: _Handle, version: int | None = None) -> Any:
        card = self._card(handle)
        used = card.memory_used_mib if self._busy(card) > 0.5 else 10
        total = card.memory_mib
        return real.c_nvmlMemory_t(total=total * MIB, free=(total - used) * MIB, used=used * MIB)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: _Handle) -> list[Any]:
        return [
            real.nvmlFriendlyObject(
                {"pid": pid, "usedGpuMemory": used, "gpuInstanceId": 0, "computeInstanceId": 0}
            )
            for pid, used in self._card(handle).processes
        ]


def _supported(value: tuple[int, int] | None) -> tuple[int, int]:
    if value is None:
        raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
    return value


def _bus_id(bus: int) -> str:
    return f"00000000:{bus:02X}:00.0"


def _pci_info(bus: int, device_id: int) -> Any:
    return real.nvmlPciInfo_t(
        busIdLegacy=f"0000:{bus:02X}:00.0".encode(),
        busId=_bus_id(bus).encode(),
        domain=0,
        bus=bus,
        device=0,
        pciDeviceId=device_id,
        pciSubSystemId=0,
    )


def module(machine: Machine) -> Any:
    """A module to put into `sys.modules["pynvml"]`; `module.library` is what stands behind it."""
    fake: Any = types.ModuleType("pynvml")
    library = _Library(machine)
    for name, value in vars(real).items():
        if not name.startswith("nvml") or not callable(value) or isinstance(value, type):
            setattr(fake, name, value)
        elif name in machine.missing or not hasattr(library, name):
            setattr(fake, name, _absent)
        else:
            setattr(fake, name, getattr(library, name))
    fake.library = library
    return fake


def _absent(*args: Any, **kwargs: Any) -> Any:
    raise real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND)


# The machines. Names, PCI ids, memory and limits of hardware.md; powers are made up.


def p4(bus: int = 0x3B, **changes: Any) -> Card:
    """No energy counter, no NVLink; the sensor shows the power at its tick."""
    return Card(
        **{
            "name": "Tesla P4",
            "pci_device": 0x1BB3,
            "bus": bus,
            "capability": (6, 1),
            "architecture": PASCAL,
            "memory_mib": 7611,
            "power_limit_w": 75.0,
            "trace": idle_ramp_plateau(7.0, 62.0),
            "sensor": Sensor(period_s=0.1, phase_s=0.013 * (bus % 7)),
            "sm_clock_mhz": 1063,
            "boost_clock_mhz": 1063,
            "memory_clock_mhz": 3003,
        }
        | changes
    )


def p40(bus: int = 0x3B, **changes: Any) -> Card:
    """As the P4, with a sensor five times as fast."""
    return p4(
        bus,
        **{
            "name": "Tesla P40",
            "pci_device": 0x1B38,
            "memory_mib": 22919,
            "power_limit_w": 250.0,
            "trace": idle_ramp_plateau(50.0, 180.0),
            "sensor": Sensor(period_s=0.02, phase_s=0.003 * (bus % 7)),
            "sm_clock_mhz": 1531,
            "boost_clock_mhz": 1531,
            "memory_clock_mhz": 3615,
        }
        | changes,
    )


def v100(bus: int, ranks: Sequence[int], **changes: Any) -> Card:
    """An SXM2 card: energy counter, two links to each of three ranks."""
    return Card(
        **{
            "name": "Tesla V100-SXM2-16GB",
            "pci_device": 0x1DB1,
            "bus": bus,
            "capability": (7, 0),
            "architecture": VOLTA,
            "memory_mib": 16160,
            "power_limit_w": 300.0,
            "trace": idle_ramp_plateau(42.0, 270.0),
            "sensor": Sensor(period_s=0.02, phase_s=0.001 * (bus % 7)),
            "counter": Sensor(period_s=0.02, phase_s=0.005 + 0.001 * (bus % 7)),
            "sm_clock_mhz": 1530,
            "boost_clock_mhz": 1530,
            "memory_clock_mhz": 877,
            "nvlinks": tuple(peer for peer in ranks for _ in range(2)),
            "vbios": "88.00.41.00.04",
        }
        | changes
    )


def h200(bus: int = 0x19, **changes: Any) -> Card:
    """Energy counter every 0.1 s; power is averaged over a second, instant power is a field."""
    return Card(
        **{
            "name": "NVIDIA H200",
            "pci_device": 0x2335,
            "bus": bus,
            "capability": (9, 0),
            "architecture": HOPPER,
            "memory_mib": 143771,
            "power_limit_w": 700.0,
            "trace": idle_ramp_plateau(76.0, 560.0),
            "sensor": Sensor(period_s=0.1, averaging_s=1.0, phase_s=0.031),
            "counter": Sensor(period_s=0.1, phase_s=0.047),
            "instant": True,
            "sm_clock_mhz": 1980,
            "boost_clock_mhz": 1980,
            "memory_clock_mhz": 3201,
            "pcie": (5, 5, 16, 16),
            "mig": (0, 0),
            "nvlinks": (0x05,) * 18,
            "vbios": "96.00.A0.00.01",
        }
        | changes
    )


def four_p4() -> Machine:
    return Machine(cards=[p4(bus) for bus in (0x3B, 0x5E, 0xAF, 0xD8)])


def three_p40() -> Machine:
    return Machine(cards=[p40(bus) for bus in (0x3B, 0xAF, 0xD8)])


def four_v100_sxm2() -> Machine:
    buses = (0x1A, 0x1C, 0x1D, 0x1E)
    return Machine(cards=[v100(bus, [b for b in buses if b != bus]) for bus in buses])


def one_h200() -> Machine:
    return Machine(cards=[h200()], driver="575.57.08", cuda=12090)


def unknown_card() -> Machine:
    """A card that no descriptor knows; it does not tell its power."""
    name = "NVIDIA X1000 Prototype"
    return Machine(cards=[p4(name=name, pci_device=0xFFF0, power_supported=False, ecc=None)])


def no_card() -> Machine:
    return Machine()


def lost_card(at_s: float = 20.0) -> Machine:
    """Two P4; the second falls off the bus."""
    return Machine(cards=[p4(0x3B), p4(0x5E, lost_at_s=at_s)])


def no_permission() -> Machine:
    return Machine(cards=[p4()], error=real.NVML_ERROR_NO_PERMISSION)


def driver_mismatch() -> Machine:
    """The driver was updated and the old kernel module is still loaded."""
    return Machine(cards=[p4()], init_error=real.NVML_ERROR_LIB_RM_VERSION_MISMATCH)


def no_driver() -> Machine:
    return Machine(init_error=real.NVML_ERROR_LIBRARY_NOT_FOUND)


MACHINES = (
    four_p4,
    three_p40,
    four_v100_sxm2,
    one_h200,
    unknown_card,
    no_card,
    lost_card,
    no_permission,
    driver_mismatch,
    no_driver,
)

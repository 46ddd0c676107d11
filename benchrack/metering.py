"""Meters beside a measurement: opened once, sampled while it runs, read at its end.

opened = open_meters(registry.meters.values(), devices, clock)
idle = measure_idle(opened.meters, clock)          # once, before the sweep
with window(opened.meters, clock) as metered:      # around the rounds of one case
    ...
power = power_of(metered, opened, idle, device_kind="cuda", images_per_s=…)
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from benchrack.energy import images_per_j
from benchrack.errors import UnsupportedError
from benchrack.meters import (
    PERIODS,
    Conditions,
    Domain,
    Meter,
    OpenMeter,
    Reading,
    SystemClock,
    WaitableClock,
    minimum_window_s,
)
from benchrack.results import Power
from benchrack.sampler import Sampler
from benchrack.types import Device

IDLE_WINDOWS = 5
IDLE_WINDOW_S = 1.0

# What is measured on a kind of device draws its energy there.
DOMAINS: Mapping[str, tuple[Domain, ...]] = {"cuda": ("accelerator",), "cpu": ("cpu", "dram")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Power of one domain while nothing runs: mean and standard deviation of some windows."""

    power_w: float
    spread_w: float
    windows: int
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The meters that can be read here, and by name why the others can't."""

    meters: tuple[OpenMeter, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    clock: WaitableClock = field(default_factory=SystemClock)
    threaded: bool = True

    def window(self) -> AbstractContextManager[Window]:
        """Meter what happens inside, on the clock with which the meters were opened."""
        return window(self.meters, self.clock, threaded=self.threaded)

    def close(self) -> None:
        for meter in self.meters:
            with suppress(Exception):  # all that was measured has been read
                meter.close()

    @property
    def minimum_window_s(self) -> float:
        """The shortest window that is long enough for each of the meters, in seconds."""
        return max((minimum_window_s(meter) for meter in self.meters), default=0.0)


def open_meters(
    meters: Iterable[Meter], devices: Sequence[Device], clock: WaitableClock | None = None
) -> Opened:
    """Open what can be opened. A meter that can't be read is absent: it never reads zero."""
    opened: list[OpenMeter] = []
    absent: dict[str, str] = {}
    clock = clock or SystemClock()
    for meter in meters:
        try:
            opened.append(meter.open(devices, clock))
        except UnsupportedError as error:
            absent[meter.name] = str(error)
        except Exception as error:  # somebody else's meter must not stop the sweep
            absent[meter.name] = f"it broke when it was opened: {type(error).__name__}: {error}"
    return Opened(meters=tuple(opened), absent=absent, clock=clock)


@dataclass(slots=True, kw_only=True)
class Window:
    """One window. `readings` are there when it is closed; until then `sampler` may be driven.

    `faults` are those of meters that gave no reading; a reading has its own.
    """

    sampler: Sampler
    start_s: float
    stop_s: float | None = None
    readings: tuple[Reading, ...] = ()
    faults: tuple[str, ...] = ()


@contextmanager
def window(
    meters: Sequence[OpenMeter], clock: WaitableClock | None = None, *, threaded: bool = True
) -> Iterator[Window]:
    """Meter what happens inside; `clock` is the one with which the meters were opened.

    Opening and closing may each wait for a sensor, outside of the window: half a second at most,
    or longer than one of its periods. An exception passes through, and leaves no readings.
    `threaded=False` is for tests, which call `sampler.sample_due` themselves.
    """
    clock = clock or SystemClock()
    faults: dict[str, str] = {}
    for meter in meters:
        with _blaming(meter, faults):
            meter.begin()
    begun = [meter for meter in meters if meter.name not in faults]
    sampler = Sampler(begun, clock)
    metered = Window(sampler=sampler, start_s=clock())
    sampler.sample_all()
    if threaded:
        sampler.start()
    try:
        yield metered
        metered.stop_s = clock()
    finally:
        sampler.stop()
    sampler.sample_all()
    readings: list[Reading] = []
    for meter in begun:
        with _blaming(meter, faults):
            fault = sampler.faults.get(meter.name)
            ended = meter.end(metered.start_s, metered.stop_s)
            readings += [_without_energy(r, fault) if fault else r for r in ended]
    metered.readings, metered.faults = tuple(readings), tuple(faults.values())


@contextmanager
def _blaming(meter: OpenMeter, faults: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        faults[meter.name] = f"{meter.name} failed: {type(error).__name__}: {error}"


def _without_energy(reading: Reading, fault: str) -> Reading:
    faults = (*reading.faults, fault)
    return dataclasses.replace(reading, energy_j=None, uncertainty_j=None, faults=faults)


def measure_idle(
    meters: Sequence[OpenMeter], clock: WaitableClock | None = None, *, threaded: bool = True
) -> dict[Domain, Idle]:
    """Power by domain while nothing runs, over some windows; a domain that can't be read is absent.

    Takes about five seconds, longer where a sensor needs longer windows; nothing without meters.
    Power at rest does not step, so that ten periods of a sensor are enough for it.
    """
    clock = clock or SystemClock()
    window_s = max([IDLE_WINDOW_S, *(PERIODS * meter.sensor_period_s for meter in meters)])
    powers_w: dict[Domain, list[float]] = {}
    for _ in range(IDLE_WINDOWS if meters else 0):
        with window(meters, clock, threaded=threaded) as metered:
            _wait(window_s, clock, metered.sampler, threaded)
        for domain in dict.fromkeys(reading.domain for reading in metered.readings):
            power_w = _sum([r.average_power_w for r in _of(metered.readings, domain)])
            if power_w is not None:
                powers_w.setdefault(domain, []).append(power_w)
    return {
        domain: Idle(
            power_w=statistics.fmean(values),
            spread_w=statistics.stdev(values),
            windows=len(values),
            window_s=window_s,
        )
        for domain, values in powers_w.items()
        if len(values) == IDLE_WINDOWS
    }


def _wait(window_s: float, clock: WaitableClock, sampler: Sampler, threaded: bool) -> None:
    until_s = clock() + window_s
    while (left_s := until_s - clock()) > 0:
        clock.sleep(left_s if threaded else min(left_s, max(sampler.sample_due(), 0.001)))


def power_of(
    metered: Window,
    opened: Opened,
    idle: Mapping[Domain, Idle],
    *,
    device_kind: str,
    images_per_s: float | None,
    rounds: Window | None = None,
    flagged: bool = True,
) -> Power:
    """What goes into the record: the energy of the devices that did the work, the host's, and the
    whole system's where a meter sees that.

    `images_per_s` is the throughput in the same window. What could not be read is None. Where
    `metered` is an energy pass, `rounds` is the window of the rounds that were measured: their
    conditions count too. What a sensor read over a window that is too short for it is flagged, or
    else left out.
    """
    domains = DOMAINS[device_kind]
    faults = [*metered.faults, *(f for r in metered.readings for f in r.faults)]
    if rounds is not None:
        faults += [*rounds.faults, *(f for r in rounds.readings for f in r.faults)]
    about = Power(
        meters=tuple(meter.name for meter in opened.meters),
        meters_absent=tuple(f"{name}: {why}" for name, why in opened.absent.items()),
        meter_faults=tuple(dict.fromkeys(faults)),
        metered_devices=tuple(d for r in _of(metered.readings, *domains) for d in r.devices),
        **dataclasses.asdict(_conditions(domains, rounds, metered)),
    )
    readings = [reading for reading in metered.readings if flagged or not reading.too_short]
    own, system = _of(readings, *domains), _of(readings, "system")
    told = [*own, *system]
    energy_j, uncertainty_j, power_w = _energy(own)
    idle_w, spread_w = _idle(own, idle)
    system_energy_j, system_uncertainty_j, system_w = _energy(system)
    system_idle_w, system_spread_w = _idle(system, idle)
    return dataclasses.replace(
        about,
        energy_j=energy_j,
        energy_uncertainty_j=uncertainty_j,
        energy_per_image_j=power_w / images_per_s if power_w and images_per_s else None,
        energy_by_device_j=_all_known([j for r in own for j in r.energy_by_device_j]),
        sampled_energy_j=_sum([reading.sampled_energy_j for reading in own]),
        host_energy_j=_sum([reading.energy_j for reading in _of(readings, *DOMAINS["cpu"])]),
        energy_window_s=told[0].window_s if told else None,
        energy_window_minimum_s=max((reading.minimum_window_s for reading in told), default=None),
        energy_window_too_short=any(reading.too_short for reading in told) if told else None,
        energy_method=own[0].method if own else None,
        sampling_period_s=own[0].sampling_period_s if own else None,
        sensor_period_s=max((reading.sensor_period_s for reading in own), default=None),
        sensor_period_observed=all(r.sensor_period_observed for r in own) if own else None,
        average_power_w=power_w,
        idle_power_w=idle_w,
        idle_power_spread_w=spread_w,
        images_per_s_per_w=images_per_j(images_per_s, power_w),
        images_per_s_per_w_above_idle=_above(images_per_s, power_w, idle_w),
        system_meter=system[0].meter if system else None,
        system_energy_j=system_energy_j,
        system_energy_uncertainty_j=system_uncertainty_j,
        system_power_w=system_w,
        system_idle_power_w=system_idle_w,
        system_idle_power_spread_w=system_spread_w,
        system_images_per_s_per_w=images_per_j(images_per_s, system_w),
        system_images_per_s_per_w_above_idle=_above(images_per_s, system_w, system_idle_w),
    )


def _of(readings: Sequence[Reading], *domains: Domain) -> list[Reading]:
    """The readings of some domains, which add up. But each meter of the whole system sees the same
    one: of these the first counts."""
    found = [reading for reading in readings if reading.domain in domains]
    return found[:1] if domains == ("system",) else found


def _conditions(domains: Sequence[Domain], *windows: Window | None) -> Conditions:
    """Of the devices that did the work: in the rounds, and in the energy pass that followed."""
    found = Conditions()
    for closed in windows:
        for reading in _of(closed.readings, *domains)[:1] if closed else ():
            found = found.with_worst_of(reading.conditions)
    return found


def _energy(readings: Sequence[Reading]) -> tuple[float | None, float | None, float | None]:
    """Energy, its uncertainty, and average power, of the readings together."""
    return (
        _sum([reading.energy_j for reading in readings]),
        _sum([reading.uncertainty_j for reading in readings]),
        _sum([reading.average_power_w for reading in readings]),
    )


def _idle(
    readings: Sequence[Reading], idle: Mapping[Domain, Idle]
) -> tuple[float | None, float | None]:
    """Idle power of what the readings are of, and its spread."""
    known = [idle.get(domain) for domain in dict.fromkeys(r.domain for r in readings)]
    return (
        _sum([None if one is None else one.power_w for one in known]),
        _sum([None if one is None else one.spread_w for one in known]),
    )


def _above(images_per_s: float | None, power_w: float | None, idle_w: float | None) -> float | None:
    return None if idle_w is None else images_per_j(images_per_s, power_w, idle_w)


def _all_known(values: Sequence[float | None]) -> tuple[float, ...]:
    """The values; none of them where one is not known."""
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else ()


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum, or None where one of them, or all, is not known."""
    known = _all_known(values)
    return sum(known) if known else None

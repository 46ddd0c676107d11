"""Meters beside a measurement: opened once, sampled while it runs, read at its end.

opened = open_meters(registry.meters.values(), devices, clock)
idle = measure_idle(opened.meters, clock)          # once, before the sweep
with window(opened.meters, clock) as metered:      # around the rounds of one case
    ...
power = power_of(metered, Metering(opened=opened, idle=idle), device_kind="cuda", images_per_s=…)
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from benchrack.energy.sampler import Sampler
from benchrack.errors import UnsupportedError
from benchrack.vocabulary.combining import total
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import (
    PERIODS,
    Domain,
    Meter,
    OpenMeter,
    Reading,
    SystemClock,
    WaitableClock,
    minimum_window_s,
    of_domains,
)

IDLE_WINDOWS = 5
IDLE_WINDOW_S = 1.0


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
    def absences(self) -> tuple[str, ...]:
        """Which meters can't be read here, and why."""
        return tuple(f"{name}: {why}" for name, why in self.absent.items())

    @property
    def minimum_window_s(self) -> float:
        """The shortest window that is long enough for each of the meters, in seconds."""
        return max((minimum_window_s(meter) for meter in self.meters), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metering:
    """The meters of a process, and by domain the power while nothing ran."""

    opened: Opened = field(default_factory=Opened)
    idle: Mapping[Domain, Idle] = field(default_factory=dict)

    def window(self) -> AbstractContextManager[Window]:
        """Meter what happens inside."""
        return self.opened.window()


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

    @property
    def seconds(self) -> float:
        """How long it was, once it is closed."""
        return (self.stop_s or 0.0) - self.start_s


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
            power_w = total([r.average_power_w for r in of_domains(metered.readings, domain)])
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

"""What a meter of power and energy is, and what it reads over one window.

A meter does not start threads and does not decide when: the core calls `begin`, then `sample` at
the meter's own period, then `end` with the edges of the window (metering.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from benchrack.vocabulary.combining import of_ranks, union
from benchrack.vocabulary.devices import Device

Method = Literal["counter", "sampled"]
# The whole machine, as a meter at the wall sees it, holds the others: it is never added to them.
Domain = Literal["accelerator", "cpu", "dram", "system"]

# A window shorter than this many of the sensor's periods is flagged: a tenth of the window is then
# as long as the moments at its edges that the meter can't see.
PERIODS = 10

# Sampled power needs more: a step of all the power inside the window is dated to half a period of
# sensor or sampling, which is 2 % of 25 periods, and loads that pulse faster than the sensor beat
# with it, slowly (benchmarks/energy_error.py).
SAMPLED_PERIODS = 25
SAMPLED_WINDOW_S = 10.0


class WaitableClock(Protocol):
    """Seconds on a clock that never goes back, and on which one can wait."""

    def __call__(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock outside of tests: `time.perf_counter`, as measurements use."""

    def __call__(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What was sampled of one device: seconds from the window's start, watts."""

    times_s: tuple[float, ...]
    power_w: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What else was seen of the metered cards. None, or empty: the card does not tell.

    Clocks and utilisation over all samples of all cards; temperature, memory and power limit of
    the card where it was worst (hottest, fullest, tightest). `memory_used_peak_gib` is all memory
    in use on that card, that of other processes too. `utilisation` is the share of time (0 to 1)
    in which a kernel ran, as NVML counts. `throttle_reasons` names every reason that was active.
    """

    sm_clock_mhz_min: float | None = of_ranks(min, default=None)
    sm_clock_mhz_median: float | None = of_ranks(min, default=None)
    memory_clock_mhz_min: float | None = of_ranks(min, default=None)
    memory_clock_mhz_median: float | None = of_ranks(min, default=None)
    temperature_start_c: float | None = of_ranks(max, default=None)
    temperature_max_c: float | None = of_ranks(max, default=None)
    throttle_reasons: tuple[str, ...] = of_ranks(union, default=())
    power_limit_w: float | None = of_ranks(min, default=None)
    memory_used_peak_gib: float | None = of_ranks(max, default=None)
    utilisation_median: float | None = of_ranks(min, default=None)

    def with_worst_of(self, later: Conditions) -> Conditions:
        """These, and what was worse in a later window of the same load: every reason of both, the
        lower of the lowest clocks, the higher of temperatures and memory. Medians and the
        temperature at the start stay, where they are known."""

        def first(name: str) -> float | None:
            own: float | None = getattr(self, name)
            return getattr(later, name) if own is None else own

        def worst(rule: Callable[[Iterable[float]], float], name: str) -> float | None:
            known = [v for c in (self, later) if (v := getattr(c, name)) is not None]
            return rule(known) if known else None

        return Conditions(
            sm_clock_mhz_min=worst(min, "sm_clock_mhz_min"),
            sm_clock_mhz_median=first("sm_clock_mhz_median"),
            memory_clock_mhz_min=worst(min, "memory_clock_mhz_min"),
            memory_clock_mhz_median=first("memory_clock_mhz_median"),
            temperature_start_c=first("temperature_start_c"),
            temperature_max_c=worst(max, "temperature_max_c"),
            throttle_reasons=tuple(
                dict.fromkeys((*self.throttle_reasons, *later.throttle_reasons))
            ),
            power_limit_w=worst(min, "power_limit_w"),
            memory_used_peak_gib=worst(max, "memory_used_peak_gib"),
            utilisation_median=first("utilisation_median"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one meter read of one domain over one window.

    `energy_j` sums the devices that are named, and is None where one of them could not be read to
    the end; `faults` then says which, and why. `uncertainty_j` is what method and periods imply.
    Where the sensor's period was not observed it is an assumption, on the safe side.
    `sampled_energy_j` is the same energy by the other method, where both were possible.
    """

    meter: str
    domain: Domain
    devices: tuple[str, ...]
    method: Method
    window_s: float
    energy_j: float | None
    uncertainty_j: float | None
    sampling_period_s: float | None
    sensor_period_s: float
    minimum_window_s: float
    sensor_period_observed: bool = False
    energy_by_device_j: tuple[float | None, ...] = ()
    sampled_energy_j: float | None = None
    faults: tuple[str, ...] = ()
    traces: tuple[Trace, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def average_power_w(self) -> float | None:
        return None if self.energy_j is None else self.energy_j / self.window_s

    @property
    def too_short(self) -> bool:
        """Whether the window was too short for the sensor: extend it, or don't quote its energy."""
        return self.window_s < self.minimum_window_s


def of_domains(readings: Sequence[Reading], *domains: Domain) -> list[Reading]:
    """The readings of some domains, which add up. But each meter of the whole system sees the same
    one: of these the first counts."""
    found = [reading for reading in readings if reading.domain in domains]
    return found[:1] if domains == ("system",) else found


class OpenMeter(Protocol):
    """A meter that watches some devices.

    `period_s` is how often it wants to be sampled, `sensor_period_s` how long a value stands
    before it is renewed, and over how long it averages, together.
    """

    @property
    def name(self) -> str: ...

    @property
    def devices(self) -> tuple[str, ...]: ...

    @property
    def method(self) -> Method: ...

    @property
    def period_s(self) -> float: ...

    @property
    def sensor_period_s(self) -> float: ...

    def begin(self) -> None:
        """Forget the last window. May wait for the sensor; the window starts when it returns."""

    def sample(self) -> None:
        """Read once. A device that can't be read any more is a fault of the reading, no error."""

    def end(self, start_s: float, stop_s: float) -> Sequence[Reading]:
        """What was read between two times of the meter's clock, one reading a domain. `sample`
        was called at both edges. May wait for the sensor."""

    def close(self) -> None:
        """Give back what `open` took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A source of power or energy.

    `open(devices, clock)` gets the devices that a run uses; it raises UnsupportedError with the
    reason why they can't be metered here, and what to do about it.
    """

    name: str
    summary: str
    open: Callable[[Sequence[Device], WaitableClock], OpenMeter]


def minimum_window_s(meter: OpenMeter) -> float:
    """The shortest window over which this meter's energy may be quoted, in seconds."""
    if meter.method == "counter":
        return PERIODS * meter.sensor_period_s
    return max(SAMPLED_WINDOW_S, SAMPLED_PERIODS * max(meter.period_s, meter.sensor_period_s))

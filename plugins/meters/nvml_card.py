"""One NVIDIA card as a meter reads it: its power, its energy counter, and its conditions.

Facts about NVML that this relies on (its reference manual): power in milliwatts; the counter in
millijoules since the driver was loaded, "Volta or newer"; nvmlDeviceGetPowerUsage shows the mean of
the last second on Ampere (but not on GA100) and newer, the power of the moment before.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchrack.api import Device, Method, Tick, UnsupportedError, WaitableClock, integrals, nvml

# Clocks, temperature, memory, … with every fifth sample: seven more calls, and they change slowly.
CONDITIONS_EVERY = 5
# Of power that rests, until it is seen to move: a tenth of a second, as ml-energy's zeus states for
# energy counters.
ASSUMED_SENSOR_PERIOD_S = 0.1
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Result:
    """Energy of one card over one window; None where it could not be read to the end."""

    energy_j: float | None = None
    uncertainty_j: float | None = None
    sampled_energy_j: float | None = None


class Card:
    """How one card is read, and what was seen of it since the window began.

    Raises UnsupportedError where it tells neither power nor integrals, or is split into parts.
    """

    def __init__(self, library: Any, handle: Any, device: Device, clock: WaitableClock) -> None:
        self.library, self.handle, self.clock = library, handle, clock
        bus = library.nvmlDeviceGetPciInfo(handle).busId
        self.label = f"{device} {library.nvmlDeviceGetName(handle)} {bus}"
        mig = nvml.known(library, library.nvmlDeviceGetMigMode, handle)
        if mig is not None and mig[0]:
            raise UnsupportedError(
                f"{self.label} is split into parts (MIG), and NVML tells only the power of the "
                "whole card. Measure power with MIG off"
            )
        self._power_mw, self.averaging_s = self._power_source()
        counter = library.nvmlDeviceGetTotalEnergyConsumption
        self.has_counter = nvml.known(library, counter, handle) is not None
        if not self.has_counter and self._power_mw is None:
            raise UnsupportedError(f"{self.label} tells neither its power nor its energy")
        self.sensor_period_s = ASSUMED_SENSOR_PERIOD_S
        self.rest_w = 0.0
        self.observed = False
        self._stood_s = math.inf
        self.lost: str | None = None
        self.reset()

    def _power_source(self) -> tuple[Callable[[], int] | None, float]:
        """How power is read, in milliwatts, and over how many seconds each value averages."""
        library, handle = self.library, self.handle
        instant = getattr(library, "NVML_FI_DEV_POWER_INSTANT", None)

        def field() -> int:
            value = library.nvmlDeviceGetFieldValues(handle, [instant])[0]
            if value.nvmlReturn:
                raise library.NVMLError(value.nvmlReturn)
            return int(value.value.uiVal)

        def usage() -> int:
            return int(library.nvmlDeviceGetPowerUsage(handle))

        if instant is not None:
            # Drivers that do not know the field answer with errors of many kinds.
            with suppress(library.NVMLError):
                field()
                return field, 0.0
        if nvml.known(library, usage) is None:
            return None, 0.0
        capability = nvml.known(library, library.nvmlDeviceGetCudaComputeCapability, handle)
        return usage, 1.0 if capability is not None and tuple(capability) > (8, 0) else 0.0

    def reset(self) -> None:
        """Forget the last window. A lost card stays lost."""
        self.times_s: list[float] = []
        self.power_w: list[float] = []
        self.seen: dict[str, list[float]] = {}
        self.throttled = 0
        self.samples = 0
        self.missed: list[str] = []
        self.first: Tick | None = None
        self.last: Tick | None = None

    def sample(self) -> None:
        """Read power, and now and then the conditions; what fails is counted, never zero."""
        if self.lost is not None:
            return
        self.samples += 1
        try:
            if self._power_mw is not None:
                before_s, power_mw = self.clock(), self._power_mw()
                self.times_s.append((before_s + self.clock()) / 2)
                self.power_w.append(power_mw / 1000)
        except self.library.NVMLError as error:
            self._failed(error)
            return
        if self.samples % CONDITIONS_EVERY == 1:
            self.sample_conditions()

    def sample_conditions(self) -> None:
        """Clocks, temperature, memory, …, as they are now."""
        if self.lost is not None:
            return
        try:
            self._sample_conditions()
        except self.library.NVMLError as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if nvml.is_lost(self.library, error):
            self.lost = nvml.explain(self.library, error)
        else:
            self.missed.append(nvml.explain(self.library, error))

    def _sample_conditions(self) -> None:
        library = self.library

        def told(call: Callable[..., Any], *arguments: Any) -> Any:
            return nvml.known(library, call, self.handle, *arguments)

        memory = told(library.nvmlDeviceGetMemoryInfo)
        busy = told(library.nvmlDeviceGetUtilizationRates)
        limit_mw = told(library.nvmlDeviceGetEnforcedPowerLimit)
        seen = {
            "sm_clock": told(library.nvmlDeviceGetClockInfo, library.NVML_CLOCK_SM),
            "memory_clock": told(library.nvmlDeviceGetClockInfo, library.NVML_CLOCK_MEM),
            "temperature": told(library.nvmlDeviceGetTemperature, library.NVML_TEMPERATURE_GPU),
            "memory": memory and memory.used / GIB,
            "utilisation": busy and busy.gpu / 100,
            "power_limit": limit_mw and limit_mw / 1000,
        }
        for name, value in seen.items():
            if value is not None:
                self.seen.setdefault(name, []).append(value)
        self.throttled |= nvml.throttle_bits(library, self.handle) or 0

    def ticking(self, method: Method) -> Callable[[], int | None]:
        """Read what the card renews, in thousandths (mJ, mW); None when it can't be read."""

        def read() -> int | None:
            try:
                if method == "counter":
                    return int(self.library.nvmlDeviceGetTotalEnergyConsumption(self.handle))
                return self._power_mw() if self._power_mw else None
            except self.library.NVMLError as error:
                self._failed(error)
                return None

        return read

    def observe(self, ticks: Sequence[Tick], wanted: int, method: Method, watched_s: float) -> None:
        """Take the sensor's period from its ticks, so many of which were waited for.

        A counter always moves: of fewer ticks the longest gap, and without any gap all the time
        that was watched, is on the safe side. Power may have rested: see `stood`.
        """
        gaps_s = [b.time_s - a.time_s for a, b in itertools.pairwise(ticks)]
        self.observed = len(ticks) >= wanted or (method == "counter" and bool(gaps_s))
        if len(ticks) >= wanted:
            self.sensor_period_s = statistics.fmean(gaps_s)
        elif method == "counter":
            self.sensor_period_s = max(gaps_s, default=watched_s)
        elif gaps_s:
            self._stood_s = max(gaps_s)
            self.sensor_period_s = max(ASSUMED_SENSOR_PERIOD_S, self._stood_s)
        if method == "sampled":
            self.sensor_period_s += self.averaging_s
            self.rest_w = (self.ticking(method)() or 0) / 1000  # there is no load yet

    def stood(self) -> None:
        """Correct the period by how long the sampled values stood, on average.

        Power that rested when the meter was opened moves under load. Where it moves at less than
        half the period that was taken for the sensor's, that was no observation; and an assumed
        period is as long as values were seen to stand where they moved most.
        """
        samples = itertools.pairwise(zip(self.times_s, self.power_w, strict=True))
        changed_s = [after[0] for before, after in samples if before[1] != after[1]]
        if len(changed_s) < 3:
            return
        stood_s = (changed_s[-1] - changed_s[0]) / (len(changed_s) - 1)
        if self.observed and stood_s >= (self.sensor_period_s - self.averaging_s) / 2:
            return
        self.observed = False
        self._stood_s = min(self._stood_s, stood_s)
        self.sensor_period_s = max(ASSUMED_SENSOR_PERIOD_S, self._stood_s) + self.averaging_s

    def counter_mj(self) -> int | None:
        """What the energy counter shows now; None when it can't be read."""
        return self.ticking("counter")()

    def undated_tick(self, shown_mj: int | None) -> Tick | None:
        """What the counter has just shown; when it ticked is known to one period only."""
        half_s = self.sensor_period_s / 2
        return None if shown_mj is None else Tick(self.clock() - half_s, shown_mj / 1000, half_s)

    def tick_before(self, following: Tick, shown: Tick | None) -> Tick | None:
        """Date what the counter showed at the edge, from its next tick."""
        if shown is None:
            return None
        return Tick(following.time_s - self.sensor_period_s, shown.energy_j, following.error_s)

    def result(self, method: Method, start_s: float, stop_s: float) -> Result:
        if self.lost is not None:
            return Result()
        window = (self._seen_s(method), self.power_w, start_s, stop_s)
        sampled_j = integrals.trapezoid(*window) if self.times_s else None
        if method == "counter":
            return self._counted(start_s, stop_s, sampled_j)
        if sampled_j is None:
            return Result()
        uncertainty_j = integrals.sampled_uncertainty(*window, lag_s=self.sensor_period_s)
        return Result(sampled_j, uncertainty_j + self._unseen_pulses(start_s, stop_s))

    def _unseen_pulses(self, start_s: float, stop_s: float) -> float:
        """In joules; nothing where the card does not tell for how much of the time it was busy."""
        if "utilisation" not in self.seen:
            return 0.0
        return integrals.pulses_uncertainty(
            self.power_w,
            stop_s - start_s,
            busy_share=statistics.median(self.seen["utilisation"]),
            limit_w=max([*self.power_w, *self.seen.get("power_limit", ())]),
            rest_w=min([*self.power_w, self.rest_w]),
        )

    def _seen_s(self, method: Method) -> list[float]:
        """When the power was as sampled: on average half an observed sensor's period before."""
        late_s = self.sensor_period_s / 2 if self.observed and method == "sampled" else 0.0
        return [time_s - late_s for time_s in self.times_s]

    def _counted(self, start_s: float, stop_s: float, sampled_j: float | None) -> Result:
        first, last = self.first, self.last
        if first is None or last is None:
            return Result(sampled_energy_j=sampled_j)
        counted_w = (last.energy_j - first.energy_j) / max(stop_s - start_s, self.sensor_period_s)
        powers_w = self.power_w or [counted_w]
        energy_j = integrals.energy_at(last, stop_s, powers_w[-1]) - integrals.energy_at(
            first, start_s, powers_w[0]
        )
        # Without samples nothing is known of how the power moved: anything down to nothing.
        spread_w = max(powers_w) - min(self.power_w or [0.0])
        uncertainty_j = integrals.counter_uncertainty(
            first, last, start_s, stop_s, power_w=max(powers_w), spread_w=spread_w
        )
        return Result(energy_j, uncertainty_j, sampled_j)

    def faults(self) -> list[str]:
        """What went wrong since the window began, in words."""
        if self.lost is not None:
            seen_s = self.times_s[-1] - self.times_s[0] if self.times_s else 0.0
            return [f"{self.label}, after {seen_s:.2f} s of the window: {self.lost}"]
        if self.missed:
            reasons = "; ".join(dict.fromkeys(self.missed))
            return [f"{self.label}: {len(self.missed)} of {self.samples} samples failed: {reasons}"]
        return []

"""Power over time on a clock that only tests move: traces with an exact integral, and sensors."""

from __future__ import annotations

import csv
import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class FakeClock:
    """A clock that moves when somebody sleeps on it, or `advance`s it."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    advance = sleep


class PowerTrace:
    """Power in watts, linear between knots (seconds, watts), constant outside of them.

    Two knots at the same time are a step.
    """

    def __init__(self, knots: Iterable[tuple[float, float]]) -> None:
        knots = list(knots)
        self.times_s = [t for t, _ in knots]
        self.power_w = [p for _, p in knots]
        pieces = [(b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(knots)]
        self._energy_j = list(itertools.accumulate(pieces, initial=0.0))

    def power(self, time_s: float) -> float:
        """Power in watts at a time."""
        i = bisect_right(self.times_s, time_s)
        if i == 0:
            return self.power_w[0]
        if i == len(self.times_s):
            return self.power_w[-1]
        width_s = self.times_s[i] - self.times_s[i - 1]
        share = (time_s - self.times_s[i - 1]) / width_s if width_s else 1.0
        return self.power_w[i - 1] + share * (self.power_w[i] - self.power_w[i - 1])

    def share_above(self, level_w: float, start_s: float, stop_s: float) -> float:
        """The share of the time between two times, 0 to 1, in which the power is above a level."""
        inner = slice(bisect_right(self.times_s, start_s), bisect_left(self.times_s, stop_s))
        times_s = [start_s, *self.times_s[inner], stop_s]
        power_w = [self.power(start_s), *self.power_w[inner], self.power(stop_s)]
        above_s = 0.0
        for (t0, p0), (t1, p1) in itertools.pairwise(zip(times_s, power_w, strict=True)):
            low, high = sorted((p0, p1))
            part = 1.0 if low > level_w else 0.0
            if low <= level_w < high:
                part = (high - level_w) / (high - low)
            above_s += part * (t1 - t0)
        return above_s / (stop_s - start_s)

    def _energy_until(self, time_s: float) -> float:
        i = bisect_right(self.times_s, time_s)
        if i == 0:
            return (time_s - self.times_s[0]) * self.power_w[0]
        since_s = time_s - self.times_s[i - 1]
        at = self.power_w[i - 1] if i == len(self.times_s) else self.power(time_s)
        return self._energy_j[i - 1] + since_s * (self.power_w[i - 1] + at) / 2

    def energy(self, start_s: float, stop_s: float) -> float:
        """The exact integral in joules."""
        return self._energy_until(stop_s) - self._energy_until(start_s)


def idle_ramp_plateau(
    idle_w: float,
    plateau_w: float,
    *,
    idle_s: float = 10.0,
    ramp_s: float = 1.0,
    plateau_s: float = 60.0,
    fall_s: float = 0.5,
) -> PowerTrace:
    """What a card draws around one measurement: idle, a ramp, a plateau, and back to idle."""
    times = itertools.accumulate([idle_s, ramp_s, plateau_s, fall_s])
    return PowerTrace(
        [(0.0, idle_w), *zip(times, [idle_w, plateau_w, plateau_w, idle_w], strict=True)]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """A sensor that takes a new value every `period_s`, the mean of the last `averaging_s`.

    `phase_s` moves its ticks; without averaging a value is the power at the tick.
    """

    period_s: float = 0.1
    averaging_s: float = 0.0
    phase_s: float = 0.0

    def tick(self, time_s: float) -> float:
        """The last tick at or before a time (rounding of floats counts as before)."""
        ticks = math.floor((time_s - self.phase_s) / self.period_s + 1e-9)
        return self.phase_s + ticks * self.period_s

    def power(self, trace: PowerTrace, time_s: float) -> float:
        """What it shows at a time, in watts."""
        tick = self.tick(time_s)
        if not self.averaging_s:
            return trace.power(tick)
        return trace.energy(tick - self.averaging_s, tick) / self.averaging_s


def recorded(path: Path) -> PowerTrace:
    """A trace from a CSV file with the columns time_s and power_w; lines with # are remarks."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return PowerTrace(
        (float(row["time_s"]), float(row["power_w"])) for row in csv.DictReader(lines)
    )


TRACES = Path(__file__).parent / "traces"

"""Energy from samples of power, and from counters: integrals, window edges, wraps, uncertainty.

Pure functions. Times are seconds on one clock, ascending; powers are watts, energies joules. An
uncertainty is what method and periods imply; how well the sensor itself was calibrated is not in
it (docs/power.md).
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

# Standard errors of the mean that a stated uncertainty holds. With the few samples of a short
# window two are not enough; benchmarks/energy_error.py shows the share of windows that is covered.
COVERAGE = 3.0

# A sensor that is renewed in step with the load always shows the same phase of its ripple, and no
# sampling can tell. In 3.3 s of a recorded plateau (a V100's, tests/fakes/traces) no value is
# further than 1.8 % from the mean.
UNSEEN_RIPPLE = 0.018

# A card that is busy for less of the time pauses between batches, as NVML counts it in percent.
BUSY = 0.98
# Pauses that take more of the time than this may be all that a sensor in step shows. Of windows
# over generated pulses about one in a hundred was in step (benchmarks/energy_error.py), so one that
# falls into shorter pauses is rarer than what three standard errors leave.
LONG_PAUSES = 0.1
# Samples that lie within a quarter of their mean do not show pulses: three standard deviations to
# both sides are 15 % of it for a plateau twice as noisy as a recorded one (tests/fakes/traces).
SEEN_PULSES = 0.25


def value_at(times_s: Sequence[float], values: Sequence[float], time_s: float) -> float:
    """Linear between the samples; before the first and after the last the nearest is held.

    Raises ValueError where there is no sample.
    """
    if not times_s:
        raise ValueError("nothing was sampled")
    i = bisect_right(times_s, time_s)
    if i == 0:
        return values[0]
    if i == len(times_s):
        return values[-1]
    share = (time_s - times_s[i - 1]) / (times_s[i] - times_s[i - 1])
    return values[i - 1] + share * (values[i] - values[i - 1])


def trapezoid(
    times_s: Sequence[float], power_w: Sequence[float], start_s: float, stop_s: float
) -> float:
    """Energy between two times, by the trapezoidal rule; the edges are interpolated.

    Raises ValueError where there is no sample.
    """
    inner = [(t, p) for t, p in zip(times_s, power_w, strict=True) if start_s < t < stop_s]
    points = [
        (start_s, value_at(times_s, power_w, start_s)),
        *inner,
        (stop_s, value_at(times_s, power_w, stop_s)),
    ]
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))


def sampled_uncertainty(
    times_s: Sequence[float],
    power_w: Sequence[float],
    start_s: float,
    stop_s: float,
    *,
    lag_s: float,
) -> float:
    """How far `trapezoid` over samples may be from the truth, in joules.

    Three parts. What happens between samples: the power that changes from sample to sample, as a
    standard error of the mean (mean square of successive differences: von Neumann and others,
    1941, doi:10.1214/aoms/1177731746, so that slow drift, which the rule follows, does not count).
    What the sensor shows late, by `lag_s` at most (its period and its averaging). And ripple that
    the sensor itself can't see, because it looks at one part of each of its periods.
    """
    window_s = stop_s - start_s
    samples = [(t, p) for t, p in zip(times_s, power_w, strict=True) if start_s <= t <= stop_s]
    if len(samples) < 3 or window_s <= 0:
        return window_s * max(power_w, default=0.0)
    inside = [p for _, p in samples]
    edges_s = [start_s, *(t for t, _ in samples), stop_s]
    mean_w, range_w = math.fsum(inside) / len(inside), max(inside) - min(inside)
    changes = [b - a for a, b in itertools.pairwise(inside) if b != a]
    # A sensor that is slower than the sampling repeats its values: they are no new samples.
    independent = max(2.0, window_s / max(lag_s, window_s / len(inside)))
    variance = sum(c * c for c in changes) / (2 * max(len(changes), independent - 1))
    between_j = COVERAGE * math.sqrt(variance / independent) * window_s
    late_j = lag_s * abs(inside[-1] - inside[0])
    longest_s = max(b - a for a, b in itertools.pairwise(edges_s))
    unseen_s = max(0.0, longest_s - 2 * window_s / len(inside))
    return between_j + late_j + unseen_s * range_w + UNSEEN_RIPPLE * mean_w * window_s


def pulses_uncertainty(
    power_w: Sequence[float],
    window_s: float,
    *,
    busy_share: float,
    limit_w: float,
    rest_w: float = 0.0,
) -> float:
    """How far `trapezoid` may be from the truth because the load pauses and a sensor is renewed in
    step with it, in joules; 0.0 for a load that does not pause.

    A sensor in step shows one phase of every pulse, and its samples look steady. If that phase is
    busy, the truth is lower by the pauses' share of what the mean is above `rest_w`, the least that
    the device can draw. If it is a pause, the truth is higher by the busy share (`busy_share`, 0 to
    1, as the driver counts kernels) of what is left to `limit_w`, the most. A sensor that is nearly
    in step wanders through the phases, and each time that it went through all of them leaves less
    in doubt.
    """
    if busy_share >= BUSY or not power_w:
        return 0.0
    mean_w = math.fsum(power_w) / len(power_w)
    doubt_w = (1 - busy_share) * (mean_w - rest_w)
    if 1 - busy_share > LONG_PAUSES:
        doubt_w = max(doubt_w, busy_share * (limit_w - mean_w))
    low_w, high_w = min(power_w), max(power_w)
    passages = 0.0
    if high_w - low_w >= SEEN_PULSES * mean_w:
        upper = [p > (low_w + high_w) / 2 for p in power_w]
        passages = sum(a != b for a, b in itertools.pairwise(upper)) / 2
    return doubt_w * window_s / (1 + passages)


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment at which an energy counter took a new value: when, known to ± `error_s`."""

    time_s: float
    energy_j: float
    error_s: float = 0.0


def energy_at(tick: Tick, time_s: float, power_w: float) -> float:
    """What a counter that never rests would show: on from its tick, at the power seen then."""
    return tick.energy_j + power_w * (time_s - tick.time_s)


def counter_uncertainty(
    first: Tick, last: Tick, start_s: float, stop_s: float, *, power_w: float, spread_w: float
) -> float:
    """How far the difference of two `energy_at` may be from the truth, in joules.

    When the ticks were is known to ± `error_s`, at `power_w` at most; between tick and edge the
    power may have been anywhere within `spread_w`, the range that was seen in the window.
    """
    dated_j = (first.error_s + last.error_s) * power_w
    return dated_j + (abs(start_s - first.time_s) + abs(stop_s - last.time_s)) * spread_w


def wrapped_difference(before: int, after: int, range_: int) -> int:
    """How far a counter went that starts again at zero behind `range_`; at most one wrap."""
    return after - before if after >= before else after - before + range_


def all_known(values: Sequence[float | None]) -> tuple[float, ...]:
    """The values; none of them where one is not known."""
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else ()


def images_per_j(
    images_per_s: float | None, power_w: float | None, idle_w: float | None = 0.0
) -> float | None:
    """Images per joule, that is images/s per watt, of the power above `idle_w`.

    None where something was not measured, or where the load draws no more than idle.
    """
    if images_per_s is None or power_w is None or idle_w is None or power_w <= idle_w:
        return None
    return images_per_s / (power_w - idle_w)

"""What the processes of a world found, each by itself, as one measurement."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchrack.energy.integrals import images_per_j
from benchrack.errors import BenchrackError, DatasetError, WeightsError
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.results import Measurement, OutputCheck, Power, Surroundings, World
from benchrack.vocabulary.scenarios import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """What one rank measured, and where it ran; `between_s` and `startup_s` as in `World`."""

    measurement: Measurement
    own_seconds_per_batch: tuple[float, ...]
    between_s: float | None
    startup_s: float
    node: int
    placement: str


def disagreement(ranks: Sequence[RankResult]) -> BenchrackError | None:
    """What is wrong where ranks measured different things under one name, as those of several
    machines can; None where they did not."""
    compared: list[tuple[type[BenchrackError], str, Callable[[Measurement], object]]] = [
        (WeightsError, "weights", lambda m: m.preparation.weights_digest),
        (WeightsError, "networks", lambda m: m.preparation.multiply_accumulates),
        (DatasetError, "pictures", lambda m: m.preparation.data_digest),
    ]
    for error, what, of in compared:
        values = [of(rank.measurement) for rank in ranks]
        for rank, value in enumerate(values):
            if value != values[0]:
                return error(
                    f"the {what} of rank 0 (node {ranks[0].node}) and rank {rank} (node "
                    f"{ranks[rank].node}) differ: {values[0]} and {value}. Give every node the same"
                )
    return None


def combined(ranks: Sequence[RankResult], scenario: Scenario) -> Measurement:
    """One measurement of all ranks, in their order.

    It is that of the slowest rank by its own median; the scenario combines its own results, the
    slowest first. What was prepared, checked, metered and seen around is the worst, or the sum, of
    all.
    """
    medians = [statistics.median(rank.own_seconds_per_batch) for rank in ranks]
    first = medians.index(max(medians))
    slowest = ranks[first].measurement
    results = [
        rank.measurement.result for rank in (ranks[first], *ranks[:first], *ranks[first + 1 :])
    ]
    whole = [rank.measurement for rank in ranks]
    nodes = len({rank.node for rank in ranks})
    return dataclasses.replace(
        slowest,
        result=scenario.combine(results),
        engine=_engine(slowest.engine, [m.engine for m in whole]),
        preparation=dataclasses.replace(
            slowest.preparation, prepare_s=max(m.preparation.prepare_s for m in whole)
        ),
        output_check=_output_check([m.output_check for m in whole if m.output_check]),
        power=_power([m.power for m in whole if m.power]),
        surroundings=_surroundings([m.surroundings for m in whole if m.surroundings]),
        footprint=max(
            (m.footprint for m in whole if m.footprint),
            key=lambda footprint: footprint.peak_gib,
            default=None,
        ),
        world=World(
            ranks=len(ranks),
            nodes=nodes,
            rank_images_per_s=tuple(slowest.case.batch_size / median for median in medians),
            skew=_skew(ranks, medians),
            startup_s=max(rank.startup_s for rank in ranks),
            barrier_s=_worst(max, (rank.between_s for rank in ranks)),
            placement=tuple(
                f"node {rank.node}: {rank.placement}" if nodes > 1 else rank.placement
                for rank in ranks
            ),
        ),
    )


def _skew(ranks: Sequence[RankResult], medians: Sequence[float]) -> float:
    """How far the fastest rank is below the slowest: over rounds that were run in step, else of
    the ranks' medians."""
    rounds = [medians]
    if ranks[0].measurement.steadiness and ranks[0].measurement.steadiness.rounds:
        rounds = list(zip(*(rank.own_seconds_per_batch for rank in ranks), strict=True))
    return statistics.median(1 - min(times) / max(times) for times in rounds)


def _engine(engine: Engine, engines: Sequence[Engine]) -> Engine:
    """With the deviations of all; those that not all have by rank."""
    found: dict[str, list[int]] = {}
    for rank, other in enumerate(engines):
        for deviation in other.deviations:
            found.setdefault(deviation, []).append(rank)
    deviations = (
        text if len(those) == len(engines) else f"rank {', '.join(map(str, those))}: {text}"
        for text, those in found.items()
    )
    return dataclasses.replace(engine, deviations=tuple(deviations))


def _output_check(checks: Sequence[OutputCheck]) -> OutputCheck | None:
    if not checks:
        return None
    return dataclasses.replace(
        checks[0],
        max_relative_error=max(check.max_relative_error for check in checks),
        cosine=min(check.cosine for check in checks),
        agreement=min(check.agreement for check in checks),
        input_spread=min(check.input_spread for check in checks),
    )


def _surroundings(found: Sequence[Surroundings]) -> Surroundings | None:
    if not found:
        return None
    tightest = max(found, key=lambda s: (s.threads_used or 0) / (s.usable_cores or 1))
    return dataclasses.replace(
        tightest,
        foreign_cpu_share=_worst(max, (s.foreign_cpu_share for s in found)),
        foreign_cpu_resolution=_worst(max, (s.foreign_cpu_resolution for s in found)),
        other_processes=tuple(
            f"rank {rank}: {process}"
            for rank, surroundings in enumerate(found)
            for process in surroundings.other_processes
        ),
    )


def _power(powers: Sequence[Power]) -> Power | None:
    """The sum over machines, each of which metered its own devices; conditions where they were
    worst. The images are those of the whole world in each."""
    if len(powers) < 2:
        return powers[0] if powers else None

    def each(name: str) -> list[Any]:
        return [getattr(power, name) for power in powers]

    def total(name: str) -> float | None:
        values = each(name)
        return None if None in values else sum(values)

    def united(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(value for values in each(name) for value in values))

    power_w, idle_w = total("average_power_w"), total("idle_power_w")
    system_w, system_idle_w = total("system_power_w"), total("system_idle_power_w")
    first = powers[0]
    rate = _metered_rate(first)
    by_device_j = each("energy_by_device_j")
    worst = {
        "energy_window_s": min,
        "energy_window_minimum_s": max,
        "energy_window_too_short": max,
        "sampling_period_s": max,
        "sensor_period_s": max,
        "sensor_period_observed": min,
        "sm_clock_mhz_min": min,
        "sm_clock_mhz_median": min,
        "memory_clock_mhz_min": min,
        "memory_clock_mhz_median": min,
        "temperature_start_c": max,
        "temperature_max_c": max,
        "power_limit_w": min,
        "memory_used_peak_gib": max,
        "utilisation_median": min,
    }
    return dataclasses.replace(
        first,
        meters=united("meters"),
        meters_absent=united("meters_absent"),
        meter_faults=united("meter_faults"),
        metered_devices=tuple(
            f"node {node}: {device}"
            for node, devices in enumerate(each("metered_devices"))
            for device in devices
        ),
        energy_by_device_j=sum(by_device_j, ()) if all(by_device_j) else (),
        energy_j=total("energy_j"),
        energy_uncertainty_j=total("energy_uncertainty_j"),
        energy_per_image_j=power_w / rate if power_w and rate else None,
        sampled_energy_j=total("sampled_energy_j"),
        host_energy_j=total("host_energy_j"),
        energy_method=" and ".join(filter(None, dict.fromkeys(each("energy_method")))) or None,
        average_power_w=power_w,
        idle_power_w=idle_w,
        idle_power_spread_w=total("idle_power_spread_w"),
        images_per_s_per_w=images_per_j(rate, power_w),
        images_per_s_per_w_above_idle=(
            None if idle_w is None else images_per_j(rate, power_w, idle_w)
        ),
        system_meter=" and ".join(filter(None, dict.fromkeys(each("system_meter")))) or None,
        system_energy_j=total("system_energy_j"),
        system_energy_uncertainty_j=total("system_energy_uncertainty_j"),
        system_power_w=system_w,
        system_idle_power_w=system_idle_w,
        system_idle_power_spread_w=total("system_idle_power_spread_w"),
        system_images_per_s_per_w=images_per_j(rate, system_w),
        system_images_per_s_per_w_above_idle=(
            None if system_idle_w is None else images_per_j(rate, system_w, system_idle_w)
        ),
        throttle_reasons=united("throttle_reasons"),
        **{name: _worst(rule, each(name)) for name, rule in worst.items()},
    )


def _metered_rate(power: Power) -> float | None:
    """Images/s in the metered window, from a figure per watt and its watts."""
    for per_watt, power_w in (
        (power.images_per_s_per_w, power.average_power_w),
        (power.system_images_per_s_per_w, power.system_power_w),
    ):
        if per_watt is not None and power_w is not None:
            return per_watt * power_w
    return None


def _worst(rule: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    """Of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return rule(known) if known else None

"""What the processes of a world found, each by itself, as one measurement."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchrack.energy.integrals import images_per_j
from benchrack.errors import BenchrackError, DatasetError, WeightsError
from benchrack.vocabulary import combining
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.results import Measurement, Power, Surroundings, World
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
        (DatasetError, "images", lambda m: m.preparation.data_digest),
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
    checks = [m.output_check for m in whole if m.output_check]
    nodes = len({rank.node for rank in ranks})
    return dataclasses.replace(
        slowest,
        result=scenario.combine(results),
        engine=_engine(slowest.engine, [m.engine for m in whole]),
        preparation=dataclasses.replace(
            slowest.preparation, prepare_s=max(m.preparation.prepare_s for m in whole)
        ),
        output_check=combining.combined(checks) if checks else None,
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
            barrier_s=max((r.between_s for r in ranks if r.between_s is not None), default=None),
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


def _surroundings(found: Sequence[Surroundings]) -> Surroundings | None:
    """As the most threads a core saw them, and what any of them saw of others."""
    if not found:
        return None
    tightest = max(found, key=lambda s: (s.threads_used or 0) / (s.usable_cores or 1))
    others = [
        f"rank {rank}: {process}"
        for rank, surroundings in enumerate(found)
        for process in surroundings.other_processes
    ]
    first = dataclasses.replace(tightest, other_processes=tuple(others))
    return combining.combined([first, *found])


def _power(powers: Sequence[Power]) -> Power | None:
    """The sum over machines, each of which metered its own devices; conditions where they were
    worst. The images are those of the whole world in each."""
    if len(powers) < 2:
        return powers[0] if powers else None
    rate, whole = _metered_rate(powers[0]), combining.combined(powers)
    power_w, idle_w = whole.average_power_w, whole.idle_power_w
    system_w, system_idle_w = whole.system_power_w, whole.system_idle_power_w
    by_device_j = [power.energy_by_device_j for power in powers]
    return dataclasses.replace(
        whole,
        metered_devices=tuple(
            f"node {node}: {device}"
            for node, power in enumerate(powers)
            for device in power.metered_devices
        ),
        energy_by_device_j=sum(by_device_j, ()) if all(by_device_j) else (),
        energy_per_image_j=power_w / rate if power_w and rate else None,
        images_per_s_per_w=images_per_j(rate, power_w),
        images_per_s_per_w_above_idle=images_per_j(rate, power_w, idle_w),
        system_images_per_s_per_w=images_per_j(rate, system_w),
        system_images_per_s_per_w_above_idle=images_per_j(rate, system_w, system_idle_w),
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

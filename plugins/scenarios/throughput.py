"""Throughput: how many images a second a model gives, batches back to back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from benchrack.api import (
    BACKENDS,
    BATCH_SIZES,
    DEVICE_COUNTS,
    MINIMUM_ROUNDS,
    MODELS,
    Bench,
    Case,
    Findings,
    Interval,
    Metric,
    Scenario,
    Session,
    Settings,
    expected_before_s,
    hookimpl,
    measure_rounds,
    observation,
    part,
    warming,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Images per second of all devices together, from the median of rounds."""

    prefix: ClassVar[str] = ""

    images_per_s: Interval = part("images_per_s_")

    def rate(self, images: int) -> float:
        """Images per second."""
        return self.images_per_s.value


def measure(bench: Bench, case: Case, session: Session) -> Findings:
    """Rounds of batches back to back, with meters and the host watched beside them.

    Raises OutOfMemoryError, DatasetError, CacheError, and whatever the session raises.
    """
    warm = warming.warmed_up(bench, case, session, copies=False)
    batches = warm.batches
    bench.progress("measuring")
    with observation.host_watched(bench, session) as watch, bench.metering.window() as metered:
        before = batches.steps
        rounds = measure_rounds(
            batches.step,
            session.synchronize,
            bench.settings.measure,
            bench.clock,
            warm.warmup.batch_s,
            ranks=bench.ranks,
        )
        images = (batches.steps - before) * case.batch_size
    check = warming.check(bench, case, warm)
    steadiness = warming.steadiness(bench, warm, rounds)
    power = observation.power(bench, batches, warm.warmup.batch_s, metered, images)
    rate = _rate(bench.ranks.size * case.batch_size, rounds.assessment.interval)
    return Findings(
        seconds_per_batch=rounds.seconds_per_batch,
        own_seconds_per_batch=rounds.own_seconds_per_batch,
        between_s=rounds.between_s,
        first_batch_s=warm.warmup.first_batch_s,
        result=Throughput(images_per_s=rate),
        steadiness=steadiness,
        output_check=check,
        power=power,
        surroundings=watch.found,
        footprint=warm.footprint,
    )


def _rate(images: int, seconds: Interval) -> Interval:
    """Images per second from an interval of seconds per batch."""
    return Interval(
        value=images / seconds.value,
        low=None if seconds.high is None else images / seconds.high,
        high=None if seconds.low is None else images / seconds.low,
    )


def cost(case: Case, settings: Settings, batch_s: float, images: int) -> float:
    """Seconds, if nothing stops it early."""
    measure = settings.measure
    rounds_s = MINIMUM_ROUNDS * max(measure.round_s, batch_s)
    return expected_before_s(measure, batch_s) + max(measure.time_limit_s, rounds_s)


THROUGHPUT = Scenario(
    name="throughput",
    question="images per second, batches back to back",
    axes=(MODELS, BACKENDS, DEVICE_COUNTS, BATCH_SIZES),
    part=Throughput,
    measure=measure,
    headline=Metric(name="images_per_s", unit="images/s", better="higher"),
    cost=cost,
)


@hookimpl
def benchrack_scenarios() -> list[Scenario]:
    return [THROUGHPUT]

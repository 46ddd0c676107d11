"""Latency: how long one batch takes, from the host's memory and back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from benchrack.api import (
    BACKENDS,
    BATCH_SIZES,
    DEVICE_COUNTS,
    MODELS,
    Bench,
    Case,
    Findings,
    Interval,
    Metric,
    Scenario,
    Session,
    Settings,
    batches_of,
    expected_before_s,
    hookimpl,
    measure_singly,
    observation,
    part,
    parts_of,
    percentile,
    warming,
)

DISTINCT_PARTS = 8  # batches through which the timing of a batch's parts rotates
# A two-sided 95 % interval needs 6, 36 and 368 samples by calculation; with these a single hiccup
# does not move the interval of the percentile far.
PERCENTILE_SAMPLES = {0.50: 8, 0.90: 46, 0.99: 482}


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Percentiles of single synchronised batches, in milliseconds, each only where the number of
    samples supports a two-sided 95 % interval (p90 from 46 samples, p99 from 482).

    Where the device is not the CPU, `copy_in_ms`, `compute_ms` and `copy_out_ms` are medians over
    batches that were synchronised after each part; together they exceed a batch that is not.
    """

    prefix: ClassVar[str] = "latency_"

    samples: int
    copy_in_ms: float | None = None
    compute_ms: float | None = None
    copy_out_ms: float | None = None
    p50: Interval | None = part("p50_ms_", default=None)
    p90: Interval | None = part("p90_ms_", default=None)
    p99: Interval | None = part("p99_ms_", default=None)

    def rate(self, images: int) -> float | None:
        """Images per second of the median batch."""
        return images * 1e3 / self.p50.value if self.p50 else None


def measure(bench: Bench, case: Case, session: Session) -> Findings:
    """Single batches, each synchronised, H2D and D2H transfers included unless told otherwise.

    Raises OutOfMemoryError, DatasetError, CacheError, and whatever the session raises.
    """
    warm = warming.warmed_up(bench, case, session, copies=True)
    bench.progress("measuring")
    with observation.host_watched(bench, session) as watch:
        samples = measure_singly(
            warm.batches.step,
            session.synchronize,
            bench.settings.measure,
            bench.clock,
            batch_s=warm.warmup.batch_s,
            ranks=bench.ranks,
        )
    check = warming.check(bench, case, warm)
    steadiness = warming.steadiness(bench, warm)
    copies = _copies(bench, case, session)
    # Metered apart: a meter that reads ten times a second would be in the 99th percentile.
    power = observation.power(bench, warm.batches, warm.warmup.batch_s)
    return Findings(
        seconds_per_batch=samples,
        own_seconds_per_batch=samples,
        first_batch_s=warm.warmup.first_batch_s,
        result=Latency(
            samples=len(samples),
            p50=_percentile(samples, 0.50),
            p90=_percentile(samples, 0.90),
            p99=_percentile(samples, 0.99),
            **copies,
        ),
        steadiness=steadiness,
        output_check=check,
        power=power,
        surroundings=watch.found,
        footprint=warm.footprint,
    )


def _percentile(samples: Sequence[float], q: float) -> Interval | None:
    """A percentile in milliseconds, or None where the samples are too few to tell, or would be too
    few if they were independent. A median is told without an interval too."""
    if len(samples) < PERCENTILE_SAMPLES[q]:
        return None
    interval = percentile(samples, q)
    if interval.low is None and q != 0.5:
        return None
    return Interval(
        value=interval.value * 1e3,
        low=None if interval.low is None else interval.low * 1e3,
        high=None if interval.high is None else interval.high * 1e3,
    )


def _copies(bench: Bench, case: Case, session: Session) -> dict[str, float]:
    """The parts of a batch, in milliseconds; nothing on the CPU, where no copy leaves the host."""
    if bench.device.kind == "cpu":
        return {}
    batches = batches_of(
        bench.data.distinct_inputs(case), case.batch_size, bench.settings.measure.seed
    )
    parts = parts_of(session, list(itertools.islice(batches, DISTINCT_PARTS)), bench.clock)
    return {
        "copy_in_ms": parts.copy_in_s * 1e3,
        "compute_ms": parts.compute_s * 1e3,
        "copy_out_ms": parts.copy_out_s * 1e3,
    }


def cost(case: Case, settings: Settings, batch_s: float, images: int) -> float:
    """Seconds, if nothing stops it early."""
    measure = settings.measure
    samples_s = measure.latency_samples * batch_s
    return expected_before_s(measure, batch_s) + min(samples_s, max(measure.time_limit_s, batch_s))


LATENCY = Scenario(
    name="latency",
    question="milliseconds of single batches, H2D and D2H transfers included",
    axes=(MODELS, BACKENDS, DEVICE_COUNTS, BATCH_SIZES),
    part=Latency,
    measure=measure,
    headline=Metric(name="p50", unit="ms", better="lower", title="p50"),
    metrics=(
        Metric(name="p90", unit="ms", better="lower", title="p90"),
        Metric(name="p99", unit="ms", better="lower", title="p99"),
    ),
    cost=cost,
)


@hookimpl
def benchrack_scenarios() -> list[Scenario]:
    return [LATENCY]

"""What one process found when it measured a case, before it is a record."""

from __future__ import annotations

from dataclasses import dataclass

from benchrack.statistics.interval import Interval
from benchrack.vocabulary import results


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The parts that it does not measure are None.

    Of several processes `seconds_per_batch` are a round's, as the slowest ran it;
    `own_seconds_per_batch` are this one's, and `between_s` what passed between two rounds.
    """

    seconds_per_batch: tuple[float, ...]
    own_seconds_per_batch: tuple[float, ...] = ()
    between_s: float | None = None
    first_batch_s: float | None = None
    images_per_s: Interval | None = None
    steadiness: results.Steadiness | None = None
    latency: results.Latency | None = None
    accuracy: results.Accuracy | None = None
    output_check: results.OutputCheck | None = None
    power: results.Power | None = None
    surroundings: results.Surroundings | None = None
    footprint: results.Footprint | None = None

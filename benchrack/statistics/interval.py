"""A value and how far it is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with a two-sided interval; low and high are None where the samples give none."""

    value: float
    low: float | None = None
    high: float | None = None

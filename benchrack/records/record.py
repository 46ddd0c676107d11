"""The flat JSON object of a measurement: what `extra_info["benchrack"]` and the journal hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchrack.flattening import flatten, unflatten
from benchrack.vocabulary.results import Measurement

SCHEMA = 1


def to_record(measurement: Measurement) -> dict[str, Any]:
    """The flat JSON object of a measurement; `verdict` says in a word whether it has reasons."""
    verdict = "valid" if measurement.valid else "not valid"
    return {"schema": SCHEMA, **flatten(measurement), "verdict": verdict}


def from_record(flat: Mapping[str, Any], seconds_per_batch: Iterable[float]) -> Measurement:
    """A measurement from its flat JSON object and its samples.

    Raises KeyError or TypeError if it is not one.
    """
    return unflatten(Measurement, flat, seconds_per_batch=tuple(seconds_per_batch))

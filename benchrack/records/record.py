"""The flat JSON object of a measurement: what `extra_info["benchrack"]` and the journal hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from benchrack.flattening import flatten, present, unflatten
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Scenario

SCHEMA = 1


def to_record(measurement: Measurement) -> dict[str, Any]:
    """The flat JSON object of a measurement; `verdict` says in a word whether it has reasons."""
    result, name = measurement.result, measurement.case.scenario
    return {
        "schema": SCHEMA,
        **flatten(measurement.case),  # what it is about comes first
        **flatten(measurement),
        **(flatten(result, _prefix(type(result), name)) if result is not None else {}),
        "verdict": "valid" if measurement.valid else "not valid",
    }


def from_record(
    flat: Mapping[str, Any],
    seconds_per_batch: Iterable[float],
    scenarios: Mapping[str, Scenario],
) -> Measurement:
    """A measurement from its flat JSON object and its samples; one of a scenario that no plugin
    provides any more has no result.

    Raises KeyError or TypeError if it is not one.
    """
    bare = unflatten(Measurement, flat, seconds_per_batch=tuple(seconds_per_batch), result=None)
    scenario = scenarios.get(bare.case.scenario)
    if scenario is None:
        return bare
    for axis in scenario.axes:
        if axis.common and axis.default is None and axis.field not in flat:
            raise KeyError(axis.field)
    prefix = _prefix(scenario.part, scenario.name)
    if not present(scenario.part, flat, prefix):
        return bare
    return dataclasses.replace(bare, result=unflatten(scenario.part, flat, prefix))


def _prefix(part: type, scenario: str) -> str:
    """What stands before the names of a result's fields."""
    return str(getattr(part, "prefix", f"{scenario}_"))

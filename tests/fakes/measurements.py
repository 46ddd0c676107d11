"""Cases and measurements to test with: whole, and valid unless they are told otherwise.

The one place in the tests that knows where a figure stands in a `Measurement`. Keywords are fields:
of the case (`batch_size=8`), of what its scenario found (`p50=`, `images=`), or of the measurement
(`start=2`). A part is given as a dict of the fields to change (`power={"energy_j": 3.0}`), as the
part itself, or as None.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from fakes.scenarios import SCENARIOS

from benchrack.statistics.interval import Interval
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import (
    Footprint,
    Measurement,
    OutputCheck,
    Power,
    Preparation,
    Steadiness,
    Surroundings,
    World,
)

PARTS = {
    "case": Case,
    "engine": Engine,
    "preparation": Preparation,
    "steadiness": Steadiness,
    "output_check": OutputCheck,
    "power": Power,
    "surroundings": Surroundings,
    "footprint": Footprint,
    "world": World,
}
OWNERS = {
    field.name: name
    for name, owner in (
        ("case", Case),
        *(("result", scenario.part) for scenario in SCENARIOS.values()),
    )
    for field in dataclasses.fields(owner)
}
"""The part that a keyword belongs to, where that is not said."""


def case(**changes: Any) -> Case:
    """A case of the laboratory (fakes/laboratory.py)."""
    axes = {"scenario": "throughput", "model": "matrix", "backend": "numpy-fp32", "batch_size": 4}
    return Case(**axes | changes)


def bare(**changes: Any) -> Measurement:
    """No more than every measurement has."""
    engine = Engine(name="numpy", version="2", device="cpu", precision="fp32")
    plain = Measurement(
        case=case(),
        engine=engine,
        preparation=Preparation(prepare_s=0.5),
        seconds_per_batch=(0.01, 0.0101, 0.0099),
    )
    return but(plain, **changes)


def throughput(**changes: Any) -> Measurement:
    """400 images/s, of the four in 10 ms."""
    rate = Interval(value=400.0, low=397.0, high=403.0)
    return but(bare(images_per_s=rate, steadiness=steady()), **changes)


def latency(**changes: Any) -> Measurement:
    """A median of 10 ms."""
    p50 = Interval(value=10.0, low=9.9, high=10.1)
    return but(bare(scenario="latency", samples=100, p50=p50, steadiness=steady()), **changes)


def accuracy(**changes: Any) -> Measurement:
    """Fifteen images without labels, whose outputs are those of the reference."""
    agreement = Interval(value=1.0, low=0.796, high=1.0)
    plain = bare(scenario="accuracy", images=15, agreement=agreement, logit_cosine=0.99997)
    return but(plain, **{"steadiness": steady()} | changes)


def output_check(**changes: Any) -> OutputCheck:
    """Outputs that are all but those of the reference."""
    found = {"images": 8, "reference": "pytorch-fp32", "max_relative_error": 1e-6}
    return OutputCheck(**found | {"cosine": 1.0, "agreement": 1.0, "input_spread": 0.3} | changes)


def steady() -> dict[str, Any]:
    return {"transfer": "exclude", "warmup_s": 1.0, "warmup_batches": 10, "warmup_steady": True}


def but(measurement: Measurement, /, **changes: Any) -> Measurement:
    """The measurement, with fields changed."""
    found: dict[str, Any] = {}
    for name, value in changes.items():
        if name == "images_per_s" and isinstance(value, (int, float)):
            value = Interval(value=value)  # noqa: PLW2901
        if name in OWNERS:
            found.setdefault(OWNERS[name], {})[name] = value
        else:
            found[name] = value
    for name, value in sorted(found.items()):  # the case first: it says what a result is
        if isinstance(value, dict):
            part, whole = getattr(measurement, name), _part(name, found, measurement)
            fits = isinstance(part, whole)
            found[name] = dataclasses.replace(part, **value) if fits else whole(**value)
    return dataclasses.replace(measurement, **found)


def _part(name: str, found: dict[str, Any], measurement: Measurement) -> type:
    """The class of a part; that of a result is its scenario's."""
    if name != "result":
        return PARTS[name]
    case = found.get("case", measurement.case)
    return SCENARIOS[case.scenario].part

"""What others printed, as data: the TOML files in `published/`, each with its source.

A series has one axis that is a list (models, batch sizes or device counts) and a value for each of
its entries; what is not said is absent. Nothing here was measured by Benchrack.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchrack import toml_tables
from benchrack.errors import ResultsError
from benchrack.vocabulary.descriptors import CONFIDENCES, Confidence

FOLDER = Path(__file__).parent / "published"
OUT_OF_MEMORY = "out of memory"
QUANTITIES = {
    "images_per_s": "images/s of all devices together",
    "images_per_s_relative": "images/s, relative to what is named",
    "images_per_s_per_w_above_idle_relative": "images/s per watt above idle, relative to what is "
    "named",
    "latency_p90_ms": "90th percentile of single batches, in milliseconds",
    "batch_ms": "milliseconds a batch; mean or median is not known",
    "top1_percent": "top-1",
    "top5_percent": "top-5",
    "top1_drop_points": "FP32's top-1 less this one, in percentage points",
    "top5_drop_points": "FP32's top-5 less this one, in percentage points",
    "training_images_per_s": "images/s in training, of all devices together",
    "training_images_per_s_relative": "images/s in training, relative to what is named",
    "training_efficiency_percent": "images/s in training ÷ (those of one device × devices)",
    "training_batch_ms": "milliseconds a batch in training; mean or median is not known",
    "training_time_min": "minutes of training to the accuracy that is named",
    "training_top1_percent": "top-1 after training",
}
AXES = ("model", "batch_size", "device_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Where figures were printed. `caveats` say for a model why they can't be taken as they are."""

    name: str
    title: str
    author: str
    source: str
    framework: str
    date: str = ""
    system: str = ""
    notes: tuple[str, ...] = ()
    caveats: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One printed figure, of one of QUANTITIES, in the unit that its name says.

    `value` is None where what was printed is that memory ran out. `model` and `precision` are empty
    where neither is known. `batch_size` is that of one device, `device_count` that of all
    `node_count` machines together. Confidence: A, read in the document; B, a copy; C, a secondary
    source; D, computed or inferred from what was printed.
    """

    publication: Publication
    quantity: str
    model: str
    precision: str
    value: float | None
    confidence: Confidence
    card: str = ""
    batch_size: int | None = None
    device_count: int | None = None
    node_count: int | None = None
    relative_to: str = ""
    framework: str = ""
    system: str = ""
    conditions: str = ""
    where: str = ""
    caveat: str = ""

    @property
    def citation(self) -> str:
        """Who printed it, where, how far to trust it, and what keeps it from being comparable."""
        p = self.publication
        said = (p.author, f"“{p.title}”", p.date, self.where, self.framework, self.conditions)
        work = ", ".join(filter(None, said))
        caveats = filter(None, [self.caveat, dict(p.caveats).get(self.model, "")])
        return "; ".join([f"published: {work} (confidence {self.confidence})", *caveats])


@cache
def built_in() -> tuple[Point, ...]:
    """All points of the files that come with Benchrack."""
    return tuple(point for path in sorted(FOLDER.glob("*.toml")) for point in load(path))


def load(path: Path) -> tuple[Point, ...]:
    """The points of one file. Raises ResultsError, which names the file and the series."""
    data, _ = toml_tables.read(path, "a publication", ResultsError)
    series = data.pop("series", [])
    caveats = tuple(data.pop("caveats", {}).items())
    publication = _made(Publication, {"name": path.stem, "caveats": caveats, **data}, str(path))
    points: list[Point] = []
    for number, one in enumerate(series, start=1):
        points += _points(publication, one, f"{path}, series {number}")
    return tuple(points)


def _points(publication: Publication, series: Mapping[str, Any], where: str) -> Iterable[Point]:
    common = {
        "publication": publication,
        "framework": publication.framework,
        "system": publication.system,
        **series,
    }
    if wrong := toml_tables.unknown(
        series, ["values", *(f.name for f in dataclasses.fields(Point))]
    ):
        raise ResultsError(f"{where}: {wrong}")
    values = common.pop("values", None)
    if not isinstance(values, list) or not values:
        raise ResultsError(f"{where}: values must be a list with at least one figure")
    lists = [axis for axis in AXES if isinstance(series.get(axis), list)]
    if len(lists) > 1:
        raise ResultsError(f"{where}: {' and '.join(lists)} are lists, and one may be")
    axis = lists[0] if lists else ""
    entries = series[axis] if axis else [None]
    if len(entries) != len(values):
        raise ResultsError(f"{where}: {len(values)} values for {len(entries)} {axis or 'case'}")
    for entry, value in zip(entries, values, strict=True):
        point = {**common, **({axis: entry} if axis else {}), "value": _value(value, where)}
        yield _checked(_made(Point, point, where), where)


def _value(value: Any, where: str) -> float | None:
    if value == OUT_OF_MEMORY:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ResultsError(f"{where}: {value!r} is neither a figure nor {OUT_OF_MEMORY!r}")
    return float(value)


def _checked(point: Point, where: str) -> Point:
    if wrong := toml_tables.unknown([point.quantity], QUANTITIES, "quantity"):
        raise ResultsError(f"{where}: {wrong}")
    if point.confidence not in CONFIDENCES:
        raise ResultsError(f"{where}: confidence must be A, B, C or D; found {point.confidence!r}")
    if point.quantity.endswith("_relative") and not point.relative_to:
        raise ResultsError(f"{where}: relative_to must say to what {point.quantity} is relative")
    return point


def _made(cls: Any, given: Mapping[str, Any], where: str) -> Any:
    """A dataclass of what a file gives; keys that it does not know, or lacks, are mistakes."""
    fields = {f.name: f for f in dataclasses.fields(cls)}
    if wrong := toml_tables.unknown(given, fields):
        raise ResultsError(f"{where}: {wrong}")
    required = [
        name
        for name, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing := [name for name in required if name not in given]:
        raise ResultsError(f"{where}: {missing[0]} is missing")
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})

"""Sweep files and options → cases. A sweep is TOML: a table a scenario, and one of settings.

summary = "what it asks"
[throughput]            # or [latency], [accuracy]
models = ["resnet50"]
backends = ["pytorch-fp32"]
batch_sizes = [1, 8]
device_counts = [1]     # optional, as are dataset and weights
[settings]
time_limit_s = 3
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchrack import toml_tables
from benchrack.errors import SweepError, UnknownNameError
from benchrack.registry.registry import Registry
from benchrack.statistics.order_statistics import MINIMUM_FOR_MEDIAN
from benchrack.vocabulary.cases import Case, Scalar
from benchrack.vocabulary.descriptors import Accelerator, Server
from benchrack.vocabulary.scenarios import BACKENDS, DEVICE_COUNTS, MODELS, Axis, Scenario
from benchrack.vocabulary.settings import Settings, keys

SUFFIX = ".toml"
TEXTS = ("dataset", "weights")  # keys beside the axes, of scenarios that have models
# Settings of which there is at least one; others may be zero.
COUNTS = frozenset({"starts", "latency_samples", "calibration_batch_size"})
PUBLISHED_INTERVAL, PUBLISHED_TIME_LIMIT_S = 0.005, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one scenario of a sweep spans: the values of each axis by its name, and the data set and
    weights that are asked for."""

    axes: Mapping[str, tuple[Any, ...]]
    dataset: str = "auto"
    weights: str = "auto"

    @property
    def models(self) -> tuple[str, ...]:
        return self.axes.get(MODELS.name, ())

    @property
    def backends(self) -> tuple[str, ...]:
        return self.axes.get(BACKENDS.name, ())

    @property
    def device_counts(self) -> tuple[int, ...]:
        return self.axes.get(DEVICE_COUNTS.name, (1,))

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return math.prod(map(len, self.axes.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep as its file says it, and with options applied: what each scenario spans, by name."""

    name: str
    summary: str
    spans: Mapping[str, Span]
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What options say about a sweep: values by the name of an axis, which count for every scenario
    that lets an option set it; None leaves the rest as the file has it."""

    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    dataset: str | None = None
    weights: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def built_in() -> dict[str, Path]:
    """The sweeps that Benchrack brings, by name."""
    folder = Path(str(files("benchrack.suites"))) / "sweeps"
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def load(asked: str, scenarios: Mapping[str, Scenario], directory: Path | None = None) -> Sweep:
    """The sweep of a built-in's name, or of a path to a TOML file (against `directory`), whose
    tables are those of scenarios.

    Raises UnknownNameError or SweepError.
    """
    if asked.endswith(SUFFIX):
        path = (directory or Path()) / Path(asked).expanduser()
    elif asked in (known := built_in()):
        path = known[asked]
    else:
        raise UnknownNameError("sweep", asked, [*known, "or the path of a .toml file"])
    content, _ = toml_tables.read(path, "a sweep", SweepError)
    return _parse(path, content, scenarios)


def _parse(path: Path, content: Mapping[str, Any], scenarios: Mapping[str, Scenario]) -> Sweep:
    _refuse(path, toml_tables.unknown(content, ["summary", "settings", *scenarios]))
    spans = {
        name: _span(f"{path}, [{name}]", scenario, content[name])
        for name, scenario in scenarios.items()
        if name in content
    }
    if not spans:
        raise SweepError(f"{path}: it has none of the tables {', '.join(scenarios)}")
    return Sweep(
        name=path.stem,
        summary=str(content.get("summary", "")),
        spans=spans,
        settings=apply_settings(Settings(), content.get("settings", {}), str(path)),
    )


def _span(where: str, scenario: Scenario, table: Any) -> Span:
    if not isinstance(table, dict):
        raise SweepError(f"{where}: expected a table, found {table!r}")
    names = [axis.name for axis in scenario.axes]
    known = [*names, *TEXTS] if MODELS.name in names else names
    _refuse(where, toml_tables.unknown(table, known))
    axes = {axis.name: _values(where, axis, table) for axis in scenario.axes}
    texts = {name: _text(f"{where}, {name}", table[name]) for name in TEXTS if name in table}
    return Span(axes=axes, **texts)


def _refuse(where: object, problem: str | None) -> None:
    if problem:
        raise SweepError(f"{where}: {problem}")


def _values(where: str, axis: Axis, table: Mapping[str, Any]) -> tuple[Scalar, ...]:
    if axis.name not in table:
        if axis.default is None:
            raise SweepError(f"{where}: {axis.name} is missing")
        return axis.default
    where, values = f"{where}, {axis.name}", table[axis.name]
    if not isinstance(values, list) or not values:
        raise SweepError(f"{where}: expected a list with at least one entry, found {values!r}")
    try:
        return tuple(dict.fromkeys(axis.checked(value) for value in values))
    except ValueError as error:
        raise SweepError(f"{where}: {error}") from error


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SweepError(f"{where}: expected a text, found {value!r}")
    return value


def apply_settings(settings: Settings, given: Mapping[str, Any], where: str) -> Settings:
    """Settings with keys of a sweep file, or of `--set` (texts), applied. Raises SweepError."""
    known = keys()
    _refuse(where, toml_tables.unknown(given, known, "setting"))
    values = {key: _setting(where, key, known[key].type, value) for key, value in given.items()}
    return settings.having(**values)


def _setting(where: str, key: str, hint: Any, value: Any) -> Any:
    if typing.get_origin(hint) is typing.Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            wanted = ", ".join(choices)
            raise SweepError(f"{where}, {key}: expected one of {wanted}, found {value!r}")
        return value
    if hint is str:
        return str(value)
    if hint is bool:
        truth = {"true": True, "false": False}.get(str(value).lower())
        if truth is None:
            raise SweepError(f"{where}, {key}: expected true or false, found {value!r}")
        return truth
    try:
        number = hint(value)
    except (TypeError, ValueError):
        number = None
    rounded = isinstance(value, float) and number != value
    least = 1 if key in COUNTS else 0
    if number is None or rounded or isinstance(value, bool) or not least <= number < math.inf:
        kind = "a whole number" if hint is int else "a number"
        wanted = "one or more" if least else "zero or more"
        raise SweepError(f"{where}, {key}: expected {kind}, {wanted}, found {value!r}")
    return number


def override(sweep: Sweep, overrides: Overrides, scenarios: Mapping[str, Scenario]) -> Sweep:
    """The sweep with what options say. Raises SweepError for a setting that is not one."""
    spans = {
        name: _overridden(scenarios[name], span, overrides) for name, span in sweep.spans.items()
    }
    settings = apply_settings(sweep.settings, overrides.settings, "--set")
    if settings.run.publish:
        settings = published(settings)
    return dataclasses.replace(sweep, spans=spans, settings=settings)


def published(settings: Settings) -> Settings:
    """The preset for a number that goes out: at least six fresh starts, an interval of 0.5 %, and
    30 s or more to reach it."""
    return settings.having(
        starts=max(settings.run.starts, MINIMUM_FOR_MEDIAN),
        interval=min(settings.measure.interval, PUBLISHED_INTERVAL),
        time_limit_s=max(settings.measure.time_limit_s, PUBLISHED_TIME_LIMIT_S),
    )


def _overridden(scenario: Scenario, span: Span, overrides: Overrides) -> Span:
    settable = {axis.name for axis in scenario.axes if axis.option}
    axes = {name: values for name, values in overrides.axes.items() if name in settable}
    return Span(
        axes={**span.axes, **axes},
        dataset=span.dataset if overrides.dataset is None else overrides.dataset,
        weights=span.weights if overrides.weights is None else overrides.weights,
    )


def cases(sweep: Sweep, scenario: Scenario, registry: Registry) -> list[Case]:
    """The cases of one scenario, in the order of its axes. Raises UnknownNameError for a name that
    no plugin registered, before anything is measured."""
    span = sweep.spans.get(scenario.name)
    if span is None:
        return []
    _require_names(span, registry)
    points = itertools.product(*(span.axes[axis.name] for axis in scenario.axes))
    return [_case(scenario, span, point) for point in points]


def _case(scenario: Scenario, span: Span, point: Sequence[Scalar]) -> Case:
    values = list(zip(scenario.axes, point, strict=True))
    common: dict[str, Any] = {axis.field: value for axis, value in values if axis.common}
    return Case(
        scenario=scenario.name,
        dataset=span.dataset,
        weights=span.weights,
        axes={axis.field: value for axis, value in values if not axis.common},
        **common,
    )


def beyond_server(case: Case, server: Server | None, card: Accelerator | None) -> str | None:
    """Why a server can't hold as many cards as a case asks for; None where it can, and where the
    server, the card or the number is not known."""
    most = server.most(card) if server and card else None
    if server is None or card is None or most is None or case.device_count <= most.value:
        return None
    return (
        f"{case.device_count} devices were asked for, and the {server.title} takes at most "
        f"{most.value:g} {card.title} ({most.source})"
    )


def _require_names(span: Span, registry: Registry) -> None:
    for model in span.models:
        registry.model(model)
    for backend in span.backends:
        registry.backend(backend)
    if span.dataset != "auto":
        registry.dataset(span.dataset.partition(":")[0])


def parse_list(option: str, text: str) -> tuple[str, ...]:
    """`a,b` → ("a", "b"), each once. Raises SweepError where there is nothing between commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise SweepError(f"{option}={text}: expected names with commas between them")
    return tuple(dict.fromkeys(parts))


def parse_axis(axis: Axis, text: str) -> tuple[Scalar, ...]:
    """`1,8` → (1, 8), what an axis's option says. Raises SweepError for what is none of its
    values."""
    option = axis.option or axis.name
    try:
        return tuple(dict.fromkeys(map(axis.read, parse_list(option, text))))
    except ValueError as error:
        raise SweepError(f"{option}={text}: {error}") from error


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """`--set key=value`, repeatable → a mapping; the last of equal keys counts."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SweepError(f"--set {pair}: expected key=value, such as --set time_limit_s=10")
        found[key.strip()] = value.strip()
    return found

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
import difflib
import itertools
import math
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchrack.errors import SweepError, UnknownNameError
from benchrack.registry.registry import Registry
from benchrack.statistics.order_statistics import MINIMUM_FOR_MEDIAN
from benchrack.vocabulary.cases import SCENARIOS, Case, Scenario
from benchrack.vocabulary.descriptors import Accelerator, Server
from benchrack.vocabulary.settings import Settings

SUFFIX = ".toml"
# Settings of which there is at least one; others may be zero.
COUNTS = frozenset({"starts", "latency_samples", "calibration_batch_size"})
PUBLISHED_INTERVAL, PUBLISHED_TIME_LIMIT_S = 0.005, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What one scenario of a sweep spans."""

    models: tuple[str, ...]
    backends: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    device_counts: tuple[int, ...] = (1,)
    dataset: str = "auto"
    weights: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep as its file says it, and with options applied."""

    name: str
    summary: str
    axes: Mapping[Scenario, Axes]
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What options say about a sweep; None leaves an axis as the file has it.

    Batch sizes and device counts do not apply to accuracy, whose answer does not depend on them.
    """

    models: tuple[str, ...] | None = None
    backends: tuple[str, ...] | None = None
    batch_sizes: tuple[int, ...] | None = None
    device_counts: tuple[int, ...] | None = None
    dataset: str | None = None
    weights: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def built_in() -> dict[str, Path]:
    """The sweeps that Benchrack brings, by name."""
    folder = Path(str(files("benchrack.suites"))) / "sweeps"
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def load(asked: str, directory: Path | None = None) -> Sweep:
    """The sweep of a built-in's name, or of a path to a TOML file (against `directory`).

    Raises UnknownNameError or SweepError.
    """
    if asked.endswith(SUFFIX):
        path = (directory or Path()) / Path(asked).expanduser()
    elif asked in (known := built_in()):
        path = known[asked]
    else:
        raise UnknownNameError("sweep", asked, [*known, "or the path of a .toml file"])
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise SweepError(f"the sweep {path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SweepError(f"the sweep {path} is not TOML: {error}") from error
    return _parse(path, content)


def _parse(path: Path, content: Mapping[str, Any]) -> Sweep:
    allowed = {"summary", "settings", *SCENARIOS}
    if unknown := sorted(set(content) - allowed):
        raise SweepError(f"{path}: unknown key {unknown[0]!r}. Known: {', '.join(sorted(allowed))}")
    axes: dict[Scenario, Axes] = {
        scenario: _axes(f"{path}, [{scenario}]", scenario, content[scenario])
        for scenario in SCENARIOS
        if scenario in content
    }
    if not axes:
        raise SweepError(f"{path}: it has none of the tables {', '.join(SCENARIOS)}")
    return Sweep(
        name=path.stem,
        summary=str(content.get("summary", "")),
        axes=axes,
        settings=apply_settings(Settings(), content.get("settings", {}), str(path)),
    )


def _axes(where: str, scenario: Scenario, table: Any) -> Axes:
    if not isinstance(table, dict):
        raise SweepError(f"{where}: expected a table, found {table!r}")
    fields = {f.name: f for f in dataclasses.fields(Axes)}
    if unknown := sorted(set(table) - set(fields)):
        raise SweepError(f"{where}: unknown key {unknown[0]!r}. Known: {', '.join(fields)}")
    for name in ("models", "backends", "batch_sizes"):
        if name not in table:
            raise SweepError(f"{where}: {name} is missing")
    axes = Axes(**{name: _axis(f"{where}, {name}", name, value) for name, value in table.items()})
    if scenario == "accuracy" and axes.device_counts != (1,):
        raise SweepError(
            f"{where}: device_counts can only be [1], since accuracy does not depend on the number "
            "of devices and is measured on one: leave the key out"
        )
    return axes


def _axis(where: str, name: str, value: Any) -> Any:
    if name in ("dataset", "weights"):
        if not isinstance(value, str):
            raise SweepError(f"{where}: expected a text, found {value!r}")
        return value
    if not isinstance(value, list) or not value:
        raise SweepError(f"{where}: expected a list with at least one entry, found {value!r}")
    numbers = name in ("batch_sizes", "device_counts")
    for entry in value:
        fits = type(entry) is int and entry >= 1 if numbers else isinstance(entry, str)
        if not fits:
            kind = "whole numbers from 1" if numbers else "texts"
            raise SweepError(f"{where}: expected {kind}, found {entry!r}")
    return tuple(dict.fromkeys(value))


def apply_settings(settings: Settings, given: Mapping[str, Any], where: str) -> Settings:
    """Settings with keys of a sweep file, or of `--set` (texts), applied. Raises SweepError."""
    hints = typing.get_type_hints(Settings)
    values = {}
    for key, value in given.items():
        if key not in hints:
            near = difflib.get_close_matches(key, hints, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            known = ", ".join(hints)
            raise SweepError(f"{where}: unknown setting {key!r}.{hint} Known: {known}")
        values[key] = _setting(where, key, hints[key], value)
    return dataclasses.replace(settings, **values)


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


def override(sweep: Sweep, overrides: Overrides) -> Sweep:
    """The sweep with what options say. Raises SweepError for a setting that is not one."""
    axes: dict[Scenario, Axes] = {
        scenario: _overridden(scenario, spanned, overrides)
        for scenario, spanned in sweep.axes.items()
    }
    settings = apply_settings(sweep.settings, overrides.settings, "--set")
    if settings.publish:
        settings = published(settings)
    return dataclasses.replace(sweep, axes=axes, settings=settings)


def published(settings: Settings) -> Settings:
    """The preset for a number that goes out: at least six fresh starts, an interval of 0.5 %, and
    30 s or more to reach it."""
    return dataclasses.replace(
        settings,
        starts=max(settings.starts, MINIMUM_FOR_MEDIAN),
        interval=min(settings.interval, PUBLISHED_INTERVAL),
        time_limit_s=max(settings.time_limit_s, PUBLISHED_TIME_LIMIT_S),
    )


def _overridden(scenario: Scenario, axes: Axes, overrides: Overrides) -> Axes:
    names = ["models", "backends", "dataset", "weights"]
    if scenario != "accuracy":
        names += ["batch_sizes", "device_counts"]
    given = {name: getattr(overrides, name) for name in names}
    return dataclasses.replace(axes, **{k: v for k, v in given.items() if v is not None})


def cases(sweep: Sweep, scenario: Scenario, registry: Registry) -> list[Case]:
    """The cases of one scenario, model by model. Raises UnknownNameError for a name that no
    plugin registered, before anything is measured."""
    axes = sweep.axes.get(scenario)
    if axes is None:
        return []
    _require_names(axes, registry)
    points = itertools.product(axes.models, axes.backends, axes.device_counts, axes.batch_sizes)
    return [
        Case(
            scenario=scenario,
            model=model,
            backend=backend,
            batch_size=batch_size,
            device_count=count,
            dataset=axes.dataset,
            weights=axes.weights,
        )
        for model, backend, count, batch_size in points
    ]


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


def _require_names(axes: Axes, registry: Registry) -> None:
    for model in axes.models:
        registry.model(model)
    for backend in axes.backends:
        registry.backend(backend)
    if axes.dataset != "auto":
        registry.dataset(axes.dataset.partition(":")[0])


def parse_list(option: str, text: str) -> tuple[str, ...]:
    """`a,b` → ("a", "b"), each once. Raises SweepError where there is nothing between commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise SweepError(f"{option}={text}: expected names with commas between them")
    return tuple(dict.fromkeys(parts))


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """`1,8` → (1, 8). Raises SweepError for what is not a whole number from 1."""
    numbers = []
    for part in parse_list(option, text):
        if not part.isdecimal() or int(part) < 1:
            raise SweepError(f"{option}={text}: expected whole numbers from 1, found {part!r}")
        numbers.append(int(part))
    return tuple(numbers)


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """`--set key=value`, repeatable → a mapping; the last of equal keys counts."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SweepError(f"--set {pair}: expected key=value, such as --set time_limit_s=10")
        found[key.strip()] = value.strip()
    return found

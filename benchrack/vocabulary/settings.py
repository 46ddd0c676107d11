"""The keys of a sweep that are not axes, in groups: each part of Benchrack gets only its own.

A key is called as on the command line (`--set key=value`) and in records: its group's prefix and
its field's name, such as `limit_drift` for `Limits.drift`.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchrack.flattening import part


def without_effect(default: Any) -> Any:
    """A setting that says where cases run, how many, or what of them is valid, and changes no
    measurement: a run that has another value may be resumed."""
    return field(default=default, metadata={"without_effect": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How a case is measured. Times are in seconds.

    `interval` is the half width, relative to the median, at which a measurement may stop.
    `reference` is the backend whose outputs the others' are compared with. `transfer` says whether
    H2D and D2H transfers are inside the time: `include`, `exclude`, or `auto` (inside for
    latency, outside for throughput). `inputs_mib` bounds the memory of the distinct inputs through
    which a measurement rotates. `evaluation_images` of 0 means all. Zero threads means one for
    each core that the process may use.
    """

    seed: int = 0
    threads: int = 0
    reference: str = "pytorch-fp32"
    transfer: Literal["auto", "include", "exclude"] = "auto"
    inputs_mib: int = 256
    round_s: float = 0.05
    warmup_limit_s: float = 10.0
    interval: float = 0.01
    time_limit_s: float = 30.0
    latency_samples: int = 1000
    evaluation_images: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrating:
    """What calibrates a precision that needs it: so many batches of so many images."""

    batches: int = 50
    batch_size: int = 25

    @property
    def images(self) -> int:
        return self.batches * self.batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The thresholds of the verdict's rules (docs/measurement.md)."""

    drift: float = without_effect(0.05)
    variation: float = without_effect(0.10)
    interval: float = without_effect(0.05)
    unsynchronised: float = without_effect(0.10)
    int8_share: float = without_effect(1.0)
    output_error: float = without_effect(1.0)
    spread: float = without_effect(1e-4)
    clock_share: float = without_effect(0.75)
    other_processes: int = without_effect(0)
    foreign_load: float = without_effect(0.05)
    threads_per_core: float = without_effect(1.0)
    power_window: float = without_effect(1.0)
    energy_uncertainty: float = without_effect(0.035)
    peak_share: float = without_effect(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where cases run, and how often.

    `starts` is how often each is measured, each time in a fresh process. `emulated` measures also
    what a device only emulates, slowly. `memory_gib` is what the processes that compute a case on a
    machine's CPU may allocate together; 0 means nine tenths of what is available when a case
    begins.
    """

    executor: Literal["worker", "in-process"] = without_effect("worker")
    case_time_limit_s: float = without_effect(1800.0)
    memory_gib: float = without_effect(0.0)
    starts: int = without_effect(1)
    publish: bool = without_effect(False)
    emulated: bool = without_effect(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """How long the machines of a run wait for each other at its beginning, and how long one of them
    may give no sign of life."""

    join_limit_s: float = without_effect(300.0)
    silence_limit_s: float = without_effect(15.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a sweep, by group."""

    measure: Measuring = part(default=Measuring())
    calibrate: Calibrating = part("calibration_", default=Calibrating())
    limits: Limits = part("limit_", default=Limits())
    run: Running = part(default=Running())
    nodes: Joining = part(default=Joining())

    @classmethod
    def of(cls, **values: Any) -> Settings:
        """The defaults, with some values by key. Raises TypeError for a key that is none."""
        return cls().having(**values)

    def having(self, **values: Any) -> Settings:
        """These, with other values by key. Raises TypeError for a key that is none."""
        known = keys()
        if unknown := sorted(set(values) - set(known)):
            raise TypeError(f"there is no setting {unknown[0]}")
        groups: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            groups.setdefault(known[key].group, {})[known[key].field] = value
        changed = {
            group: dataclasses.replace(getattr(self, group), **own) for group, own in groups.items()
        }
        return dataclasses.replace(self, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Where a key's value stands, its type, and whether it changes what is measured."""

    group: str
    field: str
    type: Any
    has_effect: bool


@functools.cache
def keys() -> Mapping[str, Key]:
    """Every setting by the key that names it on the command line and in records."""
    groups = typing.get_type_hints(Settings)
    return {
        group.metadata["prefix"] + own.name: Key(
            group=group.name,
            field=own.name,
            type=typing.get_type_hints(groups[group.name])[own.name],
            has_effect=not own.metadata.get("without_effect", False),
        )
        for group in dataclasses.fields(Settings)
        for own in dataclasses.fields(groups[group.name])
    }

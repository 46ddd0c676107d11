"""One point of a sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from benchrack.flattening import part

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One point of a sweep. Names are those under which plugins registered.

    `weights` and `dataset` are what was asked: `auto` is each model's own default; a data set may
    have an argument (`imagenet:/data/val`). `axes` are the values that its scenario alone has, by
    name. A scenario without models leaves model and backend empty.
    """

    scenario: str
    model: str = ""
    backend: str = ""
    batch_size: int = 1
    device_count: int = 1
    dataset: str = "auto"
    weights: str = "auto"
    axes: Mapping[str, Scalar] = part("axis_", default_factory=dict, hash=False)

    @property
    def id(self) -> str:
        """The name of this case among those of its scenario, as pytest shows it."""
        own = (
            str(value) if isinstance(value, str) else f"{name}{value}"
            for name, value in self.axes.items()
        )
        names = (name for name in (self.model, self.backend) if name)
        return "-".join([*names, f"b{self.batch_size}", f"x{self.device_count}", *own])


FIELDS = frozenset(field.name for field in dataclasses.fields(Case)) - {"scenario", "axes"}
"""What all scenarios have in common; other axes stand in `Case.axes`."""

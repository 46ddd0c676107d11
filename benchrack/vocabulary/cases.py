"""One point of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scenario = Literal["throughput", "latency", "accuracy"]

SCENARIOS: tuple[Scenario, ...] = ("throughput", "latency", "accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One point of a sweep. Names are those under which plugins registered.

    `weights` and `dataset` are what was asked: `auto` is each model's own default; a data set may
    have an argument (`imagenet:/data/val`).
    """

    scenario: Scenario
    model: str
    backend: str
    batch_size: int
    device_count: int = 1
    dataset: str = "auto"
    weights: str = "auto"

    @property
    def id(self) -> str:
        """The name of this case among those of its scenario, as pytest shows it."""
        return f"{self.model}-{self.backend}-b{self.batch_size}-x{self.device_count}"

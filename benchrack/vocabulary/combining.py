"""How the figures of several ranks are one, declared where a figure is: `of_ranks(max)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, field
from typing import Any, TypeVar

T = TypeVar("T")
Rule = Callable[[list[Any]], Any]


def of_ranks(rule: Rule, default: Any = MISSING) -> Any:
    """A field that several ranks' values make by a rule. `min` and `max` are of those that are
    known; a field without a rule is the first rank's."""
    return field(default=default, metadata={"of_ranks": rule})


def total(values: Sequence[float | None]) -> float | None:
    """The sum, or None where one of them, or all, is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def union(values: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """What any of them has, each once."""
    return tuple(dict.fromkeys(value for each in values for value in each))


def words(values: list[str | None]) -> str | None:
    """Each once, in words."""
    return " and ".join(filter(None, dict.fromkeys(values))) or None


def combined(parts: Sequence[T]) -> T:
    """One part of several of a class, by the rules of its fields."""
    found = {}
    for own in dataclasses.fields(parts[0]):  # type: ignore[arg-type]
        if rule := own.metadata.get("of_ranks"):
            values = [getattr(part, own.name) for part in parts]
            if rule in (min, max):
                values = [value for value in values if value is not None]
                found[own.name] = rule(values) if values else None
            else:
                found[own.name] = rule(values)
    return dataclasses.replace(parts[0], **found)  # type: ignore[type-var]

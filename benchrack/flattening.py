"""Frozen dataclasses as flat JSON objects, and back.

Scalars and lists of scalars, units in the names, never NaN: what nobody measured is null. The
fields of a part, and the entries of a mapping, stand beside those of the whole, each name behind
the part's prefix.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeVar

T = TypeVar("T")


def part(prefix: str = "", **kwargs: Any) -> Any:
    """A field whose own fields are flattened into the record, each name behind `prefix`."""
    return field(metadata={"prefix": prefix}, **kwargs)


@functools.cache
def _fields(cls: Any) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    hints = typing.get_type_hints(cls)
    return tuple((f, hints[f.name]) for f in dataclasses.fields(cls))


def _is_mapping(hint: Any) -> bool:
    return typing.get_origin(hint) is Mapping


def _bare(hint: Any) -> Any:
    """The type without `| None`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(h for h in typing.get_args(hint) if h is not type(None))
    return hint


def _scalar(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_scalar(v) for v in value]
    if hasattr(value, "item"):  # a numpy scalar, which json does not know
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def flatten(instance: Any, prefix: str = "") -> dict[str, Any]:
    """A frozen dataclass as a flat JSON object; parts that are None leave no keys."""
    flat: dict[str, Any] = {}
    for f, hint in _fields(instance.__class__):
        value = getattr(instance, f.name)
        if dataclasses.is_dataclass(_bare(hint)):
            if value is not None:
                flat |= flatten(value, prefix + f.metadata.get("prefix", ""))
        elif _is_mapping(hint):
            inner = prefix + f.metadata.get("prefix", "")
            flat |= {inner + name: _scalar(entry) for name, entry in value.items()}
        elif f.metadata.get("flat", True):
            flat[_key(prefix, f.name)] = _scalar(value)
    return flat


def _key(prefix: str, name: str) -> str:
    # An Interval's value needs no second name: images_per_s, images_per_s_low, images_per_s_high.
    return prefix.rstrip("_") if prefix and name == "value" else prefix + name


def unflatten(cls: type[T], flat: Mapping[str, Any], prefix: str = "", **given: Any) -> T:
    """The inverse of `flatten`. Unknown keys are ignored, so that newer files can be read; absent
    optional keys take their defaults, and null for a required figure is NaN again.

    Raises KeyError for an absent required key and TypeError for a value that is not of its type.
    """
    values: dict[str, Any] = dict(given)
    for f, hint in _fields(typing.cast(Any, cls)):
        if f.name in values:
            continue
        bare = _bare(hint)
        if dataclasses.is_dataclass(bare) and isinstance(bare, type):
            inner = prefix + f.metadata.get("prefix", "")
            if bare is hint or present(bare, flat, inner):
                values[f.name] = unflatten(bare, flat, inner)
            continue
        if _is_mapping(hint):
            inner = prefix + f.metadata.get("prefix", "")
            values[f.name] = {
                k.removeprefix(inner): v for k, v in flat.items() if k.startswith(inner)
            }
            continue
        key = _key(prefix, f.name)
        if key in flat:
            values[f.name] = _typed(key, flat[key], hint)
        elif _required(f):
            raise KeyError(key)
    return cls(**values)


def _required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def present(cls: Any, flat: Mapping[str, Any], prefix: str) -> bool:
    """Whether an optional part was measured: what it can't do without is there, not null, and at
    least one of its fields was written."""
    for f, hint in _fields(cls):
        key = _key(prefix, f.name)
        if _required(f) and (key not in flat or (flat[key] is None and _bare(hint) is hint)):
            return False
    return any(_key(prefix, f.name) in flat for f, _ in _fields(cls))


def _typed(key: str, value: Any, hint: Any) -> Any:
    bare = _bare(hint)
    if value is None and bare is not hint:
        return None
    if value is None and bare is float:
        return math.nan
    value = tuple(value) if isinstance(value, list) else value
    if not _fits(value, bare):
        expected = bare.__name__ if isinstance(bare, type) else str(bare)
        raise TypeError(f"{key} is {value!r}, and should be of type {expected}")
    return value


def _fits(value: Any, hint: Any) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return isinstance(value, tuple) and all(_fits(v, item) for v in value)
    return type(value) is hint or (hint is float and type(value) is int)

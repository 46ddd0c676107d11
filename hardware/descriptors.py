"""TOML files to descriptors, checked: an error names the file, the line and the key.

docs/hardware.md describes the schema. A file is read as a whole or not at all.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from benchrack.api import (
    ACCELERATOR_FIGURES,
    CONFIDENCES,
    SERVER_FIGURES,
    Accelerator,
    Cited,
    Configuration,
    DescriptorError,
    Server,
    toml_tables,
)

ENVIRONMENT_VARIABLE = "BENCHRACK_HARDWARE_PATH"

T = TypeVar("T")
Keys = tuple[str, ...]
Convert = Callable[[Any], T]


def built_in() -> tuple[Accelerator | Server, ...]:
    """The descriptors that come with Benchrack."""
    here = Path(__file__).parent
    return load_folder(here / "accelerators") + load_folder(here / "servers")


def from_environment(
    environment: Mapping[str, str] = os.environ,
) -> tuple[Accelerator | Server, ...]:
    """The descriptors of the folders in $BENCHRACK_HARDWARE_PATH, in its order.

    Raises DescriptorError.
    """
    folders = [f for f in environment.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep) if f]
    return tuple(d for f in folders for d in load_folder(Path(f).expanduser()))


def load_folder(folder: Path) -> tuple[Accelerator | Server, ...]:
    """All descriptors `*.toml` in a folder and in its `accelerators/` and `servers/`.

    Raises DescriptorError for the first file that is malformed, and where there is none.
    """
    if not folder.is_dir():
        raise DescriptorError(f"{folder} is not a folder; it should hold descriptors, *.toml")
    below = (folder, folder / "accelerators", folder / "servers")
    paths = [path for place in below for path in sorted(place.glob("*.toml"))]
    if not paths:
        raise DescriptorError(f"{folder} holds no descriptor (*.toml), nor do its subfolders")
    return tuple(map(load_file, paths))


def load_file(path: Path) -> Accelerator | Server:
    """One descriptor; its name is the file's, without `.toml`. Raises DescriptorError."""
    document = _Document.read(path)
    kinds: dict[Any, Callable[[_Document], Accelerator | Server]] = {
        "accelerator": _accelerator,
        "server": _server,
    }
    kind = document.get(("kind",))
    if kind not in kinds:
        found = "it is absent" if kind is None else f"found {kind!r}"
        document.fail(("kind",), f'must be "accelerator" or "server"; {found}')
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", path.stem):
        document.fail((), "a descriptor's file name is made of a to z, 0 to 9, '-' and '.'")
    return kinds[kind](document)


def _accelerator(document: _Document) -> Accelerator:
    document.only((), _names(Accelerator))
    return Accelerator(
        name=document.path.stem,
        title=document.text(("title",)),
        vendor=document.text(("vendor",)),
        device_names=document.cited(("device_names",), _texts),
        pci_ids=document.optional(("pci_ids",), _pci_ids),
        compute_capability=document.optional(("compute_capability",), _capability),
        form=document.optional(("form",), _text),
        memory_type=document.optional(("memory_type",), _text),
        host_link=document.optional(("host_link",), _text),
        device_link=document.optional(("device_link",), _text),
        figures=document.figures(ACCELERATOR_FIGURES),
        notes=document.notes(),
    )


def _server(document: _Document) -> Server:
    document.only((), _names(Server))
    return Server(
        name=document.path.stem,
        title=document.text(("title",)),
        vendor=document.text(("vendor",)),
        dmi_names=document.cited(("dmi_names",), _texts),
        form=document.optional(("form",), _text),
        figures=document.figures(SERVER_FIGURES),
        configurations=tuple(
            _configuration(document, name) for name in document.table(("configurations",))
        ),
        notes=document.notes(),
    )


def _configuration(document: _Document, name: str) -> Configuration:
    key = ("configurations", name)
    document.only(key, [f.name for f in fields(Configuration) if f.name != "name"])
    return Configuration(
        name=name,
        accelerator=document.optional((*key, "accelerator"), _text),
        accelerator_count=document.optional((*key, "accelerator_count"), _number),
        accelerator_max=document.optional((*key, "accelerator_max"), _number),
        cpu=document.optional((*key, "cpu"), _text),
        memory_gib=document.optional((*key, "memory_gib"), _number),
        topology=document.optional((*key, "topology"), _text),
    )


def _names(cls: type[Accelerator] | type[Server]) -> list[str]:
    """The keys at the top of a file; the name is the file's own."""
    return ["kind", "sources", *(f.name for f in fields(cls) if f.name != "name")]


# What a value must be: each returns it, or raises ValueError saying what was expected.


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("must be a list of texts, with one at least")
    return tuple(map(_text, value))


def _pci_ids(value: Any) -> tuple[str, ...]:
    ids = _texts(value)
    if not all(re.fullmatch("[0-9a-f]{4}", i) for i in ids):
        raise ValueError('must be PCI device ids of four hex digits in lower case, such as "1db1"')
    return ids


def _capability(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d", value):
        raise ValueError('must be a text such as "7.0"')
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    if not math.isfinite(value) or value < 0:
        raise ValueError("must be finite and not negative")
    return value


@dataclass(frozen=True, slots=True)
class _Document:
    """A parsed file that knows its own text, so that a mistake can be shown where it is."""

    path: Path
    source_text: str
    data: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> _Document:
        data, source_text = toml_tables.read(path, "a descriptor", DescriptorError)
        return cls(path, source_text, data)

    def fail(self, keys: Keys, message: str) -> NoReturn:
        line = line_of(self.source_text, keys)
        where = f", line {line}" if line else ""
        what = f", {'.'.join(keys)}" if keys else ""
        raise DescriptorError(f"{self.path}{where}{what}: {message}")

    def get(self, keys: Keys) -> Any:
        value: Any = self.data
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def table(self, keys: Keys) -> Mapping[str, Any]:
        """The table at `keys`, empty where it is absent."""
        value = self.get(keys)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fail(keys, f"must be a table; found {value!r}")
        return value

    def only(self, keys: Keys, known: Iterable[str]) -> None:
        """Refuse keys that nobody reads: a misspelt figure must not vanish."""
        for key in self.table(keys):
            if problem := toml_tables.unknown([key], known):
                self.fail((*keys, key), problem)

    def text(self, keys: Keys) -> str:
        return self._convert(keys, self._present(keys), _text)

    def optional(self, keys: Keys, convert: Convert[T]) -> Cited[T] | None:
        return None if self.get(keys) is None else self.cited(keys, convert)

    def cited(self, keys: Keys, convert: Convert[T]) -> Cited[T]:
        return self._cited(keys, self._present(keys), convert)

    def figures(self, known: Mapping[str, str]) -> dict[str, Cited[float]]:
        self.only(("figures",), known)
        return {
            name: self._cited(("figures", name), value, _number)
            for name, value in self.table(("figures",)).items()
        }

    def notes(self) -> tuple[Cited[str], ...]:
        notes = self.get(("notes",)) or []
        if not isinstance(notes, list):
            self.fail(("notes",), "must be a list of tables with value, source and confidence")
        return tuple(self._cited(("notes",), note, _text) for note in notes)

    def _present(self, keys: Keys) -> Any:
        value = self.get(keys)
        if value is None:
            self.fail(keys, "is required and absent")
        return value

    def _cited(self, keys: Keys, table: Any, convert: Convert[T]) -> Cited[T]:
        if not isinstance(table, dict):
            self.fail(keys, f"must be a table with value, source and confidence; found {table!r}")
        if extra := sorted(set(table) - {"value", "source", "confidence", "note"}):
            self.fail((*keys, extra[0]), "unknown; known are value, source, confidence and note")
        for key in ("value", "source", "confidence"):
            if key not in table:
                self.fail(keys, f"has no {key}: every figure says where it was read, and how sure")
        if table["confidence"] not in CONFIDENCES:
            self.fail((*keys, "confidence"), f"must be A, B, C or D; found {table['confidence']!r}")
        sources = self.table(("sources",))
        if table["source"] not in list(sources):
            known = ", ".join(sources) or "none"
            self.fail(
                (*keys, "source"),
                f"{table['source']!r} is not a key of [sources], which has {known}",
            )
        return Cited(
            value=self._convert((*keys, "value"), table["value"], convert),
            source=self._convert(("sources", table["source"]), sources[table["source"]], _text),
            confidence=table["confidence"],
            note=self._convert((*keys, "note"), table["note"], _text) if "note" in table else "",
        )

    def _convert(self, keys: Keys, value: Any, convert: Convert[T]) -> T:
        try:
            return convert(value)
        except ValueError as error:
            self.fail(keys, f"{error}; found {value!r}")


_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"


def line_of(text: str, keys: Keys) -> int | None:
    """The line, from 1, on which TOML text sets `keys`, or the nearest of their parents.

    tomllib keeps no positions; this reads table headers and the keys at the start of a line, which
    is where descriptors have them.
    """
    table: Keys = ()
    best, depth = None, 0
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(rf"\s*\[\[?\s*({_DOTTED})\s*\]", line):
            table = found = _split(header[1])
        elif assignment := re.match(rf"\s*({_DOTTED})\s*=", line):
            found = (*table, *_split(assignment[1]))
        else:
            continue
        if depth < len(found) <= len(keys) and keys[: len(found)] == found:
            best, depth = number, len(found)
    return best


def _split(dotted: str) -> Keys:
    """The parts of a dotted TOML key, without their quotes."""
    return tuple(part.strip("\"'") for part in re.findall(_KEY, dotted))

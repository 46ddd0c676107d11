"""Every record to disk the moment it exists, so that a run that is killed loses at most one line.

A journal is a file of JSON lines: a header, then a line for each measurement and each outcome in
the order in which they came, and an end. A journal without its end is that of a run that was
killed, or that is still running.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchrack.errors import ResultsError
from benchrack.flattening import flatten, unflatten
from benchrack.records.record import SCHEMA, from_record, to_record
from benchrack.vocabulary.results import Measurement, Outcome
from benchrack.vocabulary.scenarios import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The run that a journal belongs to: `started` in ISO 8601, UTC; `machine` its flat facts.

    `settings` are the sweep's, by key, and `resumes` names the earlier runs whose valid records
    this one did not measure again. `device` is the one of cases with one device, the first of
    `devices`; `nodes` has the digest of each machine, of which the first kept this file. `plugins`
    and `weights` are as in `sources`.
    """

    run: str
    started: str
    command: tuple[str, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str = ""
    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    resumes: tuple[str, ...] = ()

    @classmethod
    def read(cls, flat: Mapping[str, Any]) -> Header:
        """From a journal's first line, or the `benchrack` block of pytest-benchmark's JSON.

        Raises ResultsError if it is none, or that of a newer Benchrack.
        """
        schema = flat.get("schema")
        if not isinstance(schema, int):
            raise ResultsError("it has no schema number: it was not written by Benchrack")
        if schema > SCHEMA:
            raise ResultsError(
                f"it was written by a newer Benchrack (schema {schema}; this one reads up to "
                f"{SCHEMA}). Update Benchrack to read it"
            )
        return cls(
            run=str(flat.get("run") or ""),
            started=str(flat.get("started") or ""),
            command=_texts(flat.get("command")),
            machine=_mapping(flat.get("machine")),
            settings=_mapping(flat.get("settings")),
            device=str(flat.get("device") or ""),
            devices=_texts(flat.get("devices")),
            nodes=_texts(flat.get("nodes")),
            plugins=_mapping(flat.get("plugins")),
            weights=_mapping(flat.get("weights")),
            resumes=_texts(flat.get("resumes")),
        )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContents:
    """What a journal holds, measurements and outcomes each with pytest's node id.

    `complete` says that the run came to its end and every line reached the disk; `torn` that the
    last line was cut off, and is left out; `problems` are lines that are damaged, and left out too.
    """

    header: Header
    measurements: tuple[tuple[str, Measurement], ...]
    outcomes: tuple[tuple[str, Outcome], ...]
    complete: bool
    torn: bool = False
    problems: tuple[str, ...] = ()


class Journal:
    """An open journal. A line is written whole, and is on the disk when a method returns."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.lost = 0
        self._descriptor = descriptor

    @classmethod
    def create(cls, path: Path, header: Header) -> Journal:
        """A new journal, its folder included. Raises ResultsError if it can't be written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            journal = cls(path, os.open(path, flags, 0o644))
        except OSError as error:
            raise ResultsError(f"the journal {path} can't be written: {error.strerror}") from error
        try:
            journal._append({"kind": "header", "schema": SCHEMA, **dataclasses.asdict(header)})
        except ResultsError:
            os.close(journal._descriptor)
            path.unlink(missing_ok=True)
            raise
        return journal

    def append_measurement(self, measurement: Measurement, nodeid: str) -> None:
        """Raises ResultsError as the other appending methods do: the first time that the disk
        refuses (full, gone). Later lines are still tried; `lost` counts those that failed."""
        if not all(map(math.isfinite, measurement.seconds_per_batch)):
            raise ResultsError(f"{measurement.case.id} has a sample that is not a finite number")
        self._append(
            {
                "kind": "measurement",
                "nodeid": nodeid,
                "record": to_record(measurement),
                "seconds_per_batch": measurement.seconds_per_batch,
            }
        )

    def append_outcome(self, outcome: Outcome, nodeid: str) -> None:
        self._append({"kind": "outcome", "nodeid": nodeid, **flatten(outcome)})

    def close(self) -> None:
        """Write the end of the run, and close the file. Raises ResultsError as appending does."""
        if self._descriptor < 0:
            return
        try:
            self._append({"kind": "end", "lost": self.lost})
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(_finite(line), allow_nan=False, default=str) + "\n"
        size = os.fstat(self._descriptor).st_size
        try:
            _write_whole(self._descriptor, text.encode())
        except OSError as error:
            self.lost += 1
            _truncate(self._descriptor, size)
            if self.lost == 1:
                raise ResultsError(
                    f"the journal {self.path} can't be written: {error.strerror}. What is in it is "
                    "safe; what is measured from now on may be missing from it"
                ) from error


def _write_whole(descriptor: int, line: bytes) -> None:
    while line:  # more than one write only where the disk is nearly full: the next says why
        line = line[os.write(descriptor, line) :]
    os.fsync(descriptor)


def _truncate(descriptor: int, size: int) -> None:
    """Take back a torn line; where even that fails it stays, and reading says so."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, size)


def _finite(value: Any) -> Any:
    """With null for what is not a finite number: JSON has no word for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def read(path: Path, scenarios: Mapping[str, Scenario]) -> JournalContents:
    """A journal from disk, whole, torn or damaged inside. Raises ResultsError if it is none."""
    try:
        *whole, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ResultsError(f"{path} can't be read: {error.strerror}") from error
    numbered = [(number, line) for number, line in enumerate(whole, 1) if line.strip()]
    lines = [_parse(path, *first) for first in numbered[:1]]
    problems: list[str] = []
    for number, line in numbered[1:]:
        with _noted(problems):
            lines.append(_parse(path, number, line))
    try:
        lines += [_parse(path, len(whole) + 1, rest)] if rest else []
        torn = False
    except ResultsError:
        torn = True
    if not lines:
        raise ResultsError(f"{path} holds no record: it is empty, or its only line is torn")
    (first, opening), *body = lines
    if opening["kind"] != "header":
        raise ResultsError(f"{path}, line {first}: not a journal of Benchrack's, it has no header")
    try:
        header = Header.read(opening)
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from error
    measurements, outcomes, complete = [], [], False
    for number, found in body:
        with _noted(problems):
            match found["kind"]:
                case "measurement":
                    measurements.append(_measurement(path, number, found, scenarios))
                case "outcome":
                    outcomes.append(_outcome(path, number, found))
                case "end":
                    complete = not found.get("lost")
    return JournalContents(
        header=header,
        measurements=tuple(measurements),
        outcomes=tuple(outcomes),
        complete=complete,
        torn=torn,
        problems=tuple(problems),
    )


@contextlib.contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    """A damaged line is a problem, and no reason to lose the others."""
    try:
        yield
    except ResultsError as error:
        problems.append(f"{error}: left out")


def _parse(path: Path, number: int, line: bytes) -> tuple[int, dict[str, Any]]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise ResultsError(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("kind"), str):
        raise ResultsError(f"{path}, line {number}: not a line of Benchrack's, it has no kind")
    return number, parsed


def _measurement(
    path: Path, number: int, line: Mapping[str, Any], scenarios: Mapping[str, Scenario]
) -> tuple[str, Measurement]:
    try:
        samples = [float(s) for s in line["seconds_per_batch"]]
        return str(line["nodeid"]), from_record(line["record"], samples, scenarios)
    except (KeyError, TypeError, ValueError) as error:
        raise _incomplete(path, number, "measurement", error) from error


def _outcome(path: Path, number: int, line: Mapping[str, Any]) -> tuple[str, Outcome]:
    try:
        return str(line["nodeid"]), unflatten(Outcome, line)
    except (KeyError, TypeError) as error:
        raise _incomplete(path, number, "outcome", error) from error


def _incomplete(path: Path, number: int, kind: str, error: Exception) -> ResultsError:
    what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    return ResultsError(f"{path}, line {number}: not a whole {kind}: {what}")

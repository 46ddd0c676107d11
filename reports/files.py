"""One results file: pytest-benchmark's JSON with Benchrack's block in it, or a journal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrack.errors import ResultsError
from benchrack.flattening import unflatten
from benchrack.records import journal
from benchrack.records.journal import Header
from benchrack.records.record import from_record
from benchrack.reports.labels import identity, machine_label, node
from benchrack.vocabulary.results import Measurement, Outcome
from benchrack.vocabulary.scenarios import Scenario

# Suffixes of results files.
RESULTS = (".json", ".jsonl")
# What a report in JSON calls itself, so that it is not taken for results.
REPORT = "benchrack-report"


class IsReportError(ResultsError):
    """The file is a report that was made from results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What one file holds, its machine not yet told apart from others of the same make."""

    path: Path
    header: Header
    label: str
    node: str
    identity: str
    measurements: Sequence[Measurement]
    outcomes: Sequence[Outcome]
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()


def read(path: Path, scenarios: Mapping[str, Scenario]) -> File:
    """A journal or a JSON of pytest-benchmark's. Raises ResultsError, which names the file."""
    of = _read_journal if path.suffix == ".jsonl" else _read_benchmarks
    return of(path, scenarios)


def is_report(path: Path) -> bool:
    """Whether a file is no results file, but a report in JSON that was made from some."""
    try:
        with path.open("rb") as file:
            return f'"kind": "{REPORT}"'.encode() in file.read(200)
    except OSError:
        return False


def _read_journal(path: Path, scenarios: Mapping[str, Scenario]) -> File:
    contents = journal.read(path, scenarios)
    header = contents.header
    notes = []
    if not contents.complete:
        torn = "; its last line is torn and left out" if contents.torn else ""
        notes.append(f"run {header.run} did not come to its end: what {path} holds of it{torn}")
    return File(
        path=path,
        header=header,
        label=machine_label(header.machine, {}),
        node=node(header.machine, {}),
        identity=identity(header.machine, {}),
        measurements=[measurement for _, measurement in contents.measurements],
        outcomes=[outcome for _, outcome in contents.outcomes],
        problems=contents.problems,
        notes=notes,
    )


def _read_benchmarks(path: Path, scenarios: Mapping[str, Scenario]) -> File:
    if is_report(path):
        raise IsReportError(f"{path} is a report, not results: left out")
    data = _json(path)
    benchmarks = [b for b in data["benchmarks"] if isinstance(b, dict)]
    ours = [(b, flat) for b in benchmarks if (flat := _flat(b)) is not None]
    block = data.get("benchrack")
    if not isinstance(block, dict):
        if not ours:
            raise ResultsError(f"{path}: none of its {len(benchmarks)} benchmarks is Benchrack's")
        block = {"schema": ours[0][1].get("schema")}
    try:
        header = Header.read({"run": path.stem, "started": data.get("datetime"), **block})
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from error

    problems: list[str] = []
    measurements, outcomes = [], []
    for benchmark, flat in ours:
        try:
            measurements.append(from_record(flat, _samples(benchmark), scenarios))
        except (KeyError, TypeError, ValueError) as error:
            problems.append(
                f"{path}: {benchmark.get('name')} is not a whole record: {_what(error)}"
            )
    flats = block.get("outcomes")
    for flat in flats if isinstance(flats, list) else []:
        try:
            outcomes.append(unflatten(Outcome, flat))
        except (KeyError, TypeError) as error:
            problems.append(f"{path}: an outcome is not whole: {_what(error)}")
    info = data.get("machine_info")
    info = info if isinstance(info, dict) else {}
    return File(
        path=path,
        header=header,
        label=machine_label(header.machine, info),
        node=node(header.machine, info),
        identity=identity(header.machine, info),
        measurements=measurements,
        outcomes=outcomes,
        problems=problems,
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        # pytest-benchmark writes NaN, which is not JSON, for what it can't compute.
        data = json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except FileNotFoundError as error:
        raise ResultsError(f"{path} does not exist") from error
    except OSError as error:
        raise ResultsError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ResultsError(
            f"{path} is not whole JSON ({error}). If its run was cut off, its journal (*.jsonl) "
            "holds what was measured"
        ) from error
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        raise ResultsError(f"{path} is not a file of pytest-benchmark's: it has no benchmarks")
    return data


def _flat(benchmark: Mapping[str, Any]) -> dict[str, Any] | None:
    extra = benchmark.get("extra_info")
    flat = extra.get("benchrack") if isinstance(extra, dict) else None
    return flat if isinstance(flat, dict) else None


def _samples(benchmark: Mapping[str, Any]) -> list[float]:
    """Seconds a batch; none where pytest-benchmark saved statistics only (--benchmark-save)."""
    stats = benchmark.get("stats")
    return [float(s) for s in (stats.get("data") if isinstance(stats, dict) else None) or []]


def _what(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)

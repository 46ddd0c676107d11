"""One call of pytest: the cases it plans, what they gave, its journal and its JSON file."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchrack.errors import ResultsError
from benchrack.files import write_text
from benchrack.flattening import flatten
from benchrack.records.journal import Header, Journal
from benchrack.records.record import SCHEMA
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.provenance import without_passwords
from benchrack.vocabulary.results import Measurement, Outcome
from benchrack.vocabulary.settings import Settings

NOT_RUN = "not-run"


def new_name(sweep: str, now: datetime) -> str:
    """A name for a run that sorts by time and that two runs of one second do not share."""
    return f"{now:%Y%m%dT%H%M%SZ}-{sweep}-{secrets.token_hex(2)}"


def new_header(
    sweep: str,
    command: tuple[str, ...],
    machine: Mapping[str, Any],
    settings: Settings,
    devices: Sequence[Device],
) -> Header:
    """What a run that begins now writes at the top of its files; the command without passwords."""
    now = datetime.now(UTC)
    return Header(
        run=new_name(sweep, now),
        started=now.isoformat(timespec="seconds"),
        command=without_passwords(command),
        machine=machine,
        settings=flatten(settings),
        device=str(devices[0]),
        devices=tuple(map(str, devices)),
    )


@dataclass(slots=True, kw_only=True)
class Run:
    """What a run knows of itself. `planned` maps pytest's node ids to the cases still to run;
    `lost` says that something that was measured is in no file."""

    header: Header
    folder: Path
    journal: Journal
    planned: dict[str, Case] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    benchmarks: list[Any] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    total: int = 0
    json_path: Path | None = None
    lost: bool = False

    @classmethod
    def begin(cls, folder: Path, header: Header) -> Run:
        """A new run with its journal on disk. Raises ResultsError if that can't be written."""
        journal = Journal.create(folder / f"{header.run}.jsonl", header)
        return cls(header=header, folder=folder, journal=journal)

    def plan(self, cases: Mapping[str, Case]) -> None:
        self.planned = dict(cases)
        self.total = len(cases)

    def record(self, measurement: Measurement, nodeid: str) -> None:
        """Keep a measurement: in the journal before anything else can go wrong."""
        self.planned.pop(nodeid, None)
        self.measurements.append(measurement)
        with self._journal_errors():
            self.journal.append_measurement(measurement, nodeid)

    def note(self, case: Case, status: str, reason: str, nodeid: str) -> None:
        """Keep the reason why a planned case gave no measurement."""
        self.planned.pop(nodeid, None)
        outcome = Outcome(case=case, status=status, reason=reason)
        self.outcomes.append(outcome)
        with self._journal_errors():
            self.journal.append_outcome(outcome, nodeid)

    def end(self, reason: str) -> None:
        """Note every planned case that was not reached, and close the journal."""
        for nodeid, case in list(self.planned.items()):
            self.note(case, NOT_RUN, reason, nodeid)
        with self._journal_errors():
            self.journal.close()

    @contextlib.contextmanager
    def _journal_errors(self) -> Any:
        # A full disk must not end the sweep: what is measured is still in memory, and shown.
        try:
            yield
        except ResultsError as error:
            self.problems.append(str(error))

    def block(self) -> dict[str, Any]:
        """The top-level `benchrack` block of pytest-benchmark's JSON."""
        return {
            "schema": SCHEMA,
            **dataclasses.asdict(self.header),
            "outcomes": [flatten(outcome) for outcome in self.outcomes],
        }

    def write_json(self, document: Mapping[str, Any], path: Path | None = None) -> Path | None:
        """Write pytest-benchmark's document, whole or not at all; None where the disk refuses."""
        path = path or self.folder / f"{self.header.run}.json"
        try:
            write_text(path, json.dumps(document, indent=4, default=str) + "\n")
        except OSError as error:
            self.json_failed(error, path)
            return None
        return path

    def json_failed(self, error: OSError, path: Path | None = None) -> None:
        """Remember that the JSON is missing, and where its records are, or that some are lost."""
        self.json_path = None
        journal = self.journal
        held = "has all records"
        if journal.lost:
            self.lost = True
            held = f"lacks {journal.lost} of its lines too: what they held is lost. For the rest"
        self.problems.append(
            f"{path or error.filename} can't be written: {error.strerror}. The journal "
            f"{journal.path} {held}: benchrack report {journal.path}"
        )

"""Results files to tidy records: pytest-benchmark's JSON and journals, of one machine or forty.

A JSON and a journal of the same run are the same run, and the JSON wins. One file that can't be
read does not lose the others: it is named in `problems`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchrack.errors import ResultsError
from benchrack.records.journal import Header
from benchrack.registry.registry import built_in_scenarios
from benchrack.reports.files import RESULTS, File, IsReportError, is_report, read
from benchrack.reports.labels import UNKNOWN, identity, machine_label, node
from benchrack.vocabulary.results import Measurement, Outcome
from benchrack.vocabulary.scenarios import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of pytest. `machine` is a label, unlike that of any other machine of the results;
    `started` is ISO 8601, UTC, and empty where the file does not say. `resumes` names earlier runs
    whose records this one did not measure again: they are parts of one sweep. `publish` says that
    its figures are to go out; `nodes` is the number of its machines."""

    name: str
    started: str
    machine: str
    source: Path
    resumes: tuple[str, ...] = ()
    publish: bool = False
    nodes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One start of one case."""

    run: Run
    measurement: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A planned case that gave no measurement."""

    run: Run
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that the files hold, older runs first.

    `problems` are files and records that could not be read, `notes` what a reader must know of
    those that were; `scenarios` are those whose results were read, by name.
    """

    records: tuple[Record, ...]
    misses: tuple[Miss, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    scenarios: Mapping[str, Scenario] = field(default_factory=built_in_scenarios)


def load(paths: Iterable[Path], scenarios: Mapping[str, Scenario] | None = None) -> Results:
    """The results in files, and in the `*.json` and `*.jsonl` of folders.

    Never raises for a file that is missing, foreign or damaged: it is one of the problems.
    """
    scenarios = scenarios or built_in_scenarios()
    problems: list[str] = []
    notes: list[str] = []
    files: list[File] = []
    for path in _expand(paths, problems):
        try:
            files.append(read(path, scenarios))
        except IsReportError as error:
            notes.append(str(error))
        except ResultsError as error:
            problems.append(str(error))
    return _assemble(_one_a_run(files), scenarios, problems, notes)


def newest_run(folder: Path) -> list[Path]:
    """The files of the run that wrote to a folder last: its JSON, its journal, or both.

    Raises ResultsError where there is none.
    """
    found = [p for p in folder.glob("*.json*") if p.suffix in RESULTS and not is_report(p)]
    if not found:
        raise ResultsError(
            f"no results in {folder}: run `pytest -m inference` first, or name files or folders"
        )
    newest = max(found, key=lambda p: p.stat().st_mtime)
    return sorted(p for p in found if p.stem == newest.stem)


def of_session(
    header: Header,
    measurements: Sequence[Measurement],
    outcomes: Sequence[Outcome],
    source: Path,
    *,
    scenarios: Mapping[str, Scenario] | None = None,
    resumed: Sequence[File] = (),
) -> Results:
    """The results of a run that just ended, without a way through the disk, and of the files that
    it resumes."""
    one = File(
        path=source,
        header=header,
        label=machine_label(header.machine, {}),
        node=node(header.machine, {}),
        identity=identity(header.machine, {}),
        measurements=measurements,
        outcomes=outcomes,
    )
    return _assemble(_one_a_run([*resumed, one]), scenarios or built_in_scenarios())


def _expand(paths: Iterable[Path], problems: list[str]) -> list[Path]:
    files: dict[Path, Path] = {}
    for path in paths:
        found = [path]
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.suffix in RESULTS)
            if not found:
                problems.append(f"{path} holds no results: no *.json and no *.jsonl in it")
        for file in found:
            files.setdefault(file.resolve(), file)
    return list(files.values())


def _one_a_run(files: Iterable[File]) -> list[File]:
    """One file of each run: its JSON rather than its journal, and of those the fullest."""
    best: dict[tuple[str, str, str], File] = {}
    for file in files:
        # Of the machine only what both files say: pytest-benchmark's own facts are in the JSON.
        facts = file.header.machine
        key = (file.header.run, machine_label(facts, {}), identity(facts, {}))
        if key not in best or _worth(file) > _worth(best[key]):
            best[key] = file
    return list(best.values())


def _worth(file: File) -> tuple[bool, int, int]:
    samples = sum(len(m.seconds_per_batch) for m in file.measurements)
    return file.path.suffix != ".jsonl", len(file.measurements), samples


def _assemble(
    files: Sequence[File],
    scenarios: Mapping[str, Scenario],
    problems: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Results:
    names = _names(files)
    records, misses = [], []
    in_order = sorted(files, key=lambda f: f.header.started)
    for file in in_order:
        run = Run(
            name=file.header.run,
            started=file.header.started,
            machine=names[file.label, _identity(file)],
            source=file.path,
            resumes=file.header.resumes,
            nodes=len(file.header.nodes) or 1,
            publish=file.header.settings.get("publish") is True,
        )
        records += [Record(run=run, measurement=_honest(m)) for m in file.measurements]
        misses += [Miss(run=run, outcome=o) for o in file.outcomes]
    return Results(
        records=tuple(records),
        misses=tuple(misses),
        problems=(*problems, *(p for file in in_order for p in file.problems)),
        notes=(
            *notes,
            *(note for file in in_order for note in file.notes),
            *_unknown(records, scenarios),
        ),
        scenarios=scenarios,
    )


def _unknown(records: Iterable[Record], scenarios: Mapping[str, Scenario]) -> list[str]:
    """What was asked by plugins that are not here now: it can't be shown."""
    asked = dict.fromkeys(record.measurement.case.scenario for record in records)
    return [
        f"no plugin provides the scenario {name}: its records are not shown"
        for name in asked
        if name not in scenarios
    ]


def _names(files: Iterable[File]) -> dict[tuple[str, str], str]:
    """What each machine is called, by its label and identity: no two alike."""
    alike: dict[str, dict[str, str]] = {}
    for file in files:
        alike.setdefault(file.label, {}).setdefault(_identity(file), file.node)
    names = {}
    for label, nodes in alike.items():
        telling = len(set(nodes.values())) == len(nodes) and all(nodes.values())
        for identity_, own in nodes.items():
            apart = own if telling else identity_ or "unnamed"
            names[label, identity_] = f"{label} ({apart})" if len(nodes) > 1 else label
    return names


def _identity(file: File) -> str:
    """Runs of machines of which nothing is known are not taken for runs of one."""
    return file.identity or (file.header.run if file.label == UNKNOWN else "")


def _honest(measurement: Measurement) -> Measurement:
    """Without top-1 and top-5 of random weights, which are no result, whoever wrote them."""
    accuracy = measurement.result
    of_accuracy = measurement.case.scenario == "accuracy" and accuracy is not None
    if not of_accuracy or measurement.preparation.trained:
        return measurement
    bare = dataclasses.replace(
        accuracy, top1=None, top5=None, reference_top1=None, top1_drop_points=None
    )
    return dataclasses.replace(measurement, result=bare)

"""`--resume=FILE`: the tests that need not measure, since an earlier run has a valid record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchrack.bench.bench import Bench
from benchrack.cases.resuming import Present, TakenOver, take_over
from benchrack.execution.running import yardstick
from benchrack.pytest_plugin import options
from benchrack.pytest_plugin.cases import Planned
from benchrack.records.journal import Header
from benchrack.reports.files import File, read
from benchrack.verdict.rules import judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """`files` are those of earlier runs under the same conditions, of which this run is a part;
    `reasons` say, by pytest's node id, where the valid record of a test is."""

    files: tuple[File, ...] = ()
    reasons: Mapping[str, str]

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of the earlier runs."""
        return tuple(dict.fromkeys(file.header.run for file in self.files))


def resume(
    config: pytest.Config, now: Header, bench: Bench, planned: Mapping[str, Planned]
) -> Resumed:
    """What the files of `--resume` spare this run; each is told about on the terminal.

    Raises ResultsError for a file that is missing or damaged, and UsageError for one that this run
    would overwrite.
    """
    wanted = {nodeid: (plan.case, plan.start) for nodeid, plan in planned.items()}
    found = [
        (asked, read(_path(config, asked), bench.registry.scenarios))
        for asked in options.resumed(config)
    ]
    files: list[File] = []
    reasons: dict[str, str] = {}
    for asked, file in found:
        taken = take_over(file.header, file.measurements, present(bench, now), set(wanted.values()))
        spared = [nodeid for nodeid, start in wanted.items() if start in taken.starts]
        reasons |= dict.fromkeys(spared, f"has a valid record in {asked}")
        if taken.same:
            files.append(file)
        _tell(config, [f"resuming {asked}: {_summary(taken, len(spared), len(wanted))}"])
        _tell(config, [*file.notes, *file.problems])
    return Resumed(files=tuple(files), reasons=reasons)


def present(bench: Bench, header: Header) -> Present:
    """This run, whose cases the bench would measure, as earlier ones are compared with it."""
    return Present(
        header=header,
        registry=bench.registry,
        valid=lambda m: not judge(m, yardstick(bench, m.case)),
        split=bench.data.split,
    )


def _path(config: pytest.Config, asked: str) -> Path:
    path = options.absolute(config, asked)
    written = config.getoption("benchmark_json", None)
    if written and Path(written).resolve() == path:
        raise pytest.UsageError(
            f"--resume={asked}: --benchmark-json would overwrite it. Name another file there"
        )
    return path


def _summary(taken: TakenOver, spared: int, wanted: int) -> str:
    why = "; ".join(taken.differences)
    if not taken.same:
        return f"everything is measured anew: {why}"
    anew = f"; others are measured anew: {why}" if why else ""
    return f"{spared} of {wanted} have a valid record{anew}"


def _tell(config: pytest.Config, lines: list[str]) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    for line in lines:
        reporter.ensure_newline()
        reporter.write_line(f"benchrack: {line}")

"""What a run leaves behind: its JSON file, and the tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchrack.records.run import Run
from benchrack.reports.files import File
from benchrack.reports.numbers import figure, half_width, spread_sign
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Scenario


def headline(measurement: Measurement, scenario: Scenario) -> str:
    """What a case measured, in a few words, and why it must not be quoted."""
    marks = f"! {'; '.join(measurement.reasons)}" if measurement.reasons else ""
    return f"{_measured(measurement, scenario)} {marks}".rstrip()


def _measured(measurement: Measurement, scenario: Scenario) -> str:
    result, metric = measurement.result, scenario.headline
    if result is not None and scenario.in_words is not None:
        return scenario.in_words(result)
    if (found := metric.of(result)) is None:
        return f"{len(measurement.seconds_per_batch)} samples"
    rounds = measurement.steadiness is not None and measurement.steadiness.rounds is not None
    spread = half_width(found, spread_sign(measurement)) if rounds else ""
    words = (metric.title, figure(found.value), metric.unit, spread)
    return " ".join(filter(None, words))


def write_results(config: pytest.Config, run: Run) -> None:
    """Write the run's JSON by pytest-benchmark's own hooks, even when nothing succeeded.

    A file that the user named with `--benchmark-json` is pytest-benchmark's to write; it does not
    where no case was measured, so then it is written here.
    """
    if not config.pluginmanager.hasplugin("benchmark"):
        return
    asked = config.getoption("benchmark_json", None)
    if asked and run.benchmarks:
        run.json_path = Path(asked)
    else:
        run.json_path = run.write_json(_document(config, run), Path(asked) if asked else None)


def _document(config: pytest.Config, run: Run) -> dict[str, Any]:
    hook = config.hook
    machine_info = hook.pytest_benchmark_generate_machine_info(config=config)
    hook.pytest_benchmark_update_machine_info(config=config, machine_info=machine_info)
    commit_info = hook.pytest_benchmark_generate_commit_info(config=config)
    hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit_info)
    document: dict[str, Any] = hook.pytest_benchmark_generate_json(
        config=config,
        benchmarks=run.benchmarks,
        include_data=True,
        machine_info=machine_info,
        commit_info=commit_info,
    )
    hook.pytest_benchmark_update_json(
        config=config, benchmarks=run.benchmarks, output_json=document
    )
    return document


def print_results(
    reporter: pytest.TerminalReporter,
    run: Run,
    scenarios: Mapping[str, Scenario],
    resumed: Sequence[File] = (),
) -> None:
    """The tables of this run, with those that it resumes, where its files are, and what went wrong
    with them."""
    from benchrack.reports.records import of_session
    from benchrack.reports.tables import render_all

    source = run.json_path or run.journal.path
    results = of_session(
        run.header,
        run.measurements,
        run.outcomes,
        source,
        scenarios=scenarios,
        resumed=resumed,
    )
    reporter.ensure_newline()
    reporter.section("benchrack", sep="=")
    reporter.write_line(render_all(results, "terminal").rstrip())
    reporter.write_line("")
    for problem in run.problems:
        reporter.write_line(f"benchrack: {problem}", red=True)
    reporter.write_line(f"results: {_relative(source)}")
    if resumed:
        files = " ".join(str(_relative(path)) for path in (*(f.path for f in resumed), source))
        reporter.write_line(f"these tables again: benchrack report {files}")


def _relative(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path

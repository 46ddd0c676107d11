"""A fourth scenario, of the docs' example files alone: no file of Benchrack knows it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np  # noqa: F401 - once a process: pytest in pytest would load it again
import pytest
from fakes import measurements as made
from fakes.settings import make_settings

from benchrack.cases.eta import Eta
from benchrack.registry.loading import load_file
from benchrack.registry.registry import load_registry

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "first_batch.py"
SUITE = ROOT / "docs" / "examples" / "test_first_batch.py"
PLUGINS = f"""
import sys
sys.path.insert(0, {str(EXAMPLE.parent)!r})
from first_batch import benchrack_scenarios

@hookimpl
def benchrack_backends():
    return [lab.backend()]
"""


@pytest.fixture
def run(suite_run):
    """`run(*arguments)` asks the example's question on the laboratory's backend, in workers."""
    run = suite_run(PLUGINS, first_batch={})
    (run.path / "test_suite.py").write_text(SUITE.read_text())
    sweep = (run.path / "mine.toml").read_text()
    (run.path / "mine.toml").write_text(sweep.replace('executor = "in-process"\n', ""))
    return run


def records(folder):
    (path,) = (folder / "results").glob("*.json")
    benchmarks = json.loads(path.read_text())["benchmarks"]
    return [benchmark["extra_info"]["benchrack"] for benchmark in benchmarks]


def scenario():
    registry = load_registry(built_in=(), conftests=[load_file(str(EXAMPLE))])
    return registry.scenario("first_batch")


def test_hook_benchrack_scenarios():
    assert scenario().question == "how long until the first answer"


def test_it_is_swept_over_an_axis_and_an_option_of_its_own(run):
    result = run.apart("--first-batch-since=start,ready", "-v", "-m", "first_batch")
    result.assert_outcomes(passed=2)
    start, ready = records(run.path)
    assert (start["axis_since"], ready["axis_since"]) == ("start", "ready")
    assert start["scenario"] == "first_batch"
    # A process takes tenths of a second to start, and the laboratory's matrix no hundredth.
    assert start["first_batch_answer_s"] > 0.05 > ready["first_batch_answer_s"] > 0
    result.stdout.fnmatch_lines(
        ["*test_first_batch[[]matrix-numpy-fp32-b1-x1-start[]]*answer after*"]
    )


def test_its_rule_is_beside_the_common_ones(run):
    result = run.apart("--first-batch-since=start,ready")
    first, second = records(run.path)
    assert not any(reason.startswith("not-the-first") for reason in first["reasons"])
    assert "not-the-first: the process had measured 1 cases before" in second["reasons"]
    result.stdout.fnmatch_lines(["*not valid, not-the-first: the process had measured 1 cases*"])


def test_it_runs_on_two_ranks_and_the_last_answer_counts(run):
    run.apart("--device=cpu", "--device-counts=2").assert_outcomes(passed=1)
    (record,) = records(run.path)
    assert record["world_ranks"] == 2
    assert record["first_batch_answer_s"] > 0.05
    result = scenario()
    slow, fast = (result.part(answer_s=s, earlier_cases=0) for s in (2.0, 1.0))
    assert result.combine([fast, slow]) == slow


def test_fresh_processes_repeat_it(run):
    run.apart("--set=starts=2").assert_outcomes(passed=2)
    assert {record["first_batch_earlier_cases"] for record in records(run.path)} == {0}
    assert [record["start"] for record in records(run.path)] in ([1, 2], [2, 1])


def test_its_table_is_in_the_report_where_its_plugin_is(run):
    result = run.apart("--first-batch-since=start,ready")
    result.stdout.fnmatch_lines(
        ["First batch: how long until the first answer", "*answer after s*"]
    )

    def report(*arguments):
        command = [sys.executable, "-m", "benchrack.command", "report", "results", *arguments]
        done = subprocess.run(command, cwd=run.path, capture_output=True, text=True, check=True)
        return done.stdout

    told = report("--plugins=conftest.py")
    assert "First batch: how long until the first answer" in told
    assert "since" in told
    assert "no plugin provides the scenario first_batch" in report()


def test_its_cost_is_in_the_time_left():
    eta = Eta(make_settings(), {"first_batch": scenario()}, lambda case: 1000)
    asked = [
        made.case(scenario="first_batch", batch_size=b, axes={"since": "start"}) for b in (1, 8)
    ]
    eta.done(asked[0], 2.5, prepare_s=2.0, batch_s=0.5)
    assert eta.left_s(asked[1:]) == pytest.approx(2.0 + 8 * 0.5)


def test_a_mistake_in_its_axis_says_what_is_expected(run):
    result = run.apart("--first-batch-since=never")
    result.stderr.fnmatch_lines(
        ["*--first-batch-since=never: expected start or ready, found 'never'*"]
    )


def test_its_options_and_marker_are_in_pytests_own_help(run):
    run.apart("--help").stdout.fnmatch_lines(["*--first-batch-since=A,B*"])
    run.apart("--markers").stdout.fnmatch_lines(["@pytest.mark.first_batch: how long until*"])

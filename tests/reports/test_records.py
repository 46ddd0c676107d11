"""Results files to records: what is read, what is the same run, and what is said of bad files."""

from __future__ import annotations

import json
import os
import re

import pytest

from benchrack.errors import ResultsError
from benchrack.records.journal import Header
from benchrack.reports.records import load, newest_run, of_session


def rates(results):
    return [r.measurement.result.images_per_s.value for r in results.records]


def test_a_json_gives_records_and_misses(write_json, make):
    path = write_json(
        "a.json", [make.measured(10.0)], [make.missed("failed", "why", model="vgg16")]
    )
    results = load([path])
    (record,) = results.records
    assert record.measurement == make.measured(10.0)
    assert record.run.machine == "PowerEdge R740, 4× Tesla P4"
    assert (record.run.name, record.run.started) == ("r1", "2026-11-30T10:00:00Z")
    assert record.run.source == path
    assert results.misses[0].outcome == make.missed("failed", "why", model="vgg16")
    assert results.problems == results.notes == ()


def test_a_journal_gives_the_same(write_json, write_journal, make):
    content = [make.measured(10.0)], [make.missed("failed", "why", model="vgg16")]
    from_json = load([write_json("a.json", *content)])
    from_journal = load([write_journal("a.jsonl", *content)])
    assert [r.measurement for r in from_json.records] == [
        r.measurement for r in from_journal.records
    ]
    assert [m.outcome for m in from_json.misses] == [m.outcome for m in from_journal.misses]
    assert from_json.records[0].run.machine == from_journal.records[0].run.machine


@pytest.mark.parametrize("facts", [None, {}])
def test_json_and_journal_of_a_run_are_one(write_json, write_journal, make, facts):
    """The JSON wins; also where the run recorded no facts and only the JSON names its CPU."""
    facts = make.R740 if facts is None else facts
    write_journal("a.jsonl", [make.measured(10.0)], machine=facts)
    path = write_json("a.json", [make.measured(20.0)], machine=facts)
    for order in ([path.parent], [path, path.with_suffix(".jsonl")]):
        assert rates(load(order)) == [20.0]


def test_a_file_named_twice_is_read_once(write_json, make, tmp_path):
    path = write_json("a.json", [make.measured(10.0)])
    assert rates(load([path, tmp_path, tmp_path / "x" / ".." / "a.json"])) == [10.0]


def test_of_two_jsons_of_a_run_the_fuller_counts(write_json, make):
    """pytest-benchmark saves one with samples and one without, if asked."""
    bare = write_json("a.json", [make.measured(10.0, samples=())])
    full = write_json("b.json", [make.measured(10.0)])
    for order in ([bare, full], [full, bare]):
        assert load(order).records[0].measurement.seconds_per_batch


def test_runs_of_machines_that_share_a_name_are_two(write_json, make):
    paths = [
        write_json(
            f"{i}.json", [make.measured(float(i))], machine={**make.R740, "node": f"rack{i}"}
        )
        for i in (1, 2)
    ]
    results = load(paths)
    assert [r.run.machine for r in results.records] == [
        "PowerEdge R740, 4× Tesla P4 (rack1)",
        "PowerEdge R740, 4× Tesla P4 (rack2)",
    ]


def test_a_machine_is_known_by_its_identity(write_json, make):
    """In a container the name in the network changes with every run; and two may share one."""
    facts = make.R740
    runs = [("r1", "box1", "a1"), ("r2", "box2", "a1"), ("r3", "box2", "b2")]
    paths = [
        write_json(
            f"{run}.json",
            [make.measured(1.0)],
            run=run,
            started=run,
            machine={**facts, "node": node, "machine": identity},
        )
        for run, node, identity in runs
    ]
    first, second, third = (r.run.machine for r in load(paths).records)
    assert first == second
    assert third == "PowerEdge R740, 4× Tesla P4 (box2)"
    assert first != third


def test_machines_that_nobody_described_are_not_one(write_journal, make):
    paths = [
        write_journal(f"{run}.jsonl", [make.measured(1.0)], run=run, machine={})
        for run in ("r1", "r2")
    ]
    assert {r.run.machine for r in load(paths).records} == {
        "unknown machine (r1)",
        "unknown machine (r2)",
    }
    assert load(paths[:1]).records[0].run.machine == "unknown machine"


def test_older_runs_come_first(write_json, make):
    late = write_json("a.json", [make.measured(2.0)], run="late", started="2026-12-02T00:00:00Z")
    early = write_json("b.json", [make.measured(1.0)], run="early", started="2026-12-01T00:00:00Z")
    assert rates(load([late, early])) == [1.0, 2.0]


def test_accuracy_of_random_weights_is_dropped_wherever_it_comes_from(write_json, make):
    accuracy = make.shares(top1_drop_points=1.0, reference_top1=0.5)
    measured = make.measured(accuracy=accuracy, trained=False)
    path = write_json("a.json", [measured])
    read = load([path]).records[0].measurement.result
    assert read.top1 is read.top5 is read.reference_top1 is read.top1_drop_points is None
    assert read.agreement == measured.result.agreement
    assert read.logit_cosine == measured.result.logit_cosine


def test_a_killed_run_is_read_from_its_journal(write_journal, make):
    path = write_journal("a.jsonl", [make.measured(1.0), make.measured(2.0, batch_size=8)])
    path.write_bytes(path.read_bytes()[:-60])
    results = load([path])
    assert rates(results) == [1.0]
    assert results.problems == ()
    (note,) = results.notes
    assert "r1 did not come to its end" in note
    assert "torn" in note


def test_a_session_needs_no_disk(make, tmp_path):
    header = Header(run="r", started="", machine=make.LAPTOP)
    results = of_session(header, [make.measured(1.0)], [make.missed("failed", "x")], tmp_path)
    assert results.records[0].run.machine == "AMD Ryzen 7 5800U with Radeon Graphics"
    assert len(results.misses) == 1


# Bad files ------------------------------------------------------------------------------------


def bad(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not whole JSON"),
        (b'{"benchmarks": [{"name": "test', "not whole JSON.*journal"),
        (b"\xff\xff", "not whole JSON"),
        (b"[" * 100_000, "not whole JSON"),
        ([], "it has no benchmarks"),
        ({"name": "left-pad"}, "it has no benchmarks"),
        ({"benchmarks": 3}, "it has no benchmarks"),
        ({"benchmarks": []}, "none of its 0 benchmarks is Benchrack's"),
        (
            {"benchmarks": [{"name": "t", "extra_info": {}, "stats": {}}]},
            "none of its 1 benchmarks is Benchrack's",
        ),
        ({"benchmarks": [], "benchrack": {}}, "no schema number"),
        ({"benchmarks": [], "benchrack": {"schema": 2}}, "newer Benchrack.*schema 2.*up to 1"),
        (
            {"benchmarks": [{"extra_info": {"benchrack": {"schema": 2}}, "stats": {}}]},
            "newer Benchrack",
        ),
    ],
)
def test_a_bad_file_is_named_and_loses_no_other(write_json, make, tmp_path, content, message):
    good = write_json("good.json", [make.measured(10.0)])
    results = load([bad(tmp_path, content), good])
    assert rates(results) == [10.0]
    (problem,) = results.problems
    assert "bad.json" in problem
    assert re.search(message, problem)


def test_missing_files_and_empty_folders_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    results = load([tmp_path / "gone.json", tmp_path / "gone.jsonl", tmp_path / "empty"])
    assert results.records == ()
    expected = ("empty holds no results", "gone.json does not exist", "gone.jsonl can't be read")
    assert all(any(words in p for p in results.problems) for words in expected)


def test_one_bad_record_loses_no_other(write_json, make):
    path = write_json("a.json", [make.measured(1.0), make.measured(2.0, model="vgg16")])
    data = json.loads(path.read_text())
    del data["benchmarks"][0]["extra_info"]["benchrack"]["model"]
    data["benchmarks"].append("nonsense")
    data["benchrack"]["outcomes"] = [{"status": "failed"}, 3]
    path.write_text(json.dumps(data))
    results = load([path])
    assert rates(results) == [2.0]
    assert len(results.problems) == 3
    assert "a.json: test_throughput[resnet50-pytorch-fp32-b1-x1]" in results.problems[0]
    assert "it lacks 'model'" in results.problems[0]


def test_benchmarks_of_other_suites_in_the_same_file_are_passed_over(write_json, make):
    path = write_json("a.json", [make.measured(1.0)])
    data = json.loads(path.read_text())
    data["benchmarks"].append({"name": "test_other", "extra_info": {}, "stats": {"data": [1.0]}})
    path.write_text(json.dumps(data))
    results = load([path])
    assert rates(results) == [1.0]
    assert results.problems == ()


def test_records_without_a_block_are_still_read(write_json, make):
    """A file whose block some other tool dropped: named by its file, dated by pytest-benchmark."""
    path = write_json("a.json", [make.measured(1.0)])
    data = json.loads(path.read_text())
    del data["benchrack"]
    path.write_text(json.dumps(data))
    (record,) = load([path]).records
    assert (record.run.name, record.run.started) == ("a", "2026-11-30T10:30:00+00:00")
    assert record.run.machine == "Somebody Xeon"


def test_statistics_without_samples_are_read(write_json, make):
    path = write_json("a.json", [make.measured(1.0)])
    data = json.loads(path.read_text())
    del data["benchmarks"][0]["stats"]["data"]
    path.write_text(json.dumps(data))
    assert load([path]).records[0].measurement.seconds_per_batch == ()


# The newest run -------------------------------------------------------------------------------


def test_the_newest_run_is_both_its_files(write_json, write_journal, make, tmp_path):
    old = write_json("old.json", [make.measured(1.0)])
    write_journal("new.jsonl", [make.measured(2.0)])
    new = write_json("new.json", [make.measured(2.0)])
    report = tmp_path / "report.json"
    report.write_text('{\n  "kind": "benchrack-report"\n}')
    for seconds, path in enumerate((old, new.with_suffix(".jsonl"), new, report), 1):
        os.utime(path, (seconds, seconds))
    assert newest_run(tmp_path) == [new, new.with_suffix(".jsonl")]
    assert rates(load(newest_run(tmp_path))) == [2.0]


def test_no_results_at_all_says_how_to_get_some(tmp_path):
    with pytest.raises(ResultsError, match="pytest -m inference"):
        newest_run(tmp_path / "results")


def test_a_report_is_not_taken_for_results(write_json, make, tmp_path):
    write_json("a.json", [make.measured(1.0)])
    (tmp_path / "report.json").write_text('{\n  "kind": "benchrack-report"\n}')
    results = load([tmp_path])
    assert rates(results) == [1.0]
    assert results.problems == ()
    assert "report.json is a report" in results.notes[0]

"""`--resume=FILE`: a run that goes on where another was ended, as a pytest user meets it."""

import json

import numpy as np  # noqa: F401 - once a process: pytest in pytest would load it again
import pytest
from fakes.scenarios import SCENARIOS

from benchrack.records import journal
from benchrack.reports.latency import latency_table
from benchrack.reports.records import load
from benchrack.reports.throughput import throughput_table

pytest_plugins = ["pytester"]

PLUGINS = """
import os

def once_broken(images, matrix):
    if os.path.exists("broken"):
        raise RuntimeError("kernel launch failed")
    return images.reshape(len(images), -1) @ matrix

@hookimpl
def benchrack_backends():
    return [
        lab.backend(),
        lab.backend("once-broken", compute=once_broken),
        lab.backend("absent", unsupported=lambda device: "no such card"),
    ]
"""

BATCHES = {"batch_sizes": [1, 2, 4]}


@pytest.fixture
def lab(suite_run, monkeypatch):
    """A folder with fake plugins and a sweep of three cases; `lab(...)` runs pytest.

    Whether these tiny measurements are valid is not left to chance: they are, but for those that
    a test says are not.
    """
    run = suite_run(PLUGINS, throughput=BATCHES)
    # The checkout may be edited between the two runs of a test; wheels have no commit either.
    run.options += ("--disable-plugins=call",)
    run.shown += ("-rs", "-v")
    run.invalid = set()
    monkeypatch.setattr("benchrack.pytest_plugin.resume.judge", lambda *_: ())
    monkeypatch.setattr(
        "benchrack.execution.running.judge",
        lambda m, *_: ("noisy: by order",) if m.case.batch_size in run.invalid else (),
    )
    return run


def files(lab, suffix="json"):
    found = sorted((lab.path / "results").glob(f"*.{suffix}"), key=lambda p: p.stat().st_mtime_ns)
    return [path.relative_to(lab.path) for path in found]


def document(path):
    return json.loads(path.read_text())


def batches(path):
    return [b["extra_info"]["benchrack"]["batch_size"] for b in document(path)["benchmarks"]]


def statuses(path):
    found = document(path)["benchrack"]["outcomes"]
    return {outcome["batch_size"]: outcome["status"] for outcome in found}


def edited(path, change):
    """The file with another text in it, of the same name."""
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    return path


def table(*paths):
    return throughput_table(load(paths))


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_what_is_missing_and_what_is_not_valid_is_measured(lab, suffix):
    lab.invalid.add(2)
    lab("--batch-sizes=1,2")
    (old,) = files(lab, suffix)
    lab.invalid.clear()
    result = lab(f"--resume={old}")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            f"benchrack: resuming {old}: 1 of 3 have a valid record",
            f"SKIPPED*has a valid record in {old}",
        ]
    )
    new = files(lab)[-1]
    assert batches(new) == [2, 4]
    assert statuses(new) == {1: "resumed"}
    assert document(new)["benchrack"]["resumes"] == [old.stem]
    assert journal.read(new.with_suffix(".jsonl"), SCENARIOS).header.resumes == (old.stem,)


def test_the_tables_of_a_resumed_run_are_those_of_the_whole_sweep(lab):
    lab.invalid.add(2)
    lab("--batch-sizes=1,2")
    (old,) = files(lab)
    lab.invalid.clear()
    result = lab(f"--resume={old}")
    new = files(lab)[-1]
    both = table(old, new)
    assert both.headers == ("model", "backend", "batch 1", "batch 2", "batch 4")
    assert [cell.invalid for cell in both.rows[0]] == [False] * 5
    assert all(isinstance(cell.value, float) for cell in both.rows[0][2:])
    assert both.footnotes == ()
    again = f"these tables again: benchrack report {old} {new}"
    result.stdout.fnmatch_lines(["model * batch 1 * batch 2 * batch 4*", again])
    assert "resumed:" not in result.stdout.str()


def test_a_resumed_run_alone_says_where_the_others_are(lab):
    lab("--batch-sizes=1")
    (old,) = files(lab)
    lab(f"--resume={old}")
    alone = table(files(lab)[-1])
    assert [str(cell) for cell in alone.rows[0]][2] == "resumed [1]"
    assert alone.footnotes == (f"resumed: has a valid record in {old}",)


def test_a_journal_whose_last_line_was_cut_off(lab):
    """A run that was killed while it wrote: its torn line is measured again."""
    lab()
    (old,) = files(lab, "jsonl")
    *whole, torn, _end = old.read_text().splitlines(keepends=True)
    old.write_text("".join(whole) + torn[:200])
    files(lab)[0].unlink()
    result = lab(f"--resume={old}")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["*2 of 3 have a valid record", "*its last line is torn*"])
    assert batches(files(lab)[-1]) == [4]


def test_a_case_that_failed_is_tried_again(lab):
    (lab.path / "broken").touch()
    lab("--backends=once-broken,absent", "--batch-sizes=1")
    (lab.path / "broken").unlink()
    (old,) = files(lab)
    result = lab(f"--resume={old}", "--backends=once-broken,absent", "--batch-sizes=1")
    result.assert_outcomes(passed=1, skipped=1)
    both = table(old, files(lab)[-1])
    assert both.footnotes == ("unsupported: no such card",)


def test_when_everything_is_there_nothing_is_measured(lab):
    lab()
    (old,) = files(lab)
    result = lab(f"--resume={old}")
    assert result.ret == 0
    result.assert_outcomes(skipped=3)
    assert document(files(lab)[-1])["benchmarks"] == []


def test_a_resumed_run_can_be_resumed_with_its_predecessor(lab):
    lab("--batch-sizes=1")
    lab("--batch-sizes=1,2", f"--resume={files(lab)[0]}")
    first, second = files(lab)
    result = lab(f"--resume={first}", f"--resume={second}")
    result.assert_outcomes(passed=1, skipped=2)
    third = files(lab)[-1]
    assert batches(third) == [4]
    assert document(third)["benchrack"]["resumes"] == [first.stem, second.stem]
    assert all(isinstance(cell.value, float) for cell in table(first, second, third).rows[0][2:])


def test_starts_of_both_runs_are_pooled(lab):
    """Three starts each become six: those of both runs are one case's."""
    lab("--batch-sizes=1", "--set=starts=3", "--set=executor=worker")
    (old,) = files(lab, "jsonl")
    whole = [json.loads(line) for line in old.read_text().splitlines()]
    for line in whole:
        if line["kind"] == "measurement":
            line["record"]["reasons"] = []  # workers are judged by the real rules
    old.write_text("".join(json.dumps(line) + "\n" for line in whole))
    result = lab("--batch-sizes=1", "--set=starts=6", "--set=executor=worker", f"--resume={old}")
    result.assert_outcomes(passed=3, skipped=3)
    new = files(lab)[-1]
    starts = [b["extra_info"]["benchrack"]["start"] for b in document(new)["benchmarks"]]
    assert sorted(starts) == [4, 5, 6]
    both = table(old, new)
    assert both.headers[2] == "starts"
    assert str(both.rows[0][2]) == "6"
    assert not any("resumed" in note or "another start" in note for note in both.footnotes)
    joined = f"{old.stem}, {new.stem}."
    assert any(note.endswith(joined) and "pooled" in note for note in both.notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"software_benchrack": "', '"software_benchrack": "9'), "Benchrack (9*then,*now)"),
        (('"machine": "', '"machine": "00'), "machine (00*then,*now)"),
        (('"seed": 0', '"seed": 1'), "seed (1 then, 0 now)"),
    ],
)
def test_what_differs_is_said_once_and_everything_is_measured(lab, change, words):
    lab("--batch-sizes=1")
    (old,) = files(lab, "jsonl")
    edited(old, change)
    result = lab("--batch-sizes=1", f"--resume={old}")
    result.assert_outcomes(passed=1)
    line = f"benchrack: resuming {old}: everything is measured anew: {words}"
    result.stdout.fnmatch_lines([line])
    assert result.stdout.str().count("measured anew") == 1
    new = files(lab)[-1]
    assert document(new)["benchrack"]["resumes"] == []
    assert statuses(new) == {}


def test_an_edited_conftest_is_other_code(lab):
    """Though its backend has the name that it had."""
    lab("--batch-sizes=1")
    (old,) = files(lab)
    edited(lab.path / "conftest.py", ("kernel launch failed", "kernel launch has failed"))
    result = lab.apart("--batch-sizes=1", f"--resume={old}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*everything is measured anew: plugins of conftest.py (*"])


def test_other_files_in_the_folder_of_weights_are_other_weights(lab):
    folder = lab.path / "trained"
    folder.mkdir()
    (folder / "matrix.pth").write_text("one")
    lab("--batch-sizes=1", "--weights=trained")
    (old,) = files(lab)
    lab("--batch-sizes=1", "--weights=trained", f"--resume={old}").assert_outcomes(skipped=1)
    (folder / "matrix.pth").write_text("another")
    result = lab("--batch-sizes=1", "--weights=trained", f"--resume={old}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*measured anew: files of --weights=*trained (*"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.json", None, "absent.json does not exist"),
        ("absent.jsonl", None, "absent.jsonl can't be read: No such file"),
        ("half.json", '{"benchmarks": [', "is not whole JSON"),
        ("other.json", '{"benchmarks": [{"name": "t", "stats": {}}]}', "none of its 1 benchmarks"),
        ("empty.jsonl", "", "holds no record"),
        ("damaged.jsonl", 'x\n{"kind": "header", "schema": 1}\n', "line 1: not JSON"),
        ("newer.jsonl", '{"kind": "header", "schema": 99}\n', "written by a newer Benchrack"),
    ],
)
def test_a_file_that_can_not_be_read_is_said_before_measuring(lab, name, content, words):
    if content is not None:
        (lab.path / name).write_text(content)
    result = lab(f"--resume={name}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stdout.str() + result.stderr.str()
    assert words in text
    assert "Traceback" not in text
    assert not (lab.path / "results").exists()


def test_a_folder_is_no_file(lab):
    lab("--batch-sizes=1")
    result = lab("--resume=results")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "can't be read: Is a directory" in result.stdout.str() + result.stderr.str()


def test_the_file_that_is_resumed_is_not_overwritten(lab):
    lab("--batch-sizes=1", "--benchmark-json=mine.json")
    before = (lab.path / "mine.json").read_text()
    # pytest-benchmark warns that it has nothing to save, and warnings are errors in this process.
    result = lab.apart("--resume=mine.json", "--benchmark-json=mine.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--benchmark-json would overwrite it" in result.stdout.str() + result.stderr.str()
    assert (lab.path / "mine.json").read_text() == before


def test_the_file_is_found_from_the_folder_of_the_call(lab, monkeypatch):
    """Also where pytest's rootdir is another."""
    lab("--batch-sizes=1")
    (old,) = files(lab)
    (lab.path / "pytest.ini").write_text("[pytest]\n")
    below = lab.path / "below"
    below.mkdir()
    (below / "mine.toml").write_text((lab.path / "mine.toml").read_text())
    monkeypatch.chdir(below)
    lab("..", "--batch-sizes=1", f"--resume=../{old}").assert_outcomes(skipped=1)


def test_collecting_reads_no_file(lab):
    assert lab("--collect-only", "--resume=absent.json").ret == 0


def test_another_scenario_of_the_case_is_not_taken_for_it(lab):
    lab("--batch-sizes=1")
    (old,) = files(lab)
    lab.ask(latency=BATCHES)
    lab("--batch-sizes=1", f"--resume={old}").assert_outcomes(passed=1)
    both = load([old, files(lab)[-1]])
    assert throughput_table(both)
    assert latency_table(both)


def test_without_pytests_terminal_the_same_is_measured(lab):
    lab("--batch-sizes=1")
    (old,) = files(lab)
    lab.shown = ("-p", "no:terminal")
    lab("--batch-sizes=1,2", f"--resume={old}")
    new = files(lab)[-1]
    assert batches(new) == [2]
    assert statuses(new) == {1: "resumed"}

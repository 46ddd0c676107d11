"""The journal: on disk at once, whole lines only, readable when torn."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import measurements as made
from fakes.scenarios import SCENARIOS

from benchrack.errors import ResultsError
from benchrack.records import journal
from benchrack.records.journal import Header, Journal
from benchrack.vocabulary.results import Outcome

HEADER = Header(
    run="r1",
    started="2026-11-30T10:00:00+00:00",
    command=("pytest", "-m", "inference"),
    machine={"cpu": "Xeon", "cards": ["Tesla P4", "Tesla P4"], "memory_gib": 64.0},
)


def measured(batch_size=1, **more):
    samples = more.pop("samples", (0.1, 1 / 3))
    axes = {"model": "alexnet", "backend": "pytorch-fp32", "batch_size": batch_size}
    return made.throughput(seconds_per_batch=samples, **axes, **more)


OUTCOME = Outcome(case=measured(64).case, status="out-of-memory", reason="no room")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "r1.jsonl"


@pytest.fixture
def opened(path):
    return Journal.create(path, HEADER)


def test_what_is_written_is_read(opened, path):
    opened.append_measurement(measured(1), "t[1]")
    opened.append_outcome(OUTCOME, "t[64]")
    opened.append_measurement(measured(8, reasons=("noisy",)), "t[8]")
    opened.close()
    contents = journal.read(path, SCENARIOS)
    assert contents.header == HEADER
    assert contents.measurements == (
        ("t[1]", measured(1)),
        ("t[8]", measured(8, reasons=("noisy",))),
    )
    assert contents.outcomes == (("t[64]", OUTCOME),)
    assert contents.complete
    assert not contents.torn


def test_each_line_is_on_disk_before_the_next(opened, path):
    assert json.loads(path.read_text())["kind"] == "header"
    opened.append_measurement(measured(), "t")
    contents = journal.read(path, SCENARIOS)
    assert len(contents.measurements) == 1
    assert not contents.complete


def test_lines_are_strict_json(opened, path):
    """Also where facts and figures hold NaN, or what JSON has no word for."""
    strange = Header(run="r2", started="", machine={"load": math.nan, "folder": path})
    other = Journal.create(path.with_name("r2.jsonl"), strange)
    other.append_measurement(measured(), "t")
    other.close()
    for line in other.path.read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert journal.read(other.path, SCENARIOS).header.machine == {"load": None, "folder": str(path)}


@pytest.mark.parametrize("sample", [math.nan, math.inf])
def test_a_sample_that_is_no_number_is_refused(opened, path, sample):
    before = path.read_bytes()
    with pytest.raises(ResultsError, match="alexnet-pytorch-fp32-b1-x1"):
        opened.append_measurement(measured(samples=(0.1, sample)), "t")
    assert path.read_bytes() == before


def test_a_journal_is_never_overwritten(opened, path):
    with pytest.raises(ResultsError, match=r"r1\.jsonl can't be written: File exists"):
        Journal.create(path, HEADER)


def test_closing_twice_writes_one_end(opened, path):
    opened.close()
    opened.close()
    assert path.read_text().count('"end"') == 1


def test_a_folder_that_can_not_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match="can't be written"):
        Journal.create(tmp_path / "file" / "r.jsonl", HEADER)


class FullDisk:
    """Takes `room` bytes more, then refuses as a full disk does."""

    def __init__(self, monkeypatch, room):
        self.room, self.write = room, os.write
        monkeypatch.setattr(journal.os, "write", self)

    def __call__(self, descriptor, data):
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self.write(descriptor, data[: self.room])
        self.room -= taken
        return taken


@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_full_disk_is_said_once_and_loses_nothing(opened, path, monkeypatch, room):
    opened.append_measurement(measured(1), "t[1]")
    before = path.read_bytes()
    disk = FullDisk(monkeypatch, room)
    with pytest.raises(ResultsError, match="No space left on device"):
        opened.append_measurement(measured(2), "t[2]")
    opened.append_measurement(measured(4), "t[4]")
    assert path.read_bytes() == before
    disk.room = 10**6
    opened.append_measurement(measured(8), "t[8]")
    opened.close()
    contents = journal.read(path, SCENARIOS)
    assert [nodeid for nodeid, _ in contents.measurements] == ["t[1]", "t[8]"]
    assert not contents.complete


def test_a_disk_that_is_full_from_the_start_leaves_no_file(path, monkeypatch):
    FullDisk(monkeypatch, 10)
    with pytest.raises(ResultsError, match="No space left"):
        Journal.create(path, HEADER)
    assert not path.exists()


def test_a_real_limit_on_file_size(tmp_path):
    """The kernel refuses in mid-line; what was whole stays whole."""
    code = f"""
import resource, signal, sys
sys.path[:0] = {[str(p) for p in Path(__file__).parents[:2]]!r}
from test_journal import HEADER, journal, measured
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
opened = journal.Journal.create(Path({str(tmp_path / "r.jsonl")!r}), HEADER)
opened.append_measurement(measured(1), "t[1]")
size = opened.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, size + 50))
try:
    opened.append_measurement(measured(2), "t[2]")
except journal.ResultsError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "File too large" in run.stdout
    contents = journal.read(tmp_path / "r.jsonl", SCENARIOS)
    assert [nodeid for nodeid, _ in contents.measurements] == ["t[1]"]
    assert not contents.torn


@pytest.mark.parametrize("cut", [1, 5, 200])
def test_a_torn_last_line_is_left_out(opened, path, cut):
    opened.append_measurement(measured(1), "t[1]")
    opened.append_measurement(measured(2), "t[2]")
    whole = path.read_bytes()
    path.write_bytes(whole[: -cut - 1])
    contents = journal.read(path, SCENARIOS)
    assert [nodeid for nodeid, _ in contents.measurements] == ["t[1]"]
    assert contents.torn


def test_only_the_last_newline_missing_loses_nothing(opened, path):
    opened.append_measurement(measured(1), "t[1]")
    path.write_bytes(path.read_bytes()[:-1])
    contents = journal.read(path, SCENARIOS)
    assert len(contents.measurements) == 1
    assert not contents.torn


def test_a_tail_of_zeros_is_a_torn_line(opened, path):
    """What some file systems leave after a power cut."""
    opened.append_measurement(measured(1), "t[1]")
    path.write_bytes(path.read_bytes() + bytes(64))
    contents = journal.read(path, SCENARIOS)
    assert len(contents.measurements) == 1
    assert contents.torn


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"garbage", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1, 2]", "it has no kind"),
        (b'{"model": "x"}', "it has no kind"),
        (b'{"kind": "measurement"}', "it lacks 'seconds_per_batch'"),
        (
            b'{"kind": "measurement", "nodeid": "t", "seconds_per_batch": [1], "record": {}}',
            "lacks",
        ),
        (b'{"kind": "measurement", "nodeid": "t", "seconds_per_batch": [1], "record": 3}', "whole"),
        (b'{"kind": "measurement", "nodeid": "t", "seconds_per_batch": null}', "not a whole"),
        (b'{"kind": "outcome", "nodeid": "t", "status": "failed"}', "not a whole outcome"),
    ],
)
def test_garbage_inside_is_named_with_its_line_and_loses_no_other(opened, path, line, message):
    opened.append_measurement(measured(1), "t[1]")
    with path.open("ab") as file:
        file.write(line + b"\n")
    opened.append_measurement(measured(2), "t[2]")
    opened.close()
    contents = journal.read(path, SCENARIOS)
    (problem,) = contents.problems
    assert re.search(rf"r1\.jsonl, line 3: .*{message}.*left out$", problem)
    assert [nodeid for nodeid, _ in contents.measurements] == ["t[1]", "t[2]"]
    assert contents.complete


def test_lines_of_an_unknown_kind_are_passed_over(opened, path):
    with path.open("ab") as file:
        file.write(b'{"kind": "weather", "temperature_c": 21}\n')
    opened.close()
    assert journal.read(path, SCENARIOS).complete


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no record"),
        (b'{"kind": "hea', "holds no record"),
        (b'{"kind": "end"}\n', "line 1: not a journal"),
        (b'{"kind": "header", "run": "r"}\n', "no schema number"),
        (b'{"kind": "header", "schema": 99, "run": "r"}\n', "newer Benchrack"),
    ],
)
def test_what_is_no_journal_says_why(path, content, message):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ResultsError, match=rf"r1\.jsonl.*{message}"):
        journal.read(path, SCENARIOS)


def test_a_missing_journal_is_named(tmp_path):
    with pytest.raises(ResultsError, match=r"none\.jsonl can't be read: No such file"):
        journal.read(tmp_path / "none.jsonl", SCENARIOS)


def test_a_killed_process_leaves_what_it_measured(tmp_path):
    """SIGKILL right after a measurement: nothing buffered is lost."""
    code = f"""
import os, signal, sys
sys.path[:0] = {[str(p) for p in Path(__file__).parents[:2]]!r}
from test_journal import HEADER, journal, measured
from pathlib import Path
opened = journal.Journal.create(Path({str(tmp_path / "r.jsonl")!r}), HEADER)
opened.append_measurement(measured(1), "t[1]")
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", code], check=False)
    assert run.returncode == -signal.SIGKILL
    contents = journal.read(tmp_path / "r.jsonl", SCENARIOS)
    assert contents.measurements == (("t[1]", measured(1)),)
    assert not contents.complete

"""Files whole or not at all, and what is no plain file written into."""

import os
import stat
import threading

import pytest

from benchrack.files import write_text


def test_a_file_and_its_folder_are_made(tmp_path):
    write_text(tmp_path / "deep" / "report.md", "± 1\n")
    assert (tmp_path / "deep" / "report.md").read_text(encoding="utf-8") == "± 1\n"


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "report.md"
    path.write_text("old")
    path.chmod(0o600)
    write_text(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_refusal_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "report.md"
    path.write_text("old")

    def refusing(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refusing)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.md"]


def test_a_link_stays_one_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "target.md", tmp_path / "link.md"
    target.write_text("a longer text than the new one")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_stays_one_and_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join(10)
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)

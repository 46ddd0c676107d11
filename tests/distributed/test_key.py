"""The key of a run: where it comes from, what is refused, and that nothing prints it."""

import os

import pytest

from benchrack.distributed import key
from benchrack.distributed.key import Key, key_of, own_key
from benchrack.errors import NodeError

SECRET = "0123456789abcdef"


@pytest.fixture
def written(tmp_path):
    """`written(text, mode)` is a key file."""

    def write(text, mode=0o600):
        path = tmp_path / "key"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def test_it_stands_in_a_variable_or_in_a_file(written):
    path = written(f"{SECRET}\n")
    for file, environ in (
        (None, {"BENCHRACK_KEY": SECRET}),
        (None, {"BENCHRACK_KEY_FILE": str(path)}),
        (path, {"BENCHRACK_KEY": "of another run, and longer"}),
        (None, {"BENCHRACK_KEY": SECRET, "BENCHRACK_KEY_FILE": "/nowhere"}),
    ):
        assert key_of(file, environ) == SECRET.encode()
    assert key_of(None, {}) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o660])
def test_a_file_that_others_can_open_is_refused(written, mode):
    with pytest.raises(NodeError, match=rf"open to others \(mode {mode:04o}\).*openssl rand"):
        key_of(written(SECRET, mode), {})


@pytest.mark.parametrize(("text", "words"), [("", "an empty"), ("short", "a very short")])
def test_a_key_that_can_be_guessed_is_refused(written, text, words):
    for file, environ in ((None, {"BENCHRACK_KEY": text}), (written(f"{text}\n"), {})):
        with pytest.raises(NodeError, match=f"{words} key: at least 16 .*openssl rand -hex 32"):
            key_of(file, environ)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(NodeError, match="key can't be read: No such file"):
        key_of(tmp_path / "key", {})


def test_nothing_prints_it():
    """A traceback that shows variables, say."""
    found = key_of(None, {"BENCHRACK_KEY": SECRET})
    assert SECRET not in f"{found} {found!r} {[found]}"


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setattr(key, "PLACE", tmp_path)
    return tmp_path / f"benchrack-{os.getuid()}.key"


def test_all_of_a_users_runs_on_a_machine_have_one(place):
    found = own_key()
    assert len(found) == 64
    assert own_key() == found == Key(place.read_bytes())
    assert place.stat().st_mode & 0o777 == 0o600
    assert list(place.parent.iterdir()) == [place]


def test_that_of_another_user_is_not_taken(place, monkeypatch):
    own_key()
    mine = os.getuid()
    place.rename(place.with_name(f"benchrack-{mine + 1}.key"))
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(NodeError, match="is another user's; the machines of a run share a key"):
        own_key()

"""The cache on disk: entries whole or absent, made once, and a disk that refuses is named."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

from benchrack.cache import ENVIRONMENT_VARIABLE, Cache, default_root, digest
from benchrack.errors import CacheError

KEY = {"model": "resnet50", "opset": 17, "shape": [3, 224, 224]}

# Says when it is about to ask for the product, and when it makes it; then waits for a line.
WORKER = """
import sys
from pathlib import Path
from benchrack.cache import Cache

def make(folder):
    (folder / "model").write_text("half")
    print("making", flush=True)
    sys.stdin.readline()
    (folder / "model").write_text("whole")

print("asking", flush=True)
path = Cache(Path(sys.argv[1])).get("onnx", {"a": 1}, make)
print((path / "model").read_text(), flush=True)
"""


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def start(cache):
    """Starts a process that asks for the product {"a": 1} of kind "onnx"."""
    processes = []

    def popen():
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(cache.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "asking\n"
        return process

    yield popen
    for process in processes:
        process.kill()
        process.communicate()


def writing(text="x" * 100):
    return lambda folder: (folder / "model").write_text(text)


def never(folder):
    raise AssertionError("made again")


def test_a_product_is_made_once(cache):
    path = cache.get("onnx", KEY, writing("graph"))
    assert (path / "model").read_text() == "graph"
    assert path == cache.root / "onnx" / digest(KEY)
    assert cache.get("onnx", dict(reversed(KEY.items())), never) == path


def test_another_key_or_kind_is_another_product(cache):
    first = cache.get("onnx", KEY, writing("1"))
    assert cache.get("onnx", KEY | {"opset": 18}, writing("2")) != first
    assert cache.get("onnx-int8", KEY, writing("3")) != first
    assert (first / "model").read_text() == "1"


def test_any_mapping_is_a_key(cache):
    assert digest(MappingProxyType(KEY)) == digest(KEY)
    cache.get("onnx", MappingProxyType(KEY), writing())
    assert [dict(entry.key) for entry in cache.entries()] == [KEY]


def test_the_digest_is_stable():
    """It names folders that outlive a version: a change makes every cache stale."""
    # sha256sum of {"a": {"x": "\\u00e9"}, "b": [1, 2.5, null]}, its first 24 digits
    assert digest({"b": [1, 2.5, None], "a": {"x": "é"}}) == "79b05ccf654de022dbcaa9f2"


def test_two_processes_at_once_make_it_once(start, cache):
    first = start()
    assert first.stdout.readline() == "making\n"
    second = start()
    assert cache.entries() == []  # half made: nobody sees it
    first.stdin.write("\n")
    first.stdin.flush()
    assert first.stdout.readline() == "whole\n"
    assert second.stdout.readline() == "whole\n"  # and not "making"


def test_a_killed_maker_leaves_nothing_in_the_way(start, cache):
    process = start()
    assert process.stdout.readline() == "making\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert cache.entries() == []
    path = cache.get("onnx", {"a": 1}, writing("mine"))
    assert [p.name for p in path.iterdir() if p.name != "key.json"] == ["model"]
    assert [p for p in path.parent.iterdir() if p.is_dir()] == [path]


def test_clear_removes_what_a_killed_maker_left(start, cache):
    process = start()
    assert process.stdout.readline() == "making\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert cache.clear() == len("half")
    assert [p for p in (cache.root / "onnx").iterdir() if p.is_dir()] == []


def test_clear_leaves_alone_what_another_process_is_making(start, cache):
    process = start()
    assert process.stdout.readline() == "making\n"
    cache.get("onnx", KEY, writing("x" * 10))
    assert cache.clear() > 10
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "whole\n"
    assert [entry.digest for entry in cache.entries()] == [digest({"a": 1})]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad graph"),
        KeyboardInterrupt(),
        # make() may read and download: its own OSErrors say nothing about the cache
        FileNotFoundError(errno.ENOENT, "no such weights", "resnet50.pth"),
        ConnectionError("the hub hung up"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_make_raises_passes_through_and_leaves_no_entry(cache, error):
    def make(folder):
        (folder / "half").write_text("half")
        raise error

    with pytest.raises(type(error)) as caught:
        cache.get("onnx", KEY, make)
    assert caught.value is error
    assert cache.entries() == []
    assert [p for p in (cache.root / "onnx").iterdir() if p.is_dir()] == []
    assert cache.get("onnx", KEY, writing()).exists()  # the lock was given back


def test_an_entry_without_its_key_is_made_anew(cache):
    path = cache.get("onnx", KEY, writing("old"))
    (path / "key.json").unlink()
    (path / "leftover").write_text("")
    assert cache.entries() == []
    assert cache.get("onnx", KEY, writing("new")) == path
    assert (path / "model").read_text() == "new"
    assert not (path / "leftover").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full, a disk always full")
def test_a_full_disk_is_a_cache_error_that_says_what_to_do(cache):
    def make(folder):
        with open("/dev/full", "w") as file:
            file.write("x")

    with pytest.raises(CacheError, match=r"No space left on device.*Free some space") as caught:
        cache.get("onnx", KEY, make)
    assert ENVIRONMENT_VARIABLE in str(caught.value)
    assert str(cache.root / "onnx") in str(caught.value)
    assert [p for p in (cache.root / "onnx").iterdir() if p.is_dir()] == []


def test_a_full_disk_that_a_library_words_otherwise_is_one_too(cache, monkeypatch):
    """As torch.save: RuntimeError, `unexpected pos 95296 vs 95248`."""

    def make(folder):
        raise RuntimeError("unexpected pos 95296 vs 95248")

    with pytest.raises(RuntimeError, match="unexpected pos"):
        cache.get("weights", {"a": 1}, make)
    full = shutil.disk_usage(cache.root)._replace(free=4096)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: full)
    with pytest.raises(CacheError, match=r"unexpected pos.*Free some space"):
        cache.get("weights", {"a": 1}, make)
    assert cache.entries() == []


def test_a_disk_that_fills_up_at_the_key_leaves_no_entry(cache, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(CacheError, match="No space left on device"):
            cache.get("onnx", KEY, lambda folder: (folder / "model").mkdir())
    assert cache.entries() == []
    assert cache.get("onnx", KEY, writing()).exists()


def test_a_root_that_is_no_folder_is_a_cache_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    with pytest.raises(CacheError, match="Not a directory"):
        cache.get("onnx", KEY, writing())
    assert cache.entries() == []
    assert cache.clear() == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_a_cache_error(cache):
    cache.root.mkdir()
    cache.root.chmod(0o500)
    with pytest.raises(CacheError, match="Permission denied"):
        cache.get("onnx", KEY, writing())


@pytest.mark.parametrize("name", ["exists", "unlink"])
def test_a_refusal_to_read_or_remove_is_a_cache_error(cache, monkeypatch, name):
    cache.get("onnx", KEY, writing())

    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    if name == "exists":
        monkeypatch.setattr(Path, "exists", refuse)
    else:
        monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(CacheError, match="Permission denied"):
        cache.get("onnx", KEY, never) if name == "exists" else cache.clear()


def test_entries_are_as_readable_as_the_umask_lets_them(cache):
    """A lab's shared cache: what one user makes, another may read."""
    before = os.umask(0o022)
    try:
        path = cache.get("onnx", KEY, writing())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_entries_are_by_kind_and_newest_last(cache):
    second = cache.get("b", {"n": 2}, writing("22"))
    first = cache.get("b", {"n": 1}, writing("1"))
    cache.get("a", {"n": 3}, writing("333"))
    os.utime(first / "key.json", (1000, 1000))
    os.utime(second / "key.json", (2000, 2000))
    assert [(e.kind, e.key["n"]) for e in cache.entries()] == [("a", 3), ("b", 1), ("b", 2)]
    entry = cache.entries()[1]
    assert entry.path == first
    assert entry.digest == first.name
    assert entry.modified_s == 1000
    assert entry.size_bytes == 1 + (first / "key.json").stat().st_size


def test_entries_passes_over_what_is_broken_or_not_ours(cache):
    broken = cache.get("onnx", {"n": 1}, writing())
    (broken / "key.json").write_text("{")
    foreign = cache.root / "projects" / "thesis"
    foreign.mkdir(parents=True)
    (foreign / "key.json").write_text("{}")
    assert cache.entries() == []


def test_clear_frees_what_it_says(cache):
    cache.get("onnx", {"n": 1}, writing("x" * 100))
    cache.get("onnx", {"n": 2}, writing("x" * 200))
    cache.get("weights", {"n": 3}, writing("x" * 400))
    sizes = {e.key["n"]: e.size_bytes for e in cache.entries()}
    assert cache.clear("onnx") == sizes[1] + sizes[2]
    assert [e.kind for e in cache.entries()] == ["weights"]
    assert cache.clear("no-such-kind") == 0
    assert cache.clear() == sizes[3]
    assert cache.clear() == cache.clear("onnx") == 0
    assert cache.get("onnx", {"n": 1}, writing()).exists()


@pytest.mark.parametrize("kind", [None, "..", ".", "", "/", "projects", "../precious"])
def test_clear_removes_nothing_that_is_not_ours(cache, kind):
    """The variable may point at a home folder, and the kind comes from the command line."""
    precious = [
        cache.root.parent / "precious" / "thesis",
        cache.root / "projects" / "thesis",
        cache.root / "notes",
    ]
    for file in precious:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("years of work")
    cache.clear(kind)
    assert all(file.exists() for file in precious)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({ENVIRONMENT_VARIABLE: "/big/disk", "XDG_CACHE_HOME": "/xdg"}, "/big/disk"),
        ({ENVIRONMENT_VARIABLE: "~/here"}, "/home/me/here"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/benchrack"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/benchrack"),
        ({ENVIRONMENT_VARIABLE: "", "XDG_CACHE_HOME": ""}, "/home/me/.cache/benchrack"),
    ],
)
def test_where_the_cache_lies(monkeypatch, variables, expected):
    for name in (ENVIRONMENT_VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_root() == Path(expected)
    assert Cache.default().root == Path(expected)


def test_a_relative_folder_stays_where_it_was_named(monkeypatch, tmp_path):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "here")
    monkeypatch.chdir(tmp_path)
    assert default_root() == tmp_path / "here"


def test_a_user_without_home_is_told_what_to_set(monkeypatch):
    """In a container with an arbitrary user id there is no home folder."""

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(CacheError, match=f"Set {ENVIRONMENT_VARIABLE}=FOLDER"):
        default_root()

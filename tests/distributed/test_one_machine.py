"""A run of two nodes that are two pytest processes of one machine, with a key and without one."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from fakes import suites

FAKES = Path(__file__).parents[1] / "fakes"
SECRET = "5e3c7e7a11b0ba7d5e3c7e7a11b0ba7d"
PATIENCE_S = 120

CONFTEST = f"""
import sys
sys.path.insert(0, {str(FAKES)!r})
from world_plugins import *
"""
SUITE = suites.suite("throughput")
ONE = suites.sweep(throughput={"device_counts": [1]})
SWEEP = ONE.replace('executor = "in-process"\n', "join_limit_s = 60\n")


@pytest.fixture
def endpoint():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def start(folder, rank, endpoint, arguments):
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "mine.toml").write_text(SWEEP)
    options = ["-p", "benchrack.pytest_plugin", "--sweep=mine.toml", "--device=cpu", "-v"]
    options += ["-p", "no:cacheprovider", "--disable-plugins=call"]
    nodes = ["--nnodes=2", f"--node-rank={rank}", f"--rdzv-endpoint={endpoint}"]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *nodes, *arguments],
        cwd=folder,
        env=os.environ | {"BENCHRACK_CACHE_DIR": str(folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("with_key", [True, False])
def test_two_nodes_meet_and_the_key_is_in_no_file(tmp_path, endpoint, with_key):
    file = tmp_path / "key"
    file.touch(mode=0o600)
    file.write_text(SECRET)
    arguments = [f"--key-file={file}"] if with_key else []
    runs = [start(tmp_path / str(rank), rank, endpoint, arguments) for rank in (0, 1)]
    for run in runs:
        with closing(run.stdout):
            output, _ = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 0, output
        assert "1 passed" in output
        assert SECRET not in output
        assert "warning: no other machine" not in output
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    assert any(path.suffix == ".json" for path in written)
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]

"""Two machines, as two network namespaces with addresses of their own, joined by a cable."""

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from fakes import suites
from fakes.scenarios import SCENARIOS

from benchrack.records import journal

pytest.importorskip("torch")

FAKES = Path(__file__).parents[1] / "fakes"
IP = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
ADDRESSES = ("10.213.7.1", "10.213.7.2")
PATIENCE_S = 120
KEY = secrets.token_hex(32)

SUITE = suites.suite("throughput")
SWEEP = suites.sweep(throughput={}).replace('executor = "in-process"\n', "join_limit_s = 60\n")


def ip(*arguments):
    subprocess.run([IP, *arguments], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def cable():
    """The names of two namespaces, which are also those of the ends of the cable between them."""
    if IP is None:
        pytest.skip("no network namespaces: there is no command `ip` (package iproute2)")
    name = f"br{secrets.token_hex(3)}"
    ends = [f"{name}-{n}" for n in (0, 1)]
    made = []
    try:
        for end in ends:
            ip("netns", "add", end)
            made.append(end)
        ip(
            "link",
            "add",
            ends[0],
            "netns",
            ends[0],
            "type",
            "veth",
            "peer",
            ends[1],
            "netns",
            ends[1],
        )
        for end, address in zip(ends, ADDRESSES, strict=True):
            ip("-n", end, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", end, "link", "set", end, "up")
            ip("-n", end, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        for end in made:
            ip("netns", "del", end)
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
    yield ends
    for end in ends:
        ip("netns", "del", end)


# Whether these tiny measurements are valid is not left to chance, here and in processes: they are.
CONFTEST = f"""
import sys
sys.path.insert(0, {str(FAKES)!r})
from benchrack.execution import running
from benchrack.pytest_plugin import resume as resuming
from world_plugins import *

resuming.judge = running.judge = lambda *_: ()
"""


class Node:
    """One machine's pytest, in a folder of its own."""

    def __init__(self, folder, end, rank, arguments, told, *, edit=""):
        self.folder = folder / f"node-{rank}"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "conftest.py").write_text(CONFTEST + edit)
        (self.folder / "test_suite.py").write_text(SUITE)
        (self.folder / "mine.toml").write_text(SWEEP)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-rsf"]
        options = ["-p", "benchrack.pytest_plugin", "--sweep=mine.toml", "--device=cpu", "-v"]
        options += ["--disable-plugins=call"]  # the checkout may be edited meanwhile
        nodes = ["--nnodes=2", f"--node-rank={rank}", f"--rdzv-endpoint={ADDRESSES[0]}:29400"]
        environment = os.environ | {
            "BENCHRACK_CACHE_DIR": str(self.folder / "cache"),
            "NODE_RANK": str(rank),
            "TOLD": str(told),
            "BENCHRACK_KEY": KEY,
        }
        self.process = subprocess.Popen(
            [IP, "netns", "exec", end, *command, *options, *nodes, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self):
        text, _ = self.process.communicate(timeout=PATIENCE_S)
        assert "frame #" not in text  # no C++ stack
        assert KEY not in text
        files = filter(Path.is_file, self.folder.rglob("*"))
        assert not [path for path in files if KEY.encode() in path.read_bytes()]
        return text

    @property
    def results(self):
        return sorted((self.folder / "results").glob("*"))


@pytest.fixture
def told(tmp_path):
    """A pipe through which backends tell how far they are: `told()` waits for a word."""
    path = tmp_path / "told"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)

    def wait():
        ready, _, _ = select.select([descriptor], [], [], PATIENCE_S)
        assert ready, "no backend has told anything"
        return os.read(descriptor, 4096).decode()

    wait.path = path
    yield wait
    os.close(descriptor)


@pytest.fixture
def nodes(cable, tmp_path, told):
    """`nodes(arguments, other)` starts both; `other` are node 1's arguments where they differ, and
    `edit` is more of its conftest.py."""
    started = []

    def start(arguments, other=None, first=0, edit=""):
        both = {}
        for rank in (first, 1 - first):
            chosen = arguments if rank == 0 or other is None else other
            both[rank] = Node(tmp_path, cable[rank], rank, chosen, told.path, edit=edit * rank)
            started.append(both[rank])
        return both[0], both[1]

    yield start
    for node in started:
        node.process.kill()
        with suppress(ValueError):  # read to its end already
            node.process.communicate()


def test_two_machines_are_one_world(nodes):
    """Also with ranks that fail, and a case that node 0 measures alone. Node 1 comes first."""
    backends = "--backends=numpy-fp32,broken,picky"
    here, there = nodes([backends, "--device-counts=1,2,3", "-k", "numpy or x2"], first=1)
    output, other = here.output(), there.output()
    assert here.process.returncode == there.process.returncode == 1
    reason = "rank 1 of 2 on node 1: ZeroDivisionError: a fault of the backend's, in break_down"
    for text in (output, other):
        assert "2 passed" in text
        assert reason in text
        assert "rank 1 of 2 on node 1: this device is too old" in text
        assert "3 devices can't be split equally between 2 machines" in text
    assert "node 1 of 2: 2 of 5 cases measured, 1 failed, 2 unsupported; node 0" in other
    assert "Throughput" not in other
    assert not there.results
    (path,) = here.folder.glob("results/*.json")
    records = [b["extra_info"]["benchrack"] for b in json.loads(path.read_text())["benchmarks"]]
    alone, both = sorted(records, key=lambda record: record["device_count"])
    assert "world_ranks" not in alone
    assert both["world_nodes"] == both["world_ranks"] == 2
    assert [place.split(":")[0] for place in both["world_placement"]] == ["node 0", "node 1"]


def test_what_node_0_need_not_measure_is_noted_by_both(nodes):
    """Also where it comes last, and nothing is left to tell the others."""
    here, there = nodes(["--device-counts=1,2"])
    assert "2 passed" in here.output()
    assert "2 passed" in there.output()
    (old,) = here.folder.glob("results/*.json")
    assert len(json.loads(old.read_text())["benchrack"]["nodes"]) == 2
    again = f"--resume=results/{old.name}"
    here, there = nodes(["--device-counts=1,2", "--batch-sizes=2,1", again])
    assert "2 passed, 2 skipped" in here.output()
    other = there.output()
    assert "2 passed, 2 skipped" in other
    assert f"has a valid record in results/{old.name}" in other
    assert "node 1 of 2: 2 of 4 cases measured, 2 resumed; node 0" in other
    assert here.process.returncode == there.process.returncode == 0


def test_other_plugins_of_one_name_are_found(nodes):
    both = nodes([], edit="# a backend of the same name may be another\n")
    for node in both:
        output = node.output()
        assert "would not measure the same. software plugins of conftest.py: " in output
        assert node.process.returncode in {2, 4}


def test_a_cable_that_is_cut_ends_the_case_on_both_and_node_0_goes_on(nodes, cable, told):
    here, there = nodes(
        [
            *("--backends=measuring", "--device-counts=2,1", "--set=silence_limit_s=3"),
            *("--set=time_limit_s=1000", "--set=interval=0", "--set=case_time_limit_s=1000"),
            "--maxfail=2",
        ]
    )
    assert "measuring" in told()
    ip("-n", cable[0], "link", "set", cable[0], "down")
    try:
        other = there.output()
        assert "the line to node 0 (10.213.7.1) broke: no sign of life for 3 s" in other
        assert "not measured, since the nodes are apart" in other
        assert "node 1 of 2: 0 of 2 cases measured, 2 failed" in other
        assert "measuring" in told()  # node 0, alone
    finally:
        ip("-n", cable[0], "link", "set", cable[0], "up")
    here.process.send_signal(2)
    assert "the line to node 1 (10.213.7.2) broke: no sign of life for 3 s" in here.output()
    (path,) = here.folder.glob("results/*.jsonl")
    statuses = [outcome.status for _, outcome in journal.read(path, SCENARIOS).outcomes]
    assert statuses == ["failed", "interrupted"]


@pytest.mark.parametrize(
    ("arguments", "other", "words"),
    [
        ([], ["--batch-sizes=2"], "would not measure the same. cases: 1 on node 0, 1 on node 1"),
        ([], ["--set=seed=1"], "settings seed: 0 on node 0, 1 on node 1"),
        ([], ["--models=nope"], "node 1 (10.213.7.2) has left the run: unknown model 'nope'"),
        (["--dataset=imagenet:nowhere"], [], "imagenet"),
    ],
)
def test_machines_that_differ_are_told_so_on_both(nodes, arguments, other, words):
    """Before anything is measured, and no file is left."""
    both = nodes(arguments, other)
    outputs = [node.output() for node in both]
    assert all(node.process.returncode in (2, 4) for node in both)
    assert words in outputs[0]
    assert words in outputs[1] or "unknown model" in outputs[1]
    assert not both[0].results
    assert not both[1].results

"""Two devices in two processes: what they give back, how they end, and what stays behind."""

import os
import signal
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fakes import laboratory as lab, measurements as made
from fakes.settings import make_settings

from benchrack.distributed.world import World
from benchrack.errors import (
    OutOfMemoryError,
    TimeLimitError,
    UnsupportedError,
    WorkerError,
)
from benchrack.execution.executors import Worker
from benchrack.execution.messages import Setup
from benchrack.machine.processors import usable_cores
from benchrack.vocabulary.devices import Device

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="two processes need two cores")

PLUGINS = Path(__file__).parents[1] / "fakes" / "world_plugins.py"
CPU = Device(kind="cpu", name="cpu")


def world_in(folder, **settings):
    quick = make_settings(
        lab.QUICK, **{"latency_samples": 60, "case_time_limit_s": 60.0} | settings
    )
    setup = Setup(
        settings=quick, device=CPU, cache=str(folder / "cache"), conftests=(str(PLUGINS),)
    )
    return World(setup, (CPU,), Worker(setup))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What backends told, and which process it was: `told()` are all lines since the last call."""
    path = tmp_path_factory.mktemp("told") / "told"
    path.touch()
    os.environ["TOLD"] = str(path)

    def lines():
        text = path.read_text()
        path.write_text("")
        return [line.split() for line in text.splitlines()]

    yield lines
    del os.environ["TOLD"]


@pytest.fixture(scope="module")
def world(tmp_path_factory, told):
    """A world that is kept over the tests, as over the cases of a sweep."""
    built = world_in(tmp_path_factory.mktemp("world"))
    yield built
    built.close()


def case(backend="numpy-fp32", count=2, batch_size=2, **axes):
    return made.case(backend=backend, device_count=count, batch_size=batch_size, **axes)


def pids_of(lines, word="running"):
    return {pid for said, pid in lines if said == word}


def gone(pid):
    """Whether a process is no more, or dead and not yet reaped by whoever started it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX"


def in_group(group):
    """The processes of a group."""
    found = set()
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == group:
                found.add(pid)
    return found


def wait_until_gone(pid):
    """Until the kernel tells; it tells at once of a process that is no more."""
    try:
        descriptor = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return
    import select

    ready, _, _ = select.select([descriptor], [], [], 30)
    os.close(descriptor)
    assert ready, f"process {pid} is still there"


# --- what it measures -------------------------------------------------------------------------


def test_a_case_of_two_devices_is_measured_by_two_processes(world):
    phases = []
    found = world.run(case(), phases.append)
    assert found.case == case()
    assert found.world.ranks == 2
    assert found.world.nodes == 1
    assert len(found.world.rank_images_per_s) == 2
    assert found.result.images_per_s.value <= sum(found.world.rank_images_per_s) * 1.5
    assert 0 <= found.world.skew < 1
    assert found.world.startup_s > 0
    assert found.world.barrier_s > 0
    assert len(found.seconds_per_batch) == found.steadiness.rounds
    assert found.surroundings.threads_used <= found.surroundings.usable_cores
    assert phases[0] == "preparing"
    assert "measuring" in phases


def test_each_process_has_cores_of_its_own(world):
    first, second = world.run(case()).world.placement
    assert first.startswith("cpu, CPUs ")
    assert first != second


def test_latency_has_the_percentiles_of_the_slowest(world):
    found = world.run(case(scenario="latency", batch_size=1))
    slowest = min(found.world.rank_images_per_s)
    assert found.result.samples == 60
    assert len(found.seconds_per_batch) == 60
    assert found.result.p50.value / 1e3 == pytest.approx(1 / slowest)


def test_the_processes_are_kept_for_the_next_case(world, told):
    told()
    for batch_size in (1, 2):
        world.run(case("telling", batch_size=batch_size))
    assert len(pids_of(told())) == 2


def test_preparation_is_done_once_and_by_one_before_the_other(world, told):
    told()
    world.run(case("cached"))
    lines = told()
    assert [word for word, _ in lines] == ["preparing", "prepared", "prepared"]
    assert lines[0][1] == lines[1][1] != lines[2][1]


def test_what_a_backend_refuses_is_a_reason_and_the_processes_stay(world, told):
    world.run(case("telling"))
    before = pids_of(told())
    with pytest.raises(UnsupportedError, match=r"^no such card$"):
        world.run(case("absent"))
    with pytest.raises(UnsupportedError, match=r"^rank 1 of 2: this device is too old$"):
        world.run(case("picky"))
    world.run(case("telling"))
    assert pids_of(told()) == before


def test_more_devices_than_cores_are_a_reason(world):
    count = usable_cores() + 1
    with pytest.raises(UnsupportedError, match=f"{count} devices .* {count - 1} usable cores"):
        world.run(case(count=count))


def test_one_device_is_the_workers(world, told):
    told()
    found = world.run(case("telling", count=1))
    assert found.world is None
    assert len(pids_of(told())) == 1


# --- how it ends ------------------------------------------------------------------------------


def test_a_process_that_dies_ends_the_case_and_the_next_is_measured_by_fresh_ones(world, told):
    world.run(case("telling"))
    before = pids_of(told())
    with pytest.raises(WorkerError, match=r"rank 1 of 2 was ended by SIGKILL.*: about to die$"):
        world.run(case("deadly"))
    assert all(gone(pid) for pid in before)
    world.run(case("telling"))
    after = pids_of(told())
    assert len(after) == 2
    assert not after & before
    world.close()
    for pid in after:
        wait_until_gone(pid)


@pytest.mark.parametrize(
    ("backend", "kind", "words"),
    [
        ("full", OutOfMemoryError, r"^rank 1 of 2: 3 GiB were asked for, 2 GiB are free$"),
        (
            "broken",
            WorkerError,
            r"^rank 1 of 2: ZeroDivisionError: a fault of the backend's, in break_down \(world_pl",
        ),
    ],
)
def test_a_process_that_fails_has_its_own_error(world, backend, kind, words):
    with pytest.raises(kind, match=words) as caught:
        world.run(case(backend))
    if kind is WorkerError:
        assert "in break_down" in caught.value.details


def test_a_process_that_hangs_is_named_at_the_time_limit(tmp_path):
    hung = world_in(tmp_path, case_time_limit_s=12.0)
    with pytest.raises(TimeLimitError) as caught:
        hung.run(case("hanging"))
    assert "no result after 12 s: rank 1 of 2 was in hang (world_plugins.py, line" in str(
        caught.value
    )
    assert "in hang" in caught.value.details
    hung.close()


def test_nothing_outlives_the_one_who_asked(tmp_path, told):
    """Pytest may be killed: the launcher's line ends then, and with it everything."""
    left = world_in(tmp_path)
    left.run(case("telling"))
    process, folder = left._launcher._process, left._folder
    pids = pids_of(told())
    assert Path(folder).is_dir()
    left._launcher._line.close()
    assert process.wait(timeout=30) == 0
    for pid in pids:
        wait_until_gone(pid)
    assert not Path(folder).exists()
    left.close()


def test_nothing_outlives_a_launcher_that_is_killed(tmp_path, told):
    left = world_in(tmp_path)
    left.run(case("telling"))
    launcher, folder = left._launcher._process.pid, left._folder
    all_of_it = in_group(launcher)
    ranks = {int(pid) for pid in pids_of(told())}
    assert ranks < all_of_it
    os.kill(launcher, signal.SIGKILL)
    for pid in ranks:
        wait_until_gone(pid)
    with pytest.raises(WorkerError, match="ended by SIGKILL"):
        left.run(case("telling"))
    for pid in all_of_it:
        wait_until_gone(pid)
    left.close()
    assert not Path(folder).exists()


def test_sockets_find_room_where_temporary_files_have_a_long_path(tmp_path, monkeypatch, told):
    """As batch systems name them; a socket's path has at most 107 bytes."""
    deep = tmp_path / "scratch-of-a-job-in-a-batch-system" / "job-12345678.array-123"
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with closing(world_in(tmp_path)) as world:
        world.run(case("telling"))
        assert len(pids_of(told())) == 2
    assert not list(deep.iterdir())

"""Worker processes: what they give back, how they end, and that nothing outlives them."""

import dataclasses
import os
import sys
from pathlib import Path

import pytest
from fakes import laboratory as lab, measurements as made
from fakes.settings import make_settings

from benchrack.distributed.world import World
from benchrack.errors import (
    OutOfMemoryError,
    RankLostError,
    TimeLimitError,
    UnknownNameError,
    UnsupportedError,
    WorkerError,
)
from benchrack.execution.executors import Worker
from benchrack.execution.messages import Setup
from benchrack.machine.placement import Place
from benchrack.vocabulary.devices import Device

TESTS = Path(__file__).parents[1]

CONFTEST = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(TESTS)!r})
from fakes import laboratory as lab
from benchrack import hookimpl
from benchrack.errors import OutOfMemoryError

def deadly(images, matrix):
    print("about to die", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def leaving(images, matrix):
    os._exit(3)

def forking(images, matrix):
    if os.fork() == 0:
        threading.Event().wait(60)
    os._exit(4)

class Text(str):  # as torch has one for its version
    pass

ENGINE = lab.dataclasses.replace(lab.ENGINE, version=Text("1.0"))

def hanging(images, matrix):
    threading.Event().wait(60)

def chatty(images, matrix):
    print("a library prints to standard output")
    return images.reshape(len(images), -1) @ matrix

def full(images, matrix):
    raise OutOfMemoryError(f"full in process {{os.getpid()}}")

def leaking(images, matrix, held=[]):
    if held:
        raise OutOfMemoryError(f"earlier cases hold memory in process {{os.getpid()}}")
    return images.reshape(len(images), -1) @ matrix

def greedy(images, matrix):
    leaking.__defaults__[0].append(images)
    return images.reshape(len(images), -1) @ matrix

def broken(images, matrix):
    raise ZeroDivisionError("a fault of the backend's")

def telling(images, matrix):
    with open(os.environ["PIDS"], "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    return images.reshape(len(images), -1) @ matrix

@hookimpl
def benchrack_backends():
    computes = dict(deadly=deadly, leaving=leaving, forking=forking, hanging=hanging,
                    chatty=chatty, full=full, broken=broken, telling=telling, leaking=leaking,
                    greedy=greedy)
    absent = lab.backend("absent", unsupported=lambda device: "no such card")
    own_text = lab.backend("own-text", engine=ENGINE)
    others = [lab.backend(n, compute=c) for n, c in computes.items()]
    return [lab.backend(), absent, own_text, *others]

@hookimpl
def benchrack_models():
    return [lab.MODEL]

@hookimpl
def benchrack_datasets():
    return [lab.DATASET]
"""


@pytest.fixture
def worker(tmp_path):
    built = lab.worker(tmp_path, CONFTEST, case_time_limit_s=30)
    yield built
    built.close()


def case(backend="numpy-fp32", **axes):
    return made.case(backend=backend, batch_size=2, **axes)


def test_a_measurement_comes_back_whole(worker):
    phases = []
    found = worker.run(case(), phases.append)
    assert found.case == case()
    assert found.result.images_per_s.value > 0
    assert len(found.seconds_per_batch) == found.steadiness.rounds
    assert phases[0] == "preparing"
    assert "measuring" in phases


def test_a_measurement_may_hold_classes_that_pytest_does_not_know(worker):
    found = worker.run(case("own-text"))
    assert found.engine.version == "1.0"
    assert type(found.engine.version) is str


def test_a_worker_is_bound_to_its_place_and_records_it(worker):
    cpu = min(os.sched_getaffinity(0))
    place = Place(device=worker.setup.device, cpus=(cpu,), description=f"cpu, CPUs {cpu}")
    worker.setup = dataclasses.replace(worker.setup, places=(place,))
    found = worker.run(case())
    assert found.placement == f"cpu, CPUs {cpu}"
    assert found.surroundings.usable_cores == 1


def test_what_a_library_prints_does_not_disturb_the_reply(worker):
    assert worker.run(case("chatty")).result.images_per_s.value > 0


def test_a_warm_worker_is_used_again_and_a_fresh_start_is_another_process(
    worker, tmp_path, monkeypatch
):
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    worker.run(case("telling"))
    worker.run(case("telling"))
    warm = (tmp_path / "pids").read_text().split()
    worker.run(case("telling"), fresh=True)
    fresh = set((tmp_path / "pids").read_text().split()) - set(warm)
    assert len(set(warm)) == 1
    assert len(fresh) == 1


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("deadly", "ended by SIGKILL, most likely by the kernel for want of memory: about to die"),
        ("leaving", "ended with exit code 3"),
        ("forking", "ended with exit code 4"),  # its own child is still there
    ],
)
def test_a_worker_that_dies_says_how_and_the_next_case_runs(worker, backend, words):
    with pytest.raises(WorkerError, match=words):
        worker.run(case(backend))
    assert worker.run(case()).result.images_per_s.value > 0


def test_a_hung_case_is_ended_at_its_time_limit(worker):
    object.__setattr__(worker.setup.settings.run, "case_time_limit_s", 3.0)
    with pytest.raises(TimeLimitError, match="no result after 3 s"):
        worker.run(case("hanging"))
    object.__setattr__(worker.setup.settings.run, "case_time_limit_s", 60.0)
    assert worker.run(case()).result.images_per_s.value > 0


class Bell:
    """Another node that has told, before this one's case began, that its processes ended."""

    def __init__(self, left_s):
        self.left_s = left_s
        self.reading, self.writing = os.pipe()
        os.write(self.writing, b"!")

    def fileno(self):
        return self.reading

    def ring(self):
        os.read(self.reading, 1)
        return self.left_s


@pytest.mark.parametrize(
    ("backend", "left_s", "error", "words"),
    [
        ("broken", 60.0, WorkerError, "ZeroDivisionError: a fault of the backend's"),
        ("hanging", 0.0, RankLostError, "another node told that it ended"),
    ],
)
def test_what_ends_elsewhere_leaves_time_to_say_why_it_ends_here(
    worker, backend, left_s, error, words
):
    bell = Bell(left_s)
    worker.alarms = (bell,)
    with pytest.raises(error, match=words):
        worker.run(case(backend))
    os.close(bell.reading)
    os.close(bell.writing)


def test_errors_keep_their_class_and_their_words(worker):
    with pytest.raises(UnsupportedError, match="no such card"):
        worker.run(case("absent"))
    with pytest.raises(UnknownNameError, match="unknown backend 'nope'"):
        worker.run(case("nope"))
    with pytest.raises(OutOfMemoryError, match="full in process"):
        worker.run(case("full"))


def test_a_process_that_ran_out_of_memory_is_not_used_again(worker):
    words = []
    for _ in range(2):
        with pytest.raises(OutOfMemoryError) as caught:
            worker.run(case("full"))
        words.append(str(caught.value))
    assert words[0] != words[1]


def test_memory_that_another_case_never_gave_back_does_not_end_this_one(worker):
    worker.run(case("greedy"))
    first = worker._process.pid
    assert worker.run(case("leaking")).result.images_per_s.value > 0
    assert worker._process.pid != first


def test_what_runs_out_of_memory_in_a_fresh_process_is_not_tried_again(worker, monkeypatch):
    asked = []

    def full(*arguments):
        asked.append(arguments)
        raise OutOfMemoryError("full")

    monkeypatch.setattr(Worker, "ask", full)
    for fresh in (False, True):
        with pytest.raises(OutOfMemoryError):
            worker.run(case("full"), fresh=fresh)
    assert len(asked) == 2


@pytest.mark.parametrize("fits", [True, False])
def test_processes_of_several_devices_are_launched_anew_once(monkeypatch, tmp_path, fits):
    launched = []

    class Ranks:
        running = True

        def ask(self, case, progress):
            if not (launched and fits):
                raise OutOfMemoryError("full")
            return "measured"

    setup = Setup(settings=make_settings(), device=Device(kind="cpu"), cache=str(tmp_path))
    world = World(setup, (setup.device,) * 2, one=None)
    world._launcher, world._size = Ranks(), 2
    monkeypatch.setattr(World, "_launch", lambda self, size, launch: launched.append(size))
    two = case(device_count=2)
    if fits:
        assert world.run(two) == "measured"
    else:
        with pytest.raises(OutOfMemoryError):
            world.run(two)
    assert launched == [2]


def test_an_unforeseen_error_brings_the_workers_traceback(worker):
    with pytest.raises(WorkerError, match="ZeroDivisionError: a fault of the backend's") as caught:
        worker.run(case("broken"))
    assert "in broken" in caught.value.details


def test_an_interruption_ends_the_worker(worker):
    pids = []

    def interrupt(phase):
        pids.append(worker._process.pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.run(case(), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_worker_whose_pytest_is_gone_ends(worker):
    """Their line ends with the process that asks, even one that was killed."""
    worker.run(case())
    process = worker._process
    worker._line.close()
    assert process.wait(timeout=30) == 0


def test_an_interpreter_that_can_not_start_is_an_error_in_words(tmp_path):
    broken = Worker(
        Setup(settings=make_settings(), device=Device(kind="cpu"), cache=str(tmp_path)),
        command=(sys.executable, "-c", "raise SystemExit('no such module')"),
    )
    with pytest.raises(WorkerError, match="exit code 1: no such module"):
        broken.run(case())

"""What a batch needs of memory: predicted, followed, limited; and what is not tried therefore."""

import dataclasses
import subprocess
import sys

import pytest
from fakes import laboratory as lab, measurements as made, nvml, suites

from benchrack.bench.footprint import Memory
from benchrack.errors import OutOfMemoryError
from benchrack.execution.running import run_case
from benchrack.machine import gauges, memory
from benchrack.machine.gauges import CardGauge, HostGauge, available, gauge_of, peak_share
from benchrack.machine.memory import GIB, Prediction, predict, probes, ran_out, require_room
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.results import Outcome

pytest_plugins = ["pytester"]


# The line -------------------------------------------------------------------------------------


def test_a_line_through_two_batches_predicts_a_third():
    assert predict({1: 110, 8: 180}, 32) == Prediction(needed_bytes=420, batches=(1, 8))


def test_the_smallest_and_the_largest_that_are_known_count():
    """One batch between them that took more, by chance, moves nothing."""
    assert predict({1: 100, 8: 900, 33: 420}, 65).needed_bytes == 740


def test_memory_in_reserve_hides_what_small_batches_take_but_never_adds():
    """10 bytes an image, the first 100 of which an allocator still had: the line is below."""
    taken = {n: max(0, 10 * n - 100) for n in (1, 8, 32, 128)}
    assert predict(taken, 512).needed_bytes < 10 * 512 - 100
    assert predict(taken, 512).needed_bytes == pytest.approx(10 * 512, rel=0.10)


def test_a_batch_that_took_less_than_a_smaller_one_does_not_predict_less_again():
    assert predict({1: 200, 8: 150}, 1000).needed_bytes == 150


def test_one_batch_is_no_line_and_larger_ones_do_not_count():
    assert predict({1: 100}, 32) is None
    assert predict({1: 100, 64: 500}, 32) is None


@pytest.mark.parametrize(
    ("known", "batch_size", "expected"),
    [
        ((), 128, (8, 32)),
        ((), 9, (2,)),
        ((1,), 32, (8,)),
        ((32,), 128, (8,)),
        ((1, 32), 64, ()),
        ((64,), 32, (2, 8)),
        ((8,), 32, (2,)),
    ],
)
def test_small_batches_are_tried_until_two_are_known(known, batch_size, expected):
    assert probes(known, batch_size) == expected


def test_what_does_not_fit_is_refused_with_the_numbers():
    predicted = Prediction(needed_bytes=3 * GIB, batches=(8, 32))
    require_room(predicted, 128, 3 * GIB, 1.0, "the host's memory")
    with pytest.raises(
        OutOfMemoryError, match=r"batch 128 needs about 3\.0 GiB.*8 and 32.*2\.0 GiB"
    ):
        require_room(predicted, 128, 2 * GIB, 1.0, "the host's memory")


def test_allocators_that_hold_twice_what_they_need_are_given_the_benefit_of_it():
    predicted = Prediction(needed_bytes=3 * GIB, batches=(8, 32))
    require_room(predicted, 128, 2 * GIB, 2.0, "the card's memory")
    with pytest.raises(OutOfMemoryError, match=r"1\.0 GiB of the card's memory"):
        require_room(predicted, 128, GIB, 2.0, "the card's memory")


# Words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory",
        "bfc_arena.cc:360 Failed to allocate memory for requested buffer of size 6576668672",
        "std::bad_alloc",
        "libtorch_cpu.so: failed to map segment from shared object",
        "Unable to allocate 9.19 MiB for an array with shape (16, 3, 224, 224)",
    ],
)
def test_frameworks_that_run_out_say_so(words):
    assert ran_out(words)


def test_vague_words_count_only_where_most_is_used():
    assert not ran_out("could not create a primitive")
    assert not ran_out("could not create a primitive", 0.2)
    assert ran_out("could not create a primitive", 0.8)
    assert not ran_out("no kernel image is available", 0.99)


# What is not tried ----------------------------------------------------------------------------


def case(batch_size=4, **changes):
    return made.case(batch_size=batch_size, **changes)


def out(status="out-of-memory", **axes):
    return Outcome(case=case(**axes), status=status, reason="full")


def test_a_larger_batch_of_the_same_is_not_tried():
    found = memory.smaller_did_not_fit(case(64), [out(batch_size=32), out(batch_size=16)])
    assert found == "not tried: batch 16 did not fit"


@pytest.mark.parametrize(
    "outcome",
    [
        out(batch_size=128),
        out(batch_size=16, backend="other"),
        out(batch_size=16, model="other"),
        out(batch_size=16, device_count=2),
        out(batch_size=16, scenario="latency"),
        out(batch_size=16, weights="random"),
        out("unsupported", batch_size=16),
    ],
)
def test_anything_else_is_tried(outcome):
    assert memory.smaller_did_not_fit(case(64), [outcome]) is None


# Gauges ---------------------------------------------------------------------------------------

STATUS = """\
Name:\tpython
Pid:\t12
VmHWM:\t  3000 kB
VmRSS:\t  2000 kB
VmData:\t  2500 kB
"""


@pytest.fixture
def root(tmp_path):
    class Root:
        path = tmp_path

        def write(self, name, text):
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    made = Root()
    made.write("proc/meminfo", "MemTotal:  99999 kB\nMemFree:  1 kB\nMemAvailable:  8000 kB\n")
    made.write("proc/self/status", STATUS)
    made.write("proc/self/clear_refs", "")
    return made


def test_a_process_knows_its_memory_its_peak_and_what_is_left(root, monkeypatch):
    gauge = HostGauge(root=root.path)
    monkeypatch.setattr(gauges, "_data_limit", lambda: None)
    assert (gauge.used(), gauge.peak(), gauge.free()) == (2000 << 10, 3000 << 10, 8000 << 10)
    assert peak_share(gauge) == pytest.approx(0.3)
    gauge.reset_peak()
    assert (root.path / "proc/self/clear_refs").read_text() == "5"


def test_a_limit_of_its_own_bounds_what_is_left(root, monkeypatch):
    monkeypatch.setattr(gauges, "_data_limit", lambda: 4000 << 10)
    assert HostGauge(root=root.path).free() == 1500 << 10


def test_what_was_freed_before_is_no_use_of_this_case():
    """The C library keeps small blocks that are freed below one that is not."""
    gauge = gauge_of(Device(kind="cpu"))
    if gauge is None:
        pytest.skip("this system does not tell a process's memory")
    blocks = [bytearray(b"x" * (64 << 10)) for _ in range(1 << 10)]
    last = bytearray(b"x" * (64 << 10))
    full = gauge.used()
    del blocks
    gauge.reset_peak()
    assert last
    assert gauge.peak() < full - (48 << 20)


VERSION_2 = {
    "proc/self/cgroup": "0::/slurm/job_7\n",
    "sys/fs/cgroup/slurm/memory.max": "6000000\n",
    "sys/fs/cgroup/slurm/memory.current": "5000000\n",
    "sys/fs/cgroup/slurm/memory.stat": "anon 4000000\ninactive_file 500000\n",
    "sys/fs/cgroup/slurm/job_7/memory.max": "max\n",
    "sys/fs/cgroup/slurm/job_7/memory.current": "5000000\n",
}
VERSION_1 = {
    "proc/self/cgroup": "4:memory:/box\n3:cpuset:/\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "3000000\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "2500000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "9000000\n",
}


@pytest.mark.parametrize(
    ("files", "left"), [(VERSION_2, 1_500_000), (VERSION_1, 500_000)], ids=["2", "1"]
)
def test_a_control_group_bounds_what_is_available(root, files, left):
    """What the group, or one that holds it, leaves; cached files can be dropped."""
    for name, content in files.items():
        root.write(name, content)
    assert available(root.path) == left


def test_this_process_can_be_read():
    gauge = gauge_of(Device(kind="cpu", name="cpu"))
    assert gauge is not None
    before = gauge.used()
    block = bytearray(b"x") * (64 << 20)
    assert gauge.peak() - before > 60 << 20
    assert len(block) == 64 << 20
    assert gauge.free() > 0


def test_a_card_is_read_by_its_uuid(monkeypatch):
    machine = nvml.four_p4()
    monkeypatch.setitem(sys.modules, "pynvml", nvml.module(machine))
    card = machine.cards[1]
    gauge = gauge_of(Device(kind="cuda", index=1, name=card.name, uuid=card.uuid))
    assert isinstance(gauge, CardGauge)
    assert 0 < gauge.used() == gauge.peak()
    assert gauge.used() + gauge.free() == card.memory_mib << 20
    absent = Device(kind="cuda", index=7, name=card.name, uuid="GPU-0")
    assert gauge_of(absent) is None


LIMITED = """
from benchrack.machine.gauges import limit_host_memory
allowed = limit_host_memory({limit})
try:
    block = bytearray({size})
except MemoryError:
    print("MemoryError", allowed)
else:
    print("fits", allowed)
"""


@pytest.mark.parametrize(
    ("limit", "size", "expected"),
    [
        (400 << 20, 800 << 20, "MemoryError"),
        (400 << 20, 100 << 20, "fits"),
        (0, 1 << 50, "MemoryError"),
    ],
)
def test_beyond_the_limit_memory_is_refused(limit, size, expected):
    """In a process of its own; without a limit nine tenths of what is available are one."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit=limit, size=size)],
        capture_output=True,
        text=True,
        check=True,
    )
    said, allowed = done.stdout.split()
    assert said == expected
    assert int(allowed) == limit or not limit


def test_several_processes_share_what_is_available():
    told = "from benchrack.machine import gauges; print(gauges.limit_host_memory(sharers={}))"
    alone, four = (
        int(subprocess.check_output([sys.executable, "-c", told.format(n)])) for n in (1, 4)
    )
    assert alone > 2 * four


def test_several_processes_share_what_they_are_told():
    told = "from benchrack.machine import gauges; print(gauges.limit_host_memory(8 << 30, {}))"
    for sharers in (1, 4):
        allowed = subprocess.check_output([sys.executable, "-c", told.format(sharers)])
        assert int(allowed) == (8 << 30) // sharers


# A case that is followed ----------------------------------------------------------------------


class FakeGauge:
    """Memory of a device on which a batch takes 1 MiB an image beside 100 MiB; none is given
    back."""

    place, reserve = "the fake device's memory", 1.0

    def __init__(self, free_mib):
        self.taken, self.limit = 100 << 20, (100 + free_mib) << 20
        self.sizes = []

    def compute(self, images, matrix):
        self.sizes.append(len(images))
        self.taken = max(self.taken, (100 + len(images)) << 20)
        return images.reshape(len(images), -1) @ matrix

    def reset_peak(self):
        pass

    def used(self):
        return self.taken

    def peak(self):
        return self.taken

    def free(self):
        return self.limit - self.taken


@pytest.fixture
def followed(tmp_path):
    """A bench on a fake device with so many MiB free, and its gauge."""

    def build(free_mib):
        gauge, clock = FakeGauge(free_mib), lab.Clock()
        backend = lab.backend(clock=clock, compute=gauge.compute)
        plain = lab.backend("plain", clock=clock)
        bench = lab.bench(tmp_path, plain, backend, clock=clock, time_limit_s=1)
        return dataclasses.replace(bench, memory=Memory(gauge)), gauge

    return build


def test_a_large_batch_that_can_not_fit_is_never_run(followed):
    bench, gauge = followed(free_mib=100)
    with pytest.raises(OutOfMemoryError, match="batch 128 needs about"):
        run_case(bench, case(128))
    assert sorted(set(gauge.sizes)) == [8, 32]


def test_a_large_batch_that_fits_is_run_and_its_prediction_kept(followed):
    bench, gauge = followed(free_mib=200)
    found = run_case(bench, case(128)).footprint
    assert 128 in gauge.sizes
    assert found.predicted_from == (8, 32)
    assert found.predicted_gib == pytest.approx(found.batches_gib, rel=0.01)
    assert found.batches_gib == 128 / 1024
    assert found.free_gib == 200 / 1024


def test_small_batches_are_tried_without_a_prediction(followed):
    bench, gauge = followed(free_mib=0)
    assert run_case(bench, case(8)).footprint.predicted_gib is None
    assert set(gauge.sizes) == {8}


def test_a_batch_that_was_run_before_is_not_predicted_again(followed):
    bench, gauge = followed(free_mib=200)
    run_case(bench, case(64))
    gauge.sizes.clear()
    assert run_case(bench, case(64)).footprint.predicted_gib is None
    assert set(gauge.sizes) == {64}


def test_where_memory_can_not_be_read_a_case_is_tried(followed):
    bench, gauge = followed(free_mib=0)
    bench = dataclasses.replace(bench, memory=Memory(None))
    assert run_case(bench, case(128)).footprint is None
    assert set(gauge.sizes) == {128}


def test_a_library_that_runs_out_in_words_of_its_own_is_out_of_memory(followed):
    bench, _ = followed(free_mib=100)

    def compute(images, matrix):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: 4 GiB\nat somewhere")

    registry = lab.registry(lab.backend(compute=compute), lab.backend("plain"))
    bench = lab.again(bench, registry=registry)
    with pytest.raises(OutOfMemoryError, match=r"4 GiB$"):
        run_case(bench, case())


# In a worker process --------------------------------------------------------------------------

WORKERS_PLUGINS = """
import os
import numpy as np

def greedy(images, matrix):
    return np.ones(2 << 30, np.uint8)

def aborting(images, matrix):
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr)
    os.abort()

@hookimpl
def benchrack_backends():
    computes = dict(greedy=greedy, aborting=aborting)
    return [lab.backend(), *(lab.backend(n, compute=c) for n, c in computes.items())]
"""


@pytest.fixture
def worker(tmp_path):
    built = lab.worker(tmp_path, suites.HEAD + WORKERS_PLUGINS, memory_gib=1.0)
    yield built
    built.close()


def test_a_worker_is_refused_what_is_beyond_its_limit_and_the_next_case_runs(worker):
    with pytest.raises(OutOfMemoryError, match=r"the host ran out of memory: .*2\.00 GiB"):
        worker.run(case(backend="greedy"))
    assert worker.run(case()).result.images_per_s.value > 0


def test_a_library_that_ends_the_process_for_want_of_memory_is_out_of_memory(worker):
    with pytest.raises(OutOfMemoryError, match="bad_alloc"):
        worker.run(case(backend="aborting"))
    assert worker.run(case()).result.images_per_s.value > 0


# In a run -------------------------------------------------------------------------------------

PLUGINS = """
def full_from_4(images, matrix):
    if len(images) >= 4:
        raise MemoryError(f"batch {len(images)}")
    return images.reshape(len(images), -1) @ matrix

@hookimpl
def benchrack_backends():
    return [lab.backend(), lab.backend("full", compute=full_from_4)]
"""


def test_larger_batches_are_not_tried_and_say_so(suite_run):
    axes = {"backends": ["full", "numpy-fp32"], "batch_sizes": [2, 4, 8, 16]}
    result = suite_run(PLUGINS, throughput=axes)("-rs")
    result.assert_outcomes(passed=5, skipped=3)
    result.stdout.fnmatch_lines(
        [
            "*out-of-memory: the host ran out of memory: batch 4",
            "*out-of-memory: not tried: batch 4 did not fit",
        ]
    )

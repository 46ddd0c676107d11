"""Other processes on the CPUs and on the card, read from a made-up /proc/stat and a fake NVML."""

import os
import subprocess
import sys
import time

import pytest
from fakes import nvml

from benchrack.machine.surroundings import (
    CpuTimes,
    cpu_times,
    foreign_share,
    other_processes,
    resolution,
    watched,
)
from benchrack.vocabulary.devices import Device

CPU = Device(kind="cpu", name="cpu")
CARD = nvml.v100(0x1A, [])
DEVICE = Device(kind="cuda", name=CARD.name, uuid=CARD.uuid)
LABELS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
HERTZ = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path):
    """`proc({"user": 5}, …)` writes /proc/stat: seconds of one CPU after the other."""

    def write(*cpus):
        lines = ["cpu  1 2 3 4 5 6 7 8 9 10"]
        for number, seconds in enumerate(cpus):
            ticks = (str(round(HERTZ * seconds.get(label, 0))) for label in LABELS)
            lines.append(f"cpu{number} {' '.join(ticks)}")
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc/stat").write_text("\n".join([*lines, "intr 12345 0 0", "ctxt 99"]))
        return tmp_path

    return write


def times(busy_s=0.0, total_s=0.0, own_s=0.0, cpus=2):
    return CpuTimes(busy_s=busy_s, total_s=total_s, own_s=own_s, cpus=cpus, tick_s=0.01)


def test_busy_is_all_but_idle_and_waiting_for_disks(proc):
    read = cpu_times(proc({"user": 3, "nice": 1, "system": 2, "idle": 10, "iowait": 4}), {0})
    assert read.busy_s == pytest.approx(6)
    assert read.total_s == pytest.approx(20)


def test_interrupts_and_what_a_hypervisor_stole_are_busy(proc):
    read = cpu_times(proc({"irq": 1, "softirq": 2, "steal": 3, "idle": 4}), {0})
    assert read.busy_s == pytest.approx(6)


def test_guests_are_counted_once(proc):
    """The kernel has them in `user` already."""
    read = cpu_times(proc({"user": 5, "guest": 5, "idle": 5}), {0})
    assert read.total_s == pytest.approx(10)


def test_only_the_cpus_of_the_affinity_mask_count(proc):
    root = proc({"user": 100}, {"user": 1, "idle": 9}, {"user": 2, "idle": 8})
    read = cpu_times(root, {1, 2})
    assert (read.busy_s, read.total_s, read.cpus) == (pytest.approx(3), pytest.approx(20), 2)


@pytest.mark.parametrize(
    "content",
    ["", "cpu  1 2 3 4 5 6 7 8\n", "cpu0 1 2 3\n", "cpu0 a b c d e f g h\n", "\n\n"],
    ids=["empty", "no single CPUs", "short", "no numbers", "blank"],
)
def test_a_kernel_that_tells_nothing(tmp_path, content):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(content)
    assert cpu_times(tmp_path, {0}) is None


def test_no_proc_at_all(tmp_path):
    assert cpu_times(tmp_path) is None


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="no /proc")
def test_ones_own_time_is_that_of_all_threads_and_of_finished_children():
    before = cpu_times()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    deadline = time.process_time() + 0.02
    while time.process_time() < deadline:
        pass
    assert cpu_times().own_s - before.own_s > 0.03


def test_foreign_is_busy_less_own():
    before, after = times(busy_s=100, total_s=400, own_s=10), times(120, 440, 16)
    assert foreign_share(before, after) == pytest.approx(14 / 40)


def test_foreign_is_a_share():
    """Ticks are coarse: own time may come out above busy time."""
    assert foreign_share(times(), times(busy_s=1.0, total_s=4, own_s=1.02)) == 0
    assert foreign_share(times(), times(busy_s=5.0, total_s=4)) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, times()), (times(), None), (times(), times()), (times(1, 1), times())],
)
def test_nothing_known_is_none(before, after):
    assert foreign_share(before, after) is None
    assert resolution(before, after) is None


def test_resolution_is_a_tick_at_each_edge():
    assert resolution(times(), times(total_s=2 * 0.4)) == pytest.approx(0.05)
    assert resolution(times(cpus=64), times(total_s=64 * 0.4, cpus=64)) == pytest.approx(0.05)
    assert resolution(times(), times(total_s=2 * 0.01)) == 1


def watch(device, *readings, threads=2):
    read = iter(readings)
    with watched(device, threads, lambda: next(read), cores=2) as seen:
        pass
    return seen.found


def test_a_watch_on_the_cpu():
    found = watch(CPU, times(), times(busy_s=6, total_s=20, own_s=4), threads=8)
    assert found.foreign_cpu_share == pytest.approx(0.1)
    assert found.foreign_cpu_resolution == pytest.approx(0.002)
    assert (found.threads_used, found.usable_cores) == (8, 2)
    assert found.other_processes == ()


def test_a_watch_where_nothing_can_be_read():
    found = watch(CPU, None, None)
    assert found.foreign_cpu_share is None
    assert found.foreign_cpu_resolution is None


def test_threads_of_the_host_do_not_matter_to_a_card(fake_nvml):
    fake_nvml(nvml.Machine(cards=[CARD]))
    assert watch(DEVICE, times(), times(total_s=1), threads=8).threads_used is None


# Other processes on the card -------------------------------------------------------------------

ME = (os.getpid(), 1 << 30)
YOU, THEM = (4242, 1 << 20), (17, 1 << 20)


def install(fake_nvml, *processes, **machine):
    card = nvml.v100(0x1A, [], processes=processes)
    return fake_nvml(nvml.Machine(cards=[card], **machine))


def test_one_is_not_ones_own_neighbour(fake_nvml):
    install(fake_nvml, ME, YOU, THEM)
    assert other_processes(DEVICE) == {17, 4242}
    install(fake_nvml, ME)
    assert other_processes(DEVICE) == frozenset()


def test_in_a_container_one_of_the_hosts_processes_is_ours(fake_nvml):
    install(fake_nvml, YOU)
    assert other_processes(DEVICE) == frozenset()
    install(fake_nvml, YOU, THEM)
    assert len(other_processes(DEVICE)) == 1


@pytest.mark.parametrize("machine", [nvml.no_card, nvml.no_driver, nvml.no_permission])
def test_a_card_that_can_not_be_asked(fake_nvml, machine):
    fake_nvml(machine())
    assert other_processes(DEVICE) == frozenset()


def test_nvml_is_left_as_it_was_found(fake_nvml):
    module = install(fake_nvml, ME)
    other_processes(DEVICE)
    assert module.library.users == 0
    module = fake_nvml(nvml.no_permission())
    other_processes(DEVICE)
    assert module.library.users == 0


def test_a_process_that_came_or_went_meanwhile_is_seen(fake_nvml):
    """One is there before, another after."""
    install(fake_nvml, ME, YOU)

    def read():
        install(fake_nvml, ME, THEM)
        return times()

    with watched(DEVICE, 1, read, cores=1) as seen:
        pass
    assert seen.found.other_processes == ("process 17", "process 4242")


def test_an_exception_passes_through():
    with pytest.raises(RuntimeError, match="broke"), watched(CPU, 1, times, cores=1):
        raise RuntimeError("it broke")

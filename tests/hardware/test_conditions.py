"""What would spoil a measurement, seen beforehand."""

from __future__ import annotations

import os

import pytest

from benchrack.hardware import conditions
from benchrack.hardware.detection import Card, Machine


@pytest.fixture
def machine():
    return Machine(
        vendor=None,
        product=None,
        server=None,
        cpu_model="CPU",
        sockets=1,
        cores=4,
        threads=4,
        memory_gib=8.0,
        instruction_sets=(),
        virtual=False,
    )


def governors(root, *names):
    for cpu, name in enumerate(names):
        root.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", f"{name}\n")


def stat(root, busy, idle, threads=4):
    """/proc/stat after so many hundredths of a second on each CPU, all equally busy."""
    lines = [f"cpu{name} {busy} 0 0 {idle} 0 0 0 0 0 0" for name in (" ", *range(threads))]
    root.write("proc/stat", "\n".join([*lines, "intr 1", ""]))


def test_a_quiet_machine_at_full_clock_has_no_reason(root, machine):
    governors(root, "performance", "performance")
    root.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")
    stat(root, busy=100, idle=1000)
    waited = []

    def wait(seconds):
        waited.append(seconds)
        stat(root, busy=103, idle=1117)

    assert conditions.reasons(machine, root=root.path, wait=wait) == ()
    assert waited == [conditions.WATCHED_S]


def test_a_governor_that_saves_power_is_named_with_what_to_do(root, machine):
    governors(root, "powersave", "performance", "powersave", "powersave")
    root.write("sys/devices/system/cpu/cpufreq/boost", "1\n")
    (reason,) = conditions.clocks(machine, root.path)
    assert "powersave on 3 of 4 threads" in reason
    assert "cpupower frequency-set -g performance" in reason


def test_unknown_clocks_are_said(root, machine):
    (reason,) = conditions.clocks(machine, root.path)
    assert "governor and turbo of the CPU are unknown: this kernel" in reason
    governors(root, "performance")
    (reason,) = conditions.clocks(machine, root.path)
    assert reason.startswith("whether the CPU's turbo is on is unknown")


@pytest.mark.parametrize(
    ("file", "text", "on"),
    [
        ("intel_pstate/no_turbo", "0\n", True),
        ("intel_pstate/no_turbo", "1\n", False),
        ("cpufreq/boost", "1\n", True),
        ("cpufreq/boost", "0\n", False),
        ("unrelated", "1\n", None),
    ],
)
def test_turbo_is_read_where_the_kernel_shows_it(root, file, text, on):
    root.write(f"sys/devices/system/cpu/{file}", text)
    assert conditions.turbo_on(root.path) is on


def test_a_share_of_cpu_time_is_a_reason_and_whole_cpus_are_none(root, machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    root.write("sys/fs/cgroup/cpu.max", "150000 100000\n")
    (reason,) = conditions.quota(machine, root.path)
    assert "1.5 CPUs' worth of time on 4 CPUs" in reason
    root.write("sys/fs/cgroup/cpu.max", "400000 100000\n")
    assert list(conditions.quota(machine, root.path)) == []
    root.write("sys/fs/cgroup/cpu.max", "max 100000\n")
    assert list(conditions.quota(machine, root.path)) == []


@pytest.mark.parametrize(
    ("busy", "idle", "reason"),
    [
        (30, 90, "25% of its CPU time"),
        (120, 0, "100% of its CPU time"),
        (3, 117, None),  # 2.5 %
        (0, 0, None),  # the counters stood still
    ],
)
def test_other_work_on_the_host_is_seen(root, busy, idle, reason):
    stat(root, busy=1000, idle=5000)
    found = list(
        conditions.busy(root.path, wait=lambda s: stat(root, busy=1000 + busy, idle=5000 + idle))
    )
    assert [reason in text for text in found] == ([True] if reason else [])


def test_a_kernel_without_proc_stat_gives_no_reason(root):
    assert list(conditions.busy(root.path, wait=lambda s: None)) == []


def test_mig_and_other_processes_on_a_card_are_reasons():
    card = Card(index=2, name="NVIDIA H200", mig=True, process_ids=(os.getpid(), 77, 5))
    mig, shared = conditions.shared(card)
    assert "nvidia-smi -i 2 -mig 0" in mig
    assert "other processes compute on card 2 (ids 5, 77)" in shared


def test_a_card_of_our_own_is_fine():
    card = Card(index=0, name="Tesla P4", mig=None, process_ids=(os.getpid(),))
    assert list(conditions.shared(card)) == []
    assert list(conditions.shared(Card(index=0, name="Tesla P4"))) == []

"""What would spoil a measurement, and what else is good to know, seen beforehand."""

from __future__ import annotations

import dataclasses
import os

import pytest
from fakes import nvml
from fakes.settings import make_settings

from benchrack.hardware import conditions
from benchrack.hardware.detection import Card, Machine, detect
from benchrack.verdict.rules import HARMLESS_THROTTLING
from benchrack.vocabulary.devices import Device

SETTINGS = make_settings()


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


def test_a_quiet_machine_at_full_clock_has_neither_spoiler_nor_remark(root, machine):
    governors(root, "performance", "performance")
    root.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")
    stat(root, busy=100, idle=1000)
    waited = []

    def wait(seconds):
        waited.append(seconds)
        stat(root, busy=103, idle=1117)

    assert conditions.spoilers((), SETTINGS, root=root.path, wait=wait) == ()
    assert waited == [conditions.WATCHED_S]
    assert conditions.remarks(machine, (), root.path) == ()


def test_what_no_rule_of_the_verdict_sees_is_a_remark(root, machine, monkeypatch):
    """Governor, turbo, quota and MIG: a row that was measured so is valid."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    governors(root, "powersave")
    root.write("sys/fs/cgroup/cpu.max", "50000 100000\n")
    card = Card(index=0, name="NVIDIA H200", mig=True)
    assert conditions.spoilers([card], SETTINGS, root=root.path, wait=lambda s: None) == ()
    governor, turbo, quota, mig = conditions.remarks(machine, [card], root.path)
    assert "governor is powersave" in governor
    assert "turbo is on is unknown" in turbo
    assert "0.5 CPUs' worth of time" in quota
    assert "card 0 is split (MIG)" in mig


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
        (12, 18, "40% of its CPU time"),
        (30, 0, "100% of its CPU time"),
        (1, 29, None),  # 3.3 %
        (3, 27, None),  # 10 %, of which the ticks of 0.01 s at both edges can be 6.7 %
        (4, 26, "13% of its CPU time"),
        (0, 0, None),  # the counters stood still
    ],
)
def test_other_work_on_the_host_is_seen(root, monkeypatch, busy, idle, reason):
    """In ticks of 0.01 s, over 0.3 s; what they can't resolve is held against nobody."""
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    stat(root, busy=1000, idle=5000)
    after = {"busy": 1000 + busy, "idle": 5000 + idle}
    found = list(conditions.busy(SETTINGS, root.path, wait=lambda s: stat(root, **after)))
    assert [reason in text for text in found] == ([True] if reason else [])


def test_a_kernel_without_proc_stat_gives_no_reason(root):
    assert list(conditions.busy(SETTINGS, root.path, wait=lambda s: None)) == []


def test_limits_are_those_of_the_sweep(root):
    tolerant = make_settings(SETTINGS, limit_foreign_load=1.0, limit_other_processes=2)
    stat(root, busy=1000, idle=5000)
    after = {"busy": 1030, "idle": 5000}
    assert not list(conditions.busy(tolerant, root.path, wait=lambda s: stat(root, **after)))
    card = Card(index=0, name="Tesla P4", process_ids=(5, 77))
    assert list(conditions.shared(card, tolerant)) == []


def test_more_threads_than_cores_are_known_beforehand(root, monkeypatch):
    monkeypatch.setattr(conditions.processors, "usable_cores", lambda root: 4)
    many = make_settings(SETTINGS, threads=5)
    (reason,) = conditions.oversubscribed(many, root.path)
    assert "asks for 5 threads, and 4 cores are usable" in reason
    assert reason in conditions.spoilers((), many, root=root.path, wait=lambda s: None)
    card = Card(index=0, name="Tesla P4")  # which computes instead
    assert conditions.spoilers([card], many, root=root.path, wait=lambda s: None) == ()
    for fine in (0, 4):
        settings = make_settings(SETTINGS, threads=fine)
        assert list(conditions.oversubscribed(settings, root.path)) == []


def test_other_processes_on_a_card_are_a_spoiler():
    card = Card(index=2, name="NVIDIA H200", process_ids=(os.getpid(), 77, 5))
    (shared,) = conditions.shared(card, SETTINGS)
    assert "other processes compute on card 2 (ids 5, 77)" in shared
    # On a card that is split they may be in other parts.
    split = dataclasses.replace(card, mig=True)
    assert list(conditions.shared(split, SETTINGS)) == []
    (mig,) = conditions.split(split)
    assert "nvidia-smi -i 2 -mig 0" in mig


def test_a_card_of_our_own_is_fine():
    card = Card(index=0, name="Tesla P4", mig=None, process_ids=(os.getpid(),))
    assert list(conditions.shared(card, SETTINGS)) == []
    assert list(conditions.shared(Card(index=0, name="Tesla P4"), SETTINGS)) == []


def test_a_card_that_is_throttled_now_is_a_spoiler():
    harmless = tuple(sorted(HARMLESS_THROTTLING))
    assert list(conditions.throttled(Card(index=0, name="P4", throttle_reasons=harmless))) == []
    hot = Card(index=1, name="P4", throttle_reasons=("sw_power_cap", "hw_thermal_slowdown"))
    (reason,) = conditions.throttled(hot)
    assert reason.startswith("card 1 is throttled now (hw_thermal_slowdown)")


def test_why_cards_are_throttled_is_asked_of_the_driver(root, fake_nvml):
    fake_nvml(nvml.Machine(cards=[nvml.p4(0x3B, throttle=0x28), nvml.p4(0x5E)]))
    hot, idle = detect([], root=root.path).cards
    assert set(hot.throttle_reasons) == {"gpu_idle", "hw_slowdown", "sw_thermal_slowdown"}
    assert idle.throttle_reasons == ("gpu_idle",)


@pytest.mark.parametrize(
    ("devices", "used"),
    [
        ([Device(kind="cpu")], []),
        ([Device(kind="cuda", index=0, uuid="GPU-3")], [3]),  # CUDA_VISIBLE_DEVICES=3
        ([Device(kind="cuda", index=2), Device(kind="cuda", index=1)], [1, 2]),
        ([Device(kind="cuda", index=0, uuid="MIG-7", mig=True)], [2]),
    ],
)
def test_cards_that_a_run_would_not_use_do_not_count(machine, devices, used):
    cards = tuple(Card(index=i, name="P4", uuid=f"GPU-{i}", mig=i == 2) for i in range(4))
    found = conditions.used_cards(dataclasses.replace(machine, cards=cards), devices)
    assert [card.index for card in found] == used

"""What is known beforehand that would spoil a measurement on this machine, in words.

Each function looks at one thing and yields reasons, none where all is well. /proc and /sys are
read below `root`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchrack import processors
from benchrack.hardware.detection import Card, Machine
from benchrack.surroundings import cpu_times, foreign_share
from benchrack.types import Settings

WATCHED_S = 0.3


def reasons(
    machine: Machine, *, root: Path = Path("/"), wait: Callable[[float], None] = time.sleep
) -> tuple[str, ...]:
    """All reasons together; takes WATCHED_S to see how busy the host is."""
    return (
        *clocks(machine, root),
        *quota(machine, root),
        *busy(root, wait),
        *(reason for card in machine.cards for reason in shared(card)),
    )


def clocks(machine: Machine, root: Path = Path("/")) -> Iterator[str]:
    """The CPU's clock governor, and whether it is known if the turbo is on."""
    governors = Counter(
        text.strip()
        for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
        if (text := _read(path))
    )
    turbo = turbo_on(root)
    if not governors and turbo is None:
        where = "a virtual machine" if machine.virtual else "this kernel"
        yield f"clock governor and turbo of the CPU are unknown: {where} does not show them"
        return
    if not governors:
        yield "the CPU's clock governor is unknown: the kernel does not show it"
    elif wrong := {name: count for name, count in governors.items() if name != "performance"}:
        names = ", ".join(f"{name} on {count}" for name, count in sorted(wrong.items()))
        yield (
            f"the CPU's clock governor is {names} of {sum(governors.values())} threads: run "
            "'cpupower frequency-set -g performance' as root"
        )
    if turbo is None:
        yield "whether the CPU's turbo is on is unknown: the kernel does not show it"


def turbo_on(root: Path = Path("/")) -> bool | None:
    """Whether the CPU may clock above its base; None where the kernel does not show it."""
    cpu = root / "sys/devices/system/cpu"
    if (no_turbo := _read(cpu / "intel_pstate/no_turbo")) is not None:
        return no_turbo.strip() == "0"
    if (boost := _read(cpu / "cpufreq/boost")) is not None:
        return boost.strip() == "1"
    return None


def quota(machine: Machine, root: Path = Path("/")) -> Iterator[str]:
    """A share of CPU time smaller than the CPUs that the process may use: once it is used up, the
    process stands still, in the middle of a round."""
    granted = processors.cgroup_quota(root)
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        usable = machine.threads
    if granted is not None and granted < usable:
        yield (
            f"the container may use {granted:g} CPUs' worth of time on {usable} CPUs, and stands "
            "still when that is used up: give it whole CPUs (--cpuset-cpus), no share (--cpus)"
        )


def busy(root: Path = Path("/"), wait: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Other work on the host, watched for WATCHED_S; the limit is a measurement's."""
    before = cpu_times(root)
    wait(WATCHED_S)
    share = foreign_share(before, cpu_times(root))
    if share is not None and share > Settings().limit_foreign_load:
        yield (
            f"the host is busy with other work, {share:.0%} of its CPU time over {WATCHED_S:g} s: "
            "wait, or stop it"
        )


def shared(card: Card) -> Iterator[str]:
    """MIG, and other processes on a card."""
    if card.mig:
        yield (
            f"card {card.index} is split (MIG): what is measured is a part of it, and power is "
            f"told for the whole. Run 'nvidia-smi -i {card.index} -mig 0' as root"
        )
    others = sorted(pid for pid in card.process_ids or () if pid != os.getpid())
    if others:
        ids = ", ".join(map(str, others))
        yield f"other processes compute on card {card.index} (ids {ids}): wait, or stop them"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None

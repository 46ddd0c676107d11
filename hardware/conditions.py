"""What is known beforehand of a measurement on this machine, in words: what would spoil it, and
what else is good to know.

Each function looks at one thing and yields sentences, none where all is well. /proc and /sys are
read below `root`. Cards are those that a run would use.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from benchrack.api import HARMLESS_THROTTLING, Device, Settings, cgroups, processors, surroundings
from benchrack.hardware.detection import Card, Machine

WATCHED_S = 0.3


def used_cards(machine: Machine, devices: Collection[Device]) -> tuple[Card, ...]:
    """The cards behind the devices of a run, by UUID, or by number where there is none. Of a part
    of a card (MIG) it is not known which card holds it: all that are split count."""
    uuids = {device.uuid for device in devices if device.uuid}
    indices = {device.index for device in devices if device.kind == "cuda" and not device.uuid}
    part = any(device.mig for device in devices)
    return tuple(
        card
        for card in machine.cards
        if card.uuid in uuids or card.index in indices or (part and card.mig)
    )


def spoilers(
    cards: Sequence[Card],
    settings: Settings,
    *,
    root: Path = Path("/"),
    wait: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """What would give a row's verdict a reason if it were measured now, by the rules of
    `validity` and their limits; takes WATCHED_S to see how busy the host is."""
    return (
        *busy(settings, root, wait),
        *(() if cards else oversubscribed(settings, root)),
        *(reason for card in cards for reason in (*shared(card, settings), *throttled(card))),
    )


def remarks(machine: Machine, cards: Sequence[Card], root: Path = Path("/")) -> tuple[str, ...]:
    """What moves numbers, or their spread, and no rule can see."""
    return (
        *clocks(machine, root),
        *quota(machine, root),
        *(remark for card in cards for remark in split(card)),
    )


def busy(
    settings: Settings, root: Path = Path("/"), wait: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Other work on the host, watched for WATCHED_S, beyond what the kernel's clock can't resolve
    in so short a time: the rule `cpu-contention`."""
    before = surroundings.cpu_times(root)
    wait(WATCHED_S)
    after = surroundings.cpu_times(root)
    share, blur = surroundings.foreign_share(before, after), surroundings.resolution(before, after)
    if share is not None and share - (blur or 0.0) > settings.limits.foreign_load:
        yield (
            f"the host is busy with other work, {share:.0%} of its CPU time over {WATCHED_S:g} s: "
            "wait, or stop it"
        )


def oversubscribed(settings: Settings, root: Path = Path("/")) -> Iterator[str]:
    """More threads asked for than cores can run: the rule `oversubscribed-cpu`."""
    usable = processors.usable_cores(root)
    threads = settings.measure.threads
    if threads > settings.limits.threads_per_core * usable:
        yield (
            f"the sweep asks for {threads} threads, and {usable} cores are usable: leave "
            "out the setting threads, or lower it"
        )


def shared(card: Card, settings: Settings) -> Iterator[str]:
    """Other processes on a card: the rule `shared-device`. On a split one they may be in parts that
    the run does not use."""
    others = sorted(pid for pid in card.process_ids or () if pid != os.getpid())
    if len(others) > settings.limits.other_processes and not card.mig:
        ids = ", ".join(map(str, others))
        yield f"other processes compute on card {card.index} (ids {ids}): wait, or stop them"


def throttled(card: Card) -> Iterator[str]:
    """Reasons for a lower clock that are active now: the rule `throttled`."""
    active = [reason for reason in card.throttle_reasons if reason not in HARMLESS_THROTTLING]
    if active:
        yield (
            f"card {card.index} is throttled now ({', '.join(active)}): see to its cooling and "
            f"power, 'nvidia-smi -i {card.index} -q -d PERFORMANCE' shows both"
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
    granted = cgroups.cpu_quota(root)
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        usable = machine.threads
    if granted is not None and granted < usable:
        yield (
            f"the container may use {granted:g} CPUs' worth of time on {usable} CPUs, and stands "
            "still when that is used up: give it whole CPUs (--cpuset-cpus), no share (--cpus)"
        )


def split(card: Card) -> Iterator[str]:
    """A card that is split into parts (MIG)."""
    if card.mig:
        yield (
            f"card {card.index} is split (MIG): what is measured is a part of it, and power is "
            f"told for the whole. Run 'nvidia-smi -i {card.index} -mig 0' as root"
        )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None

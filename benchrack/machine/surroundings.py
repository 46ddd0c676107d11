"""What else used the machine while a case was measured: other processes on its CPUs and cards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchrack.errors import UnsupportedError
from benchrack.machine import nvml
from benchrack.machine.processors import allowed_cpus, usable_cores
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.results import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """CPU seconds since boot of the CPUs that this process may use: busy (with what a hypervisor
    stole) and in total, each counted in ticks of `tick_s` on `cpus` CPUs; and this process's own
    with its finished children."""

    busy_s: float
    total_s: float
    own_s: float
    cpus: int
    tick_s: float


def cpu_times(root: Path = Path("/"), cpus: Collection[int] | None = None) -> CpuTimes | None:
    """Read now, of these CPUs or of the affinity mask; None where the kernel does not tell."""
    if cpus is None:
        cpus = allowed_cpus()
    try:
        lines = (root / "proc/stat").read_text().splitlines()
        counted = [
            [int(ticks) for ticks in values[:8]]  # user nice system idle iowait irq softirq steal
            for name, *values in (line.split() for line in lines if line.startswith("cpu"))
            if name.removeprefix("cpu").isdecimal() and int(name.removeprefix("cpu")) in cpus
        ]
    except (OSError, ValueError):
        return None
    if not counted or any(len(ticks) < 8 for ticks in counted):
        return None
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    total = sum(sum(ticks) for ticks in counted)
    idle = sum(ticks[3] + ticks[4] for ticks in counted)
    children = os.times()
    return CpuTimes(
        busy_s=(total - idle) * tick_s,
        total_s=total * tick_s,
        own_s=time.process_time() + children.children_user + children.children_system,
        cpus=len(counted),
        tick_s=tick_s,
    )


def foreign_share(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """The share (0 to 1) of the CPUs' time that others took between two readings: busy time less
    one's own. The load average would lag behind by a minute. None where nothing is known."""
    if before is None or after is None or after.total_s <= before.total_s:
        return None
    busy, own = after.busy_s - before.busy_s, after.own_s - before.own_s
    return min(1.0, max(0.0, (busy - own) / (after.total_s - before.total_s)))


def resolution(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """The share that one tick on each CPU at each edge of the window is worth: less than that the
    kernel's clock can't tell from nothing. A hundredth of a second is 10 % of a window of 0.2 s."""
    if before is None or after is None or after.total_s <= before.total_s:
        return None
    return min(1.0, 2 * after.cpus * after.tick_s / (after.total_s - before.total_s))


def other_processes(device: Device) -> frozenset[int]:
    """The ids of the processes that compute on a card, less this one's, as NVML sees them; empty
    where it can't.

    In a container NVML tells the host's process ids: if none is this process's, one of them is.
    """
    try:
        library = nvml.load()
    except UnsupportedError:
        return frozenset()
    try:
        handle = library.nvmlDeviceGetHandleByUUID(device.uuid)
        found = sorted(p.pid for p in library.nvmlDeviceGetComputeRunningProcesses(handle))
    except library.NVMLError:
        return frozenset()
    finally:
        with suppress(library.NVMLError):  # as after the loss of a card
            library.nvmlShutdown()
    others = [pid for pid in found if pid != os.getpid()]
    return frozenset(others[1:] if len(others) == len(found) else others)


@dataclass(slots=True)
class Watch:
    """What a watched stretch of time found, once it is over."""

    found: Surroundings = field(default_factory=Surroundings)


@contextmanager
def watched(
    device: Device,
    threads: int,
    read: Callable[[], CpuTimes | None] = cpu_times,
    cores: int | None = None,
) -> Iterator[Watch]:
    """Watch host and device around a measurement whose CPU part uses so many threads.

    On a card the host's cores do not compute: their number, and that of threads, is left out.
    """
    on_card = device.kind != "cpu"
    watch = Watch()
    others = other_processes(device) if on_card else frozenset()
    before = read()
    yield watch
    after = read()
    if on_card:
        others |= other_processes(device)
    watch.found = Surroundings(
        foreign_cpu_share=foreign_share(before, after),
        foreign_cpu_resolution=resolution(before, after),
        threads_used=None if on_card else threads,
        usable_cores=usable_cores() if cores is None else cores,
        other_processes=tuple(f"process {pid}" for pid in sorted(others)),
    )

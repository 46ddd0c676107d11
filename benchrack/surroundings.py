"""What else used the machine while a case was measured: other processes on its CPUs and cards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchrack.errors import UnsupportedError
from benchrack.nvml import load
from benchrack.processors import usable_cores
from benchrack.results import Surroundings
from benchrack.types import Device


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds since boot: all CPUs' busy time (with what a hypervisor stole), all CPUs' time,
    and this process's own with its finished children."""

    busy_s: float
    total_s: float
    own_s: float


def cpu_times(root: Path = Path("/")) -> CpuTimes | None:
    """Read now; None where the kernel does not tell (/proc/stat)."""
    try:
        first = (root / "proc/stat").read_text().splitlines()[0].split()
    except (OSError, IndexError):
        return None
    ticks = [int(value) for value in first[1:9]]  # user nice system idle iowait irq softirq steal
    hertz = os.sysconf("SC_CLK_TCK")
    idle = ticks[3] + ticks[4]
    own = os.times()
    return CpuTimes(
        busy_s=(sum(ticks) - idle) / hertz,
        total_s=sum(ticks) / hertz,
        own_s=own.user + own.system + own.children_user + own.children_system,
    )


def foreign_share(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """The share (0 to 1) of all CPUs' time that others took between two readings: host busy time
    less one's own. The load average would lag behind by a minute. None where nothing is known."""
    if before is None or after is None or after.total_s <= before.total_s:
        return None
    busy, own = after.busy_s - before.busy_s, after.own_s - before.own_s
    return min(1.0, max(0.0, (busy - own) / (after.total_s - before.total_s)))


def other_processes(device: Device) -> tuple[str, ...]:
    """The processes that compute on a card, less this one, as NVML sees them; empty where it can't.

    In a container NVML tells the host's process ids: if none is this process's, one of them is.
    """
    try:
        nvml = load()
    except UnsupportedError:
        return ()
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
        found = sorted(p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        others = [pid for pid in found if pid != os.getpid()]
        if len(others) == len(found):
            others = others[1:]
        return tuple(f"process {pid}" for pid in others)
    return ()


@dataclass(slots=True)
class Watch:
    """What a watched stretch of time found, once it is over."""

    found: Surroundings = field(default_factory=Surroundings)


@contextmanager
def watched(
    threads: int, read: Callable[[], CpuTimes | None] = cpu_times, cores: int | None = None
) -> Iterator[Watch]:
    """Watch the host around a measurement that uses so many threads."""
    watch, before = Watch(), read()
    yield watch
    watch.found = Surroundings(
        foreign_cpu_share=foreign_share(before, read()),
        threads_used=threads,
        usable_cores=usable_cores() if cores is None else cores,
    )

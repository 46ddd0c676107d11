"""What memory is used and free where a session holds its batches: the host's, or a card's."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchrack.errors import UnsupportedError
from benchrack.machine import cgroups, nvml
from benchrack.vocabulary.devices import Device

ROOT = Path("/")
MARGIN = 0.1  # of what is available is left to everybody else
RESET_PEAK = "5"  # what /proc/self/clear_refs takes to count the peak anew (Linux 4.0)


class Gauge(Protocol):
    """Reads one place that holds batches, in bytes.

    `reserve` is how many times what is free may be predicted before a batch is not even tried.
    """

    place: str
    reserve: float

    def reset_peak(self) -> None:
        """Count the peak from here on."""

    def used(self) -> int:
        """What is used now."""

    def peak(self) -> int:
        """The most that was used since the peak was reset."""

    def free(self) -> int:
        """What can still be used."""


def peak_share(gauge: Gauge) -> float:
    """The peak as a share of what is used and free now together, 0 to 1."""
    return gauge.peak() / max(1, gauge.used() + gauge.free())


def gauge_of(device: Device) -> Gauge | None:
    """The gauge of a device's memory, or None where it can't be read."""
    if device.kind == "cpu":
        return _host_gauge()
    with suppress(UnsupportedError):
        library = nvml.load()
        try:
            handle = library.nvmlDeviceGetHandleByUUID(device.uuid)
            library.nvmlDeviceGetMemoryInfo(handle)
        except library.NVMLError:
            library.nvmlShutdown()
            return None
        return CardGauge(library=library, handle=handle)
    return None


def _host_gauge(root: Path = ROOT) -> HostGauge | None:
    gauge = HostGauge(root=root)
    try:
        gauge.reset_peak()
        gauge.peak(), gauge.free()
    except (OSError, KeyError):  # not Linux, or a sandbox that does not tell
        return None
    return gauge


@dataclass(slots=True)
class CardGauge:
    """A card's memory by NVML. Frameworks keep what they took, so what is used after a batch is
    what it needed at its peak, and as much again where they take memory by doubling it."""

    library: Any
    handle: Any
    place: str = "the card's memory"
    reserve: float = 2.0

    def reset_peak(self) -> None:
        return None

    def used(self) -> int:
        return int(self.library.nvmlDeviceGetMemoryInfo(self.handle).used)

    peak = used

    def free(self) -> int:
        return int(self.library.nvmlDeviceGetMemoryInfo(self.handle).free)


@dataclass(slots=True)
class HostGauge:
    """This process's resident memory, and what is left to it: by the host, its control group and
    its own limit. Beyond that limit memory is refused, so what is predicted to be a little too much
    can be tried."""

    root: Path = ROOT
    place: str = "the host's memory"
    reserve: float = 1.25

    def reset_peak(self) -> None:
        """What earlier cases freed goes back to the kernel first: it is no use of this one's."""
        import ctypes

        with suppress(OSError, AttributeError):  # a C library without it
            ctypes.CDLL(None).malloc_trim(0)
        (self.root / "proc/self/clear_refs").write_text(RESET_PEAK)

    def used(self) -> int:
        return _status(self.root)["VmRSS"]

    def peak(self) -> int:
        return _status(self.root)["VmHWM"]

    def free(self) -> int:
        left = available(self.root)
        limit = _data_limit()
        return left if limit is None else min(left, limit - _status(self.root)["VmData"])


def limit_host_memory(limit_bytes: int = 0, sharers: int = 1, root: Path = ROOT) -> int | None:
    """Bound what this process may allocate, so that running out is an exception and not the
    kernel's killer; None where that can't be done.

    The bound is `limit_bytes` ÷ `sharers` processes; where that is 0, what is used plus an equal
    share of nine tenths of what is available now. It is RLIMIT_DATA, which counts private writable
    memory whether it is touched or not: RLIMIT_AS would count libraries and reservations, several
    GiB.
    """
    try:
        import resource

        own = _status(root)["VmData"]
        fair = own + int((1 - MARGIN) * available(root) / sharers)
        allowed = limit_bytes // sharers if limit_bytes else fair
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard != resource.RLIM_INFINITY:
            allowed = min(allowed, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
    except (ImportError, OSError, KeyError, ValueError):
        return None
    return allowed


def _data_limit() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def available(root: Path = ROOT) -> int:
    """Bytes that can be allocated without swapping, within the control groups of this process.

    Raises OSError or KeyError where the kernel does not say.
    """
    left = (max(0, limit - used) for limit, used in cgroups.memory_limits(root))
    return min([_fields(root / "proc/meminfo")["MemAvailable"], *left])


def _status(root: Path) -> dict[str, int]:
    return _fields(root / "proc/self/status")


def _fields(path: Path) -> dict[str, int]:
    """`Name: 12 kB`, a line each, as bytes."""
    found = re.findall(r"^(\w+):?\s+(\d+)(?: kB)?$", path.read_text(), re.MULTILINE)
    return {name: int(value) * 1024 for name, value in found}

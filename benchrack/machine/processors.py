"""The CPU cores that this process may use: affinity mask, cgroup quota, and what they can do."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from benchrack.machine import cgroups

# Instruction sets that decide how fast reduced precision runs, the strongest first.
INTEGER_DOT_PRODUCT = ("amx_int8", "avx512_vnni", "avx_vnni", "asimddp")
HALF_PRECISION = ("amx_fp16", "avx512_fp16", "asimdhp", "fphp")


def usable_cores(root: Path = Path("/")) -> int:
    """How many threads can run at once: the least of affinity mask, cgroup CPU quota (rounded
    down, at least 1) and physical cores behind the mask (two hyper-threads are one core)."""
    allowed = allowed_cpus()
    limits = [len(allowed), len(physical_cores(allowed, root))]
    if (quota := cgroups.cpu_quota(root)) is not None:
        limits.append(max(1, int(quota)))
    return min(limits)


def allowed_cpus() -> set[int]:
    """The logical CPUs of this process's affinity mask."""
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        return set(range(os.cpu_count() or 1))


def physical_cores(cpus: Collection[int], root: Path = Path("/")) -> list[tuple[int, ...]]:
    """The logical CPUs of each physical core, as many of them as are among `cpus`; cores of one
    NUMA node stand together."""
    node_of = {cpu: node for node, members in numa_nodes(root).items() for cpu in members}
    cores: dict[str, list[int]] = {}
    for cpu in sorted(cpus, key=lambda cpu: (node_of.get(cpu, 0), cpu)):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        cores.setdefault(_text(topology) or str(cpu), []).append(cpu)
    return [tuple(core) for core in cores.values()]


def numa_nodes(root: Path = Path("/")) -> dict[int, frozenset[int]]:
    """The logical CPUs of each NUMA node, by its number; empty where the kernel does not say."""
    return {
        int(folder.name.removeprefix("node")): cpu_list(_text(folder / "cpulist") or "")
        for folder in (root / "sys/devices/system/node").glob("node[0-9]*")
    }


def cpu_list(text: str) -> frozenset[int]:
    """The kernel's way to write CPUs: `0-3,8` are 0, 1, 2, 3 and 8."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def last_level_cache_bytes(root: Path = Path("/")) -> int:
    """The size of the largest cache of the first CPU, in bytes; 0 where the kernel does not say."""
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    sizes = [0]
    for size in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = _text(size) or "0"
        scale = units.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KMG") or 0) * scale)
    return max(sizes)


@lru_cache
def instruction_sets(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The CPU's feature flags as the kernel names them; empty where it names none."""
    for line in (_text(cpuinfo) or "").splitlines():
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(flags.split())
    return frozenset()


def strongest(candidates: tuple[str, ...]) -> str | None:
    """The first of the candidates that this CPU has."""
    return next((flag for flag in candidates if flag in instruction_sets()), None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None

"""The CPU cores that this process may use: affinity mask, cgroup quota, and what they can do."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

# Instruction sets that decide how fast reduced precision runs, the strongest first.
INTEGER_DOT_PRODUCT = ("amx_int8", "avx512_vnni", "avx_vnni", "asimddp")
HALF_PRECISION = ("amx_fp16", "avx512_fp16", "asimdhp", "fphp")


def usable_cores(root: Path = Path("/")) -> int:
    """How many threads can run at once: the least of affinity mask, cgroup CPU quota (rounded
    down, at least 1) and physical cores behind the mask (two hyper-threads are one core)."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        allowed = set(range(os.cpu_count() or 1))
    limits = [len(allowed), _physical_cores(allowed, root)]
    if (quota := cgroup_quota(root)) is not None:
        limits.append(max(1, int(quota)))
    return min(limits)


def _physical_cores(cpus: set[int], root: Path) -> int:
    siblings = set()
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        siblings.add(_text(topology) or str(cpu))
    return len(siblings)


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """CPUs' worth of time that the cgroup (v2 or v1) grants, or None where it sets no limit."""
    base = root / "sys/fs/cgroup"
    own = _own_cgroup(root)
    quotas = []
    for folder in [base, *_ancestors(base, own)]:
        match (_text(folder / "cpu.max") or "").split():
            case [limit, period] if limit != "max":
                quotas.append(int(limit) / int(period))
    quota, period_us = (_text(base / "cpu" / f"cpu.cfs_{k}_us") for k in ("quota", "period"))
    if quota and period_us and int(quota) > 0:
        quotas.append(int(quota) / int(period_us))
    return min(quotas, default=None)


def _own_cgroup(root: Path) -> str:
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        if line.startswith("0::"):
            return line[3:].lstrip("/")
    return ""


def _ancestors(base: Path, own: str) -> list[Path]:
    parts = [p for p in own.split("/") if p]
    return [base.joinpath(*parts[: n + 1]) for n in range(len(parts))]


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

"""The control groups of this process, of version 2 and 1, and what they grant it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")
# What version 1 grants where nothing is limited is a number near 2⁶³.
NO_LIMIT = 1 << 60
# The memory's files: limit, use, and the line of memory.stat with cached files, which can go.
MEMORY = ("memory.max", "memory.current", "inactive_file")
MEMORY_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def folders(root: Path = ROOT, controller: str = "") -> list[Path]:
    """The folders of a hierarchy, from its top down to the own group: version 1's of a controller,
    or without one version 2's. In a container the own group may be the top itself."""
    mount = root / "sys/fs/cgroup" / controller
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            if controller in controllers.split(","):
                parts = [part for part in own.split("/") if part]
                return [mount.joinpath(*parts[:n]) for n in range(len(parts) + 1)]
    return [mount]


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs' worth of time that the tightest of the own group and those above it grants, or None
    where none sets a limit."""
    quotas = []
    for folder in folders(root):
        match _text(folder / "cpu.max").split():
            case [limit, period] if limit != "max":
                quotas.append(int(limit) / int(period))
    for folder in folders(root, "cpu"):
        quota, period_us = (_text(folder / f"cpu.cfs_{k}_us") for k in ("quota", "period"))
        if quota and period_us and int(quota) > 0:
            quotas.append(int(quota) / int(period_us))
    return min(quotas, default=None)


def memory_limits(root: Path = ROOT) -> Iterator[tuple[int, int]]:
    """Bytes that each group which limits memory allows, and that are used beside cached files."""
    for controller, (limit, use, cached) in (("", MEMORY), ("memory", MEMORY_V1)):
        for folder in folders(root, controller):
            allowed = _text(folder / limit)
            if allowed.isdecimal() and int(allowed) < NO_LIMIT:
                stat = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
                yield int(allowed), int(_text(folder / use) or 0) - int(stat.get(cached, 0))


def _text(path: Path) -> str:
    """Empty where there is no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""

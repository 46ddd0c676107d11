"""The host: its name, firmware, memory and kernel, and the container and limits that we run in."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchrack.api import Provenance, cgroups, hashed, hookimpl, processors
from benchrack.plugins.provenance.files import fields, text

KIB_PER_GIB, GIB = 1 << 20, 1 << 30
# Products under which firmware and hypervisors hide that they name none.
NAMELESS = ("To Be Filled By O.E.M.", "System Product Name", "Default string", "None")


def gather(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    meminfo = fields(text(root / "proc/meminfo") or "")
    status = fields(text(root / "proc/self/status") or "")
    total_kib = meminfo.get("MemTotal", "").split(" ")[0]
    machine_id = text(root / "etc/machine-id")
    dmi = root / "sys/class/dmi/id"
    product = text(dmi / "product_name")
    return {
        "node": text(root / "proc/sys/kernel/hostname"),
        "machine_id_hash": hashed(machine_id) if machine_id else None,
        "vendor": text(dmi / "sys_vendor"),
        "product": None if product in NAMELESS else product,
        "bios": text(dmi / "bios_version"),
        "virtual": "hypervisor" in processors.instruction_sets(root / "proc/cpuinfo"),
        "memory_gib": round(int(total_kib) / KIB_PER_GIB, 2) if total_kib.isdecimal() else None,
        "kernel": text(root / "proc/sys/kernel/osrelease"),
        "architecture": platform.machine(),
        "system": _distribution(root),
        "container": container(root, environment),
        "cpus_allowed": status.get("Cpus_allowed_list"),
        "cgroup_cpus": cgroups.cpu_quota(root),
        "cgroup_memory_gib": _memory_limit_gib(root),
    }


def _distribution(root: Path) -> str | None:
    for line in (text(root / "etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return None


def container(root: Path, environment: Mapping[str, str]) -> str | None:
    """The kind of container that this process runs in, by the signs that each leaves, or None."""
    control_groups = text(root / "proc/1/cgroup") or ""
    if "KUBERNETES_SERVICE_HOST" in environment or "kubepods" in control_groups:
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists() or "/docker" in control_groups:
        return "docker"
    if "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment:
        return "apptainer"
    return text(root / "run/systemd/container") or ("lxc" if "/lxc" in control_groups else None)


def _memory_limit_gib(root: Path) -> float | None:
    """The tightest memory limit of the own cgroup and those above it, v2 and v1."""
    limits = [limit for limit, _ in cgroups.memory_limits(root)]
    return round(min(limits) / GIB, 2) if limits else None


@hookimpl
def benchrack_provenance() -> Iterable[Provenance]:
    summary = "name, firmware, memory, kernel, container, cgroup limits"
    return [Provenance(name="host", summary=summary, gather=gather)]

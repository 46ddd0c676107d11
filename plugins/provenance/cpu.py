"""The CPU: model, what it can compute, how many cores, and what decides its clock."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchrack.api import Provenance, hookimpl, processors
from benchrack.plugins.provenance.files import fields, number, text

# What the speed of one precision or another hangs on; the kernel's names, x86 and Arm.
INSTRUCTION_SETS = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16"),
    *("avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)


def gather(root: Path = Path("/")) -> dict[str, Any]:
    cpuinfo = root / "proc/cpuinfo"
    threads = [fields(part) for part in (text(cpuinfo) or "").split("\n\n") if part.strip()]
    threads = [thread for thread in threads if "processor" in thread]
    first = threads[0] if threads else {}
    flags = processors.instruction_sets(cpuinfo)
    # Arm names neither sockets nor cores; there a thread is a core.
    cores = {(t.get("physical id"), t.get("core id", t["processor"])) for t in threads}
    return {
        "model": first.get("model name"),
        "sockets": len({t.get("physical id") for t in threads}) or None,
        "cores": len(cores) or None,
        "threads": len(threads) or None,
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in flags],
        "microcode": first.get("microcode"),
        "usable_cores": processors.usable_cores(root),
        **_numa(root / "sys/devices/system/node"),
        **_clock(root / "sys/devices/system/cpu"),
    }


def _numa(folder: Path) -> dict[str, Any]:
    nodes = sorted(folder.glob("node[0-9]*"), key=lambda node: int(node.name[4:]))
    return {
        "numa_nodes": len(nodes) or None,
        "numa_cpus": [text(node / "cpulist") or "" for node in nodes],
    }


def _clock(folder: Path) -> dict[str, Any]:
    policies = sorted(folder.glob("cpufreq/policy[0-9]*"))
    highest_khz = [number(policy / "cpuinfo_max_freq") or 0 for policy in policies]
    smt = number(folder / "smt/active")
    return {
        "governors": sorted({g for p in policies if (g := text(p / "scaling_governor"))}),
        "driver": next((d for p in policies if (d := text(p / "scaling_driver"))), None),
        "clock_max_mhz": max(highest_khz, default=0) / 1000 or None,
        "turbo": _turbo(folder),
        "smt": bool(smt) if smt is not None else None,
    }


def _turbo(folder: Path) -> bool | None:
    if (off := number(folder / "intel_pstate/no_turbo")) is not None:
        return not off
    if (on := number(folder / "cpufreq/boost")) is not None:
        return bool(on)
    return None


@hookimpl
def benchrack_provenance() -> Iterable[Provenance]:
    summary = "CPU model, instruction sets, cores, NUMA, governor, turbo, microcode"
    return [Provenance(name="cpu", summary=summary, gather=gather)]

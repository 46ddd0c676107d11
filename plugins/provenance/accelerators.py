"""NVIDIA cards as NVML tells: what they are, how they are set and how they are linked.

Each fact is a list with one item a card, in NVML's order; null where a card does not tell it. Of a
card that can't be read, such as one that is lost, `fault` is the only fact, and the others count.
The driver's facts, and the reason why no card can be asked, are single.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from benchrack.api import Provenance, UnsupportedError, hashed, hookimpl, nvml


def gather() -> dict[str, Any]:
    try:
        library = nvml.load()
    except UnsupportedError as error:
        return {"name": [], "uuid_hash": [], "absent": str(error)}
    try:
        return _driver(library) | _columns([_told(library, i) for i in range(_count(library))])
    except library.NVMLError as error:
        return {"name": [], "uuid_hash": [], "absent": nvml.explain(library, error)}
    finally:
        with suppress(library.NVMLError):
            library.nvmlShutdown()


def _count(library: Any) -> int:
    return int(library.nvmlDeviceGetCount())


def _driver(library: Any) -> dict[str, Any]:
    cuda = nvml.known(library, library.nvmlSystemGetCudaDriverVersion_v2)
    return {
        "driver": nvml.known(library, library.nvmlSystemGetDriverVersion),
        "driver_cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    }


def _columns(cards: list[dict[str, Any]]) -> dict[str, list[Any]]:
    if not cards:
        return {"name": [], "uuid_hash": []}
    names = dict.fromkeys(name for card in cards for name in card)
    return {name: [card.get(name) for card in cards] for name in ("name", "uuid_hash", *names)}


def _told(library: Any, index: int) -> dict[str, Any]:
    """The facts of one card, or why it can't be read."""
    try:
        return _card(library, index)
    except library.NVMLError as error:
        return {"fault": nvml.explain(library, error)}


def _card(library: Any, index: int) -> dict[str, Any]:
    handle = library.nvmlDeviceGetHandleByIndex(index)

    def told(call: Callable[..., Any], *arguments: Any) -> Any:
        return nvml.known(library, call, handle, *arguments)

    def switched(mode: Any) -> bool | None:
        """ECC and MIG tell two modes: now, and after the next restart."""
        return None if mode is None else bool(mode[0] if isinstance(mode, list) else mode)

    def watts(milliwatts: int | None) -> float | None:
        return None if milliwatts is None else milliwatts / 1000

    sm, memory = library.NVML_CLOCK_SM, library.NVML_CLOCK_MEM
    pci = told(library.nvmlDeviceGetPciInfo)
    uuid = told(library.nvmlDeviceGetUUID)
    capability = told(library.nvmlDeviceGetCudaComputeCapability)
    memory_info = told(library.nvmlDeviceGetMemoryInfo)
    return {
        "name": told(library.nvmlDeviceGetName),
        "uuid_hash": hashed(uuid) if uuid else None,
        "pci_bus_id": pci and pci.busId,
        "pci_id": pci and f"{pci.pciDeviceId >> 16:04x}",
        "compute_capability": capability and "{}.{}".format(*capability),
        "memory_gib": memory_info and round(memory_info.total / (1 << 30), 2),
        "vbios": told(library.nvmlDeviceGetVbiosVersion),
        "ecc": switched(told(library.nvmlDeviceGetEccMode)),
        "mig": switched(told(library.nvmlDeviceGetMigMode)),
        "persistence": switched(told(library.nvmlDeviceGetPersistenceMode)),
        "power_limit_w": watts(told(library.nvmlDeviceGetEnforcedPowerLimit)),
        "power_limit_default_w": watts(told(library.nvmlDeviceGetPowerManagementDefaultLimit)),
        "application_clock_sm_mhz": told(library.nvmlDeviceGetApplicationsClock, sm),
        "application_clock_memory_mhz": told(library.nvmlDeviceGetApplicationsClock, memory),
        "clock_max_sm_mhz": told(library.nvmlDeviceGetMaxClockInfo, sm),
        "pcie_generation": told(library.nvmlDeviceGetCurrPcieLinkGeneration),
        "pcie_generation_max": told(library.nvmlDeviceGetMaxPcieLinkGeneration),
        "pcie_width": told(library.nvmlDeviceGetCurrPcieLinkWidth),
        "pcie_width_max": told(library.nvmlDeviceGetMaxPcieLinkWidth),
        "nvlink_peers": _nvlink_peers(library, handle),
    }


def _nvlink_peers(library: Any, handle: Any) -> str | None:
    """Who is behind the active links, and by how many: `00000000:1C:00.0 ×2, …`; None without."""
    peers = nvml.nvlink_peers(library, handle)
    return ", ".join(f"{bus} ×{links}" for bus, links in sorted(peers.items())) or None


@hookimpl
def benchrack_provenance() -> Iterable[Provenance]:
    summary = "NVIDIA cards: identity, firmware, limits, clocks, PCIe and NVLink, driver"
    return [Provenance(name="accelerators", summary=summary, gather=gather)]

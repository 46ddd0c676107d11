"""Where the processes of a world run: which device each has, and which CPU cores it is bound to.

Memory is left to the kernel, which takes it from the NUMA node of the core that first writes to it:
a process is bound before it loads anything large.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrack.errors import UnsupportedError
from benchrack.flattening import part
from benchrack.machine import nvml
from benchrack.machine.processors import (
    allowed_cpus,
    cpu_list,
    numa_nodes,
    physical_cores,
    usable_cores,
)
from benchrack.vocabulary.devices import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One process's device, the logical CPUs that it is bound to (none: not bound), and both in
    words, with what is known of slot, NUMA node and links."""

    device: Device = part()
    cpus: tuple[int, ...]
    description: str


def places(devices: Sequence[Device], count: int, root: Path = Path("/")) -> tuple[Place, ...]:
    """A place for each of `count` processes on this machine.

    On the CPU each gets an equal share of the cores that this process may use; what is left over
    stays idle. Of cards the first `count` are used, each with an equal share of the cores near it.
    Raises UnsupportedError where there are too few.
    """
    require(devices, count, root)
    if devices[0].kind == "cpu":
        # A cgroup's quota may allow fewer cores than the mask has.
        cores = physical_cores(allowed_cpus(), root)[: usable_cores(root)]
        return tuple(
            Place(device=devices[0], cpus=cpus, description=f"cpu, {_in_words(cpus, root)}")
            for cpus in _shares(cores, count)
        )
    return _of_cards(devices[:count], root)


def alone(device: Device, root: Path = Path("/")) -> Place:
    """Where the process of a case with one device runs: near its card; of the CPU it has all."""
    if device.kind == "cpu":
        whole = _in_words(sorted(allowed_cpus()), root)
        return Place(device=device, cpus=(), description=f"cpu, {whole}")
    return _of_cards([device], root)[0]


def require(devices: Sequence[Device], count: int, root: Path = Path("/")) -> None:
    """Raises UnsupportedError where a machine has fewer devices than `count`; a CPU has as many as
    this process may use cores."""
    present = capacity(devices, root)
    if count <= present:
        return
    if devices[0].kind == "cpu":
        raise UnsupportedError(
            f"{count} devices were asked for, and the CPU has {present} usable cores to split "
            "between them"
        )
    names = ", ".join(f"{device} {device.name}" for device in devices)
    raise UnsupportedError(f"{count} devices were asked for, {present} are used here: {names}")


def capacity(devices: Sequence[Device], root: Path = Path("/")) -> int:
    """How many processes can have a device of their own on this machine."""
    return usable_cores(root) if devices[0].kind == "cpu" else len(devices)


def bind(cpus: Collection[int]) -> None:
    """Bind all threads of this process, and those they will start, to some logical CPUs."""
    for thread in Path("/proc/self/task").iterdir() if cpus else ():
        with suppress(ProcessLookupError):  # a thread that has ended meanwhile
            os.sched_setaffinity(int(thread.name), cpus)


def _shares(cores: Sequence[tuple[int, ...]], count: int) -> list[tuple[int, ...]]:
    """The logical CPUs of equally many neighbouring cores for each; none where they are too few."""
    each = len(cores) // count
    return [
        tuple(cpu for core in cores[n * each : (n + 1) * each] for cpu in core)
        for n in range(count)
    ]


def _of_cards(cards: Sequence[Device], root: Path) -> tuple[Place, ...]:
    found = [_Card.find(card, root) for card in cards]
    allowed = allowed_cpus()
    near = [(card.cpus & allowed) or frozenset(allowed) for card in found]
    shares: dict[int, tuple[int, ...]] = {}
    for cpus in set(near):
        those = [n for n, other in enumerate(near) if other == cpus]
        split = _shares(physical_cores(cpus, root), len(those))
        shares.update(zip(those, split, strict=True))
    return tuple(
        Place(
            device=card.device,
            cpus=shares[n],
            description=", ".join([card.description, _in_words(shares[n], root)]),
        )
        for n, card in enumerate(found)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """A card with the CPUs near it (none: the kernel does not say), and where it is, in words."""

    device: Device
    cpus: frozenset[int]
    description: str

    @classmethod
    def find(cls, device: Device, root: Path) -> _Card:
        bus, links = _links(device)
        folder = root / "sys/bus/pci/devices" / bus
        node = _text(folder / "numa_node")
        known = node and int(node) >= 0  # −1: the firmware does not say
        words = [
            f"{device} {device.name}",
            *([f"PCI {bus}"] if bus else []),
            *_slot(bus, root),
            *([f"NUMA node {node}"] if known else []),
            *links,
        ]
        cpus = cpu_list(_text(folder / "local_cpulist") or "") if known else frozenset()
        return cls(device=device, cpus=cpus, description=", ".join(words))


def _links(device: Device) -> tuple[str, list[str]]:
    """The PCI address of a card as the kernel writes it, and its links in words; empty where NVML
    can't be asked."""
    try:
        library = nvml.load()
    except UnsupportedError:
        return "", []
    bus, links = "", []
    try:
        handle = library.nvmlDeviceGetHandleByUUID(device.uuid)
        bus = sysfs_address(library.nvmlDeviceGetPciInfo(handle).busId)
        for told in (_pcie, _nvlink):
            with suppress(library.NVMLError):  # no links in words, and still a place
                links += told(library, handle)
    except library.NVMLError:  # a card that is lost: the case will say so
        pass
    finally:
        with suppress(library.NVMLError):
            library.nvmlShutdown()
    return bus, links


def _pcie(library: Any, handle: Any) -> list[str]:
    """Width now, of how many lanes, and the highest generation: the link slows down while idle."""
    width = nvml.known(library, library.nvmlDeviceGetCurrPcieLinkWidth, handle)
    most = nvml.known(library, library.nvmlDeviceGetMaxPcieLinkWidth, handle)
    generation = nvml.known(library, library.nvmlDeviceGetMaxPcieLinkGeneration, handle)
    if width is None or generation is None:
        return []
    lanes = f"×{width}" if most in (None, width) else f"×{width} of ×{most}"
    return [f"PCIe {generation}.0 {lanes}"]


def _nvlink(library: Any, handle: Any) -> list[str]:
    peers = nvml.nvlink_peers(library, handle)
    return [f"NVLink ×{links} to {sysfs_address(bus)}" for bus, links in sorted(peers.items())]


def sysfs_address(bus_id: str) -> str:
    """NVML's `00000000:3B:00.0` as the kernel writes it, `0000:3b:00.0`."""
    domain, _, rest = bus_id.partition(":")
    return f"{int(domain, 16):04x}:{rest.lower()}"


def _slot(bus: str, root: Path) -> list[str]:
    """The physical slot, where the firmware names it; its address lacks the function."""
    for address in sorted((root / "sys/bus/pci/slots").glob("*/address")) if bus else ():
        if _text(address) == bus.rpartition(".")[0]:
            return [f"slot {address.parent.name}"]
    return []


def _in_words(cpus: Sequence[int], root: Path) -> str:
    if not cpus:
        return "not bound to CPUs"
    nodes = [node for node, members in sorted(numa_nodes(root).items()) if members & set(cpus)]
    where = f" of NUMA node {' and '.join(map(str, nodes))}" if nodes else ""
    return f"CPUs {ranges(cpus)}{where}"


def ranges(cpus: Collection[int]) -> str:
    """Numbers as the kernel writes them: 0, 1, 2, 3 and 8 are `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None

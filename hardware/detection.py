"""What is in this machine: what NVML, DMI and /proc say, matched to descriptors.

Only exact matches count. A card that matches none is unknown, and stays so: never its nearest
relative. An H200 NVL is no H200 SXM, an L40S no L4, a virtual GPU no card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchrack.api import Accelerator, Server, match, nvml, processors

NVIDIA = "10de"

# What the speed of reduced precision hangs on; the kernel's names, x86 and Arm.
_INSTRUCTION_SETS = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni"),
    *("avx_vnni", "avx_vnni_int8", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card, as NVML counts and names them (CUDA may count in another order: compare `uuid`).

    `pci_id` is the device id in four hex digits, `descriptor` the name of the descriptor that it
    matches exactly, or None: an unknown card, or one that is split (`mig`). `process_ids` are those
    that compute on it now and `throttle_reasons` why its clocks are below their highest now, in the
    words of `nvml.THROTTLE_REASONS`, as far as the driver tells. What it did not tell is None.
    """

    index: int
    name: str
    uuid: str | None = None
    pci_id: str | None = None
    pci_bus_id: str | None = None
    memory_gib: float | None = None
    compute_capability: str | None = None
    mig: bool | None = None
    process_ids: tuple[int, ...] | None = None
    throttle_reasons: tuple[str, ...] = ()
    descriptor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """This machine. `server` is the descriptor that its firmware's product name matches.

    `driver` is the NVIDIA driver's version and `driver_cuda` the highest CUDA that it serves
    (`12.8`); both None without one. `virtual` says that a hypervisor is underneath. `problems` are
    in words, each with what to do.
    """

    vendor: str | None
    product: str | None
    server: str | None
    cpu_model: str | None
    sockets: int
    cores: int
    threads: int
    memory_gib: float | None
    instruction_sets: tuple[str, ...]
    virtual: bool
    cards: tuple[Card, ...] = ()
    driver: str | None = None
    driver_cuda: str | None = None
    problems: tuple[str, ...] = ()


def detect(descriptors: Iterable[Accelerator | Server], *, root: Path = Path("/")) -> Machine:
    """Look at this machine; /proc and /sys are read below `root`.

    Raises nothing: what fails becomes a problem in words.
    """
    descriptors = list(descriptors)
    accelerators = [d for d in descriptors if isinstance(d, Accelerator)]
    servers = [d for d in descriptors if isinstance(d, Server)]
    vendor, product = (_dmi(root, name) for name in ("sys_vendor", "product_name"))
    cpu = _cpu(root)
    flags = processors.instruction_sets(root / "proc/cpuinfo")
    gpus = _ask_driver(accelerators, root)
    return Machine(
        vendor=vendor,
        product=product,
        server=next((s.name for s in servers if product in s.dmi_names.value), None),
        cpu_model=cpu.model,
        sockets=cpu.sockets,
        cores=cpu.cores,
        threads=cpu.threads,
        memory_gib=_memory_gib(root),
        instruction_sets=tuple(name for name in _INSTRUCTION_SETS if name in flags),
        virtual="hypervisor" in flags,
        cards=tuple(gpus.cards),
        driver=gpus.driver,
        driver_cuda=gpus.driver_cuda,
        problems=tuple(gpus.problems),
    )


@dataclass(frozen=True, slots=True)
class _Gpus:
    """What the NVIDIA driver tells."""

    driver: str | None = None
    driver_cuda: str | None = None
    cards: list[Card] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _ask_driver(accelerators: Sequence[Accelerator], root: Path) -> _Gpus:
    try:
        import pynvml
    except ImportError:
        missing = "the module pynvml is not installed: run 'pip install nvidia-ml-py'"
        return _Gpus(problems=[missing])
    try:
        with nvml.opened(pynvml):
            return _gpus(pynvml, accelerators)
    except pynvml.NVMLError as error:
        return _Gpus(problems=_silence(pynvml, error, accelerators, root))


def _gpus(library: Any, accelerators: Sequence[Accelerator]) -> _Gpus:
    cuda = nvml.known(library, library.nvmlSystemGetCudaDriverVersion)
    gpus = _Gpus(
        driver=_text(library.nvmlSystemGetDriverVersion()),
        driver_cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    )
    for index in range(library.nvmlDeviceGetCount()):
        try:
            card, problem = _card(library, index, accelerators)
        except library.NVMLError as error:
            problem = nvml.explain(library, error)
        else:
            gpus.cards.append(card)
        if problem:
            gpus.problems.append(f"card {index}: {problem}")
    return gpus


def _silence(
    library: Any, error: Exception, accelerators: Sequence[Accelerator], root: Path
) -> list[str]:
    """Why the driver tells nothing. Without NVIDIA cards, having no driver is no problem."""
    why = nvml.explain(library, error)
    on_the_bus = [_by_pci_id(pci_id, accelerators) for pci_id in _nvidia_on_the_bus(root)]
    if on_the_bus:
        return [f"the PCI bus shows {', '.join(on_the_bus)}, but {why}"]
    absent = nvml.is_error(library, error, "LIBRARY_NOT_FOUND", "DRIVER_NOT_LOADED")
    return [] if absent else [why]


def _by_pci_id(pci_id: str, accelerators: Sequence[Accelerator]) -> str:
    known = [a.name for a in accelerators if a.pci_ids and pci_id in a.pci_ids.value]
    return f"an NVIDIA card ({NVIDIA}:{pci_id}{f', the id of {known[0]}' if known else ''})"


def _nvidia_on_the_bus(root: Path) -> list[str]:
    """PCI device ids of NVIDIA's display controllers (class 03) that the kernel sees."""
    ids = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor, kind, pci_id = (_read(device / f) for f in ("vendor", "class", "device"))
        if vendor == f"0x{NVIDIA}" and (kind or "").startswith("0x03") and pci_id:
            ids.append(pci_id.removeprefix("0x"))
    return ids


def _card(library: Any, index: int, accelerators: Sequence[Accelerator]) -> tuple[Card, str | None]:
    """One card and what is odd about it, in words. Raises NVMLError."""
    handle = library.nvmlDeviceGetHandleByIndex(index)
    name = _text(library.nvmlDeviceGetName(handle))
    uuid = nvml.known(library, library.nvmlDeviceGetUUID, handle)
    pci = nvml.known(library, library.nvmlDeviceGetPciInfo, handle)
    pci_id = f"{pci.pciDeviceId >> 16:04x}" if pci else None
    memory = nvml.known(library, library.nvmlDeviceGetMemoryInfo, handle)
    capability = nvml.known(library, library.nvmlDeviceGetCudaComputeCapability, handle)
    mig = nvml.known(library, library.nvmlDeviceGetMigMode, handle)
    processes = nvml.known(library, library.nvmlDeviceGetComputeRunningProcesses, handle)
    split = bool(mig[0]) if mig else None
    descriptor, problem = match(name, pci_id, accelerators, mig=bool(split))
    card = Card(
        index=index,
        name=name,
        uuid=_text(uuid) if uuid else None,
        pci_id=pci_id,
        pci_bus_id=_text(pci.busId) if pci else None,
        memory_gib=memory.total / 2**30 if memory else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        mig=split,
        process_ids=None if processes is None else tuple(p.pid for p in processes),
        throttle_reasons=nvml.throttle_reasons(nvml.throttle_bits(library, handle) or 0),
        descriptor=descriptor.name if descriptor else None,
    )
    return card, problem


@dataclass(frozen=True, slots=True)
class _Cpu:
    model: str | None
    sockets: int
    cores: int
    threads: int


def _cpu(root: Path) -> _Cpu:
    """The CPU of /proc/cpuinfo, which has one paragraph a hardware thread."""
    paragraphs = [
        dict(re.findall(r"^([^\t:]+?)\s*: *(.*)$", paragraph, re.MULTILINE))
        for paragraph in (_read(root / "proc/cpuinfo") or "").split("\n\n")
    ]
    threads = [p for p in paragraphs if "processor" in p]
    # Arm names neither sockets nor cores; there a thread is a core.
    sockets = {p.get("physical id", "0") for p in threads}
    cores = {(p.get("physical id", "0"), p.get("core id", p["processor"])) for p in threads}
    return _Cpu(
        model=next((p["model name"] for p in threads if p.get("model name")), None),
        sockets=len(sockets),
        cores=len(cores),
        threads=len(threads),
    )


def _memory_gib(root: Path) -> float | None:
    total = re.search(r"^MemTotal:\s+(\d+) kB", _read(root / "proc/meminfo") or "", re.MULTILINE)
    return int(total[1]) / 2**20 if total else None


def _dmi(root: Path, name: str) -> str | None:
    return _read(root / "sys/class/dmi/id" / name) or None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _text(value: str | bytes) -> str:
    """NVML's strings are bytes in older bindings."""
    return value.decode() if isinstance(value, bytes) else value

"""Hardware descriptors: one card, one server; every figure has its source and confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, get_args

T = TypeVar("T")

Confidence = Literal["A", "B", "C", "D"]
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)

# Dense peaks (no structured sparsity), in 10^12 operations per second, by the arithmetic that runs.
PEAKS: Mapping[str, str] = {
    "fp64": "fp64_tflops",
    "fp32": "fp32_tflops",
    "tf32": "tf32_tflops",
    "bf16": "bf16_tflops",
    "fp16": "fp16_tflops",
    "fp8": "fp8_tflops",
    "int8": "int8_tops",
    "int4": "int4_tops",
}

ACCELERATOR_FIGURES: Mapping[str, str] = {
    "cuda_cores": "CUDA cores",
    "tensor_cores": "tensor cores",
    "base_clock_mhz": "base clock, MHz",
    "boost_clock_mhz": "boost clock, MHz",
    "memory_gib": "device memory, as printed (data sheets write GB for it), GiB",
    "bandwidth_gb_per_s": "bandwidth of the device memory, 10^9 bytes/s",
    **{name: f"dense peak in {key.upper()}, 10^12 operations/s" for key, name in PEAKS.items()},
    "tdp_w": "thermal design power, W",
    "host_link_gb_per_s": "link to the host, both directions together, 10^9 bytes/s",
    "device_link_gb_per_s": "links to other cards, both directions together, 10^9 bytes/s",
}

SERVER_FIGURES: Mapping[str, str] = {
    "rack_units": "height, rack units",
    "sockets": "CPU sockets",
    "dimm_slots": "memory slots",
    "memory_max_gib": "memory at most, GiB",
}


@dataclass(frozen=True, slots=True)
class Cited(Generic[T]):
    """A fact that somebody published: its value, where it was read, and how far to trust it.

    Confidence: A, read in the primary document; B, a copy that names it; C, one secondary source;
    D, computed or inferred. `note` says where other sources differ.
    """

    value: T
    source: str
    confidence: Confidence
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One card. What nobody published is absent: never a guess, never zero.

    `device_names` are what NVML reports and `pci_ids` PCI device ids (four hex digits), both
    matched exactly; `compute_capability` is NVIDIA's `major.minor`. `figures` has the keys of
    ACCELERATOR_FIGURES, with the unit in the name.
    """

    name: str
    title: str
    vendor: str
    device_names: Cited[tuple[str, ...]]
    pci_ids: Cited[tuple[str, ...]] | None = None
    compute_capability: Cited[str] | None = None
    form: Cited[str] | None = None
    memory_type: Cited[str] | None = None
    host_link: Cited[str] | None = None
    device_link: Cited[str] | None = None
    figures: Mapping[str, Cited[float]] = field(default_factory=dict)
    notes: tuple[Cited[str], ...] = ()

    def peak(self, arithmetic: str) -> Cited[float] | None:
        """The dense peak in `fp32`, `tf32`, `fp16`, `bf16`, `int8`, …, in 10^12 operations/s;
        None where nobody published one. A multiply-accumulate counts as two operations."""
        return self.figures.get(PEAKS.get(arithmetic, ""))


def match(
    name: str, pci_id: str | None, accelerators: Sequence[Accelerator], *, mig: bool = False
) -> tuple[Accelerator | None, str | None]:
    """The descriptor of a card with this NVML name and PCI device id, and a problem in words.

    The name must be one of the descriptor's, and the id too where both are known. Of several
    descriptors that claim the card the first counts, and that is a problem. A card that is split
    (`mig`), or a part of one, has none: descriptors are of whole cards.
    """
    if mig:
        return None, None
    named = [a for a in accelerators if name in a.device_names.value]
    exact = [a for a in named if not pci_id or a.pci_ids is None or pci_id in a.pci_ids.value]
    if len(exact) > 1:
        names = ", ".join(a.name for a in exact)
        return exact[0], (
            f"{len(exact)} descriptors name the card {name!r}: {names}; the first is used (your "
            "own go before the built-in ones)"
        )
    if exact:
        return exact[0], None
    if named:
        ids = ", ".join(named[0].pci_ids.value if named[0].pci_ids else ())
        return None, (
            f"a card calls itself {name!r}, as {named[0].name} does, but its PCI device id is "
            f"{pci_id}, not {ids}: taken for unknown. If it is the same card, add the id in a "
            "descriptor of your own"
        )
    return None, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way in which a server was built: which cards, how many, which CPUs.

    `accelerator_max` is how many of these cards the server takes at most.
    """

    name: str
    accelerator: Cited[str] | None = None
    accelerator_count: Cited[float] | None = None
    accelerator_max: Cited[float] | None = None
    cpu: Cited[str] | None = None
    memory_gib: Cited[float] | None = None
    topology: Cited[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One machine that holds cards.

    `dmi_names` are the product names that its firmware reports, matched exactly. `figures` has the
    keys of SERVER_FIGURES.
    """

    name: str
    title: str
    vendor: str
    dmi_names: Cited[tuple[str, ...]]
    form: Cited[str] | None = None
    figures: Mapping[str, Cited[float]] = field(default_factory=dict)
    configurations: tuple[Configuration, ...] = ()
    notes: tuple[Cited[str], ...] = ()

    def most(self, card: Accelerator) -> Cited[float] | None:
        """How many of these cards the server takes at most; None where nobody says."""
        names = (card.title, *card.device_names.value)
        built = [c for c in self.configurations if c.accelerator and c.accelerator.value in names]
        return next((c.accelerator_max for c in built if c.accelerator_max), None)

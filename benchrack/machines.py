"""Hardware descriptors: one card, one server; every figure has its source and confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Confidence = Literal["A", "B", "C", "D"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number somebody published: its value, where it was read, and how far that can be trusted.

    Confidence: A, read in the primary document; B, a copy that names it; C, one secondary source;
    D, computed or inferred.
    """

    value: float
    source: str
    confidence: Confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One card. What nobody published is absent from `figures`: never a guess, never zero.

    `figures` by name, the unit in the name: memory_gib, bandwidth_gb_per_s, fp32_tflops,
    fp16_tflops, int8_tops, tdp_w, boost_clock_mhz, cuda_cores, … Peaks are dense (no sparsity).
    `device_names` are those that NVML reports, matched exactly; `pci_ids` are device ids, in hex.
    """

    name: str
    title: str
    vendor: str
    compute_capability: str
    device_names: tuple[str, ...]
    pci_ids: tuple[str, ...] = ()
    form: str = ""
    memory_type: str = ""
    host_link: str = ""
    device_link: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way in which a server was built: which cards, how many at most, and which CPUs."""

    name: str
    accelerator: str = ""
    accelerator_count: Figure | None = None
    cpu: str = ""
    topology: str = ""
    source: str = ""
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One machine that holds cards. `dmi_names` are the product names its firmware reports."""

    name: str
    title: str
    vendor: str
    dmi_names: tuple[str, ...]
    form: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    configurations: tuple[Configuration, ...] = ()
    notes: tuple[str, ...] = ()

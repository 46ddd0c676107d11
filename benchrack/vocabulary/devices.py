"""A device of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of this machine: `cpu`, or the CUDA device `index` as the process counts them.

    `pci_id` is the PCI device id of a card, four hex digits as in `descriptors.Accelerator`; empty
    where the driver does not tell. `mig` says that the card is split into parts (MIG), or that the
    device is such a part: then it computes with less than the whole card.
    """

    kind: Literal["cpu", "cuda"]
    index: int = 0
    name: str = ""
    uuid: str = ""
    pci_id: str = ""
    mig: bool = False

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"cuda:{self.index}"

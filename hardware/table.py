"""Descriptors as tables of text: a header and rows, ready to be drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from benchrack.api import (
    ACCELERATOR_FIGURES,
    SERVER_FIGURES,
    Accelerator,
    Cited,
    Configuration,
    Server,
)

Table = tuple[list[str], list[list[str]]]

# The rows of Table 1 in "Deep Learning Inference on P40 vs P4 with Skylake" (Dell EMC, July 2017),
# in its order.
COMPARED: Sequence[tuple[str, str, str]] = (
    ("CUDA cores", "cuda_cores", "g"),
    ("core clock, MHz", "boost_clock_mhz", "g"),
    ("memory bandwidth, GB/s", "bandwidth_gb_per_s", "g"),
    ("memory, GiB", "memory_gib", "g"),
    ("FP32, TFLOPS", "fp32_tflops", ".1f"),
    ("INT8, TOPS", "int8_tops", "g"),
    ("TDP, W", "tdp_w", "g"),
)

# Fields of descriptors whose names are no words.
LABELS = {
    "pci_ids": "PCI ids",
    "dmi_names": "DMI names",
    "accelerator_max": "accelerators at most",
    "cpu": "CPU",
    "memory_gib": "memory, GiB",
}


def comparison_table(accelerators: Sequence[Accelerator]) -> Table:
    """Cards side by side, one a column, with the rows of the study's Table 1.

    A figure that nobody published is an empty cell; one that was computed or inferred, not
    published (confidence D), is followed by `(D)`.
    """
    header, rows = overview(accelerators)
    columns = [header, *rows]
    lines = [list(line) for line in zip(*columns, strict=True)]
    return ["", *lines[0][1:]], lines[1:]


def overview(accelerators: Sequence[Accelerator]) -> Table:
    """The same figures with one card a row, for many cards."""
    header = ["card", *(label for label, _, _ in COMPARED)]
    rows = [
        [card.name, *(_cell(card.figures.get(figure), spec) for _, figure, spec in COMPARED)]
        for card in accelerators
    ]
    return header, rows


def sources(described: Accelerator | Server) -> Table:
    """Every fact of one card or server with its confidence, its source, and where others differ."""
    header = ["fact", "value", "confidence", "source", "note"]
    rows = [
        [label, _text(cited.value), cited.confidence, cited.source, cited.note]
        for label, cited in _facts(described)
    ]
    return header, rows


def _facts(described: Accelerator | Server) -> Iterator[tuple[str, Cited[Any]]]:
    yield from _own(described)
    meanings = ACCELERATOR_FIGURES if isinstance(described, Accelerator) else SERVER_FIGURES
    yield from ((meanings[name], cited) for name, cited in described.figures.items())
    if isinstance(described, Server):
        for built in described.configurations:
            yield from ((f"{built.name}: {label}", cited) for label, cited in _own(built))


def _own(described: Accelerator | Server | Configuration) -> Iterator[tuple[str, Cited[Any]]]:
    """The facts that are fields of a descriptor, by the words of their names."""
    for name in (field.name for field in dataclasses.fields(described)):
        cited = getattr(described, name)
        if isinstance(cited, Cited):
            yield LABELS.get(name, name.replace("_", " ")), cited


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def _cell(cited: Cited[float] | None, spec: str) -> str:
    if cited is None:
        return ""
    inferred = " (D)" if cited.confidence == "D" else ""
    return f"{cited.value:{spec}}{inferred}"

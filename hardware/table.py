"""Descriptors as tables of text: a header and rows, ready to be drawn."""

from __future__ import annotations

from collections.abc import Sequence

from benchrack.machines import ACCELERATOR_FIGURES, Accelerator, Cited

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


def sources(accelerator: Accelerator) -> Table:
    """Every figure of one card with its confidence, its source and its note."""
    header = ["figure", "value", "meaning", "confidence", "source", "note"]
    rows = [
        [name, f"{c.value:g}", ACCELERATOR_FIGURES[name], c.confidence, c.source, c.note]
        for name, c in accelerator.figures.items()
    ]
    return header, rows


def _cell(cited: Cited[float] | None, spec: str) -> str:
    if cited is None:
        return ""
    inferred = " (D)" if cited.confidence == "D" else ""
    return f"{cited.value:{spec}}{inferred}"

"""What doctor found, and one screen that says it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from benchrack.hardware.detection import Card, Machine
from benchrack.vocabulary.descriptors import Accelerator
from benchrack.vocabulary.devices import Device

INDENT = 12  # at most, where a line goes on below


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that was looked at: what it is or will do, and the reason why it can't, if so.

    `verdict` is what is known beforehand to be said against each of its rows: `rule: what`.
    """

    name: str
    detail: str
    reason: str | None = None
    verdict: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What doctor found.

    `devices` are those that the sweep would use. `spoilers` are the reasons known now why a number
    taken now would not be valid, `remarks` what else moves it and no rule of the verdict sees;
    `obstacles` are the parts of the sweep that can't run here, each with its reason.
    """

    machine: Machine
    accelerators: Mapping[str, Accelerator]
    devices: tuple[Device, ...]
    backends: tuple[Check, ...]
    meters: tuple[Check, ...]
    spoilers: tuple[str, ...]
    remarks: tuple[str, ...]
    sweep: str
    cases: int
    obstacles: tuple[str, ...]
    plugin_problems: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 when every case of the sweep can run here, else 1."""
        return 1 if self.obstacles else 0


def render(report: Report, width: int = 100) -> str:
    """The report as text, in lines of `width` characters where words allow it."""
    page = _Page(width)
    page.section("machine", _machine(report.machine))
    page.section("cards", _cards(report))
    page.section("in the way", report.machine.problems)
    page.section("plugins with problems", report.plugin_problems)
    page.checks(f"backends, on {_names(report.devices)}", report.backends)
    page.checks("meters", report.meters)
    page.section("a number taken now would not be valid:", report.spoilers)
    page.section("good to know, and no reason against a number:", report.remarks)
    sweep = f"the sweep {report.sweep}, {report.cases} cases,"
    if report.obstacles:
        page.section(f"{sweep} can't run here as a whole:", report.obstacles)
    else:
        page.lines.append(f"{sweep} can run here")
    return "\n".join(page.lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Page:
    width: int
    lines: list[str] = field(default_factory=list)

    def section(self, title: str, items: Iterable[str]) -> None:
        """A title with its items; nothing where there are none."""
        items = list(items)
        self.lines.extend([title] if items else [])
        for item in items:
            self._wrapped("  ", item)

    def checks(self, title: str, checks: Sequence[Check]) -> None:
        """One line a check; those that fail for one and the same reason share it."""
        self.lines.extend([title] if checks else [])
        passed = [check for check in checks if check.reason is None]
        column = max((len(check.name) for check in passed), default=0)
        for check in passed:
            verdict = f"; its rows are not valid, {check.verdict}" if check.verdict else ""
            self._wrapped(f"  yes  {check.name:{column}}  ", check.detail + verdict)
        failed = sorted((_nameless(check), check.name) for check in checks if check.reason)
        for reason, group in groupby(failed, lambda failure: failure[0]):
            names = [name for _, name in group]
            self._wrapped("  no   ", f"{', '.join(names)}: {_named(reason, names)}")

    def _wrapped(self, start: str, text: str) -> None:
        # Long words are commands and paths: broken they could not be copied.
        self.lines.extend(
            textwrap.wrap(
                text,
                self.width,
                initial_indent=start,
                subsequent_indent=" " * min(len(start), INDENT),
                break_long_words=False,
                break_on_hyphens=False,
            )
            or [start.rstrip()]
        )


def _nameless(check: Check) -> str:
    """The reason with NUL for the check's own name, so that equal reasons are equal."""
    return (check.reason or "").replace(check.name, "\0")


def _named(reason: str, names: Sequence[str]) -> str:
    """A reason again, for several names: `tox -e a-cuda12,b-cuda12`."""
    return re.sub("\0([\\w-]*)", lambda found: ",".join(name + found[1] for name in names), reason)


def _machine(machine: Machine) -> Iterator[str]:
    product = " ".join(filter(None, (machine.vendor, machine.product)))
    described = f"described as {machine.server}" if machine.server else "without descriptor"
    virtual = ", virtual" if machine.virtual else ""
    yield f"{product or 'its firmware gives no name'} ({described}{virtual})"
    cpu = machine.cpu_model or "CPU of unknown model"
    memory = f", {machine.memory_gib:.0f} GiB" if machine.memory_gib else ""
    yield f"{machine.sockets} × {cpu}: {machine.cores} cores, {machine.threads} threads{memory}"
    if machine.instruction_sets:
        yield " ".join(machine.instruction_sets)
    if machine.driver:
        yield f"NVIDIA driver {machine.driver}, serves CUDA up to {machine.driver_cuda or '?'}"


def _cards(report: Report) -> Iterator[str]:
    """Cards that are alike on one line."""
    for (name, pci_id, capability, descriptor, split), group in groupby(
        report.machine.cards, _kind
    ):
        cards = list(group)
        numbers = ", ".join(str(card.index) for card in cards)
        memory = cards[0].memory_gib
        facts = [
            f"{len(cards)} × {name} (card {numbers})",
            f"{memory:.1f} GiB" if memory else "",
            f"compute capability {capability}" if capability else "",
        ]
        seen = ", ".join(filter(None, facts))
        if descriptor:
            yield f"{seen}; {descriptor}: {_peaks(report.accelerators[descriptor])}"
        else:
            why = "split into parts (MIG)" if split else f"unknown (PCI id {pci_id})"
            yield f"{seen}; {why}: no peak to compare with"


def _kind(card: Card) -> tuple[str, str | None, str | None, str | None, bool]:
    return card.name, card.pci_id, card.compute_capability, card.descriptor, bool(card.mig)


def _peaks(card: Accelerator) -> str:
    shown = {"fp32": "FP32 {:g} TFLOPS", "fp16": "FP16 {:g} TFLOPS", "int8": "INT8 {:g} TOPS"}
    texts = [text.format(peak.value) for name, text in shown.items() if (peak := card.peak(name))]
    if tdp := card.figures.get("tdp_w"):
        texts.append(f"{tdp.value:g} W")
    return ", ".join(texts)


def _names(devices: Sequence[Device]) -> str:
    return ", ".join("the CPU" if device.kind == "cpu" else str(device) for device in devices)

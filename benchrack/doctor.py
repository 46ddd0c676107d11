"""`benchrack doctor`: what this machine is, what can run on it, and what would spoil a number now.

Outer ring, as the command line that shows it: it asks plugins, hardware and sweeps.
"""

from __future__ import annotations

import importlib.util
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from benchrack import devices, sweep
from benchrack.errors import BenchrackError
from benchrack.hardware import conditions, detection
from benchrack.hardware.compatibility import Framework, InstalledStack, unsupported_reason
from benchrack.hardware.installed import installed_stack
from benchrack.machines import Accelerator
from benchrack.meters import SystemClock
from benchrack.registry import Registry
from benchrack.types import Backend, Device, Model

FRAMEWORKS: Mapping[str, Framework] = {"PyTorch": "pytorch", "ONNX Runtime": "onnxruntime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that was looked at: what it is or will do, and the reason why it can't, if so."""

    name: str
    detail: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What doctor found.

    `spoilers` are the reasons known now why a number taken now would not be valid. `obstacles` are
    the parts of the sweep that can't run, each with its reason.
    """

    machine: detection.Machine
    accelerators: Mapping[str, Accelerator]
    devices: tuple[Device, ...]
    backends: tuple[Check, ...]
    meters: tuple[Check, ...]
    spoilers: tuple[str, ...]
    sweep: str
    cases: int
    obstacles: tuple[str, ...]
    plugin_problems: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 when every case of the sweep can run here, else 1."""
        return 1 if self.obstacles else 0


def run_doctor(
    registry: Registry,
    *,
    asked: str = "quick",
    root: Path = Path("/"),
    wait: Callable[[float], None] = time.sleep,
    stack: Callable[[], InstalledStack] = installed_stack,
) -> Report:
    """Look at everything; asks for the frameworks' kernels (`stack`) only where there is a card.

    `asked` is the sweep. Raises UnknownNameError or SweepError if that can't be loaded.
    """
    loaded = sweep.load(asked)
    found = (*registry.accelerators.values(), *registry.servers.values())
    machine = detection.detect(found, root=root)
    used = devices.resolve("auto")
    installed = stack() if any(d.kind == "cuda" for d in used) else InstalledStack()
    patient = _Patient(machine, used, installed)
    backends = {b.name: patient.backend(b) for b in registry.backends.values()}
    return Report(
        machine=machine,
        accelerators=registry.accelerators,
        devices=used,
        backends=tuple(backends.values()),
        meters=tuple(_meters(registry, used)),
        spoilers=conditions.reasons(machine, root=root, wait=wait),
        sweep=loaded.name,
        cases=sum(
            len(axes.models) * len(axes.backends) * len(axes.batch_sizes) * len(axes.device_counts)
            for axes in loaded.axes.values()
        ),
        obstacles=tuple(dict.fromkeys(_obstacles(registry, loaded, backends))),
        plugin_problems=tuple(str(problem) for problem in registry.problems),
    )


@dataclass(frozen=True, slots=True)
class _Patient:
    machine: detection.Machine
    devices: tuple[Device, ...]
    installed: InstalledStack

    def backend(self, backend: Backend) -> Check:
        """Whether a backend can run on every device; the first that refuses gives the reason."""
        reasons = (self._reason(backend, device) for device in self._kinds())
        return Check(
            name=backend.name,
            detail=_asked(backend.runs_as, self.devices[0]) or backend.summary,
            reason=_missing(backend) or next((r for r in reasons if r), None),
        )

    def _kinds(self) -> list[Device]:
        """One device of each name: four P4 need no four answers."""
        return list({device.name: device for device in reversed(self.devices)}.values())

    def _reason(self, backend: Backend, device: Device) -> str | None:
        reason = self._without_kernels(backend, device) or _asked(backend.unsupported, device)
        several = len({d.name for d in self.devices}) > 1
        return f"{device} {device.name}: {reason}" if reason and several else reason

    def _without_kernels(self, backend: Backend, device: Device) -> str | None:
        """Before the framework is asked: it may find out only when its first kernel fails."""
        card = next((c for c in self.machine.cards if device.uuid and c.uuid == device.uuid), None)
        framework = FRAMEWORKS.get(backend.framework)
        if card is None or card.compute_capability is None or framework is None:
            return None
        return unsupported_reason(
            card.compute_capability,
            self.installed,
            framework=framework,
            precision=backend.precision,
            driver_cuda=self.machine.driver_cuda,
        )


def _asked(question: Callable[[Device], Any], device: Device) -> str | None:
    """A plugin's answer; one that raises is an answer too."""
    try:
        answer: str | None = question(device)
    except Exception as error:
        return f"asking it raised {type(error).__name__}: {error}"
    return answer


def _missing(needy: Backend | Model | Any) -> str | None:
    absent = [name for name in needy.requires if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    install = f": pip install 'benchrack[{needy.extra}]'" if needy.extra else ""
    return f"not installed: {', '.join(absent)}{install}"


def _meters(registry: Registry, used: tuple[Device, ...]) -> Iterator[Check]:
    for name, meter in registry.provided.get("meter", {}).items():
        try:
            opened = meter.open(used, SystemClock())
        except BenchrackError as error:
            yield Check(name=name, detail=meter.summary, reason=str(error))
        except Exception as error:
            reason = f"opening it raised {type(error).__name__}: {error}"
            yield Check(name=name, detail=meter.summary, reason=reason)
        else:
            detail = f"{opened.method}, every {opened.period_s:g} s: {', '.join(opened.devices)}"
            opened.close()
            yield Check(name=name, detail=detail)


def _obstacles(
    registry: Registry, loaded: sweep.Sweep, backends: Mapping[str, Check]
) -> Iterator[str]:
    for axes in loaded.axes.values():
        for name in axes.backends:
            if name not in backends:
                yield f"backend {name}: no plugin provides it"
            elif reason := backends[name].reason:
                yield f"{name}: {reason}"
        for name in axes.models:
            if name not in registry.models:
                yield f"model {name}: no plugin provides it"
                continue
            model = registry.models[name]
            if reason := _missing(model):
                yield f"model {name}: {reason}"
            asked = model.dataset if axes.dataset == "auto" else axes.dataset
            data = asked.partition(":")[0]
            if data not in registry.datasets:
                yield f"data set {data}: no plugin provides it"
            elif reason := _missing(registry.datasets[data]):
                yield f"data set {data}: {reason}"


# --- one screen -------------------------------------------------------------------------------


def render(report: Report, width: int = 100) -> str:
    """The report as text, in lines of at most `width` characters."""
    page = _Page(width)
    page.section("machine", _machine(report.machine))
    page.section("cards", _cards(report))
    page.section("look at", report.machine.problems)
    page.section("plugins", report.plugin_problems)
    page.checks(f"backends on {_names(report.devices)}", report.backends)
    page.checks("meters", report.meters)
    page.section("a number taken now would not be valid", report.spoilers)
    if report.obstacles:
        title = f"the sweep {report.sweep} ({report.cases} cases) can't run here as a whole"
        page.section(title, report.obstacles)
    else:
        page.section(f"the sweep {report.sweep} ({report.cases} cases) can run here", [""])
    return "\n".join(page.lines) + "\n"


@dataclass(slots=True)
class _Page:
    width: int
    lines: list[str]

    def __init__(self, width: int) -> None:
        self.width, self.lines = width, []

    def section(self, title: str, items: Iterable[str]) -> None:
        items = list(items)
        if items:
            self.lines.append(title)
            for item in filter(None, items):
                self._wrapped("  ", item)

    def checks(self, title: str, checks: Iterable[Check]) -> None:
        """One line a check; those that fail for one reason share it."""
        checks = list(checks)
        column = max((len(check.name) for check in checks), default=0)
        if checks:
            self.lines.append(title)
        for check in (c for c in checks if c.reason is None):
            self._wrapped(f"  yes  {check.name:{column}}  ", check.detail)
        for reason, group in groupby((c for c in checks if c.reason), lambda check: check.reason):
            self._wrapped("  no   ", f"{', '.join(check.name for check in group)}: {reason}")

    def _wrapped(self, start: str, text: str) -> None:
        self.lines += textwrap.wrap(
            text,
            self.width,
            initial_indent=start,
            subsequent_indent=" " * min(len(start), 12),
            break_on_hyphens=False,
        )


def _machine(machine: detection.Machine) -> Iterator[str]:
    product = " ".join(filter(None, (machine.vendor, machine.product)))
    described = f"described as {machine.server}" if machine.server else "no descriptor of it"
    virtual = ", a virtual machine" if machine.virtual else ""
    yield f"{product or 'firmware does not name it'} ({described}){virtual}"
    memory = f", {machine.memory_gib:.0f} GiB" if machine.memory_gib else ""
    yield (
        f"{machine.sockets} × {machine.cpu_model or 'CPU of unknown model'}, {machine.cores} cores, "
        f"{machine.threads} threads{memory}"
    )
    if machine.instruction_sets:
        yield " ".join(machine.instruction_sets)
    if machine.driver:
        yield f"NVIDIA driver {machine.driver}, serves CUDA up to {machine.driver_cuda or '?'}"


def _cards(report: Report) -> Iterator[str]:
    """Cards of one kind on one line."""

    def kind(card: detection.Card) -> tuple[Any, ...]:
        return card.name, card.pci_id, card.memory_gib, card.compute_capability, card.descriptor

    for _, group in groupby(report.machine.cards, kind):
        cards = list(group)
        first, numbers = cards[0], ", ".join(str(card.index) for card in cards)
        facts = [
            f"{first.memory_gib:.1f} GiB" if first.memory_gib else "",
            f"compute capability {first.compute_capability}" if first.compute_capability else "",
        ]
        seen = ", ".join([f"{len(cards)} × {first.name} (card {numbers})", *filter(None, facts)])
        if first.descriptor:
            yield f"{seen}; {first.descriptor}: {_peaks(report.accelerators[first.descriptor])}"
        else:
            yield f"{seen}; unknown (PCI {first.pci_id}), so there is no peak to compare with"


def _peaks(card: Accelerator) -> str:
    shown = {"fp32": "FP32 {:g} TFLOPS", "fp16": "FP16 {:g} TFLOPS", "int8": "INT8 {:g} TOPS"}
    peaks = {name: card.peak(name) for name in shown}
    texts = [shown[name].format(peak.value) for name, peak in peaks.items() if peak]
    tdp = card.figures.get("tdp_w")
    return ", ".join([*texts, *([f"{tdp.value:g} W"] if tdp else [])])


def _names(used: tuple[Device, ...]) -> str:
    return ", ".join("the CPU" if device.kind == "cpu" else str(device) for device in used)

"""`benchrack doctor`: what this machine is, what can run on it, and what would spoil a number now.

Outer ring, as the command line that shows it: it asks plugins, hardware and sweeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchrack.cases import sweep
from benchrack.command.diagnosis import Check, Report, render
from benchrack.errors import BenchrackError, UnsupportedError
from benchrack.hardware import conditions, detection
from benchrack.hardware.installed import first_version
from benchrack.machine import devices, placement
from benchrack.registry.registry import Registry
from benchrack.registry.requirements import lack, missing, only_emulates
from benchrack.vocabulary.backends import Backend
from benchrack.vocabulary.cases import Case, Scalar
from benchrack.vocabulary.datasets import Dataset
from benchrack.vocabulary.descriptors import Accelerator, Server
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import Meter, SystemClock
from benchrack.vocabulary.models import Model
from benchrack.vocabulary.scenarios import DEVICE_COUNTS

__all__ = ["Check", "Report", "render", "run_doctor"]


def run_doctor(
    registry: Registry,
    *,
    asked: str = "quick",
    device: str = "auto",
    device_counts: tuple[Scalar, ...] | None = None,
    root: Path = Path("/"),
    wait: Callable[[float], None] = time.sleep,
) -> Report:
    """Look at everything, as a run with these options would. Without a card no framework is
    imported.

    `asked` is the sweep, `device` and `device_counts` are what the options of those names say;
    /proc and /sys are read below `root`; `wait` waits for some seconds.
    Raises UnknownNameError or SweepError if the sweep can't be loaded, DeviceError if the device
    is not there.
    """
    loaded = sweep.load(asked, registry.scenarios)
    counts = {} if device_counts is None else {DEVICE_COUNTS.name: device_counts}
    loaded = sweep.override(loaded, sweep.Overrides(axes=counts), registry.scenarios)
    known: list[Accelerator | Server] = [
        *registry.accelerators.values(),
        *registry.servers.values(),
    ]
    machine = detection.detect(known, root=root)
    present = devices.resolve(device)
    used = present[: max(_device_counts(loaded))]
    cards = conditions.used_cards(machine, used)
    # Before we are busy ourselves.
    spoilers = conditions.spoilers(cards, loaded.settings, root=root, wait=wait)
    emulated = loaded.settings.run.emulated
    backends = {b.name: _backend(b, used, emulated=emulated) for b in registry.backends.values()}
    meters: Mapping[str, Meter] = registry.provided.get("meter", {})
    first = next(iter(conditions.used_cards(machine, used[:1])), None)
    card = registry.accelerators.get((first.descriptor or "") if first else "")
    server = registry.servers.get((machine.server or "") if first else "")
    obstacles = (
        *_unable(loaded, backends),
        *_lacking(registry, loaded, used),
        *_too_few(loaded, present, server, card, root),
    )
    return Report(
        machine=machine,
        accelerators=registry.accelerators,
        devices=used,
        backends=tuple(backends.values()),
        meters=tuple(_meter(meter, used) for meter in meters.values()),
        spoilers=spoilers,
        remarks=(
            *conditions.remarks(machine, cards, root),
            *_notes(registry, cards),
            *_left_alone(present, used),
        ),
        sweep=loaded.name,
        cases=sum(span.cases for span in loaded.spans.values()),
        obstacles=tuple(dict.fromkeys(obstacles)),
        plugin_problems=tuple(map(str, registry.problems)),
    )


def _device_counts(loaded: sweep.Sweep) -> list[int]:
    return sorted({count for span in loaded.spans.values() for count in span.device_counts})


def _backend(backend: Backend, used: Sequence[Device], *, emulated: bool) -> Check:
    """Whether a backend can run on every used device; the first that refuses gives the reason. What
    a device only emulates counts where the sweep wants it `emulated`."""
    kinds = {device.name: device for device in reversed(used)}.values()  # one of four P4 is asked

    def refusal(device: Device) -> str | None:
        if reason := lack(backend, lambda: backend.remedy(device)) or backend.unsupported(device):
            return reason
        return None if emulated else only_emulates(backend, device)

    refusals = (
        f"{device} {device.name}: {reason}" if len(kinds) > 1 else reason
        for device in kinds
        if (reason := _asked(refusal, device))
    )
    reason = next(refusals, None)
    runs_as = None if reason else _asked(backend.runs_as, used[0])
    falls = [] if reason else [_asked(backend.falls_back, device) for device in kinds]
    fallen = next(filter(None, falls), None)
    packages = [name for module in backend.requires[:1] for name in (module, f"{module}-gpu")]
    framework = " ".join(filter(None, (backend.framework, first_version(*packages))))
    return Check(
        name=backend.name,
        detail=f"{framework}: {runs_as or backend.summary}",
        reason=reason,
        verdict=f"fell-back: {fallen}" if fallen else None,
    )


def _asked(question: Callable[[Device], str | None], device: Device) -> str | None:
    """A plugin's answer; that it raises is an answer too."""
    try:
        return question(device)
    except Exception as error:
        return f"asking it raised {type(error).__name__}: {error}"


def _meter(meter: Meter, used: tuple[Device, ...]) -> Check:
    try:
        opened = meter.open(used, SystemClock())
    except BenchrackError as error:
        return Check(name=meter.name, detail=meter.summary, reason=str(error))
    except Exception as error:
        reason = f"opening it raised {type(error).__name__}: {error}"
        return Check(name=meter.name, detail=meter.summary, reason=reason)
    how = f"{opened.method}, every {opened.period_s:g} s"
    watched = ", ".join(opened.devices)
    opened.close()
    return Check(name=meter.name, detail=f"{meter.summary} ({how}): {watched}")


def _unable(loaded: sweep.Sweep, backends: Mapping[str, Check]) -> Iterator[str]:
    """The sweep's backends that nobody provides, or that can't run. Why is told with them."""
    for name in (name for span in loaded.spans.values() for name in span.backends):
        if name not in backends:
            yield f"no plugin provides the backend {name}"
        elif backends[name].reason:
            yield f"{name} can't run, as said above"


def _lacking(registry: Registry, loaded: sweep.Sweep, used: Sequence[Device]) -> Iterator[str]:
    """The sweep's models and data sets that nobody provides, or that need what is not installed;
    what a backend needs too was said with it."""
    lacking: dict[str, dict[str, None]] = {}  # by reason
    for span in loaded.spans.values():
        backends = [registry.backends[name] for name in span.backends if name in registry.backends]
        said = {module for backend in backends for module in missing(backend)}
        for name, needy in _needed(registry, span):
            if needy is None:
                yield f"no plugin provides the {name}"
            elif set(missing(needy)) - said:
                reason = lack(needy, partial(_remedy, backends, used)) or ""
                lacking.setdefault(reason, {})[name] = None
    yield from (f"{', '.join(names)}: {reason}" for reason, names in lacking.items())


def _needed(registry: Registry, span: sweep.Span) -> Iterator[tuple[str, Model | Dataset | None]]:
    for name in span.models:
        model = registry.models.get(name)
        yield f"model {name}", model
        if model is not None:
            own = model.own_dataset or span.dataset == "auto"
            data = model.dataset if own else span.dataset.partition(":")[0]
            yield f"data set {data}", registry.datasets.get(data)


def _remedy(backends: Sequence[Backend], used: Sequence[Device]) -> str | None:
    """The stack that serves the devices brings models and data sets too."""
    found = (_asked(backend.remedy, device) for backend in backends for device in used)
    return next(filter(None, found), None)


def _too_few(
    loaded: sweep.Sweep,
    present: Sequence[Device],
    server: Server | None,
    card: Accelerator | None,
    root: Path,
) -> Iterator[str]:
    """The device counts that this machine, or its server's descriptor, does not allow."""
    reasons = {}
    for count in _device_counts(loaded):
        if reason := _beyond(count, present, server, card, root):
            reasons[count] = reason
    if reasons:
        counts = " or ".join(map(str, reasons))
        yield f"the cases on {counts} devices can't run: {next(iter(reasons.values()))}"


def _beyond(
    count: int,
    present: Sequence[Device],
    server: Server | None,
    card: Accelerator | None,
    root: Path,
) -> str | None:
    case = Case(scenario="throughput", model="any", backend="any", batch_size=1, device_count=count)
    if reason := sweep.beyond_server(case, server, card):
        return reason
    try:
        placement.require(present, count, root)
    except UnsupportedError as error:
        return str(error)
    return None


def _notes(registry: Registry, cards: Sequence[detection.Card]) -> Iterator[str]:
    """What the descriptors of the used cards remark, each once."""
    for name in dict.fromkeys(card.descriptor for card in cards if card.descriptor):
        card = registry.accelerators[name]
        yield from (f"{card.title}: {note.value}" for note in card.notes)


def _left_alone(present: Sequence[Device], used: Sequence[Device]) -> Iterator[str]:
    if spare := present[len(used) :]:
        names = ", ".join(f"{device} {device.name}" for device in spare)
        yield (
            f"the sweep leaves {names} alone, and so did doctor: --device and --device-counts "
            "choose others"
        )

"""`benchrack doctor`: what this machine is, what can run on it, and what would spoil a number now.

Outer ring, as the command line that shows it: it asks plugins, hardware and sweeps.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchrack import devices, sweep
from benchrack.diagnosis import Check, Report, render
from benchrack.errors import BenchrackError
from benchrack.hardware import conditions, detection
from benchrack.hardware.installed import first_version
from benchrack.machines import Accelerator, Server
from benchrack.meters import Meter, SystemClock
from benchrack.registry import Registry
from benchrack.types import Backend, Dataset, Device, Model

__all__ = ["Check", "Report", "render", "run_doctor"]


def run_doctor(
    registry: Registry,
    *,
    asked: str = "quick",
    root: Path = Path("/"),
    wait: Callable[[float], None] = time.sleep,
) -> Report:
    """Look at everything. Without a card no framework is imported.

    `asked` is the sweep; /proc and /sys are read below `root`; `wait` waits for some seconds.
    Raises UnknownNameError or SweepError if the sweep can't be loaded.
    """
    loaded = sweep.load(asked)
    known: list[Accelerator | Server] = [
        *registry.accelerators.values(),
        *registry.servers.values(),
    ]
    machine = detection.detect(known, root=root)
    spoilers = conditions.reasons(machine, root=root, wait=wait)  # before we are busy ourselves
    used = devices.resolve("auto")
    backends = {b.name: _backend(b, used) for b in registry.backends.values()}
    meters: Mapping[str, Meter] = registry.provided.get("meter", {})
    return Report(
        machine=machine,
        accelerators=registry.accelerators,
        devices=used,
        backends=tuple(backends.values()),
        meters=tuple(_meter(meter, used) for meter in meters.values()),
        spoilers=spoilers,
        sweep=loaded.name,
        cases=sum(map(_count, loaded.axes.values())),
        obstacles=tuple(dict.fromkeys(_obstacles(registry, loaded, backends))),
        plugin_problems=tuple(map(str, registry.problems)),
    )


def _backend(backend: Backend, used: Sequence[Device]) -> Check:
    """Whether a backend can run on every device; the first that refuses gives the reason."""
    kinds = {device.name: device for device in reversed(used)}.values()  # one of four P4 is asked
    refusals = (
        f"{device} {device.name}: {reason}" if len(kinds) > 1 else reason
        for device in kinds
        if (reason := _asked(backend.unsupported, device))
    )
    reason = _missing(backend) or next(refusals, None)
    runs_as = None if reason else _asked(backend.runs_as, used[0])
    packages = [name for module in backend.requires[:1] for name in (module, f"{module}-gpu")]
    framework = " ".join(filter(None, (backend.framework, first_version(*packages))))
    return Check(
        name=backend.name, detail=f"{framework}: {runs_as or backend.summary}", reason=reason
    )


def _asked(question: Callable[[Device], str | None], device: Device) -> str | None:
    """A plugin's answer; that it raises is an answer too."""
    try:
        return question(device)
    except Exception as error:
        return f"asking it raised {type(error).__name__}: {error}"


def _missing(needy: Backend | Model | Dataset) -> str | None:
    absent = [name for name in needy.requires if not _importable(name)]
    if not absent:
        return None
    install = f": pip install 'benchrack[{needy.extra}]'" if needy.extra else ""
    return f"not installed: {', '.join(absent)}{install}"


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # the package of a submodule is absent, or broken
        return False


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


def _count(axes: sweep.Axes) -> int:
    return len(axes.models) * len(axes.backends) * len(axes.batch_sizes) * len(axes.device_counts)


def _obstacles(
    registry: Registry, loaded: sweep.Sweep, backends: Mapping[str, Check]
) -> Iterator[str]:
    """What of the sweep nobody provides, or can't run. Why a backend can't is told with it."""
    for axes in loaded.axes.values():
        for name in axes.backends:
            if name not in backends:
                yield f"no plugin provides the backend {name}"
            elif backends[name].reason:
                yield f"{name} can't run, as said above"
        for name in axes.models:
            if name not in registry.models:
                yield f"no plugin provides the model {name}"
                continue
            model = registry.models[name]
            if reason := _missing(model):
                yield f"model {name}: {reason}"
            data = (model.dataset if axes.dataset == "auto" else axes.dataset).partition(":")[0]
            if data not in registry.datasets:
                yield f"no plugin provides the data set {data}"
            elif reason := _missing(registry.datasets[data]):
                yield f"data set {data}: {reason}"

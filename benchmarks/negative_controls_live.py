"""Negative controls with real processes on the real clock: what verdict does each give?

The same controls on a fake clock are tests/verdict/test_negative_controls.py. Here a real model is
measured as it is, and spoilt: it sleeps in one of ten rounds, computes in BF16 what was asked for
in FP32, returns before its work is done, and shares its core with a busy neighbour process, which
this script starts and ends. All on one core. Ends with 1 where a control's own reason is missing;
on a machine that others use at the same time, reasons for that come on top, and with the clean
control too.

    python benchmarks/negative_controls_live.py
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tabulate

from benchrack.bench.bench import Bench
from benchrack.execution.running import run_case
from benchrack.machine.devices import CPU
from benchrack.plugins.backends import pytorch
from benchrack.registry.registry import load_registry
from benchrack.vocabulary.backends import Backend, Engine, PrepareRequest, Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.models import LoadedModel
from benchrack.vocabulary.settings import Settings

MODEL, BATCH_SIZE = "digits-cnn", 64
SETTINGS = Settings.of(threads=1, warmup_limit_s=4, time_limit_s=2, inputs_mib=16)
BUSY = "while True: pass"
QUEUE = 8


@dataclasses.dataclass
class Wrapped:
    """A session of PyTorch's, to be spoilt."""

    session: Session
    engine: Engine = dataclasses.field(init=False)
    loaded: LoadedModel = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.engine, self.loaded = self.session.engine, self.session.loaded

    def place(self, images: np.ndarray) -> Any:
        return self.session.place(images)

    def run(self, placed: Any) -> Any:
        return self.session.run(placed)

    def synchronize(self) -> None:
        self.session.synchronize()

    def fetch(self, output: Any) -> np.ndarray:
        return self.session.fetch(output)

    def close(self) -> None:
        self.session.close()


@dataclasses.dataclass
class Stalling(Wrapped):
    """Sleeps as long as a round takes, once in ten rounds."""

    due_s: float = 0.0

    def run(self, placed: Any) -> Any:
        if time.perf_counter() >= self.due_s:
            self.due_s = time.perf_counter() + 10 * SETTINGS.measure.round_s
            time.sleep(SETTINGS.measure.round_s)
        return self.session.run(placed)


@dataclasses.dataclass
class Early(Wrapped):
    """Computes in a thread, as a device would, and does not wait for it; a few batches queue."""

    thread: ThreadPoolExecutor = dataclasses.field(default_factory=lambda: ThreadPoolExecutor(1))
    room: threading.Semaphore = dataclasses.field(
        default_factory=lambda: threading.Semaphore(QUEUE)
    )

    def run(self, placed: Any) -> Future[Any]:
        self.room.acquire()
        return self.thread.submit(self._run, placed)

    def _run(self, placed: Any) -> Any:
        try:
            return self.session.run(placed)
        finally:
            self.room.release()

    def synchronize(self) -> None:
        return None

    def fetch(self, output: Any) -> np.ndarray:
        return self.session.fetch(output.result())

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)
        self.session.close()


@dataclasses.dataclass
class Disguised(Wrapped):
    """Says that it computes in FP32, whatever it does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.engine = dataclasses.replace(self.engine, precision="fp32", deviations=())


def backend(name: str, precision: str, spoil: Callable[[Session], Session]) -> Backend:
    """PyTorch in one precision, sold as FP32."""

    def prepare(request: PrepareRequest) -> Session:
        return spoil(pytorch.prepare(request, precision))

    return Backend(name=name, framework="PyTorch", precision="fp32", summary=name, prepare=prepare)


BACKENDS = {
    "clean": backend("clean", "fp32", Wrapped),
    "stalling": backend("stalling", "fp32", Stalling),
    "early": backend("early", "fp32", Early),
    "bf16": backend("bf16", "bf16", Disguised),
}
CONTROLS = (
    ("nothing", "clean", ""),
    ("a sleep in one of ten rounds", "stalling", "noisy"),
    ("BF16 served as FP32", "bf16", "output-mismatch"),
    ("returns before its work is done", "early", "unsynchronised"),
    ("a neighbour on the core", "clean", "cpu-contention"),
)


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """A process that is busy on the core that this process, and so its child, is bound to."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main() -> int:
    if hasattr(os, "sched_setaffinity"):  # before torch counts its threads
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found = load_registry()
    provided = {**found.provided, "backend": {**found.provided["backend"], **BACKENDS}}
    bench = Bench.on(CPU, dataclasses.replace(found, provided=provided), SETTINGS)
    rows, missing = [], []
    for control, name, expected in CONTROLS:
        case = Case(scenario="throughput", model=MODEL, backend=name, batch_size=BATCH_SIZE)
        with neighbour() if expected == "cpu-contention" else contextlib.nullcontext():
            measured = run_case(bench, case)
        if expected and not any(reason.startswith(expected) for reason in measured.reasons):
            missing.append(control)
        verdict = "\n".join(measured.reasons) or "valid"
        rows.append(
            [control, f"{measured.result.images_per_s.value:.0f}", expected or "valid", verdict]
        )
    headers = ("control", "images/s", "expected", "verdict")
    print(tabulate.tabulate(rows, headers, tablefmt="grid", maxcolwidths=[None, None, None, 60]))
    print(f"\ncaught: {'all' if not missing else 'not ' + ', '.join(missing)}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())

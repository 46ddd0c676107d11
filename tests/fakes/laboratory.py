"""A small laboratory to test in: a model that is one matrix, labelled images, backends whose
speed is known by construction, and a device on a clock of its own."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field

import numpy as np
from fakes.scenarios import SCENARIOS
from fakes.settings import make_settings

from benchrack.api import hookimpl
from benchrack.bench.bench import Bench
from benchrack.cache import Cache
from benchrack.execution.executors import Worker
from benchrack.execution.messages import Setup
from benchrack.registry.registry import Registry
from benchrack.vocabulary.backends import Backend, Engine
from benchrack.vocabulary.datasets import Dataset, Sample, Split
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.models import LoadedModel, Model, Preprocessing

CLASSES, SIDE = 10, 8
SHAPE = (3, SIDE, SIDE)


class Clock:
    """A clock that moves only when somebody waits, for a device or for time to pass."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def load(weights, cache):
    """The matrix of the fake network; `random` weights are untrained, as elsewhere."""
    matrix = np.random.default_rng(7).standard_normal((np.prod(SHAPE), CLASSES))
    return LoadedModel(
        module=matrix.astype(np.float32),
        weights="made up",
        digest="0" * 64,
        trained=weights != "random",
        parameters=matrix.size,
        multiply_accumulates=matrix.size,
    )


MODEL = Model(
    name="matrix",
    summary="one matrix product",
    input_shape=SHAPE,
    classes=CLASSES,
    preprocessing=Preprocessing(
        resize=SIDE, crop=SIDE, mean=(127.0,) * 3, std=(64.0,) * 3, interpolation="nearest"
    ),
    load=load,
    dataset="squares",
    requires=(),
    extra="",
)


def pictures(count, start=0):
    """Random squares, labelled by what the matrix says, but for every tenth."""
    matrix = load("auto", None).module
    samples = []
    for index in range(start, start + count):
        picture = np.random.default_rng(index).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        values = ((picture.astype(np.float32) - 127) / 64).transpose(2, 0, 1).reshape(-1)
        label = int((values @ matrix).argmax())
        label = (label + 1) % CLASSES if index % 10 == 0 else label
        samples.append(Sample(name=f"square-{index}", label=label, read=lambda p=picture: p))
    return samples


def open_squares(argument, request):
    """40 images to measure, 36 of which the matrix gets right; 5 to calibrate."""
    return Split(
        name="squares",
        classes=CLASSES,
        calibration=pictures(5, start=1000) if request.calibration_images else [],
        measured=pictures(40),
        digest="squares-1",
    )


DATASET = Dataset(name="squares", summary="random squares", open=open_squares, extra="")


@hookimpl
def benchrack_models():
    return [MODEL]


@hookimpl
def benchrack_datasets():
    return [DATASET]


@dataclass
class Session:
    """Multiplies with the matrix. A batch takes `cost(index)` seconds of the device's own time, and
    the host's to launch it and to copy it in and out. With `waits=False`, `synchronize` does not
    wait for the device; who fetches an output always does."""

    engine: Engine
    loaded: LoadedModel
    clock: Clock | None = None
    cost: object = lambda index: 0.010
    compute: object = lambda images, matrix: images.reshape(len(images), -1) @ matrix
    waits: bool = True
    launch_s: float = 0.0
    copy_in_s: float = 0.0
    copy_out_s: float = 0.0
    closed: bool = False
    _due: float = 0.0
    _count: itertools.count = field(default_factory=itertools.count)

    def place(self, images):
        self._pass(self.copy_in_s)
        return images.copy()

    def run(self, placed):
        assert not self.closed, "a session is not run after it was closed"
        self._pass(self.launch_s)
        if self.clock is not None:
            self._due = max(self._due, self.clock.now) + self.cost(next(self._count))
        return self.compute(placed, self.loaded.module)

    def synchronize(self):
        if self.waits:
            self._finish()

    def fetch(self, output):
        self._finish()
        self._pass(self.copy_out_s)
        return np.asarray(output, np.float32)

    def _finish(self):
        if self.clock is not None:
            self.clock.now = max(self.clock.now, self._due)

    def _pass(self, seconds):
        if self.clock is not None:
            self.clock.now += seconds

    def close(self):
        self.closed = True


ENGINE = Engine(name="numpy", version=np.__version__, device="cpu", precision="fp32", threads=1)


def backend(name="numpy-fp32", *, unsupported=None, engine=ENGINE, session=Session, **behaviour):
    """A backend whose sessions behave as told (see Session)."""

    def prepare(request):
        loaded = request.model.load(request.weights, request.cache)
        return session(engine=engine, loaded=loaded, **behaviour)

    return Backend(
        name=name,
        framework="numpy",
        precision="fp32",
        summary="a matrix product",
        prepare=prepare,
        unsupported=unsupported or (lambda device: None),
    )


def registry(*backends, models=(MODEL,), datasets=(DATASET,)):
    """A registry of just these."""

    def named(found):
        return {one.name: one for one in found}

    provided = {
        "scenario": dict(SCENARIOS),
        "backend": named(backends),
        "model": named(models),
        "dataset": named(datasets),
        "accelerator": {},
        "server": {},
    }
    return Registry(provided=provided, providers={})


def bench(tmp_path, *backends, clock=None, device=None, **settings):
    """A bench of these backends, the first being the reference, on a clock of its own."""
    clock = clock or Clock()
    chosen = make_settings(inputs_mib=1, reference=backends[0].name, limit_foreign_load=1)
    made = Bench.on(
        device or Device(kind="cpu", name="cpu"),
        registry(*backends),
        make_settings(chosen, **settings),
        Cache(tmp_path / "cache"),
    )
    return dataclasses.replace(made, clock=clock)


def again(bench, *, registry=None, **settings):
    """The same bench with other plugins or settings, and nothing opened yet."""
    made = Bench.on(
        bench.device,
        registry or bench.registry,
        make_settings(bench.settings, **settings),
        bench.cache,
        metering=bench.metering,
        ranks=bench.ranks,
    )
    return dataclasses.replace(
        made, clock=bench.clock, progress=bench.progress, cpu_times=bench.cpu_times
    )


QUICK = make_settings(
    reference="numpy-fp32", time_limit_s=0.02, warmup_limit_s=0.02, round_s=0.001, inputs_mib=1
)
"""For processes that need to measure, and not to measure well."""


def worker(tmp_path, conftest, **settings):
    """A worker process on the CPU whose plugins are those of a conftest.py, given as text."""
    path = tmp_path / "conftest.py"
    path.write_text(conftest)
    return Worker(
        Setup(
            settings=make_settings(QUICK, **settings),
            device=Device(kind="cpu", name="cpu"),
            cache=str(tmp_path / "cache"),
            conftests=(str(path),),
        )
    )

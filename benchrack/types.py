"""What is measured, and what plugins provide: frozen dataclasses and the protocol of a session.

Arrays are numpy arrays; shapes are given as (N, C, H, W) = (batch, channels, height, width).
Nothing here imports numpy or a framework: annotations only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np

    from benchrack.cache import Cache

Scenario = Literal["throughput", "latency", "accuracy"]
SCENARIOS: tuple[Scenario, ...] = ("throughput", "latency", "accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One point of a sweep. Names are those under which plugins registered.

    `weights` and `dataset` are what was asked: `auto` is each model's own default; a data set may
    have an argument (`imagenet:/data/val`).
    """

    scenario: Scenario
    model: str
    backend: str
    batch_size: int
    device_count: int = 1
    dataset: str = "auto"
    weights: str = "auto"

    @property
    def id(self) -> str:
        """The name of this case among those of its scenario, as pytest shows it."""
        return f"{self.model}-{self.backend}-b{self.batch_size}-x{self.device_count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The keys of a sweep that are not axes; each can be set with `--set key=value`.

    Times are in seconds. `interval` is the half width, relative to the median, at which a
    measurement may stop. `reference` is the backend whose outputs the others' are compared with.
    Zero threads means one for each core that the process may use. `transfer`
    says whether copies to and from the device are inside the time: `include`, `exclude`, or `auto`
    (inside for latency, outside for throughput). `inputs_mib` bounds the memory of the distinct
    inputs through which a measurement rotates. `evaluation_images` of 0 means all. `starts` is how
    often each case is measured, each time in a fresh process. `memory_gib` is what the processes
    that compute a case on a machine's CPU may allocate together; 0 means nine tenths of what is
    available when a case begins. `join_limit_s` is how long the machines of a run wait for each
    other at its beginning, and `silence_limit_s` how long one of them may give no sign of life.
    `limit_…` are the thresholds of the verdict's rules (docs/measurement.md).
    """

    seed: int = 0
    threads: int = 0
    reference: str = "pytorch-fp32"
    transfer: Literal["auto", "include", "exclude"] = "auto"
    inputs_mib: int = 256
    round_s: float = 0.05
    warmup_limit_s: float = 10.0
    interval: float = 0.01
    time_limit_s: float = 30.0
    latency_samples: int = 1000
    calibration_batches: int = 50
    calibration_batch_size: int = 25
    evaluation_images: int = 0
    executor: Literal["worker", "in-process"] = "worker"
    case_time_limit_s: float = 1800.0
    join_limit_s: float = 300.0
    silence_limit_s: float = 15.0
    memory_gib: float = 0.0
    starts: int = 1
    publish: bool = False
    limit_drift: float = 0.05
    limit_variation: float = 0.10
    limit_interval: float = 0.05
    limit_unsynchronised: float = 0.10
    limit_int8_share: float = 1.0
    limit_output_error: float = 1.0
    limit_spread: float = 1e-4
    limit_clock_share: float = 0.75
    limit_other_processes: int = 0
    limit_foreign_load: float = 0.05
    limit_threads_per_core: float = 1.0
    limit_power_window: float = 1.0
    limit_energy_uncertainty: float = 0.035
    limit_peak_share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of this machine: `cpu`, or the CUDA device `index` as the process counts them.

    `pci_id` is the PCI device id of a card, four hex digits as in `machines.Accelerator`; empty
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessing:
    """From a decoded picture to a model's input.

    The short side is resized to `resize` pixels, the centre `crop` × `crop` pixels are kept, and
    each channel becomes (value − mean) ÷ std, with value, mean and std on the scale 0 to 255.
    """

    resize: int
    crop: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model with its weights, as a `torch.nn.Module` in evaluation mode, FP32, on the CPU.

    `weights` names their origin and `digest` is a SHA-256 over all tensors. `trained` is False for
    random weights: their accuracy is never shown as a result. `multiply_accumulates` counts those
    of convolutions and matrix products for one image.
    """

    module: Any
    weights: str
    digest: str
    trained: bool
    parameters: int
    multiply_accumulates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A network that can be measured.

    `load(weights, cache)` raises WeightsError. `dataset` is what it is measured on unless the user
    names another; a model with `own_dataset` is made for that data set alone, and keeps it.
    `multiply_accumulates` of one image, where they are known before it is loaded, tell how long
    its cases will take beside others'.
    """

    name: str
    summary: str
    input_shape: tuple[int, int, int]
    classes: int
    preprocessing: Preprocessing
    load: Callable[[str, Cache], LoadedModel]
    multiply_accumulates: int | None = None
    dataset: str = "sample-photos"
    own_dataset: bool = False
    requires: tuple[str, ...] = ("torch",)
    extra: str = "pytorch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One picture. `read()` returns uint8, (H, W, 3) or (H, W), or raises CorruptImageError.

    Several threads read at once, each another picture.
    """

    name: str
    label: int | None
    read: Callable[[], np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An opened data set: pictures that calibrate, and the others, which are measured.

    `classes` is None where there are no labels. `digest` identifies content and order, so that
    what was calibrated on it can be cached.
    """

    name: str
    classes: int | None
    calibration: Sequence[Sample]
    measured: Sequence[Sample]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A source of pictures. `open(argument, settings)` gets what follows the colon in
    `name:argument`, or None; it raises DatasetError before anything is measured."""

    name: str
    summary: str
    open: Callable[[str | None, Settings], Split]
    requires: tuple[str, ...] = ()
    extra: str = "samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What really computes a session, as the framework reports it after preparing.

    `precision` is the arithmetic that runs; `deviations` says in words where engine or arithmetic
    are not what was asked (empty: as asked). `low_precision_nodes` of `compute_nodes` convolutions
    and matrix products run in the asked arithmetic. `provider_share` lists `provider=share`.
    `build` are short facts about what was built and loaded, such as `cuDNN 9.10.2` or `OpenMP 2
    threads`: the same each time that the same software runs on the same machine.
    """

    name: str
    version: str
    device: str
    precision: str
    threads: int | None = None
    instruction_set: str | None = None
    compute_nodes: int | None = None
    low_precision_nodes: int | None = None
    provider_share: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    build: tuple[str, ...] = ()


class Session(Protocol):
    """A model made ready by a backend on a device.

    `run` may return before the device has finished; `synchronize` returns when it has.
    """

    engine: Engine
    loaded: LoadedModel

    def place(self, images: np.ndarray) -> Any:
        """Copy a batch, float32 (N, C, H, W), to where the device reads it."""

    def run(self, placed: Any) -> Any:
        """Start one batch and return its output, still on the device."""

    def synchronize(self) -> None:
        """Wait until everything that was started is done."""

    def fetch(self, output: Any) -> np.ndarray:
        """Copy an output to the host: logits, float32 (N, classes)."""

    def close(self) -> None:
        """Give back the memory of model and device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """What a backend gets to prepare a session.

    `calibration()` yields batches, float32 (N, C, H, W), of the split's calibration pictures, made
    for this model; `calibration_digest` identifies them, and is None where there are none.
    """

    model: Model
    weights: str
    device: Device
    batch_size: int
    threads: int
    seed: int
    cache: Cache
    calibration: Callable[[], Iterator[np.ndarray]]
    calibration_digest: str | None = None
    calibration_images: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A framework at one precision.

    `requires` are the modules that must be importable, `extra` the extra of Benchrack that brings
    them. `unsupported(device)` gives the reason why it can't run there, or None; `prepare` raises
    UnsupportedError, WeightsError or OutOfMemoryError. `runs_as(device)` says in a few words which
    engine and arithmetic to expect there, as far as that is known before a session is prepared, and
    `falls_back(device)` the deviation that its sessions will have there, or None. `remedy(device)`
    is the command that installs the modules where the extra's would not serve the device, or None;
    it is asked while they are missing.
    """

    name: str
    framework: str
    precision: str
    summary: str
    prepare: Callable[[PrepareRequest], Session]
    unsupported: Callable[[Device], str | None] = lambda device: None
    runs_as: Callable[[Device], str] = lambda device: ""
    falls_back: Callable[[Device], str | None] = lambda device: None
    remedy: Callable[[Device], str | None] = lambda device: None
    requires: tuple[str, ...] = ()
    extra: str = ""

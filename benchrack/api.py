"""All that a plugin imports, in one place: `from benchrack.api import Backend, hookimpl`."""

from __future__ import annotations

from benchrack import hookimpl
from benchrack.cache import Cache
from benchrack.energy import integrals
from benchrack.energy.integrals import Tick
from benchrack.errors import (
    BenchrackError,
    CacheError,
    CorruptImageError,
    DatasetError,
    DescriptorError,
    OutOfMemoryError,
    ResultsError,
    UnsupportedError,
    WeightsError,
)
from benchrack.flattening import part
from benchrack.machine import nvml, processors, surroundings
from benchrack.machine.memory import ran_out
from benchrack.scenarios import observation
from benchrack.scenarios.bench import Bench
from benchrack.statistics.blocks import percentile
from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import median_interval, wilson
from benchrack.timing.rounds import measure_rounds, measure_singly, warm_up
from benchrack.verdict.rules import HARMLESS_THROTTLING
from benchrack.vocabulary.backends import Backend, Engine, PrepareRequest, Session, TrainingSession
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.combining import total
from benchrack.vocabulary.datasets import Dataset, Sample, Split, SplitRequest
from benchrack.vocabulary.descriptors import (
    ACCELERATOR_FIGURES,
    CONFIDENCES,
    SERVER_FIGURES,
    Accelerator,
    Cited,
    Configuration,
    Server,
    match,
)
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import (
    Conditions,
    Domain,
    Meter,
    Method,
    OpenMeter,
    Reading,
    Trace,
    WaitableClock,
    minimum_window_s,
)
from benchrack.vocabulary.models import LoadedModel, Model, Preprocessing
from benchrack.vocabulary.provenance import Provenance, hashed, without_passwords
from benchrack.vocabulary.results import (
    Findings,
    Footprint,
    Measurement,
    OutputCheck,
    Power,
    Steadiness,
    Surroundings,
)
from benchrack.vocabulary.scenarios import (
    BACKENDS,
    BATCH_SIZES,
    DEVICE_COUNTS,
    MODELS,
    Axis,
    Metric,
    Rule,
    Scenario,
    Yardstick,
)
from benchrack.vocabulary.settings import Settings

# ruff: noqa: RUF022 - by what they are for, not by the alphabet
__all__ = [
    # every plugin
    "hookimpl",
    "Cache",
    "Device",
    "Settings",
    # what a user can change
    "BenchrackError",
    "CacheError",
    "CorruptImageError",
    "DatasetError",
    "DescriptorError",
    "OutOfMemoryError",
    "ResultsError",
    "UnsupportedError",
    "WeightsError",
    # backends
    "Backend",
    "Engine",
    "PrepareRequest",
    "Session",
    "TrainingSession",
    "ran_out",
    # models
    "LoadedModel",
    "Model",
    "Preprocessing",
    # data sets
    "Dataset",
    "Sample",
    "Split",
    "SplitRequest",
    # descriptors of hardware
    "ACCELERATOR_FIGURES",
    "CONFIDENCES",
    "SERVER_FIGURES",
    "Accelerator",
    "Cited",
    "Configuration",
    "Server",
    "match",
    # meters
    "Conditions",
    "Domain",
    "Meter",
    "Method",
    "OpenMeter",
    "Reading",
    "Tick",
    "Trace",
    "WaitableClock",
    "integrals",
    "minimum_window_s",
    "total",
    # scenarios: what one declares
    "BACKENDS",
    "BATCH_SIZES",
    "DEVICE_COUNTS",
    "MODELS",
    "Axis",
    "Metric",
    "Rule",
    "Scenario",
    "Yardstick",
    "part",
    # scenarios: what one measures with
    "Bench",
    "Case",
    "measure_rounds",
    "measure_singly",
    "median_interval",
    "observation",
    "percentile",
    "warm_up",
    "wilson",
    # scenarios: what one finds
    "Findings",
    "Footprint",
    "Interval",
    "Measurement",
    "OutputCheck",
    "Power",
    "Steadiness",
    "Surroundings",
    # provenance
    "Provenance",
    "hashed",
    "without_passwords",
    # the machine, and what spoils a measurement
    "HARMLESS_THROTTLING",
    "nvml",
    "processors",
    "surroundings",
]

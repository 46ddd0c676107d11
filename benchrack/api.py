"""All that a plugin imports, in one place: `from benchrack.api import Backend, hookimpl`.

Grouped by where it comes from; what a plugin of each kind needs is in docs/plugins.md.
"""

from __future__ import annotations

from benchrack import hookimpl as hookimpl
from benchrack import toml_tables as toml_tables
from benchrack.bench import observation as observation
from benchrack.bench import warming as warming
from benchrack.bench.bench import Bench as Bench
from benchrack.cache import Cache as Cache
from benchrack.data.comparison import cosines as cosines
from benchrack.energy import integrals as integrals
from benchrack.energy.integrals import Tick as Tick
from benchrack.errors import (
    BenchrackError as BenchrackError,
)
from benchrack.errors import (
    CacheError as CacheError,
)
from benchrack.errors import (
    CorruptImageError as CorruptImageError,
)
from benchrack.errors import (
    DatasetError as DatasetError,
)
from benchrack.errors import (
    DescriptorError as DescriptorError,
)
from benchrack.errors import (
    OutOfMemoryError as OutOfMemoryError,
)
from benchrack.errors import (
    ResultsError as ResultsError,
)
from benchrack.errors import (
    UnsupportedError as UnsupportedError,
)
from benchrack.errors import (
    WeightsError as WeightsError,
)
from benchrack.flattening import part as part
from benchrack.machine import cgroups as cgroups
from benchrack.machine import nvml as nvml
from benchrack.machine import processors as processors
from benchrack.machine import surroundings as surroundings
from benchrack.machine.memory import ran_out as ran_out
from benchrack.statistics.blocks import percentile as percentile
from benchrack.statistics.interval import Interval as Interval
from benchrack.statistics.order_statistics import (
    median_interval as median_interval,
)
from benchrack.statistics.order_statistics import (
    wilson as wilson,
)
from benchrack.timing.parts import parts_of as parts_of
from benchrack.timing.rotation import batches_of as batches_of
from benchrack.timing.rounds import (
    MINIMUM_ROUNDS as MINIMUM_ROUNDS,
)
from benchrack.timing.rounds import (
    expected_before_s as expected_before_s,
)
from benchrack.timing.rounds import (
    measure_rounds as measure_rounds,
)
from benchrack.timing.rounds import (
    measure_singly as measure_singly,
)
from benchrack.timing.rounds import (
    warm_up as warm_up,
)
from benchrack.verdict.rules import HARMLESS_THROTTLING as HARMLESS_THROTTLING
from benchrack.verdict.tolerances import tolerance as tolerance
from benchrack.vocabulary.backends import (
    Backend as Backend,
)
from benchrack.vocabulary.backends import (
    Engine as Engine,
)
from benchrack.vocabulary.backends import (
    PrepareRequest as PrepareRequest,
)
from benchrack.vocabulary.backends import (
    Session as Session,
)
from benchrack.vocabulary.backends import (
    TrainingSession as TrainingSession,
)
from benchrack.vocabulary.cases import Case as Case
from benchrack.vocabulary.combining import total as total
from benchrack.vocabulary.datasets import (
    Dataset as Dataset,
)
from benchrack.vocabulary.datasets import (
    Sample as Sample,
)
from benchrack.vocabulary.datasets import (
    Split as Split,
)
from benchrack.vocabulary.datasets import (
    SplitRequest as SplitRequest,
)
from benchrack.vocabulary.descriptors import (
    ACCELERATOR_FIGURES as ACCELERATOR_FIGURES,
)
from benchrack.vocabulary.descriptors import (
    CONFIDENCES as CONFIDENCES,
)
from benchrack.vocabulary.descriptors import (
    SERVER_FIGURES as SERVER_FIGURES,
)
from benchrack.vocabulary.descriptors import (
    Accelerator as Accelerator,
)
from benchrack.vocabulary.descriptors import (
    Cited as Cited,
)
from benchrack.vocabulary.descriptors import (
    Configuration as Configuration,
)
from benchrack.vocabulary.descriptors import (
    Server as Server,
)
from benchrack.vocabulary.descriptors import (
    match as match,
)
from benchrack.vocabulary.devices import Device as Device
from benchrack.vocabulary.meters import (
    Conditions as Conditions,
)
from benchrack.vocabulary.meters import (
    Domain as Domain,
)
from benchrack.vocabulary.meters import (
    Meter as Meter,
)
from benchrack.vocabulary.meters import (
    Method as Method,
)
from benchrack.vocabulary.meters import (
    OpenMeter as OpenMeter,
)
from benchrack.vocabulary.meters import (
    Reading as Reading,
)
from benchrack.vocabulary.meters import (
    Trace as Trace,
)
from benchrack.vocabulary.meters import (
    WaitableClock as WaitableClock,
)
from benchrack.vocabulary.meters import (
    minimum_window_s as minimum_window_s,
)
from benchrack.vocabulary.models import (
    LoadedModel as LoadedModel,
)
from benchrack.vocabulary.models import (
    Model as Model,
)
from benchrack.vocabulary.models import (
    Preprocessing as Preprocessing,
)
from benchrack.vocabulary.provenance import (
    Provenance as Provenance,
)
from benchrack.vocabulary.provenance import (
    hashed as hashed,
)
from benchrack.vocabulary.provenance import (
    without_passwords as without_passwords,
)
from benchrack.vocabulary.results import (
    Findings as Findings,
)
from benchrack.vocabulary.results import (
    Footprint as Footprint,
)
from benchrack.vocabulary.results import (
    Measurement as Measurement,
)
from benchrack.vocabulary.results import (
    OutputCheck as OutputCheck,
)
from benchrack.vocabulary.results import (
    Power as Power,
)
from benchrack.vocabulary.results import (
    Steadiness as Steadiness,
)
from benchrack.vocabulary.results import (
    Surroundings as Surroundings,
)
from benchrack.vocabulary.scenarios import (
    BACKENDS as BACKENDS,
)
from benchrack.vocabulary.scenarios import (
    BATCH_SIZES as BATCH_SIZES,
)
from benchrack.vocabulary.scenarios import (
    DEVICE_COUNTS as DEVICE_COUNTS,
)
from benchrack.vocabulary.scenarios import (
    MODELS as MODELS,
)
from benchrack.vocabulary.scenarios import (
    Axis as Axis,
)
from benchrack.vocabulary.scenarios import (
    Metric as Metric,
)
from benchrack.vocabulary.scenarios import (
    Rule as Rule,
)
from benchrack.vocabulary.scenarios import (
    Scenario as Scenario,
)
from benchrack.vocabulary.scenarios import (
    Yardstick as Yardstick,
)
from benchrack.vocabulary.settings import Settings as Settings

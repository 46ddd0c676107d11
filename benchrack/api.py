"""All that a plugin imports, in one place: `from benchrack.api import Backend, hookimpl`.

Grouped by where it comes from; what a plugin of each kind needs is in docs/plugins.md.
"""

from __future__ import annotations

from benchrack import hookimpl as hookimpl, toml_tables as toml_tables
from benchrack.bench import observation as observation, warming as warming
from benchrack.bench.bench import Bench as Bench
from benchrack.cache import Cache as Cache
from benchrack.data.comparison import cosines as cosines
from benchrack.energy import integrals as integrals
from benchrack.energy.integrals import Tick as Tick
from benchrack.errors import (
    BenchrackError as BenchrackError,
    CacheError as CacheError,
    CorruptImageError as CorruptImageError,
    DatasetError as DatasetError,
    DescriptorError as DescriptorError,
    OutOfMemoryError as OutOfMemoryError,
    ResultsError as ResultsError,
    UnsupportedError as UnsupportedError,
    WeightsError as WeightsError,
)
from benchrack.flattening import part as part
from benchrack.machine import (
    cgroups as cgroups,
    nvml as nvml,
    processors as processors,
    surroundings as surroundings,
)
from benchrack.machine.memory import ran_out as ran_out
from benchrack.statistics.blocks import percentile as percentile
from benchrack.statistics.interval import Interval as Interval
from benchrack.statistics.order_statistics import (
    median_interval as median_interval,
    wilson as wilson,
)
from benchrack.timing.parts import parts_of as parts_of
from benchrack.timing.rotation import batches_of as batches_of
from benchrack.timing.rounds import (
    MINIMUM_ROUNDS as MINIMUM_ROUNDS,
    expected_before_s as expected_before_s,
    measure_rounds as measure_rounds,
    measure_singly as measure_singly,
    warm_up as warm_up,
)
from benchrack.verdict.rules import HARMLESS_THROTTLING as HARMLESS_THROTTLING
from benchrack.verdict.tolerances import tolerance as tolerance
from benchrack.vocabulary.backends import (
    Backend as Backend,
    Engine as Engine,
    PrepareRequest as PrepareRequest,
    Session as Session,
    TrainingSession as TrainingSession,
)
from benchrack.vocabulary.cases import Case as Case
from benchrack.vocabulary.combining import total as total
from benchrack.vocabulary.datasets import (
    Dataset as Dataset,
    Sample as Sample,
    Split as Split,
    SplitRequest as SplitRequest,
)
from benchrack.vocabulary.descriptors import (
    ACCELERATOR_FIGURES as ACCELERATOR_FIGURES,
    CONFIDENCES as CONFIDENCES,
    SERVER_FIGURES as SERVER_FIGURES,
    Accelerator as Accelerator,
    Cited as Cited,
    Configuration as Configuration,
    Server as Server,
    match as match,
)
from benchrack.vocabulary.devices import Device as Device
from benchrack.vocabulary.meters import (
    Conditions as Conditions,
    Domain as Domain,
    Meter as Meter,
    Method as Method,
    OpenMeter as OpenMeter,
    Reading as Reading,
    Trace as Trace,
    WaitableClock as WaitableClock,
    minimum_window_s as minimum_window_s,
)
from benchrack.vocabulary.models import (
    LoadedModel as LoadedModel,
    Model as Model,
    Preprocessing as Preprocessing,
)
from benchrack.vocabulary.provenance import (
    Provenance as Provenance,
    hashed as hashed,
    without_passwords as without_passwords,
)
from benchrack.vocabulary.results import (
    Findings as Findings,
    Footprint as Footprint,
    Measurement as Measurement,
    OutputCheck as OutputCheck,
    Power as Power,
    Steadiness as Steadiness,
    Surroundings as Surroundings,
)
from benchrack.vocabulary.scenarios import (
    BACKENDS as BACKENDS,
    BATCH_SIZES as BATCH_SIZES,
    DEVICE_COUNTS as DEVICE_COUNTS,
    MODELS as MODELS,
    Axis as Axis,
    Metric as Metric,
    Rule as Rule,
    Scenario as Scenario,
    Yardstick as Yardstick,
)
from benchrack.vocabulary.settings import Settings as Settings

"""What one start of a case measured, as data.

Flattened, it is the schema of `extra_info["benchrack"]` and of the journal; reports read nothing
else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchrack.flattening import part
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.combining import of_ranks, total, union, words
from benchrack.vocabulary.meters import Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What had to be done before the first batch, in seconds, and what it was done with."""

    prepare_s: float
    asked_precision: str = ""
    first_batch_s: float | None = None
    weights_used: str = ""
    weights_digest: str = ""
    trained: bool = False
    parameters: int = 0
    multiply_accumulates: int = 0
    data_used: str = ""
    data_digest: str = ""
    data_images: int = 0
    calibration_images: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """How the rounds were taken, and how far they can be trusted.

    `blocks` merge consecutive rounds until their rank lag-1 autocorrelation is small, and
    `independent` says whether that was reached. Single batches (latency) have no rounds.
    `stop_reason` is `interval` or `time-limit`. Warm-up is judged by the times of
    `warmup_windows`, from `warmup_windows_needed` of them on. `transfer` says whether
    H2D and D2H transfers are inside the time (`include`) or not (`exclude`).
    Where they are not, `unsynchronised_share` is the share of some batches' time that passed after
    `synchronize` had returned, until their outputs were there: zero, but for the clock's noise, if
    it waits.
    """

    transfer: str
    warmup_s: float
    warmup_batches: int
    warmup_steady: bool
    warmup_windows: int | None = None
    warmup_windows_needed: int | None = None
    distinct_batches: int | None = None
    rounds: int | None = None
    batches_per_round: int | None = None
    blocks: int | None = None
    independent: bool | None = None
    autocorrelation: float | None = None
    coefficient_of_variation: float | None = None
    stop_reason: str | None = None
    unsynchronised_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """Outputs of a few images against the FP32 reference. `input_spread` is the smallest
    difference between outputs of different images, relative to the largest output: near zero,
    and the check means nothing."""

    images: int
    reference: str
    max_relative_error: float = of_ranks(max)
    cosine: float = of_ranks(min)
    agreement: float = of_ranks(min)
    input_spread: float = of_ranks(min)


@dataclass(frozen=True, slots=True, kw_only=True)
class Power(Conditions):
    """Power and energy beside the measurement, and the cards' conditions (docs/power.md).

    `energy_j` is that of `metered_devices`, which did the work, over `energy_window_s`; it is None
    where one of them could not be read, and `meter_faults` says why. `energy_uncertainty_j` is
    what the method (`counter` or `sampled`) and its periods imply; where the sensor's period was
    not observed it is an assumption, on the safe side. `energy_per_image_j` is that energy ÷ the
    images of the window. `sampled_energy_j` is the same energy by the other method.
    `host_energy_j` is that of CPU packages and DRAM. Images/s per watt are of `average_power_w`,
    and of what it is above `idle_power_w`. `energy_window_too_short` says that a sensor needs a
    longer window, `energy_window_minimum_s`: do not quote its energy. Of accuracy, energy is left
    out then; and nothing is told per image, since images are decoded in its window.

    `system_…` are the whole machine's, in the same window, by the first meter that sees it, as one
    at the wall (`system_meter`): it holds the metered devices, and is not added to them.

    Conditions are those of the rounds that were measured, and of the energy pass where one
    followed, the worse of both; medians are of the rounds. Clocks and utilisation (share of time
    with a kernel running) are over all cards and samples; temperature, memory and power limit are
    those of the hottest, fullest and tightest card.
    """

    meters: tuple[str, ...] = of_ranks(union)
    meters_absent: tuple[str, ...] = of_ranks(union, default=())
    meter_faults: tuple[str, ...] = of_ranks(union, default=())
    metered_devices: tuple[str, ...] = ()
    energy_j: float | None = of_ranks(total, default=None)
    energy_uncertainty_j: float | None = of_ranks(total, default=None)
    energy_per_image_j: float | None = None
    energy_by_device_j: tuple[float, ...] = ()
    sampled_energy_j: float | None = of_ranks(total, default=None)
    host_energy_j: float | None = of_ranks(total, default=None)
    energy_window_s: float | None = of_ranks(min, default=None)
    energy_window_minimum_s: float | None = of_ranks(max, default=None)
    energy_window_too_short: bool | None = of_ranks(max, default=None)
    energy_method: str | None = of_ranks(words, default=None)
    sampling_period_s: float | None = of_ranks(max, default=None)
    sensor_period_s: float | None = of_ranks(max, default=None)
    sensor_period_observed: bool | None = of_ranks(min, default=None)
    average_power_w: float | None = of_ranks(total, default=None)
    idle_power_w: float | None = of_ranks(total, default=None)
    idle_power_spread_w: float | None = of_ranks(total, default=None)
    images_per_s_per_w: float | None = None
    images_per_s_per_w_above_idle: float | None = None
    system_meter: str | None = of_ranks(words, default=None)
    system_energy_j: float | None = of_ranks(total, default=None)
    system_energy_uncertainty_j: float | None = of_ranks(total, default=None)
    system_power_w: float | None = of_ranks(total, default=None)
    system_idle_power_w: float | None = of_ranks(total, default=None)
    system_idle_power_spread_w: float | None = of_ranks(total, default=None)
    system_images_per_s_per_w: float | None = None
    system_images_per_s_per_w_above_idle: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else used the machine meanwhile. `foreign_cpu_share` is the share (0 to 1) of the usable
    CPUs' time that other processes took, and `foreign_cpu_resolution` what the kernel's clock can't
    tell of it; `other_processes` are those on the card, before or after."""

    foreign_cpu_share: float | None = of_ranks(max, default=None)
    foreign_cpu_resolution: float | None = of_ranks(max, default=None)
    threads_used: int | None = None
    usable_cores: int | None = None
    other_processes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a case took of the memory that holds its batches: the host's on a CPU, else the card's.

    `peak_gib` is the most that this process (on a CPU), or everybody (on a card), used up to the
    end of the warm-up; `batches_gib` is how much that is above the ready session. `predicted_gib`
    is what batches of this size were expected to take, from those of the sizes `predicted_from`,
    when `free_gib` were free; None where nothing was predicted.
    """

    peak_gib: float
    batches_gib: float
    free_gib: float | None = None
    predicted_gib: float | None = None
    predicted_from: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The processes, one a device, that ran a case together (docs/scale-out.md).

    The lists are in order of rank. `rank_images_per_s` is each rank's own rate: batch size ÷ the
    median of its own seconds per batch. `skew` is the share by which the fastest rank's time is
    below the slowest's, the median over the rounds; of single batches (latency) that of the ranks'
    medians. `barrier_s` is what the barrier and deciding took a round, on average; no rank's time
    has it. `startup_s` is what starting the processes took, until all had joined; they are kept for
    later cases. `placement` says where each rank ran.
    """

    ranks: int
    nodes: int = 1
    rank_images_per_s: tuple[float, ...] = ()
    skew: float | None = None
    startup_s: float | None = None
    barrier_s: float | None = None
    placement: tuple[str, ...] = ()


OF_ENERGY = frozenset({"power-window-too-short", "energy-uncertain"})
"""Rules of the verdict about energy and power alone: the same row's images/s stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one process measures of a case, whatever its scenario.

    `seconds_per_batch` holds one datum a round (throughput), one a batch (latency, accuracy); it
    becomes pytest-benchmark's `stats.data` and is left out of the flat record. `result` is the
    scenario's own part. Parts that were not measured are None.
    """

    seconds_per_batch: tuple[float, ...] = field(metadata={"flat": False})
    result: Any = field(default=None, metadata={"flat": False})
    steadiness: Steadiness | None = part(default=None)
    output_check: OutputCheck | None = part("output_", default=None)
    power: Power | None = part(default=None)
    surroundings: Surroundings | None = part(default=None)
    footprint: Footprint | None = part("footprint_", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings(Found):
    """What a scenario finds in one process, before it is a record.

    Of several processes `seconds_per_batch` are a round's, as the slowest ran it;
    `own_seconds_per_batch` are this one's (empty: the same), and `between_s` what passed between
    two rounds. `engine` is what computed it where that is not the session's.
    """

    own_seconds_per_batch: tuple[float, ...] = ()
    between_s: float | None = None
    first_batch_s: float | None = None
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(Found):
    """What one start of one case measured.

    `share_of_peak` is model operations × images/s ÷ the published peak of the card at that
    arithmetic (or FP32's, see peak.share_of_peak); `start` numbers the fresh processes that
    measured the case; `placement` says where its one process ran, as those of `world` do of
    several; `machine` is the digest that the run's provenance stands behind; `reasons` are the
    verdict, empty if it is valid.
    """

    case: Case = part()
    engine: Engine = part("engine_")
    preparation: Preparation = part()
    world: World | None = part("world_", default=None)
    share_of_peak: float | None = None
    start: int = 1
    placement: str = ""
    machine: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.reasons

    @property
    def energy_reasons(self) -> tuple[str, ...]:
        """The reasons against energy and power alone."""
        return tuple(r for r in self.reasons if r.partition(":")[0] in OF_ENERGY)

    @property
    def other_reasons(self) -> tuple[str, ...]:
        """The reasons against images/s, percentiles and shares too."""
        return tuple(r for r in self.reasons if r not in self.energy_reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A planned case that gave no measurement, and why.

    `status` is `unsupported`, `out-of-memory`, `failed`, `interrupted`, `not-run`, or `resumed`
    where an earlier run measured it.
    """

    case: Case = part()
    status: str
    reason: str

"""The keys of a sweep that are not axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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

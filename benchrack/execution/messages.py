"""What the processes of one machine say to each other; they are pickled."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchrack.energy.metering import Idle
from benchrack.errors import BenchrackError, TimeLimitError, WorkerError, rebuilt
from benchrack.machine.placement import Place
from benchrack.records.record import from_record, to_record
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import Domain
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Scenario
from benchrack.vocabulary.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a process needs to build the same bench: everything is by value or by name.

    It comes first; every other message to the process is a case. `places` are where the processes
    run, here or in a world; none is bound to anything without.
    """

    settings: Settings
    device: Device
    cache: str
    idle: Mapping[Domain, Idle] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()
    conftests: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    path: tuple[str, ...] = field(default_factory=lambda: tuple(sys.path))


@dataclass(frozen=True, slots=True)
class Phase:
    """What a case is doing."""

    name: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement as its flat record, in JSON: what a framework or a conftest.py puts into it may
    be of a class that is not here, such as torch's own kind of text for its version."""

    record: str
    seconds_per_batch: tuple[float, ...]

    @classmethod
    def of(cls, measurement: Measurement) -> Measured:
        samples = tuple(map(float, measurement.seconds_per_batch))  # numpy's would need it there
        return cls(json.dumps(to_record(measurement)), samples)

    def measurement(self, scenarios: Mapping[str, Scenario]) -> Measurement:
        return from_record(json.loads(self.record), self.seconds_per_batch, scenarios)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An error in words: its class, its message, its traceback or other details. Where the process
    has `ended`, or will, nothing more can be asked of it."""

    kind: str
    message: str
    details: str = ""
    ended: bool = False

    @classmethod
    def of(cls, error: Exception) -> Failed:
        if isinstance(error, TimeLimitError | WorkerError):
            details = error.details
        else:
            details = "".join(traceback.format_exception(error))
        return cls(kind=type(error).__name__, message=str(error), details=details)

    def error(self) -> BenchrackError:
        return rebuilt(self.kind, self.message, self.details)


Answer = Measured | Failed

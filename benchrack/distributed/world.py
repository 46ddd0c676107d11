"""A case with n devices in n processes, one bound to each: on one machine, or on several.

The processes of this machine are started by a launcher (launcher.py), which is driven as a
worker is. On several machines node 0 says what is measured, and hands the outcome to the others; a
case with one device it measures alone.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec

from benchrack.distributed.messages import WorldSetup
from benchrack.distributed.part import Launch, WorldPart
from benchrack.energy.metering import Idle
from benchrack.errors import OutOfMemoryError, RankLostError, UnsupportedError
from benchrack.execution.executors import Alarm, Executor, Worker
from benchrack.execution.messages import Setup
from benchrack.machine.interfaces import interface_of
from benchrack.machine.placement import places
from benchrack.registry.registry import built_in_scenarios
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import Domain
from benchrack.vocabulary.progress import Progress, silent
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Scenario

# What a launcher may take to say which process is late, and to end them all.
GRACE_S = 10.0
# A socket's path has at most 107 bytes (unix(7)); the longest of a launcher have 51 below this:
# `/benchrack-…/pymp-…/listener-…`, each with eight characters of chance.
LONGEST_PLACE = 107 - 51


@dataclass(slots=True)
class World:
    """Runs the cases of several devices, and hands those of one to `one`.

    The processes are kept for the next case with as many devices; they are replaced after a failure
    and for a fresh start. `idle` is the power of the first n devices while nothing runs, by n.
    """

    setup: Setup
    devices: tuple[Device, ...]
    one: Executor
    idle: Mapping[int, Mapping[Domain, Idle]] = field(default_factory=dict)
    scenarios: Mapping[str, Scenario] = field(default_factory=built_in_scenarios)
    alarms: Sequence[Alarm] = ()
    _launcher: Worker | None = None
    _size: int = 0
    _folder: str = ""

    def run(self, case: Case, progress: Progress = silent, *, fresh: bool = False) -> Measurement:
        """Measure a case.

        Raises what `Worker.run` raises; of a process that failed, died or hung, with its rank.
        """
        if case.device_count == 1:
            self._make_room(self)
            return self.one.run(case, progress, fresh=fresh)
        if not fresh and self.ready_for(case.device_count):
            # What ran out of memory beside remains of earlier cases is tried once more without.
            with suppress(OutOfMemoryError):
                return self.run_part(case, None, progress)
        return self.run_part(case, Launch.here(), progress)

    def ready_for(self, size: int) -> bool:
        """Whether the processes of so many devices are there."""
        return self._size == size and self._launcher is not None and self._launcher.running

    def run_part(self, case: Case, launch: Launch | None, progress: Progress) -> Measurement:
        """Measure a case with this machine's part of a world, after launching a new one if told."""
        if launch is not None:
            self._launch(case.device_count, launch)
        if self._launcher is None:
            raise RankLostError("this machine's processes have ended")
        return self._launcher.ask(case, progress)

    def _launch(self, size: int, launch: Launch) -> None:
        """Prepare a launcher; it starts with its first case."""
        self._end_launcher()
        if find_spec("torch") is None:
            raise UnsupportedError(
                f"{size} devices need torch to start their processes: "
                "pip install 'benchrack[pytorch]'"
            )
        local_size = size // launch.nodes
        placed = places(self.devices, local_size)
        self._make_room(self.one)
        self._folder = tempfile.mkdtemp(prefix="benchrack-", dir=_place_of_sockets())
        settings = self.setup.settings
        part = WorldPart(
            size=size,
            local_size=local_size,
            folder=self._folder,
            limit_s=settings.run.case_time_limit_s,
            join_limit_s=settings.nodes.join_limit_s,
            asked_at=time.monotonic(),
            interface=interface_of(launch.address) or "",
            **dataclasses.asdict(launch),
        )
        idle = self.idle.get(local_size, self.setup.idle)
        self._launcher = Worker(
            WorldSetup.of(self.setup, part=part, places=placed, idle=idle),
            command=(sys.executable, "-P", "-m", "benchrack.distributed.launcher"),
            grace_s=GRACE_S,
            alarms=self.alarms,
            scenarios=self.scenarios,
        )
        self._size = size

    def _make_room(self, other: Executor) -> None:
        """A process that waits with a card in hand is a stranger to those that measure on it."""
        if self.devices[0].kind == "cuda":
            (self._end_launcher if other is self else other.close)()

    def _end_launcher(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None
            shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """End all processes."""
        self._end_launcher()
        self.one.close()


def _place_of_sockets() -> str:
    """Where temporary files go, unless a socket's path would be too long there."""
    place = tempfile.gettempdir()
    return place if len(os.fsencode(place)) <= LONGEST_PLACE else "/tmp"

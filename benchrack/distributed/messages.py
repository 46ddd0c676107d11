"""What is said within a world, beside what a worker and pytest say; all of it is pickled."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from benchrack.distributed.part import WorldPart
from benchrack.execution.messages import Setup
from benchrack.timing.ranks import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSetup(Setup):
    """What the launcher of a world is told, and tells its processes."""

    part: WorldPart

    @classmethod
    def of(cls, setup: Setup, **own: Any) -> WorldSetup:
        """A worker's setup with what a world has of its own."""
        return cls(**{f.name: getattr(setup, f.name) for f in dataclasses.fields(setup)} | own)


# --- a rank to its launcher, which sends it cases ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The first message."""

    local_rank: int
    pid: int


@dataclass(frozen=True, slots=True)
class Ready:
    """It has joined all others, and waits for its first case."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer: errors that all ranks know of; they can go on."""

    failures: tuple[Failure, ...]

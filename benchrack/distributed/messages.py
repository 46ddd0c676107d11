"""What is said within a world, beside what a worker and pytest say, and between the machines of a
run; all of it is pickled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchrack.distributed.part import Launch, WorldPart
from benchrack.execution.messages import Answer, Failed, Setup
from benchrack.timing.ranks import Failure
from benchrack.vocabulary.cases import Case


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
    """It has met all others, and waits for its first case."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer: errors that all ranks know of; they can go on."""

    failures: tuple[Failure, ...]


# --- between machines -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """A node that comes to node 0."""

    rank: int
    count: int
    software: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Left:
    """A node leaves the run; or, where the run was `refused`, all do."""

    reason: str
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Node 0 begins with a case, alone or `together` with the others: in a new world, where one is
    to be launched."""

    case: Case
    together: bool
    launch: Launch | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """How a node's own part of a task went. Of those that go well only node 0 keeps what it is."""

    failed: Failed | None


@dataclass(frozen=True, slots=True)
class Settled:
    """What all nodes take a task's outcome to be."""

    answer: Answer

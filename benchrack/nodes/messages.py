"""What the machines of a run say to each other; all of it is pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchrack.distributed.part import Launch
from benchrack.execution.messages import Answer, Failed
from benchrack.vocabulary.cases import Case


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

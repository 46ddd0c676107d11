"""The processes that run one case together, as one of them sees the others."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class Ranks(Protocol):
    """`rank` counts all processes of the case from 0 to `size` − 1, `local_rank` those of this
    machine. Every call is made by all of them, in the same order, and returns when all have made
    it; where one of them is gone, it raises."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def local_rank(self) -> int: ...

    def barrier(self) -> None:
        """Wait for all."""

    def all_reduce_max(self, *values: float) -> tuple[float, ...]:
        """Of each value, the largest that any of them gave."""

    def gather(self, mine: T) -> list[T]:
        """What each of them gave, in order of rank."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The only process of a case: there is nobody to wait for."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    def barrier(self) -> None:
        return None

    def all_reduce_max(self, *values: float) -> tuple[float, ...]:
        return values

    def gather(self, mine: T) -> list[T]:
        return [mine]


ALONE = Alone()


def agreed(ranks: Ranks, decision: bool) -> bool:
    """What rank 0 decides."""
    return bool(ranks.all_reduce_max(decision and ranks.rank == 0)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error that one of the ranks had, in words: its class, its message, its traceback."""

    rank: int
    kind: str
    message: str
    details: str

    @classmethod
    def of(cls, rank: int, error: BaseException) -> Failure:
        return cls(
            rank=rank,
            kind=type(error).__name__,
            message=str(error),
            details="".join(traceback.format_exception(error)),
        )


class RanksError(Exception):
    """Some of the ranks failed where all of them know it: they can go on to the next case."""

    def __init__(self, failures: list[Failure]) -> None:
        self.failures = failures
        super().__init__("; ".join(f"rank {f.rank}: {f.kind}: {f.message}" for f in failures))


class Closing(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closing)


def prepared_by_all(ranks: Ranks, prepare: Callable[[], C], *, in_turn: bool) -> C:
    """What each process prepares; `in_turn`, one of each machine does first, and the others find in
    the cache what it made.

    Where it fails on any, what the others have prepared is closed, and all raise RanksError; a
    process alone raises the error itself.
    """
    if ranks.size == 1:
        return prepare()
    prepared: C | None = None
    for turn in (ranks.local_rank == 0, ranks.local_rank != 0) if in_turn else (True,):
        failure = None
        if turn:
            try:
                prepared = prepare()
            except Exception as error:
                failure = Failure.of(ranks.rank, error)
        if failures := [found for found in ranks.gather(failure) if found is not None]:
            if prepared is not None:
                prepared.close()
            raise RanksError(failures)
    assert prepared is not None
    return prepared

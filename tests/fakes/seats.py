"""Ranks that are threads of one process: what measures in step is tested without a network."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field


@dataclass
class Table:
    """Where `size` threads meet; `local_size` of them count as one machine's."""

    size: int
    local_size: int = 0
    said: list = field(default_factory=list)

    def __post_init__(self):
        self.said = [None] * self.size
        self.barrier = threading.Barrier(self.size, timeout=10)


@dataclass
class Seat:
    """One thread's place at a table: benchrack.timing.ranks.Ranks."""

    table: Table
    rank: int

    @property
    def size(self):
        return self.table.size

    @property
    def local_rank(self):
        return self.rank % (self.table.local_size or self.size)

    def gather(self, mine):
        self.table.said[self.rank] = mine
        self.table.barrier.wait()
        heard = list(self.table.said)
        self.table.barrier.wait()
        return heard

    def barrier(self):
        self.gather(None)

    def all_reduce_max(self, *values):
        return tuple(map(max, zip(*self.gather(values), strict=True)))


def together(size, function, local_size=0):
    """What `function(ranks)` returns for each of them, run at once; one that raises ends all."""
    table = Table(size, local_size)

    def run(rank):
        try:
            return function(Seat(table, rank))
        except BaseException:
            table.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as threads:
        return [future.result() for future in [threads.submit(run, n) for n in range(size)]]

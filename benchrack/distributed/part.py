"""The part of a world that runs on this machine: how many processes, where, and where they meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrack.flattening import flatten, unflatten
from benchrack.machine.placement import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPart:
    """`local_size` of `size` processes, on node `node` of `nodes`; each node has as many.

    They meet at `endpoint` under the name `run_id`; `address` is this machine's, on `interface`
    (empty: gloo chooses). `folder` is for their sockets and logs. A case may take `limit_s`, and
    the processes wait for each other `join_limit_s` at first. `asked_at` is the reading of this
    machine's monotonic clock when they were asked for.
    """

    size: int
    local_size: int
    folder: str
    run_id: str
    limit_s: float
    join_limit_s: float
    asked_at: float
    node: int = 0
    nodes: int = 1
    endpoint: str = "127.0.0.1:0"
    address: str = "127.0.0.1"
    interface: str = ""

    def rank(self, local_rank: int) -> int:
        """A process's number among all. The elastic launcher numbers machines as it likes; results
        are node 0's, so nodes count here."""
        return self.node * self.local_size + local_rank

    def name(self, rank: int) -> str:
        """`rank 1 of 2`, with its machine where there are several."""
        where = f" on node {rank // self.local_size}" if self.nodes > 1 else ""
        return f"rank {rank} of {self.size}{where}"

    @property
    def socket(self) -> str:
        """Where the launcher listens for its processes."""
        return str(Path(self.folder) / "launcher")

    def stack(self, local_rank: int) -> Path:
        """Where a process writes its stack when asked."""
        return Path(self.folder) / f"stack-{local_rank}"

    def stderr(self, local_rank: int) -> str:
        """What a process wrote to its standard error. Torch keeps it in a folder of its run, its
        attempt, of which there is one, and its local rank."""
        logs = sorted(Path(self.folder).glob(f"*/attempt_*/{local_rank}/stderr.log"))
        return logs[-1].read_text(errors="replace") if logs else ""

    def told(self, places: Sequence[Place]) -> dict[str, Any]:
        """What the launcher is told of the world, for JSON."""
        return {
            "part": flatten(self),
            "places": [flatten(place) for place in places],
        }

    @staticmethod
    def read(told: dict[str, Any]) -> tuple[WorldPart, tuple[Place, ...]]:
        """The inverse of `told`."""
        places = tuple(unflatten(Place, place) for place in told["places"])
        return unflatten(WorldPart, told["part"]), places

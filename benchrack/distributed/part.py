"""The part of a world that runs on this machine: how many processes, where, and where they meet."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the processes of a new world meet: at an `endpoint` on node 0, under the name `run_id`.
    Of `nodes` machines this is number `node`, which has `address`."""

    run_id: str
    endpoint: str = f"{LOOPBACK}:0"
    node: int = 0
    nodes: int = 1
    address: str = LOOPBACK

    @classmethod
    def here(cls) -> Launch:
        """On this machine alone."""
        return cls(run_id=secrets.token_hex(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPart(Launch):
    """`local_size` of `size` processes; each machine has as many.

    Their network is `interface` (empty: gloo chooses), `folder` is for their sockets and logs. A
    case may take `limit_s`, and the processes wait for each other `join_limit_s` at first.
    `asked_at` is the reading of this machine's monotonic clock when they were asked for.
    """

    size: int
    local_size: int
    folder: str
    limit_s: float
    join_limit_s: float
    asked_at: float
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

"""Numbers between the processes of a world: all send theirs to rank 0, which answers the largest.

That is a barrier before every round. A collective call of gloo's wakes several threads in turn, in
one to two milliseconds after a round of 100 ms; a plain connection takes a fifth of one.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection

from benchrack.distributed.key import Key
from benchrack.distributed.tcp import Listener, connect
from benchrack.errors import RankLostError

Where = tuple[str, int, bytes]  # address, port, and the key


@dataclass(frozen=True, slots=True)
class Hub:
    """Rank 0's connections to all others, or another's one to rank 0."""

    connections: tuple[Connection, ...]
    leads: bool

    @classmethod
    def open(cls, rank: int, size: int, address: str, tell: Callable[[Where | None], Where]) -> Hub:
        """Connect all processes. `address` is this machine's; `tell` gives all what rank 0 said, by
        some other way."""
        if rank:
            host, port, key = tell(None)
            return cls((connect(host, port, Key(key)),), leads=False)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        server = socket.create_server((address, 0), family=family, backlog=size)
        key = secrets.token_bytes()
        with closing(Listener(server, Key(key), size)) as listener:
            tell((address, int(server.getsockname()[1]), key))
            others = [listener.accept()[0] for _ in range(size - 1)]
        return cls(tuple(others), leads=True)

    def all_reduce_max(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Of each value, the largest that any process gave. Raises RankLostError."""
        form = struct.Struct(f"={len(values)}d")
        try:
            if not self.leads:
                self.connections[0].send_bytes(form.pack(*values))
                return form.unpack(self.connections[0].recv_bytes())
            given = [values, *(form.unpack(one.recv_bytes()) for one in self.connections)]
            largest = tuple(map(max, zip(*given, strict=True)))
            for one in self.connections:
                one.send_bytes(form.pack(*largest))
            return largest
        except EOFError:
            raise RankLostError("another process went: its connection has ended") from None
        except OSError as error:
            raise RankLostError(f"another process went: {error.strerror or error}") from error

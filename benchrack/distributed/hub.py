"""Numbers between the processes of a world: all send theirs to rank 0, which answers the largest.

They meet so before every round. A collective call of gloo's wakes several threads in turn, which
takes one to two milliseconds after a round of 100 ms; a plain socket takes a fifth of one.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from benchrack.errors import PeerLostError

TOKEN_BYTES = 16
HELLO_S = 5.0  # what a stranger that connects may take to say nothing of use

Where = tuple[str, int, bytes]  # address, port, and what a process says to be let in


@dataclass(frozen=True, slots=True)
class Hub:
    """Rank 0's sockets to all others, or another's one to rank 0."""

    sockets: tuple[socket.socket, ...]
    leads: bool

    @classmethod
    def open(cls, rank: int, size: int, address: str, tell: Callable[[Where | None], Where]) -> Hub:
        """Connect all processes. `address` is this machine's; `tell` gives all what rank 0 said, by
        some other way."""
        if rank:
            host, port, token = tell(None)
            connected = socket.create_connection((host, port))
            connected.sendall(token)
            return cls((_prompt(connected),), leads=False)
        token = secrets.token_bytes(TOKEN_BYTES)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.create_server((address, 0), family=family, backlog=size) as listener:
            tell((address, int(listener.getsockname()[1]), token))
            others: list[socket.socket] = []
            while len(others) < size - 1:
                accepted, _ = listener.accept()
                if _knows(accepted, token):
                    others.append(_prompt(accepted))
        return cls(tuple(others), leads=True)

    def most(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Of each value, the largest that any process gave. Raises PeerLostError."""
        form = struct.Struct(f"={len(values)}d")
        try:
            if not self.leads:
                self.sockets[0].sendall(form.pack(*values))
                return form.unpack(_receive(self.sockets[0], form.size))
            given = [values, *(form.unpack(_receive(s, form.size)) for s in self.sockets)]
            largest = tuple(map(max, zip(*given, strict=True)))
            for other in self.sockets:
                other.sendall(form.pack(*largest))
            return largest
        except OSError as error:
            raise PeerLostError(f"another process went: {error.strerror or error}") from error


def _prompt(connected: socket.socket) -> socket.socket:
    """Sends at once, and waits for an answer as long as the other process is there."""
    connected.settimeout(None)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _knows(accepted: socket.socket, token: bytes) -> bool:
    accepted.settimeout(HELLO_S)
    try:
        if hmac.compare_digest(_receive(accepted, TOKEN_BYTES), token):
            return True
    except OSError:
        pass
    accepted.close()
    return False


def _receive(connected: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connected.recv(size - len(received))
        if not more:
            raise ConnectionError("its connection has ended")
        received += more
    return received

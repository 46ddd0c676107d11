"""The line between the machines of one run: JSON messages, one a line, over TCP.

Node 0 listens; every other node connects to it, and stays connected until its run ends. So each
end notices when the other is gone: at once where its process ended, and within a stated time where
the network was cut, since the kernel asks for signs of life.
"""

from __future__ import annotations

import errno
import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from benchrack.distributed.nodes import Nodes, difference
from benchrack.errors import NodeError

LINGER_S = 0.2
LARGEST_BYTES = 1 << 26  # of one message: a record with all its samples is a thousandth of it


class Connection:
    """One end of the line to another node, called `name` in messages."""

    def __init__(self, connected: socket.socket, name: str, silence_limit_s: float) -> None:
        self.name = name
        self._socket = connected
        self._buffer = b""
        self._silence_limit_s = silence_limit_s
        probe_s = max(1, round(silence_limit_s / 3))
        for option, value in (
            (socket.TCP_NODELAY, 1),
            (socket.TCP_KEEPIDLE, probe_s),
            (socket.TCP_KEEPINTVL, probe_s),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, round(silence_limit_s * 1e3)),
        ):
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @property
    def local_address(self) -> str:
        """This machine's address on the line."""
        return str(self._socket.getsockname()[0])

    @property
    def open(self) -> bool:
        """Whether the other end has not hung up, as far as is known."""
        try:
            self._socket.settimeout(0)
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises NodeError where the other end is gone."""
        try:
            self._socket.settimeout(None)  # the kernel's own limit ends it
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise self._gone(error) from error

    def receive(self, limit_s: float) -> dict[str, Any]:
        """The next message. Raises NodeError where none comes in time, the other end is gone, or it
        says that it leaves."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or len(self._buffer) > LARGEST_BYTES:
                raise NodeError(f"{self.name} gave no answer for {limit_s:g} s")
            self._socket.settimeout(left_s)
            try:
                received = self._socket.recv(1 << 16)
            except TimeoutError as error:
                if error.errno is None:  # ours; the kernel's has a number
                    continue
                raise self._gone(error) from error
            except OSError as error:
                raise self._gone(error) from error
            if not received:
                raise NodeError(f"{self.name} has ended without a word: its run was killed")
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "left" in message:
            raise NodeError(f"{self.name} has left the run: {message['left']}")
        if "refused" in message:
            raise NodeError(message["refused"])
        return message

    @property
    def pending(self) -> bool:
        """Whether a whole message has come already."""
        return b"\n" in self._buffer

    def close(self) -> None:
        """Hang up. What the other end sent meanwhile is read first, or it would not get our last
        words: unread data makes the kernel reset the line."""
        deadline = time.monotonic() + LINGER_S
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while (left_s := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left_s)
                if not self._socket.recv(1 << 16):
                    break
        self._socket.close()

    def _gone(self, error: OSError) -> NodeError:
        silent = error.errno == errno.ETIMEDOUT
        reason = f"no sign of life for {self._silence_limit_s:g} s" if silent else error.strerror
        return NodeError(f"the line to {self.name} broke: {reason or error}")


@dataclass(slots=True)
class Link:
    """This node's connections: node 0's to all others, in order; another node's to node 0."""

    nodes: Nodes
    connections: tuple[Connection, ...]

    @property
    def leads(self) -> bool:
        return self.nodes.rank == 0

    @property
    def local_address(self) -> str:
        """This machine's address, as the other nodes reach it."""
        return self.connections[0].local_address

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send to all others, as far as they are there. Raises NodeError for the first that isn't,
        after the others were told."""
        errors = []
        for connection in self.connections:
            try:
                connection.send(message)
            except NodeError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def compare(self, mine: Mapping[str, Any], limit_s: float) -> list[dict[str, Any]]:
        """Every node's manifest, in order, once node 0 has found that they agree in all but what
        is `own`. Raises NodeError, on all nodes, for the first difference."""
        if not self.leads:
            self.connections[0].send(mine)
            manifests: list[dict[str, Any]] = self.connections[0].receive(limit_s)["manifests"]
            return manifests
        try:
            manifests = [dict(mine), *(c.receive(limit_s) for c in self.connections)]
        except NodeError as error:
            self.refuse(str(error))
        for connection, theirs in zip(self.connections, manifests[1:], strict=True):
            if found := difference(mine, theirs, connection.name):
                self.refuse(found)
        self.tell({"manifests": manifests})
        return manifests

    def same(self, mine: Mapping[str, Any], limit_s: float) -> Mapping[str, Any]:
        """What node 0 has, on all nodes. Raises NodeError."""
        if not self.leads:
            told: dict[str, Any] = self.connections[0].receive(limit_s)["same"]
            return told
        self.tell({"same": mine})
        return mine

    def refuse(self, reason: str) -> NoReturn:
        """End the run on all nodes. Raises NodeError."""
        for connection in self.connections:
            try_to_send(connection, {"refused": reason})
        raise NodeError(reason)

    def leave(self, reason: str) -> None:
        """Say goodbye, with the reason, and close the line."""
        for connection in self.connections:
            try_to_send(connection, {"left": reason})
            connection.close()


def try_to_send(connection: Connection, message: Mapping[str, Any]) -> None:
    """Send; whoever is gone needs no telling."""
    with suppress(NodeError):
        connection.send(message)

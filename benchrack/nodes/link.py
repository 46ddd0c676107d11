"""The line between the machines of one run: messages over TCP.

Node 0 listens; every other node connects to it, and stays connected until its run ends. So each
end notices when the other is gone: at once where its process ended, and within a stated time where
the network was cut, since the kernel asks for signs of life.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from benchrack.distributed.tcp import socket_of
from benchrack.errors import NodeError
from benchrack.nodes.messages import Left
from benchrack.nodes.nodes import Nodes, difference

LINGER_S = 0.2


class Line:
    """One end of the line to another node, called `name` in messages."""

    def __init__(self, connection: Connection, name: str, silence_limit_s: float) -> None:
        self.name = name
        self._connection = connection
        self._silence_limit_s = silence_limit_s
        probe_s = max(1, round(silence_limit_s / 3))
        with socket_of(connection) as own:
            self.local_address = str(own.getsockname()[0])
            own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (
                (socket.TCP_KEEPIDLE, probe_s),
                (socket.TCP_KEEPINTVL, probe_s),
                (socket.TCP_KEEPCNT, 3),
                (socket.TCP_USER_TIMEOUT, round(silence_limit_s * 1e3)),
            ):
                own.setsockopt(socket.IPPROTO_TCP, option, value)

    @property
    def pending(self) -> bool:
        """Whether something has come: a message, or that the other end has hung up."""
        try:
            return self._connection.poll()
        except OSError:
            return True

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, message: Any) -> None:
        """Raises NodeError where the other end is gone."""
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._gone(error) from error

    def receive(self, limit_s: float) -> Any:
        """The next message. Raises NodeError where none comes in time, the other end is gone, or it
        says that it leaves."""
        try:
            message = self._connection.recv() if self._connection.poll(limit_s) else None
        except EOFError:
            raise NodeError(f"{self.name} has ended without a word: its run was killed") from None
        except OSError as error:
            raise self._gone(error) from error
        except Exception as error:  # what pickle makes of a class that is not here
            raise NodeError(f"{self.name} has another version of Benchrack: {error}") from error
        if message is None:
            raise NodeError(f"{self.name} gave no answer for {limit_s:g} s")
        if isinstance(message, Left):
            left = "" if message.refused else f"{self.name} has left the run: "
            raise NodeError(left + message.reason)
        return message

    def leave(self, reason: str, *, refused: bool = False) -> None:
        """Say why, if anybody hears it."""
        with suppress(NodeError):
            self.send(Left(reason, refused))

    def close(self) -> None:
        """Hang up. What the other end sent meanwhile is read first, or it would not get our last
        words: unread data makes the kernel reset the line."""
        deadline = time.monotonic() + LINGER_S
        with suppress(OSError), socket_of(self._connection) as own:
            own.shutdown(socket.SHUT_WR)
            while self._connection.poll(max(0.0, deadline - time.monotonic())):
                if not os.read(self.fileno(), 1 << 16):
                    break
        self._connection.close()

    def _gone(self, error: OSError) -> NodeError:
        silent = error.errno == errno.ETIMEDOUT
        reason = f"no sign of life for {self._silence_limit_s:g} s" if silent else error.strerror
        return NodeError(f"the line to {self.name} broke: {reason or error}")


@dataclass(slots=True)
class Link:
    """This node's lines: node 0's to all others, in order; another node's to node 0."""

    nodes: Nodes
    lines: tuple[Line, ...]

    @property
    def leads(self) -> bool:
        return self.nodes.rank == 0

    @property
    def local_address(self) -> str:
        """This machine's address, as the other nodes reach it."""
        return self.lines[0].local_address

    def tell(self, message: Any) -> None:
        """Send to all others, as far as they are there. Raises NodeError for the first that isn't,
        after the others were told."""
        errors = []
        for line in self.lines:
            try:
                line.send(message)
            except NodeError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def compare(self, mine: Mapping[str, Any], limit_s: float) -> list[Mapping[str, Any]]:
        """Every node's manifest, in order, once node 0 has found that they agree in all but what
        is `own`. Raises NodeError, on all nodes, for the first difference. They cross as JSON: what
        a plugin puts into one may be of a class that is not everywhere."""
        if not self.leads:
            self.lines[0].send(json.dumps(mine))
            agreed: list[Mapping[str, Any]] = json.loads(self.lines[0].receive(limit_s))
            return agreed
        try:
            manifests = [mine, *(json.loads(line.receive(limit_s)) for line in self.lines)]
        except NodeError as error:
            self.refuse(str(error))
        for line, theirs in zip(self.lines, manifests[1:], strict=True):
            if found := difference(mine, theirs, line.name):
                self.refuse(found)
        self.tell(json.dumps(manifests))
        return manifests

    def same(self, mine: Mapping[str, Any], limit_s: float) -> Mapping[str, Any]:
        """What node 0 has, on all nodes. Raises NodeError."""
        if self.leads:
            self.tell(mine)
            return mine
        told: Mapping[str, Any] = self.lines[0].receive(limit_s)
        return told

    def refuse(self, reason: str) -> NoReturn:
        """End the run on all nodes. Raises NodeError."""
        for line in self.lines:
            line.leave(reason, refused=True)
        raise NodeError(reason)

    def leave(self, reason: str) -> None:
        """Say goodbye, with the reason, and close the lines."""
        for line in self.lines:
            line.leave(reason)
            line.close()

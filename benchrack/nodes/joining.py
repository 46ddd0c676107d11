"""How the machines of a run find each other: node 0 listens, and the others come to it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection

from benchrack.distributed import tcp
from benchrack.distributed.key import NEEDED, Key, own_key
from benchrack.errors import NodeError
from benchrack.nodes.link import Line, Link
from benchrack.nodes.messages import Greeting
from benchrack.nodes.nodes import Nodes, difference, software
from benchrack.vocabulary.progress import Progress, silent

GREETING_S = 5.0
TRY_S, RETRY_S = 5.0, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """What this node knows of the meeting, and how long it waits for the others (`limit_s`)."""

    nodes: Nodes
    key: Key | None
    limit_s: float
    silence_limit_s: float
    progress: Progress = silent
    started: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return self.started + self.limit_s - time.monotonic()

    def join(self) -> Link:
        """The line to the other nodes, once all are there.

        Raises NodeError where one does not come in time, has another key, or other software.
        """
        there: dict[int, Line] = {}
        try:
            (self._visit if self.nodes.rank else self._host)(there)
        except BaseException:
            for line in there.values():
                line.close()
            raise
        return Link(self.nodes, tuple(there[rank] for rank in sorted(there)))

    def _host(self, there: dict[int, Line]) -> None:
        key = self.key or own_key()
        with closing(tcp.Listener(self._server(), key, self.nodes.count)) as listener:
            while missing := self._missing(there):
                self.progress(f"waiting for {_named(missing)} of {self.nodes.count}")
                self._accept(listener, there, missing)
        Link(self.nodes, tuple(there.values())).tell(self._greeting())

    def _server(self) -> socket.socket:
        """Where there is a key, on every address, since a machine's own name often means its
        loopback to itself; else on loopback alone."""
        family = _family(self.nodes.host)
        address = "::1" if family is socket.AF_INET6 else "127.0.0.1"
        if self.nodes.local:
            address = self.nodes.host
        elif self.key:
            address = ""
        else:
            self.progress(f"warning: no other machine can come to this one without a key: {NEEDED}")
        try:
            return socket.create_server((address, self.nodes.port), family=family, backlog=128)
        except OSError as error:
            raise NodeError(
                f"node 0 can't listen at port {self.nodes.port}: {error.strerror}. Name another "
                "port in --rdzv-endpoint"
            ) from error

    def _greeting(self) -> Greeting:
        return Greeting(rank=self.nodes.rank, count=self.nodes.count, software=software())

    def _missing(self, there: Mapping[int, Line]) -> list[int]:
        """Who is not there, or not any more: nobody speaks before all have come."""
        return [n for n in range(1, self.nodes.count) if n not in there or there[n].pending]

    def _accept(self, listener: tcp.Listener, there: dict[int, Line], missing: list[int]) -> None:
        """Take in the next node that comes, or refuse all who are there."""
        try:
            connection, address = listener.accept(max(0.001, self.left_s))
        except TimeoutError:
            Link(self.nodes, tuple(there.values())).refuse(
                f"{_named(missing)} of {self.nodes.count} did not come to {self.nodes.endpoint} "
                f"within {self.limit_s:g} s (--set join_limit_s=SECONDS waits longer)"
            )
        line = Line(connection, f"what came from {address}", self.silence_limit_s)
        try:
            greeting = line.receive(GREETING_S)
        except NodeError:  # it is gone again
            line.close()
            return
        rank = greeting.rank
        line.name = f"node {rank} ({address})"
        if objection := self._objection(greeting, there, line.name):
            with closing(line):
                Link(self.nodes, (*there.values(), line)).refuse(objection)
        if rank in there:
            there[rank].close()  # it was started anew
        there[rank] = line

    def _objection(self, greeting: Greeting, there: Mapping[int, Line], name: str) -> str | None:
        """Why a node that came can't take part."""
        rank = greeting.rank
        if greeting.count != self.nodes.count:
            return f"{name} has --nnodes={greeting.count}, node 0 has --nnodes={self.nodes.count}"
        double = there[rank].name if rank in there and not there[rank].pending else None
        if not 0 < rank < self.nodes.count or double:
            return f"{name} came beside {double or 'node 0'}: each machine has its own --node-rank"
        return difference({"version of": software()}, {"version of": greeting.software}, name)

    def _visit(self, there: dict[int, Line]) -> None:
        if self.key is None and not self.nodes.local:
            raise NodeError(f"this node has no key to show at {self.nodes.endpoint}: {NEEDED}")
        self.progress(f"looking for node 0 at {self.nodes.endpoint}")
        name = f"node 0 ({self.nodes.host})"
        there[0] = Line(self._found(self.key or own_key()), name, self.silence_limit_s)
        there[0].send(self._greeting())
        self.progress("waiting for the other nodes")
        # Node 0, which may have come later, says itself who is missing in the end.
        there[0].receive(self.limit_s + GREETING_S)

    def _found(self, key: Key) -> Connection:
        """A connection to node 0."""
        while True:
            try:
                timeout_s = min(TRY_S, max(RETRY_S, self.left_s))
                return tcp.connect(self.nodes.host, self.nodes.port, key, timeout_s)
            except socket.gaierror as error:
                raise NodeError(
                    f"--rdzv-endpoint: {self.nodes.host!r} can't be resolved here: {error.strerror}"
                ) from error
            except AuthenticationError:
                raise NodeError(
                    f"node 0 at {self.nodes.endpoint} has another key than this node: {NEEDED}"
                ) from None
            except OSError as error:
                reason = error.strerror or str(error)
            if self.left_s <= 0:
                raise NodeError(
                    f"node 0 could not be reached at {self.nodes.endpoint} within "
                    f"{self.limit_s:g} s ({reason}): start the same command there with "
                    "--node-rank=0, and see that no firewall is between (--set "
                    "join_limit_s=SECONDS waits longer)"
                )
            time.sleep(RETRY_S)


def _family(host: str) -> socket.AddressFamily:
    """IPv4 wherever a host has it, as who comes tries all of its addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:  # node 0 need not know the name by which the others know it
        return socket.AF_INET
    families = [family for family, *_ in found]
    only_6 = families and socket.AF_INET not in families
    return socket.AF_INET6 if only_6 else socket.AF_INET


def _named(ranks: Iterable[int]) -> str:
    return "node " + ", ".join(map(str, ranks))

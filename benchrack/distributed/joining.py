"""How the machines of a run find each other: node 0 listens, and the others come to it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from benchrack.distributed.link import Connection, Link, try_to_send
from benchrack.distributed.nodes import Nodes, difference, software
from benchrack.errors import NodeError
from benchrack.vocabulary.progress import Progress, silent

HELLO_S = 5.0  # what a stranger that connects may take to say who it is
TRY_S, RETRY_S = 5.0, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """What this node knows of the meeting, and how long it waits for the others (`limit_s`)."""

    nodes: Nodes
    limit_s: float
    silence_limit_s: float
    progress: Progress = silent
    started: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return self.started + self.limit_s - time.monotonic()

    def join(self) -> Link:
        """The line to the other nodes, once all are there.

        Raises NodeError where one does not come in time, or has other software.
        """
        return self._visit() if self.nodes.rank else self._host()

    def _host(self) -> Link:
        there: dict[int, Connection] = {}
        family = _family(self.nodes.host)
        try:
            # On every address: a machine's own name often means its loopback to itself.
            listener = socket.create_server(("", self.nodes.port), family=family)
        except OSError as error:
            raise NodeError(
                f"node 0 can't listen at port {self.nodes.port}: {error.strerror}. Name another "
                "port in --rdzv-endpoint"
            ) from error
        with listener, _closing_unless_joined(there):
            while missing := self._missing(there):
                self.progress(f"waiting for {_named(missing)} of {self.nodes.count}")
                self._accept(listener, there, missing)
        link = Link(self.nodes, tuple(there[rank] for rank in sorted(there)))
        link.tell({"joined": self.nodes.count})
        return link

    def _missing(self, there: Mapping[int, Connection]) -> list[int]:
        """Who is not there, or not any more."""
        return [n for n in range(1, self.nodes.count) if n not in there or not there[n].open]

    def _accept(
        self, listener: socket.socket, there: dict[int, Connection], missing: list[int]
    ) -> None:
        """Take in the next node that comes, or refuse all who are there."""
        listener.settimeout(max(0.001, self.left_s))
        try:
            accepted, address = listener.accept()
        except TimeoutError:
            _refuse(
                there.values(),
                f"{_named(missing)} of {self.nodes.count} did not come to {self.nodes.endpoint} "
                f"within {self.limit_s:g} s (--set join_limit_s=SECONDS waits longer)",
            )
        connection = Connection(accepted, f"a stranger at {address[0]}", self.silence_limit_s)
        try:
            greeting = connection.receive(HELLO_S)
            rank = int(greeting["node"])
        except (NodeError, ValueError, KeyError, TypeError):
            connection.close()  # not one of us
            return
        connection.name = f"node {rank} ({address[0]})"
        objection = self._objection(rank, greeting, there, connection.name)
        if objection:
            with _closing_unless_joined({rank: connection}):
                _refuse([*there.values(), connection], objection)
        if rank in there:
            there[rank].close()  # it was started anew
        there[rank] = connection

    def _objection(
        self,
        rank: int,
        greeting: Mapping[str, Any],
        there: Mapping[int, Connection],
        name: str,
    ) -> str | None:
        """Why a node that came can't take part."""
        count = greeting.get("nodes")
        if count != self.nodes.count:
            return f"{name} has --nnodes={count}, node 0 has --nnodes={self.nodes.count}"
        double = there[rank].name if rank in there and there[rank].open else None
        if not 0 < rank < self.nodes.count or double:
            return f"{name} came beside {double or 'node 0'}: each machine has its own --node-rank"
        return difference({"version of": software()}, {"version of": greeting["software"]}, name)

    def _visit(self) -> Link:
        self.progress(f"looking for node 0 at {self.nodes.endpoint}")
        name = f"node 0 ({self.nodes.host})"
        connection = Connection(self._connected(), name, self.silence_limit_s)
        with _closing_unless_joined({0: connection}):
            connection.send(
                {"node": self.nodes.rank, "nodes": self.nodes.count, "software": software()}
            )
            self.progress("waiting for the other nodes")
            # Node 0, which may have come later, says itself who is missing in the end.
            connection.receive(self.limit_s + HELLO_S)
        return Link(self.nodes, (connection,))

    def _connected(self) -> socket.socket:
        while True:
            try:
                timeout_s = min(TRY_S, max(RETRY_S, self.left_s))
                return socket.create_connection((self.nodes.host, self.nodes.port), timeout_s)
            except socket.gaierror as error:
                raise NodeError(
                    f"--rdzv-endpoint: {self.nodes.host!r} can't be resolved here: {error.strerror}"
                ) from error
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


def _refuse(connections: Iterable[Connection], reason: str) -> NoReturn:
    for connection in connections:
        try_to_send(connection, {"refused": reason})
    raise NodeError(reason)


@contextmanager
def _closing_unless_joined(there: Mapping[int, Connection]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for connection in there.values():
            connection.close()
        raise


def interface_of(address: str, root: Path = Path("/")) -> str | None:
    """The network interface that has an address, IPv4 or IPv6; None where none has it."""
    if ":" in address:
        return _interface_of_6(address, root)
    import fcntl
    import struct

    siocgifaddr = 0x8915
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), siocgifaddr, request)
            except OSError:  # no address on this one
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


def _interface_of_6(address: str, root: Path) -> str | None:
    """By the kernel's table: a line an address, of 32 hex digits first and the interface last."""
    bare, _, scope = address.partition("%")  # `fe80::1%eth0` says it itself
    wanted = socket.inet_pton(socket.AF_INET6, bare).hex()
    with suppress(OSError):  # a kernel without IPv6
        for line in (root / "proc/net/if_inet6").read_text().splitlines():
            digits, *_, name = line.split()
            if digits == wanted and scope in ("", name):
                return name
    return None

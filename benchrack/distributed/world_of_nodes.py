"""A world on several machines: node 0 leads, the others follow it from case to case.

For each case node 0 says what is measured, every node runs its part, the others tell how it went,
and node 0 tells all what came of it. So every node has the same outcome, the same record or error.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchrack.distributed.link import Connection, Link
from benchrack.distributed.nodes import address_of
from benchrack.distributed.world import Launch, World
from benchrack.errors import NodeError, PeerLostError, UnsupportedError
from benchrack.execution.executors import error_of
from benchrack.flattening import flatten
from benchrack.records.record import from_record, to_record
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.progress import Progress, silent
from benchrack.vocabulary.results import Measurement

# What the other nodes may take to tell how it went, once one has: to end their processes at most.
SETTLE_S = 20.0
# What this node's processes may take, once another's have ended, to tell why theirs do: torch's
# launcher looks at them twice a second.
OWN_REASON_S = 3.0
WHOLE_S = 5.0  # for the rest of a message that has begun to come

Outcome = dict[str, Any]


@dataclass(slots=True)
class _Bell:
    """Rings when another node speaks, or is lost, while this one measures."""

    connection: Connection
    heard: list[dict[str, Any]] = field(default_factory=list)

    def fileno(self) -> int:
        return self.connection.fileno()

    def ring(self) -> float | None:
        self.heard.append(self.connection.receive(WHOLE_S))
        while self.connection.pending:
            self.heard.append(self.connection.receive(WHOLE_S))
        if any("stop" in m or "error" in m.get("outcome", {}) for m in self.heard):
            return OWN_REASON_S
        return None

    def next(self, what: str, limit_s: float) -> Any:
        """What the next message of that kind says. Raises NodeError."""
        while True:
            message = self.heard.pop(0) if self.heard else self.connection.receive(limit_s)
            if what in message:
                return message[what]


@dataclass(slots=True)
class WorldOfNodes:
    """Runs this node's part of each case. `capacities` are the nodes' numbers of devices.

    A node that is lost ends the case, and every later one but those that node 0 measures alone.
    """

    world: World
    link: Link
    capacities: Sequence[int]
    _bells: tuple[_Bell, ...] = ()
    _ahead: dict[str, Any] | None = None
    _lost: str = ""

    def __post_init__(self) -> None:
        self._bells = tuple(_Bell(connection) for connection in self.link.connections)
        self.world.alarms = self._bells

    def run(self, case: Case, progress: Progress = silent, *, fresh: bool = False) -> Measurement:
        """Measure a case with the other nodes.

        Raises what `World.run` raises, on whatever node it was, and NodeError where a node is lost.
        """
        if self._lost and self.link.leads and case.device_count == 1:
            return self.world.run(case, progress, fresh=fresh)
        if self._lost:
            raise NodeError(f"not measured, since the nodes are apart: {self._lost}")
        run = self._lead if self.link.leads else self._follow
        try:
            outcome = run(case, progress, fresh)
        except NodeError as error:
            self._part_from(error)
            raise
        if "record" in outcome:
            samples = outcome["seconds_per_batch"]
            return from_record(outcome["record"], samples, self.world.scenarios)
        raise error_of(outcome)

    def _part_from(self, error: NodeError) -> None:
        self._lost = str(error)
        self.link.leave(self._lost)

    def _lead(self, case: Case, progress: Progress, fresh: bool) -> Outcome:
        told: dict[str, Any] = {"case": flatten(case)}
        if case.device_count == 1:
            return self._lead_alone(
                told, lambda: _attempt(lambda: self.world.run(case, progress, fresh=fresh))
            )
        try:
            told["part"] = self._launch(case.device_count, fresh)
        except UnsupportedError as error:
            failed = _failed(error)
            return self._lead_alone(told, lambda: failed)
        self.link.tell({"told": told})
        own = _attempt(lambda: self.world.run_part(case, self._here(told["part"]), progress))
        if "error" in own and not self.world.ready_for(case.device_count):
            self.link.tell({"stop": True})
        others = [bell.next("outcome", SETTLE_S) for bell in self._bells]
        return self._settle(_first_failure([own, *others]) or own)

    def _lead_alone(self, told: dict[str, Any], attempt: Callable[[], Outcome]) -> Outcome:
        """What is node 0's own stays, whatever becomes of the others meanwhile."""
        self.link.tell({"told": told})
        outcome = attempt()
        try:
            return self._settle(outcome)
        except NodeError as error:
            self._part_from(error)
            return outcome

    def _settle(self, outcome: Outcome) -> Outcome:
        self.link.tell({"settled": outcome})
        return outcome

    def _follow(self, case: Case, progress: Progress, fresh: bool) -> Outcome:
        (bell,) = self._bells
        limit_s = self.world.setup.settings.run.case_time_limit_s + SETTLE_S
        progress("waiting for node 0")
        told = self._ahead or bell.next("told", limit_s)
        if told["case"] != flatten(case):
            self._ahead = told
            raise UnsupportedError("node 0 has not measured it in this run")
        self._ahead = None
        if "part" in told:
            here = self._here(told["part"])
            own = _attempt(lambda: self.world.run_part(case, here, progress))
            bell.connection.send({"outcome": {key: own[key] for key in _FAILED if key in own}})
        progress("waiting for node 0")
        settled: Outcome = bell.next("settled", limit_s)
        return settled

    def _launch(self, size: int, fresh: bool) -> dict[str, Any] | None:
        """Where a new world meets, if one is needed. Raises UnsupportedError."""
        nodes = self.link.nodes.count
        if size % nodes:
            raise UnsupportedError(
                f"{size} devices can't be split equally between {nodes} machines; one device is "
                "measured on node 0"
            )
        for node, capacity in enumerate(self.capacities):
            if size // nodes > capacity:
                raise UnsupportedError(
                    f"{size} devices are {size // nodes} on each of {nodes} machines, and node "
                    f"{node} has {capacity}"
                )
        if self.world.ready_for(size) and not fresh:
            return None
        address = self.link.local_address
        return {
            "run_id": secrets.token_hex(8),
            "endpoint": address_of(address, _free_port(address)),
            "nodes": nodes,
        }

    def _here(self, launch: dict[str, Any] | None) -> Launch | None:
        if launch is None:
            return None
        return Launch(node=self.link.nodes.rank, address=self.link.local_address, **launch)

    def close(self) -> None:
        self.world.close()
        self.link.leave("its run has ended")


_FAILED = ("error", "message", "traceback")


def _attempt(measure: Callable[[], Measurement]) -> Outcome:
    """How a case went, for JSON. Raises NodeError where a node was lost."""
    try:
        measurement = measure()
    except NodeError:
        raise
    except Exception as error:
        return _failed(error)
    samples = measurement.seconds_per_batch
    return {"record": to_record(measurement), "seconds_per_batch": samples}


def _failed(error: Exception) -> Outcome:
    details = getattr(error, "details", "")
    return dict(zip(_FAILED, (type(error).__name__, str(error), details), strict=True))


def _first_failure(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The error that the others followed from, in the order of nodes; None where all went well."""
    failed = [outcome for outcome in outcomes if "error" in outcome]
    own = [outcome for outcome in failed if outcome["error"] != PeerLostError.__name__]
    return next(iter(own or failed), None)


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])

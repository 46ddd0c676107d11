"""A world on several machines: node 0 leads, the others follow it from case to case.

For each case node 0 says what is measured, every node runs its part, the others tell how it went,
and node 0 tells all what came of it. So every node has the same outcome, the same record or error.
"""

from __future__ import annotations

import dataclasses
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchrack.distributed.part import Launch
from benchrack.distributed.world import World
from benchrack.errors import NodeError, RankLostError, UnsupportedError
from benchrack.execution.messages import Answer, Failed, Measured
from benchrack.nodes.link import Line, Link
from benchrack.nodes.messages import Done, Settled, Task
from benchrack.nodes.nodes import address_of
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.progress import Progress, silent
from benchrack.vocabulary.results import Measurement

# What the other nodes may take to tell how it went, once one has: to end their processes at most.
SETTLE_S = 20.0
# What this node's processes may take, once another's have ended, to tell why theirs do: torch's
# launcher looks at them twice a second.
OWN_REASON_S = 3.0
WHOLE_S = 5.0  # for the rest of a message that has begun to come

M = TypeVar("M")


@dataclass(slots=True)
class _Bell:
    """Rings when another node speaks, or is lost, while this one measures."""

    line: Line
    heard: list[Any] = field(default_factory=list)

    def fileno(self) -> int:
        return self.line.fileno()

    def ring(self) -> float | None:
        message = self.line.receive(WHOLE_S)
        self.heard.append(message)
        return OWN_REASON_S if isinstance(message, Done) and message.failed else None

    def next(self, kind: type[M], limit_s: float) -> M:
        """The next message of a kind. Raises NodeError."""
        while True:
            message = self.heard.pop(0) if self.heard else self.line.receive(limit_s)
            if isinstance(message, kind):
                return message


@dataclass(slots=True)
class WorldOfNodes:
    """Runs this node's part of each case. `capacities` are the nodes' numbers of devices.

    A node that is lost ends the case, and every later one but those that node 0 measures alone.
    """

    world: World
    link: Link
    capacities: Sequence[int]
    _bells: tuple[_Bell, ...] = ()
    _ahead: Task | None = None
    _lost: str = ""

    def __post_init__(self) -> None:
        self._bells = tuple(map(_Bell, self.link.lines))
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
            answer = run(case, progress, fresh)
        except NodeError as error:
            self._part_from(error)
            raise
        if isinstance(answer, Failed):
            raise answer.error()
        return answer.measurement(self.world.scenarios)

    def _part_from(self, error: NodeError) -> None:
        self._lost = str(error)
        self.link.leave(self._lost)

    def _lead(self, case: Case, progress: Progress, fresh: bool) -> Answer:
        if case.device_count == 1:
            return self._lead_alone(
                case, lambda: _attempt(lambda: self.world.run(case, progress, fresh=fresh))
            )
        try:
            task = Task(case=case, together=True, launch=self._launch(case.device_count, fresh))
        except UnsupportedError as error:
            failed = Failed.of(error)
            return self._lead_alone(case, lambda: failed)
        self.link.tell(task)
        own = self._run_part(task, progress)
        if isinstance(own, Failed) and not self.world.ready_for(case.device_count):
            self.link.tell(Done(own))
        others = [bell.next(Done, SETTLE_S).failed for bell in self._bells]
        return self._settle(_first_failure([own, *others]) or own)

    def _lead_alone(self, case: Case, attempt: Callable[[], Answer]) -> Answer:
        """What is node 0's own stays, whatever becomes of the others meanwhile."""
        self.link.tell(Task(case=case, together=False))
        answer = attempt()
        try:
            return self._settle(answer)
        except NodeError as error:
            self._part_from(error)
            return answer

    def _settle(self, answer: Answer) -> Answer:
        self.link.tell(Settled(answer))
        return answer

    def _follow(self, case: Case, progress: Progress, fresh: bool) -> Answer:
        (bell,) = self._bells
        limit_s = self.world.setup.settings.run.case_time_limit_s + SETTLE_S
        progress("waiting for node 0")
        task = self._ahead or bell.next(Task, limit_s)
        self._ahead = task if task.case != case else None
        if self._ahead is not None:
            raise UnsupportedError("node 0 has not measured it in this run")
        if task.together:
            own = self._run_part(task, progress)
            bell.line.send(Done(own if isinstance(own, Failed) else None))
        progress("waiting for node 0")
        return bell.next(Settled, limit_s).answer

    def _run_part(self, task: Task, progress: Progress) -> Answer:
        """This node's part of a task, in a world that is there, or is launched for it."""
        node, address = self.link.nodes.rank, self.link.local_address
        launch = task.launch and dataclasses.replace(task.launch, node=node, address=address)
        return _attempt(lambda: self.world.run_part(task.case, launch, progress))

    def _launch(self, size: int, fresh: bool) -> Launch | None:
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
        endpoint = address_of(address, _free_port(address))
        return Launch(run_id=secrets.token_hex(8), endpoint=endpoint, nodes=nodes)

    def close(self) -> None:
        self.world.close()
        self.link.leave("its run has ended")


def _attempt(measure: Callable[[], Measurement]) -> Answer:
    """How a case went. Raises NodeError where a node was lost."""
    try:
        return Measured.of(measure())
    except NodeError:
        raise
    except Exception as error:
        return Failed.of(error)


def _first_failure(answers: Sequence[Answer | None]) -> Failed | None:
    """The error that the others followed from, in the order of nodes; None where all went well."""
    failed = [answer for answer in answers if isinstance(answer, Failed)]
    own = [answer for answer in failed if answer.kind != RankLostError.__name__]
    return next(iter(own or failed), None)


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])

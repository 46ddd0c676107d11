"""Between the processes of a world on this machine and whoever asks for cases: hands these on, and
gathers the answers."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from multiprocessing.process import BaseProcess

from benchrack.distributed.failures import Ended, cause, late, refusal
from benchrack.distributed.messages import Ready, Refused, Started
from benchrack.distributed.part import WorldPart
from benchrack.distributed.rank import DUMP
from benchrack.execution.lifeline import received
from benchrack.execution.messages import Answer, Failed, Measured, Phase
from benchrack.timing.ranks import Failure
from benchrack.vocabulary.cases import Case

SETTLE_S = 2.0  # for the stderr tail of processes that are ending, and for stacks to be written
GLANCE_S = 0.05


@dataclass(slots=True)
class Rank:
    """One process of this machine, and its answer to the case that is running."""

    local_rank: int
    line: Connection
    pid: int
    process: BaseProcess | None
    ready: bool = False
    answer: Measured | Refused | None = None
    failure: Failure | None = None

    def send(self, case: Case) -> None:
        with suppress(OSError):  # it is ending, and its reason on the way
            self.line.send(case)


class Relay:
    """Serves both sides in threads of its own; whoever asks is at the other end of `line`."""

    def __init__(self, part: WorldPart, line: Connection) -> None:
        self.part, self.line = part, line
        self._ranks: dict[int, Rank] = {}
        self._gone: list[Rank] = []  # in the order in which they ended
        self._case: Case | None = None
        self._reason: Failed | None = None  # once the processes have ended
        self._timer = threading.Timer(0, lambda: None)
        self._changed = threading.Condition()
        self._listener = Listener(part.socket, "AF_UNIX", backlog=part.local_size)

    def start(self, end: Callable[[], None]) -> None:
        """Begin to serve; `end` is called when nobody asks any more."""

        def read() -> None:
            for case in received(self.line):
                self._hand_on(case)
            end()

        for target in (read, self._accept):
            threading.Thread(target=target, daemon=True).start()

    def ended(self, torch_says: str) -> None:
        """All processes have ended: whoever asks, now or next, is told why."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._gone) == len(self._ranks), SETTLE_S)
            ended = [
                Ended(
                    local_rank=rank.local_rank,
                    failure=rank.failure,
                    exit_code=rank.process.exitcode if rank.process else None,
                )
                for rank in self._gone
            ]
            self._reason = dataclasses.replace(cause(self.part, ended, torch_says), ended=True)
            self._answer(self._reason)

    def _hand_on(self, case: Case) -> None:
        with self._changed:
            if self._reason is not None:
                self._tell(self._reason)
                return
            self._case = case
            for rank in self._ranks.values():
                rank.answer = None
                if rank.ready:
                    rank.send(case)
            self._timer = threading.Timer(self.part.limit_s, self._late)
            self._timer.daemon = True
            self._timer.start()

    def _answer(self, answer: Answer) -> None:
        """To the case that is running, if one is."""
        if self._case is not None:
            self._case = None
            self._timer.cancel()
            self._tell(answer)

    def _tell(self, message: Answer | Phase) -> None:
        with suppress(OSError):  # whoever asked is gone, and all of this ends
            self.line.send(message)

    def _accept(self) -> None:
        while True:
            threading.Thread(target=self._hear, args=[self._listener.accept()], daemon=True).start()

    def _hear(self, line: Connection) -> None:
        messages = received(line)
        started: Started = next(messages)
        children = {child.pid: child for child in multiprocessing.active_children()}
        rank = Rank(started.local_rank, line, started.pid, children.get(started.pid))
        with self._changed:
            self._ranks[rank.local_rank] = rank
        for message in messages:
            self._heard(rank, message)
        with self._changed:
            self._gone.append(rank)
            self._changed.notify_all()

    def _heard(self, rank: Rank, message: Phase | Failure | Ready | Measured | Refused) -> None:
        with self._changed:
            match message:
                case Phase():
                    self._tell(message)
                case Failure():
                    rank.failure = message
                case Ready():
                    rank.ready = True
                    if self._case is not None:
                        rank.send(self._case)
                case _:
                    rank.answer = message
                    self._answer_of_all()

    def _answer_of_all(self) -> None:
        """Reply once all have answered; what they answer is the same."""
        answers = [rank.answer for rank in self._ranks.values() if rank.answer is not None]
        if len(answers) == self.part.local_size:
            first = answers[0]
            if isinstance(first, Refused):
                self._answer(refusal(self.part, first.failures))
            else:
                self._answer(first)

    def _late(self) -> None:
        """The time limit has passed: ask all what they are doing."""
        with self._changed:
            if self._case is None:
                return
            for rank in self._ranks.values():
                with suppress(ProcessLookupError):
                    os.kill(rank.pid, DUMP)
            paths = {n: self.part.stack(n) for n in self._ranks}
            for _ in range(round(SETTLE_S / GLANCE_S)):
                if all(path.stat().st_size for path in paths.values()):
                    break
                self._changed.wait(GLANCE_S)
            stacks = {n: path.read_text(errors="replace") for n, path in paths.items()}
            self._answer(dataclasses.replace(late(self.part, stacks), ended=True))

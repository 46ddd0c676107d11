"""Between the processes of a world on this machine and whoever asks for cases: hands these on, and
gathers the answers."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, TextIO

from benchrack.distributed.failures import Ended, Reply, cause, late, refusal
from benchrack.distributed.part import WorldPart
from benchrack.distributed.rank import DUMP
from benchrack.timing.ranks import Failure

SETTLE_S = 2.0  # for the last words of processes that are ending, and for stacks to be written
GLANCE_S = 0.05


@dataclass(slots=True)
class Rank:
    """One process of this machine, and its answer to the case that is running."""

    local_rank: int
    socket: socket.socket
    pid: int
    process: BaseProcess | None
    ready: bool = False
    answer: dict[str, Any] | None = None
    failure: Failure | None = None

    def send(self, case: dict[str, Any]) -> None:
        with suppress(OSError):  # it is ending, and its reason on the way
            self.socket.sendall(json.dumps(case).encode() + b"\n")


class Relay:
    """Serves both sides in threads of its own; `reply` writes one message to whoever asks."""

    def __init__(self, part: WorldPart, reply: Callable[[Reply], None]) -> None:
        self.part, self.reply = part, reply
        self._ranks: dict[int, Rank] = {}
        self._gone: list[Rank] = []  # in the order in which they ended
        self._case: dict[str, Any] | None = None
        self._reason: Reply | None = None  # once the processes have ended
        self._timer = threading.Timer(0, lambda: None)
        self._changed = threading.Condition()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(part.socket)
        self._listener.listen()

    def start(self, cases: TextIO, end: Callable[[], None]) -> None:
        """Begin to serve; `end` is called when the cases end."""

        def read() -> None:
            for line in cases:
                self._hand_on(json.loads(line))
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
            self._reason = cause(self.part, ended, torch_says) | {"ended": True}
            self._answer(self._reason)

    def _hand_on(self, case: dict[str, Any]) -> None:
        with self._changed:
            if self._reason is not None:
                self.reply(self._reason)
                return
            self._case = case
            for rank in self._ranks.values():
                rank.answer = None
                if rank.ready:
                    rank.send(case)
            self._timer = threading.Timer(self.part.limit_s, self._late)
            self._timer.daemon = True
            self._timer.start()

    def _answer(self, message: Reply) -> None:
        """To the case that is running, if one is."""
        if self._case is not None:
            self._case = None
            self._timer.cancel()
            self.reply(message)

    def _accept(self) -> None:
        while True:
            connected, _ = self._listener.accept()
            threading.Thread(target=self._listen, args=(connected,), daemon=True).start()

    def _listen(self, connected: socket.socket) -> None:
        with connected.makefile("r", encoding="utf-8") as lines:
            hello = json.loads(next(lines))
            children = {child.pid: child for child in multiprocessing.active_children()}
            rank = Rank(
                local_rank=hello["local_rank"],
                socket=connected,
                pid=hello["pid"],
                process=children.get(hello["pid"]),
            )
            with self._changed:
                self._ranks[rank.local_rank] = rank
            with suppress(ConnectionError):
                for line in lines:
                    self._heard(rank, json.loads(line))
        with self._changed:
            self._gone.append(rank)
            self._changed.notify_all()

    def _heard(self, rank: Rank, message: dict[str, Any]) -> None:
        with self._changed:
            if "progress" in message:
                self.reply(message)
            elif "failed" in message:
                rank.failure = Failure(**message["failed"])
            elif "ready" in message:
                rank.ready = True
                if self._case is not None:
                    rank.send(self._case)
            else:
                rank.answer = message
                self._answer_of_all()

    def _answer_of_all(self) -> None:
        """Reply once all have answered; what they answer is the same."""
        answers = [rank.answer for rank in self._ranks.values() if rank.answer is not None]
        if len(answers) == self.part.local_size:
            refused = answers[0].get("refused")
            self._answer(
                refusal(self.part, [Failure(**failure) for failure in refused])
                if refused
                else answers[0]
            )

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
            self._answer(late(self.part, stacks) | {"ended": True})

"""A process's line to the one that asks it for cases, and ends with it."""

from __future__ import annotations

import os
import queue
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any


def received(line: Connection) -> Iterator[Any]:
    """What comes, until the other end is gone."""
    with suppress(EOFError, OSError):
        while True:
            yield line.recv()


def own(line: Connection) -> Connection:
    """A line that this process's own children do not keep open."""
    os.set_inheritable(line.fileno(), False)
    os.register_at_fork(after_in_child=line.close)
    return line


class Lifeline:
    """When the other end is gone, this process ends: at once, and wherever it is."""

    def __init__(self, line: Connection) -> None:
        self.send = line.send
        self._line = line
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for message in received(self._line):
                self._asked.put(message)
        except Exception:  # pickle's, say: whoever asks finds it on standard error
            traceback.print_exc()
        os._exit(0)

    def next(self) -> Any:
        """The next message."""
        return self._asked.get()

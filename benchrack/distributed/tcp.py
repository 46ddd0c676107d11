"""TCP connections whose two ends have shown, by HMAC, that they have the same key.

Before that nothing that comes is taken for more than an answer to a challenge; what comes
afterwards may be unpickled.
"""

from __future__ import annotations

import queue
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from benchrack.distributed.key import Key

PROOF_S = 10.0  # what an end may take for each step of its proof
MOST_STRANGERS = 64
RETRY_S = 0.05


def connect(host: str, port: int, key: Key, limit_s: float | None = None) -> Connection:
    """A connection to a listener that has the same key.

    Raises AuthenticationError where it has another, and OSError where there is none.
    """
    with socket.create_connection((host, port), limit_s) as connected:
        connected.settimeout(None)
        connection = _connection(connected)
    try:
        _limit_reads(connection, PROOF_S)
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
        _limit_reads(connection, 0)
    except (AssertionError, BlockingIOError, EOFError):  # no challenge (3.11), silence, the end
        raise ConnectionError("what listens there is something else") from None
    return connection


class Listener:
    """Takes in who has the key. Each is asked in a thread, so a stranger keeps nobody waiting; of
    many more than are `expected` the oldest is sent away. It owns `server`, which listens."""

    def __init__(self, server: socket.socket, key: Key, expected: int) -> None:
        self._most = expected + MOST_STRANGERS
        self._server, self._key = server, key
        self._proven: queue.SimpleQueue[tuple[Connection, str]] = queue.SimpleQueue()
        self._strangers: list[Connection] = []
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def accept(self, limit_s: float | None = None) -> tuple[Connection, str]:
        """The next who has the key, and its address. Raises TimeoutError."""
        try:
            return self._proven.get(timeout=limit_s)
        except queue.Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """Listen no longer, and hang up on all strangers."""
        self._closed.set()
        self._server.shutdown(socket.SHUT_RDWR)  # ends the wait for the next
        self._thread.join()
        self._server.close()
        while self._strangers:
            self._send_oldest_away()

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                accepted, address = self._server.accept()
                connection = _connection(accepted)
                self._strangers.append(connection)
                of = (connection, str(address[0]))
                threading.Thread(target=self._ask, args=of, daemon=True).start()
                room = len(self._strangers) <= self._most
            except (OSError, RuntimeError):  # closed; or too many files, or threads
                room = self._closed.wait(RETRY_S)
            if not room:
                self._send_oldest_away()

    def _ask(self, connection: Connection, address: str) -> None:
        proven = False
        with suppress(Exception):  # whatever a stranger says
            _limit_reads(connection, PROOF_S)
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            _limit_reads(connection, 0)
            proven = True
        with self._lock, suppress(ValueError):
            self._strangers.remove(connection)
        if proven:
            self._proven.put((connection, address))
        else:
            connection.close()

    def _send_oldest_away(self) -> None:
        with (
            self._lock,
            suppress(IndexError, OSError),
            socket_of(self._strangers.pop(0)) as oldest,
        ):
            oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it


@contextmanager
def socket_of(connection: Connection) -> Iterator[socket.socket]:
    """A connection as the socket that it is, for what only a socket can."""
    own = socket.socket(fileno=connection.fileno())
    try:
        yield own
    finally:
        own.detach()


def _connection(connected: socket.socket) -> Connection:
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connected.detach())


def _limit_reads(connection: Connection, seconds: float) -> None:
    limit = struct.pack("ll", int(seconds), 0)
    with socket_of(connection) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

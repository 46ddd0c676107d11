"""Numbers between processes, here threads: who is let in, what comes back, who is missed."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchrack.distributed.hub import Hub
from benchrack.errors import RankLostError


class Board:
    """Where rank 0 tells its address; `strangers` connect before the others know of it."""

    def __init__(self, size, strangers=()):
        self.size, self.strangers = size, strangers
        self.where, self.told = None, threading.Event()

    def tell(self, where):
        if where is not None:
            for words in self.strangers:
                stranger = socket.create_connection(where[:2])
                stranger.sendall(words)
                stranger.close()
            self.where = where
            self.told.set()
        assert self.told.wait(10)
        return self.where

    def open(self):
        with ThreadPoolExecutor(self.size) as threads:
            opening = [
                threads.submit(Hub.open, rank, self.size, "127.0.0.1", self.tell)
                for rank in range(self.size)
            ]
            return [one.result() for one in opening]


def close(hubs):
    for hub in hubs:
        for connection in hub.connections:
            connection.close()


def most(hubs, values):
    with ThreadPoolExecutor(len(hubs)) as threads:
        return list(threads.map(lambda hub, given: hub.all_reduce_max(given), hubs, values))


@pytest.mark.parametrize("size", [2, 5])
def test_all_hear_the_largest_of_each_value(size):
    hubs = Board(size).open()
    for turn in range(3):
        values = [(turn + rank, -rank / 3) for rank in range(size)]
        assert most(hubs, values) == [(turn + size - 1, 0.0)] * size
    close(hubs)


def test_numbers_are_not_rounded():
    hubs = Board(2).open()
    assert most(hubs, [(0.1 + 2**-56,), (0.1,)]) == [(0.1 + 2**-56,)] * 2
    close(hubs)


def test_who_does_not_have_the_key_stays_out():
    hubs = Board(2, strangers=[b"", b"GET / HTTP/1.1\r\n\r\n", bytes(16)]).open()
    assert most(hubs, [(1.0,), (2.0,)]) == [(2.0,)] * 2
    close(hubs)


@pytest.mark.parametrize("lost", [0, 1])
def test_one_that_is_gone_is_missed(lost):
    hubs = Board(2).open()
    close([hubs[lost]])
    with pytest.raises(RankLostError, match="another process went"):
        hubs[1 - lost].all_reduce_max((1.0,))
    close(hubs)

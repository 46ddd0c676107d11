"""Who has the key is let in, and nobody else: strangers learn, change and stop nothing."""

import pickle
import socket
import struct
import threading
from contextlib import closing, suppress
from multiprocessing import AuthenticationError

import pytest

from benchrack.distributed import tcp
from benchrack.distributed.key import Key
from benchrack.distributed.tcp import Listener, connect

KEY, OTHER = Key(b"0123456789abcdef"), Key(b"fedcba9876543210")
CHALLENGE = b"#CHALLENGE#"


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6])
def listening(request):
    """A listener, and where it is."""
    address = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}[request.param]
    try:
        server = socket.create_server((address, 0), family=request.param, backlog=128)
    except OSError as error:
        pytest.skip(f"no {request.param.name} here: {error}")
    where = server.getsockname()[:2]
    with closing(Listener(server, KEY, 1)) as listener:
        yield listener, where


def said_to(stranger):
    """All that a stranger is told until the listener hangs up."""
    stranger.settimeout(10)
    said = b""
    try:
        while more := stranger.recv(1 << 16):
            said += more
    except ConnectionResetError:  # what it sent was not even read
        pass
    return said


class Bomb:
    """Says so where it is unpickled."""

    def __reduce__(self):
        return (BLASTS.append, (1,))


BLASTS = []
LENGTH = struct.Struct("!i")


def framed(message):
    return LENGTH.pack(len(message)) + message


def test_both_ends_that_have_the_key_talk(listening):
    listener, where = listening
    with connect(*where, KEY, 5) as there:
        here, address = listener.accept(5)
        assert address == where[0]
        there.send({"hello": 1})
        assert here.recv() == {"hello": 1}
        here.send("welcome")
        assert there.recv() == "welcome"
        here.close()


def test_another_key_is_told_from_no_listener(listening):
    listener, where = listening
    with pytest.raises(AuthenticationError):
        connect(*where, OTHER, 5)
    with pytest.raises(TimeoutError):
        listener.accept(0)


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(16),
        b"\xff" * 64,
        LENGTH.pack(0x7FFFFFFF),
        LENGTH.pack(-1) + struct.pack("!Q", 1 << 60),
        LENGTH.pack(-5),
        framed(bytes(16)),
        framed(bytes(257)),
        framed(pickle.dumps(Bomb())),
        framed(CHALLENGE + bytes(20)),
    ],
)
def test_a_stranger_is_told_nothing_but_the_challenge(listening, words):
    listener, where = listening
    with socket.create_connection(where) as stranger:
        (size,) = LENGTH.unpack(stranger.recv(4, socket.MSG_WAITALL))
        assert stranger.recv(size, socket.MSG_WAITALL).startswith(CHALLENGE)
        stranger.sendall(words)
        with suppress(OSError):  # it was hung up on already
            stranger.shutdown(socket.SHUT_WR)
        assert said_to(stranger) in (b"", framed(b"#FAILURE#"))
    assert not BLASTS
    with connect(*where, KEY, 5):
        listener.accept(5)[0].close()


def test_silent_strangers_keep_nobody_waiting(listening):
    """Many more than are let wait; the oldest are sent away."""
    listener, where = listening
    strangers = [socket.create_connection(where) for _ in range(20 + tcp.MOST_STRANGERS)]
    with connect(*where, KEY, 5):
        listener.accept(5)[0].close()
    for stranger in strangers[:10]:
        assert said_to(stranger)[4:].startswith(CHALLENGE)
    for stranger in strangers:
        stranger.close()


def test_who_says_nothing_in_time_is_sent_away(listening, monkeypatch):
    monkeypatch.setattr(tcp, "PROOF_S", 1)
    with socket.create_connection(listening[1]) as stranger:
        assert said_to(stranger)[4:].startswith(CHALLENGE)


def test_at_the_end_strangers_are_hung_up_on_and_nobody_listens(listening):
    listener, where = listening
    with socket.create_connection(where) as stranger:
        assert stranger.recv(4)
        listener.close()
        assert said_to(stranger).startswith(CHALLENGE)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where)
    listener._server = socket.create_server(("127.0.0.1", 0))  # for the fixture to close


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH_9.6\r\n", framed(b"hello"), b""])
def test_something_else_that_listens_is_an_error_in_words(words):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            accepted, _ = server.accept()
            with accepted:
                accepted.sendall(words)

        other = threading.Thread(target=answer)
        other.start()
        with pytest.raises(OSError, match=r"something else|bad message length|reset by peer"):
            connect(*server.getsockname(), KEY, 5)
        other.join()

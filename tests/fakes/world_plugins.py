"""Plugins for worlds: backends of the laboratory's, some of which fail on one rank only.

Which rank a process is stands in the environment, as torch's launcher puts it there; `NODE_RANK`
and `TOLD`, where a backend tells that it came to run, are the tests'.
"""

import dataclasses
import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from fakes import laboratory as lab
from fakes.laboratory import benchrack_datasets, benchrack_models  # noqa: F401 - provided too

from benchrack.api import OutOfMemoryError, UnsupportedError, hookimpl

BAD = 1


def bad():
    """Whether this is the process that fails: of one machine rank 1, of several that of node 1."""
    return int(os.environ.get("NODE_RANK", os.environ.get("LOCAL_RANK", "0"))) == BAD


def multiply(images, matrix):
    return images.reshape(len(images), -1) @ matrix


def failing(fail):
    """A computation that fails on one rank."""

    def compute(images, matrix):
        if bad():
            fail()
        return multiply(images, matrix)

    return compute


def die():
    print("about to die", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    tell("hanging")
    threading.Event().wait(120)


def run_out():
    raise OutOfMemoryError("3 GiB were asked for, 2 GiB are free")


def break_down():
    raise ZeroDivisionError("a fault of the backend's")


def tell(word):
    """A line in the tests' file; whole, whoever else writes."""
    if path := os.environ.get("TOLD"):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{word} {os.getpid()}\n".encode())
        os.close(descriptor)


def telling(images, matrix):
    tell("running")
    return multiply(images, matrix)


def long_running(calls=[]):  # noqa: B006 - counts over the calls of a process
    """Tells once that it measures: after the outputs were checked, and the first windows."""
    calls.append(1)
    if len(calls) == 100:
        tell("measuring")


def measuring(images, matrix):
    long_running()
    return multiply(images, matrix)


def preparing():
    """A backend whose preparation is slow, and kept in the cache."""
    backend = lab.backend("cached")

    def prepare(request):
        request.cache.get("fake", {"model": request.model.name}, lambda folder: tell("preparing"))
        tell("prepared")
        return backend.prepare(request)

    return dataclasses.replace(backend, prepare=prepare)


def picky():
    """A backend that does not like one of the devices."""
    backend = lab.backend("picky")

    def prepare(request):
        if bad():
            raise UnsupportedError("this device is too old")
        return backend.prepare(request)

    return dataclasses.replace(backend, prepare=prepare)


@hookimpl
def benchrack_backends():
    return [
        lab.backend(),
        lab.backend("telling", compute=telling),
        lab.backend("measuring", compute=measuring),
        lab.backend("absent", unsupported=lambda device: "no such card"),
        preparing(),
        picky(),
        lab.backend("deadly", compute=failing(die)),
        lab.backend("hanging", compute=failing(hang)),
        lab.backend("full", compute=failing(run_out)),
        lab.backend("broken", compute=failing(break_down)),
    ]

"""One exception class a kind of mistake; messages say what was wrong, found, and to be done."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BenchrackError(Exception):
    """Base of all errors addressed to the user: the message is shown without a traceback."""


class UnknownNameError(BenchrackError):
    """A backend, model, data set, sweep, … was asked for by a name that nobody registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        near = difflib.get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        choices = ", ".join(self.known) or "none is registered"
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {choices}")


class PluginFileError(BenchrackError):
    """A file of plugins that was named can't be read or imported."""


class SweepError(BenchrackError):
    """A sweep file or an option that spans the sweep can't be understood."""


class DeviceError(BenchrackError):
    """The device that was asked for is not in this machine, or its name can't be understood."""


class DatasetError(BenchrackError):
    """A data set is missing, empty, unlabelled, or does not fit the model."""


class CorruptImageError(DatasetError):
    """One image can't be decoded; it is counted and named, and the others are still measured."""


class WeightsError(BenchrackError):
    """Weights are missing, can't be read safely, or do not fit the model."""


class CacheError(BenchrackError):
    """The cache on disk can't be written or read."""


class ResultsError(BenchrackError):
    """A results file (pytest-benchmark's JSON, or a journal) can't be read or written."""


class DescriptorError(BenchrackError):
    """A hardware descriptor is malformed; the message names the file, the key and the line."""


class UnsupportedError(BenchrackError):
    """This machine can't run the case, for a stated reason: a skip, never a failure."""


class OutOfMemoryError(BenchrackError):
    """The case does not fit into the device's (or the host's) memory: a skip with its reason."""


class NodeError(BenchrackError):
    """Another machine of the run is missing, was lost, or does not measure the same."""


class RankLostError(BenchrackError):
    """Another process of a world went while this one waited for it: it follows from that one's
    error, which is the one to tell."""


class TimeLimitError(BenchrackError):
    """A case took longer than it may. `details` says where it was, as far as is known."""

    details = ""


class WorkerError(BenchrackError):
    """A worker process died, or something in it failed that no other class describes.

    `details` is the worker's traceback, where it could give one.
    """

    def __init__(self, message: str, details: str = "") -> None:
        self.details = details
        super().__init__(message)


def rebuilt(kind: str, message: str, details: str = "") -> BenchrackError:
    """An error of another process, of which only words came over: of the same class here, and a
    WorkerError where none of ours foresees it."""
    known = globals().get(kind)
    if not (isinstance(known, type) and issubclass(known, BenchrackError)):
        known, message = WorkerError, f"{kind}: {message}"
    error = known.__new__(known)
    Exception.__init__(error, message)
    if isinstance(error, TimeLimitError | WorkerError):
        error.details = details
    return error

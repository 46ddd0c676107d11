"""A hook that asks for an argument which Benchrack doesn't pass."""

from __future__ import annotations

from benchrack.api import hookimpl


@hookimpl
def benchrack_backends(cache):
    return []


@hookimpl
def benchrack_datasets():
    raise AssertionError("a plugin that can't be registered is asked for nothing")

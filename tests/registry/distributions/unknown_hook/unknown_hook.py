"""A hook with a slip in its name, one without its mark, one that works, one of the future's."""

from __future__ import annotations

from benchrack.api import Dataset, hookimpl


@hookimpl
def benchrack_backend():
    return []


def benchrack_models():
    return []


@hookimpl
def benchrack_datasets():
    return [Dataset(name="survivor", summary="still there", open=lambda *arguments: None)]


@hookimpl(optionalhook=True)
def benchrack_oracles():
    return []

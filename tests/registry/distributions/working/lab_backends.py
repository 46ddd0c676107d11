"""A plugin as it should be: a backend and a data set."""

from __future__ import annotations

from benchrack.api import Backend, Dataset, hookimpl


def unused(*arguments):
    raise AssertionError("only listed, never run")


@hookimpl
def benchrack_backends():
    return [
        Backend(name="lab-fp32", framework="Lab", precision="fp32", summary="1.2", prepare=unused)
    ]


@hookimpl
def benchrack_datasets():
    yield Dataset(name="lab-photos", summary="photos of the lab", open=unused)

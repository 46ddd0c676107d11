"""Hooks that return what they shouldn't."""

from __future__ import annotations

from benchrack.api import Backend, Dataset, hookimpl


def unused(*arguments):
    raise AssertionError("only listed, never run")


@hookimpl
def benchrack_backends():
    return Backend(name="alone", framework="", precision="fp32", summary="", prepare=unused)


@hookimpl
def benchrack_models():
    pass  # and forgets to return


@hookimpl
def benchrack_datasets():
    return [
        "photos",
        "more photos",
        Dataset(name="survivor", summary="still there", open=unused),
    ]


@hookimpl
def benchrack_hardware():
    return {"tesla-x1": object()}

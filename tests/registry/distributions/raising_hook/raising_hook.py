"""One hook raises, one raises half-way, one works."""

from __future__ import annotations

from benchrack.api import Backend, Dataset, hookimpl


def unused(*arguments):
    raise AssertionError("only listed, never run")


@hookimpl
def benchrack_models():
    raise RuntimeError("no licence\nfound on this host")


@hookimpl
def benchrack_backends():
    yield Backend(name="half", framework="Half", precision="fp32", summary="", prepare=unused)
    raise SystemExit(3)


@hookimpl
def benchrack_datasets():
    return [Dataset(name="survivor", summary="still there", open=unused)]

"""Provides a backend of a name that another distribution has, and one of its own, twice."""

from __future__ import annotations

from benchrack.api import Backend, hookimpl


def backend(name):
    return Backend(name=name, framework="", precision="fp32", summary="2.0", prepare=print)


@hookimpl
def benchrack_backends():
    return [backend("lab-fp32"), backend("second-fp32"), backend("second-fp32")]

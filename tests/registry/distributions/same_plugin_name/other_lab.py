"""A plugin under a name that another distribution's plugin has."""

from __future__ import annotations

from benchrack.api import Backend, hookimpl


@hookimpl
def benchrack_backends():
    return [
        Backend(name="other-fp32", framework="", precision="fp32", summary="3.0", prepare=print)
    ]

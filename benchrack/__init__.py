"""Benchrack: a pytest suite that measures deep-learning inference and training on accelerators."""

from __future__ import annotations

import pluggy

hookimpl = pluggy.HookimplMarker("benchrack")

__all__ = ["hookimpl"]

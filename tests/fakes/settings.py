"""A sweep's keys to test with."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchrack.vocabulary.settings import Settings


def make_settings(others: Settings | None = None, /, **keys: Any) -> Settings:
    """Settings with these keys, the others being as they were, or as they are by default."""
    return dataclasses.replace(others or Settings(), **keys)

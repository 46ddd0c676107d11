"""How a long case says what it is doing: `progress("warming up")`."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]


def silent(phase: str) -> None:
    """The progress report of a run that nobody watches."""

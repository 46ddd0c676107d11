"""Reading what the kernel shows below /proc and /sys, below any root."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str | None:
    """The content of a file without white space around it; None where it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The whole number in a file; None where there is none."""
    content = text(path)
    return int(content) if content is not None and content.lstrip("-").isdecimal() else None


def fields(content: str) -> dict[str, str]:
    """Lines of the form `name : value`, the first of each name."""
    found: dict[str, str] = {}
    for line in content.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found

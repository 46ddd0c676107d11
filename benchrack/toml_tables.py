"""TOML files of a user's: read whole, and keys that nobody reads refused, with the nearest name."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchrack.errors import BenchrackError, UnknownNameError


def read(path: Path, what: str, error: type[BenchrackError]) -> tuple[dict[str, Any], str]:
    """A file's content, and its text. `what` it is, such as `a sweep`, stands in the message.

    Raises `error` where it can't be read, or is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), text
    except OSError as problem:
        raise error(f"{path} can't be read as {what}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise error(f"{path} is not TOML, as {what} should be: {problem}") from problem


def unknown(given: Iterable[str], known: Iterable[str], kind: str = "key") -> str | None:
    """What is wrong with the first name that is not known, or None: a misspelt key must not
    vanish."""
    known = list(known)
    beyond = sorted(set(given) - set(known))
    return str(UnknownNameError(kind, beyond[0], known)) if beyond else None

"""What follows the colon in `--dataset=name:argument`."""

from __future__ import annotations

from pathlib import Path

from benchrack.api import DatasetError


def none(name: str, argument: str | None) -> None:
    """Raises DatasetError where an argument was given to a data set that takes none."""
    if argument:
        raise DatasetError(f"{name} takes no argument, but got {argument!r}: --dataset={name}")


def folder(name: str, argument: str | None) -> Path:
    """The folder that was given, resolved. Raises DatasetError where there is none."""
    if not argument:
        raise DatasetError(f"{name} needs the folder of its images: --dataset={name}:DIR")
    path = Path(argument).expanduser().resolve()
    if path.is_dir():
        return path
    what = "is a file, not a folder" if path.exists() else "does not exist"
    raise DatasetError(f"{name}: {path} {what}")

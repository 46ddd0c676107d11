"""Names that can't stand on a command line."""

from __future__ import annotations

from benchrack.api import Dataset, hookimpl

NAMES = ["", "Photos", "photos:large", "a,b", "my photos", "tab\t", None, "survivor"]


@hookimpl
def benchrack_datasets():
    return [Dataset(name=name, summary="", open=lambda *arguments: None) for name in NAMES]

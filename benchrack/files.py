"""A text file, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a file in one go, its folder included: nobody reads half of it, and where the disk
    refuses, what was there before stays. A file keeps its mode. What is no plain file (a link, a
    pipe, /dev/stdout) is written into as it stands. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")
        return
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, partial)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise

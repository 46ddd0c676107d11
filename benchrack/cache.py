"""Slow products on disk: exports, calibrated and quantised models, weights, reference outputs.

An entry is a folder `<kind>/<digest>` whose digest is made of everything that the product depends
on; the key itself is kept beside it as `key.json`. It is made in a temporary folder and renamed, so
an entry is whole or absent; a lock file lets one process make it while others wait.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrack.errors import CacheError

ENVIRONMENT_VARIABLE = "BENCHRACK_CACHE_DIR"


def default_root() -> Path:
    """`$BENCHRACK_CACHE_DIR`, else `$XDG_CACHE_HOME/benchrack`, else `~/.cache/benchrack`."""
    if explicit := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(explicit).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "benchrack"


@dataclass(frozen=True, slots=True)
class Entry:
    """One product: `size_bytes` on disk, the key it was made under."""

    kind: str
    digest: str
    path: Path
    key: Mapping[str, Any]
    size_bytes: int
    modified_s: float


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache below one folder; safe with several processes at once."""

    root: Path

    @classmethod
    def default(cls) -> Cache:
        return cls(default_root())

    def get(self, kind: str, key: Mapping[str, Any], make: Callable[[Path], None]) -> Path:
        """The folder of the product that `key` describes, made by `make(folder)` if it is absent.

        Raises CacheError where the disk refuses (full, read-only); whatever `make` raises leaves
        no entry behind.
        """
        path = self.root / kind / digest(key)
        if (path / "key.json").exists():
            return path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock(path):
                if not (path / "key.json").exists():
                    self._make(path, key, make)
        except OSError as error:
            raise CacheError(
                f"the cache can't write {path.parent}: {error}. Free some space, or move the cache "
                f"with {ENVIRONMENT_VARIABLE}=FOLDER"
            ) from error
        return path

    def _make(self, path: Path, key: Mapping[str, Any], make: Callable[[Path], None]) -> None:
        partial = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
        try:
            make(partial)
            (partial / "key.json").write_text(json.dumps(key, indent=2, sort_keys=True) + "\n")
            if path.exists():  # an entry without its key is a leftover of somebody's own making
                shutil.rmtree(path)
            partial.rename(path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    @contextmanager
    def _lock(self, path: Path) -> Iterator[None]:
        import filelock

        with filelock.FileLock(path.with_name(f".{path.name}.lock")):
            yield

    def entries(self) -> list[Entry]:
        """All products, by kind and newest last."""
        found = []
        for key_file in self.root.glob("*/*/key.json"):
            folder = key_file.parent
            try:
                key = json.loads(key_file.read_text())
                size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
                modified = key_file.stat().st_mtime
            except (OSError, ValueError):
                continue  # another process is clearing it, or it is not ours
            found.append(Entry(folder.parent.name, folder.name, folder, key, size, modified))
        return sorted(found, key=lambda e: (e.kind, e.modified_s))

    def clear(self, kind: str | None = None) -> int:
        """Remove all products, or those of one kind; leftovers of killed runs too. Bytes freed."""
        freed = 0
        folders = [self.root / kind] if kind else [p for p in self.root.glob("*") if p.is_dir()]
        for folder in folders:
            freed += sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            shutil.rmtree(folder, ignore_errors=True)
        return freed


def digest(key: Mapping[str, Any]) -> str:
    """A short, stable name for a key of JSON scalars, lists and mappings."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]

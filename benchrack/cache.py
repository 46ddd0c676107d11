"""Slow products on disk: exports, calibrated and quantised models, weights, reference outputs.

An entry is a folder `<kind>/<digest>` whose digest is made of everything that the product depends
on; the key itself is kept beside it as `key.json`. It is made in a partial folder and renamed, so
an entry is whole or absent; a lock file lets one process make it while others wait.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchrack.errors import BenchrackError, CacheError

if TYPE_CHECKING:
    import filelock

ENVIRONMENT_VARIABLE = "BENCHRACK_CACHE_DIR"

# Nothing else below the root is ever read or removed: it may be a folder that holds other things.
_PRODUCT = re.compile(r"[0-9a-f]{24}")
_PRODUCT_OR_PARTIAL = re.compile(r"\.?([0-9a-f]{24})(\.partial)?")
_ROOM_BYTES = 64 * 1024
_DISK_REFUSES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def default_root() -> Path:
    """`$BENCHRACK_CACHE_DIR`, else `$XDG_CACHE_HOME/benchrack`, else `~/.cache/benchrack`.

    Raises CacheError where the home folder is needed and the user has none.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if explicit := os.environ.get(ENVIRONMENT_VARIABLE):
            return Path(explicit).expanduser().absolute()
        # The XDG specification has a relative path ignored.
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "benchrack"
    except RuntimeError as error:
        raise CacheError(
            f"there is no place for the cache: {error} Set {ENVIRONMENT_VARIABLE}=FOLDER"
        ) from error


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

        Raises CacheError where the disk refuses (full, read-only). Whatever else `make` raises
        passes through, and leaves no entry behind.
        """
        path = self.root / kind / digest(key)
        with _disk(path.parent):
            if (path / "key.json").exists():
                return path
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
            lock.acquire()
        try:
            if not (path / "key.json").exists():
                self._make(path, key, make)
        finally:
            lock.release()
        return path

    def _make(self, path: Path, key: Mapping[str, Any], make: Callable[[Path], None]) -> None:
        partial = path.with_name(f".{path.name}.partial")
        with _disk(path.parent):
            if partial.exists():  # of a run that was killed: whoever makes it holds the lock
                shutil.rmtree(partial)
            partial.mkdir()
        try:
            make(partial)
            with _disk(path.parent):
                (partial / "key.json").write_text(_canonical(key, indent=2) + "\n")
                if path.exists():  # an entry without its key is a leftover of somebody's own making
                    shutil.rmtree(path)
                partial.rename(path)
        except BaseException as error:
            refused = isinstance(error, OSError) and error.errno in _DISK_REFUSES
            # Not all libraries say what the system told them: torch.save does not.
            refused = refused or (_is_full(path.parent) and not isinstance(error, BenchrackError))
            shutil.rmtree(partial, ignore_errors=True)
            if refused and isinstance(error, Exception):
                raise _refusal(path.parent, error) from error
            raise

    def entries(self) -> list[Entry]:
        """All products, by kind and newest last."""
        found = []
        for key_file in self.root.glob("*/*/key.json"):
            folder = key_file.parent
            if not _PRODUCT.fullmatch(folder.name):
                continue
            try:
                key = json.loads(key_file.read_text())
                modified = key_file.stat().st_mtime
                size = _size_bytes(folder)
            except (OSError, ValueError):
                continue  # another process is clearing it, or it is not ours
            found.append(Entry(folder.parent.name, folder.name, folder, key, size, modified))
        return sorted(found, key=lambda e: (e.kind, e.modified_s))

    def clear(self, kind: str | None = None) -> int:
        """Remove all products, or those of one kind; leftovers of killed runs too. Bytes freed.

        What another process is making just now is left to it. Raises CacheError where the disk
        refuses. Lock files, which are empty, stay: processes that wait hold them open.
        """
        import filelock

        freed = 0
        for path in sorted(self.root.glob("*/*")):
            ours = _PRODUCT_OR_PARTIAL.fullmatch(path.name)
            if not ours or not path.is_dir() or kind not in (None, path.parent.name):
                continue
            with _disk(path.parent):
                try:
                    with _lock(path.with_name(ours[1])).acquire(timeout=0):
                        size = _size_bytes(path)
                        shutil.rmtree(path)
                        freed += size
                except filelock.Timeout:
                    continue
        return freed


def _lock(path: Path) -> filelock.BaseFileLock:
    """The lock of an entry, across processes and threads."""
    import filelock

    return filelock.FileLock(path.with_name(f".{path.name}.lock"))


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """The cache's own work on disk: what refuses it is a CacheError."""
    try:
        yield
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        raise _refusal(folder, error) from error


def _refusal(folder: Path, error: Exception) -> CacheError:
    return CacheError(
        f"the cache can't write {folder}: {error}. Free some space or make it writable, or move "
        f"the cache with {ENVIRONMENT_VARIABLE}=FOLDER"
    )


def _is_full(folder: Path) -> bool:
    """Whether its disk has no more room than a file system keeps for itself."""
    return shutil.disk_usage(folder).free < _ROOM_BYTES


def _size_bytes(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def digest(key: Mapping[str, Any]) -> str:
    """A short, stable name for a key of JSON scalars, lists and mappings."""
    return hashlib.sha256(_canonical(key).encode()).hexdigest()[:24]


def _canonical(key: Mapping[str, Any], indent: int | None = None) -> str:
    return json.dumps(dict(key), indent=indent, sort_keys=True)

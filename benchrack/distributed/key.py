"""The key that the machines of a run share: who does not have it is told nothing."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from benchrack.errors import NodeError

VARIABLE, FILE_VARIABLE = "BENCHRACK_KEY", "BENCHRACK_KEY_FILE"
SHORTEST = 16
PLACE = Path("/tmp")  # wherever a run has its temporary files
NEEDED = (
    f"the machines of a run share a key, in {VARIABLE} or in a file that --key-file=FILE names "
    "(openssl rand -hex 32 makes one)"
)


class Key(bytes):
    """Nothing that prints it, such as a traceback with its variables, tells what it is."""

    def __repr__(self) -> str:
        return "<a key>"

    __str__ = __repr__


def key_of(file: Path | None, environ: Mapping[str, str]) -> Key | None:
    """What was given: an option's file goes before the variables. Raises NodeError."""
    if file is None and VARIABLE in environ:
        return _long_enough(os.fsencode(environ[VARIABLE]), VARIABLE)
    if file is None and not environ.get(FILE_VARIABLE):
        return None
    return _read(file or Path(environ[FILE_VARIABLE]).expanduser())


def _read(path: Path) -> Key:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            given = b"" if mode & 0o077 else file.read()
    except OSError as error:
        raise NodeError(f"the key file {path} can't be read: {error.strerror}") from error
    if mode & 0o077:
        raise NodeError(
            f"the key file {path} is open to others (mode {mode:04o}), who may know the key: write "
            "a new one (openssl rand -hex 32) into a file of mode 0600"
        )
    return _long_enough(given, f"the key file {path}")


def _long_enough(given: bytes, where: str) -> Key:
    key = Key(given.strip())
    if len(key) < SHORTEST:
        raise NodeError(
            f"{where} has {'a very short' if key else 'an empty'} key: at least {SHORTEST} "
            "characters are needed, such as those of `openssl rand -hex 32`"
        )
    return key


def own_key() -> Key:
    """This user's on this machine, in a file that nobody else can read: for runs without a key,
    whose nodes are all here. Raises NodeError."""
    path = PLACE / f"benchrack-{os.getuid()}.key"
    try:
        with NamedTemporaryFile(dir=path.parent) as file, suppress(FileExistsError):  # mode 0600
            file.write(secrets.token_hex().encode())
            file.flush()
            os.link(file.name, path)
        if path.lstat().st_uid == os.getuid():
            return _read(path)
    except OSError as error:
        raise NodeError(f"{path} can't be written: {error.strerror}; {NEEDED}") from error
    raise NodeError(f"{path} is another user's; {NEEDED}")

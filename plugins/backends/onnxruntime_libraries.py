"""The libraries of CUDA, cuDNN and TensorRT that ONNX Runtime's providers link.

`get_available_providers()` lists what a build has, whether or not it can be loaded; where a library
is missing ONNX Runtime computes on the CPU, and only the session tells. Here the loader is asked
beforehand, for each library that a provider names. The provider itself is not loaded: outside a
session its initialisers crash (seen with 1.22.0).
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import struct
from pathlib import Path
from typing import BinaryIO, Literal

# ONNX Runtime 1.31 opens cuDNN itself, at the first convolution, and does not name it as linked.
LATE = {"cuda": "libcudnn.so.9"}
DRIVER = "libcuda.so.1"

_LOAD, _DYNAMIC = 1, 2  # kinds of segments
_NEEDED, _STRING_TABLE = 1, 5  # tags of dynamic entries


def missing(provider: Literal["cuda", "tensorrt"]) -> tuple[str, ...]:
    """The libraries that the installed ONNX Runtime's provider needs and the loader can't find or
    load, by their sonames. Empty where all is there, and where nobody can tell (not on Linux)."""
    import onnxruntime

    folder = Path(onnxruntime.__file__).parent / "capi"
    try:
        linked = needed(folder / f"libonnxruntime_providers_{provider}.so")
    except (OSError, ValueError):
        return ()
    late = LATE.get(provider)
    if late and not any(name.startswith("libcudnn") for name in linked):
        linked = (*linked, late)
    preload()
    if provider == "tensorrt":
        with contextlib.suppress(ImportError):  # NVIDIA's wheel loads its libraries when imported
            import tensorrt_libs  # noqa: F401
    return tuple(name for name in linked if not loads(name))


def preload() -> None:
    """Load CUDA and cuDNN from the packages that PyTorch brings, as far as they fit this build.

    PyTorch goes first, which a run imports too: of libraries with one soname, such as cuDNN for
    CUDA 12 and 13, the one that is loaded first serves both. ONNX Runtime before 1.21 has no
    function of its own, and finds what PyTorch loads.
    """
    import onnxruntime

    with contextlib.suppress(ImportError, OSError):  # not installed, or itself without libraries
        import torch  # noqa: F401
    if hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not find
            onnxruntime.preload_dlls()


def loads(soname: str) -> bool:
    """Whether the loader has a library, or finds one."""
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def needed(library: Path) -> tuple[str, ...]:
    """The sonames that a shared library links, in its order: its entries DT_NEEDED (System V ABI,
    chapter 5; ELF of 64 bits, little-endian).

    Raises OSError, or ValueError for a file of another kind.
    """
    with library.open("rb") as file:
        if file.read(6) != b"\x7fELF\x02\x01":
            raise ValueError(f"{library.name} is no ELF library of 64 bits, little-endian")
        try:
            return _needed(file)
        except struct.error as error:
            raise ValueError(f"{library.name} is cut short") from error


def _needed(file: BinaryIO) -> tuple[str, ...]:
    (table,) = _read(file, 32, "<Q")
    size, count = _read(file, 54, "<HH")
    # Of each segment: kind, flags, offset in the file, address, physical address, size in the file.
    segments = [_read(file, table + n * size, "<IIQQQQ") for n in range(count)]
    entries = [
        _read(file, offset + at, "<QQ")
        for kind, _, offset, _, _, length in segments
        if kind == _DYNAMIC
        for at in range(0, length, 16)
    ]
    names = next((value for tag, value in entries if tag == _STRING_TABLE), 0)
    strings = next(
        (
            names - address + offset
            for kind, _, offset, address, _, length in segments
            if kind == _LOAD and address <= names < address + length
        ),
        0,
    )
    return tuple(_text(file, strings + value) for tag, value in entries if tag == _NEEDED)


def _read(file: BinaryIO, offset: int, layout: str) -> tuple[int, ...]:
    file.seek(offset)
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _text(file: BinaryIO, offset: int) -> str:
    file.seek(offset)
    return file.read(256).partition(b"\0")[0].decode("ascii", "replace")

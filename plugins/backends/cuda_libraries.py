"""Versions of CUDA's libraries that this process has really loaded, be it from a package, from the
system or along LD_LIBRARY_PATH.

Each library that is mapped into the process is asked for its version; none is loaded for it.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

MAPS = Path("/proc/self/maps")


def loaded_versions(*, tensorrt: bool = False, maps: Path = MAPS) -> tuple[str, ...]:
    """`CUDA runtime 13.0`, `cuBLAS 13.1.0`, `cuDNN 9.24.0`: those that are loaded, in this order;
    nothing where the system does not tell (not Linux).

    With `tensorrt` also `TensorRT 10.13.3`: for who uses it, since an earlier session of the same
    process may have loaded it.
    """
    paths = _libraries(maps)
    found: dict[str, None] = {}
    for stem, name, ask in (*LIBRARIES, TENSORRT) if tensorrt else LIBRARIES:
        for path in paths:
            if re.fullmatch(rf"lib{stem}\.so[.\d]*", path.name):
                with suppress(OSError, AttributeError):  # gone since, or without that function
                    found[f"{name} {ask(ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD))}"] = None
    return tuple(found)


def _libraries(maps: Path) -> list[Path]:
    """The files mapped into the process, each once, by name: addresses differ in each process."""
    try:
        lines = maps.read_text(errors="replace").splitlines()
    except OSError:
        return []
    fields = (line.split(maxsplit=5) for line in lines)
    return sorted({Path(f[5]) for f in fields if len(f) == 6 and f[5].startswith("/")})


def _runtime(library: Any) -> str:
    """cudaRuntimeGetVersion: 1000 × major + 10 × minor (CUDA Runtime API)."""
    number = ctypes.c_int()
    library.cudaRuntimeGetVersion(ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def _cublas(library: Any) -> str:
    """cublasGetProperty: 0 is the major version, 1 the minor, 2 the patch (library_types.h)."""
    number, parts = ctypes.c_int(), []
    for kind in range(3):
        library.cublasGetProperty(kind, ctypes.byref(number))
        parts.append(number.value)
    return _dotted(parts)


def _cudnn(library: Any) -> str:
    library.cudnnGetVersion.restype = ctypes.c_size_t
    return _packed(library.cudnnGetVersion(), first_wide=9)


def _tensorrt(library: Any) -> str:
    return _packed(library.getInferLibVersion(), first_wide=10)


def _packed(number: int, first_wide: int) -> str:
    """A version in one number: major × 1000 + minor × 100 + patch, and from the major version
    `first_wide` on major × 10000 (cudnn_version.h, NvInferVersion.h)."""
    scale = 10_000 if number >= first_wide * 10_000 else 1_000
    return _dotted((number // scale, number % scale // 100, number % 100))


def _dotted(parts: Iterable[int]) -> str:
    return ".".join(map(str, parts))


# Name of the library's file, what it is called, and how it tells its version.
LIBRARIES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("cudart", "CUDA runtime", _runtime),
    ("cublas", "cuBLAS", _cublas),
    ("cudnn", "cuDNN", _cudnn),
)
TENSORRT = ("nvinfer", "TensorRT", _tensorrt)

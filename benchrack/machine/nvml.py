"""NVML, the driver's management library behind `nvidia-smi`: opened, its errors in words.

The functions take the module `pynvml` (distribution nvidia-ml-py), so that tests give a fake one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from benchrack.errors import UnsupportedError

T = TypeVar("T")

# The bits of nvmlClocksEventReasons, in nvidia-smi's words.
THROTTLE_REASONS = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)

# NVML's error, and what its reader can do. An error that is not here is shown as NVML words it.
_ADVICE = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": (
        "no NVIDIA driver is installed (libnvidia-ml.so.1 was not found): install one; in a "
        "container, start it with the cards (docker run --gpus all)"
    ),
    "NVML_ERROR_DRIVER_NOT_LOADED": (
        "the NVIDIA driver's kernel module is not loaded: run 'modprobe nvidia' as root and look "
        "at the kernel log if that fails; in a container, start it with the cards"
    ),
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": (
        "the NVIDIA library and the loaded kernel module are of different driver versions, as "
        "after an update: reboot, or unload the nvidia modules and load them again"
    ),
    "NVML_ERROR_NO_PERMISSION": (
        "this user may not ask the NVIDIA driver: see who may read and write /dev/nvidia*, and "
        "whether the container was given the cards"
    ),
    "NVML_ERROR_GPU_IS_LOST": (
        "the card no longer answers, it has fallen off the bus (GPU is lost): look for 'Xid' in "
        "the kernel log, check its power and seating, reboot"
    ),
    "NVML_ERROR_RESET_REQUIRED": "the card needs a reset: run 'nvidia-smi --gpu-reset', or reboot",
    "NVML_ERROR_INSUFFICIENT_POWER": "a power cable of a card is missing: connect it",
    "NVML_ERROR_IRQ_ISSUE": "the kernel can't route a card's interrupt: see the kernel log",
    "NVML_ERROR_CORRUPTED_INFOROM": "the card's info ROM is damaged: ask its maker",
}


def load() -> Any:
    """The module `pynvml`, NVML initialised; shutting it down is the caller's.

    Raises UnsupportedError with the reason why that can't be.
    """
    try:
        import pynvml as nvml
    except ImportError as error:
        raise UnsupportedError(
            "the module pynvml is not installed: run 'pip install nvidia-ml-py'"
        ) from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise UnsupportedError(explain(nvml, error)) from error
    return nvml


@contextmanager
def opened(nvml: Any) -> Iterator[None]:
    """NVML initialised, and shut down at the end. Raises NVMLError where it can't be."""
    nvml.nvmlInit()
    try:
        yield
    finally:
        # A card that was lost meanwhile can make this fail; what was read before stays good.
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def is_error(nvml: Any, error: Exception, *names: str) -> bool:
    """Whether an NVMLError has one of these codes, named without `NVML_ERROR_`."""
    return getattr(error, "value", None) in [getattr(nvml, f"NVML_ERROR_{n}") for n in names]


def is_lost(nvml: Any, error: Exception) -> bool:
    """Whether a card that gave this error will not answer any more."""
    return is_error(nvml, error, "GPU_IS_LOST", "RESET_REQUIRED", "UNINITIALIZED")


def explain(nvml: Any, error: Exception) -> str:
    """An NVMLError in words, with what to do."""
    for name, advice in _ADVICE.items():
        if getattr(error, "value", None) == getattr(nvml, name, None):
            return advice
    return f"the NVIDIA driver answers: {error}; see whether 'nvidia-smi' works"


def known(nvml: Any, ask: Callable[..., T], *arguments: Any) -> T | None:
    """What a call returns, or None where this card, driver or user is not told.

    Raises NVMLError for every other reason.
    """
    try:
        return ask(*arguments)
    except nvml.NVMLError as error:
        if is_error(nvml, error, "NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_PERMISSION"):
            return None
        raise


def throttle_bits(nvml: Any, handle: Any) -> int | None:
    """Why a card's clocks are below their highest now, as a bit mask; None where it does not tell.

    Raises NVMLError.
    """
    for name in ("ClocksEventReasons", "ClocksThrottleReasons"):  # its name before driver 535
        call = getattr(nvml, f"nvmlDeviceGetCurrent{name}", None)
        if call and (bits := known(nvml, call, handle)) is not None:
            return int(bits)
    return None


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Every reason in a bit mask, in words; a bit that nobody documented by its value."""
    named = [name for bit, name in THROTTLE_REASONS if bits & bit]
    unknown = bits & ~sum(bit for bit, _ in THROTTLE_REASONS)
    return (*named, *([f"unknown_{unknown:#x}"] if unknown else []))


def nvlink_peers(nvml: Any, handle: Any) -> Counter[str]:
    """How many active NVLinks lead from a card to each PCI bus id; empty without NVLink."""
    ranks: Counter[str] = Counter()
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if known(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link) is None:
                break
            remote = known(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        except nvml.NVMLError as error:
            if is_error(nvml, error, "INVALID_ARGUMENT"):  # no more links on this card
                break
            raise
        if remote is not None:
            ranks[remote.busId] += 1
    return ranks

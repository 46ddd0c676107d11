"""Which devices a run uses: `auto`, `cpu`, `cuda`, `cuda:N[,M]` or a UUID."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from benchrack.errors import DeviceError, UnsupportedError
from benchrack.machine import nvml
from benchrack.vocabulary.devices import Device

CPU = Device(kind="cpu", name="cpu")
VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
PART = "MIG-"  # how the UUID of a part of a card begins


def count_as_nvml() -> None:
    """Have CUDA count cards in PCI order, in this process and in those that it starts: NVML's order
    and nvidia-smi's. Its own default, the fastest first, would measure another card than the one
    that was named. CUDA reads the variable when it first looks for cards, not when a framework is
    imported."""
    os.environ[ORDER] = "PCI_BUS_ID"


def resolve(asked: str) -> tuple[Device, ...]:
    """The devices that `--device` names, in its order. `auto` is every CUDA card, else the CPU.

    Raises DeviceError where a card is asked for that is not there, or CUDA_VISIBLE_DEVICES names a
    part of a card (MIG) that is not. Counting is NVML's, in PCI order and within
    CUDA_VISIBLE_DEVICES; CUDA is told to count so too.
    """
    count_as_nvml()
    if asked == "cpu":
        return (CPU,)
    if asked not in ("auto", "cuda") and not asked.startswith(("cuda:", "GPU-", PART)):
        raise DeviceError(
            f"--device={asked}: expected auto, cpu, cuda, cuda:N[,M] or the UUID of a card (GPU-…)"
        )
    cards = visible_cards()
    if asked == "auto":
        return cards or (CPU,)
    if not cards:
        raise DeviceError(
            f"--device={asked}: no NVIDIA card is visible here (no driver, or "
            "CUDA_VISIBLE_DEVICES hides them). Use --device=cpu, or see `benchrack doctor`"
        )
    if asked == "cuda":
        return cards
    if asked.startswith("cuda:"):
        parts = asked[5:].split(",")
        return _each_once(asked, [_by_index(asked, part, cards) for part in parts])
    if asked.startswith("GPU-"):
        return _each_once(asked, [_by_uuid(part, cards) for part in asked.split(",")])
    raise DeviceError(
        f"--device={asked}: a part of a card (MIG) is chosen by {VISIBLE}=<its UUID>, one at a "
        "time; leave out --device then"
    )


def _each_once(asked: str, devices: Sequence[Device]) -> tuple[Device, ...]:
    if len(set(devices)) < len(devices):
        raise DeviceError(f"--device={asked}: a card is named twice, and is one device")
    return tuple(devices)


def _by_index(asked: str, part: str, cards: tuple[Device, ...]) -> Device:
    for card in cards:
        if part == str(card.index):
            return card
    present = ", ".join(f"{card} {card.name}" for card in cards)
    raise DeviceError(f"--device={asked}: there is no card {part!r}. Present: {present}")


def _by_uuid(part: str, cards: tuple[Device, ...]) -> Device:
    matches = [card for card in cards if card.uuid.startswith(part)]
    if len(matches) != 1:
        present = ", ".join(card.uuid for card in cards)
        found = "several cards match" if matches else "no card has that UUID"
        raise DeviceError(f"--device={part}: {found}. Present: {present}")
    return matches[0]


def visible_cards() -> tuple[Device, ...]:
    """NVIDIA cards that this process may use, as NVML counts them; empty where there are none.

    A part of a card (MIG) in CUDA_VISIBLE_DEVICES is a device of its own, and the only one: CUDA
    shows a process no more than one part. Raises DeviceError where NVML does not know it.
    """
    visible = os.environ.get(VISIBLE)
    try:
        library = nvml.load()
    except UnsupportedError:  # no library, no driver, no permission: `benchrack doctor` says which
        return ()
    try:
        if visible is not None and visible.strip().startswith(PART):
            return (_part(library, visible.split(",")[0].strip()),)
        return _chosen(_cards(library), visible)
    finally:
        with suppress(library.NVMLError):
            library.nvmlShutdown()


def _chosen(cards: Sequence[Device], visible: str | None) -> tuple[Device, ...]:
    """The cards that CUDA_VISIBLE_DEVICES leaves, in its order, counted anew."""
    if visible is None:
        return tuple(cards)
    chosen: list[Device] = []
    for part in (p.strip() for p in visible.split(",")):
        match = [c for c in cards if part == str(c.index) or (part and c.uuid.startswith(part))]
        if not match:
            break  # CUDA ignores all that follows the first that it does not know
        chosen.append(dataclasses.replace(match[0], index=len(chosen)))
    return tuple(chosen)


def _cards(library: Any) -> list[Device]:
    cards: list[Device] = []
    with suppress(library.NVMLError):
        for index in range(library.nvmlDeviceGetCount()):
            # A card that is lost, or not for this user, hides no other: doctor says which it is.
            with suppress(library.NVMLError):
                handle = library.nvmlDeviceGetHandleByIndex(index)
                mode = nvml.known(library, library.nvmlDeviceGetMigMode, handle)
                cards.append(_device(library, handle, index, mig=bool(mode and mode[0])))
    return cards


def _part(library: Any, uuid: str) -> Device:
    try:
        return _device(library, library.nvmlDeviceGetHandleByUUID(uuid), 0, mig=True)
    except library.NVMLError as error:
        raise DeviceError(
            f"{VISIBLE}={uuid}: the driver does not know this part of a card (MIG): {error}. "
            "`nvidia-smi -L` lists the parts with their whole UUIDs. Supported is one part, by its "
            "UUID; a list of parts, or the form MIG-GPU-…/1/0 of drivers before 470, is not"
        ) from error


def _device(library: Any, handle: Any, index: int, *, mig: bool) -> Device:
    """Raises NVMLError."""
    pci = None
    with suppress(library.NVMLError):
        pci = library.nvmlDeviceGetPciInfo(handle)
    return Device(
        kind="cuda",
        index=index,
        name=_text(library.nvmlDeviceGetName(handle)),
        uuid=_text(library.nvmlDeviceGetUUID(handle)),
        pci_id=f"{pci.pciDeviceId >> 16:04x}" if pci else "",
        mig=mig,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

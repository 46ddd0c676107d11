"""Which devices a run uses: `auto`, `cpu`, `cuda`, `cuda:N[,M]` or a UUID."""

from __future__ import annotations

from contextlib import suppress

from benchrack.errors import DeviceError
from benchrack.types import Device

CPU = Device(kind="cpu", name="cpu")


def resolve(asked: str) -> tuple[Device, ...]:
    """The devices that `--device` names, in its order. `auto` is every CUDA card, else the CPU.

    Raises DeviceError where a card is asked for that is not there. Counting is NVML's, in PCI
    order and within `CUDA_VISIBLE_DEVICES`, as CUDA_DEVICE_ORDER=PCI_BUS_ID makes CUDA count.
    """
    if asked == "cpu":
        return (CPU,)
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
        return tuple(_by_index(asked, part, cards) for part in asked[5:].split(","))
    if asked.startswith("GPU-"):
        return tuple(_by_uuid(part, cards) for part in asked.split(","))
    raise DeviceError(
        f"--device={asked}: expected auto, cpu, cuda, cuda:N[,M] or the UUID of a card (GPU-…)"
    )


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
    """NVIDIA cards that this process may use, as NVML counts them; empty where there are none."""
    import os

    cards = _all_cards()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return cards
    chosen = []
    for part in (p.strip() for p in visible.split(",")):
        match = [c for c in cards if part == str(c.index) or (part and c.uuid.startswith(part))]
        if not match:
            break  # CUDA ignores all that follows the first that it does not know
        chosen.append(match[0])
    return tuple(
        Device(kind="cuda", index=i, name=c.name, uuid=c.uuid) for i, c in enumerate(chosen)
    )


def _all_cards() -> tuple[Device, ...]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver, no permission: `benchrack doctor` says which
        return ()
    cards = []
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            # A card that is lost, or not for this user, hides no other: doctor says which it is.
            with suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
                cards.append(Device(kind="cuda", index=index, name=_text(name), uuid=_text(uuid)))
        return tuple(cards)
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

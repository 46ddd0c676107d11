"""How much memory a batch needs: a line through smaller batches, and what follows from it.

Plain functions of numbers; `footprint.py` takes them on a session, `gauges.py` reads the memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchrack.errors import OutOfMemoryError
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Outcome

GIB = 2**30
# Batches up to this size are tried without asking: so small a model always leaves room for.
SMALL_BATCH = 8
# What allocators say in words, in lower case: NumPy and Python, PyTorch, ONNX Runtime, the C++
# library, the dynamic loader, CUDA, the C library.
SIGNS = (
    "out of memory",
    "unable to allocate",
    "can't allocate memory",
    "cannot allocate memory",
    "failed to allocate memory",
    "bad_alloc",
    "failed to map segment",
    "cudaerrormemoryallocation",
)
# oneDNN says no more than this when its scratch memory is refused, and also for other reasons.
VAGUE_SIGNS = ("could not create a primitive", "could not execute a primitive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The bytes that a batch needs, and the two batch sizes that it was predicted from."""

    needed_bytes: int
    batches: tuple[int, int]


def probes(known: Iterable[int], batch_size: int) -> tuple[int, ...]:
    """Batch sizes to try before a large one, so that two smaller ones are known: a quarter of it,
    and a sixteenth. Far apart, so that what one of them holds in reserve weighs little."""
    smaller = {n for n in known if n < batch_size}
    wanted = [n for n in (batch_size // 16, batch_size // 4) if n >= 1]
    missing = [n for n in dict.fromkeys(wanted) if n not in smaller]
    return tuple(sorted(missing[::-1][: max(0, 2 - len(smaller))]))


def predict(footprints: Mapping[int, int], batch_size: int) -> Prediction | None:
    """The line through the smallest and the largest batch below this one, extended to it; None
    where fewer than two are known.

    `footprints` are bytes by batch size. Memory that an allocator still had in reserve makes small
    batches look cheap, so the line lies below the truth rather than above it.
    """
    known = sorted(n for n in footprints if n < batch_size)
    if len(known) < 2:
        return None
    first, last = known[0], known[-1]
    rise = max(0, footprints[last] - footprints[first]) / (last - first)
    needed = footprints[last] + rise * (batch_size - last)
    return Prediction(needed_bytes=round(needed), batches=(first, last))


def require_room(
    prediction: Prediction, batch_size: int, free_bytes: int, reserve: float, place: str
) -> None:
    """Raises OutOfMemoryError, with the numbers, where a batch can't fit.

    `reserve` is how many times what is free a prediction may be: allocators hold more than they
    need, and no batch is to be refused that would have fitted.
    """
    if prediction.needed_bytes <= free_bytes * reserve:
        return
    first, last = prediction.batches
    raise OutOfMemoryError(
        f"batch {batch_size} needs about {prediction.needed_bytes / GIB:.1f} GiB beside the model, "
        f"as batches {first} and {last} predict; {free_bytes / GIB:.1f} GiB of {place} are free, "
        "and it was not tried"
    )


def smaller_did_not_fit(case: Case, outcomes: Iterable[Outcome]) -> str | None:
    """Why a case need not be tried: a batch of the same that is no larger ran out of memory."""
    full = [
        outcome.case.batch_size
        for outcome in outcomes
        if outcome.status == "out-of-memory"
        and dataclasses.replace(outcome.case, batch_size=case.batch_size) == case
        and outcome.case.batch_size <= case.batch_size
    ]
    return f"not tried: batch {min(full)} did not fit" if full else None


def ran_out(words: str, used_share: float | None = None) -> bool:
    """Whether an error's words mean that memory ran out.

    `used_share` is the share (0 to 1) of the memory it may use that the process had used at its
    peak: with at least half of it gone, vague words are taken for that too.
    """
    said = words.lower()
    if any(sign in said for sign in SIGNS):
        return True
    return (used_share or 0) >= 0.5 and any(sign in said for sign in VAGUE_SIGNS)

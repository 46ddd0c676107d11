"""Which process of a world failed first, and how, in words."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchrack import errors
from benchrack.distributed.part import WorldPart
from benchrack.errors import RankLostError
from benchrack.execution.messages import Failed
from benchrack.machine.memory import ran_out
from benchrack.timing.ranks import Failure

LAST_LINES = 5
# Lines of a C++ stack, as torch appends them to its errors.
NOISE = re.compile(r"\s*(frame #\d+|#\d+ |Exception raised from|C\+\+ CapturedTraceback)")
# A call of the other processes (rank.WorldRanks): who is in one waits for somebody else.
WAITING = re.compile(r'distributed/rank\.py", line \d+ in (all_reduce_max|gather)\n')
# As a traceback and as faulthandler write it, innermost last and first.
FRAME = re.compile(r'File "([^"]*)", line (\d+),? in (\S+)')
LIBRARY = os.path.dirname(os.__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended: the error it told, its exit code (negative: a signal), as far as they
    are known."""

    local_rank: int
    failure: Failure | None = None
    exit_code: int | None = None


def cause(part: WorldPart, ended: Sequence[Ended], otherwise: str) -> Failed:
    """What the others followed from: the first error that is not the loss of another process; else
    the first process that died without a word; else the loss. `ended` is in order of time."""
    failures = [end.failure for end in ended if end.failure is not None]
    own = [failure for failure in failures if failure.kind != RankLostError.__name__]
    # Torch ends those that are left by SIGTERM.
    died = [e for e in ended if e.failure is None and e.exit_code != -signal.SIGTERM]
    if own:
        return by_rank(part, own[0])
    if died:
        said = "\n".join(stderr_tail(part, died[0].local_rank))
        # A library ends the process where its memory is refused.
        kind = "OutOfMemoryError" if ran_out(said) else "WorkerError"
        return _failed(part, kind, _death(part, died[0]))
    if failures:
        return by_rank(part, failures[0])
    return _failed(part, "WorkerError", f"{part.size} processes were started in vain: {otherwise}")


def refusal(part: WorldPart, failures: Sequence[Failure]) -> Failed:
    """An error that all processes know of: as it is where all that tried have the same, else with
    the rank of the first. One process of each machine tries before the others."""
    tried = [rank for rank in range(part.size) if rank % part.local_size == 0]
    same = [failure.rank for failure in failures] in (tried, list(range(part.size)))
    if same and len({failure.message for failure in failures}) == 1:
        return _as_failed(failures[0], readable(failures[0].message))
    return by_rank(part, failures[0])


def late(part: WorldPart, stacks: Mapping[int, str]) -> Failed:
    """A case that took too long, by the stacks of the processes as faulthandler dumps them, by
    local rank; a process without one has not begun."""
    own = {n: _main_thread(stack) for n, stack in sorted(stacks.items())}
    hanging = {n: stack for n, stack in own.items() if not WAITING.search(stack)}
    words = [f"{part.name(part.rank(n))} was in {_place(stack)}" for n, stack in hanging.items()]
    absent = [n for n in range(part.local_size) if n not in stacks]
    words += [f"{part.name(part.rank(n))} had not begun" for n in absent]
    return _failed(
        part,
        "TimeLimitError",
        f"no result after {part.limit_s:g} s: {'; '.join(words) or 'all wait for each other'} "
        "(--set case_time_limit_s=SECONDS allows more)",
        "\n".join(hanging.values()),
    )


def by_rank(part: WorldPart, failure: Failure) -> Failed:
    """An error with the rank that had it; one that no class of ours describes also with where."""
    message = readable(failure.message)
    if not hasattr(errors, failure.kind) and failure.kind != "MemoryError":
        where = _last_frame(failure.details)
        message = f"{failure.kind}: {message}{f', in {where}' if where else ''}"
        failure = dataclasses.replace(failure, kind="WorkerError")
    return _as_failed(failure, f"{part.name(failure.rank)}: {message}")


def _as_failed(failure: Failure, message: str) -> Failed:
    # Python's own error has no hint of what to do; a skip for want of memory is meant.
    kind = "OutOfMemoryError" if failure.kind == "MemoryError" else failure.kind
    return Failed(kind=kind, message=message, details=readable(failure.details))


def _failed(part: WorldPart, kind: str, message: str, details: str = "") -> Failed:
    own = [f"{n}: {line}" for n in range(part.local_size) for line in stderr_tail(part, n)]
    return Failed(kind=kind, message=message, details=details or "\n".join(own))


def _death(part: WorldPart, end: Ended) -> str:
    how = f"ended with exit code {end.exit_code}"
    if end.exit_code is None:
        how = "ended without a word"
    elif end.exit_code < 0:
        name = signal.Signals(-end.exit_code).name
        hint = ", most likely by the kernel for want of memory" if name == "SIGKILL" else ""
        how = f"was ended by {name}{hint}"
    said = " | ".join(stderr_tail(part, end.local_rank))
    return f"{part.name(part.rank(end.local_rank))} {how}{f': {said}' if said else ''}"


def stderr_tail(part: WorldPart, local_rank: int) -> list[str]:
    """The last lines that a process wrote to its standard error."""
    return readable(part.stderr(local_rank)).splitlines()[-LAST_LINES:]


def readable(text: str) -> str:
    """An error's text without the C++ stack that torch appends."""
    return "\n".join(line for line in text.splitlines() if not NOISE.match(line)).strip()


def _main_thread(dump: str) -> str:
    """Of a dump of all threads the one that measures."""
    threads = re.split(r"\n(?=Thread |Current thread )", dump)
    return next((thread for thread in threads if "in _serve" in thread), dump).strip()


def _place(stack: str) -> str:
    """Where a process hangs: the innermost frame that is not of Python's own library."""
    frames = FRAME.findall(stack)
    own = [frame for frame in frames if not frame[0].startswith(LIBRARY) or "-packages" in frame[0]]
    return _in_words((own or frames)[0]) if frames else "no Python code"


def _last_frame(traceback: str) -> str:
    frames = FRAME.findall(traceback)
    return _in_words(frames[-1]) if frames else ""


def _in_words(frame: tuple[str, str, str]) -> str:
    file, line, function = frame
    return f"{function} ({Path(file).name}, line {line})"

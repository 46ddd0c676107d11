"""Where a case runs: in this process (for a debugger), or in a worker process.

A worker that crashes, hangs or is killed ends one case, with its reason, and the sweep goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

from benchrack import errors
from benchrack.bench.bench import Bench
from benchrack.energy.metering import Idle
from benchrack.errors import (
    BenchrackError,
    OutOfMemoryError,
    PeerLostError,
    TimeLimitError,
    WorkerError,
)
from benchrack.execution.running import run_case
from benchrack.flattening import flatten
from benchrack.machine.memory import ran_out
from benchrack.records.record import from_record
from benchrack.registry.registry import built_in_scenarios
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import Domain
from benchrack.vocabulary.progress import Progress, silent
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Scenario
from benchrack.vocabulary.settings import Settings

STDERR_LINES = 5


class Executor(Protocol):
    """Runs cases one at a time; `fresh` asks for a process that has measured nothing yet."""

    def run(self, case: Case, progress: Progress = silent, *, fresh: bool = False) -> Measurement:
        """Raises what `run_case` raises."""

    def close(self) -> None:
        """Give back what it holds."""


@dataclass(slots=True)
class InProcess:
    """Runs cases in this process, where a debugger sees them. There is no fresh start here: several
    starts are refused before it comes to this."""

    bench: Bench

    def run(self, case: Case, progress: Progress = silent, *, fresh: bool = False) -> Measurement:
        try:
            return run_case(dataclasses.replace(self.bench, progress=progress), case)
        finally:
            gc.collect()  # models are large, and the next case wants their memory

    def close(self) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a worker needs to build the same bench: everything is by value or by name."""

    settings: Settings
    device: Device
    cache: str
    idle: Mapping[Domain, Idle] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()
    conftests: tuple[str, ...] = ()


class Alarm(Protocol):
    """Something beside a worker that may end its case: `ring` is called when it can be read, and
    says how many seconds the case may still take, or None."""

    def fileno(self) -> int: ...

    def ring(self) -> float | None:
        """Raises what ends the case at once."""


@dataclass(slots=True)
class Worker:
    """Runs cases in a process of their own, which is kept warm between them.

    It is replaced after a failure that may have left something behind, and for a fresh start. Where
    memory ran out, earlier cases may not have given theirs back: then it is tried once more, alone.
    `scenarios` are those of the registry here, to read what was measured there.
    `told` is what the command needs beside the setup; `grace_s` what it may take above
    `case_time_limit_s` to say itself why it is late, and to end what it started when its input
    does. Without it, it is killed.
    """

    setup: Setup
    # -P: a folder `benchrack` where pytest was called, such as a checkout's, is not the package.
    command: tuple[str, ...] = (sys.executable, "-P", "-m", "benchrack.execution.worker")
    told: Mapping[str, Any] = field(default_factory=dict)
    scenarios: Mapping[str, Scenario] = field(default_factory=built_in_scenarios)
    grace_s: float = 0.0
    alarms: Sequence[Alarm] = ()
    _process: subprocess.Popen[bytes] | None = None
    _replies: IO[bytes] | None = None
    _stderr: IO[bytes] | None = None

    def run(self, case: Case, progress: Progress = silent, *, fresh: bool = False) -> Measurement:
        """Measure a case in the worker.

        Raises what `run_case` raises there, TimeLimitError after `case_time_limit_s`, or
        WorkerError where the process died or failed; that has the worker's traceback.
        """
        if fresh:
            self.close()
        warm = self.running
        try:
            return self.ask(case, progress)
        except OutOfMemoryError:
            if not warm:
                raise
        return self.ask(case, progress)

    def ask(self, case: Case, progress: Progress) -> Measurement:
        """Measure a case in the process that is there, or else in a new one; once."""
        if self._process is None:
            self._start()
        try:
            self._send(flatten(case))
            reply = self._await_reply(progress)
        except BaseException:
            self._kill()  # hung, dead, or interrupted: nothing more can be asked of it
            raise
        if "record" in reply:
            return from_record(reply["record"], reply["seconds_per_batch"], self.scenarios)
        error = error_of(reply)
        # A process goes with what it could not free, or with what broke in it.
        if isinstance(error, OutOfMemoryError | WorkerError) or reply.get("ended"):
            self.close()
        raise error

    @property
    def running(self) -> bool:
        """Whether there is a process that can be asked."""
        return self._process is not None

    def _start(self) -> None:
        reading, writing = os.pipe()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            [*self.command, str(writing)],
            stdin=subprocess.PIPE,
            stdout=self._stderr,
            stderr=self._stderr,
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C is for pytest, which then ends the worker
        )
        os.close(writing)
        self._replies = os.fdopen(reading, "rb", buffering=0)
        setup = {
            "settings": flatten(self.setup.settings),
            "device": flatten(self.setup.device),
            "cache": self.setup.cache,
            "idle": {domain: flatten(idle) for domain, idle in self.setup.idle.items()},
            "disabled": list(self.setup.disabled),
            "conftests": list(self.setup.conftests),
            "path": sys.path,
            **self.told,
        }
        self._send(setup)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None

    def _await_reply(self, progress: Progress) -> dict[str, Any]:
        assert self._replies is not None
        limit_s = self.setup.settings.run.case_time_limit_s
        deadline = time.monotonic() + limit_s + self.grace_s
        pending, rung = b"", False
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            for alarm in self.alarms:
                selector.register(alarm, selectors.EVENT_READ, alarm)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready and rung:
                    raise PeerLostError("another node told that it ended")
                if not ready:
                    raise TimeLimitError(
                        f"no result after {limit_s:g} s: the worker process was ended "
                        "(--set case_time_limit_s=SECONDS allows more)"
                    )
                for key, _ in ready:
                    if key.data is not None and (left_s := key.data.ring()) is not None:
                        deadline, rung = min(deadline, time.monotonic() + left_s), True
                if all(key.data is not None for key, _ in ready):
                    continue
                received = self._replies.read(65536)
                if not received:
                    raise self._death()
                *lines, pending = (pending + received).split(b"\n")
                for line in lines:
                    reply: dict[str, Any] = json.loads(line)
                    if "progress" not in reply:
                        return reply
                    progress(reply["progress"])

    def _death(self) -> BenchrackError:
        assert self._process is not None
        code = self._process.wait()
        said = self._last_words()
        if ran_out(said):  # a library that ends the process where its memory is refused
            return OutOfMemoryError(f"the worker process ended{said}")
        if code >= 0:
            return WorkerError(f"the worker process ended with exit code {code}{said}")
        name = signal.Signals(-code).name
        hint = ", most likely by the kernel for want of memory" if name == "SIGKILL" else ""
        return WorkerError(f"the worker process was ended by {name}{hint}{said}")

    def _last_words(self) -> str:
        assert self._stderr is not None
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return ": " + " | ".join(lines[-STDERR_LINES:]) if lines else ""

    def close(self) -> None:
        """End the worker; it has nothing to lose, since records are kept here."""
        self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        if self.grace_s:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.grace_s)
        with contextlib.suppress(ProcessLookupError):  # it, and what is left of what it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, self._replies, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def error_of(reply: Mapping[str, Any]) -> BenchrackError:
    """Another process's error as the same class here; anything unforeseen is a WorkerError."""
    known = getattr(errors, reply["error"], None)
    if isinstance(known, type) and issubclass(known, BenchrackError) and known is not WorkerError:
        error = errors.rebuilt(known, reply["message"])
        if isinstance(error, TimeLimitError):
            error.details = reply["traceback"]
        return error
    message = reply["message"] if known is WorkerError else f"{reply['error']}: {reply['message']}"
    return WorkerError(message, reply["traceback"])

"""Where a case runs: in this process (for a debugger), or in a worker process.

A worker that crashes, hangs or is killed ends one case, with its reason, and the sweep goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, Any, Protocol

from benchrack.bench.bench import Bench
from benchrack.errors import (
    BenchrackError,
    OutOfMemoryError,
    RankLostError,
    TimeLimitError,
    WorkerError,
)
from benchrack.execution.messages import Answer, Measured, Phase, Setup
from benchrack.execution.running import run_case
from benchrack.machine.memory import ran_out
from benchrack.registry.registry import built_in_scenarios
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.progress import Progress, silent
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Scenario

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
    `grace_s` is what the command may take above `case_time_limit_s` to say itself why it is late,
    and to end what it started when its line does. Without it, it is killed. `scenarios` are those
    of the registry here, to read what was measured there.
    """

    setup: Setup
    # -P: a folder `benchrack` where pytest was called, such as a checkout's, is not the package.
    command: tuple[str, ...] = (sys.executable, "-P", "-m", "benchrack.execution.worker")
    grace_s: float = 0.0
    alarms: Sequence[Alarm] = ()
    scenarios: Mapping[str, Scenario] = field(default_factory=built_in_scenarios)
    _process: subprocess.Popen[bytes] | None = None
    _line: Connection | None = None
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
        try:
            if self._process is None:
                self._start()
            self._send(case)
            answer = self._await_answer(progress)
        except BaseException:
            self.close()  # hung, dead, or interrupted: nothing more can be asked of it
            raise
        if isinstance(answer, Measured):
            return answer.measurement(self.scenarios)
        error = answer.error()
        # A process goes with what it could not free, or with what broke in it.
        if isinstance(error, OutOfMemoryError | WorkerError) or answer.ended:
            self.close()
        raise error

    @property
    def running(self) -> bool:
        """Whether there is a process that can be asked."""
        return self._process is not None

    def _start(self) -> None:
        self._line, theirs = Pipe()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        with theirs:
            self._process = subprocess.Popen(
                [*self.command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for pytest, which then ends the worker
            )
        self._send(self.setup)

    def _send(self, message: Setup | Case) -> None:
        assert self._line is not None
        try:
            self._line.send(message)
        except OSError:
            raise self._death() from None

    def _await_answer(self, progress: Progress) -> Answer:
        assert self._line is not None
        limit_s = self.setup.settings.run.case_time_limit_s
        deadline = time.monotonic() + limit_s + self.grace_s
        alarms: dict[Any, Alarm] = {alarm.fileno(): alarm for alarm in self.alarms}
        rung = False
        while True:
            ready = wait([self._line, *alarms], max(0.0, deadline - time.monotonic()))
            if not ready and rung:
                raise RankLostError("another node told that it ended")
            if not ready:
                raise TimeLimitError(
                    f"no result after {limit_s:g} s: the worker process was ended "
                    "(--set case_time_limit_s=SECONDS allows more)"
                )
            for alarm in (alarms[one] for one in ready if one in alarms):
                if (left_s := alarm.ring()) is not None:
                    deadline, rung = min(deadline, time.monotonic() + left_s), True
            if self._line not in ready:
                continue
            try:
                message: Answer | Phase = self._line.recv()
            except (EOFError, OSError):
                raise self._death() from None
            if not isinstance(message, Phase):
                return message
            progress(message.name)

    def _death(self) -> BenchrackError:
        assert self._process is not None
        code = self._process.wait()
        said = self._stderr_tail()
        if ran_out(said):  # a library that ends the process where its memory is refused
            return OutOfMemoryError(f"the worker process ended{said}")
        if code >= 0:
            return WorkerError(f"the worker process ended with exit code {code}{said}")
        name = signal.Signals(-code).name
        hint = ", most likely by the kernel for want of memory" if name == "SIGKILL" else ""
        return WorkerError(f"the worker process was ended by {name}{hint}{said}")

    def _stderr_tail(self) -> str:
        assert self._stderr is not None
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return ": " + " | ".join(lines[-STDERR_LINES:]) if lines else ""

    def close(self) -> None:
        """End the worker; it has nothing to lose, since records are kept here."""
        process, self._process = self._process, None
        if process is None:
            return
        assert self._line is not None
        assert self._stderr is not None
        self._line.close()
        if self.grace_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.grace_s)
        with contextlib.suppress(ProcessLookupError):  # it, and what is left of what it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._stderr.close()

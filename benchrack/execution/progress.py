"""What a long case is doing, behind pytest's own output on a terminal; silent in a pipe.

The line is drawn after the cursor, which is put back, so pytest writes over it as if it were not
there.
"""

from __future__ import annotations

from typing import Protocol, TextIO

from benchrack.cases.eta import in_words

SAVE_CURSOR, RESTORE_CURSOR, CLEAR_TO_END = "\x1b7", "\x1b8", "\x1b[K"
SHORTEST = 12


class Writer(Protocol):
    """As much of pytest's TerminalWriter as is needed."""

    fullwidth: int

    @property
    def width_of_current_line(self) -> int: ...


class ProgressLine:
    """Shows a text until the next one, or until it is cleared; with None for one, nothing."""

    def __init__(self, writer: Writer | None, stream: TextIO | None) -> None:
        self._writer, self._stream = writer, stream

    def show(self, text: str) -> None:
        """Draw the text in what is left of the line, shortened to fit."""
        if self._writer is None:
            return
        room = self._writer.fullwidth - self._writer.width_of_current_line - 2
        if room >= SHORTEST:
            self._draw(" " + (text if len(text) <= room else text[: room - 1] + "…"))

    def clear(self) -> None:
        self._draw("")

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _draw(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(SAVE_CURSOR + CLEAR_TO_END + text + RESTORE_CURSOR)
            self._stream.flush()


def position(number: int, total: int, left_s: float | None) -> str:
    """Which case it is, and about how long the rest takes: `7 of 33, about 2 min left`."""
    left = "" if left_s is None else f", about {in_words(left_s)} left"
    return f"{number} of {total}{left}"


def terminal_stream() -> TextIO | None:
    """The terminal itself, since pytest captures what goes to standard output during a test."""
    try:
        return open("/dev/tty", "w", encoding="utf-8")
    except OSError:
        return None

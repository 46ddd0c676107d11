"""Results as text: tables for a terminal or in Markdown, tidy CSV, strict JSON."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from benchrack.flattening import flatten
from benchrack.records.record import SCHEMA, to_record
from benchrack.reports.accuracy import accuracy_table
from benchrack.reports.asked import scenario_table
from benchrack.reports.beside import published_tables
from benchrack.reports.cards import cards_table
from benchrack.reports.files import REPORT
from benchrack.reports.latency import latency_table
from benchrack.reports.layout import Cell, Table
from benchrack.reports.notes import said_once
from benchrack.reports.power import power_table
from benchrack.reports.records import Results, Run
from benchrack.reports.scaling import batch_power_table, batch_scaling_table, device_scaling_table
from benchrack.reports.throughput import throughput_table

Format = Literal["terminal", "markdown", "csv", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
WIDTH = 100
WITH_TABLES = ("throughput", "latency", "accuracy")  # scenarios that have tables of their own
NOTHING_PUBLISHED = (
    "nothing that is published here has the model, precision, batch and device count of a case."
)
NOTHING_RELATIVE = (
    "no case was measured on several cards, and on a single device of the one that they are to be "
    "relative to."
)


def tables(results: Results, relative_to: str | None = None) -> list[Table]:
    """The tables that the results fill: throughput and its scaling, power, latency, accuracy, and
    one for each other scenario.

    `relative_to` names the card that others are relative to (reports/cards.py).
    """
    makers: tuple[Callable[[Results], Table | None], ...] = (
        throughput_table,
        device_scaling_table,
        functools.partial(cards_table, relative_to=relative_to),
        batch_scaling_table,
        batch_power_table,
        power_table,
        latency_table,
        accuracy_table,
    )
    others = [s for name, s in results.scenarios.items() if name not in WITH_TABLES]
    filled = [*(make(results) for make in makers), *(scenario_table(results, s) for s in others)]
    return [table for table in filled if table is not None]


def render_all(
    results: Results,
    format: Format,
    width: int = WIDTH,
    *,
    published: bool = False,
    relative_to: str | None = None,
) -> str:
    """Everything that the results hold, in one of FORMATS, with a newline at the end.

    `width` is that of the terminal in characters: a table that is wider is printed in parts.
    `published` adds tables in which others' figures stand beside these; `relative_to` names the
    card that others are relative to (reports/cards.py). Data formats have neither.
    """
    beside = published_tables(results) if published else []
    notes = [NOTHING_PUBLISHED] * (published and not beside)
    if relative_to is not None and cards_table(results, relative_to) is None:
        notes.append(NOTHING_RELATIVE)
    results = dataclasses.replace(results, notes=(*results.notes, *notes))

    def filled() -> list[Table]:
        return [*tables(results, relative_to), *beside]

    renderers: Mapping[Format, Callable[[], str]] = {
        "terminal": lambda: _terminal(results, filled(), width),
        "markdown": lambda: _markdown(results, filled()),
        "csv": lambda: _csv(results),
        "json": lambda: _json(results),
    }
    return renderers[format]().rstrip("\n") + "\n"


def _terminal(results: Results, filled: Sequence[Table], width: int) -> str:
    common, filled = said_once(filled)
    blocks = ["\n".join(_wrapped(note, width) for note in common)]
    for table in filled:
        head = [table.title, *(_wrapped(note, width) for note in table.notes)]
        parts = [_drawn(part, "simple") for part in _parts(table, width)]
        foot = [_wrapped(text, width, f"[{n}] ") for n, text in enumerate(table.footnotes, 1)]
        blocks.append("\n\n".join(["\n".join(head), *parts, "\n".join(foot)]))
    blocks += ["\n".join(_wrapped(note, width, "Note: ") for note in results.notes)]
    return "\n\n".join(block.rstrip("\n") for block in blocks if block)


def _wrapped(text: str, width: int, label: str = "") -> str:
    indent = " " * len(label)
    return textwrap.fill(
        text, width, initial_indent=label, subsequent_indent=indent, break_on_hyphens=False
    )


def _parts(table: Table, width: int) -> list[Table]:
    """The table, or where it is too wide several, each with the key columns and some others."""
    widths = [max(len(header) + 2, *map(len, texts)) + 2 for header, *texts in _columns(table)]
    keys = sum(widths[: table.keys])
    parts: list[list[int]] = []
    room = 0
    for i in range(table.keys, len(widths)):
        if not parts or widths[i] > room:
            parts.append([])
            room = width + 2 - keys
        parts[-1].append(i)
        room -= widths[i]
    return [_only(table, [*range(table.keys), *part]) for part in parts or [[]]]


def _only(table: Table, columns: Sequence[int]) -> Table:
    return dataclasses.replace(
        table,
        headers=tuple(table.headers[i] for i in columns),
        rows=tuple(tuple(row[i] for i in columns) for row in table.rows),
    )


def _markdown(results: Results, filled: Sequence[Table]) -> str:
    common, filled = said_once(filled)
    blocks = [" ".join(map(_escaped, common))]
    for table in filled:
        blocks += [f"### {table.title}", " ".join(map(_escaped, table.notes))]
        blocks.append(_drawn(table, "github", _escaped))
        numbered = enumerate(table.footnotes, 1)
        blocks.append("\n".join(f"{n}. {_escaped(text)}" for n, text in numbered))
    blocks += [f"Note: {_escaped(note)}" for note in results.notes]
    blocks += [f"Not read: {_escaped(problem)}" for problem in results.problems]
    return "\n\n".join(block for block in blocks if block)


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: no cell ends early, and no word is taken for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def _drawn(table: Table, style: str, escape: Callable[[str], str] = str) -> str:
    from tabulate import tabulate

    columns = _columns(table)
    return tabulate(
        list(zip(*([escape(text) for text in column[1:]] for column in columns), strict=True)),
        headers=[escape(header) for header in table.headers],
        tablefmt=style,
        disable_numparse=True,
        preserve_whitespace=True,
        colalign=[
            "right" if _numeric(cells) else "left" for cells in zip(*table.rows, strict=True)
        ],
    )


def _columns(table: Table) -> list[list[str]]:
    """The texts of each column, its header first."""
    cells = list(zip(*table.rows, strict=True))
    return [[header, *_aligned(cells[i])] for i, header in enumerate(table.headers)]


def _numeric(cells: Sequence[Cell]) -> bool:
    return any(isinstance(cell.value, int | float) for cell in cells)


def _aligned(cells: Sequence[Cell]) -> list[str]:
    """The texts of one column; decimal points, intervals and marks stand below each other."""
    if not _numeric(cells):
        return [str(cell) for cell in cells]
    figures = [cell for cell in cells if isinstance(cell.value, int | float)]
    before, after = (max(len(_halves(c)[i]) for c in figures) for i in (0, 1))
    spread, mark = (max(len(getattr(c, part)) for c in figures) for part in ("spread", "mark"))

    def text(cell: Cell) -> str:
        if not isinstance(cell.value, int | float):
            return str(cell)
        whole, decimals = _halves(cell)
        parts = [whole.rjust(before) + decimals.ljust(after)]
        parts += [cell.spread.rjust(spread)] if spread else []
        parts += [cell.mark.ljust(mark)] if mark else []
        return " ".join(parts)

    return [text(cell) for cell in cells]


def _halves(cell: Cell) -> tuple[str, str]:
    whole, point, decimals = cell.text.partition(".")
    return whole, point + decimals


def _csv(results: Results) -> str:
    rows = [*_record_rows(results), *_outcome_rows(results)]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows({key: _csv_value(value) for key, value in row.items()} for row in rows)
    return out.getvalue().replace("\r\n", "\n")


def _csv_value(value: Any) -> Any:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else value


def _json(results: Results) -> str:
    report = {
        "kind": REPORT,
        "schema": SCHEMA,
        "records": _record_rows(results),
        "outcomes": _outcome_rows(results),
        "notes": results.notes,
        "problems": results.problems,
    }
    return json.dumps(report, allow_nan=False, ensure_ascii=False, indent=2)


def _record_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {**_origin(r.run), "status": "measured", **to_record(r.measurement), **_origin(r.run)}
        for r in results.records
    ]


def _outcome_rows(results: Results) -> list[dict[str, Any]]:
    return [{**_origin(m.run), **flatten(m.outcome)} for m in results.misses]


def _origin(run: Run) -> dict[str, Any]:
    return {
        "machine": run.machine,
        "run": run.name,
        "started": run.started,
        "source": str(run.source),
    }

"""What stands in a table of the reports."""

from __future__ import annotations

from benchrack.reports.layout import Cell, Table


def texts(table: Table) -> list[list[str]]:
    """As a reader sees it, row by row."""
    return [[str(cell) for cell in row] for row in table.rows]


def column(table: Table, header: str) -> list[Cell]:
    return [row[table.headers.index(header)] for row in table.rows]

"""What every table is made of: cells with the values behind them, key columns, footnotes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from benchrack.reports import pooling
from benchrack.reports.numbers import figure, half_width
from benchrack.reports.pooling import Pool
from benchrack.reports.records import Miss, Results
from benchrack.statistics.interval import Interval

MISSED = {
    "unsupported": "n/a",
    "out-of-memory": "OOM",
    "failed": "failed",
    "interrupted": "stopped",
    "not-run": "not run",
    "resumed": "resumed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`text` is what a reader sees first, `spread` its uncertainty, `value` the figure behind it.

    `notes` are numbers of footnotes; `invalid` figures must not be quoted.
    """

    text: str = ""
    spread: str = ""
    value: float | str | None = None
    notes: tuple[int, ...] = ()
    invalid: bool = False

    @property
    def mark(self) -> str:
        numbers = f"[{','.join(map(str, self.notes))}]" if self.notes else ""
        return f"! {numbers}".strip() if self.invalid else numbers

    @property
    def empty(self) -> bool:
        return not (self.text or self.spread or self.mark)

    def __str__(self) -> str:
        return " ".join(part for part in (self.text, self.spread, self.mark) if part)


EMPTY = Cell()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The first `keys` columns say what a row is about. `notes` say what the figures are;
    `footnotes` are numbered from 1."""

    title: str
    headers: tuple[str, ...]
    keys: int
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    footnotes: tuple[str, ...] = ()


@dataclass(slots=True)
class Footnotes:
    """Reasons, numbered as they come. The same reason keeps its number, and so does the same rule
    of the verdict: its note has the first figure that was found, and how many more there are."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def number(self, text: str, key: str | None = None) -> int:
        line = _one_line(text)
        texts = self.found.setdefault(line if key is None else key, [])
        if line not in texts:
            texts.append(line)
        return list(self.found).index(line if key is None else key) + 1

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(
            f"{texts[0]}; {len(texts) - 1} more like it" if len(texts) > 1 else texts[0]
            for texts in self.found.values()
        )

    def of(
        self, pool: Pool, *, remarks: Iterable[str] = (), energy: bool = False
    ) -> tuple[int, ...]:
        """The numbers of all that must be said about a pool's figures, be they of energy or not."""
        numbers = [self._reason(reason) for reason in pool.reasons]
        numbers += self.of_energy(pool) if energy else ()
        deviations = pool.engine.deviations if pool.engine else ()
        said = [d for d in deviations if not any(d in reason for reason in pool.reasons)]
        said += [_of_miss(pool, miss) for miss in pool.misses]
        numbers += [self.number(text) for text in (*said, *remarks)]
        return tuple(dict.fromkeys(numbers))

    def of_energy(self, pool: Pool) -> tuple[int, ...]:
        """The numbers of what is said against a pool's energy and power alone."""
        return tuple(dict.fromkeys(self._reason(reason) for reason in pool.energy_reasons))

    def _reason(self, reason: str) -> int:
        return self.number(f"not valid, {reason}", _rule(reason))


def _rule(reason: str) -> str:
    return "not valid, " + reason.partition(":")[0]


def _of_miss(pool: Pool, miss: Miss) -> str:
    outcome = miss.outcome
    where = ""
    if pool.starts:
        where = "another start: " if miss.run == pool.run else f"later, in run {miss.run.name}: "
    return f"{where}{outcome.status}: {outcome.reason}"


def _one_line(text: str) -> str:
    """The line of a reason that says what happened: the last one of a traceback, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if len(lines) > 1 and "Traceback (most recent call last)" in text:
        start = lines[0].partition("Traceback")[0]
        return f"{start}{lines[-1]}"
    return lines[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table with one pool a row; whether its figures are of energy or power."""

    header: str
    cell: Callable[[Pool], Cell]
    energy: bool = False


def words(text: str) -> Cell:
    return Cell(text=text, value=text or None)


def whole(number: int | None) -> Cell:
    return EMPTY if number is None else Cell(text=str(number), value=number)


def key_columns(pools: Sequence[Pool]) -> list[Column]:
    """The columns that tell rows apart: model and backend, and what else differs between them."""

    def vary(value: Callable[[Pool], object], within: Callable[[Pool], object]) -> bool:
        groups: dict[object, set[object]] = {}
        for pool in pools:
            groups.setdefault(within(pool), set()).add(value(pool))
        return any(len(values - {""}) > 1 for values in groups.values())

    def everywhere(_: Pool) -> object:
        return None

    def place(pool: Pool) -> object:
        return pool.machine, pool.case.model, pool.case.backend, pool.case.device_count

    columns = []
    if any(p.case.model for p in pools):
        columns.append(Column(header="model", cell=lambda p: words(p.case.model)))
        columns.append(Column(header="backend", cell=lambda p: words(p.case.backend)))
    if vary(engine_name, lambda p: p.case.backend):
        columns.append(Column(header="engine", cell=lambda p: words(engine_name(p))))
    if vary(lambda p: p.machine, everywhere):
        columns.append(Column(header="machine", cell=lambda p: words(p.machine)))
    if vary(device, everywhere):
        columns.append(Column(header="device", cell=lambda p: words(device(p))))
    if any(p.case.device_count > 1 for p in pools):
        columns.append(DEVICES)
    if any(p.nodes > 1 for p in pools):
        columns.append(Column(header="machines", cell=lambda p: whole(p.nodes)))
    if vary(lambda p: p.data, place):
        columns.append(Column(header="data", cell=lambda p: words(p.data)))
    if vary(lambda p: p.weights, place):
        columns.append(Column(header="weights", cell=lambda p: words(p.weights)))
    if vary(lambda p: p.transfer, everywhere):
        columns.append(Column(header="transfers", cell=lambda p: words(p.transfer)))
    axes = dict.fromkeys(name for p in pools for name in p.case.axes)
    return [*columns, *map(_axis, axes)]


def _axis(name: str) -> Column:
    """An axis that a scenario has for itself."""
    return Column(
        header=name.replace("_", " "),
        cell=lambda p: Cell(text=str(p.case.axes.get(name, "")), value=p.case.axes.get(name)),
    )


def case_keys(pools: Sequence[Pool], *, batch: bool = False) -> list[Column]:
    """The key columns and the batch: where there is more than one, or always (`batch`)."""
    several = len({p.case.batch_size for p in pools}) > 1
    return [*key_columns(pools), *([BATCH] if batch or several else [])]


def engine_name(pool: Pool) -> str:
    return pool.engine.name if pool.engine else ""


def device(pool: Pool) -> str:
    return pool.engine.device if pool.engine else ""


def in_order(pools: Iterable[Pool]) -> list[Pool]:
    """Models as they appeared, and for each its backends as they appeared, machine by machine."""
    pools = list(pools)
    models = _ranks(p.case.model for p in pools)
    backends = _ranks(p.case.backend for p in pools)
    machines = _ranks(p.machine for p in pools)
    return sorted(
        pools,
        key=lambda p: (
            models[p.case.model],
            backends[p.case.backend],
            machines[p.machine],
            p.case.device_count,
            p.nodes,
            p.case.batch_size,
            *(str(value) if isinstance(value, str) else value for value in p.case.axes.values()),
        ),
    )


def _ranks(names: Iterable[str]) -> dict[str, int]:
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def ordered(results: Results, scenario: str) -> list[Pool]:
    """The cases of a scenario, in order."""
    return in_order(pooling.pool(results, scenario))


def missed(pool: Pool, notes: tuple[int, ...]) -> Cell:
    """The cell of a case that gave no measurement."""
    status = pool.misses[-1].outcome.status
    return Cell(text=MISSED.get(status, status), value=status, notes=notes)


def figure_cell(found: Interval, sign: str = "±") -> Cell:
    """A figure with the half width of its interval."""
    return Cell(text=figure(found.value), spread=half_width(found, sign), value=found.value)


BATCH = Column(header="batch", cell=lambda p: whole(p.case.batch_size))
DEVICES = Column(header="devices", cell=lambda p: whole(p.case.device_count))


def listed(
    title: str,
    pools: Sequence[Pool],
    keys: Sequence[Column],
    columns: Sequence[Column],
    *,
    notes: Iterable[str],
    remarks: Callable[[Pool], Sequence[str]] = lambda pool: (),
) -> Table:
    """A table with one pool a row. Marks stand at the first of its figures, which is always shown;
    of the others, those that any row fills. What speaks against energy alone marks its figures."""
    footnotes = Footnotes()

    def marked(cell: Cell, pool: Pool) -> Cell:
        numbers = footnotes.of(pool, remarks=remarks(pool))
        if not pool.starts:
            return missed(pool, numbers)
        return dataclasses.replace(cell, notes=numbers, invalid=pool.doubtful())

    def shown_cell(column: Column, pool: Pool, cell: Cell) -> Cell:
        if column is columns[0]:
            return marked(cell, pool)
        if cell.empty or not (column.energy and pool.energy_reasons):
            return cell
        return dataclasses.replace(cell, notes=footnotes.of_energy(pool), invalid=True)

    keys = list(keys)
    if any(len(p.starts) > 1 for p in pools):
        keys.append(Column(header="starts", cell=lambda p: whole(len(p.starts) or None)))
    cells = [[column.cell(pool) for column in columns] for pool in pools]
    shown = [i for i, _ in enumerate(columns) if i == 0 or any(not row[i].empty for row in cells)]
    return Table(
        title=title,
        headers=(*(k.header for k in keys), *(columns[i].header for i in shown)),
        keys=len(keys),
        rows=tuple(
            (
                *(key.cell(pool) for key in keys),
                *(shown_cell(columns[i], pool, row[i]) for i in shown),
            )
            for pool, row in zip(pools, cells, strict=True)
        ),
        notes=tuple(notes),
        footnotes=footnotes.texts,
    )

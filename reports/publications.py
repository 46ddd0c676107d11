"""What others printed as tables of text: a header and rows, ready to be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchrack.reports.published import OUT_OF_MEMORY, QUANTITIES, Point, Publication, built_in

Table = tuple[list[str], list[list[str]]]


def by_name() -> Mapping[str, Publication]:
    """The publications whose figures come with Benchrack, by the names of their files."""
    return {point.publication.name: point.publication for point in built_in()}


def overview(publications: Iterable[Publication]) -> Table:
    """A publication a row: whose it is, what was printed, and how far to trust it."""
    header = ["name", "what it is", "from", "printed", "figures", "confidence"]
    rows = []
    for publication in publications:
        points = _of(publication)
        letters = sorted({point.confidence for point in points})
        rows.append(
            [
                *(publication.name, publication.title, publication.author, publication.date),
                *(str(len(points)), " ".join(letters)),
            ]
        )
    return header, rows


def sources(publication: Publication) -> list[str]:
    """Where it was printed, with what it was measured, and what must be known of its figures."""
    measured = ", ".join(filter(None, [publication.framework, publication.system]))
    caveats = [f"{model}: {caveat}" for model, caveat in publication.caveats]
    return [
        f"{publication.title}. {publication.author}.",
        f"Source: {publication.source}.",
        f"Measured with: {measured}.",
        *publication.notes,
        *caveats,
    ]


def figures(publication: Publication) -> Table:
    """Every figure of a publication, a row each, in the order of its file.

    Columns that nothing fills are left out.
    """
    header = [
        *("quantity", "model", "precision", "card", "nodes", "devices", "batch"),
        *("value", "confidence", "remarks"),
    ]
    rows = [
        [
            *(point.quantity, point.model, point.precision, point.card),
            *map(_count, (point.node_count, point.device_count, point.batch_size)),
            *(_value(point), point.confidence, _remarks(point)),
        ]
        for point in _of(publication)
    ]
    filled = [i for i in range(len(header)) if any(row[i] for row in rows)]
    return [header[i] for i in filled], [[row[i] for i in filled] for row in rows]


def meanings(publications: Iterable[Publication]) -> Table:
    """What the quantities are that these publications have figures of."""
    found = dict.fromkeys(point.quantity for p in publications for point in _of(p))
    return ["quantity", "what it is"], [[name, QUANTITIES[name]] for name in found]


def _of(publication: Publication) -> Sequence[Point]:
    return [point for point in built_in() if point.publication == publication]


def _count(number: int | None) -> str:
    return "" if number is None else str(number)


def _value(point: Point) -> str:
    return OUT_OF_MEMORY if point.value is None else f"{point.value:.10g}"


def _remarks(point: Point) -> str:
    """What else is said of one figure, and not of its publication."""
    publication = point.publication
    relative = f"relative to {point.relative_to}" if point.relative_to else ""
    framework = point.framework if point.framework != publication.framework else ""
    system = point.system if point.system != publication.system else ""
    said = (relative, point.where, framework, system, point.conditions, point.caveat)
    return "; ".join(filter(None, said))

"""What is there, as text: registered backends, models, data sets, hardware, meters, sweeps and
plugins, and the products in the cache."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchrack.cache import Cache
from benchrack.errors import UnknownNameError
from benchrack.registry.registry import Provider, Registry
from benchrack.vocabulary.backends import Backend
from benchrack.vocabulary.datasets import Dataset
from benchrack.vocabulary.descriptors import Accelerator, Server
from benchrack.vocabulary.models import Model

T = TypeVar("T")

CONFIDENCE = (
    "Confidence: A, read in the primary document; B, in a copy that names it; C, in one secondary "
    "source; D, computed or inferred."
)
# Characters a line that a description takes before it wraps.
DESCRIPTION = 36


def render(kind: str, registry: Registry, names: Collection[str] = ()) -> str:
    """What is registered of `backends`, `models`, …, or of those only the named, and by whom.

    Raises UnknownNameError.
    """
    renderers: Mapping[str, Callable[[Registry, Collection[str]], str]] = {
        "backends": _backends,
        "models": _models,
        "datasets": _datasets,
        "hardware": _hardware,
        "meters": _meters,
        "scenarios": _scenarios,
        "sweeps": _sweeps,
        "plugins": _plugins,
        "published": _published,
    }
    return renderers[kind](registry, names)


def _backends(registry: Registry, names: Collection[str]) -> str:
    needs = _Needs()
    rows = [
        (b.name, b.precision, b.summary, needs.mark(b), _by(registry, "backend", b.name))
        for b in _chosen("backend", registry.backends, names)
    ]
    return _table(("backend", "precision", "what it is", "ready", "from"), rows) + needs.hints()


def _models(registry: Registry, names: Collection[str]) -> str:
    needs = _Needs()
    rows = [
        (
            *(m.name, m.summary, "×".join(map(str, m.input_shape)), m.dataset),
            *(needs.mark(m), _by(registry, "model", m.name)),
        )
        for m in _chosen("model", registry.models, names)
    ]
    headers = ("model", "what it is", "input", "data", "ready", "from")
    return _table(headers, rows) + needs.hints()


def _datasets(registry: Registry, names: Collection[str]) -> str:
    needs = _Needs()
    rows = [
        (d.name, d.summary, needs.mark(d), _by(registry, "dataset", d.name))
        for d in _chosen("dataset", registry.datasets, names)
    ]
    return _table(("data set", "what it is", "ready", "from"), rows) + needs.hints()


def _hardware(registry: Registry, names: Collection[str]) -> str:
    from benchrack.hardware import table

    everything: Mapping[str, Accelerator | Server] = {**registry.accelerators, **registry.servers}
    chosen = [item.name for item in _chosen("hardware", everything, names)]
    cards = [registry.accelerators[name] for name in chosen if name in registry.accelerators]
    servers = [registry.servers[name] for name in chosen if name in registry.servers]
    blocks = []
    if cards:
        # A few cards that were named stand side by side, as in the study's Table 1.
        header, rows = table.comparison_table(cards) if names else table.overview(cards)
        blocks.append(_table(header, rows))
    if servers:
        held = [(s.name, s.title, ", ".join(c.name for c in s.configurations)) for s in servers]
        blocks.append(_table(("server", "", "configurations"), held))
    if names:
        blocks += [_cited(everything[name]) for name in chosen]
        blocks.append(CONFIDENCE)
    providers = dict.fromkeys(
        [_by(registry, "accelerator", card.name) for card in cards]
        + [_by(registry, "server", server.name) for server in servers]
    )
    blocks.append(f"From {', '.join(providers)}." if providers else "No hardware is described.")
    return "\n\n".join(blocks)


def _cited(described: Accelerator | Server) -> str:
    """Every fact with its source: numbered, as they are long and few."""
    from benchrack.hardware import table

    header, rows = table.sources(described)
    column = header.index("source")
    numbers: dict[str, int] = {}
    for row in rows:
        row[column] = f"[{numbers.setdefault(row[column], len(numbers) + 1)}]"
    remarks = [
        f"{note.value} ({note.confidence}) [{numbers.setdefault(note.source, len(numbers) + 1)}]"
        for note in described.notes
    ]
    legend = [f"[{number}] {source}" for source, number in numbers.items()]
    return "\n".join([described.title, "", _table(header, rows), "", *remarks, *legend])


def _meters(registry: Registry, names: Collection[str]) -> str:
    rows = [
        (m.name, m.summary, _by(registry, "meter", m.name))
        for m in _chosen("meter", registry.meters, names)
    ]
    return _table(("meter", "what it reads", "from"), rows)


def _sweeps(registry: Registry, names: Collection[str]) -> str:
    from benchrack.cases import sweep

    rows = []
    for name in _chosen("sweep", {name: name for name in sweep.built_in()}, names):
        loaded = sweep.load(name, registry.scenarios)
        counts = [f"{span.cases} {scenario}" for scenario, span in loaded.spans.items()]
        rows.append((name, loaded.summary, ", ".join(counts)))
    return _table(("sweep", "what it asks", "cases"), rows)


def _scenarios(registry: Registry, names: Collection[str]) -> str:
    rows = [
        (
            s.name,
            s.question,
            ", ".join(axis.name for axis in s.axes),
            _by(registry, "scenario", s.name),
        )
        for s in _chosen("scenario", registry.scenarios, names)
    ]
    return _table(("scenario", "what it asks", "over", "from"), rows)


def _plugins(registry: Registry, names: Collection[str]) -> str:
    provides: dict[str, Counter[str]] = {}
    for (kind, _), provider in registry.providers.items():
        provides.setdefault(provider.plugin, Counter())[kind] += 1
    off = {provider.plugin for provider in registry.disabled}
    everyone = {p.plugin: p for p in (*registry.plugins, *registry.disabled)}
    rows = []
    for p in _chosen("plugin", everyone, names):
        counts = (f"{n} {kind}{'s' * (n > 1)}" for kind, n in provides.get(p.plugin, {}).items())
        what = "switched off" if p.plugin in off else ", ".join(counts)
        rows.append((p.plugin, what, f"{p.distribution} {p.version}".strip()))
    return _table(("plugin", "provides", "from"), rows)


def _published(registry: Registry, names: Collection[str]) -> str:
    from benchrack.reports import publications

    chosen = _chosen("publication", publications.by_name(), names)
    if not names:
        return _table(*publications.overview(chosen))
    blocks = [
        "\n".join([*publications.sources(one), "", _table(*publications.figures(one))])
        for one in chosen
    ]
    return "\n\n".join([*blocks, _table(*publications.meanings(chosen))])


def _chosen(kind: str, known: Mapping[str, T], names: Collection[str]) -> list[T]:
    if unknown := [name for name in names if name not in known]:
        raise UnknownNameError(kind, unknown[0], known)
    return [known[name] for name in names or known]


def _by(registry: Registry, kind: str, name: str) -> str:
    return _from(registry.provider_of(kind, name))


def _from(provider: Provider) -> str:
    """The plugin, by the name that switches it off, and the distribution that brings it."""
    distribution = f"{provider.distribution} {provider.version}".strip()
    return f"{provider.plugin}, {distribution}" if distribution else provider.plugin


@dataclass(slots=True)
class _Needs:
    """What keeps some of the rows from running, and the command that helps."""

    reasons: dict[str, int] = field(default_factory=dict)

    def mark(self, provided: Backend | Model | Dataset) -> str:
        from benchrack.registry.requirements import lack

        reason = lack(provided)
        if reason is None:
            return "yes"
        return f"no [{self.reasons.setdefault(reason, len(self.reasons) + 1)}]"

    def hints(self) -> str:
        return "".join(f"\n[{n}] {reason}" for reason, n in self.reasons.items())


def render_cache(cache: Cache, now_s: float | None = None) -> str:
    """What the cache holds, with sizes and ages, in total, and where."""
    entries = cache.entries()
    now = time.time() if now_s is None else now_s
    rows = [(e.kind, _key(e.key), size(e.size_bytes), _age(now - e.modified_s)) for e in entries]
    total = f"{len(entries)} entries, {size(sum(e.size_bytes for e in entries))}, in {cache.root}"
    return f"{_table(('kind', 'made from', 'size', 'age'), rows)}\n\n{total}" if rows else total


def _key(key: Mapping[str, Any]) -> str:
    """What a product was made from, as far as a line holds it: digests are cut short."""
    parts = []
    for name, value in key.items():
        text = str(value)
        if isinstance(value, str | int | float) and text:
            digest = len(text) >= 24 and all(c in "0123456789abcdef" for c in text)
            parts.append(f"{name}={text[:8]}…" if digest else f"{name}={text}")
    return " ".join(parts)


def size(number_of_bytes: int) -> str:
    """Bytes as people read them, in powers of 1024: `3.2 MiB`."""
    amount = float(number_of_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    from tabulate import tabulate

    wide = ("what it is", "what it asks", "made from", "configurations", "remarks", "fact", "note")
    return tabulate(
        list(rows),
        headers=list(headers),
        disable_numparse=True,
        maxcolwidths=[DESCRIPTION if header in wide else None for header in headers],
    )

"""Where a number comes from: facts about machine, software and run, gathered from plugins.

Facts are JSON: scalars, and lists of them; what is not known is absent or null. Topics are one
level deep, for pytest-benchmark's `machine_info`; `flat` makes one level of them for a record.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Scalar = str | int | float | bool | None
Fact = Scalar | list[Scalar]
Facts = dict[str, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """A source of facts about one topic, which is its `name`.

    `gather()` returns them by name, with units in the names. It takes milliseconds, imports no
    framework and reads no secrets: environment variables by an allow-list, identities hashed.
    """

    name: str
    summary: str
    gather: Callable[[], Mapping[str, Any]]


def gather(sources: Iterable[Provenance]) -> dict[str, Facts]:
    """Facts by topic. A source that breaks leaves `error`, and does not stop the others."""
    topics: dict[str, Facts] = {}
    for source in sources:
        try:
            topics[source.name] = {k: _fact(k, v) for k, v in source.gather().items()}
        except Exception as error:  # a plugin of somebody else's must not stop the run
            topics[source.name] = {"error": f"{type(error).__name__}: {error}"}
    return topics


def _fact(name: str, value: Any) -> Fact:
    if isinstance(value, list | tuple):
        return [_scalar(name, item) for item in value]
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        known: Scalar = value
        return known
    raise TypeError(f"{name} is a {type(value).__name__}, and should be a JSON scalar or a list")


def flat(topics: Mapping[str, Facts]) -> Facts:
    """All facts in one level, each name behind its topic, and what a reader asks for first:
    `machine` (the digest), `node`, `server`, `cpu`, `sockets` and `cards`."""
    cpu, host = topics.get("cpu", {}), topics.get("host", {})
    first: Facts = {
        "machine": machine_digest(topics),
        "node": host.get("node"),
        "server": host.get("product"),
        "cpu": cpu.get("model"),
        "sockets": cpu.get("sockets"),
        "cards": _told(topics.get("accelerators", {}).get("name")),
    }
    return first | {
        f"{topic}_{name}": value for topic, facts in topics.items() for name, value in facts.items()
    }


def machine_digest(topics: Mapping[str, Facts]) -> str:
    """Twelve hex digits that are equal for runs on one machine, and on no other.

    Made of the CPU's model, sockets and cores and of the cards' (hashed) UUIDs, which no two cards
    share. Without cards the name of the machine in its network takes their place: in a container,
    give it a fixed one (`docker run --hostname`). What may change between two runs on a machine
    (driver, kernel, limits, settings) is not in it. A card that is lost tells no UUID: without it,
    this is another machine.
    """
    cpu, host = topics.get("cpu", {}), topics.get("host", {})
    cards = _told(topics.get("accelerators", {}).get("uuid_hash"))
    identity = [
        *(cpu.get(name) for name in ("model", "sockets", "cores")),
        sorted(map(str, cards)) or host.get("node"),
    ]
    return hashed(json.dumps(identity))


def _told(cards: Fact) -> list[Scalar]:
    """One fact of all cards that told it."""
    return [card for card in cards if card is not None] if isinstance(cards, list) else []


def without_passwords(command: Iterable[str]) -> tuple[str, ...]:
    """A command line's words as they may be kept. An address in them, such as the one of
    pytest-benchmark's storage, may hold a user and a password."""
    # Up to the last @, since a password may hold an @ or a slash of its own.
    return tuple(re.sub(r"://\S*@", "://…@", word) for word in command)


def hashed(text: str) -> str:
    """Twelve hex digits that stand for an identity, such as a UUID, and don't reveal it."""
    return hashlib.sha256(f"benchrack {text}".encode()).hexdigest()[:12]

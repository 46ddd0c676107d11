"""What a machine is called in a table, from the flat facts that its run recorded.

The facts read here: `machine` (equal for runs on one machine, and on no other), `label` (the
owner's own name for it), `server`, `cpu`, `sockets`, `cards` (their names, one each) and `node`.
Any may be absent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

UNKNOWN = "unknown machine"


def machine_label(facts: Mapping[str, Any], machine_info: Mapping[str, Any]) -> str:
    """Server and cards, or CPU where there are none: `PowerEdge R740, 4× Tesla P4`.

    `machine_info` is pytest-benchmark's, asked for what the facts leave open.
    """
    if label := facts.get("label"):
        return str(label)
    cpu, server = _cpu(facts, machine_info), facts.get("server")
    cards = facts.get("cards")
    counted = _counted(cards) if isinstance(cards, list | tuple) else ""
    parts = [server or cpu, counted or (cpu if server else "")]
    return ", ".join(str(p) for p in parts if p) or node(facts, machine_info) or UNKNOWN


def node(facts: Mapping[str, Any], machine_info: Mapping[str, Any]) -> str:
    """The machine's name in its network, or nothing."""
    return str(facts.get("node") or machine_info.get("node") or "")


def identity(facts: Mapping[str, Any], machine_info: Mapping[str, Any]) -> str:
    """What is equal for runs on the same machine only, or nothing where no fact tells."""
    return str(facts.get("machine") or node(facts, machine_info))


def _cpu(facts: Mapping[str, Any], machine_info: Mapping[str, Any]) -> str:
    details = machine_info.get("cpu")
    brand = facts.get("cpu") or (details.get("brand_raw") if isinstance(details, dict) else "")
    sockets = facts.get("sockets")
    short = _short(str(brand or ""))
    return f"{sockets}× {short}" if short and isinstance(sockets, int) and sockets > 1 else short


def _short(brand: str) -> str:
    """`Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz` as people say it: `Intel Xeon Gold 6148`."""
    brand = re.sub(r"\((R|TM|C)\)|\s@.*|\b(CPU|Processor|\d+-Core)\b", " ", brand, flags=re.I)
    return " ".join(brand.split())


def _counted(names: list[Any] | tuple[Any, ...]) -> str:
    counts = Counter(map(str, names))
    return " + ".join(f"{n}× {name}" if n > 1 else name for name, n in counts.items())

"""The machines (nodes) of one run: which of them this one is, and what they must agree in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from typing import Any

from benchrack.errors import NodeError

DEFAULT_PORT = 29400  # torchrun's


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """`count` nodes, of which this is number `rank`; node 0 listens at `host`:`port`."""

    count: int
    rank: int
    host: str
    port: int = DEFAULT_PORT

    @property
    def endpoint(self) -> str:
        return address_of(self.host, self.port)

    @property
    def local(self) -> bool:
        """Whether the endpoint is this machine's loopback, where no other machine comes."""
        with suppress(ValueError):
            return ip_address(self.host.partition("%")[0]).is_loopback
        return self.host == "localhost"


def address_of(host: str, port: int) -> str:
    """Host and port in one word; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def asked(
    nnodes: str | None, node_rank: str | None, endpoint: str | None, environ: Mapping[str, str]
) -> Nodes | None:
    """What `--nnodes`, `--node-rank` and `--rdzv-endpoint` say, each where it is given; the rest is
    Slurm's to say, in a process that srun started. None for one machine.

    Raises NodeError where they don't fit, or one is missing.
    """
    slurm = _slurm(environ)
    if nnodes is None and node_rank is None and endpoint is None and slurm is None:
        return None
    count = _number("--nnodes", nnodes, slurm.count if slurm else None)
    if count == 1:
        return None
    rank = _number("--node-rank", node_rank, slurm.rank if slurm else None)
    if not 0 <= rank < count:
        raise NodeError(f"--node-rank={rank}: of {count} nodes the ranks are 0 to {count - 1}")
    if endpoint is None and slurm is None:
        raise NodeError(
            f"--nnodes={count} needs --rdzv-endpoint=HOST:PORT as well, where HOST is node 0 as "
            "the other nodes reach it, and PORT is free there"
        )
    host, port = (slurm.host, slurm.port) if endpoint is None and slurm else _split(endpoint)
    return Nodes(count=count, rank=rank, host=host, port=port)


def _number(option: str, given: str | None, otherwise: int | None) -> int:
    if given is None and otherwise is not None:
        return otherwise
    if given is None:
        raise NodeError(
            f"{option} is missing: several machines need --nnodes, --node-rank and --rdzv-endpoint"
        )
    if not given.isdecimal() or (option == "--nnodes" and int(given) < 1):
        raise NodeError(f"{option}={given}: expected a whole number")
    return int(given)


def _split(endpoint: str | None) -> tuple[str, int]:
    """`host:port`, `host` or `[IPv6]:port`."""
    pattern = r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d+))?"
    found = re.fullmatch(pattern, endpoint or "")
    port = int(found["port"] or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port < 65536:
        raise NodeError(
            f"--rdzv-endpoint={endpoint}: expected HOST:PORT, such as node01:{DEFAULT_PORT}; an "
            "IPv6 address stands in brackets"
        )
    return found["v6"] or found["host"], port


def _slurm(environ: Mapping[str, str]) -> Nodes | None:
    """The nodes of the step that srun started this process in; None elsewhere, also in a batch
    script itself, which runs once."""
    if "SLURM_STEP_ID" not in environ:
        return None
    count = environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or "1"
    names = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    if count == "1":
        return None
    if environ.get("SLURM_LOCALID", "0") != "0":
        raise NodeError(
            "srun started several tasks on one node, and Benchrack starts its processes itself: "
            "run it with --ntasks-per-node=1"
        )
    return Nodes(
        count=int(count), rank=int(environ.get("SLURM_NODEID", "0")), host=first_host(names)
    )


def first_host(names: str) -> str:
    """The first host of Slurm's list: `gpu[03-05,9],login` begins with gpu03."""
    found = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", names)
    if found is None:
        raise NodeError(f"SLURM_JOB_NODELIST={names!r} names no host: give --rdzv-endpoint")
    return f"{found[1]}{found[2] or ''}{found[3] or ''}"


def software() -> dict[str, str | None]:
    """What must be of the same version on all nodes."""
    found: dict[str, str | None] = {}
    for name in ("benchrack", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def difference(mine: Mapping[str, Any], theirs: Mapping[str, Any], name: str) -> str | None:
    """The first difference between what node 0 and another, called `name`, are about to do, in
    words; None without. What is each node's `own` may differ."""
    for what in mine:
        if what != "own" and mine[what] != theirs.get(what):
            return (
                f"node 0 and {name} would not measure the same. "
                f"{_in_words(what, mine[what], theirs.get(what), name)}. Run the same command with "
                "the same software on every node"
            )
    return None


def _in_words(what: str, here: Any, there: Any, name: str) -> str:
    if isinstance(here, dict) and isinstance(there, dict):
        key = next(k for k in {**here, **there} if here.get(k) != there.get(k))
        return f"{what} {key}: {here.get(key)} on node 0, {there.get(key)} on {name}"
    if isinstance(here, list) and isinstance(there, list):
        pairs = zip([*here, "none"], [*there, "none"], strict=False)
        first, other = next(pair for pair in pairs if pair[0] != pair[1])
        return (
            f"{what}: {len(here)} on node 0, {len(there)} on {name}; the first that differ are "
            f"{first!r} and {other!r}"
        )
    return f"{what}: {here} on node 0, {there} on {name}"

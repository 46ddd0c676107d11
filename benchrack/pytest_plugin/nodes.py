"""Several machines in one run of pytest: they join before collecting, and node 0 keeps the results.

Every other node measures its part and mirrors the outcomes; its own files go to a folder that is
removed in the end, and it prints a line in place of the tables.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from benchrack.distributed.key import key_of
from benchrack.errors import BenchrackError
from benchrack.flattening import flatten
from benchrack.nodes import nodes
from benchrack.nodes.joining import Meeting
from benchrack.nodes.link import Link
from benchrack.nodes.nodes import Nodes
from benchrack.pytest_plugin import options
from benchrack.pytest_plugin.cases import Planned, sweep_of
from benchrack.records.run import Run
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.settings import Settings

NODES = pytest.StashKey[Nodes | None]()
LINK = pytest.StashKey[Link]()
FOLDER = pytest.StashKey[str]()
SIGNALS = 128  # exit codes above say which signal ended a run
REASON = pytest.StashKey[str]()


def configure(config: pytest.Config) -> None:
    """Which node this is; what only node 0 may write is switched off on the others."""
    try:
        asked = config.stash[NODES] = nodes.asked(
            options.text(config, "nnodes"),
            options.text(config, "node-rank"),
            options.text(config, "rdzv-endpoint"),
            os.environ,
        )
    except BenchrackError as error:
        raise pytest.UsageError(str(error)) from error
    if asked is None or asked.rank == 0:
        return
    config.stash[FOLDER] = tempfile.mkdtemp(prefix="benchrack-")
    config.option.benchrack_results = config.stash[FOLDER]
    config.option.benchrack_resume = []
    for name, value in {"disable": True, "only": False, "json": None, "compare": None}.items():
        if hasattr(config.option, f"benchmark_{name}"):
            setattr(config.option, f"benchmark_{name}", value)


def count(config: pytest.Config) -> int:
    """How many machines this run has."""
    asked = config.stash[NODES]
    return asked.count if asked else 1


def follows(config: pytest.Config) -> bool:
    """Whether another node leads this run, and keeps its results."""
    asked = config.stash[NODES]
    return asked is not None and asked.rank > 0


def share_of(config: pytest.Config, case: Case) -> Case:
    """The case as one machine sees it: with its share of the devices."""
    return dataclasses.replace(case, device_count=max(1, case.device_count // count(config)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Meet the other nodes: from here on each is told why another can't go on."""
    config = session.config
    asked = config.stash[NODES]
    if asked is None or config.option.collectonly:
        return
    try:
        settings = sweep_of(config).settings
    except BenchrackError:  # collecting says it, and the others are to hear of it
        settings = Settings()
    reporter = config.pluginmanager.get_plugin("terminalreporter")

    def show(phase: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"benchrack: {phase}")

    try:
        config.stash[LINK] = Meeting(
            nodes=asked,
            key=key_of(options.key_file(config), os.environ),
            limit_s=settings.nodes.join_limit_s,
            silence_limit_s=settings.nodes.silence_limit_s,
            progress=show,
        ).join()
    except BenchrackError as error:
        raise pytest.UsageError(str(error)) from error


def agree(
    config: pytest.Config,
    planned: Mapping[str, Planned],
    same: Mapping[str, Any],
    own: Mapping[str, Any],
) -> list[Mapping[str, Any]]:
    """What each node says of its `own`, once all have found that they are about to measure the
    same: the sweep, its settings and cases, and what else must be the `same`.

    Raises NodeError where it is not.
    """
    if LINK not in config.stash:
        return [own]
    spanned = sweep_of(config)
    manifests = config.stash[LINK].compare(
        {
            "sweep": spanned.name,
            "settings": flatten(spanned.settings),
            "cases": [_in_words(plan) for plan in planned.values()],
            **same,
            "own": own,
        },
        spanned.settings.nodes.join_limit_s,
    )
    return [manifest["own"] for manifest in manifests]


def as_node_0(
    config: pytest.Config, planned: Mapping[str, Planned], found: Mapping[str, Any]
) -> dict[str, Any]:
    """What node 0 found of some planned tests, by pytest's node id here; on a single machine and on
    node 0 that is what it found itself. Raises NodeError where node 0 is lost."""
    if LINK not in config.stash:
        return dict(found)
    # Folders, and so node ids, may differ between machines; the order of cases does not.
    mine = {str(place): found[nodeid] for place, nodeid in enumerate(planned) if nodeid in found}
    limit_s = sweep_of(config).settings.nodes.join_limit_s
    told = config.stash[LINK].same(mine, limit_s)
    return {nodeid: told[key] for n, nodeid in enumerate(planned) if (key := str(n)) in told}


def _in_words(plan: Planned) -> str:
    case = plan.case
    return (
        f"{case.scenario} {case.id} of {case.dataset}, weights {case.weights}, start {plan.start}"
    )


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any], report: object
) -> None:
    """What broke collecting is what the other nodes are told."""
    if isinstance(report, pytest.CollectReport) and call.excinfo is not None:
        node.config.stash[REASON] = str(call.excinfo.value)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Whatever ended this node's run, the others are told, and wait for it no longer."""
    config = session.config
    if LINK in config.stash:
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED or exitstatus > SIGNALS
        ended = "it was interrupted" if interrupted else "its run has ended"
        stopped = session.shouldfail or session.shouldstop
        config.stash[LINK].leave(config.stash.get(REASON, str(stopped or ended)))


def print_line(reporter: pytest.TerminalReporter, config: pytest.Config, run: Run) -> None:
    """What a node that follows prints in place of the tables."""
    asked = config.stash[NODES]
    assert asked is not None
    gone = Counter(outcome.status for outcome in run.outcomes)
    others = "".join(f", {number} {status}" for status, number in sorted(gone.items()))
    reporter.ensure_newline()
    reporter.write_line(
        f"benchrack: node {asked.rank} of {asked.count}: {len(run.measurements)} of {run.total} "
        f"cases measured{others}; node 0 ({asked.host}) has the results"
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    if FOLDER in config.stash:
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)

"""Benchrack's options in pytest's `--help`, and what they say."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from benchrack.cases import sweep
from benchrack.errors import SweepError
from benchrack.vocabulary.scenarios import Axis, Scenario
from benchrack.vocabulary.settings import Settings

INFERENCE = "inference: measures inference (select with -m inference)"
BUILT_IN_WEIGHTS = ("auto", "random", "torchvision")


def add_options(parser: pytest.Parser) -> None:
    """Those that do not hang on scenarios."""

    def option(name: str, **kwargs: object) -> None:
        _add(parser, name, **kwargs)

    option(
        "--sweep",
        default="quick",
        metavar="NAME|FILE",
        help="a built-in sweep (benchrack list sweeps) or one's own .toml file (default: quick)",
    )
    option(
        "--device",
        default="auto",
        metavar="DEVICE",
        help="auto, cpu, cuda, cuda:N[,M] or a card's UUID (default: auto)",
    )
    option(
        "--dataset",
        metavar="NAME[:PATH]",
        help="data set, such as imagenet:/data/val; models made for one data set keep theirs",
    )
    option(
        "--weights",
        metavar="auto|random|torchvision|DIR",
        help="weights; DIR holds state_dicts by model name. Write --weights=DIR in one word",
    )
    option(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other key of the sweep, such as time_limit_s=10; repeatable",
    )
    option(
        "--results",
        default="results",
        metavar="DIR",
        help="where journals and JSON files go (default: results)",
    )
    option(
        "--resume",
        action="append",
        default=[],
        metavar="FILE",
        help="skip what has a valid record in FILE, a JSON or a journal of an earlier run for the "
        "same code and machine; repeatable. Write --resume=FILE in one word",
    )
    option(
        "--nnodes",
        metavar="N",
        help="machines of this run, each with the same command (default: 1; under srun, Slurm's)",
    )
    option("--node-rank", metavar="K", help="which of them this is; 0 keeps the results")
    option(
        "--rdzv-endpoint",
        metavar="HOST[:PORT]",
        help="node 0 as the others reach it, and a port that is free there (default: 29400)",
    )
    option(
        "--key-file",
        metavar="FILE",
        help="holds the key that the machines of a run share, and only its owner can read it "
        "(default: BENCHRACK_KEY, or the file of BENCHRACK_KEY_FILE). Write --key-file=FILE in one "
        "word",
    )
    option(
        "--disable-plugins",
        default="",
        metavar="A,B",
        help="Benchrack plugins to switch off (benchrack list plugins)",
    )


def _add(parser: pytest.Parser, name: str, **kwargs: Any) -> None:
    """Every destination starts with `benchrack_`, so that none meets another plugin's."""
    group = parser.getgroup("benchrack", "Benchrack: what to measure, and on what")
    group.addoption(name, dest=_destination(name), **kwargs)


def _destination(name: str) -> str:
    return "benchrack_" + name.lstrip("-").replace("-", "_")


def add_axes(parser: pytest.Parser, scenarios: Collection[Scenario]) -> None:
    """An option for each axis of scenarios that has one; several may share it.

    Raises SweepError for one that pytest or another plugin has already.
    """
    for option, (axis, names) in settable(scenarios).items():
        metavar = "A,B" if axis.kind is str else "N,M"
        text = f"{axis.help} ({' and '.join(names)})"
        try:
            _add(parser, option, metavar=metavar, help=text)
        except ValueError as error:
            raise SweepError(f"{option}, an axis of {names[0]}: {error}") from error


def settable(scenarios: Collection[Scenario]) -> dict[str, tuple[Axis, list[str]]]:
    """The options of axes, each with the first axis that has it, and the scenarios that do."""
    found: dict[str, tuple[Axis, list[str]]] = {}
    for scenario in scenarios:
        for axis in scenario.axes:
            if axis.option:
                found.setdefault(axis.option, (axis, []))[1].append(scenario.name)
    return found


def overrides(config: pytest.Config, scenarios: Collection[Scenario]) -> sweep.Overrides:
    """What the options say about the sweep. Raises SweepError."""
    axes = {}
    for option, (axis, _) in settable(scenarios).items():
        given = config.getoption(_destination(option), None)
        if given is not None:
            axes[axis.name] = sweep.parse_axis(axis, given)
    return sweep.Overrides(
        axes=axes,
        dataset=_dataset(config),
        weights=_weights(config),
        settings=sweep.parse_settings(config.getoption("benchrack_set")),
    )


def text(config: pytest.Config, name: str) -> str | None:
    """The value of an option that takes one."""
    value = config.getoption(_destination(name))
    return None if value is None else str(value)


def _dataset(config: pytest.Config) -> str | None:
    given = text(config, "dataset")
    if given is None or ":" not in given:
        return given
    name, _, argument = given.partition(":")
    return f"{name}:{absolute(config, argument)}"


def _weights(config: pytest.Config) -> str | None:
    given = text(config, "weights")
    return given if given in (None, *BUILT_IN_WEIGHTS) else str(absolute(config, str(given)))


def absolute(config: pytest.Config, path: str) -> Path:
    """Against the folder that pytest was called in, wherever its rootdir is."""
    return (config.invocation_params.dir / Path(path).expanduser()).resolve()


def results_folder(config: pytest.Config) -> Path:
    """Where this run's files go."""
    return absolute(config, text(config, "results") or "results")


def key_file(config: pytest.Config) -> Path | None:
    """The file that holds the key of a run on several machines."""
    given = text(config, "key-file")
    return None if given is None else absolute(config, given)


def resumed(config: pytest.Config) -> list[str]:
    """The files of earlier runs that this one goes on with, as the user named them."""
    return [str(asked) for asked in config.getoption("benchrack_resume")]


def disabled_plugins(config: pytest.Config) -> tuple[str, ...]:
    """The names that `--disable-plugins` switches off."""
    known = config.known_args_namespace  # which is there before the command line was read for good
    names = str(getattr(known, _destination("--disable-plugins"), None) or "").split(",")
    return tuple(filter(None, map(str.strip, names)))


def strict(config: pytest.Config) -> bool:
    """Whether pytest's own `--strict` was given: then a row that is not valid is a failure. The
    key `strict` of an ini file, from pytest 9 on, is about markers and such, and says nothing."""
    return bool(config.getoption("strict", False))


def in_process(config: pytest.Config, settings: Settings) -> bool:
    """Whether cases are measured in pytest's process, where a debugger sees them."""
    return settings.run.executor == "in-process" or bool(config.getoption("usepdb", False))


def require_fresh_processes(config: pytest.Config, settings: Settings) -> None:
    """Raises SweepError where several starts are asked for, and no process would be fresh."""
    if settings.run.starts > 1 and in_process(config, settings):
        asked = "publish=true" if settings.run.publish else f"starts={settings.run.starts}"
        where = "executor=in-process" if settings.run.executor == "in-process" else "--pdb"
        raise SweepError(
            f"{asked} measures each case in fresh processes, and {where} keeps all in this one: "
            "leave out one of the two"
        )


def scenario_of(function: pytest.Item, scenarios: Collection[str]) -> str | None:
    """Which question a test asks, by its marker."""
    return next((name for name in scenarios if function.get_closest_marker(name)), None)

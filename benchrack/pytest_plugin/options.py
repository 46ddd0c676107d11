"""Benchrack's options in pytest's `--help`, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchrack.cases import sweep
from benchrack.errors import SweepError
from benchrack.vocabulary.cases import SCENARIOS
from benchrack.vocabulary.settings import Settings

MARKERS = (
    "inference: measures inference (select with -m inference)",
    "throughput: images per second, batches back to back",
    "latency: milliseconds of single batches, copies included",
    "accuracy: top-1 and top-5, and agreement with FP32",
)
BUILT_IN_WEIGHTS = ("auto", "random", "torchvision")


def add_options(parser: pytest.Parser) -> None:
    """Every destination starts with `benchrack_`, so that none meets another plugin's."""
    group = parser.getgroup("benchrack", "Benchrack: what to measure, and on what")

    def option(name: str, **kwargs: object) -> None:
        dest = "benchrack_" + name.lstrip("-").replace("-", "_")
        group.addoption(name, dest=dest, **kwargs)

    option(
        "--sweep",
        default="quick",
        metavar="NAME|FILE",
        help="a built-in sweep (benchrack list sweeps) or one's own .toml file (default: quick)",
    )
    option("--models", metavar="A,B", help="models instead of the sweep's")
    option("--backends", metavar="A,B", help="backends instead of the sweep's")
    option(
        "--batch-sizes",
        metavar="N,M",
        help="batch sizes instead of the sweep's (throughput and latency)",
    )
    option(
        "--device-counts",
        metavar="N,M",
        help="device counts instead of the sweep's (throughput and latency)",
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


def overrides(config: pytest.Config) -> sweep.Overrides:
    """What the options say about the sweep. Raises SweepError."""
    return sweep.Overrides(
        models=_names(config, "models"),
        backends=_names(config, "backends"),
        batch_sizes=_numbers(config, "batch-sizes"),
        device_counts=_numbers(config, "device-counts"),
        dataset=_dataset(config),
        weights=_weights(config),
        settings=sweep.parse_settings(config.getoption("benchrack_set")),
    )


def text(config: pytest.Config, name: str) -> str | None:
    """The value of an option that takes one."""
    value = config.getoption("benchrack_" + name.replace("-", "_"))
    return None if value is None else str(value)


def _names(config: pytest.Config, name: str) -> tuple[str, ...] | None:
    given = text(config, name)
    return None if given is None else sweep.parse_list(f"--{name}", given)


def _numbers(config: pytest.Config, name: str) -> tuple[int, ...] | None:
    given = text(config, name)
    return None if given is None else sweep.parse_numbers(f"--{name}", given)


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
    return tuple(filter(None, map(str.strip, (text(config, "disable-plugins") or "").split(","))))


def strict(config: pytest.Config) -> bool:
    """Whether pytest's own `--strict` was given: then a row that is not valid is a failure. The
    key `strict` of an ini file, from pytest 9 on, is about markers and such, and says nothing."""
    return bool(config.getoption("strict", False))


def in_process(config: pytest.Config, settings: Settings) -> bool:
    """Whether cases are measured in pytest's process, where a debugger sees them."""
    return settings.executor == "in-process" or bool(config.getoption("usepdb", False))


def require_fresh_processes(config: pytest.Config, settings: Settings) -> None:
    """Raises SweepError where several starts are asked for, and no process would be fresh."""
    if settings.starts > 1 and in_process(config, settings):
        asked = "publish=true" if settings.publish else f"starts={settings.starts}"
        where = "executor=in-process" if settings.executor == "in-process" else "--pdb"
        raise SweepError(
            f"{asked} measures each case in fresh processes, and {where} keeps all in this one: "
            "leave out one of the two"
        )


def scenario_of(function: pytest.Item) -> str | None:
    """Which question a test asks, by its marker."""
    return next((name for name in SCENARIOS if function.get_closest_marker(name)), None)

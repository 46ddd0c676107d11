"""The command line: `benchrack doctor | list | report | cache`.

Each command imports what it needs itself, so that `--help` is instant.
"""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from benchrack.errors import BenchrackError, ResultsError, UnknownNameError

if TYPE_CHECKING:
    from benchrack.registry.registry import Registry
    from benchrack.reports.tables import Format

KINDS = (
    *("backends", "models", "datasets", "hardware", "meters", "scenarios", "sweeps", "plugins"),
    "published",
)
FORMATS = ("terminal", "markdown", "csv", "json")
PAGES = ("terminal", "markdown")
RESULTS = Path("results")
MINIMUM_WIDTH, PAGE_WIDTH = 60, 100

F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """Errors that speak to the user are one line and exit code 2; a traceback is a bug."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BenchrackError as error:
            complain(str(error))
            ctx.exit(2)


def complain(message: str) -> None:
    click.echo(f"benchrack: {message}", err=True)


def asks_plugins(command: F) -> F:
    """The options of every command that asks the plugins: it gets the `registry`."""

    @click.option(
        "--plugins",
        "files",
        multiple=True,
        metavar="FILE",
        help="A file with plugins, such as a conftest.py, beside those that are installed.",
    )
    @click.option(
        "--disable-plugins",
        "disabled",
        multiple=True,
        metavar="NAMES",
        help="Switch plugins off: names of plugins or distributions, commas between.",
    )
    @functools.wraps(command)
    def asking(*args: Any, files: tuple[str, ...], disabled: tuple[str, ...], **kwargs: Any) -> Any:
        from benchrack.registry.loading import load_file
        from benchrack.registry.registry import load_registry

        registry = load_registry(disabled=disabled, conftests=map(load_file, files))
        return command(*args, registry=registry, **kwargs)

    return cast(F, asking)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="benchrack")
def cli() -> None:
    """Benchrack: what precision, batch size and device count cost and buy on this machine.

    Measuring is pytest's: `pytest -m inference`.
    """


@cli.command()
@click.option("--sweep", default="quick", help="The sweep that is to run: a name, or a TOML file.")
@click.option("--device", default="auto", help="The devices that are to be used, as pytest has it.")
@click.option("--device-counts", metavar="N,M", help="Device counts instead of the sweep's.")
@asks_plugins
@click.pass_context
def doctor(
    ctx: click.Context,
    sweep: str,
    device: str,
    device_counts: str | None,
    registry: Registry,
) -> None:
    """Show what this machine is, what can run on it, and what would spoil a number taken now.

    Exit code 0 when every case of the sweep can run here, on the devices it would use; 1 when not.
    """
    from benchrack.cases.sweep import parse_axis
    from benchrack.command.doctor import render, run_doctor
    from benchrack.vocabulary.scenarios import DEVICE_COUNTS

    found = run_doctor(
        registry,
        asked=sweep,
        device=device,
        device_counts=parse_axis(DEVICE_COUNTS, device_counts) if device_counts else None,
    )
    click.echo(render(found, _terminal_width()), nl=False)
    ctx.exit(found.exit_code)


@cli.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("names", nargs=-1)
@asks_plugins
@click.pass_context
def list_(ctx: click.Context, kind: str, names: tuple[str, ...], registry: Registry) -> None:
    """Show what is registered, or some of it by NAMES: by whom, and what it needs.

    Cards that are named stand side by side. `published` is what others printed: of publications
    that are named, every figure with its source. Exit code 1 when a plugin is broken.
    """
    from benchrack.command import inventory

    click.echo(inventory.render(kind, registry, names))
    for problem in registry.problems:
        complain(str(problem))
    ctx.exit(1 if registry.problems else 0)


@cli.command()
@click.argument("paths", nargs=-1, metavar="[FILES OR FOLDERS]...", type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(FORMATS), default="terminal")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--published", is_flag=True, help="Add tables with others' printed figures beside.")
@click.option(
    "--relative-to",
    metavar="CARD",
    help="Where several cards were measured: what they are relative to, such as p40.",
)
@asks_plugins
@click.pass_context
def report(
    ctx: click.Context,
    *,
    paths: tuple[Path, ...],
    format_: Format,
    output: Path | None,
    published: bool,
    relative_to: str | None,
    registry: Registry,
) -> None:
    """Build the tables from results: pytest-benchmark's JSON, or journals of runs that were killed.

    Without files, from the newest run in ./results. Exit code 1 when some file could not be read.
    """
    from benchrack.reports.records import load, newest_run
    from benchrack.reports.tables import render_all

    for option, given in (("--published", published), ("--relative-to", relative_to is not None)):
        if given and format_ not in PAGES:
            pages = " and ".join(PAGES)
            raise click.UsageError(
                f"{option} is for the tables of {pages}; {format_} holds one's own records"
            )
    results = load(paths or newest_run(RESULTS), registry.scenarios)
    for problem in results.problems:
        complain(problem)
    if not results.records and not results.misses:
        raise ResultsError("there is nothing to report: no case was read from any file")
    width = PAGE_WIDTH if output else _terminal_width()
    text = render_all(results, format_, width, published=published, relative_to=relative_to)
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text)
    ctx.exit(1 if results.problems else 0)


def _terminal_width() -> int:
    """The terminal's width where there is one, else that of a page."""
    return max(MINIMUM_WIDTH, shutil.get_terminal_size((PAGE_WIDTH, 24)).columns)


def _write(path: Path, text: str) -> None:
    from benchrack.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise ResultsError(f"{path} can't be written: {error.strerror}") from error


@cli.group(invoke_without_command=True)
@click.pass_context
def cache(ctx: click.Context) -> None:
    """Show the slow products kept on disk: exports, calibrations, quantised models, weights."""
    if ctx.invoked_subcommand is None:
        from benchrack.cache import Cache
        from benchrack.command import inventory

        click.echo(inventory.render_cache(Cache.default()))


@cache.command()
@click.argument("kind", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(kind: str | None, yes: bool) -> None:
    """Remove everything from the cache, or the products of one KIND."""
    from benchrack.cache import Cache
    from benchrack.command.inventory import size

    store = Cache.default()
    entries = [e for e in store.entries() if kind in (None, e.kind)]
    if kind and not entries:
        raise UnknownNameError("kind of cache entry", kind, {e.kind for e in store.entries()})
    total = size(sum(e.size_bytes for e in entries))
    if entries and not yes:
        click.confirm(f"Remove {len(entries)} entries, {total}, from {store.root}?", abort=True)
    click.echo(f"Freed {size(store.clear(kind))}.")


def main() -> None:
    """The entry point of the `benchrack` command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without × and ± still shows the figures
            stream.reconfigure(errors="replace")
    cli(prog_name="benchrack")

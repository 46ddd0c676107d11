"""Who provides a plugin, and what is wrong with one: said in one line that names it."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pluggy

from benchrack.errors import BenchrackError


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Who provides something: a plugin of an installed distribution.

    `plugin` is the name to switch it off by (empty where only the distribution is known); two
    distributions may have plugins of one name. A conftest.py is named by its path and belongs to
    no distribution: distribution and version are empty.
    """

    plugin: str
    distribution: str = ""
    version: str = ""

    def __str__(self) -> str:
        if not self.distribution:
            return self.plugin
        distribution = f"{self.distribution} {self.version}".strip()
        return f"{distribution} (plugin {self.plugin})" if self.plugin else distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with a plugin, in one line that names it and says what to do.

    `provider` is None where a name to be switched off belongs to no plugin.
    """

    provider: Provider | None
    message: str

    def __str__(self) -> str:
        return self.message


class PluginError(Exception):
    """Something is wrong with one plugin; the message follows the plugin's name.

    `remedy` says what to do: by default, to update the plugin or to switch it off; nothing where
    it is empty.
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.remedy = remedy


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Turn whatever a plugin raises into PluginError, sys.exit() and pytest.skip() included."""
    try:
        yield
    except (KeyboardInterrupt, PluginError):
        raise
    except BenchrackError as error:  # speaks to the user already: a file of theirs, say
        raise PluginError(" ".join(str(error).split()), remedy="") from error
    except BaseException as error:
        raise PluginError(f"{what}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """An error in one line, with the line of the plugin where it came from."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    if len(text) > 300:
        text = text[:299] + "…"
    machinery = ("<", *importlib.__path__, *pluggy.__path__)
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if os.path.dirname(file) == os.path.dirname(__file__):
            break  # our own call: the plugin's code was never reached
        if not file.startswith(machinery):
            return f"{text} ({file}, line {line})"
    return text


@contextmanager
def reported(provider: Provider, problems: list[Problem]) -> Iterator[None]:
    """Turn a PluginError into a problem of the provider, and go on."""
    try:
        yield
    except PluginError as error:
        problems.append(problem(provider, str(error), error.remedy))


def problem(provider: Provider, what: str, remedy: str | None = None) -> Problem:
    """What is wrong with a provider; by default the remedy is to update it or to switch it off."""
    if remedy is None and provider.plugin and provider.distribution:
        remedy = (
            f"Update {provider.distribution}, or switch the plugin off with "
            f"--disable-plugins={provider.plugin}"
        )
    message = f"{provider}: {what}"
    return Problem(provider=provider, message=f"{message}. {remedy}" if remedy else message)

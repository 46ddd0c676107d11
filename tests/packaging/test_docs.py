"""The pages for readers: sentences stay short, and the files that they name are there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MOST_WORDS = 24

FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
ITEM = re.compile(r"^\s*(\*|-|\d+\.) ")
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
SENTENCE_END = re.compile(r"(?<=[.!?:;])[)*\"]*\s+")

NAMED_FILE = re.compile(r"[\w./-]*\w\.(?:py|toml|md)\b")
PLACEHOLDER = "NAME"  # as in `plugins/models/NAME.py`
# What readers write or get, and the tree does not hold.
READERS = {"results/tox/report.md", "report.md", "mine.toml"}


def paragraphs(text: str) -> Iterator[str]:
    """The prose of a page: each paragraph, and each item of a list, on one line."""
    lines: list[str] = []
    for line in [*FENCED.sub("", text).splitlines(), ""]:
        code = line.startswith("    ") and not lines  # inside a paragraph it goes on with an item
        prose = bool(line.strip()) and not code and not line.startswith(("#", "|"))
        if lines and (not prose or ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if prose:
            lines.append(ITEM.sub("", line).strip())


def sentences(text: str) -> Iterator[str]:
    """What stands between two of . ! ? : and ; in the prose of a page."""
    for paragraph in paragraphs(text):
        yield from SENTENCE_END.split(LINK.sub(r"\1", CODE.sub("code", paragraph)))


def too_long(text: str) -> list[str]:
    """Sentences with their length. A piece of code is one word, and so is a sign, such as ÷."""
    counted = ((len(sentence.split()), sentence) for sentence in sentences(text))
    return [f"{words} words: {sentence}" for words, sentence in counted if words > MOST_WORDS]


def files() -> set[str]:
    """The files of the project, by their paths from the root."""
    folders = ("benchmarks", "benchrack", "docs", "hardware", "plugins", "reports", "suites")
    found = [*ROOT.glob("*.*"), *(ROOT / "tests").rglob("*.py")]
    for folder in folders:
        found += (ROOT / folder).rglob("*.*")
    return {path.relative_to(ROOT).as_posix() for path in found}


def missing(text: str, there: Collection[str]) -> list[str]:
    """The files that backticks outside of blocks name, and that are not there: not at a path from
    the root or from the core, nor at one path that ends so."""
    code = " ".join(CODE.findall(FENCED.sub("", text)))
    named = set(NAMED_FILE.findall(code)) - READERS
    return sorted(
        name
        for name in named
        if PLACEHOLDER not in name
        and not {name, f"benchrack/{name}"} & set(there)
        and sum(path.endswith(f"/{name}") for path in there) != 1
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_have_less_than_25_words(page):
    assert too_long(page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page):
    assert missing(page.read_text("utf-8"), files()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_links_to_are_there(page):
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", FENCED.sub("", page.read_text("utf-8")))
    assert [link for link in links if not (page.parent / link).exists()] == []


LONG = "word " * 24 + "end"


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG}.",
        f"Short. {LONG}; short.",
        f"* an item\n* {LONG}",
        f"1. {LONG[:60]}\n    {LONG[60:]}",
        LONG.replace("word", "`one piece of code`"),
    ],
)
def test_a_long_sentence_is_found(text):
    (found,) = too_long(text)
    assert found.startswith("25 words: ")


@pytest.mark.parametrize(
    "text",
    [
        f"Begin: {LONG[5:]}.",
        f"({LONG[:60]}.) {LONG[60:]}",
        f"* {LONG[:60]}\n* {LONG[60:]}",
        f"# {LONG}\n\n| {LONG} |\n",
        f"Short:\n\n```\n{LONG}\n```\n",
        f"Short:\n\n    {LONG}\n",
        "`" + LONG + "`",
    ],
)
def test_other_text_is_not(text):
    assert too_long(text) == []


def test_a_file_that_is_missing_is_found():
    there = {"benchrack/cache.py", "reports/files.py", "plugins/files.py", "docs/data.md"}
    text = (
        "`cache.py`, `docs/data.md` and `data.md`, `python gone.py --all`, `files.py`, `a/NAME.py`"
    )
    assert missing(text, there) == ["files.py", "gone.py"]

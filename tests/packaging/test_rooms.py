"""The rooms of the core, in the order in which they may import: itself, and what stands above."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "benchrack"
ORDER = (
    "statistics",
    "vocabulary",
    "records",
    "registry",
    "machine",
    "energy",
    "timing",
    "data",
    "verdict",
    "cases",
    "bench",
    "execution",
    "distributed",
    "nodes",
    "pytest_plugin",
    "command",
)
# Modules in no room: these everybody may import; `api` is what plugins get of them all.
OPEN = {"errors", "files", "flattening", "cache", "toml_tables"}
MOST = 13  # modules in a room: more, and it holds two things


def imported_by(file: Path) -> set[str]:
    """The rooms, or modules in none, that a file imports of the core, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "benchrack":
            names = [f"benchrack.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
        parts = (name.split(".") for name in names)
        found |= {part[1] for part in parts if part[0] == "benchrack" and len(part) > 1}
    return found


def modules_of(room: str) -> list[Path]:
    return [
        file for file in (CORE / room).glob("*.py") if file.stem not in ("__init__", "__main__")
    ]


def test_every_folder_is_a_room_of_the_order():
    folders = {path.name for path in CORE.iterdir() if (path / "__init__.py").is_file()}
    assert folders == set(ORDER)


def test_every_module_is_in_a_room():
    assert {file.stem for file in CORE.glob("*.py")} == OPEN | {"__init__", "api"}


@pytest.mark.parametrize("room", ORDER)
def test_a_room_imports_what_stands_above_it(room):
    allowed = {*ORDER[: ORDER.index(room) + 1], *OPEN, "hookimpl"}
    if room in ("pytest_plugin", "command"):  # the outer ring
        allowed = {*ORDER[: ORDER.index("pytest_plugin")], room, *OPEN, "reports", "hardware"}
    against = {
        f"{file.stem} imports {name}"
        for file in (CORE / room).glob("*.py")
        for name in imported_by(file) - allowed
    }
    assert against == set()


def test_modules_in_no_room_import_each_other_alone():
    for name in OPEN:
        assert imported_by(CORE / f"{name}.py") <= OPEN


@pytest.mark.parametrize("room", ORDER)
def test_a_room_says_in_a_sentence_what_it_is_for_and_what_it_imports(room):
    text = ast.get_docstring(ast.parse((CORE / room / "__init__.py").read_text("utf-8")))
    assert text
    assert "mport" in text
    assert len(text.splitlines()) <= 6


@pytest.mark.parametrize("room", ORDER)
def test_a_room_holds_one_thing(room):
    assert 0 < len(modules_of(room)) <= MOST


def test_rooms_are_in_the_map():
    page = (CORE.parent / "CONTRIBUTING.md").read_text("utf-8")
    assert [room for room in ORDER if f"`{room}/`" not in page] == []


def test_what_is_above_is_seen(tmp_path):
    (tmp_path / "one.py").write_text(
        "from benchrack import hookimpl\n"
        "import benchrack.cases.sweep\n"
        "def f():\n    from benchrack.command import cli\n"
    )
    assert imported_by(tmp_path / "one.py") == {"hookimpl", "cases", "command"}

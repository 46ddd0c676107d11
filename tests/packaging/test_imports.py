"""Imports point one way, and frameworks wait until something is measured."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

Run = Callable[..., CompletedProcess[str]]

ROOT = Path(__file__).parents[2]
FRAMEWORKS = {"PIL", "numpy", "onnx", "onnxruntime", "onnxscript", "pynvml", "torch", "torchvision"}
FOLDERS = ("hardware", "plugins", "reports", "suites")
# The outer ring: what pytest and the command line load. It may import all; nothing imports it.
OUTER = ("command", "pytest_plugin")
# Which rooms a module may import from, by the room that it is in.
ALLOWED = {
    "core": {"core"},
    "outer": {"core", "outer", "hardware", "reports"},
    "hardware": {"core", "hardware"},
    "plugins": {"core", "plugins", "hardware"},
    "reports": {"core", "reports"},
    "suites": {"core", "suites"},
}
# What plugins, ours and others', import of Benchrack beside their own modules.
OPEN = {"benchrack.api", "benchrack.hookimpl"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def room(module: str) -> str:
    """The room of a module's full name, such as `core` for `benchrack.cases.sweep`."""
    first = module.removeprefix("benchrack").removeprefix(".").split(".")[0]
    if first in FOLDERS:
        return first
    return "outer" if first in OUTER else "core"


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its full name, parsed."""
    for folder in ("benchrack", *FOLDERS):
        package = ("benchrack",) if folder == "benchrack" else ("benchrack", folder)
        for file in sorted((ROOT / folder).rglob("*.py")):
            inner = file.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join((*package, *inner)), ast.parse(file.read_text("utf-8"))


def examples() -> Iterator[tuple[str, ast.Module]]:
    """The Python of the docs: the examples' files, and each block of a page."""
    for file in sorted((ROOT / "docs/examples").glob("*.py")):
        yield file.name, ast.parse(file.read_text("utf-8"))
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
        for number, block in enumerate(blocks, 1):
            yield f"{page.name}, block {number}", ast.parse(block)


def imports(node: ast.AST, *, functions: bool = True) -> Iterator[str]:
    """The modules that code imports; without `functions`, those that importing it imports."""
    if not functions:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        source = "." * node.level + (node.module or "")
        ours = source in {"benchrack", *(f"benchrack.{folder}" for folder in FOLDERS)}
        yield from (f"{source}.{alias.name}" if ours else source for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imports(child, functions=functions)


def tops(tree: ast.AST, *, functions: bool = True) -> set[str]:
    """The first words of what is imported; empty for a relative import."""
    return {module.split(".")[0] for module in imports(tree, functions=functions)}


def test_imports_point_one_way() -> None:
    against = [
        f"{name} imports {imported}"
        for name, tree in modules()
        for imported in imports(tree)
        if imported.split(".")[0] == "benchrack" and room(imported) not in ALLOWED[room(name)]
    ]
    assert against == []


def test_plugins_import_the_api_alone() -> None:
    built_in = [(n, tree) for n, tree in modules() if room(n) in ("hardware", "plugins")]
    against = [
        f"{name} imports {imported}"
        for name, tree in [*built_in, *examples()]
        for imported in imports(tree)
        if imported.split(".")[0] == "benchrack" and imported not in OPEN
        if not name.startswith("benchrack") or room(imported) not in ("hardware", "plugins")
    ]
    assert against == []


def test_the_docs_name_what_there_is() -> None:
    """What their Python imports of Benchrack, what it takes of a module, and modules in prose."""
    for name, tree in examples():
        found: dict[str, object] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("benchrack"):
                module = importlib.import_module(str(node.module))
                assert {alias.name for alias in node.names} <= set(vars(module)), name
                found |= {alias.name: getattr(module, alias.name) for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                taken = found.get(node.value.id)
                assert not isinstance(taken, ModuleType) or hasattr(taken, node.attr), name
    for page in PAGES:
        for module_name in re.findall(r"`(benchrack(?:\.\w+)+)`", page.read_text("utf-8")):
            importlib.import_module(module_name)


def test_imports_are_written_in_full() -> None:
    """`benchrack.plugins…`, never `plugins…` or a relative import."""
    assert [name for name, tree in modules() if tops(tree) & {"", *FOLDERS}] == []


def test_no_framework_at_module_level() -> None:
    assert [n for n, tree in modules() if tops(tree, functions=False) & FRAMEWORKS] == []


def test_only_the_outer_ring_and_the_suites_know_pytest() -> None:
    knowing = {room(name) for name, tree in modules() if "pytest" in tops(tree)}
    assert knowing == {"outer", "suites"}


def test_the_walk_sees_what_the_rules_forbid() -> None:
    code = "import torch\ndef f():\n    from benchrack.command import cli\n    import numpy.linalg"
    tree = ast.parse(code)
    assert list(imports(tree)) == ["torch", "benchrack.command", "numpy.linalg"]
    assert list(imports(tree, functions=False)) == ["torch"]
    assert room("benchrack.command.cli") == room("benchrack.pytest_plugin") == "outer"
    assert room("benchrack.reports.tables") == "reports"
    assert room("benchrack") == room("benchrack.cases.sweep") == "core"
    assert {room(name) for name, _ in modules()} == set(ALLOWED)


def test_importing_benchrack_is_light(python: Run, tmp_path: Path) -> None:
    heavy = FRAMEWORKS | {"pytest", "click"}
    code = f"import benchrack.api, sys; print(sorted({heavy} & {{*sys.modules}}))"
    run = python("-c", code, cwd=tmp_path)
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_collecting_imports_no_framework(run_pytest: Run, tmp_path: Path) -> None:
    (tmp_path / "show_frameworks.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        f"    print('frameworks:', sorted({FRAMEWORKS} & {{*sys.modules}}))\n"
    )
    run = run_pytest(
        *("-p", "show_frameworks", "--pyargs", "benchrack.suites"),
        *("-m", "inference", "--collect-only", "-q"),
        cwd=tmp_path,
        path=tmp_path,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1] == "frameworks: []"

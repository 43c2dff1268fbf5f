"""The page of the architecture, and the table of CONTRIBUTING.md, name what exists."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.packaging.checkout import ROOT

PACKAGE = ROOT / "ssa_operator"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()

_MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py)`")
_FOLDER = re.compile(r"`([a-z_]+(?:/[a-z_]+)*/)`")
_NAME = re.compile(r"`([A-Za-z_][\w.]*)\(\)`")


def defined(module: Path) -> set[str]:
    """The functions, classes and methods of a module: `decide_step`, `Queue`, `Queue.get`."""
    names = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
            names |= {f"{node.name}.{each.name}" for each in methods}
    return names


def test_every_module_and_folder_that_the_architecture_page_names_exists() -> None:
    named = {*_MODULE.findall(ARCHITECTURE), *_FOLDER.findall(ARCHITECTURE)}
    assert len(named) > 30
    roles = {"rules.py", "requests.py"}
    missing = [path for path in sorted(named - roles) if not (PACKAGE / path).exists() and not (ROOT / path).exists()]
    assert missing == []


def test_every_function_that_the_architecture_page_names_is_in_a_module_of_the_same_paragraph() -> None:
    named = 0
    for paragraph in re.split(r"\n\s*\n|\n(?=\||\d+\. |- )", ARCHITECTURE):
        functions = _NAME.findall(paragraph)
        modules = [PACKAGE / path for path in _MODULE.findall(paragraph) if (PACKAGE / path).exists()]
        known = set().union(*map(defined, modules)) if modules else set()
        named += len(functions)
        assert [name for name in functions if name not in known] == [], paragraph
    assert named >= 5


def test_the_architecture_page_is_short() -> None:
    assert len(ARCHITECTURE.split()) <= 1600


def test_the_architecture_page_names_every_room_in_the_order_of_imports() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"] == "Imports go down only")
    rows = re.findall(r"^\| `(\w+)/` \|", ARCHITECTURE, re.MULTILINE)
    assert rows == [room for layer in layers for room in layer.split(" | ")]
    assert sorted(rows) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_every_room_says_what_it_is() -> None:
    without = [path for path in PACKAGE.rglob("__init__.py") if not ast.get_docstring(ast.parse(path.read_text()))]
    assert without == []


def test_the_table_of_contributing_names_paths_and_definitions_that_exist() -> None:
    rows = re.findall(r"^\| an? .* \| .* \| .* \|$", CONTRIBUTING, re.MULTILINE)
    assert len(rows) > 20
    paths = [path for row in rows for path in re.findall(r"`([\w.-]+/[\w./-]*)`", row)]
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []
    places = [place for row in rows for place in re.findall(r"`([A-Za-z_]+)` in `([\w/]+\.py)`", row)]
    assert len(places) >= 8
    assert [
        name
        for name, path in places
        if not re.search(rf"^(?:class )?{name}\b", (ROOT / path).read_text(), re.MULTILINE)
    ] == []


def test_each_row_of_the_table_of_contributing_has_a_test() -> None:
    rows = re.findall(r"^\| an? .* \| .* \| (.*) \|$", CONTRIBUTING, re.MULTILINE)
    assert [test for test in rows if "`tests/" not in test and test != "a golden case"] == []


IMPURE = {"asyncio", "aiohttp", "jinja2", "kubernetes", "logging", "os", "pathlib", "random", "secrets", "socket"} | {
    "subprocess",
    "time",
    "uuid",
    "yaml",
}
"""Modules with I/O, a clock, chance or a log."""

_MECHANISMS = {
    "context.measured_render",
    "failures.log_bug",
    "impersonation.AccountReviews.__init__",
    "parent_records.folder_kinds.FolderKinds.__init__",
    "parent_records.folder_kinds.FolderKinds._put_off",
    "parent_view.ParentView.random",
    "pod_failures.requests._log",
    "render_turns.RenderTurns.__init__",
    "render_turns.RenderTurns._count",
    "shards.other_shards.OtherShards.__init__",
    "status.event_requests.Recorder.__init__",
    "status.event_requests.Recorder._failed",
    "status.requests._log_dropped",
    "status.requests.emit_events",
}
"""The functions that make locks, hold the event loop, log, or draw a number for a template."""


def _impure_names(tree: ast.Module) -> set[str]:
    """The names in a module that stand for something of these modules, and its loggers."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name for each in node.names if each.name.partition(".")[0] in IMPURE}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in IMPURE:
            names |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Assign) and "getLogger" in ast.unparse(node.value):
            names |= {ast.unparse(each) for each in node.targets}
    return names


def _plain_functions(node: ast.AST, within: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions without `async`, outside of those with it, by their names."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef):
            yield f"{within}.{each.name}", each
        elif isinstance(each, ast.ClassDef):
            yield from _plain_functions(each, f"{within}.{each.name}")


def test_a_plain_function_of_a_reconcile_decides_and_only_an_async_one_asks() -> None:
    """It knows no I/O, clock, chance or log: all that it follows from is an argument."""
    found, functions = set(), 0
    for path in (PACKAGE / "reconcile").rglob("*.py"):
        tree = ast.parse(path.read_text())
        impure, module = _impure_names(tree), path.relative_to(PACKAGE / "reconcile").with_suffix("").as_posix()
        for name, function in _plain_functions(tree, module.replace("/", ".")):
            functions += 1
            used = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
            if used & impure:
                found.add(name)
    assert functions > 500
    assert found == _MECHANISMS


def test_a_command_has_options_and_its_work_is_elsewhere() -> None:
    """A class of a command's module is a format of its output, and none of its own functions touches the cluster."""
    for path in PACKAGE.glob("cli/*/*.py"):
        for node in ast.parse(path.read_text()).body:
            assert not isinstance(node, ast.AsyncFunctionDef), path
            if isinstance(node, ast.ClassDef):
                assert [ast.unparse(base) for base in node.bases] == ["StrEnum"], path


NO_ROOMS = frozenset({"benchmarks", "docs", "examples", "exploration", "faults", "neon", "packaging", "perturbations"})
"""The folders of tests that belong to the whole, or to something outside of the package."""


def test_the_tests_of_a_room_are_in_the_folder_of_the_same_name() -> None:
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}
    rooms = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")}
    modules = {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py")}
    assert folders - rooms - modules == NO_ROOMS
    promises = {room for room in rooms if room.startswith("reconcile/")}
    assert promises - folders == set()

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import ssa_operator
from tests.packaging.backtracking import EVERY, FULL, MATCH, SEARCH, slowness

PACKAGE = Path(ssa_operator.__file__).parent

ASKED = {
    "fullmatch": FULL, "match": MATCH, "search": SEARCH, "findall": EVERY, "finditer": EVERY, "split": EVERY,
    "sub": EVERY, "subn": EVERY,
}  # fmt: skip
STRICTNESS = [FULL, MATCH, SEARCH, EVERY]


def _named(value: object = "web") -> SimpleNamespace:
    """An object whose attributes have these names."""
    return SimpleNamespace(
        **dict.fromkeys(("identity", "instance", "name", "namespace", "old", "width", "_prefix"), value)
    )


SAMPLES: Mapping[str, Mapping[str, Any]] = {
    "tools.cases.captured_case": {"name": "now"},
    "tools.checks.crd_rules": {"temporary": "/tmp/a"},
    "tools.checks.project_checks": {"edit": _named()},
    "tools.checks.text_rules": {"text": "0644"},
    "tools.scaffold.instance_names": {
        "bound": r"(?<![A-Za-z0-9_.-]){}(?![A-Za-z0-9_])",
        "before": r"(?:(?<=://)|(?<=@)|(?<![A-Za-z0-9_./-]))",
        "names": "web|db",
        "name": "web",
        "instance": "shop",
        "word": r"|(?:\A|=)web\Z",
        "after": r"(?=:[0-9]+(?![0-9])|\.svc(?![A-Za-z0-9_-]))",
        "self": _named(),
    },
    "tools.scaffold.cleaning": {"label": "heritage", "instance": "shop"},
    "tools.scaffold.template_text": {"name": "web", "self": _named()},
    "reconcile.recreate.rules": {"template": "data", "live": _named(_named())},
    "rendering.jinja.expansion": {"key": "kind"},
    "rendering.possible_manifests": {"name": "prune"},
    "rendering.values.template_text": {"blank": False},
    "rendering.yaml.nodes": {"block": 8, "value": _named(4)},
}
"""The local names that a pattern is made of, each with an example."""

ROWS = {
    "objects.problem_hints": ("pattern", "_HINTS"),
    "rendering.jinja.compilation": ("pattern", "_WORDS"),
    "rendering.jinja.suggestions": ("pattern", "_REPLACEMENTS"),
    "schema.field_rules": ("pattern", "_PATTERNS.values()"),
}
"""The argument in modules that ask for each pattern of a table, with its rows, which begin with the pattern."""

COMPILES = "_of_pattern"
"""The function of the package that compiles a pattern that it is given: of a format of strings."""

EXEMPT = {
    "operator.process.option_values": "the texts are the user's own command line",
    "rendering.values.python_errors": "the texts are shortened to _TEXT_LIMIT characters first",
}
"""Modules whose patterns read no long text of others."""


class Use(NamedTuple):
    """A pattern of the package."""

    where: str
    pattern: str
    flags: int
    asked: str


def uses() -> Iterator[Use]:
    """Each pattern that the package gives to `re`, with what it is asked."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    asked_by_name = {path: _asked_by_name(tree) for path, tree in trees.items()}
    for path, tree in trees.items():
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        calls = [(call, target) for call, target in _calls(tree) if name not in EXEMPT]
        if not calls:
            continue
        known = {**vars(importlib.import_module(f"ssa_operator.{name}")), **SAMPLES.get(name, {})}
        for call, target in calls:
            method = call.func.attr if isinstance(call.func, ast.Attribute) else "fullmatch"
            argument, rows = ROWS.get(name, ("", ""))
            asked_in_turn = ast.unparse(call.args[0]) == argument
            patterns = [row[0] for row in eval(rows, known)] if asked_in_turn else [_value(call.args[0], known)]
            options = [*call.args[1:], *(each.value for each in call.keywords)]
            flags = [_value(each, known) for each in options if ast.unparse(each).startswith("re.")]
            if method != "compile":
                asked = {ASKED[method]}
            elif target.startswith("_"):
                asked = asked_by_name[path].get(target, {EVERY})
            else:
                asked = {each for names in asked_by_name.values() for each in names.get(target, set())} or {EVERY}
            flags += [re.ASCII] if isinstance(call.func, ast.Name) else []
            for pattern in patterns:
                of_bytes = isinstance(pattern, bytes)
                text, more = (pattern.decode("latin-1"), re.ASCII) if of_bytes else (pattern, 0)
                yield Use(f"{name}:{call.lineno}", text, sum(flags) | more, max(asked, key=STRICTNESS.index))


def _asked_by_name(tree: ast.Module) -> dict[str, set[str]]:
    """What the methods of each variable or attribute ask."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ASKED:
            name = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
            found.setdefault(name, set()).add(ASKED[node.attr])
    return found


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """The calls of functions of `re` that take a pattern, each with the name that the result gets."""
    targets: dict[ast.expr, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            targets[node.value] = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
    inside = [each for node in ast.walk(tree) if getattr(node, "name", "") == COMPILES for each in ast.walk(node)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node in inside:
            continue
        match node.func:
            case ast.Attribute(value=ast.Name("re"), attr=name) if name in {*ASKED, "compile"}:
                yield node, targets.get(node, "_unnamed")
            case ast.Name(name) if name == COMPILES:
                yield node, ""


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), dict(known))


@pytest.mark.exhaustive
def test_each_pattern_of_the_package_takes_linear_time() -> None:
    slow = [
        f"{use.where}: {use.asked} {use.pattern!r} is {fault}; write it without the second loop, or use re2"
        for use in uses()
        if (fault := slowness(use.pattern, use.flags, use.asked))
    ]
    assert slow == []


@pytest.mark.parametrize(
    ("pattern", "asked", "fault"),
    [
        (r"(a+)+b", FULL, "exponential"),
        (r"(a|a)*b", FULL, "exponential"),
        (r"(?:\"[^\"]*\"|[^\]\"]|\"[^\"]*\")*\]", MATCH, "exponential"),
        (r"(?:\d+\.?\d*(?:s|m))+", FULL, "exponential"),
        (r"\d+\.?\d*x", FULL, "quadratic"),
        (r"\d+(?:\.\d*)?x", FULL, ""),
        (r"\s*foo", SEARCH, "quadratic"),
        (r"\s*foo", MATCH, ""),
        (r"^\s*foo", SEARCH, ""),
        (r"a.*b", SEARCH, "quadratic"),
        (r"\n(?=a*b)", EVERY, ""),
        (r"(?=a*b)", EVERY, "quadratic"),
        (r"[ab](?:b*c)?", SEARCH, ""),
        (r"[ab](?:b*c)?", EVERY, "quadratic"),
        (r"\w+", EVERY, ""),
        (r"(?<!\d)\d+x", EVERY, ""),
        (r"\d+x", EVERY, "quadratic"),
        (r"(?:a++b?)*c", FULL, ""),
        (r"(?:a+b?)*c", FULL, "exponential"),
        (r"(a*)*", FULL, "exponential"),
        (r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", FULL, ""),
    ],
)
def test_a_pattern_with_two_ways_to_read_a_text_is_found(pattern: str, asked: str, fault: str) -> None:
    assert slowness(pattern, 0, asked).partition(":")[0] == fault

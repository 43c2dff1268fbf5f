"""Each message that stands alone has a subject: its file and line, and its object, stand before it without a verb."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ssa_operator

ALONE = {"RenderProblem", "DocumentError", "DefinitionError", "TemplateSyntaxError", "_fault", "deleting", "_stalled"}
LOG = {"debug", "info", "warning", "error"}
"""The functions that make a problem, a message of the status, and a line of the log, which is the first argument."""

VERB = re.compile(r"(?:is|are|has|have|was|were|can't|needs|must|may|does|doesn't|no longer) ")


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts that these functions get, each with its line."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in ALONE | LOG:
            continue
        for given in call.args[:1] if name in LOG else [*call.args, *(each.value for each in call.keywords)]:
            for each in [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]:
                first = each.values[0] if isinstance(each, ast.JoinedStr) and each.values else each
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.lineno, first.value


def test_no_message_begins_with_its_verb() -> None:
    root = Path(ssa_operator.__file__).parent
    headless = [
        f"{path.relative_to(root)}:{line}: {text}"
        for path in sorted(root.rglob("*.py"))
        for line, text in messages(ast.parse(path.read_text()))
        if VERB.match(text)
    ]
    assert headless == []

"""Which lines and branches of templates were rendered.

Promises:
- A line counts if it writes text or a value, or has a tag. Comments and empty lines don't count.
- The branches are both arms of an `if` (even without `else`, and of `{{ a if b else c }}`), the body and the
  `else` of a `for`, and each macro.
- Templates that are compiled without coverage contain nothing of it, and render as fast as before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jinja2 import nodes
from jinja2.visitor import NodeTransformer
from msgspec import Struct

from ssa_operator.rendering.values.line_marks import CLOSE, LINE

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_MARK = re.compile(rf"{LINE}[0-9]+\.([0-9]+){CLOSE}")

MARK = "reached"
"""The method of the environment that a mark in a compiled template calls."""

MARK_VALUE = "reached_value"
"""The method of the environment that returns a value of an arm."""


class Branch(Struct, frozen=True, kw_only=True):
    """One way that a render can take at a line."""

    line: int
    missed: str
    """The message if it is never taken."""


class FileCoverage(Struct, frozen=True, kw_only=True):
    """The lines and branches of one template that were rendered."""

    file: str
    lines: tuple[int, ...]
    """All lines that count."""
    missed_lines: tuple[int, ...]
    branches: tuple[Branch, ...]
    missed_branches: tuple[Branch, ...]

    @property
    def total(self) -> int:
        """The number of lines and branches."""
        return len(self.lines) + len(self.branches)

    @property
    def reached(self) -> int:
        """The number of lines and branches that were rendered."""
        return self.total - len(self.missed_lines) - len(self.missed_branches)


class TemplateCoverage:
    """Records what the renders of templates reach. Templates that several folders import count once."""

    def __init__(self, folder: str = "") -> None:
        """`folder` is the only template folder to record, '' for all."""
        self.folder = folder
        self._points: dict[tuple[str, int | Branch], bool] = {}
        self._marks: list[tuple[tuple[str, int | Branch], ...]] = []
        self._reached: set[int] = set()

    def add_mark(self, file: str, points: Iterable[int | Branch]) -> int:
        """The number of a new mark; a render that reaches it has rendered these lines and branches."""
        keys = tuple((file, point) for point in points)
        for key in keys:
            self._points.setdefault(key, False)
        self._marks.append(keys)
        return len(self._marks) - 1

    def reach(self, mark: int) -> None:
        """Record that a render reached a mark."""
        if mark not in self._reached:
            self._reached.add(mark)
            self._points.update(dict.fromkeys(self._marks[mark], True))

    def files(self) -> list[FileCoverage]:
        """The coverage of each template, by name."""
        return [self._file(name) for name in sorted({file for file, _ in self._points})]

    def _file(self, name: str) -> FileCoverage:
        points = {point: reached for (file, point), reached in self._points.items() if file == name}
        lines = {point: reached for point, reached in points.items() if isinstance(point, int)}
        branches = {point: reached for point, reached in points.items() if isinstance(point, Branch)}
        return FileCoverage(
            file=name,
            lines=tuple(sorted(lines)),
            missed_lines=tuple(sorted(line for line, reached in lines.items() if not reached)),
            branches=tuple(sorted(branches, key=_place)),
            missed_branches=tuple(sorted((each for each, reached in branches.items() if not reached), key=_place)),
        )


def _place(branch: Branch) -> tuple[int, str]:
    return branch.line, branch.missed


def mark_template(tree: nodes.Template, file: str, coverage: TemplateCoverage) -> nodes.Template:
    """The syntax tree of a template with marks at its statements and branches."""
    marker = _Marker(file, coverage)
    tree.body = marker.block(tree.body)
    marked = marker.visit(tree)
    assert isinstance(marked, nodes.Template)
    return marked


class _Marker(NodeTransformer):
    """Adds marks to one template: `block` to statements, `visit` to inline conditions."""

    def __init__(self, file: str, coverage: TemplateCoverage) -> None:
        self._file = file
        self._coverage = coverage

    def block(self, statements: Sequence[nodes.Node], *branches: Branch) -> list[nodes.Node]:
        """The statements with marks; the first mark is also that of the branches."""
        found: list[nodes.Node] = []
        if branches:
            found.append(self._mark(branches[0].line, branches))
        for statement in statements:
            lines = sorted(set(_lines(statement)))
            if lines:
                found.append(self._mark(lines[0], lines))
            self._mark_inside(statement)
            found.append(statement)
        return found

    def _mark_inside(self, statement: nodes.Node) -> None:
        line = statement.lineno
        match statement:
            case nodes.If():
                _nest_elif(statement)
                name = "elif" if getattr(statement, "is_elif", False) else "if"
                nested = len(statement.else_) == 1 and getattr(statement.else_[0], "is_elif", False)
                statement.body = self.block(statement.body, Branch(line=line, missed=f"{name} is never true"))
                never = () if nested else (Branch(line=line, missed=f"{name} is never false"),)
                statement.else_ = self.block(statement.else_, *never)
            case nodes.For():
                statement.body = self.block(statement.body, Branch(line=line, missed="for never has an item"))
                if statement.else_:
                    never = (Branch(line=line, missed="else of for is never rendered"),)
                    statement.else_ = self.block(statement.else_, *never)
            case nodes.Macro():
                message = f"macro {statement.name} is never called"
                statement.body = self.block(statement.body, Branch(line=line, missed=message))
            case _ if isinstance(body := getattr(statement, "body", None), list):
                statement.body = self.block(body)  # type: ignore[attr-defined]

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.expr1 = self._value(node.expr1, node.lineno, "true")
        if node.expr2 is not None:
            node.expr2 = self._value(node.expr2, node.lineno, "false")
        return node

    def _value(self, value: nodes.Expr, line: int, truth: str) -> nodes.Expr:
        branch = Branch(line=line, missed=f"the condition of ... if ... else ... is never {truth}")
        number = self._coverage.add_mark(self._file, [branch])
        return _call(MARK_VALUE, [nodes.Const(number, lineno=line), value], line)

    def _mark(self, line: int, points: Iterable[int | Branch]) -> nodes.Node:
        number = self._coverage.add_mark(self._file, points)
        return nodes.ExprStmt(_call(MARK, [nodes.Const(number, lineno=line)], line), lineno=line)


def _call(method: str, args: list[nodes.Expr], line: int) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(method, lineno=line), args, [], None, None, lineno=line)


def _nest_elif(statement: nodes.If) -> None:
    """Write `elif` as an `if` in the `else`, which means the same, so that it has a place for marks."""
    if statement.elif_:
        first, *rest = statement.elif_
        first.elif_, first.else_ = rest, statement.else_
        first.is_elif = True  # type: ignore[attr-defined]
        statement.elif_, statement.else_ = [], [first]


def _lines(statement: nodes.Node) -> Iterator[int]:
    """The lines of a statement without those of the statements in it."""
    if not isinstance(statement, nodes.Output):
        yield statement.lineno
        return
    for each in statement.nodes:
        if isinstance(each, nodes.TemplateData):
            yield from (int(mark[1]) for mark in _LINE_MARK.finditer(each.data))
        else:
            yield each.lineno

"""Compiles templates: refuses what Python can't compile, and generates code that counts against the limits.

Promises:
- A template that Python can't compile, or only in minutes, is a syntax error with its line, never another exception.
- A template of a usual depth and size compiles: the limits are ten times those of any template of this project.
- A comparison, a slice or a literal counts against the render's budget before Python computes it.
- A comparison with a constant of the template, which is small, stays Python's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.compiler import Frame
from jinja2.lexer import Token
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.parser import Parser

from ssa_operator.rendering.jinja.tags import check_loop, return_value
from ssa_operator.rendering.values.limits import INTEGER_BITS
from ssa_operator.rendering.values.python_errors import reword

DEPTH_LIMIT = 100
"""Levels of nesting of an expression or of tags."""

NODES_LIMIT = 20_000
"""Names, constants, operators and tags of one template: it compiles in about two seconds."""

TOKENS_LIMIT = 5 * NODES_LIMIT
"""Words and signs of one template. Parentheses, commas and the ends of tags are no nodes."""

_TOO_MANY = f"the template has more than {NODES_LIMIT} names, constants and tags"

_TOO_DEEP = "expressions or tags are nested too deeply here; name parts of them with {% set %} or {% macro %}"


class NestingError(TemplateSyntaxError):
    """Expressions or tags that are nested too deeply."""

    def __init__(self, line: int) -> None:
        super().__init__(_TOO_DEEP, line)


_TOO_LARGE = f"a number of more than {INTEGER_BITS} bits is too large"

_WORDS = (
    ("'break' outside loop", "{{% break %}} is outside of a loop"),
    ("'continue' not properly in loop", "{{% continue %}} is outside of a loop"),
    ("keyword argument repeated: (.+)", "the argument {1} is given twice"),
    ("duplicate argument 'l_[0-9]+_([^']+)'", "the argument {1} is there twice"),
)
"""Python's messages about code that Jinja generated, and the messages for authors."""

_DEEP_CODE = "too many (?:statically nested blocks|levels of indentation|nested parentheses)"

_LONG_NUMBER = r"[0-9_]{4000}"
"""A part of a number that Python doesn't convert: it takes a time that is quadratic in its digits."""


def limited(tokens: Iterable[Token]) -> Iterator[Token]:
    """The tokens of a template as its parser reads them. Raises TemplateSyntaxError before there are too many to parse
    in a short time.
    """
    for count, token in enumerate(tokens):
        if count > TOKENS_LIMIT:
            raise TemplateSyntaxError(_TOO_MANY, token.lineno)
        yield token


def parse(parser_of: Callable[[], Parser], source: str) -> nodes.Template:
    """The syntax tree of a template with this text. Raises TemplateSyntaxError."""
    line = 1
    try:
        parser = parser_of()
        try:
            tree = parser.parse()
        except RecursionError:
            raise NestingError(parser.stream.current.lineno) from None
    except ValueError:
        number = re.search(_LONG_NUMBER, source)
        line += source.count("\n", 0, number.start() if number else 0)
        raise TemplateSyntaxError(_TOO_LARGE, line) from None
    _check(tree)
    return tree


def _check(tree: nodes.Template) -> None:
    """Raise TemplateSyntaxError for a tree that exceeds the limits."""
    pending: list[tuple[nodes.Node, int, int]] = [(tree, 0, 1)]
    count = 0
    while pending:
        node, depth, line = pending.pop()
        line = node.lineno or line
        count += 1
        if depth > DEPTH_LIMIT:
            raise NestingError(line)
        if count > NODES_LIMIT:
            raise TemplateSyntaxError(_TOO_MANY, line)
        if isinstance(node, nodes.Const) and isinstance(node.value, int) and node.value.bit_length() > INTEGER_BITS:
            raise TemplateSyntaxError(_TOO_LARGE, line)
        pending.extend((child, depth + 1, line) for child in reversed([*node.iter_child_nodes()]))


@contextmanager
def compiling(code: str) -> Iterator[None]:
    """Raises TemplateSyntaxError if Python can't compile the code that Jinja generated for a template."""
    try:
        yield
    except SyntaxError as error:
        if re.search(_DEEP_CODE, error.msg):
            raise NestingError(_line(code, error.lineno)) from None
        message = reword(error.msg, _WORDS) or f"the template can't be compiled: {error.msg}"
        raise TemplateSyntaxError(message, _line(code, error.lineno)) from None
    except (RecursionError, MemoryError):
        raise NestingError(1) from None


def _line(code: str, number: int | None) -> int:
    """The line of the template for a line of its code, which ends with a table of both: `debug_info = '1=12&2=15'`."""
    table = re.findall(r"(?<!\d)(\d+)=(\d+)", code[code.rfind("debug_info = ") :])
    return max((int(line) for line, of_code in table if int(of_code) <= (number or 0)), default=1)


ATTEMPT = "attempt"
"""The method of the environment that evaluates the expression of `try`."""

_FEW = 16
"""Constants in a list that takes little memory, however often a template creates it."""


class CodeGenerator(NativeCodeGenerator):
    """The code generator of the environment."""

    def visit_ExprStmt(self, node: nodes.ExprStmt, frame: Frame) -> None:  # noqa: N802
        value = return_value(node)
        if value is None:
            super().visit_ExprStmt(node, frame)
            return
        self.newline(node)
        self.write("return ")
        self.visit(value, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        check_loop(node)
        super().visit_For(node, frame)

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802
        if not (isinstance(node.node, nodes.EnvironmentAttribute) and node.node.name == ATTEMPT):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.write(f"environment.{ATTEMPT}(lambda: ")
        self.visit(node.args[0], frame)
        self.write(")")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        if all(_is_small(left, right) for left, right in _pairs(node)):
            super().visit_Compare(node, frame)
            return
        self.write("(")
        left = ""
        for position, operand in enumerate(node.ops):
            self.write(f"{' and ' if position else ''}environment.compared({operand.op!r}, ")
            if left:
                self.write(left)
            else:
                self.visit(node.expr, frame)
            self.write(", ")
            if position + 1 < len(node.ops):  # `a < b < c` evaluates b once
                left = self.temporary_identifier()
                self.write(f"({left} := ")
                self.visit(operand.expr, frame)
                self.write(")")
            else:
                self.visit(operand.expr, frame)
            self.write(")")
        self.write(")")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        self._counted(super().visit_List, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        if node.ctx == "load" and node.items:
            self._counted(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self.write("environment.built({")
        for pair in node.items:
            if isinstance(pair.key, nodes.Const):
                self.visit(pair.key, frame)
            else:
                self.write("environment.key(")
                self.visit(pair.key, frame)
                self.write(")")
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("})")

    def _counted(self, visit: Any, node: nodes.List | nodes.Tuple, frame: Frame) -> None:
        if len(node.items) < _FEW and all(isinstance(item, nodes.Const) for item in node.items):
            visit(node, frame)
            return
        self.write("environment.built(")
        visit(node, frame)
        self.write(")")


def _pairs(node: nodes.Compare) -> list[tuple[nodes.Expr, nodes.Operand]]:
    return [*zip((node.expr, *(operand.expr for operand in node.ops)), node.ops, strict=False)]


def _is_small(left: nodes.Expr, right: nodes.Operand) -> bool:
    """Whether a comparison of these expressions is fast, whatever their values are."""
    if right.op in ("in", "notin"):
        return isinstance(right.expr, nodes.Const)
    return isinstance(left, nodes.Const) or isinstance(right.expr, nodes.Const)

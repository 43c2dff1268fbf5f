"""Generates the code of templates: comparisons, slices and literals become calls of the environment, which counts them.

Promises:
- A comparison, a slice or a literal counts against the render's budget before Python computes it.
- A comparison with a constant of the template, which is small, stays Python's own.
"""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.compiler import Frame
from jinja2.nativetypes import NativeCodeGenerator

_FEW = 16
"""Constants in a list that takes little memory, however often a template creates it."""


class CodeGenerator(NativeCodeGenerator):
    """The code generator of the environment."""

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

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.sliced(")
        self.visit(node.node, frame)
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            if bound is None:
                self.write("None")
            else:
                self.visit(bound, frame)
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

"""Rules about Secrets that templates read: what the author of a parent can learn about them.

Promises:
- A comparison of a Secret's content with a value that the parent decides is a finding, even through variables, loops,
  macros and filters: the rendered result shows whether they are equal, so the parent's author can verify guesses.
- Metadata, the names of keys, a length, and whether something is defined are not content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jinja2 import nodes

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.jinja.functions import CLUSTER_FUNCTIONS
from ssa_operator.tools.checks.parent_choices import decided_by_parent, names_of, reads
from ssa_operator.tools.findings.findings import Finding

_KIND_POSITIONS: Mapping[str, int] = {"lookup": 1, "lookup_all": 1, "child": 0, "live": 0}

_CONTENT = frozenset({"data", "stringData"})

_KEY_METHODS = frozenset({"items", "keys"})
"""Methods of a Secret's data that give the names of its keys."""

_LENGTHS = frozenset({"count", "length", "wordcount"})
"""Filters whose result is no content."""

_COMPARING_TESTS = frozenset(
    {
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "eq",
        "equalto",
        "ge",
        "greaterthan",
        "gt",
        "in",
        "le",
        "lessthan",
        "lt",
        "ne",
        "sameas",
    }
)
_COMPARING_METHODS = frozenset({"count", "endswith", "find", "index", "rfind", "rindex", "startswith"})
_COMPARING_FILTERS = frozenset({"regex_search"})


def check_secrets(trees: Mapping[str, nodes.Template]) -> list[Finding]:
    """The findings of templates, by their paths below the templates folder."""
    decided = decided_by_parent(trees)
    secrets = names_of(trees, lambda _, expression, names: _is_secret(expression, names))
    contents = names_of(trees, lambda file, expression, names: _is_content(expression, names, secrets[file]))
    return list(
        dict.fromkeys(
            Finding(
                code="secret-comparison",
                message="a Secret's content is compared with a value that the parent decides",
                location=SourceLocation(file, line),
            )
            for file, tree in trees.items()
            for line, sides in _comparisons(tree)
            if any(_is_content(side, contents[file], secrets[file]) for side in sides)
            and any(
                reads(side, decided[file]) and not _is_content(side, contents[file], secrets[file]) for side in sides
            )
        )
    )


def _comparisons(tree: nodes.Template) -> Iterator[tuple[int, list[nodes.Expr]]]:
    """Each comparison, with its line and its operands."""
    for each in tree.find_all((nodes.Compare, nodes.Test, nodes.Call, nodes.Filter)):
        match each:
            case nodes.Compare():
                yield each.lineno, [each.expr, *(operand.expr for operand in each.ops)]
            case nodes.Test(name=name) if name in _COMPARING_TESTS:
                yield each.lineno, [each.node, *each.args]
            case nodes.Filter(name=name, node=nodes.Expr() as subject) if name in _COMPARING_FILTERS:
                yield each.lineno, [subject, *each.args]
            case nodes.Call(node=nodes.Getattr(attr=name) as method) if name in _COMPARING_METHODS:
                yield each.lineno, [method.node, *each.args]


def _is_secret(node: nodes.Node, names: set[str]) -> bool:
    """Whether an expression is a Secret, or several."""
    match node:
        case nodes.Name(name=name):
            return name in names
        case nodes.Call(node=nodes.Name(name=function)) if function in _KIND_POSITIONS:
            position = _KIND_POSITIONS[function]
            given = [*node.args[position : position + 1], *(each.value for each in node.kwargs if each.key == "kind")]
            return any(isinstance(kind, nodes.Const) and kind.value == "Secret" for kind in given)
        case nodes.Filter(name=name):
            return name != "map" and node.node is not None and _is_secret(node.node, names)
        case nodes.CondExpr():
            return any(each is not None and _is_secret(each, names) for each in (node.expr1, node.expr2))
        case nodes.Or() | nodes.And():
            return _is_secret(node.left, names) or _is_secret(node.right, names)
        case nodes.Getitem(arg=nodes.Const(value=int())):
            return _is_secret(node.node, names)
    return False


def _is_content(node: nodes.Node, names: set[str], secrets: set[str]) -> bool:
    """Whether an expression is derived from a Secret's content."""
    match node:
        case nodes.Name(name=name):
            return name in names
        case nodes.Getattr() | nodes.Getitem():
            return _is_value(node, secrets) or _is_content(node.node, names, secrets)
        case nodes.Call(node=nodes.Name(name=function)) if function in CLUSTER_FUNCTIONS:
            return False
        case nodes.Filter(name=name) if name in _LENGTHS:
            return False
        case nodes.Test() | nodes.Compare() | nodes.Not():
            return False
        case nodes.CondExpr():
            return any(each is not None and _is_content(each, names, secrets) for each in (node.expr1, node.expr2))
    return any(_is_content(each, names, secrets) for each in node.iter_child_nodes())


def _is_value(node: nodes.Getattr | nodes.Getitem, secrets: set[str]) -> bool:
    """Whether an expression reads a key of a Secret's data."""
    if _field(node) in _KEY_METHODS:
        return False
    data = node.node
    return (
        isinstance(data, (nodes.Getattr, nodes.Getitem)) and _field(data) in _CONTENT and _is_secret(data.node, secrets)
    )


def _field(node: nodes.Getattr | nodes.Getitem) -> object:
    if isinstance(node, nodes.Getattr):
        return node.attr
    return node.arg.value if isinstance(node.arg, nodes.Const) else None

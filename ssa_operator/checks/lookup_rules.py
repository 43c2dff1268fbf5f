"""Rules about lookups: whose names the author of a parent decides.

Promises:
- A name or namespace counts as the parent's if it is an expression over `spec`, `labels` or `annotations`, also through
  variables and loops of the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jinja2 import nodes

from ssa_operator.checks.findings import Finding
from ssa_operator.core.objects.source_location import SourceLocation

_OF_PARENT = frozenset({"annotations", "labels", "object", "spec"})
_POSITIONS: Mapping[str, int] = {"name": 2, "namespace": 3}


def check_lookups(trees: Mapping[str, nodes.Template]) -> list[Finding]:
    """The findings in the lookups of templates, by their paths below the templates folder."""
    return list(dict.fromkeys(finding for name, tree in trees.items() for finding in _check(name, tree)))


def _check(name: str, tree: nodes.Template) -> Iterator[Finding]:
    calls = [
        call
        for call in tree.find_all(nodes.Call)
        if isinstance(call.node, nodes.Name) and call.node.name in ("lookup", "lookup_all")
    ]
    decided = _decided_by_parent(tree) if calls else frozenset()
    for call in calls:
        assert isinstance(call.node, nodes.Name)
        kind = _argument(call, "kind", 1)
        what = kind.value if isinstance(kind, nodes.Const) else "object"
        for argument, position in _POSITIONS.items():
            if call.node.name == "lookup_all" and argument == "name":
                continue
            given = _argument(call, argument, position if call.node.name == "lookup" else None)
            if given is not None and _reads(given, decided):
                yield Finding(
                    code="lookup-by-parent",
                    message=f"the parent decides the {argument} of the {what} that {call.node.name} reads",
                    location=SourceLocation(name, call.lineno),
                )


def _argument(call: nodes.Call, name: str, position: int | None) -> nodes.Expr | None:
    """The argument of a call, None if it isn't given."""
    if position is not None and position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.kwargs if each.key == name), None)


def _decided_by_parent(tree: nodes.Template) -> frozenset[str]:
    """The names of a file whose values a parent decides."""
    decided = set(_OF_PARENT)
    sources: list[tuple[nodes.Node, nodes.Node]] = [(each.target, each.node) for each in tree.find_all(nodes.Assign)]
    sources += [(each.target, each.iter) for each in tree.find_all(nodes.For)]
    while True:
        before = len(decided)
        for target, source in sources:
            if _reads(source, frozenset(decided)):
                decided |= {
                    each.name for each in (target, *target.find_all(nodes.Name)) if isinstance(each, nodes.Name)
                }
        if len(decided) == before:
            return frozenset(decided)


def _reads(expression: nodes.Node, names: frozenset[str]) -> bool:
    """Whether an expression reads one of the names, other than by a call: the answer of a lookup is the cluster's."""
    if isinstance(expression, nodes.Call) and isinstance(expression.node, nodes.Name):
        return False
    if isinstance(expression, nodes.Name):
        return expression.name in names
    if isinstance(expression, nodes.Getattr) and expression.attr == "metadata":
        return False  # the parent's own name and namespace
    return any(_reads(each, names) for each in expression.iter_child_nodes())

"""Finds out which values in templates the author of a parent decides.

Promises:
- A value counts as the parent's if it is an expression over `spec`, or over the labels or annotations of the parent,
  also through variables, loops, `with`, macros and their parameters, imports and includes.
- The parent's own name and namespace don't count, and neither does what the cluster answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jinja2 import nodes

from ssa_operator.rendering.jinja.functions import CLUSTER_FUNCTIONS

_OF_PARENT = frozenset({"annotations", "labels", "metadata", "object", "spec"})
_CHOSEN_METADATA = frozenset({"annotations", "labels", None})
"""The fields of the parent's metadata that its author chooses beside its name; None for a computed one."""


def decided_by_parent(trees: Mapping[str, nodes.Template]) -> dict[str, set[str]]:
    """The names of each file whose values a parent decides: variables, parameters and macros. A name of an imported
    file is `module.name`.
    """
    decided = {name: set(_OF_PARENT) for name in trees}
    macros = [(name, macro) for name, tree in trees.items() for macro in tree.find_all(nodes.Macro)]
    while True:
        before = sum(map(len, decided.values()))
        for name, tree in trees.items():
            decided[name] |= _assigned(tree, decided[name])
            for file, macro in macros:
                decided[file] |= _passed(tree, macro, decided[name])
            _share(name, tree, decided)
        for file, macro in macros:
            if any(reads(part, decided[file]) for part in macro.body):
                decided[file].add(macro.name)
        if sum(map(len, decided.values())) == before:
            return decided


def _assigned(tree: nodes.Template, decided: set[str]) -> set[str]:
    """The variables of a file that get such a value."""
    sources: list[tuple[nodes.Node, list[nodes.Node]]] = []
    sources += [(each.target, [each.node]) for each in tree.find_all(nodes.Assign)]
    sources += [(each.target, [*each.body]) for each in tree.find_all(nodes.AssignBlock)]
    sources += [(each.target, [each.iter]) for each in tree.find_all(nodes.For)]
    sources += [
        (target, [value])
        for each in tree.find_all(nodes.With)
        for target, value in zip(each.targets, each.values, strict=True)
    ]
    return {
        each.name
        for target, values in sources
        if any(reads(value, decided) for value in values)
        for each in (target, *target.find_all(nodes.Name))
        if isinstance(each, (nodes.Name, nodes.NSRef))
    }


def _passed(tree: nodes.Template, macro: nodes.Macro, decided: set[str]) -> set[str]:
    """The parameters of a macro that get such a value from a call in this file, or by default."""
    parameters = [each.name for each in macro.args]
    given = [*zip(reversed(parameters), reversed(macro.defaults), strict=False)]
    for call in tree.find_all(nodes.Call):
        called = call.node.name if isinstance(call.node, nodes.Name) else getattr(call.node, "attr", "")
        if called == macro.name:
            given += zip(parameters, call.args, strict=False)
            given += [(each.key, each.value) for each in call.kwargs]
    return {name for name, value in given if reads(value, decided)}


def _share(name: str, tree: nodes.Template, decided: dict[str, set[str]]) -> None:
    """Add the names that a file gets by its imports, and those that it gives to what it includes or extends."""
    references = (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)
    for each in tree.find_all(references):
        assert isinstance(each, references)
        written = {const.value for const in _constants(each.template)}
        for file, found in decided.items():
            if not any(file == path or file.endswith(f"/{path}") for path in written):
                continue
            if isinstance(each, nodes.Import):
                decided[name] |= {f"{each.target}.{variable}" for variable in found - _OF_PARENT if "." not in variable}
            elif isinstance(each, nodes.FromImport):
                pairs = (pair if isinstance(pair, tuple) else (pair, pair) for pair in each.names)
                decided[name] |= {alias for variable, alias in pairs if variable in found}
            else:
                found.update(decided[name])


def _constants(node: nodes.Node) -> Iterator[nodes.Const]:
    if isinstance(node, nodes.Const):
        yield node
    yield from node.find_all(nodes.Const)


def reads(expression: nodes.Node, names: set[str]) -> bool:
    """Whether an expression reads one of the names, other than by asking the cluster."""
    if isinstance(expression, nodes.Call) and isinstance(expression.node, nodes.Name):
        if expression.node.name in CLUSTER_FUNCTIONS:
            return False
    elif isinstance(expression, (nodes.Name, nodes.NSRef)):
        return expression.name in names
    elif isinstance(expression, nodes.CondExpr):
        # The parent chooses among what the template has.
        return any(reads(each, names) for each in (expression.expr1, expression.expr2) if each is not None)
    elif isinstance(expression, (nodes.Getattr, nodes.Getitem)):
        root, *path = _path(expression)
        if root == "object" and path[0] == "metadata":
            root, path = "metadata", path[1:]
        if root == "metadata" and path:
            return path[0] in _CHOSEN_METADATA
        if f"{root}.{path[0] if path else ''}" in names:
            return True
    return any(reads(each, names) for each in expression.iter_child_nodes())


def _path(expression: nodes.Node) -> list[str | None]:
    """The root of a chain of fields and its fields, None for each that is computed."""
    if isinstance(expression, nodes.Name):
        return [expression.name]
    if isinstance(expression, nodes.Getattr):
        return [*_path(expression.node), expression.attr]
    if isinstance(expression, nodes.Getitem):
        field = expression.arg.value if isinstance(expression.arg, nodes.Const) else None
        return [*_path(expression.node), field]
    return [None]

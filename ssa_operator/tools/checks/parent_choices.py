"""Finds the values in templates that the author of a parent decides.

Promises:
- A value counts as the parent's if it is an expression over `spec`, or over the labels or annotations of the parent,
  even through variables, loops, `with`, macros and their parameters, imports and includes.
- The parent's own name and namespace don't count, and neither do the cluster's answers.
- Each manifest of a kind that has a folder is rendered as the operator would render it, as a parent, up to `maxDepth`.
- Templates that create parents without end are one finding for each example, at the line of the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from jinja2 import nodes

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Document
from ssa_operator.reconcile.nested_parents import chain
from ssa_operator.rendering.jinja.functions import CLUSTER_FUNCTIONS
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.offline_cluster import OfflineParent

_OF_PARENT = frozenset({"annotations", "labels", "metadata", "object", "spec"})
_CHOSEN_METADATA = frozenset({"annotations", "labels", None})
"""The fields of the parent's metadata that its author chooses beside its name; None for a computed one."""

_REFERENCES = (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)
"""The nodes by which a file refers to another one."""


Reads = Callable[[str, nodes.Node, set[str]], bool]
"""Whether an expression of a file has a value of those that are looked for; the names are those of such values."""


def decided_by_parent(trees: Mapping[str, nodes.Template]) -> dict[str, set[str]]:
    """The names of each file whose values a parent decides: variables, parameters and macros. A name of an imported
    file is `module.name`.
    """
    return names_of(trees, lambda _, expression, names: reads(expression, names), _OF_PARENT)


def names_of(
    trees: Mapping[str, nodes.Template], reads: Reads, known: frozenset[str] = frozenset()
) -> dict[str, set[str]]:
    """The names of each file that have values of one sort, beside the `known` ones: variables, parameters and macros. A
    name of an imported file is `module.name`.
    """
    decided = {name: set(known) for name in trees}
    assigned = {name: _assigned(tree) for name, tree in trees.items()}
    calls = {name: _calls(tree) for name, tree in trees.items()}
    references = {name: list(tree.find_all(_REFERENCES)) for name, tree in trees.items()}
    macros = [(name, macro) for name, tree in trees.items() for macro in tree.find_all(nodes.Macro)]
    while True:
        before = sum(map(len, decided.values()))
        for name in trees:
            decided[name] |= {
                variable
                for variables, values in assigned[name]
                if any(reads(name, value, decided[name]) for value in values)
                for variable in variables
            }
            for file, macro in macros:
                passed = _passed(calls[name].get(macro.name, ()), macro)
                decided[file] |= {each for each, value in passed if reads(name, value, decided[name])}
            for reference in references[name]:
                _share(name, reference, decided, known)
        for file, macro in macros:
            if any(reads(file, part, decided[file]) for part in macro.body):
                decided[file].add(macro.name)
        if sum(map(len, decided.values())) == before:
            return decided


def _assigned(tree: nodes.Template) -> list[tuple[set[str], list[nodes.Node]]]:
    """The variables of a file, with the nodes that each gets its value from."""
    sources: list[tuple[nodes.Node, list[nodes.Node]]] = []
    sources += [(each.target, [each.node]) for each in tree.find_all(nodes.Assign)]
    sources += [(each.target, [*each.body]) for each in tree.find_all(nodes.AssignBlock)]
    sources += [(each.target, [each.iter]) for each in tree.find_all(nodes.For)]
    sources += [
        (target, [value])
        for each in tree.find_all(nodes.With)
        for target, value in zip(each.targets, each.values, strict=True)
    ]
    return [
        (
            {
                each.name
                for each in (target, *target.find_all(nodes.Name))
                if isinstance(each, (nodes.Name, nodes.NSRef))
            },
            values,
        )
        for target, values in sources
    ]


def _calls(tree: nodes.Template) -> dict[str, list[nodes.Call]]:
    """The calls in a file by the name of what they call, without that of its module."""
    found: dict[str, list[nodes.Call]] = {}
    for call in tree.find_all(nodes.Call):
        called = call.node.name if isinstance(call.node, nodes.Name) else getattr(call.node, "attr", "")
        found.setdefault(called, []).append(call)
    return found


def _passed(calls: Iterable[nodes.Call], macro: nodes.Macro) -> list[tuple[str, nodes.Expr]]:
    """The parameters of a macro with each value that they get from these calls of it, or by default."""
    parameters = [each.name for each in macro.args]
    given = [*zip(reversed(parameters), reversed(macro.defaults), strict=False)]
    for call in calls:
        given += zip(parameters, call.args, strict=False)
        given += [(each.key, each.value) for each in call.kwargs]
    return given


def _share(name: str, reference: nodes.Node, decided: dict[str, set[str]], known: frozenset[str]) -> None:
    """Add the names that a file gets by an import, or those that it gives to what it includes or extends."""
    assert isinstance(reference, _REFERENCES)
    written = {const.value for const in _constants(reference.template)}
    for file, found in decided.items():
        if not any(file == path or file.endswith(f"/{path}") for path in written):
            continue
        if isinstance(reference, nodes.Import):
            decided[name] |= {f"{reference.target}.{variable}" for variable in found - known if "." not in variable}
        elif isinstance(reference, nodes.FromImport):
            pairs = (pair if isinstance(pair, tuple) else (pair, pair) for pair in reference.names)
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
        # The parent chooses among values of the template.
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


PLAYED = 64
"""Parents that are rendered for one example: finite chains are short, and an endless one is found at once."""


def check_nesting(example: OfflineParent, play: Callable[[Document], OfflineParent | None]) -> Iterator[Finding]:
    """The finding about parents that the example leads to. `play` renders a manifest as a parent; it returns None for
    one of a kind without a folder, or one that can't be rendered.
    """
    pending: list[tuple[OfflineParent, tuple[Identity, ...], Document | None]] = [(example, (), None)]
    played = 0
    while pending:
        parent, above, manifest = pending.pop()
        identity = parent.observed.parent.identity
        if manifest is not None and parent.rendered.documents and len(above) >= parent.folder.settings.max_depth:
            yield Finding(
                code="endless-parents",
                message=(
                    f"the templates create parents that create parents: {chain(above, identity)}; end the recursion, "
                    f"or set `maxDepth: {len(above) + 1}` or more in {parent.folder.name}/_settings.yaml"
                ),
                location=manifest.location,
            )
            return
        for document in parent.rendered.documents:
            found = play(_placed(document, identity.namespace)) if played < PLAYED else None
            if found is not None and found.observed.parent.identity not in (*above, identity):
                played += 1
                pending.append((found, (*above, identity), document))


def _placed(document: Document, namespace: str) -> Document:
    """The manifest, in the namespace of its parent if it names none."""
    metadata: Mapping[str, object] = document.body["metadata"]
    if not namespace or metadata.get("namespace"):
        return document
    return replace(document, body={**document.body, "metadata": {**metadata, "namespace": namespace}})

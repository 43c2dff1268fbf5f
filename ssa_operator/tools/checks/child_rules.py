"""Rules about the other objects that templates read: their fields must exist, and a template must render the children.

Promises:
- A field of `child`, `live` or `lookup` with a constant kind is checked, also through a variable that is set once, and
  a field of an item of `lookup_all` or of a list in such an object, also through loops.
- It is found also in branches that no example takes; `default` makes no difference, because no object ever has it.
- A kind without a schema, or whose `status` has none, is no finding, nor is the `status` of a lookup.
- A child of a kind that doesn't exist is a finding where its name is near to one that the folder renders.
- The name of a child that `_status.yaml.j2` reads is a finding unless the example or a variant of it renders it; in a
  manifest, such a name is an error of the render.
- Nothing is reported of names if a manifest failed or its name is unknown, or if no example shows a manifest of a kind
  that the folder can render.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from jinja2 import nodes
from msgspec import Struct

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.json_schema import Schema, fields, part_schema
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.manifest_rules import UNKNOWN_REFERENCE
from ssa_operator.tools.findings import Finding
from ssa_operator.tools.offline.offline_cluster import OfflineParent
from ssa_operator.tools.schema_rules import UNKNOWN_FIELD, UNKNOWN_KIND

_METHODS = frozenset({"get", "items", "keys", "values"})
_OPEN = ("additionalProperties", "x-kubernetes-preserve-unknown-fields")
_CHILDREN = ("child", "live")


class _ChildRead(Struct, frozen=True, kw_only=True):
    """An expression that reads a field of another object."""

    function: str
    kind: str
    api_version: str
    """'' where the function takes none."""
    path: FieldPath
    line: int


def check_child_fields(
    trees: Mapping[str, nodes.Template], schemas: KubernetesSchemas, rendered: Sequence[str]
) -> Iterator[Finding]:
    """The findings in the syntax trees of a folder. `rendered` are the kinds that its templates render, () where that
    is not known.
    """
    for file, tree in trees.items():
        for read in _reads(tree):
            location = SourceLocation(file, read.line)
            versions = [read.api_version] if read.api_version else schemas.api_versions(read.kind)
            near = near_names(read.kind, rendered) if read.function in _CHILDREN and not versions else []
            if near and read.kind not in rendered:
                message = f"no template of this folder renders a {read.kind}, so {read.function} never finds it"
                yield Finding(code=UNKNOWN_KIND, message=message, location=location, fix=f"did you mean {near[0]}?")
                continue
            # A lookup of a field of the status that no object has is a way to wait until the object is gone.
            schema_of = schemas.with_status if read.function in _CHILDREN else schemas.schema
            found = [schema for version in versions if (schema := schema_of(version, read.kind)) is not None]
            missing = [_first_unknown(read.path, schema, schemas) for schema in found]
            if missing and all(missing):
                yield _finding(read, max(each for each in missing if each), location)


def _finding(read: _ChildRead, unknown: tuple[FieldPath, tuple[str, ...]], location: SourceLocation) -> Finding:
    path, siblings = unknown
    last = str(path[-1])
    near = near_names(last, siblings) or [each for each in siblings if each.lower() == last.lower()]
    fix = f"did you mean {field_text((*path[:-1], near[0]))}?" if near else ""
    message = f"no {read.kind} has a field {field_text(path)}"
    return Finding(code=UNKNOWN_FIELD, message=message, location=location, fix=fix)


def _first_unknown(
    path: FieldPath, schema: Schema, schemas: KubernetesSchemas
) -> tuple[FieldPath, tuple[str, ...]] | None:
    """The first part of a path that a schema doesn't have, with the fields beside it; None if it has all."""
    for length, part in enumerate(path, 1):
        schema = schemas.resolved(schema)
        known, inner = fields(schema), part_schema(schema, part)
        if isinstance(part, str) and part not in known:
            is_open = not known or part in _METHODS or any(schema.get(each) for each in _OPEN)
            return None if is_open else (path[:length], tuple(known))
        if inner is None:
            return None
        schema = inner
    return None


class _Scope(Struct, frozen=True):
    """The expressions that names stand for, each with the names that it sees itself."""

    names: Mapping[str, tuple[nodes.Node, _Scope]]

    def without(self, names: Iterable[str]) -> _Scope:
        hidden = frozenset(names)
        return _Scope({name: value for name, value in self.names.items() if name not in hidden})


def _reads(tree: nodes.Template) -> Iterator[_ChildRead]:
    scope = _Scope({name: (value, _Scope({})) for name, value in _variables(tree).items()})
    yield from _reads_in(tree, scope)


def _reads_in(node: nodes.Node, scope: _Scope, *, inner: bool = False) -> Iterator[_ChildRead]:
    """The reads in a part of a template. `inner`: the part is within a chain of fields."""
    if isinstance(node, (nodes.Getattr, nodes.Getitem, nodes.Call)) and not inner:
        root, path = _chain(node, scope)
        if isinstance(root, nodes.Call) and (called := _called(root)) is not None:
            function, api_version, kind = called
            if function != "lookup_all":
                yield _ChildRead(function=function, kind=kind, api_version=api_version, path=path, line=node.lineno)
            elif path and isinstance(path[0], int):
                yield _ChildRead(function=function, kind=kind, api_version=api_version, path=path[1:], line=node.lineno)
    if isinstance(node, (nodes.Getattr, nodes.Getitem)):
        yield from _reads_in(node.node, scope, inner=True)
        if isinstance(node, nodes.Getitem):
            yield from _reads_in(node.arg, scope)
        return
    own = scope
    if isinstance(node, nodes.For):
        yield from _reads_in(node.iter, scope)
        own = scope.without(each.name for each in node.target.find_all(nodes.Name))
        if isinstance(node.target, nodes.Name):
            own = scope.without([node.target.name])
            item = nodes.Getitem(node.iter, nodes.Const(0), "load", lineno=node.lineno)
            own = _Scope({**own.names, node.target.name: (item, scope)})
    elif isinstance(node, nodes.Macro):
        own = scope.without(each.name for each in node.args)
    for each in node.iter_child_nodes():
        if not (isinstance(node, nodes.For) and each is node.iter):
            yield from _reads_in(each, own)


def _variables(tree: nodes.Template) -> dict[str, nodes.Expr]:
    """The variables of a file that are set once, to a call or to a part of what one gives."""
    assigned = [(each.target, each.node) for each in tree.find_all(nodes.Assign)]
    counts = Counter(each.name for each in tree.find_all(nodes.Name) if each.ctx != "load")
    return {
        target.name: value
        for target, value in assigned
        if isinstance(target, nodes.Name) and counts[target.name] == 1 and isinstance(value, (nodes.Call, nodes.Filter))
    }


_SAME_ITEMS = frozenset(
    {"d", "default", "list", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "unique"}
)
"""Filters that give items of the list that they get."""

_ITEM = frozenset({"first", "last"})
"""Filters that give an item of the list that they get."""


def _chain(node: nodes.Node, scope: _Scope) -> tuple[nodes.Node, FieldPath]:
    """The root of a chain of fields, and its fields up to the first one that is computed; 0 for an item of a list."""
    path: list[str | int] = []
    while True:
        if isinstance(node, nodes.Getattr):
            path.insert(0, node.attr)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            path.insert(0, node.arg.value if isinstance(node.arg.value, str) else 0)
        elif isinstance(node, nodes.Getitem):
            path.clear()
        elif isinstance(node, nodes.Filter) and node.name in _ITEM:
            path.insert(0, 0)
        elif isinstance(node, nodes.Name) and node.name in scope.names:
            node, scope = scope.names[node.name]
            continue
        elif not (isinstance(node, nodes.Filter) and node.name in _SAME_ITEMS):
            return node, tuple(path)
        if node.node is None:
            return node, ()
        node = node.node


def _called(call: nodes.Call) -> tuple[str, str, str] | None:
    """The function, the apiVersion and the kind of a call that asks for an object; None for any other."""
    if not isinstance(call.node, nodes.Name):
        return None
    texts = [each.value if isinstance(each, nodes.Const) else None for each in call.args]
    name = call.node.name
    if name in _CHILDREN and texts and isinstance(texts[0], str):
        return name, "", texts[0]
    if name in ("lookup", "lookup_all") and len(texts) > 1 and isinstance(texts[0], str) and isinstance(texts[1], str):
        return name, texts[0], texts[1]
    return None


class ChildNames:
    """The children that the examples of a folder render, and those that its status reads."""

    def __init__(self) -> None:
        self._rendered: dict[Reference, None] = {}
        self._read: dict[Reference, SourceLocation | None] = {}
        self._found_at: set[SourceLocation | None] = set()
        self._unknown = False

    def add(self, parent: OfflineParent) -> None:
        """Another render of the folder."""
        waits = [wait.identity for wait in parent.rendered.waits]
        self._unknown = self._unknown or bool(parent.problems) or None in waits
        identities = [*(step.identity for step in parent.steps), *(each for each in waits if each is not None)]
        own = dict.fromkeys(Reference(each.kind, each.name) for each in identities)
        self._rendered |= own
        self._read = {**parent.status.children, **self._read}
        self._found_at |= {location for child, location in parent.status.children.items() if child in own}

    def findings(self, possible: Collection[str] | None) -> Iterator[Finding]:
        """The reads of children that no render has. `possible` are the kinds that the folder can render, None if that
        is unknown.
        """
        if self._unknown or possible is None:
            return
        shown = {each.kind for each in self._rendered}
        for child, location in self._read.items():
            unsure = child.kind in possible and child.kind not in shown
            if child in self._rendered or location in self._found_at or unsure:
                continue
            names = [f"{each.kind}/{each.name}" for each in self._rendered]
            near = near_names(f"{child.kind}/{child.name}", names)
            fix = f"did you mean {near[0]}?" if near else f"rendered are {', '.join(names[:_SHOWN]) or 'no manifests'}"
            yield Finding(code=UNKNOWN_REFERENCE, message=f"no template renders {child}", location=location, fix=fix)


_SHOWN = 5

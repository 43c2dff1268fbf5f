"""Rules about what the author of a parent decides: the objects of lookups, the kinds of manifests, the parents that
templates create, and what shows a Secret's content.

Promises:
- A value is the parent's if it is an expression over `spec`, or over the labels or annotations of the parent, even
  through variables, loops, `with`, macros and their parameters, imports and includes. The parent's own name and
  namespace don't count, and neither do the cluster's answers.
- A lookup whose kind, name or namespace the parent decides is a finding, and so is a manifest whose kind the parent
  decides, or whose namespace if the operator applies manifests in other namespaces.
- A comparison of a Secret's content with such a value is a finding: the rendered result shows whether they are equal.
  Metadata, the names of keys, a length, and whether something is defined are not content.
- Each manifest of a kind that has a folder is rendered as a parent, up to `maxDepth`. Templates that create parents
  without end are one finding for each example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from jinja2 import nodes

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.nested_parents import chain
from ssa_operator.rendering.jinja.functions import CLUSTER_FUNCTIONS
from ssa_operator.rendering.values.line_marks import without_marks
from ssa_operator.tools.findings import Code, Finding
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


ENDLESS_PARENTS = Code.error(
    "endless-parents",
    "parents that create parents without an end",
    "The templates render a parent, of their own kind or of another one with a folder, whose templates render "
    "the next parent, and so on. The operator creates as many levels as maxDepth in _settings.yaml allows, 8 "
    "by default, and reports InvalidManifest. End the recursion, for example with a level in the spec that "
    "each parent counts down, or set maxDepth where that many levels are meant.",
)


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
                code=ENDLESS_PARENTS,
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


_POSITIONS: Mapping[str, int] = {"apiVersion": 0, "kind": 1, "name": 2, "namespace": 3, "namespaces": 5}

_HOLE = "\ufffc"
"""Stands for an expression in the text of a template."""

_KIND = re.compile(r"""(?:- )?["']?(?P<field>kind|apiVersion)["']?\s*:""")
_METADATA = re.compile(r"""(?:- )?(?P<indent> *)["']?metadata["']?\s*:\s*(?P<flow>\{)?""")
_NAMESPACE = re.compile(r"""["']?namespace["']?\s*:""")


LOOKUP_BY_PARENT = Code.warning(
    "lookup-by-parent",
    "a lookup whose name the parent decides",
    "The kind, name or namespace in a lookup comes from spec, labels or annotations. The operator reads the "
    "object with its own permissions, so anyone who can edit a parent can have it read another object, a "
    "Secret too. Where that is meant, make sure that nothing of a Secret reaches an object that these users "
    "may read.",
)


def check_lookups(trees: Mapping[str, nodes.Template]) -> list[Finding]:
    """The findings in the lookups of templates, by their paths below the templates folder."""
    decided = decided_by_parent(trees)
    return list(dict.fromkeys(finding for name, tree in trees.items() for finding in _check(name, tree, decided[name])))


def _check(name: str, tree: nodes.Template, decided: set[str]) -> Iterator[Finding]:
    for call in tree.find_all(nodes.Call):
        if not isinstance(call.node, nodes.Name) or call.node.name not in ("lookup", "lookup_all"):
            continue
        kind = _argument(call, "kind", 1)
        what = kind.value if isinstance(kind, nodes.Const) else "object"
        for argument, position in _POSITIONS.items():
            if call.node.name == "lookup_all" and argument == "name":
                continue
            given = _argument(call, argument, position)
            if given is not None and reads(given, decided):
                yield Finding(
                    code=LOOKUP_BY_PARENT,
                    message=f"the parent decides the {argument} of the {what} that {call.node.name} reads",
                    location=SourceLocation(name, call.lineno),
                )


def _argument(call: nodes.Call, name: str, position: int) -> nodes.Expr | None:
    """The argument of a call, None if it isn't given."""
    if position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.kwargs if each.key == name), None)


MANIFEST_BY_PARENT = Code.warning(
    "manifest-by-parent",
    "a manifest whose kind or namespace the parent decides",
    "The kind, the apiVersion or the whole manifest comes from spec, labels or annotations, or, where the "
    "operator applies manifests in other namespaces, the namespace. Anyone who can edit a parent then has the "
    "operator write whatever its permissions allow. Write the field into the template, choose it by a "
    "condition, or run with --impersonate.",
)


def check_manifest_choices(
    trees: Mapping[str, nodes.Template], applies_elsewhere: Callable[[str], bool]
) -> list[Finding]:
    """The findings in the manifests of templates. `applies_elsewhere`: whether the manifests of a file may be in other
    namespaces than the parent.
    """
    decided = decided_by_parent(trees)
    found: dict[Finding, None] = {}
    for name, tree in trees.items():
        for before, line, expression in _expressions(tree):
            field = _field(before, line)
            if field == "namespace" and not applies_elsewhere(name):
                continue
            if field == "manifest" and (name.rpartition("/")[2].startswith("_") or _is_macros_text(tree, expression)):
                continue
            if field and reads(expression, decided[name]):
                of = "this manifest" if field == "manifest" else f"the {field} of this manifest"
                location = SourceLocation(name, expression.lineno)
                found[Finding(code=MANIFEST_BY_PARENT, message=f"the parent decides {of}", location=location)] = None
    return list(found)


def _is_macros_text(tree: nodes.Template, expression: nodes.Expr) -> bool:
    """Whether a macro prints an expression or is called in it: its text may be any part of a manifest."""
    if isinstance(expression, nodes.Call) or expression.find(nodes.Call):
        return True
    texts = (each for kind in (nodes.Macro, nodes.AssignBlock) for each in tree.find_all(kind))
    return any(found is expression for text in texts for found in text.find_all(type(expression)))


def _expressions(tree: nodes.Template) -> Iterator[tuple[list[str], str, nodes.Expr]]:
    """Each expression that a file prints, with the lines before it, and its own line before and at it."""
    lines = [""]
    for output in tree.find_all(nodes.Output):
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                first, *rest = without_marks(node.data).split("\n")
                lines[-1] += first
                lines += rest
            else:
                lines[-1] += _HOLE
                yield lines[:-1], lines[-1], node


def _field(before: list[str], line: str) -> str | None:
    """The field of a manifest that the last expression of a line gives: `manifest` for a whole manifest, None for
    anything else.
    """
    if line == _HOLE:
        return "manifest"
    if found := _KIND.match(line):
        return found["field"]
    if (found := _METADATA.match(line)) and found["flow"]:
        return "namespace" if _NAMESPACE.search(line.rpartition(",")[2]) else None
    if "," in line or not _NAMESPACE.match(line.lstrip()):
        return None
    indent = len(line) - len(line.lstrip())
    above = next((each for each in reversed(before) if each.strip() and len(each) - len(each.lstrip()) < indent), "")
    return "namespace" if (found := _METADATA.match(above)) and not found["indent"] else None


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


SECRET_COMPARISON = Code.warning(
    "secret-comparison",
    "a Secret's content that is compared with a value of the parent",
    "What is rendered shows whether they are equal, so anyone who can edit a parent and read its status or its "
    "children can guess the content. Compare in the workload, which reads the Secret itself, or compare the "
    "content with an object that the parent's author can't change.",
)


def check_secrets(trees: Mapping[str, nodes.Template]) -> list[Finding]:
    """The findings of templates, by their paths below the templates folder."""
    decided = decided_by_parent(trees)
    secrets = names_of(trees, lambda _, expression, names: _is_secret(expression, names))
    contents = names_of(trees, lambda file, expression, names: _is_content(expression, names, secrets[file]))
    return list(
        dict.fromkeys(
            Finding(
                code=SECRET_COMPARISON,
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
    if _member(node) in _KEY_METHODS:
        return False
    data = node.node
    return (
        isinstance(data, (nodes.Getattr, nodes.Getitem))
        and _member(data) in _CONTENT
        and _is_secret(data.node, secrets)
    )


def _member(node: nodes.Getattr | nodes.Getitem) -> object:
    if isinstance(node, nodes.Getattr):
        return node.attr
    return node.arg.value if isinstance(node.arg, nodes.Const) else None

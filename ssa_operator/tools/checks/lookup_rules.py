"""Rules about lookups and manifests: which parts of them the author of a parent decides.

Promises:
- A lookup whose kind, name or namespace the parent decides is a finding, and so is a manifest whose kind the parent
  decides.
- A manifest whose namespace the parent decides is a finding if the operator applies manifests in other namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from jinja2 import nodes

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.values.line_marks import without_marks
from ssa_operator.tools.checks.parent_choices import decided_by_parent, reads
from ssa_operator.tools.findings.findings import Finding

_POSITIONS: Mapping[str, int] = {"apiVersion": 0, "kind": 1, "name": 2, "namespace": 3, "namespaces": 5}

_HOLE = "\ufffc"
"""Stands for an expression in the text of a template."""

_KIND = re.compile(r"""(?:- )?["']?(?P<field>kind|apiVersion)["']?\s*:""")
_METADATA = re.compile(r"""(?:- )?(?P<indent> *)["']?metadata["']?\s*:\s*(?P<flow>\{)?""")
_NAMESPACE = re.compile(r"""["']?namespace["']?\s*:""")


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
                    code="lookup-by-parent",
                    message=f"the parent decides the {argument} of the {what} that {call.node.name} reads",
                    location=SourceLocation(name, call.lineno),
                )


def _argument(call: nodes.Call, name: str, position: int) -> nodes.Expr | None:
    """The argument of a call, None if it isn't given."""
    if position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.kwargs if each.key == name), None)


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
                found[Finding(code="manifest-by-parent", message=f"the parent decides {of}", location=location)] = None
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

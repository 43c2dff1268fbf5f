"""Rules about what a manifest names in other manifests of the same render: objects, keys and ports.

Promises:
- A missing object is a finding only if it is meant to be of this render: its name is near to that of a rendered one, or
  it has the parent's name and is of a kind that no user creates beside the operator. A custom resource of the render
  may have a controller that creates it; then only a near name counts.
- What the examples contain, what a template looks up, and what the parent's spec names is made elsewhere. `optional`
  references may lead nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.identity import is_built_in
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.tools.checks.literal_rules import texts
from ssa_operator.tools.findings.findings import Finding, field_finding
from ssa_operator.tools.scaffold.reference_fields import FieldPlace, place_of

_OF_OPERATORS = ("Deployment", "ReplicaSet", "Role", "Service", "ServiceAccount", "StatefulSet")
"""The kinds that no user creates beside an operator under the name of its parent."""
_OPTIONAL = ("serviceName", "subdomain")
"""Fields that may name a Service that doesn't exist: then the pods have no names in DNS."""


class _Named(Struct, frozen=True):
    """An object that a manifest names."""

    document: Document
    path: FieldPath
    kind: str
    name: str
    holder: Mapping[str, Any]
    """The mapping with the name."""

    def finding(self, path: FieldPath, message: str, fix: str) -> Finding:
        return field_finding(self.document, "unknown-reference", path, message, fix)


def check_references(
    documents: Sequence[Document], parent: Mapping[str, Any], known: Collection[Reference]
) -> Iterator[Finding]:
    """The findings in the manifests of a parent. `known` are the objects of the examples and of documents that wait."""
    prefix = parent["metadata"]["name"]
    given = [text for _, text in texts(parent.get("spec"), ()) if text and text != prefix]
    asked = [each.query for document in documents for each in document.dependencies]
    elsewhere = {*known, *(Reference(getattr(each, "kind", ""), getattr(each, "name", "")) for each in asked)}
    alone = all(is_built_in(each.identity.group) for each in documents)
    rendered = {(each.identity.namespace, each.identity.kind, each.identity.name): each for each in documents}
    for document in documents:
        namespace = document.identity.namespace
        for each in _names(document.body, place_of(document.body), (), document):
            target = rendered.get((namespace, each.kind, each.name))
            if each.holder.get("optional") is True or each.holder.get("namespace", namespace) != namespace:
                continue
            if target is not None:
                yield from _keys(each, target)
                yield from _ports(each, target)
            elif Reference(each.kind, each.name) not in elsewhere and not any(text in each.name for text in given):
                names = [name for place, kind, name in rendered if (place, kind) == (namespace, each.kind)]
                # Without the parent's name, which all have.
                short = {name.removeprefix(f"{prefix}-"): name for name in names}
                alike = near_names(each.name.removeprefix(f"{prefix}-"), short, likeness=0.7)
                near = [short[name] for name in alike]
                own = (
                    f"-{prefix}-" in f"-{each.name}-" and each.kind in _OF_OPERATORS and each.path[-1] not in _OPTIONAL
                )
                if near or (own and alone):
                    fix = f"did you mean {(near or names)[0]}?" if near or len(names) == 1 else "add its manifest"
                    yield each.finding(each.path, f"is {each.name}, and no template renders this {each.kind}", fix)


def _names(value: Any, place: FieldPlace, path: FieldPath, document: Document) -> Iterator[_Named]:
    if isinstance(value, Mapping) and not place.custom:
        for key, item in value.items():
            kind = place.kind_named_by(key, value)
            if kind and isinstance(item, str) and item:
                yield _Named(document, (*path, key), kind, item, value)
            yield from _names(item, place.below(key), (*path, key), document)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _names(item, place.item(), (*path, at), document)


def _keys(named: _Named, target: Document) -> Iterator[Finding]:
    """The findings about keys that a ConfigMap or Secret of the render doesn't have."""
    known = {key for part in ("data", "stringData", "binaryData") for key in target.body.get(part) or ()}
    items = enumerate(named.holder.get("items") or ())
    wanted: list[tuple[FieldPath, Any]] = [(("key",), named.holder.get("key"))]
    wanted += [(("items", at, "key"), each.get("key")) for at, each in items]
    for path, key in wanted if known else ():  # a controller may fill an empty one
        if isinstance(key, str) and key not in known:
            near = near_names(key, known)
            fix = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(known))}"
            yield named.finding(
                (*named.path[:-1], *path), f"is {key}, and {named.kind} {named.name} has no such key", fix
            )


def _ports(named: _Named, target: Document) -> Iterator[Finding]:
    """The findings about a port of an Ingress that its Service doesn't have."""
    port, spec = named.holder.get("port"), target.body.get("spec")
    if named.document.body["kind"] != "Ingress" or not isinstance(port, Mapping) or not isinstance(spec, Mapping):
        return
    for field, of_service in (("number", "port"), ("name", "name")):
        known = [each.get(of_service) for each in spec.get("ports") or ()]
        if field in port and port[field] not in known:
            message = f"is {port[field]}, and Service {named.name} has no such port"
            fix = f"it has {', '.join(str(each) for each in known if each is not None)}"
            yield named.finding((*named.path[:-1], "port", field), message, fix)

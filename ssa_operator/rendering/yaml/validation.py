"""What every manifest must have, whatever its kind.

Promises:
- A document that leaves here has an apiVersion, a kind and a metadata.name, and labels and annotations of strings.
- A `kind: List` is as good as its items; each keeps its own place, and each waits alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssa_operator.core.objects.annotations import PREFIX, AnnotationError, parse_references
from ssa_operator.core.objects.cluster_view import Query
from ssa_operator.core.objects.identity import Identity, split_api_version
from ssa_operator.core.objects.render_result import Dependency, Document, RenderProblem, Wait
from ssa_operator.core.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.rendering.values.manifest_values import kind_of
from ssa_operator.rendering.values.tracked_containers import settled
from ssa_operator.rendering.values.tracked_values import Provenance, TrackedValue, UnknownValue, plain, union
from ssa_operator.rendering.yaml.nodes import DocumentError, Filling, Node, find


@dataclass(frozen=True, slots=True)
class _Whereabouts:
    """Finds the place of a field when somebody asks."""

    node: Node
    filling: Filling
    prefix: FieldPath = ()

    def __call__(self, path: FieldPath) -> SourceLocation:
        return find(self.node, (*self.prefix, *path), self.filling)


def manifests(node: Node, filling: Filling) -> Iterator[Document | RenderProblem | Wait]:
    """The manifests of one YAML document; a problem for each that can't be one, a wait for each that can't yet.

    The namespace of a waiting one is '' where it has none of its own.
    """
    try:
        body: Any = node.build(filling)
    except DocumentError as error:
        yield RenderProblem(str(error), error.location)
        return
    if body is None:
        return
    if _is_list(body):
        items = body.get("items")
        own = items.sources if isinstance(items, (TrackedValue, UnknownValue)) else ()
        if isinstance(items, UnknownValue):
            yield Wait(location=find(node, ("items",), filling), awaited=items.awaited, dependencies=dependencies(own))
            return
        if not isinstance(plain(items), list):
            yield RenderProblem("items of a List must be a list", find(node, ("items",), filling))
            return
        for index, item in enumerate(plain(items)):
            yield _manifest(TrackedValue(item, own) if own else item, _Whereabouts(node, filling, ("items", index)))
    else:
        yield _manifest(body, _Whereabouts(node, filling))


def _is_list(body: Any) -> bool:
    return isinstance(body, dict) and _says(body, "apiVersion", "v1") and _says(body, "kind", "List")


def _says(body: dict[str, Any], field: str, text: str) -> bool:
    found = plain(body.get(field))
    return isinstance(found, str) and found == text


def _manifest(body: Any, location_of: _Whereabouts) -> Document | RenderProblem | Wait:
    made_of: tuple[Dependency, ...] = ()
    if location_of.filling.carried:
        observed: list[TrackedValue | UnknownValue] = []
        body = settled(body, observed)
        made_of = dependencies(union(*(value.sources for value in observed)))
        awaited = [awaited for value in observed if isinstance(value, UnknownValue) for awaited in value.awaited]
        if awaited:
            location = location_of(_unknown(body) or ())
            annotations = _annotations(body)
            return Wait(
                location=location,
                awaited=tuple(dict.fromkeys(awaited)),
                identity=_identity(body),
                dependencies=joined(made_of, _after(annotations, location_of)),
                annotations=annotations,
            )
    fault = _fault(body)
    if fault is not None:
        path, message = fault
        named = _identity(body)
        return RenderProblem(message, location_of(path), (named,) if named is not None else ())
    if body["metadata"].get("annotations"):
        made_of = joined(made_of, _after(body["metadata"]["annotations"], location_of))
    return Document(body=body, location=location_of(()), location_of=location_of, dependencies=made_of)


def dependencies(sources: Iterable[Provenance]) -> tuple[Dependency, ...]:
    """What something is made of, each question once."""
    return joined(Dependency(source.query, source.awaited, location=source.location) for source in sources)


def joined(*groups: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """The uses of all groups, each question once: awaited where one of its uses is, and then in the place of that."""
    found: dict[Query, Dependency] = {}
    for use in itertools.chain(*groups):
        known = found.setdefault(use.query, use)
        if known is not use:
            first = use if use.awaited and not known.awaited else known
            found[use.query] = replace(first, after=use.after or known.after)
    return tuple(found.values())


def _after(annotations: Mapping[str, Any], location_of: _Whereabouts) -> tuple[Dependency, ...]:
    """What the annotation `after` names; one that can't be read is refused with the manifest."""
    key = f"{PREFIX}after"
    if key not in annotations:
        return ()
    try:
        named = parse_references(annotations[key])
    except AnnotationError:
        return ()
    location = location_of(("metadata", "annotations", key))
    return tuple(Dependency(reference, awaited=True, after=True, location=location) for reference in named)


def _unknown(value: Any) -> FieldPath | None:
    """The first field of settled data that is unknown."""
    if isinstance(value, UnknownValue):
        return ()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        path = () if isinstance(name, UnknownValue) else _unknown(item)
        if path is not None:
            return path if isinstance(name, UnknownValue) else (name, *path)
    return None


def _identity(body: Any) -> Identity | None:
    """What a document that waits is called, None where that is unknown too."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or any(isinstance(key, UnknownValue) for key in (*body, *metadata)):
        return None
    namespace = metadata.get("namespace")
    parts = [body.get("apiVersion"), body.get("kind"), "" if namespace is None else namespace, metadata.get("name")]
    if not all(isinstance(part, str) for part in parts) or not (parts[0] and parts[1] and parts[3]):
        return None
    api_version, kind, given, name = parts
    return Identity(split_api_version(api_version)[0], kind, given, name)


def _annotations(body: Any) -> dict[str, Any]:
    """What is known of the annotations of a document that waits."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    known = annotations.items() if isinstance(annotations, dict) else ()
    return {
        key: value for key, value in known if not isinstance(key, UnknownValue) and not isinstance(value, UnknownValue)
    }


def _fault(body: Any) -> tuple[FieldPath, str] | None:
    if not isinstance(body, dict):
        return (), f"a manifest must be a mapping, and this is {kind_of(body)}"
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            return (field,), _wanted(field, body.get(field))
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return ("metadata",), f"metadata must be a mapping, and this is {kind_of(metadata)}"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        hint = (
            "; generateName can't be applied, for each apply would make another object"
            if "generateName" in metadata
            else ""
        )
        return ("metadata", "name"), _wanted("metadata.name", metadata.get("name")) + hint
    if not isinstance(metadata.get("namespace", ""), (str, type(None))):
        return ("metadata", "namespace"), _wanted("metadata.namespace", metadata["namespace"])
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if not isinstance(values, (dict, type(None))):
            return ("metadata", field), f"metadata.{field} must be a mapping, and this is {kind_of(values)}"
        for key, value in (values or {}).items():
            if not isinstance(value, (str, type(None))):
                path: FieldPath = ("metadata", field, key)
                return path, f"{field_text(path)} must be a string, and this is {kind_of(value)}; write it in quotes"
    return None


def _wanted(field: str, value: Any) -> str:
    if value is None:
        return f"{field} is missing"
    return f"{field} is empty" if value == "" else f"{field} must be a string, and this is {kind_of(value)}"

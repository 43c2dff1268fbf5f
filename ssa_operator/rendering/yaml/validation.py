"""Validates documents as manifests: the fields that every kind must have.

Promises:
- Every document has an apiVersion, a kind and a metadata.name, and labels and annotations of strings. Its name and its
  namespace are segments of a path, even while other parts of it wait.
- Only who writes a manifest instructs the operator: its annotations in a value, such as a block of the parent's spec,
  are a problem of the document, unless the whole manifest is the value.
- The items of a list of any kind (`List`, `RoleList`) are documents of their own: each has its own location, and each
  waits alone. As for kubectl, an item of `RoleList` is a Role.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssa_operator.objects.annotations import PREFIX, AnnotationError, parse_references
from ssa_operator.objects.cluster_view import Question
from ssa_operator.objects.identity import Identity, segment_fault, split_api_version
from ssa_operator.objects.render_result import Dependency, Document, RenderProblem, Wait
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS, SecretFields
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, value_at
from ssa_operator.rendering.values.manifest_values import kind_of
from ssa_operator.rendering.values.secrecy import HIDDEN_RULE
from ssa_operator.rendering.values.tracked_containers import FieldOrigins, content_paths, is_traced, strip_provenance
from ssa_operator.rendering.values.tracked_values import (
    Provenance,
    TrackedValue,
    UnknownValue,
    is_content,
    merge_provenance,
    untracked,
)
from ssa_operator.rendering.yaml.nodes import (
    DocumentError,
    FieldsByName,
    Node,
    SlotValues,
    find_location,
    node_at,
    value_paths,
)

GENERATED_NAME = "generateName can't be applied, because each apply would create another object"
"""Ends the problem of an object that has a generateName and no name."""

NO_PARENT: Mapping[str, Any] = {}
"""For manifests in which no parent has a part."""


@dataclasses.dataclass(frozen=True, slots=True)
class _FieldLocations:
    """Finds the source location of a field on demand."""

    node: Node
    slots: SlotValues
    prefix: FieldPath = ()
    _known: dict[int, FieldsByName] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, path: FieldPath) -> SourceLocation:
        return find_location(self.node, (*self.prefix, *path), self.slots, self._known)

    @property
    def written(self) -> Node | None:
        """The text of the document itself, None if it comes with a value."""
        return node_at(self.node, self.prefix)

    def is_written(self, path: FieldPath) -> bool:
        """Whether the text of the template writes the field's keys."""
        return node_at(self.node, (*self.prefix, *path)) is not None


def manifests(
    node: Node, slots: SlotValues, parent: Mapping[str, Any] = NO_PARENT, *, lost: bool = False
) -> Iterator[Document | RenderProblem | Wait]:
    """The manifests of one YAML document, rendered for a parent: a problem for an invalid one, a wait for one with an
    unknown value.

    The namespace of a waiting manifest is '' if it names none. `lost`: whether a Secret's content became text or a key
    of the file without a provenance, so that each value may be content whose origin isn't known to be the parent.
    """
    try:
        body: Any = node.build(slots)
    except DocumentError as error:
        yield RenderProblem(str(error), error.location)
        return
    if body is None:
        return
    if _is_list(body):
        items = body.get("items")
        provenance = items.provenance if isinstance(items, (TrackedValue, UnknownValue)) else ()
        if isinstance(items, UnknownValue):
            yield Wait(
                location=find_location(node, ("items",), slots),
                awaited=items.awaited,
                dependencies=dependencies_of(provenance),
            )
            return
        if not isinstance(untracked(items), list):
            yield RenderProblem("items of a List must be a list", find_location(node, ("items",), slots))
            return
        typed = _item_type(body)
        for index, given in enumerate(untracked(items)):
            item = {**typed, **given} if isinstance(given, dict) else given
            yield _manifest(
                TrackedValue(item, provenance) if provenance else item,
                _FieldLocations(node, slots, ("items", index)),
                parent,
                lost=lost,
            )
    else:
        yield _manifest(body, _FieldLocations(node, slots), parent, lost=lost)


def _is_list(body: Any) -> bool:
    """Whether a document is a list, as kubectl tells it: by its items. An object with items has a name, too."""
    if not isinstance(body, dict):
        return False
    if _has_text(body, "apiVersion", "v1") and _has_text(body, "kind", "List"):
        return True
    metadata = untracked(body.get("metadata"))
    is_named = isinstance(metadata, dict) and metadata.get("name") is not None
    return isinstance(untracked(body.get("items")), list) and not is_named


def _item_type(body: dict[str, Any]) -> dict[str, str]:
    """The kind and apiVersion that the items of a list have if they name none."""
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(api_version, str) or kind in ("List", "") or kind[-4:] != "List":
        return {}
    return {"apiVersion": api_version, "kind": kind.removesuffix("List")}


def _has_text(body: dict[str, Any], field: str, text: str) -> bool:
    found = untracked(body.get(field))
    return isinstance(found, str) and found == text


def _manifest(
    body: Any, location_of: _FieldLocations, parent: Mapping[str, Any], *, lost: bool
) -> Document | RenderProblem | Wait:
    dependencies: tuple[Dependency, ...] = ()
    origin_of = None
    secret = (
        _secret_fields(body, [*value_paths(location_of.written, body, location_of.slots)]) if lost else NO_SECRET_FIELDS
    )
    if location_of.slots.has_tracked(location_of.node):
        tracked: list[TrackedValue | UnknownValue] = []
        traced = body
        body = strip_provenance(body, tracked)
        dependencies = dependencies_of(merge_provenance(*(value.provenance for value in tracked)))
        if any(is_content(value.provenance) for value in tracked):
            secret |= secret_fields(traced)
        if is_traced(tracked):
            origin_of = FieldOrigins(traced)
        awaited = [awaited for value in tracked if isinstance(value, UnknownValue) for awaited in value.awaited]
        if awaited and (named := _known_identity(body)) is not None and (fault := _name_fault(body["metadata"])):
            return RenderProblem(fault[1], location_of(fault[0]), (named,))
        if awaited:
            location = location_of(_first_unknown_field(body) or ())
            annotations = _known_annotations(body)
            annotations = {
                key: value for key, value in annotations.items() if not _is_foreign(key, location_of, parent)
            }
            return Wait(
                location=location,
                awaited=tuple(dict.fromkeys(awaited)),
                identity=_known_identity(body),
                version=_known_version(body),
                dependencies=merge_dependencies(dependencies, _after_dependencies(annotations, location_of)),
                annotations=annotations,
                secret=secret,
            )
    fault = _first_fault(body) or _foreign_instruction(body, location_of, parent)
    if fault is not None:
        path, message = fault
        if secret.keys:
            message = HIDDEN_RULE
        named = _known_identity(body)
        return RenderProblem(message, location_of(path), (named,) if named is not None else ())
    if body["metadata"].get("annotations"):
        dependencies = merge_dependencies(
            dependencies, _after_dependencies(body["metadata"]["annotations"], location_of)
        )
    return Document(
        body=body,
        location=location_of(()),
        location_of=location_of,
        dependencies=dependencies,
        origin_of=origin_of,
        secret=secret,
    )


def secret_fields(body: Any) -> SecretFields:
    """The fields that hold a Secret's content, of a document with provenance."""
    return _secret_fields(body, [*content_paths(body)])


def _secret_fields(body: Any, found: Sequence[tuple[FieldPath, bool]]) -> SecretFields:
    is_secret = isinstance(body, dict) and _has_text(body, "apiVersion", "v1") and _has_text(body, "kind", "Secret")

    plain = strip_provenance(body, [])
    # A Secret's entries have public names.
    keys = any(
        key or isinstance(value_at(plain, path), (dict, list))
        for path, key in found
        if not (is_secret and path in (("data",), ("stringData",)))
    )
    # A path does not have the name that is content.
    return SecretFields(tuple(dict.fromkeys(path[:-1] if key else path for path, key in found)), keys)


def dependencies_of(provenance: Iterable[Provenance]) -> tuple[Dependency, ...]:
    """The dependencies that a provenance stands for, each query once."""
    return merge_dependencies(
        Dependency(
            source.query, source.awaited, location=source.location, fields=() if source.path is None else (source.path,)
        )
        for source in dict.fromkeys(provenance)
        if not (source.of_parent or source.local)
    )


def _adds_nothing(known: Dependency, other: Dependency) -> bool:
    """Whether the dependency says all that another one of the same query does."""
    awaited = known.awaited or not other.awaited
    return awaited and (known.after or not other.after) and not other.fields


def merge_dependencies(*groups: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """The dependencies of all groups, each query once: awaited if one of them is, with the location of that one."""
    found: dict[Question, Dependency] = {}
    for dependency in itertools.chain(*groups):
        known = found.setdefault(dependency.query, dependency)
        if known is not dependency and not _adds_nothing(known, dependency):
            first = dependency if dependency.awaited and not known.awaited else known
            fields = (*known.fields, *dependency.fields)
            found[dependency.query] = replace(
                first, after=dependency.after or known.after, fields=tuple(dict.fromkeys(fields)) if fields else ()
            )
    return tuple(found.values())


def _after_dependencies(annotations: Mapping[str, Any], location_of: _FieldLocations) -> tuple[Dependency, ...]:
    """The objects that the annotation `after` names. An invalid annotation is refused later, with its manifest."""
    key = f"{PREFIX}after"
    if key not in annotations:
        return ()
    try:
        named = parse_references(annotations[key])
    except AnnotationError:
        return ()
    location = location_of(("metadata", "annotations", key))
    return tuple(Dependency(reference, awaited=True, after=True, location=location) for reference in named)


def _first_unknown_field(value: Any) -> FieldPath | None:
    """The path of the first unknown value in data without provenance."""
    if isinstance(value, UnknownValue):
        return ()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        path = () if isinstance(name, UnknownValue) else _first_unknown_field(item)
        if path is not None:
            return path if isinstance(name, UnknownValue) else (name, *path)
    return None


def _known_identity(body: Any) -> Identity | None:
    """The identity of a document that waits, None if a part of the identity is unknown."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or any(isinstance(key, UnknownValue) for key in (*body, *metadata)):
        return None
    namespace = metadata.get("namespace")
    parts = [body.get("apiVersion"), body.get("kind"), "" if namespace is None else namespace, metadata.get("name")]
    if not all(isinstance(part, str) for part in parts) or not (parts[0] and parts[1] and parts[3]):
        return None
    api_version, kind, given, name = parts
    return Identity(split_api_version(api_version)[0], kind, given, name)


def _known_version(body: Any) -> str | None:
    """The version of a document that waits, None if its identity is unknown."""
    return None if _known_identity(body) is None else split_api_version(body["apiVersion"])[1]


def _known_annotations(body: Any) -> dict[str, Any]:
    """The known annotations of a document that waits."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    known = annotations.items() if isinstance(annotations, dict) else ()
    return {
        key: value for key, value in known if not isinstance(key, UnknownValue) and not isinstance(value, UnknownValue)
    }


_TEXT = (str, type(None))


def _first_fault(body: Any) -> tuple[FieldPath, str] | None:
    if not isinstance(body, dict):
        return (), f"a manifest must be a mapping, and this is {kind_of(body)}"
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            both = field == "apiVersion" and body.get(field) is None and body.get("kind") is None
            return (field,), _not_a_string(field, body.get(field)) + (", and so is kind" if both else "")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return ("metadata",), f"metadata must be a mapping, and this is {kind_of(metadata)}"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        hint = f"; {GENERATED_NAME}" if "generateName" in metadata else ""
        return ("metadata", "name"), _not_a_string("metadata.name", metadata.get("name")) + hint
    if not isinstance(metadata.get("namespace", ""), _TEXT):
        return ("metadata", "namespace"), _not_a_string("metadata.namespace", metadata["namespace"])
    if fault := _name_fault(metadata):
        return fault
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if not isinstance(values, (dict, type(None))):
            return ("metadata", field), f"metadata.{field} must be a mapping, and this is {kind_of(values)}"
        for key, value in (values or {}).items():
            if not isinstance(value, _TEXT):
                path: FieldPath = ("metadata", field, key)
                return path, f"{field_text(path)} must be a string, and this is {kind_of(value)}; write it in quotes"
    return None


def _name_fault(metadata: Mapping[str, Any]) -> tuple[FieldPath, str] | None:
    """What is wrong with the texts that name the object in the path of each request for it."""
    for field in ("name", "namespace"):
        if fault := segment_fault(metadata.get(field) or ""):
            return ("metadata", field), f'metadata.{field} {fault}, and this is "{metadata[field]}"'
    return None


def _foreign_instruction(
    body: Any, location_of: _FieldLocations, parent: Mapping[str, Any]
) -> tuple[FieldPath, str] | None:
    for key in body["metadata"].get("annotations") or ():
        if _is_foreign(key, location_of, parent):
            message = (
                f"the annotation {key} comes with a value of the parent, and only templates instruct the operator: "
                "write it in the text of the template, or leave it out of the value"
            )
            return ("metadata", "annotations", key), message
    return None


def _is_foreign(key: str, location_of: _FieldLocations, parent: Mapping[str, Any]) -> bool:
    """Whether an annotation is an instruction that the parent may have given, in a manifest that the template gives."""
    if not key.startswith(PREFIX) or location_of.is_written(("metadata", "annotations", key)):
        return False
    whole = not location_of.is_written(("kind",)) and not location_of.is_written(("metadata",))
    return not whole and _may_have_given(parent, key)


def _may_have_given(parent: Mapping[str, Any], key: str) -> bool:
    """Whether an instruction is in the parent's labels and annotations, or a part of it in its other fields."""
    metadata = parent.get("metadata") or {}
    content = [value for field, value in parent.items() if field not in ("metadata", "status")]
    return _contains(content, PREFIX.rstrip("/")) or _contains(
        [metadata.get("labels"), metadata.get("annotations")], key
    )


def _contains(value: Any, words: str) -> bool:
    """Whether words are in a text or a key of a JSON value."""
    if isinstance(value, str):
        return words in value
    if isinstance(value, Mapping):
        return any(words in key or _contains(inner, words) for key, inner in value.items())
    return isinstance(value, list) and any(_contains(inner, words) for inner in value)


def _not_a_string(field: str, value: Any) -> str:
    if value is None:
        return f"{field} is missing"
    return f"{field} is empty" if value == "" else f"{field} must be a string, and this is {kind_of(value)}"

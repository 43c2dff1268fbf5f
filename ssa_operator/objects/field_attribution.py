"""Attributes each field of a live object to its writer: a template, the operator itself, another field manager, or the
API server.

Promises:
- Every field has exactly one attribution: every scalar, and every mapping and list without content.
- Ownership follows the object's managedFields. A manager that owns an atomic list or mapping owns everything in it, and
  a field with several owners names them all.
- A field that the operator owns leads to the template line that writes it, even if list items have another order in the
  cluster. If no template line writes it now, the attribution says so.
- A field that a template renders and another manager owns has both.
- A field without an owner is not taken for a default, because some writes leave no entry.
- An entry of managedFields names fields in its own version. A field that this version lacks is attributed to the
  managers whose entries have fields that the shown version lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.objects.field_set import FieldSet, field_set, leaves
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import HANDOVER_MANAGER, PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.managed_fields import FieldOwner, latest_first, owner_of
from ssa_operator.objects.manifest import MANAGED_BY_LABEL, Manifest
from ssa_operator.objects.merge_keys import IndexedBody, keys_of
from ssa_operator.objects.render_result import Origin
from ssa_operator.objects.scalars import is_same_amount
from ssa_operator.objects.shared_record import OWNERS_ANNOTATION
from ssa_operator.objects.source_location import FieldPath, SourceLocation, value_at

_IDENTITY: frozenset[FieldPath] = frozenset(
    {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}
)
"""Fields that managedFields never list, because an object can't be without them."""

_SERVER_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


class Writer(StrEnum):
    """Who wrote a field's value."""

    TEMPLATE = "template"
    OPERATOR = "operator"
    """The operator, without a template."""
    EARLIER_TEMPLATE = "earlier template"
    """The operator, for a template that doesn't render the field any more."""
    MANAGER = "manager"
    """Another field manager."""
    API_SERVER = "API server"
    """The API server sets the field."""
    UNRECORDED = "no manager recorded"
    """No manager owns the field: it is a default, or a write left no entry, as `kubectl scale` of a field that no entry
    had.
    """


class Attribution(Struct, frozen=True, kw_only=True):
    """One field of a live object, and its writer."""

    path: FieldPath
    value: Any
    writer: Writer
    owners: tuple[FieldOwner, ...] = ()
    """The managers that own the field, the latest first."""
    location: SourceLocation | None = None
    """The template line that renders the field, None without one."""
    origin: Origin | None = None
    """The origin of the value that this line renders; None if the render isn't traced."""
    differs: bool = False
    """Whether the template line renders another value than the live one."""
    rendered: Any = None
    """The value that the template line renders."""
    sent_path: FieldPath | None = None
    """The same field of the manifest, None if the manifest lacks it."""
    reason: str = ""
    """Why the field has its value without a template and without another manager, or that it was handed over."""


def attribute(
    live: LiveObject, manifest: Manifest | None, in_other_versions: Mapping[str, Mapping[str, Any]] = NOTHING
) -> tuple[Attribution, ...]:
    """The attribution of each field of a live object, in its order. `manifest` is what the templates render for the
    object now, None if they don't render it. `in_other_versions` has its body in the versions of managedFields, by
    apiVersion.

    `managedFields` itself is left out.
    """
    trees = [
        (owner_of(entry), field_set(bytes(entry.fields_v1)) or _OWNS_NOTHING)
        for entry in latest_first(live.managed_fields)
    ]
    body = {**live.body, "metadata": {**live.body["metadata"]}}
    body["metadata"].pop("managedFields", None)
    sent = None if manifest is None else manifest.body
    converted = _converted(live, in_other_versions)
    start = _Place((), () if sent is not None else None, IndexedBody(sent), IndexedBody(body))
    return tuple(
        _attribution(path, value, owners or _owners_elsewhere(path, converted), sent_path, manifest)
        for path, value, owners, sent_path in _fields(body, trees, start)
    )


_Trees: TypeAlias = "list[tuple[FieldOwner, FieldSet]]"
"""The owners around a field, each with its fields from there on; an empty set owns everything."""

_OWNS_NOTHING: FieldSet = {"nothing": {}}

_Field: TypeAlias = "tuple[FieldPath, Any, tuple[FieldOwner, ...], FieldPath | None]"


_Converted: TypeAlias = "list[tuple[FieldOwner, Mapping[str, Any]]]"
"""The owners of fields that the shown version lacks, each with the object's body in the owner's version."""


def _converted(live: LiveObject, in_other_versions: Mapping[str, Mapping[str, Any]]) -> _Converted:
    body = IndexedBody(live.body)
    return [
        (owner_of(entry), in_other_versions[entry.api_version])
        for entry in latest_first(live.managed_fields)
        if entry.api_version in in_other_versions
        and any(body.value_at(path) is None for path in leaves(field_set(bytes(entry.fields_v1))))
    ]


def _owners_elsewhere(path: FieldPath, converted: _Converted) -> tuple[FieldOwner, ...]:
    """The owners of a field that no entry names, and that the versions of these owners lack."""
    if path in _IDENTITY or (path[0] == "metadata" and len(path) > 1 and path[1] in _SERVER_METADATA):
        return ()
    return tuple(owner for owner, body in converted if value_at(body, path, _ABSENT) is _ABSENT)


class _Place(Struct, frozen=True):
    """A field of the live object, and the same field of the manifest."""

    path: FieldPath
    sent_path: FieldPath | None
    """None if the manifest lacks it."""
    sent: IndexedBody
    """The manifest's body."""
    live: IndexedBody
    """The live object's body."""

    def field(self, step: str | int, sent_step: str | int | None) -> _Place:
        """The field below; `sent_step` is its name or position in the manifest."""
        sent_path = None
        if self.sent_path is not None and sent_step is not None:
            sent_path = (*self.sent_path, sent_step)
            sent_path = None if value_at(self.sent.body, sent_path, _ABSENT) is _ABSENT else sent_path
        return _Place((*self.path, step), sent_path, self.sent, self.live)


_ABSENT = object()


def _fields(value: Any, trees: _Trees, place: _Place) -> Iterator[_Field]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _fields(item, _below(trees, [f"f:{key}"]), place.field(key, key))
    elif isinstance(value, list) and value:
        selecting, keyed = _selecting(value, trees, place.live), _is_keyed(trees)
        for at, item in enumerate(value):
            steps = selecting.get(at, ())
            position = _sent_position(place, steps, None if keyed else at)
            yield from _fields(item, _below(trees, steps), place.field(at, position))
    else:
        owners = tuple(owner for owner, tree in trees if not tree or "." in tree)
        yield place.path, value, owners, place.sent_path


def _below(trees: _Trees, steps: Sequence[str]) -> _Trees:
    """The owners of a field, or of fields below it, that is one step below."""
    found: _Trees = []
    for owner, tree in trees:
        if not tree:
            found.append((owner, tree))
            continue
        found += [(owner, tree[step]) for step in steps if step in tree][:1]
    return found


def _selecting(items: Sequence[Any], trees: _Trees, live: IndexedBody) -> Mapping[int, Sequence[str]]:
    """The steps of fieldsV1 that select each item of a list, by the position of the item."""
    found: dict[int, list[str]] = {}
    for step in dict.fromkeys(step for _, tree in trees for step in tree):
        for at in live.index(items).positions(step):
            found.setdefault(at, []).append(step)
    return found


def _is_keyed(trees: _Trees) -> bool:
    """Whether the items of a list are selected by keys or values, so that their positions mean nothing."""
    return any(step.startswith(("k:", "v:")) for _, tree in trees for step in tree)


def _sent_position(place: _Place, steps: Sequence[str], at: int | None) -> int | None:
    """The position of a live list's item in the manifest's list: of the item with the same keys, otherwise `at`."""
    items = None if place.sent_path is None else value_at(place.sent.body, place.sent_path)
    if not isinstance(items, list):
        return None
    index = place.sent.index(items)
    for step in steps:
        if step.startswith("i:"):
            continue
        if found := index.positions(step):
            return found[0]
        # The API server may have added a key with its default.
        partial = index.partial(keys_of(step))
        if len(partial) == 1:
            return partial[0]
    return at


def _attribution(
    path: FieldPath,
    value: Any,
    owners: tuple[FieldOwner, ...],
    sent_path: FieldPath | None,
    manifest: Manifest | None,
) -> Attribution:
    location, origin, rendered = None, None, None
    document_path = None if sent_path is None or manifest is None else _document_path(manifest, sent_path)
    if manifest is not None and sent_path is not None:
        rendered = value_at(manifest.body, sent_path)
        if document_path is not None:
            location = manifest.document.location_of(document_path)
            origin = manifest.document.origin(document_path)
    applied = any(owner.is_operator for owner in owners) or (path in _IDENTITY and not owners)
    if applied:
        in_document = document_path is not None
        writer = Writer.EARLIER_TEMPLATE if sent_path is None else Writer.TEMPLATE if in_document else Writer.OPERATOR
    else:
        writer = Writer.MANAGER if owners else Writer.API_SERVER if _is_servers(path) else Writer.UNRECORDED
    return Attribution(
        path=path,
        value=value,
        writer=writer,
        owners=owners,
        location=location,
        origin=origin,
        differs=sent_path is not None and not _is_same(rendered, value),
        rendered=rendered,
        sent_path=sent_path,
        reason=_reason(path, writer, owners),
    )


def _document_path(manifest: Manifest, sent_path: FieldPath) -> FieldPath | None:
    """The field of the rendered document that became a field of the manifest, None if the operator added it."""
    body = manifest.document.body
    if sent_path[:1] == ("data",) and value_at(body, ("stringData", *sent_path[1:]), _ABSENT) is not _ABSENT:
        return ("stringData", *sent_path[1:])
    found = value_at(body, sent_path, _ABSENT)
    if found is _ABSENT or (found is None and value_at(manifest.body, sent_path) is not None):
        return None
    if sent_path in (("metadata", "labels", MANAGED_BY_LABEL), ("metadata", "labels", PARENT_UID_LABEL)):
        return None
    return sent_path


def _is_same(rendered: Any, value: Any) -> bool:
    """Whether the API server would store the rendered value as the live one."""
    return bool(rendered == value) or is_same_amount(rendered, value)


def _reason(path: FieldPath, writer: Writer, owners: Sequence[FieldOwner]) -> str:
    """Why a field has no template and no manager, or one that stands for another; '' if there is nothing to explain."""
    if writer is Writer.MANAGER and owners[0].manager == HANDOVER_MANAGER:
        return HANDED_OVER
    if writer is Writer.OPERATOR:
        return next((why for start, why in _OPERATOR_REASONS.items() if path[: len(start)] == start), _NORMALISED)
    if writer is Writer.API_SERVER:
        return "set by the API server"
    return writer.value if writer is Writer.UNRECORDED else ""


def _is_servers(path: FieldPath) -> bool:
    return path[0] == "metadata" and len(path) == 2 and path[1] in _SERVER_METADATA


_OPERATOR_REASONS: Mapping[FieldPath, str] = {
    ("metadata", "labels", MANAGED_BY_LABEL): "label of every child",
    ("metadata", "labels", PARENT_UID_LABEL): "label of every child: the parent's uid",
    ("metadata", "annotations", OWNERS_ANNOTATION): "record of the parents that share the object",
    ("metadata", "ownerReferences"): "owner reference to the parent",
    ("metadata", "namespace"): "the parent's namespace",
}

HANDED_OVER = "handed over by the operator: it stays until another manager writes it"

_NORMALISED = "written out, so that a repeated apply changes nothing"

"""A parent of a file, as the API server returns a new object.

Promises:
- The uid is all zeros and the generation 1; fields of the metadata and the status that the file sets stay.
- Fields that the parent's CRD doesn't declare are removed, and missing fields have its defaults.
- Each reason for which the API server would refuse the parent is named with the line of its field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.status.conditions import timestamp
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.field_errors import error_field
from ssa_operator.tools.offline.template_folders import CRDKind, as_served, cluster_scoped

OFFLINE_UID = "00000000-0000-0000-0000-000000000000"


class OfflineParentError(Struct, frozen=True, kw_only=True):
    """A reason for which the API server would refuse a parent."""

    location: SourceLocation
    """The line of the field."""
    message: str
    """The API server's words."""


class PrunedField(Struct, frozen=True, kw_only=True):
    """A field that the API server removes from a parent."""

    location: SourceLocation
    message: str
    suggestion: str
    """A declared field with a similar name, as a question; '' for none."""

    def __str__(self) -> str:
        hint = f", {self.suggestion}" if self.suggestion else ""
        return f"{self.location}: {self.message}, and the API server removes it{hint}"


class ReturnedParent(Struct, frozen=True, kw_only=True):
    """A parent as the API server returns it."""

    name: str
    """Its kind and name."""
    body: dict[str, Any]
    errors: tuple[OfflineParentError, ...] = ()
    """Why the API server would refuse it."""
    pruned: tuple[PrunedField, ...] = ()
    unchecked: tuple[str, ...] = ()
    """The checks that were not made offline, with the location of the parent."""


class RefusedParentError(CommandError):
    """The API server would refuse a parent. The text has all reasons in one line, each with its line of the file."""

    def __init__(self, created: ReturnedParent) -> None:
        self.created = created
        reasons = (f"{error.message} (line {error.location.line})" for error in created.errors)
        super().__init__(f"{created.name} is invalid: {'; '.join(reasons)}")

    @property
    def lines(self) -> list[str]:
        """A line for each reason."""
        return [f"{error.location}: {self.created.name} is invalid: {error.message}" for error in self.created.errors]


def created_parent(
    parent: Document, folder: Folder, kinds: Mapping[GroupKind, CRDKind], now: float, namespace: str = "default"
) -> ReturnedParent:
    """The parent as the API server would return it if it accepted it. `now` is in seconds since the epoch.
    `namespace` is that of a parent whose file names none.

    Raises CommandError if its CRD doesn't serve its version.
    """
    served = as_served(parent.body, folder, kinds)
    name = f"{parent.body['kind']} {parent.body['metadata']['name']}"
    metadata = {
        "uid": OFFLINE_UID,
        "generation": 1,
        "resourceVersion": "0",
        "creationTimestamp": timestamp(now),
    }
    if group_kind(parent) not in cluster_scoped(kinds):
        metadata["namespace"] = namespace
    return ReturnedParent(
        name=name,
        body={**served.body, "metadata": {**metadata, **served.body["metadata"]}},
        errors=tuple(
            OfflineParentError(location=parent.location_of(error.path), message=str(error)) for error in served.errors
        ),
        pruned=tuple(_pruned_field(parent, path, kinds) for path in served.pruned),
        unchecked=tuple(f"{parent.location}: {name}: not checked offline: {each}" for each in served.unchecked),
    )


def as_created(
    parent: Document, folder: Folder, kinds: Mapping[GroupKind, CRDKind], now: float, namespace: str = "default"
) -> dict[str, Any]:
    """The parent with metadata, defaults, and a namespace if its kind has one, whether the API server would accept it
    or not. The arguments and errors are those of `created_parent`.
    """
    return created_parent(parent, folder, kinds, now, namespace).body


def _pruned_field(parent: Document, path: FieldPath, kinds: Mapping[GroupKind, CRDKind]) -> PrunedField:
    known = kinds[group_kind(parent)]
    node: Any = object_schema(known.definition, split_api_version(parent.body["apiVersion"])[1]) or {}
    for part in path[:-1]:
        inner = node.get("items") if isinstance(part, int) else (node.get("properties") or {}).get(part)
        inner = inner if isinstance(inner, Mapping) else node.get("additionalProperties")
        node = inner if isinstance(inner, Mapping) else {}
    near = near_names(str(path[-1]), node.get("properties") or ())
    return PrunedField(
        location=parent.location_of(path),
        message=f"the CRD {known.folder} declares no {error_field(path)}",
        suggestion=f"did you mean {error_field((*path[:-1], near[0]))}?" if near else "",
    )

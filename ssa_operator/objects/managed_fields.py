"""The owners of an object's fields, read from its managedFields.

Promises:
- Everything that other clients wrote there is read without an error, and hides no entry beside it.
- Finding the managers of some fields reads no other fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ssa_operator.objects.field_set import FieldSet, Path, ReadFields, checked, field_set, lacking, set_of, union
from ssa_operator.objects.identity import join_api_version
from ssa_operator.objects.live_object import MANAGER, LiveObject, ManagedFields
from ssa_operator.objects.shared_record import OWNERS_ANNOTATION

_NOT_CONTENT = frozenset({"f:apiVersion", "f:kind", "f:metadata", "f:status"})
"""The outermost fields that are no content of an object."""


class FieldOwner(Struct, frozen=True):
    """A manager that owns a field, by its entry of managedFields."""

    manager: str
    operation: str
    """`Apply` or `Update`."""
    subresource: str = ""
    """'' for the object itself."""
    time: str = ""
    """When the manager last changed its fields of the object."""

    @property
    def is_operator(self) -> bool:
        """Whether it is the entry of the operator's applies."""
        return self.manager == MANAGER and self.operation == "Apply" and not self.subresource

    def __str__(self) -> str:
        return f"{self.manager} ({self.subresource or self.operation})"


# Entries.


def managed_entries(live: LiveObject) -> list[dict[str, Any]]:
    """The entries of managedFields in the body, each with a checked `fieldsV1`. Invalid entries are left out."""
    entries = live.body["metadata"].get("managedFields")
    known: dict[str, bool] = {}
    return [
        {**entry, "fieldsV1": checked(entry.get("fieldsV1"), known)}
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and all(isinstance(entry.get(field, ""), str) for field in _TEXTS)
    ]


_TEXTS = ("manager", "operation", "subresource", "time", "apiVersion")


def entry_owner(entry: Mapping[str, Any]) -> FieldOwner:
    """The owner of an entry of `managed_entries`."""
    return FieldOwner(*(entry.get(field, "") for field in _TEXTS[:4]))


def latest_first(entries: Iterable[ManagedFields]) -> list[ManagedFields]:
    """The entries in the order of their last writes."""
    return sorted(entries, key=lambda entry: entry.time, reverse=True)


def owner_of(entry: ManagedFields) -> FieldOwner:
    """The owner of an entry."""
    return FieldOwner(entry.manager, entry.operation, entry.subresource, entry.time)


def other_entries(
    live: LiveObject, manager: str = MANAGER, read: ReadFields = field_set
) -> list[tuple[FieldOwner, FieldSet]]:
    """The owners beside a manager's applies with their fields, without those of the status."""
    return [
        (owner_of(entry), read(bytes(entry.fields_v1)))
        for entry in live.managed_fields
        if entry.subresource != "status" and (entry.manager, entry.operation) != (manager, "Apply")
    ]


def owned_by(live: LiveObject, manager: str = MANAGER, read: ReadFields = field_set) -> FieldSet:
    """The fields in a manager's Apply entries."""
    return union([read(bytes(each.fields_v1)) for each in live.managed_fields if is_apply_of(each, manager)])


def owned_content(live: LiveObject) -> FieldSet:
    """The fields that the operator owns in the content of an object."""
    return {step: below for step, below in owned_by(live).items() if step not in _NOT_CONTENT}


def is_content(path: Path) -> bool:
    """Whether a field is content of an object."""
    return path[0] not in _NOT_CONTENT


def is_apply_of(entry: ManagedFields, manager: str) -> bool:
    """Whether an entry is that of a manager's applies."""
    return (entry.manager, entry.operation, entry.subresource) == (manager, "Apply", "")


def is_in_version(entry: ManagedFields, live: LiveObject) -> bool:
    """Whether an entry names fields in the version of the object. An entry without a version does."""
    return entry.api_version in ("", join_api_version(live.identity.group, live.version))


# Questions.


def has_owned_content(live: LiveObject, body: Mapping[str, Any]) -> bool:
    """Whether a body has each field that the operator owns in the content of an object. A position in a list counts as
    a field that the body lacks.
    """
    return not lacking(owned_content(live), body)


def names_owners(path: Path) -> bool:
    """Whether a field says which parents own a shared object."""
    return path[:2] == ("f:metadata", "f:ownerReferences") or path[1:] == ("f:annotations", f"f:{OWNERS_ANNOTATION}")


def managers_of(
    live: LiveObject, paths: Sequence[Path], status: bool = False, since: str = "", read: ReadFields = field_set
) -> list[ManagedFields | None]:
    """The latest entry of a manager that owns each field, None without any.

    An entry names fields in its own version. If no entry in the version of the object has the field, it is that of the
    last other manager that has written in another version, and not before `since`.

    `status` selects the entries of the subresource `status`; otherwise all others count.
    """
    entries = [entry for entry in live.managed_fields if (entry.subresource == "status") is status]
    converted = [entry for entry in entries if not is_in_version(entry, live) and entry.time >= since]
    others = [entry for entry in converted if (entry.manager, entry.operation) != (MANAGER, "Apply")]
    latest_other = max(others, key=lambda entry: entry.time, default=None)
    owners = FieldOwners([(entry, read(bytes(entry.fields_v1))) for entry in latest_first(entries)], paths)
    return [owners.first(path) or latest_other for path in paths]


Owner = TypeVar("Owner")


class FieldOwners(Generic[Owner]):
    """Finds which of several owners have the given fields. All sets are read once, together: a set costs nothing at the
    fields that it lacks.
    """

    __slots__ = ("_owners", "_root")

    def __init__(self, entries: Sequence[tuple[Owner, FieldSet]], paths: Iterable[Path]) -> None:
        """`paths` are the fields to find."""
        self._owners = [owner for owner, _ in entries]
        self._root = _Owned([])
        self._root.read([(at, fields) for at, (_, fields) in enumerate(entries)], set_of(paths))

    def first(self, path: Path) -> Owner | None:
        """The first owner that has a field itself, or a whole value that it is in."""
        node, found = self._root, list[int]()
        for step in path:
            below = node.below.get(step)
            if below is None:
                break
            node = below
            found += node.whole[:1]
        else:
            found += node.itself[:1]
        return self._owners[min(found)] if found else None

    def covering(self, path: Path) -> tuple[Owner, ...]:
        """The owners that have a field, something below it, or a whole value that it is in."""
        node, found = self._root, set[int]()
        for step in path:
            below = node.below.get(step)
            if below is None:
                break
            node = below
            found.update(node.whole)
        else:
            found.update(node.owners)
        return tuple(self._owners[at] for at in sorted(found))


class _Owned:
    """The owners that have one field, by their positions in order."""

    __slots__ = ("below", "itself", "owners", "whole")

    def __init__(self, owners: list[int]) -> None:
        self.owners = owners
        self.itself: Sequence[int] = ()
        """The owners that have the field itself, not only fields below it."""
        self.whole: Sequence[int] = ()
        """The owners that have it with everything below."""
        self.below: dict[str, _Owned] = {}

    def read(self, sets: Sequence[tuple[int, FieldSet]], wanted: FieldSet) -> None:
        """Read the parts of the sets that belong to the wanted fields below."""
        found: dict[str, list[tuple[int, FieldSet]]] = {}
        for at, fields in sets:
            # Iterate over the smaller one: unwanted fields aren't read, and fields that the set lacks aren't searched
            # for.
            for step in fields if len(fields) < len(wanted) else wanted:
                if step in fields and step in wanted:
                    found.setdefault(step, []).append((at, fields[step]))
        for step, below in found.items():
            node = self.below[step] = _Owned([at for at, _ in below])
            node.whole = [at for at, fields in below if not fields]
            node.itself = [at for at, fields in below if not fields or "." in fields]
            if wanted[step]:
                node.read(below, wanted[step])


# Changes of the owners.


def in_version(live: LiveObject, api_version: str, *, instead_of: str) -> bytes:
    """The merge patch that replaces the version `instead_of` in an object's managedFields by `api_version`."""
    entries = managed_entries(live)
    return managed_fields_patch(
        live,
        [{**entry, "apiVersion": api_version} if entry.get("apiVersion") == instead_of else entry for entry in entries],
    )


def managed_fields_patch(live: LiveObject, entries: Sequence[Mapping[str, Any]]) -> bytes:
    """The merge patch that replaces an object's managedFields, with the resourceVersion that was read."""
    metadata = {"resourceVersion": live.resource_version, "managedFields": entries}
    return json.dumps({"metadata": metadata}, separators=(",", ":")).encode()


def with_managed_fields(live: LiveObject, entries: Sequence[Mapping[str, Any]]) -> LiveObject:
    """A live object after a patch of `managed_fields_patch`."""
    return LiveObject.of({**live.body, "metadata": {**live.body["metadata"], "managedFields": entries}})
